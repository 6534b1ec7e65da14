//! Blocks shrunk without their keys. The failures guarded against: a smaller filter lacks a key; damaged bytes get a
//! valid checksum; the stated rate, number of keys or file is wrong. `user_kinds.rs` tests shrinking of user-defined
//! kinds.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use sstfilter::kind::{self, BlockedBloomKind};
use sstfilter::{
    BitsPerKey, BlockError, BlockInfo, BuildContext, FallbackReason, FalsePositiveRate, FileId, FilterBlock,
    FixedPolicy, KeyHash, KeyHasher, KindId, LoadContext, ShrinkError, Sizing,
};

use crate::common;
use crate::common::cases::BLOCKS;

fn load(block: Bytes) -> FilterBlock<Bytes> {
    FilterBlock::load(block, &KeyHasher::default()).unwrap()
}

fn built(policy: &FixedPolicy, hashes: &[KeyHash]) -> FilterBlock<Bytes> {
    load(common::build(policy, hashes).block.unwrap())
}

fn keys(count: u32) -> Vec<KeyHash> {
    common::key_set(1, count).collect()
}

fn bits(bits: f64) -> Sizing {
    BitsPerKey::new(bits).unwrap().into()
}

fn bloom(size: f64) -> FixedPolicy {
    FixedPolicy::bloom(bits(size)).unwrap()
}

/// Ribbon filters with `upper` columns, and one less in a share of the blocks.
fn ribbon(upper: i32, lower_share: f64) -> FixedPolicy {
    common::ribbon(0.5_f64.powi(upper) * (1.0 + lower_share))
}

/// The block with at most this many bytes.
fn shrunk<D: AsRef<[u8]>>(block: &FilterBlock<D>, max_bytes: u64) -> Result<Bytes, ShrinkError> {
    block.shrink_to(max_bytes).map(FilterBlock::into_inner)
}

/// The block at every size that it can have, largest first.
fn every_size(block: &FilterBlock<Bytes>) -> Vec<FilterBlock<Bytes>> {
    let below = |block_bytes: u64| shrunk(block, block_bytes - 1).ok().map(load);
    core::iter::successors(below(block.info().block_bytes), |last| below(last.info().block_bytes)).collect()
}

fn assert_all_found(block: &FilterBlock<Bytes>, hashes: &[KeyHash]) {
    assert_eq!(common::matches(block, hashes.iter().copied()), hashes.len() as u64, "{:?}", block.info());
}

// promise: limited-memory
#[test]
fn no_key_is_lost_at_any_size_of_any_small_filter() {
    let ribbons = [(1, 0.0), (2, 0.9), (3, 0.0), (5, 0.5), (7, 0.28), (9, 0.001)];
    let policies = [1.0, 3.3, 10.0, 24.0].map(bloom).into_iter();
    let (mut of_bloom, mut of_ribbon) = (0, 0);
    for policy in policies.chain(ribbons.map(|(upper, share)| ribbon(upper, share))) {
        for count in [0, 1, 2, 63, 64, 65, 130, 500, 1_500, 5_001] {
            let hashes = keys(count);
            let sizes = every_size(&built(&policy, &hashes));
            sizes.iter().for_each(|block| assert_all_found(block, &hashes));
            let infos: Vec<BlockInfo> = sizes.iter().map(FilterBlock::info).collect();
            assert!(infos.is_sorted_by(|larger, smaller| larger.block_bytes > smaller.block_bytes));
            assert!(infos.is_sorted_by(|larger, smaller| larger.expected_fpr <= smaller.expected_fpr));
            let of_kind = sizes.iter().filter(|block| block.info().kind == KindId::RIBBON).count();
            (of_bloom, of_ribbon) = (of_bloom + sizes.len() - of_kind, of_ribbon + of_kind);
        }
    }
    assert!(of_bloom > 30 && of_ribbon > 1_000, "{of_bloom} sizes of bloom, {of_ribbon} of ribbon");
}

#[test]
fn no_key_is_lost_by_folding_any_small_number_of_lines_by_any_divisor() {
    for lines in 1..=120_u64 {
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(lines * 51);
        // Few enough for a single line.
        let hashes = keys(100);
        let block = load(common::build_in(&bloom(10.0), &context, &hashes).block.unwrap());
        let divisors = (1..lines).filter(|divisor| lines.is_multiple_of(*divisor));
        let mut sizes: Vec<u64> = divisors.map(|divisor| divisor * 64 + 36).collect();
        sizes.reverse();
        let smaller = every_size(&block);
        smaller.iter().for_each(|block| assert_all_found(block, &hashes));
        assert_eq!(smaller.iter().map(|block| block.info().block_bytes).collect::<Vec<_>>(), sizes);
    }
}

#[test]
fn shrinking_in_steps_and_at_once_gives_the_same_bytes() {
    for policy in [FixedPolicy::from(BlockedBloomKind::default().with_fold(12).unwrap()), ribbon(7, 0.28)] {
        let block = built(&policy, &keys(20_000));
        for step in block.shrink_steps().windows(2) {
            let [larger, smaller] = [step[0], step[1]].map(|(bytes, _)| bytes);
            let in_steps = shrunk(&load(shrunk(&block, larger).unwrap()), smaller);
            // A half does not fold to a third of the whole.
            if in_steps.as_ref().is_ok_and(|block| block.len() as u64 == smaller) {
                assert_eq!(in_steps, shrunk(&block, smaller), "{larger}, {smaller}");
            } else {
                assert_eq!(block.info().kind, KindId::BLOCKED_BLOOM);
            }
        }
    }
}

#[test]
fn the_steps_are_divisors_and_whole_columns_with_the_rates_that_the_blocks_then_state() {
    let folding = FixedPolicy::from(BlockedBloomKind::default().with_fold(12).unwrap());
    for (policy, expected) in [(folding, 5), (ribbon(7, 0.28), 6), (ribbon(7, 0.0), 6), (ribbon(1, 0.0), 0)] {
        let block = built(&policy, &keys(20_000));
        let steps = block.shrink_steps();
        assert!(steps.len() == expected, "{steps:?}");
        for step in steps {
            let info = load(shrunk(&block, step.0).unwrap()).info();
            assert_eq!((info.block_bytes, info.expected_fpr), step);
            let columns = common::shape_field(&info, "columns");
            assert!(columns.is_none_or(|columns| columns.parse::<u8>().is_ok()), "{columns:?}");
        }
    }
}

#[test]
fn sizes_between_the_columns_are_met_to_within_a_word_for_each_layer() {
    let block = built(&ribbon(7, 0.28), &keys(100_000));
    let (least, most) = (block.shrink_steps().last().unwrap().0, block.info().block_bytes);
    for max_bytes in (least..most).step_by(997) {
        let bytes = shrunk(&block, max_bytes).unwrap().len() as u64;
        assert!((max_bytes - 40..=max_bytes).contains(&bytes), "{bytes} of {max_bytes}");
    }
}

#[test]
fn a_shrunk_block_keeps_its_hash_file_keys_and_reason() {
    let hasher = KeyHasher::with_seed(7);
    let context = BuildContext::new(&hasher).with_file_id(FileId::from([3; 16]));
    let fallback = ribbon(7, 0.0).with_min_keys(1 << 20);
    for (policy, reason) in [(ribbon(7, 0.0), FallbackReason::None), (fallback, FallbackReason::TooFewKeys)] {
        let block = common::build_in(&policy, &context, &keys(9_999)).block.unwrap();
        let context = LoadContext::new(&hasher).with_file_id(FileId::from([3; 16]));
        let block = FilterBlock::load(block, context).unwrap();
        let (step, _) = block.shrink_steps()[0];
        let smaller = FilterBlock::load(shrunk(&block, step).unwrap(), context).unwrap();
        assert_eq!(smaller.info().block_bytes, step);
        assert_eq!(without_rate(smaller.info()), without_rate(block.info()));
        assert_eq!((smaller.info().requested, smaller.info().reason), (KindId::RIBBON, reason));
    }
}

/// The properties that shrinking does not change.
fn without_rate(info: BlockInfo) -> BlockInfo {
    let mut info = info;
    (info.block_bytes, info.payload_bytes, info.payload_checksum, info.expected_fpr) = (0, 0, 0, 0.0);
    info.shape.clear();
    info
}

#[test]
fn a_block_that_is_small_enough_is_copied() {
    for case in BLOCKS {
        let bytes = case.read();
        let block = FilterBlock::open_unverified(&bytes[..]).unwrap();
        for max_bytes in [bytes.len() as u64, u64::MAX] {
            assert_eq!(shrunk(&block, max_bytes).unwrap(), bytes, "{}", case.name);
        }
    }
}

#[test]
fn kinds_that_do_not_shrink_and_sizes_that_no_block_has_are_refused() {
    for entry in kind::all() {
        let block = built(&common::policy(entry.name, FalsePositiveRate::ONE_PERCENT), &keys(5_000));
        let (kind, block_bytes) = (entry.id, block.info().block_bytes);
        let can_shrink = [KindId::BLOCKED_BLOOM, KindId::RIBBON].contains(&kind);
        assert_eq!(shrunk(&block, block_bytes - 8).is_ok(), can_shrink, "{kind}");
        assert_eq!(block.shrink_steps().is_empty(), !can_shrink, "{kind}");
        for max_bytes in [0, 7, 8, 31, 32, 36, 40, 99] {
            let min_bytes = block.shrink_steps().last().map_or(block_bytes, |&(bytes, _)| bytes);
            let refused = Err(ShrinkError::TooSmall { kind, block_bytes, max_bytes, min_bytes });
            assert_eq!(shrunk(&block, max_bytes), refused, "{kind}");
        }
    }
}

/// 101 is prime, so the lines fold only to one, which more than about a hundred keys overfill.
// promise: limited-memory
// misuse: no-smaller-size
#[test]
fn below_the_smallest_step_an_error_names_it() {
    let of_lines = |lines: u64, count| {
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(lines * 512 / 10);
        load(common::build_in(&bloom(10.0), &context, &keys(count)).block.unwrap())
    };
    let blooms = [of_lines(101, 5_000), of_lines(101, 50), of_lines(96, 4_900), of_lines(360, 18_000)];
    let ribbons = [(7, 0.28), (1, 0.0)].map(|(upper, share)| built(&ribbon(upper, share), &keys(20_000)));
    let file = built(&ribbon(7, 0.28), &keys(2_000)).bound_to(FileId::from([3; 16]));
    let file = FilterBlock::open_unverified(file).unwrap();
    let mut smallest = Vec::new();
    for block in blooms.into_iter().chain(ribbons).chain([file]) {
        let BlockInfo { kind, block_bytes, .. } = block.info();
        let steps = block.shrink_steps();
        let min_bytes = steps.last().map_or(block_bytes, |&(bytes, _)| bytes);
        assert!(steps.iter().all(|&(_, fpr)| fpr <= 0.99));
        assert_eq!(shrunk(&block, min_bytes).unwrap().len() as u64, min_bytes);
        for max_bytes in [min_bytes - 1, min_bytes / 2, 100, 64, 0].into_iter().filter(|&most| most < min_bytes) {
            let refused = shrunk(&block, max_bytes).unwrap_err();
            assert_eq!(refused, ShrinkError::TooSmall { kind, block_bytes, max_bytes, min_bytes });
            assert!(refused.to_string().contains(&format!("at least {min_bytes} bytes")), "{refused}");
        }
        smallest.push(block_bytes / min_bytes);
    }
    // Of 101 lines all, or one; 12 of 96, 36 of 360. The trailers stay.
    assert_eq!(smallest[..4], [1, 65, 7, 9]);
}

fn assert_damage_is_seen<D: AsRef<[u8]>>(block: &FilterBlock<D>, sizes: [u64; 2]) {
    for max_bytes in sizes {
        let refused = shrunk(block, max_bytes);
        assert!(matches!(refused, Err(ShrinkError::Block(BlockError::PayloadChecksum { .. }))), "{refused:?}");
    }
}

/// Memory, or a mapped file, that changes after it was loaded.
struct Changing {
    states: [Vec<u8>; 2],
    now: AtomicUsize,
}

impl AsRef<[u8]> for Changing {
    fn as_ref(&self) -> &[u8] {
        &self.states[self.now.load(Relaxed)]
    }
}

// promise: limited-memory
#[test]
fn a_payload_that_was_damaged_after_it_was_loaded_is_not_shrunk() {
    let sound = common::build(&bloom(10.0), &keys(2_000)).block.unwrap().to_vec();
    let sizes = [sound.len() as u64 / 2, sound.len() as u64];
    let mut damaged = sound.clone();
    damaged[100] ^= 4;
    for later in [damaged, sound[..sound.len() - 1_000].to_vec(), Vec::new()] {
        let data = Changing { states: [sound.clone(), later], now: AtomicUsize::new(0) };
        let block = FilterBlock::load(&data, &KeyHasher::default()).unwrap();
        assert!(sizes.iter().all(|&size| shrunk(&block, size).is_ok()));
        data.now.store(1, Relaxed);
        assert_damage_is_seen(&block, sizes);
    }
}
