//! Filters that are damaged between building and checking. The failure guarded against: a self-check that probes
//! nothing, or whose finding is ignored, so that a filter with a false negative is returned.

use alloc::sync::Arc;

use super::builder::{Job, Rules, contains_all};
use super::{BuildContext, BuiltFilter};
use crate::block::{BlockIdentity, FallbackReason, FilterBlock};
use crate::codec::AlignedBuffer;
use crate::filter::binary_fuse::{BinaryFuseKind, FuseShape};
use crate::filter::blocked_bloom::{BlockedBloomKind, BloomShape};
use crate::filter::{BuildLimits, BuiltPayload, Kind, KindId, StreamedPayload};
use crate::hash::{KeyHash, KeyHasher};
use crate::units::Sizing;

const KEYS: u64 = 1_000;

const CHECKED: bool = true;
const UNCHECKED: bool = false;

fn hashes() -> impl Iterator<Item = KeyHash> {
    (0..KEYS).map(KeyHash::mix)
}

fn build_with(kind: impl Kind, is_self_checked: bool) -> BuiltFilter {
    let context = BuildContext::new(&KeyHasher::default());
    let self_check = is_self_checked.then_some(contains_all as _);
    let rules = Rules { self_check, ..Rules::of(&kind) };
    let identity = BlockIdentity::from(context.hasher.identity());
    let mut builder = Job::new(Arc::new(kind), rules, identity, BuildLimits::default()).builder(&context);
    builder.add_hashes(&hashes().collect::<Vec<_>>());
    builder.finish()
}

/// The number of false negatives.
fn lost_keys(built: &BuiltFilter) -> usize {
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    hashes().filter(|&hash| !filter.may_contain(hash)).count()
}

/// Flipping a bit of a nonzero cell makes the key absent that the cell was set for, and so does clearing a Bloom bit.
fn damage(payload: &mut AlignedBuffer) {
    let byte = payload.as_mut_slice().iter_mut().find(|byte| **byte != 0).unwrap();
    *byte ^= 1 << byte.trailing_zeros();
}

/// Binary fuse filters with one damaged cell.
#[derive(Clone, Debug)]
struct DamagedFuse {
    sound: BinaryFuseKind,
    /// Damage only single attempts, so that the next attempt is sound.
    only_single_attempts: bool,
}

fn build_damaged_fuse(is_self_checked: bool, only_single_attempts: bool) -> BuiltFilter {
    let sound = BinaryFuseKind::new(3, Sizing::FingerprintBits(8)).unwrap();
    build_with(DamagedFuse { sound, only_single_attempts }, is_self_checked)
}

impl Kind for DamagedFuse {
    type Shape = FuseShape;

    const ID: KindId = KindId::BINARY_FUSE;
    const ACCEPTS_PARTITIONED_HASHES: bool = true;

    fn plan(&self, keys: u64) -> Result<FuseShape, FallbackReason> {
        self.sound.plan(keys)
    }

    fn build_bytes(&self, keys: u64, plan: &FuseShape) -> u64 {
        self.sound.build_bytes(keys, plan)
    }

    fn build(
        &self,
        plan: &FuseShape,
        hashes: &[KeyHash],
        limits: BuildLimits,
    ) -> Result<BuiltPayload<FuseShape>, FallbackReason> {
        let mut built = self.sound.build(plan, hashes, limits)?;
        if !self.only_single_attempts {
            damage(&mut built.payload);
        }
        Ok(built)
    }

    fn build_from_partitioned(
        &self,
        plan: &FuseShape,
        hashes: &[KeyHash],
        spare: Vec<KeyHash>,
        limits: BuildLimits,
    ) -> Option<BuiltPayload<FuseShape>> {
        let mut built = self.sound.build_from_partitioned(plan, hashes, spare, limits)?;
        damage(&mut built.payload);
        Some(built)
    }
}

// promise: never-fails-a-write
#[test]
fn a_filter_that_fails_its_self_check_gives_bloom() {
    let built = build_damaged_fuse(CHECKED, false);
    assert_eq!(built.report.reason, FallbackReason::SelfCheckFailed);
    assert_eq!((built.report.requested, built.report.used), (KindId::BINARY_FUSE, Some(KindId::BLOCKED_BLOOM)));
    assert_eq!(lost_keys(&built), 0);
    let info = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap().info();
    assert_eq!((info.kind, info.reason), (KindId::BLOCKED_BLOOM, FallbackReason::SelfCheckFailed));
    // The damage is real, and only the check finds it.
    assert!(lost_keys(&build_damaged_fuse(UNCHECKED, false)) > 0);
}

#[test]
fn a_filter_built_at_once_that_fails_its_self_check_is_built_again_in_full() {
    let built = build_damaged_fuse(CHECKED, true);
    assert_eq!((built.report.used, built.report.reason), (Some(KindId::BINARY_FUSE), FallbackReason::None));
    assert_eq!(lost_keys(&built), 0);
    assert!(lost_keys(&build_damaged_fuse(UNCHECKED, true)) > 0);
}

/// Blocked Bloom filters that lose a bit at the end.
#[derive(Clone, Debug)]
struct DamagedBloom(BlockedBloomKind);

struct DamagedBits(Box<dyn StreamedPayload>);

impl Kind for DamagedBloom {
    type Shape = BloomShape;

    const ID: KindId = KindId::BLOCKED_BLOOM;
    const IS_STREAMED: bool = true;

    fn plan(&self, keys: u64) -> Result<BloomShape, FallbackReason> {
        self.0.plan(keys)
    }

    fn build_bytes(&self, keys: u64, plan: &BloomShape) -> u64 {
        self.0.build_bytes(keys, plan)
    }

    fn stream(&self, plan: &BloomShape, limits: BuildLimits) -> Option<Box<dyn StreamedPayload>> {
        self.0.stream(plan, limits).map(|bits| Box::new(DamagedBits(bits)) as _)
    }
}

impl StreamedPayload for DamagedBits {
    fn insert_all(&mut self, hashes: &[KeyHash]) {
        self.0.insert_all(hashes);
    }

    fn into_payload(self: Box<Self>) -> AlignedBuffer {
        let mut payload = self.0.into_payload();
        damage(&mut payload);
        payload
    }
}

#[test]
fn a_bloom_filter_that_fails_its_self_check_is_left_out() {
    let build = |is_self_checked| build_with(DamagedBloom(BlockedBloomKind::default()), is_self_checked);
    let built = build(CHECKED);
    assert_eq!((built.block, built.report.used), (None, None));
    assert_eq!(built.report.reason, FallbackReason::SelfCheckFailed);
    assert!(lost_keys(&build(UNCHECKED)) > 0);
}
