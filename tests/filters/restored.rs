//! Growing filters that are restored from blocks. The failure guarded against: a block that is damaged, of another hash
//! or of another kind becomes a filter, which is then stored under a valid checksum.

use crate::common::{self, key_set};
use sstfilter::{
    BlockError, CountingBloom, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterError, FixedPolicy, HashIdentity,
    KeyHash, KeyHasher, RegisterBlockedBloom, StandardBloom,
};

fn assert_only_its_own_block_is_restored<F: DynamicFilter>(mut filter: F) {
    let (identity, kind) = (KeyHasher::default().identity(), filter.kind());
    let hashes: Vec<KeyHash> = key_set(0, 50).collect();
    filter.try_insert_all(&hashes).unwrap();
    let block = filter.to_block().unwrap();
    let restored = F::from_block(&block, identity).unwrap();
    assert!(hashes.iter().all(|&hash| restored.contains(hash)));
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

#[test]
fn blocks_that_are_damaged_foreign_or_of_another_kind_are_not_restored() {
    let identity = HashIdentity::default();
    assert_only_its_own_block_is_restored(StandardBloom::with_shape(identity, 1_000, 7).unwrap());
    assert_only_its_own_block_is_restored(CountingBloom::with_shape(identity, 300, 7).unwrap());
    assert_only_its_own_block_is_restored(RegisterBlockedBloom::with_shape(identity, 256, 2).unwrap());
    assert_only_its_own_block_is_restored(
        CuckooFilter::for_rate(identity, 60, FalsePositiveRate::ONE_PERCENT).unwrap(),
    );
}
