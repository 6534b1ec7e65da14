//! Filters that are damaged between building and checking. The failure guarded against: a self-check that asks nothing,
//! or whose finding changes nothing, so that a filter which denies a key is handed out.

use super::bloom::{BitsInMaking, BloomBuilder, BloomRequest};
use super::buffered::{self, BufferedKind};
use super::{BuildContext, BuiltFilter, FilterBuilder, FusePolicy, FuseSizing, SelfCheck};
use crate::block::{FallbackReason, FilterBlock};
use crate::codec::AlignedBuffer;
use crate::filter::binary_fuse::FuseShape;
use crate::filter::blocked_bloom::{BloomBits, BloomShape};
use crate::filter::{BuildFailure, BuiltPayload, FilterKind};
use crate::hash::{KeyHash, KeyHasher};
use crate::units::BitsPerKey;

const KEYS: u64 = 1_000;

fn hashes() -> impl Iterator<Item = KeyHash> {
    (0..KEYS).map(KeyHash::from_remixed)
}

fn finish(mut builder: Box<dyn FilterBuilder>) -> BuiltFilter {
    builder.add_hashes(&hashes().collect::<Vec<_>>());
    builder.finish()
}

/// The keys that the filter denies.
fn denied(built: &BuiltFilter) -> usize {
    let filter = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap();
    hashes().filter(|&hash| !filter.may_contain(hash)).count()
}

/// A cell that is not 0 was set for a key, which one bit less or more denies; so does a bit of Bloom that is not set.
fn damage(payload: &mut AlignedBuffer) {
    let byte = payload.as_mut_slice().iter_mut().find(|byte| **byte != 0).unwrap();
    *byte ^= 1 << byte.trailing_zeros();
}

/// Binary fuse filters, of which one cell is damaged.
#[derive(Clone, Debug)]
struct DamagedFuse {
    sound: FusePolicy,
    /// Whether only those are that are built of hashes in rough order, so that the next attempt is sound.
    only_at_once: bool,
}

impl DamagedFuse {
    fn new(self_check: SelfCheck, only_at_once: bool) -> Self {
        let sound = FusePolicy::new(FuseSizing::FingerprintBits(8)).unwrap().with_self_check(self_check);
        Self { sound, only_at_once }
    }

    fn build_filter(&self) -> BuiltFilter {
        finish(buffered::builder(self, &BuildContext::new(&KeyHasher::default())))
    }
}

impl BufferedKind for DamagedFuse {
    type Shape = FuseShape;
    type Plan = FuseShape;

    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<FuseShape, FallbackReason> {
        self.sound.plan(keys, memory_budget)
    }

    fn build(&self, shape: FuseShape, hashes: &[KeyHash]) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
        let mut built = self.sound.build(shape, hashes)?;
        if !self.only_at_once {
            damage(&mut built.payload);
        }
        Ok(built)
    }

    const TAKES_ROUGH_ORDER: bool = true;

    fn build_at_once(
        &self,
        shape: FuseShape,
        hashes: &[KeyHash],
        spare: Vec<KeyHash>,
    ) -> Option<BuiltPayload<FuseShape>> {
        let mut built = self.sound.build_at_once(shape, hashes, spare)?;
        damage(&mut built.payload);
        Some(built)
    }

    fn planned_bytes(&self, keys: u64, plan: &FuseShape) -> Option<u64> {
        self.sound.planned_bytes(keys, plan)
    }

    fn fallback_size(&self) -> BitsPerKey {
        self.sound.fallback_size()
    }

    fn self_check(&self) -> SelfCheck {
        self.sound.self_check()
    }
}

#[test]
fn a_filter_that_fails_its_self_check_gives_bloom() {
    let built = DamagedFuse::new(SelfCheck::On, false).build_filter();
    assert_eq!(built.report.reason, FallbackReason::SelfCheckFailed);
    assert_eq!((built.report.requested, built.report.used), (FilterKind::BINARY_FUSE, Some(FilterKind::BLOCKED_BLOOM)));
    assert_eq!(denied(&built), 0);
    let info = FilterBlock::open_unverified(built.block.as_ref().unwrap()).unwrap().info();
    assert_eq!((info.kind, info.reason), (FilterKind::BLOCKED_BLOOM, FallbackReason::SelfCheckFailed));
    // That the damage is one, and that the check is what finds it.
    assert!(denied(&DamagedFuse::new(SelfCheck::Off, false).build_filter()) > 0);
}

#[test]
fn a_filter_built_at_once_that_fails_its_self_check_is_built_again_in_full() {
    let built = DamagedFuse::new(SelfCheck::On, true).build_filter();
    assert_eq!((built.report.used, built.report.reason), (Some(FilterKind::BINARY_FUSE), FallbackReason::None));
    assert_eq!(denied(&built), 0);
    assert!(denied(&DamagedFuse::new(SelfCheck::Off, true).build_filter()) > 0);
}

/// Blocked Bloom filters that lose a bit at the end.
#[derive(Debug)]
struct DamagedBloom(BloomBits);

impl BitsInMaking for DamagedBloom {
    type Shape = BloomShape;

    fn shape_for(keys: u64, size: BitsPerKey) -> Option<BloomShape> {
        BloomBits::shape_for(keys, size)
    }

    fn new(shape: BloomShape, tail_capacity: usize, scratch_limit: Option<u64>) -> Option<Self> {
        <BloomBits as BitsInMaking>::new(shape, tail_capacity, scratch_limit).map(Self)
    }

    fn insert(&mut self, hash: KeyHash) {
        self.0.insert(hash);
    }

    fn insert_all(&mut self, hashes: &[KeyHash]) {
        self.0.insert_all(hashes);
    }

    fn shape(&self) -> BloomShape {
        self.0.shape()
    }

    fn scratch_bytes(&self) -> u64 {
        self.0.scratch_bytes()
    }

    fn into_payload(self) -> AlignedBuffer {
        let mut payload = self.0.into_payload();
        damage(&mut payload);
        payload
    }
}

#[test]
fn a_bloom_filter_that_fails_its_self_check_is_left_out() {
    let build = |self_check| {
        let (size, requested) = (BitsPerKey::from_millibits(10_000).unwrap(), FilterKind::BLOCKED_BLOOM);
        let reason = FallbackReason::None;
        let request = BloomRequest { size, requested, reason, self_check, memory_budget: None };
        let context = BuildContext::new(&KeyHasher::default());
        finish(Box::new(BloomBuilder::<DamagedBloom>::new(request, &context)))
    };
    let built = build(SelfCheck::On);
    assert_eq!((built.block, built.report.used), (None, None));
    assert_eq!(built.report.reason, FallbackReason::SelfCheckFailed);
    assert!(denied(&build(SelfCheck::Off)) > 0);
}
