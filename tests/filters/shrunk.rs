//! Filters after folding or dropping columns. The failure guarded against: they state a wrong rate, by which a store
//! plans its memory.

use sstfilter::kind::BlockedBloomKind;
use sstfilter::{BitsPerKey, FilterBlock, FixedPolicy, KeyHash, KeyHasher, MatchBitmap};

use crate::common;

type Block = FilterBlock<bytes::Bytes>;

const SETS: u32 = 4;
const ABSENT: u32 = 1_000_000;

/// Keys of each filter.
fn keys() -> u32 {
    if common::is_long() { 250_000 } else { 100_000 }
}

/// Positives among `absent` keys of each block, which have different key sets, and the mean rate that the blocks state.
fn measure(blocks: &[Block], absent: u32) -> (f64, f64) {
    let absent: Vec<KeyHash> = common::key_set(1_000, absent).collect();
    let positives = |block: &Block| {
        let mut matches = MatchBitmap::default();
        block.may_contain_batch(&absent, &mut matches);
        matches.count()
    };
    let (count, stated) = (blocks.len() as f64, blocks.iter().map(|block| block.info().expected_fpr).sum::<f64>());
    (blocks.iter().map(positives).sum::<u64>() as f64 / (count * absent.len() as f64), stated / count)
}

fn built(policy: &FixedPolicy) -> Vec<Block> {
    let built = |set| {
        let hashes: Vec<KeyHash> = common::key_set(set, keys()).collect();
        FilterBlock::load(common::build(policy, &hashes).block.unwrap(), &KeyHasher::default()).unwrap()
    };
    (0..SETS).map(built).collect()
}

/// Each block shrunk to a size, with all its keys.
fn shrunk(blocks: &[Block], size: impl Fn(&Block) -> u64) -> Vec<Block> {
    let shrunk = |block| FilterBlock::load(block, &KeyHasher::default()).unwrap();
    let shrunk: Vec<Block> =
        blocks.iter().map(|block| shrunk(block.shrink_to(size(block)).map(FilterBlock::into_inner).unwrap())).collect();
    for (block, set) in shrunk.iter().zip(0..) {
        assert_eq!(common::matches(block, common::key_set(set, keys())), u64::from(keys()), "set {set}");
    }
    shrunk
}

/// One standard error of the rate of blocked Bloom filters. Absent keys fall into lines of different rates, because
/// lines have more or fewer keys, which set more or fewer of a lane's 64 bits. To first order, this is the variance of
/// a Poisson number of keys, and that of the number of bins that balls fall into.
fn bloom_sigma(rate: f64, probes: f64, lines: f64) -> f64 {
    let keys_per_line = f64::from(keys()) / lines;
    let clear = (-keys_per_line * probes / 512.0).exp();
    let by_keys = (probes * clear / (1.0 - clear) * probes / 512.0).powi(2) * keys_per_line;
    let by_bits = probes * clear * (1.0 - clear * (1.0 - clear.ln())) / (64.0 * (1.0 - clear).powi(2));
    let of_lines = rate * rate * (by_keys + by_bits) / (lines * f64::from(SETS));
    (rate * (1.0 - rate) / f64::from(ABSENT * SETS) + of_lines).sqrt()
}

// promise: limited-memory
#[test]
fn folded_bloom_filters_have_the_rate_that_they_state() {
    for (bits, probes) in [(10.0, 6_u8), (10.0, 3), (10.0, 8), (16.0, 9), (20.0, 11), (24.0, 12), (34.0, 16)] {
        let kind = BlockedBloomKind::configure(BitsPerKey::new(bits).unwrap()).unwrap();
        let whole = built(&FixedPolicy::from(kind.with_fold(12).unwrap().with_probes(probes).unwrap()));
        let lines = whole[0].info().payload_bytes / 64;
        for factor in [1, 2, 3, 4, 6] {
            let (rate, stated) = measure(&shrunk(&whole, |_| lines / factor * 64 + 36), ABSENT);
            let sigma = bloom_sigma(stated, probes.into(), (lines / factor) as f64);
            let deviation = (rate - stated) / sigma;
            println!(
                "{bits} bits, {probes} probes, folded by {factor}: {rate:.6}, stated {stated:.6}, {deviation:+.2} sigma"
            );
            assert!(deviation.abs() < 4.0, "{bits} bits, {probes} probes, folded by {factor}: {rate}, {stated}");
        }
    }
}

/// At one of the filters' sizes, the observed rate equals the stated one.
fn assert_ribbon_rate(whole: &[Block], what: &str, size: impl Fn(&Block) -> u64) {
    let absent = if common::is_long() { ABSENT } else { ABSENT / 4 };
    let (rate, stated) = measure(&shrunk(whole, size), absent);
    let deviation = (rate - stated) / (stated * (1.0 - stated) / f64::from(absent * SETS)).sqrt();
    println!("{what}: {rate:.6}, stated {stated:.6}, {deviation:+.2} sigma");
    assert!(deviation.abs() < 4.0, "{what}: {rate}, stated {stated}");
}

// promise: limited-memory
#[test]
fn ribbon_filters_that_lost_columns_have_the_rate_that_they_state() {
    for rate in [0.0078, 0.01, 0.0003] {
        let whole = built(&common::ribbon(rate));
        let steps = whole[0].shrink_steps().len();
        assert!(steps >= 6);
        for step in 0..steps {
            let what = format!("rate of {rate}, {} columns", steps - step);
            assert_ribbon_rate(&whole, &what, |block| block.shrink_steps()[step].0);
        }
        for percent in [97, 90, 61, 43, 20] {
            let what = format!("rate of {rate}, {percent} % of the bytes");
            assert_ribbon_rate(&whole, &what, |block| block.info().block_bytes * percent / 100);
        }
    }
}
