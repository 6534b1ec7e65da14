//! Containers of a few partitions. The failure guarded against: a key is added to one partition, looked up in another,
//! and so lost.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc32c::crc32c as checksum;
use sstfilter::internal::varint::put_varint;
use sstfilter::{
    AutoPolicy, BlockBuilder, BlockError, BlockIdentity, BuildContext, BuiltFilter, FallbackReason, FalsePositiveRate,
    FileId, FilterBlock, FilterPolicy, Filters, FixedPolicy, FixedPrefix, KeyHash, KeyHasher, KeyParts, LoadContext,
};

use super::build::odd_partitions;
use super::trailer::ContainerTrailer;
use super::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};
use crate::codec::put_item;
use crate::error::FilterProblem;

const CUTS: [PartitionCut; 2] = [PartitionCut::KeyRange, PartitionCut::HashRange];

fn bloom() -> Arc<dyn FilterPolicy> {
    Arc::new(FixedPolicy::default())
}

/// A policy whose builders come from a function.
struct Making<F>(F);

impl<F: Fn(&BuildContext) -> Option<Box<dyn BlockBuilder>> + Send + Sync> FilterPolicy for Making<F> {
    fn name(&self) -> &'static str {
        "making"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        self.0(context)
    }
}

impl<F> fmt::Debug for Making<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Making")
    }
}

fn builder(policy: Arc<dyn FilterPolicy>, cut: PartitionCut) -> PartitionedBuilder {
    let context = BuildContext::new(&KeyHasher::default());
    PartitionedBuilder::new(policy, &context, PartitionOptions::new(cut, 1 << 10).unwrap())
}

fn build(policy: Arc<dyn FilterPolicy>, cut: PartitionCut, keys: &[Vec<u8>]) -> BuiltFilter {
    build_in(&BuildContext::new(&KeyHasher::default()), policy, cut, keys)
}

fn build_in(context: &BuildContext, policy: Arc<dyn FilterPolicy>, cut: PartitionCut, keys: &[Vec<u8>]) -> BuiltFilter {
    let mut builder = PartitionedBuilder::new(policy, context, PartitionOptions::new(cut, 1 << 10).unwrap());
    keys.iter().for_each(|key| builder.add_key(key));
    builder.finish()
}

/// A container of these parts of keys.
fn of_parts(parts: &KeyParts, cut: PartitionCut, keys: &[Vec<u8>]) -> BuiltFilter {
    build_in(&BuildContext::new(&KeyHasher::default()).with_key_parts(parts.clone()), bloom(), cut, keys)
}

/// Whole keys, and their first bytes.
fn with_prefix(length: usize) -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(length)))
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key-{number:06}").into_bytes()).collect()
}

fn load(container: &[u8]) -> PartitionIndex {
    PartitionIndex::load(tail_of(container), &KeyHasher::default()).unwrap()
}

fn tail_of(container: &[u8]) -> &[u8] {
    let end = container.len().saturating_sub(PartitionIndex::MAX_END_BYTES);
    let tail_bytes = PartitionIndex::tail_bytes(&container[end..]).unwrap() as usize;
    &container[container.len() - tail_bytes..]
}

fn block_of(index: &PartitionIndex, container: &[u8], number: u32) -> Vec<u8> {
    let range = index.block_range(number).unwrap();
    container[range.start as usize..range.end as usize].to_vec()
}

fn lower_bounds(index: &PartitionIndex) -> Vec<Vec<u8>> {
    (0..index.partitions()).map(|number| index.lower_bound(number)).collect()
}

/// Returns whether the key may be in the file, read as an engine would.
fn probe(index: &PartitionIndex, container: &[u8], key: &[u8]) -> Result<bool, FilterProblem> {
    probe_hash(index, container, key, KeyHasher::default().hash(key))
}

fn probe_hash(index: &PartitionIndex, container: &[u8], key: &[u8], hash: KeyHash) -> Result<bool, FilterProblem> {
    let (number, hash) = index.locate(key, hash);
    Ok(index.open(number, block_of(index, container, number))?.may_contain(hash))
}

/// Returns the index after reading the partitions that must hold known keys.
fn checked(container: &[u8], context: LoadContext<'_>) -> (PartitionIndex, Result<(), FilterProblem>) {
    let index = PartitionIndex::load(tail_of(container), context).unwrap();
    let verdict = index.check_known_keys(|number| Ok(block_of(&index, container, number)));
    (index, verdict)
}

#[test]
fn every_key_is_in_its_partition_whatever_the_cut_the_policy_and_the_number_of_keys() {
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap();
    let policies: [Arc<dyn FilterPolicy>; 3] = [bloom(), Arc::new(ribbon), Arc::new(AutoPolicy::default())];
    for policy in policies {
        for (cut, count) in CUTS.into_iter().flat_map(|cut| [0, 1, 2, 600, 2_000, 40_000].map(|count| (cut, count))) {
            let keys = numbered(count);
            let built = build(policy.clone(), cut, &keys);
            let (report, container) = (built.report, built.block.unwrap());
            let index = load(&container);
            assert_eq!((index.keys(), report.distinct_keys), (count.into(), count.into()), "{cut:?}");
            assert_eq!((index.container_bytes(), report.block_bytes), (container.len() as u64, container.len() as u64));
            assert_eq!(index.partitions() > 1, count > 600, "{cut:?} {count}");
            assert!(keys.iter().all(|key| probe(&index, &container, key) == Ok(true)), "{cut:?} {count}");
            let absent = |number: u32| probe(&index, &container, format!("none-{number}").as_bytes()).unwrap();
            assert!((0..1_000).filter(|&number| absent(number)).count() < 40, "{cut:?} {count}");
        }
    }
}

#[test]
fn partitions_are_full_begin_at_lines_and_stay_below_the_target() {
    let keys = numbered(20_000);
    for cut in CUTS {
        let index = load(&build(bloom(), cut, &keys).block.unwrap());
        let ranges: Vec<_> = (0..index.partitions()).map(|number| index.block_range(number).unwrap()).collect();
        for range in &ranges {
            assert!(range.start % 64 == 0 && range.end - range.start <= 1 << 10, "{cut:?} {range:?}");
        }
        let full = ranges.iter().filter(|range| range.end - range.start > 800).count();
        assert!(full + 1 >= ranges.len(), "{cut:?}: {full} of {} partitions are full", ranges.len());
    }
}

#[test]
fn hashes_are_cut_into_an_odd_number_of_partitions_below_their_target() {
    // Four standard deviations below the target, but never below half of it.
    assert_eq!(odd_partitions(60_000, 1_000), Some(69));
    assert_eq!([odd_partitions(60_001, 16), odd_partitions(60_000, 16)], [Some(7_501); 2]);
    assert_eq!([odd_partitions(0, 1_000), odd_partitions(1, 0)], [Some(1); 2]);
    let most = (1 << 24) - 1;
    assert_eq!([odd_partitions(most, 1), odd_partitions(most + 1, 1)], [Some(most as u32), None]);
}

#[test]
fn an_estimate_is_near_what_is_written() {
    for (cut, count) in CUTS.into_iter().flat_map(|cut| [0, 1, 300, 700, 5_000, 40_000].map(|count| (cut, count))) {
        let mut builder = builder(bloom(), cut);
        numbered(count).iter().for_each(|key| builder.add_key(key));
        let estimated = builder.estimated_bytes();
        let written = builder.finish().block.unwrap().len() as u64;
        assert!(written.abs_diff(estimated) <= written / 16 + 80, "{cut:?}, {count} keys: {written}, not {estimated}");
    }
}

#[test]
fn a_partition_is_no_filter_of_the_file() {
    let keys = numbered(5_000);
    let container = build(bloom(), PartitionCut::KeyRange, &keys).block.unwrap();
    let index = load(&container);
    let bytes = &block_of(&index, &container, 0)[..];
    let (hasher, hash) = (KeyHasher::default(), KeyHasher::default().hash(&keys[4_999]));
    assert_eq!(FilterBlock::load(bytes, &hasher).err(), Some(BlockError::Partition));
    assert_eq!(FilterBlock::open_unverified(bytes).err(), Some(BlockError::Partition));
    assert_eq!(FilterBlock::probe_unverified(bytes, hasher.identity(), hash), Err(BlockError::Partition));
    let opened = index.open(0, bytes).unwrap();
    assert!(!opened.may_contain(hash), "else this shows nothing");
    assert!(!Filters::default().reader(Ok(opened.clone())).probe_hash(hash).is_absent());
    let rebound = opened.bound_to(FileId::new(b"file").unwrap());
    assert!(FilterBlock::open_unverified(rebound).is_err());
}

#[test]
fn an_ordinary_block_is_no_partition() {
    let keys = numbered(100);
    let mut whole = bloom().builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    keys.iter().for_each(|key| whole.add_key(key));
    let block = whole.finish().block.unwrap();
    let container = build(bloom(), PartitionCut::KeyRange, &keys).block.unwrap();
    assert_eq!(load(&container).open(0, &block[..]).err(), Some(BlockError::NotAPartition.into()));
}

#[test]
fn keys_that_do_not_ascend_give_no_filter_and_are_reported() {
    let mut out_of_order = builder(bloom(), PartitionCut::KeyRange);
    [b"b", b"c", b"a", b"d"].into_iter().for_each(|key| out_of_order.add_key(key));
    let built = out_of_order.finish();
    assert_eq!(built.report.reason, FallbackReason::KeysOutOfOrder);
    assert!(built.report.used.is_none() && built.block.is_none());
    let mut by_hash = builder(bloom(), PartitionCut::HashRange);
    [b"b", b"c", b"a", b"d"].into_iter().for_each(|key| by_hash.add_key(key));
    assert!(by_hash.finish().block.is_some());
}

#[test]
fn a_hash_function_that_panics_leaves_no_filter() {
    for cut in CUTS {
        let hasher = KeyHasher::custom(7, |key| {
            assert!(key != b"b", "the engine's own fault");
            KeyHash::mix(key.len() as u64)
        });
        let options = PartitionOptions::new(cut, 1 << 10).unwrap();
        let mut builder = PartitionedBuilder::new(bloom(), &BuildContext::new(&hasher), options);
        builder.add_key(b"a");
        assert!(catch_unwind(AssertUnwindSafe(|| builder.add_key(b"b"))).is_err());
        builder.add_key(b"c");
        let built = builder.finish();
        assert_eq!((built.block, built.report.reason), (None, FallbackReason::Panicked));
    }
}

/// A policy that declines for, or panics at, the second partition.
fn moody(panics: bool) -> Arc<dyn FilterPolicy> {
    let calls = AtomicU32::new(0);
    Arc::new(Making(move |context: &BuildContext| {
        let is_second = calls.fetch_add(1, Ordering::Relaxed) == 1;
        assert!(!(is_second && panics), "the engine's own fault");
        (!is_second).then(|| FixedPolicy::default().builder(context))
    }))
}

#[test]
fn a_policy_that_declines_for_one_partition_leaves_its_keys_to_the_search_and_no_others() {
    let keys = numbered(3_000);
    let built = build(moody(false), PartitionCut::KeyRange, &keys);
    let container = built.block.unwrap();
    let index = load(&container);
    let [second, third] = [1, 2].map(|number| index.lower_bound(number));
    for key in &keys {
        match probe(&index, &container, key) {
            Err(FilterProblem::WithoutFilter) => assert!(*key >= second && *key < third),
            answer => assert!(answer == Ok(true) && !(*key >= second && *key < third)),
        }
    }
}

// promise: documented-use
#[test]
fn a_known_key_in_a_partition_without_a_filter_leaves_the_others_in_use() {
    let (hasher, keys) = (KeyHasher::default(), numbered(3_000));
    for cut in CUTS {
        let built = build(moody(false), cut, &keys);
        let container = built.block.unwrap();
        let index = load(&container);
        let is_without = |key: &&Vec<u8>| probe(&index, &container, key) == Err(FilterProblem::WithoutFilter);
        let without: Vec<&[u8]> = keys.iter().filter(is_without).map(|key| &key[..]).collect();
        let with = keys.iter().find(|key| !is_without(key)).unwrap();
        let absent = |known: &[&[u8]]| {
            let context = LoadContext::new(&hasher).with_known_keys(known);
            let (index, _) = checked(&container, context);
            assert!(keys.iter().all(|key| probe(&index, &container, key) != Ok(false)));
            let none = |number: &u32| format!("key-{number:06}x").into_bytes();
            (0..3_000).filter(|number| probe(&index, &container, &none(number)) == Ok(false)).count()
        };
        let all = absent(&[]);
        assert!(all > 1_500 && absent(&[without[0], with]) == all, "{cut:?}");
        assert_eq!(absent(&without[..1]), 0, "{cut:?}: no partition confirms it");
    }
}

#[test]
fn a_damaged_partition_of_a_known_key_ends_the_check_and_no_partition_opens() {
    let (hasher, keys) = (KeyHasher::default(), numbered(3_000));
    let mut damaged = build(bloom(), PartitionCut::KeyRange, &keys).block.unwrap().to_vec();
    damaged[0] ^= 1;
    let known = [&keys[0][..], &keys[2_999]];
    let context = LoadContext::new(&hasher).with_known_keys(&known);
    let index = PartitionIndex::load(tail_of(&damaged), context).unwrap();
    assert!(index.partitions() >= 3);
    let mut read = Vec::new();
    let checked = index.check_known_keys(|number| {
        read.push(number);
        Ok(block_of(&index, &damaged, number))
    });
    assert!(matches!(checked, Err(FilterProblem::PartitionChecksum { number: 0, .. })), "{checked:?}");
    assert_eq!(read, [0]);
    let opened = |number| index.open(number, block_of(&index, &damaged, number));
    assert!((0..index.partitions()).all(|number| opened(number).is_err()));
}

#[test]
fn a_policy_that_panics_at_a_cut_leaves_no_filter() {
    let mut builder = builder(moody(true), PartitionCut::KeyRange);
    for key in numbered(5_000) {
        let _ = catch_unwind(AssertUnwindSafe(|| builder.add_key(&key)));
    }
    let built = builder.finish();
    assert_eq!((built.block, built.report.reason), (None, FallbackReason::Panicked));
}

#[test]
fn a_policy_without_filters_gives_no_container() {
    let built = build(Arc::new(Making(|_: &BuildContext| None)), PartitionCut::KeyRange, &numbered(10_000));
    assert_eq!(built.report.reason, FallbackReason::None);
    assert!(built.report.used.is_none() && built.block.is_none());
}

#[test]
fn what_a_builder_of_the_engines_gives_is_used_only_if_it_is_an_unbound_block_of_the_hash() {
    #[derive(Debug)]
    struct Wrapped(Box<dyn BlockBuilder>);
    impl BlockBuilder for Wrapped {
        fn add_key(&mut self, key: &[u8]) {
            self.0.add_key(key);
        }
        fn add_hash(&mut self, hash: KeyHash) {
            self.0.add_hash(hash);
        }
        fn estimated_bytes(&self) -> u64 {
            self.0.estimated_bytes()
        }
        fn finish(self: Box<Self>) -> BuiltFilter {
            BuiltFilter::new(Some(Bytes::from_static(b"compressed")), self.0.finish().report)
        }
    }
    let bound = BuildContext::new(&KeyHasher::default()).with_file_id(FileId::new(b"file").unwrap());
    let of_other_hash = BuildContext::new(&KeyHasher::with_seed(9));
    let foreign = |context: BuildContext| {
        Arc::new(Making(move |_: &BuildContext| Some(FixedPolicy::default().builder(&context))))
    };
    let garbage = |context: &BuildContext| -> Option<Box<dyn BlockBuilder>> {
        Some(Box::new(Wrapped(FixedPolicy::default().builder(context))))
    };
    let policies: [Arc<dyn FilterPolicy>; 3] = [foreign(bound), foreign(of_other_hash), Arc::new(Making(garbage))];
    for policy in policies {
        let built = build(policy, PartitionCut::KeyRange, &numbered(2_000));
        assert!(built.block.is_none() && built.report.reason == FallbackReason::ConstructionFailed);
    }
}

#[test]
fn equal_keys_stay_together_though_their_hashes_overfill_a_partition() {
    let mut builder = builder(bloom(), PartitionCut::KeyRange);
    for number in 0..3_000_u64 {
        builder.add_hash(b"same", KeyHash::mix(number));
    }
    builder.add_hash(b"same!", KeyHash::mix(7));
    let container = builder.finish().block.unwrap();
    let index = load(&container);
    assert_eq!(lower_bounds(&index), [&b""[..], b"same!"]);
    for number in 0..3_000_u64 {
        assert_eq!(index.locate(b"same", KeyHash::mix(number)), (0, KeyHash::mix(number)));
        assert_eq!(probe_hash(&index, &container, b"same", KeyHash::mix(number)), Ok(true));
    }
}

#[test]
fn keys_outside_all_bounds_and_prefixes_of_bounds_have_a_partition() {
    let mut builder = builder(bloom(), PartitionCut::KeyRange);
    numbered(5_000).iter().for_each(|key| builder.add_key(key));
    let index = load(&builder.finish().block.unwrap());
    let bounds = lower_bounds(&index);
    assert!(bounds.is_sorted_by(|one, other| one < other));
    let place = |key: &[u8]| index.locate(key, KeyHash::mix(0)).0 as usize;
    let huge = vec![0xff; 1 << 20];
    assert_eq!((place(b""), place(&huge)), (0, bounds.len() - 1));
    for bound in &bounds {
        for key in (0..=bound.len()).map(|length| &bound[..length]).chain([&[bound, &b"\0"[..]].concat()[..]]) {
            let expected = bounds.iter().rposition(|bound| &bound[..] <= key).unwrap();
            assert_eq!(place(key), expected, "{key:?}");
        }
    }
    assert_eq!(lower_bounds(&index), bounds);
}

#[test]
fn every_partition_with_keys_of_a_prefix_is_probed_for_it() {
    let hasher = KeyHasher::default();
    for cut in CUTS {
        let parts = with_prefix(8);
        let keys: Vec<Vec<u8>> =
            (0..6_000).map(|number| format!("tenant-{}/{number:06}", number / 2_000).into_bytes()).collect();
        let built = of_parts(&parts, cut, &keys);
        assert!(built.report.distinct_keys < 6_100, "neighbours share their prefix");
        let container = built.block.unwrap();
        let reader = LoadContext::new(&hasher).with_key_parts(&parts);
        let index = PartitionIndex::load(tail_of(&container), reader).unwrap();
        for key in &keys {
            // The partition of each key must be among those probed for its prefix, and contain the prefix.
            let (own, _) = index.locate(key, hasher.hash(key));
            let holds =
                |number, hash| index.open(number, block_of(&index, &container, number)).unwrap().may_contain(hash);
            let places = index.partitions_with_prefix(&parts.prefix(&hasher, &key[..8])).unwrap();
            let hits: Vec<u32> =
                places.filter(|&(number, hash)| holds(number, hash)).map(|(number, _)| number).collect();
            assert!(!hits.is_empty() && (cut == PartitionCut::HashRange || hits.contains(&own)), "{cut:?} {key:?}");
        }
        let beside = index.partitions_with_prefix(&parts.prefix(&hasher, b"tenant-9")).unwrap().count();
        assert_eq!(beside, 1, "{cut:?}");
    }
}

#[test]
fn a_prefix_of_a_part_that_the_filter_does_not_hold_has_no_places() {
    let hasher = KeyHasher::default();
    for (cut, written) in CUTS.into_iter().flat_map(|cut| [(cut, KeyParts::whole_keys()), (cut, with_prefix(4))]) {
        let container = of_parts(&written, cut, &numbered(5_000)).block.unwrap();
        let probed = with_prefix(8);
        let context = LoadContext::new(&hasher).with_key_parts(&probed);
        let index = PartitionIndex::load(tail_of(&container), context).unwrap();
        let refused = index.partitions_with_prefix(&probed.prefix(&hasher, b"key-0012")).map(Iterator::count);
        assert_eq!(refused, Err(BlockError::PartNotHeld), "{cut:?}");
        let refused = index.partitions_with_prefix(&probed.prefix(&hasher, b"no-such-prefix")).map(Iterator::count);
        assert_eq!(refused, Err(BlockError::PartNotHeld), "{cut:?}");
    }
}

#[test]
fn a_container_of_parts_alone_is_absent_for_no_key() {
    let hasher = KeyHasher::default();
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(4)));
    for cut in CUTS {
        let container = of_parts(&parts, cut, &numbered(5_000)).block.unwrap();
        let refused = PartitionIndex::load(tail_of(&container), &hasher).unwrap_err();
        assert!(matches!(refused, FilterProblem::Block(BlockError::ExtractorMismatch { .. })), "{refused}");
        let context = LoadContext::new(&hasher).with_key_parts(&parts);
        let index = PartitionIndex::load(tail_of(&container), context).unwrap();
        let may_contain_prefix = |prefix: &[u8]| {
            let prefix = parts.prefix(&hasher, prefix);
            let mut places = index.partitions_with_prefix(&prefix).unwrap();
            let open = |number| index.open(number, block_of(&index, &container, number)).unwrap();
            places.any(|(number, hash)| open(number).may_contain(hash))
        };
        for key in numbered(5_000) {
            let (number, _) = index.locate(&key, hasher.hash(&key));
            assert!(index.block_range(number).is_err() && index.open(number, &[][..]).is_err(), "no block is probed");
            assert!(may_contain_prefix(&key));
        }
        assert!(!may_contain_prefix(b"abcd"));
    }
}

/// A custom hash with this multiplier, always under the same tag.
fn custom(multiplier: u64) -> KeyHasher {
    KeyHasher::custom(7, move |key| {
        KeyHash::mix(key.iter().fold(multiplier, |hash, &byte| hash.wrapping_mul(multiplier | 1) ^ u64::from(byte)))
    })
}

// promise: documented-use
#[test]
fn no_partition_opens_before_one_that_must_hold_a_known_key_was_seen_to() {
    let (before, after) = (custom(0x9e37_79b9), custom(0x1234_5679));
    let keys = numbered(5_000);
    let known = [&keys[0][..], &keys[4_999]];
    for cut in CUTS {
        let container = build_in(&BuildContext::new(&before), bloom(), cut, &keys).block.unwrap();
        for (hasher, is_right) in [(&before, true), (&after, false)] {
            let context = LoadContext::new(hasher).with_known_keys(&known);
            let index = PartitionIndex::load(tail_of(&container), context).unwrap();
            let first: Vec<u32> = index.unchecked_partitions().collect();
            let other = (0..index.partitions()).find(|number| !first.contains(number)).unwrap();
            let early = index.open(other, block_of(&index, &container, other)).map(drop);
            assert_eq!(early, Err(FilterProblem::KnownKeysUnchecked { partition: first[0] }), "{cut:?}");

            let checked = index.check_known_keys(|number| Ok(block_of(&index, &container, number)));
            assert_eq!(checked.is_ok(), is_right, "{cut:?}");
            assert_eq!(index.unchecked_partitions().count(), 0);
            for number in 0..index.partitions() {
                let opened = index.open(number, block_of(&index, &container, number));
                assert_eq!(opened.is_ok(), is_right, "{cut:?}, partition {number}");
            }
            let is_negative = |key: &Vec<u8>| probe_hash(&index, &container, key, hasher.hash(key)) == Ok(false);
            assert!(!keys.iter().any(is_negative), "{cut:?}");
        }
    }
}

/// No other partition may show what an unreadable one would show, for instance of an extractor that changed for some
/// keys.
// promise: documented-use
#[test]
fn no_partition_opens_while_one_that_must_hold_a_known_key_cannot_be_read() {
    let hasher = KeyHasher::default();
    let keys = numbered(5_000);
    let container = build(bloom(), PartitionCut::KeyRange, &keys).block.unwrap();
    let known = [&keys[0][..], &keys[4_999]];
    let context = LoadContext::new(&hasher).with_known_keys(&known);
    let index = PartitionIndex::load(tail_of(&container), context).unwrap();
    let last = index.partitions() - 1;
    let bad_disk = FilterProblem::from(BlockError::Unreadable { reason: "a bad disk".into() });
    for unreadable in [vec![0, last], vec![0], vec![last], vec![]] {
        let checked = index.check_known_keys(|number| {
            let is_readable = !unreadable.contains(&number);
            is_readable.then(|| block_of(&index, &container, number)).ok_or_else(|| bad_disk.clone())
        });
        assert_eq!(checked, if unreadable.is_empty() { Ok(()) } else { Err(bad_disk.clone()) }, "{unreadable:?}");
        assert_eq!(index.open(1, block_of(&index, &container, 1)).is_ok(), unreadable.is_empty(), "{unreadable:?}");
    }
}

/// Whole keys say nothing about an extractor that changed under its name: its parts are in other partitions.
// promise: documented-use
#[test]
fn no_partition_opens_before_all_that_must_hold_parts_of_a_known_key_were_read() {
    let hasher = KeyHasher::default();
    let (parts, keys) = (with_prefix(8), numbered(5_000));
    let container = of_parts(&parts, PartitionCut::HashRange, &keys).block.unwrap();
    let context = LoadContext::new(&hasher).with_key_parts(&parts);
    let index_with =
        |known: &[&[u8]]| PartitionIndex::load(tail_of(&container), context.with_known_keys(known)).unwrap();
    let is_in_two = |key: &&Vec<u8>| index_with(&[key]).unchecked_partitions().count() == 2;
    let known = [&keys.iter().find(is_in_two).unwrap()[..]];
    let index = || index_with(&known);
    let of_whole_keys = known.map(|key| index().locate(key, hasher.hash(key)).0);
    let of_parts: Vec<u32> = index().unchecked_partitions().filter(|number| !of_whole_keys.contains(number)).collect();

    let asked = index();
    for number in of_whole_keys {
        let opened = asked.open(number, block_of(&asked, &container, number)).map(drop);
        assert!(matches!(opened, Err(FilterProblem::KnownKeysUnchecked { .. })), "{opened:?}");
    }
    let bad_disk = FilterProblem::from(BlockError::Unreadable { reason: "a bad disk".into() });
    for (unreadable, is_usable) in [(&of_parts[..], false), (&of_whole_keys[..], false), (&[][..], true)] {
        let index = index();
        let checked = index.check_known_keys(|number| {
            let is_readable = !unreadable.contains(&number);
            is_readable.then(|| block_of(&index, &container, number)).ok_or_else(|| bad_disk.clone())
        });
        assert_eq!(checked, if is_usable { Ok(()) } else { Err(bad_disk.clone()) }, "{unreadable:?}");
        for number in (0..index.partitions()).filter(|number| !unreadable.contains(number)) {
            assert_eq!(index.open(number, block_of(&index, &container, number)).is_ok(), is_usable, "{unreadable:?}");
        }
    }
}

#[test]
fn the_memory_of_an_index_counts_its_known_keys() {
    let keys = numbered(3_000);
    let container = build(bloom(), PartitionCut::KeyRange, &keys).block.unwrap();
    let hasher = KeyHasher::default();
    let with = |known: &[&[u8]]| {
        let context = LoadContext::new(&hasher).with_known_keys(known);
        PartitionIndex::load(tail_of(&container), context).unwrap().memory_bytes()
    };
    let one_more = with(&[&keys[0], &keys[2_999]]) - with(&[&keys[0]]);
    assert_eq!(one_more, size_of::<(u32, KeyHash, OnceLock<bool>)>());
}

#[test]
fn a_container_is_loaded_for_its_own_file_and_hash_only() {
    let file = FileId::new(b"a file").unwrap();
    let hasher = KeyHasher::default();
    let context = BuildContext::new(&hasher).with_file_id(file);
    let container = build_in(&context, bloom(), PartitionCut::KeyRange, &numbered(1)).block.unwrap();
    let tail = tail_of(&container);
    let own = LoadContext::new(&hasher).with_file_id(file);
    assert_eq!(PartitionIndex::load(tail, own).unwrap().file(), Some(file));
    assert!(matches!(PartitionIndex::load(tail, &hasher), Err(FilterProblem::Block(BlockError::FileMismatch { .. }))));
    let other = LoadContext::new(&hasher).with_file_id(FileId::new(b"another").unwrap());
    assert!(matches!(PartitionIndex::load(tail, other), Err(FilterProblem::Block(BlockError::FileMismatch { .. }))));
    let other = KeyHasher::with_seed(1);
    let other = LoadContext::new(&other).with_file_id(file);
    assert!(matches!(PartitionIndex::load(tail, other), Err(FilterProblem::Block(BlockError::HashMismatch { .. }))));
}

/// The tail of a container with any top index, under valid checksums.
fn forge(cut: PartitionCut, partitions: u32, index: &[u8]) -> Vec<u8> {
    let trailer = ContainerTrailer {
        identity: BlockIdentity { hash: KeyHasher::default().identity(), file: None },
        cut,
        partitions,
        keys: 1,
        index_bytes: index.len() as u32,
        index_checksum: checksum(index),
        held: Box::default(),
    };
    [index, &trailer.encode()].concat()
}

/// An entry of a block of this length.
fn put_block(out: &mut Vec<u8>, bytes: u64) {
    put_varint(out, bytes);
    if bytes > 0 {
        out.extend([0; 4]);
    }
    put_varint(out, 0);
}

#[test]
fn a_forged_top_index_is_refused_or_small() {
    let refused = |cut, partitions, index: &[u8]| {
        matches!(
            PartitionIndex::load(&forge(cut, partitions, index), &KeyHasher::default()),
            Err(FilterProblem::Block(BlockError::Field { .. }))
        )
    };
    let [by_key, by_hash] = CUTS;
    // More partitions than the index has entries for, no entry at all, bytes after the last entry.
    let mut one = Vec::new();
    put_block(&mut one, 100);
    assert!(refused(by_hash, (1 << 24) - 1, &one) && refused(by_hash, 3, &one) && refused(by_hash, 1, &[]));
    assert!(refused(by_hash, 1, &[&one[..], &[0]].concat()) && refused(by_key, 1, &one));
    assert!(!refused(by_hash, 1, &one));
    // Lengths beyond 32 bits, and partitions beyond 2^38 bytes.
    let mut long = Vec::new();
    put_block(&mut long, 1 << 32);
    assert!(refused(by_hash, 1, &long));
    let mut many = Vec::new();
    (0..65).for_each(|_| put_block(&mut many, u64::from(u32::MAX)));
    assert!(refused(by_hash, 65, &many));
    // Bounds that are equal, that descend, that are empty, and that are longer than the index.
    let bounded = |bounds: &[&[u8]]| {
        let mut out = vec![0];
        put_block(&mut out, 100);
        for bound in bounds {
            put_block(&mut out, 100);
            put_item(&mut out, bound);
        }
        out
    };
    assert!(!refused(by_key, 3, &bounded(&[b"a", b"b"])));
    for bounds in [[&b"a"[..], b"a"], [b"b", b"a"], [b"", b"a"], [b"ab", b"a"]] {
        assert!(refused(by_key, 3, &bounded(&bounds)), "{bounds:?}");
    }
    let mut overlong = bounded(&[]);
    put_block(&mut overlong, 100);
    put_varint(&mut overlong, u64::from(u32::MAX));
    assert!(refused(by_key, 2, &overlong));
    // A prefix that all bounds repeat is held once.
    let prefix = vec![b'p'; 100_000];
    let mut shared = Vec::new();
    put_item(&mut shared, &prefix);
    put_block(&mut shared, 100);
    for number in 1..16_u8 {
        put_block(&mut shared, 100);
        put_item(&mut shared, &[number]);
    }
    let index = PartitionIndex::load(&forge(by_key, 16, &shared), &KeyHasher::default()).unwrap();
    assert!(index.memory_bytes() < 110_000, "{}", index.memory_bytes());
    assert_eq!(index.locate(&prefix, KeyHash::mix(0)).0, 0);
    assert_eq!(index.locate(&[&prefix[..], &[3]].concat(), KeyHash::mix(0)).0, 3);
    // Entries of two bytes: their memory is limited.
    let hollow = vec![0; 2 * 100_001];
    let index = PartitionIndex::load(&forge(by_hash, 100_001, &hollow), &KeyHasher::default()).unwrap();
    assert!(index.memory_bytes() < 8 * hollow.len(), "{}", index.memory_bytes());
    assert!(matches!(index.open(0, &[][..]), Err(FilterProblem::WithoutFilter)));
}

#[test]
fn distinct_hashes_stay_distinct_and_in_order_inside_a_partition() {
    for partitions in [1, 3, 5, 1_001, (1 << 24) - 1] {
        let mut hashes: Vec<KeyHash> = (0..20_000).map(KeyHash::mix).collect();
        hashes.extend([0, 1, u64::MAX, u64::MAX - 1].map(KeyHash::from_well_mixed));
        hashes.sort_unstable();
        let placed: Vec<_> = hashes.iter().map(|hash| hash.in_partition(partitions)).collect();
        assert!(placed.is_sorted() && placed.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(placed.iter().all(|&(number, _)| number < partitions));
    }
}
