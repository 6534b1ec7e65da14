//! Keys chosen to make peeling fail or take long. The failure guarded against: an attacker who knows the seed writes
//! some keys, and each compaction that meets them takes hours.

use core::cell::Cell;
use std::collections::HashMap;

use super::{CellSums, Placement};
use crate::block::{FallbackReason, FilterBlock};
use crate::filter::Kind;
use crate::filter::binary_fuse::BinaryFuseKind;
use crate::filter::fingerprint::PeeledShape;
use crate::filter::xor::XorShape;
use crate::hash::{KeyHash, KeyHasher, STEP, mix64};
use crate::policy::{BuildContext, BuiltFilter, FixedPolicy};
use crate::units::Sizing;

fn build(policy: &FixedPolicy, hashes: &[u64]) -> BuiltFilter {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()));
    hashes.iter().for_each(|&hash| builder.add_hash(KeyHash::from_well_mixed(hash)));
    let built = builder.finish();
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    assert!(hashes.iter().all(|&hash| filter.may_contain(KeyHash::from_well_mixed(hash))), "a key is missing");
    built
}

/// Xor and xor+.
fn xors() -> [FixedPolicy; 2] {
    [FixedPolicy::xor, FixedPolicy::xor_plus].map(|of| of(Sizing::FingerprintBits(8)).unwrap())
}

/// For each salt, two hashes that have all their cells in common; among some ten thousand there are two.
fn inseparable<P: Placement<3>>(placements: impl Iterator<Item = P>) -> Vec<u64> {
    let pair = |placement: P| {
        let mut seen = HashMap::new();
        let hashes = (0_u64..1 << 24).map(mix64);
        let mut pairs = hashes.filter_map(|hash| Some([hash, seen.insert(placement.cells_of(hash), hash)?]));
        pairs.next().unwrap()
    };
    placements.flat_map(pair).collect()
}

fn with_others(mut chosen: Vec<u64>, keys: usize) -> Vec<u64> {
    chosen.extend((0..).map(|key| mix64(key | 1 << 50)).take(keys - chosen.len()));
    chosen
}

const FEW: usize = 1_000;

// promise: never-fails-a-write
#[test]
fn two_keys_for_each_salt_make_a_bloom_filter_of_an_xor_filter() {
    let cells = u32::try_from((FEW * 123 + 3_200).div_ceil(300)).unwrap();
    let shape = XorShape::new(8, cells);
    let chosen = inseparable((0..16).map(|salt| shape.with_salt(salt).placement()));
    for policy in xors() {
        let honest = build(&policy, &with_others(Vec::new(), FEW)).report;
        let built = build(&policy, &with_others(chosen.clone(), FEW)).report;
        assert_eq!(built.reason, FallbackReason::ConstructionFailed);
        println!(
            "{policy:?}: {} chosen keys of {FEW}: {:?}, honest {:?}",
            chosen.len(),
            built.finish_time,
            honest.finish_time
        );
        // With one pair fewer, the last salt succeeds.
        let plus = build(&policy, &with_others(chosen[..30].to_vec(), FEW)).report;
        assert_eq!((plus.reason, plus.attempts), (FallbackReason::None, 16));
    }
}

#[test]
fn two_keys_for_each_salt_make_a_bloom_filter_of_a_binary_fuse_filter() {
    let policy = FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap();
    let honest = build(&policy, &with_others(Vec::new(), FEW));
    let shape = BinaryFuseKind::new(3, Sizing::FingerprintBits(8)).unwrap().plan(FEW as u64).unwrap();
    let chosen = inseparable((0..16).map(|salt| shape.with_salt(salt).placement::<3>()));
    let built = build(&policy, &with_others(chosen, FEW)).report;
    assert_eq!(built.reason, FallbackReason::ConstructionFailed);
    println!("fuse: {:?}, honest {:?}", built.finish_time, honest.report.finish_time);
}

/// Returns the hash whose cells under salt 0 are the given ones of the second and the third block, and a cell of the
/// first block that `accepts`.
fn hash_at(second: u64, third: u64, block_cells: u64, noise: u64, mut accepts: impl FnMut(u64) -> bool) -> u64 {
    // The first 21 bits of the middle of the cell's range.
    let top = |cell: u64| u64::try_from(((u128::from(2 * cell + 1) << 63) / u128::from(block_cells)) >> 43).unwrap();
    let salted = |low: u64| top(second) << 43 | top(third) << 22 | low & ((1 << 22) - 1);
    (0..1 << 32)
        .map(|attempt| unsalted(salted(mix64(noise << 32 | attempt))))
        .find(|&hash| accepts(map(hash, block_cells)))
        .unwrap()
}

fn map(bits: u64, range: u64) -> u64 {
    u64::try_from((u128::from(bits) * u128::from(range)) >> 64).unwrap()
}

/// Undoes [`KeyHash::salted`] for salt 0.
fn unsalted(salted: u64) -> u64 {
    let product = salted ^ salted >> 32;
    let odd = 0x243f_6a88_85a3_08d3_u64;
    let inverse = (0..6).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))));
    product.wrapping_mul(inverse) ^ STEP
}

/// Keys that form a chain: each scan of all cells peels only two links, because each second link is a cell of the third
/// block, before that of the link above it.
fn chain(keys: u64) -> Vec<u64> {
    let block_cells = (keys * 123 + 3_200).div_ceil(300);
    let links = block_cells * 9 / 10 * 2;
    let region = links / 200 + 2;
    let mut taken = vec![0_u16; usize::try_from(region).unwrap()];
    // The lower end is knotted; otherwise the chain would come off from there in one scan.
    let mut hashes: Vec<u64> = (0..links + 2)
        .map(|link| {
            let (second, third) = (link.min(links) / 2, block_cells - 1 - link.min(links - 1).div_ceil(2));
            hash_at(second, third, block_cells, link, |first| {
                let taken =
                    usize::try_from(first).ok().and_then(|first| taken.get_mut(first)).filter(|taken| **taken < 240);
                taken.map(|taken| *taken += 1).is_some()
            })
        })
        .collect();
    // The other keys come off at once, each alone in its cell of the first block.
    let alone = |key| u64::try_from((u128::from(2 * (region + key) + 1) << 63) / u128::from(block_cells)).unwrap();
    hashes.extend((0..keys - links - 2).map(alone));
    hashes
}

/// Without a limit of scans, 40,000 keys took 3 s, and four times as many sixteen times as long.
// promise: never-fails-a-write
#[test]
fn a_chain_of_keys_is_given_up_soon_and_the_next_salt_serves() {
    let keys = 40_000;
    let [xor, plus] = xors();
    let honest = build(&plus, &with_others(Vec::new(), keys)).report;
    let chosen = chain(keys as u64);
    let built = build(&plus, &chosen).report;
    let times = built.finish_time.as_secs_f64() / honest.finish_time.as_secs_f64();
    println!("xor+, {keys} keys in a chain: {:?}, {times:.0} times as long as honest ones", built.finish_time);
    assert_eq!((built.reason, built.attempts), (FallbackReason::None, 2));
    // If no cells have to stay empty, the chain comes off in one scan.
    assert_eq!(build(&xor, &chosen).report.attempts, 1);
}

/// Counts the keys whose cells are computed.
#[derive(Clone, Copy)]
struct Counting<'a, P>(P, &'a Cell<u64>);

impl<P: Placement<3>> Placement<3> for Counting<'_, P> {
    fn place(&self, hash: u64) -> ([usize; 3], u32) {
        self.1.set(self.1.get() + 1);
        self.0.place(hash)
    }
}

#[test]
fn a_chain_of_keys_is_scanned_a_hundred_times_and_no_more() {
    let keys = 40_000_u64;
    let block_cells = (keys * 123 + 3_200).div_ceil(300);
    let in_chain = block_cells * 9 / 10 * 2 + 2;
    let placement = XorShape::new(8, u32::try_from(block_cells).unwrap()).placement();
    let hashes: Vec<KeyHash> = chain(keys).into_iter().map(KeyHash::from_well_mixed).collect();
    let peeled = |reserve: u64| {
        let (peeled, mut sums) = (Cell::new(0), CellSums::new(3 * block_cells).unwrap());
        sums.add_all(placement, hashes.iter().copied()).unwrap();
        let order = sums.peel(Counting(placement, &peeled), usize::try_from(reserve).unwrap());
        (order.is_ok(), peeled.get())
    };
    let (is_done, taken_off) = peeled(2 * block_cells);
    println!("{taken_off} of {keys} keys taken off, {in_chain} of them in the chain");
    assert!(!is_done);
    // The first scan takes off all keys outside the chain, and each scan two or three keys of the chain.
    let scans = 100;
    assert!((2 * scans - 2..=3 * scans).contains(&(taken_off - (keys - in_chain))), "{taken_off} keys taken off");
    assert_eq!(peeled(3 * block_cells), (true, keys));
}
