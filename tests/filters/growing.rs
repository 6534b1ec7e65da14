//! Filters that accept keys while in use, all types alike. The failures guarded against: a filter has other answers in a
//! batch, in its block, or after it was restored; a block that is damaged, of another hash or of another kind becomes a
//! filter, which is then stored under a valid checksum; an overfull filter loses keys, or is not noticed.

use sstfilter::{
    AtomicBloom, BlockError, CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FilterError,
    FixedPolicy, HashIdentity, KeyHash, KeyHasher, KindId, MatchBitmap, RegisterBlockedBloom, StandardBloom,
};

use crate::{common, keys};

/// An empty filter of each type, planned for `count` keys at 1 %.
pub(crate) fn planned_for(count: u64) -> [Box<dyn DynamicFilter>; 5] {
    let (hash, rate) = (HashIdentity::default(), FalsePositiveRate::ONE_PERCENT);
    [
        Box::new(StandardBloom::for_rate(hash, count, rate).unwrap()),
        Box::new(AtomicBloom::for_rate(hash, count, rate).unwrap()),
        Box::new(CountingBloom::for_rate(hash, count, rate).unwrap()),
        Box::new(RegisterBlockedBloom::for_rate(hash, count, rate).unwrap()),
        Box::new(CuckooFilter::for_rate(hash, count, rate).unwrap()),
    ]
}

/// Inserts keys into an empty filter, stores and restores it, and inserts more.
fn assert_stored_goes_on<F: DynamicFilter>(mut filter: F, count: u32) {
    let (hasher, what) = (KeyHasher::default(), format!("{}, {count} keys", filter.kind()));
    let (first, second) = (keys(0, count), keys(1, count));
    filter.try_insert_all(&first).unwrap();
    let block = filter.to_block().unwrap();
    let mut restored = F::from_block(&block, &hasher).unwrap();
    assert_eq!((restored.to_block().unwrap(), restored.keys()), (block.clone(), filter.keys()), "{what}");
    let stored = FilterBlock::load(block, &hasher).unwrap();
    assert!((stored.fill_ratio().unwrap() - filter.health().fill_ratio).abs() < 1e-12, "{what}");
    assert_eq!(stored.info().block_bytes, filter.block_bytes(), "{what}");

    let asked = [&first[..], &second, &keys(2, 10_003)].concat();
    let (mut in_filter, mut in_block) = (MatchBitmap::default(), MatchBitmap::default());
    filter.contains_batch(&asked, &mut in_filter);
    stored.may_contain_batch(&asked, &mut in_block);
    for (at, &hash) in asked.iter().enumerate() {
        let answers = [filter.contains(hash), restored.contains(hash), stored.may_contain(hash)];
        let in_batches = [in_filter.may_contain(at), in_block.may_contain(at)];
        assert!(answers == [answers[0]; 3] && in_batches == [answers[0]; 2], "{what}: {answers:?} {in_batches:?}");
        assert!(answers[0] || at >= first.len(), "{what}: a key is lost");
    }
    for filter in [&mut filter, &mut restored] {
        filter.try_insert_all(&second).unwrap();
        assert!(first.iter().chain(&second).all(|&hash| filter.contains(hash)), "{what}: a key is lost");
    }
    assert_eq!(filter.to_block(), restored.to_block(), "{what}");
}

// promise: no-false-negatives
#[test]
fn filters_in_memory_and_their_blocks_answer_alike_and_restored_ones_go_on() {
    let hash = HashIdentity::default();
    for count in [0, 1, 17, 500, 20_000] {
        for (positions, probes) in [(1, 1), (63, 2), (64, 3), (65, 4), (1_000, 32), (100_000, 7), (9_000_001, 5)] {
            assert_stored_goes_on(StandardBloom::with_shape(hash, positions, probes).unwrap(), count);
            assert_stored_goes_on(AtomicBloom::with_shape(hash, positions, probes).unwrap(), count);
            assert_stored_goes_on(CountingBloom::with_shape(hash, positions, probes).unwrap(), count);
        }
        for (bytes, probes) in [(64, 2), (1 << 10, 3), (1 << 14, 4), (1 << 22, 2)] {
            assert_stored_goes_on(RegisterBlockedBloom::with_shape(hash, bytes, probes).unwrap(), count);
        }
        for tag_bits in [5, 8, 15, 17, 31] {
            let planned = u64::from(count) * 2;
            assert_stored_goes_on(CuckooFilter::with_tag_bits(hash, planned, tag_bits).unwrap(), count);
        }
    }
    assert_stored_goes_on(CuckooFilter::with_tag_bits(hash, 800_000, 24).unwrap(), 400_000);
}

fn assert_only_its_own_block_is_restored<F: DynamicFilter>(mut filter: F) {
    let (identity, kind, hashes) = (KeyHasher::default().identity(), filter.kind(), keys(0, 50));
    filter.try_insert_all(&hashes).unwrap();
    let block = filter.to_block().unwrap();
    common::for_each_flip(&block, |damaged, bit| {
        assert!(matches!(F::from_block(damaged, identity), Err(FilterError::Block(_))), "{kind}: bit {bit}");
    });
    assert!((0..block.len()).all(|length| F::from_block(&block[..length], identity).is_err()), "{kind}");
    let foreign = F::from_block(&block, KeyHasher::with_seed(1).identity()).err();
    assert!(matches!(foreign, Some(FilterError::Block(BlockError::HashMismatch { .. }))), "{kind}");
    let other = common::build(&FixedPolicy::default(), &hashes).block.unwrap();
    let refused = F::from_block(&other, identity).err();
    assert!(
        matches!(refused, Some(FilterError::Block(BlockError::Kind { expected, .. })) if expected == kind),
        "{kind}"
    );
}

// promise: damage
#[test]
fn blocks_that_are_damaged_foreign_or_of_another_kind_are_not_restored() {
    let hash = HashIdentity::default();
    assert_only_its_own_block_is_restored(StandardBloom::with_shape(hash, 1_000, 7).unwrap());
    assert_only_its_own_block_is_restored(CountingBloom::with_shape(hash, 300, 7).unwrap());
    assert_only_its_own_block_is_restored(RegisterBlockedBloom::with_shape(hash, 256, 2).unwrap());
    assert_only_its_own_block_is_restored(CuckooFilter::for_rate(hash, 60, FalsePositiveRate::ONE_PERCENT).unwrap());
}

#[test]
fn a_filter_is_overfull_some_time_after_its_planned_keys_and_loses_none() {
    let (planned, more) = (keys(0, 10_000), keys(1, 200_000));
    for mut filter in planned_for(10_000) {
        filter.try_insert_all(&planned).unwrap();
        assert!(!filter.health().is_overfull(), "{}: {:?}", filter.kind(), filter.health());
        let refused = filter.try_insert_all(&more).err();
        assert_eq!(refused.is_some(), filter.kind() == KindId::CUCKOO, "{refused:?}");
        assert!(filter.health().is_overfull(), "{}: {:?}", filter.kind(), filter.health());
        assert!(planned.iter().all(|&hash| filter.contains(hash)), "{}", filter.kind());
    }
    for mut filter in planned_for(10).into_iter().filter(|filter| filter.kind() != KindId::CUCKOO) {
        filter.try_insert_all(&more).unwrap();
        let health = filter.health();
        assert!(health.fill_ratio >= 1.0 && health.expected_fpr >= 1.0, "{}: {health:?}", filter.kind());
        assert!(more.iter().chain(&planned).all(|&hash| filter.contains(hash)), "{}", filter.kind());
    }
}

/// A constructor from a hash, a size and a number of probes.
type WithShape<F> = fn(HashIdentity, u64, u8) -> Result<F, FilterError>;

/// Merges filters of a shape, and tries to merge those of others.
fn assert_unites<F: DynamicFilter>(
    with_shape: WithShape<F>,
    union: impl Fn(&mut F, &F) -> Result<(), FilterError>,
    size: u64,
) {
    let make = |hash, size| with_shape(hash, size, 3).unwrap();
    let hash = HashIdentity::default();
    let with = |mut filter: F, hashes: &[KeyHash]| {
        filter.try_insert_all(hashes).unwrap();
        filter
    };
    let (of_keys, filled) = (|hashes: &[KeyHash]| with(make(hash, size), hashes), |filter| with(filter, &keys(7, 300)));
    let (mut one, both) = (of_keys(&keys(5, 300)), [keys(5, 300), keys(6, 300)].concat());
    union(&mut one, &of_keys(&keys(6, 300))).unwrap();
    assert!(both.iter().all(|&hash| one.contains(hash)), "{}: a key is lost", one.kind());
    let united = one.to_block().unwrap();
    // Without the number of keys, which the union only adds up.
    let payload = ..usize::try_from(FilterBlock::open_unverified(&united).unwrap().info().payload_bytes).unwrap();
    assert_eq!(united[payload], of_keys(&both).to_block().unwrap()[payload], "{}", one.kind());
    for unlike in [make(hash, 2 * size), with_shape(hash, size, 2).unwrap()].map(filled) {
        let refused = union(&mut one, &unlike);
        assert!(matches!(refused, Err(FilterError::ShapeMismatch { .. })), "{refused:?}");
    }
    let refused = union(&mut one, &filled(make(HashIdentity::custom(1), size)));
    assert!(matches!(refused, Err(FilterError::HashMismatch { .. })), "{refused:?}");
    assert_eq!(one.to_block().unwrap(), united, "nothing has changed");
}

// promise: documented-use
#[test]
fn filters_of_one_shape_and_hash_unite_and_others_are_refused() {
    assert_unites(StandardBloom::with_shape, StandardBloom::union, 20_001);
    assert_unites(AtomicBloom::with_shape, |one, other| one.union(other), 20_001);
    assert_unites(RegisterBlockedBloom::with_shape, |one, other| one.union(other), 1 << 12);
}
