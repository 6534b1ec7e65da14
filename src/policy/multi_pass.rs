//! Filters of keys that are read several times instead of being held in memory.

use alloc::vec::Vec;
use core::cell::{Cell, OnceCell};

use super::builder::Job;
use super::kind_policy::AnyKind;
use super::report::stopwatch;
use super::{BuiltFilter, KindPolicy};
use crate::block::FallbackReason;
use crate::block::FilterBlock;
use crate::error::FilterError;
use crate::filter::binary_fuse::shape::FuseShape;
use crate::filter::binary_fuse::{self, BinaryFuseKind, MultiPassFilter};
use crate::filter::{BuildLimits, FilterShape, Kind, MAX_PAYLOAD_BYTES};
use crate::hash::{HashIdentity, KeyHash, mix64};

impl KindPolicy {
    /// Builds the filter of keys that need not fit in memory. `read` may be called several times and must return the
    /// same hashes each time, in any order; passes that differ are an error. `keys` is the number of distinct keys and
    /// decides the size: too large a number wastes memory, and much too small a number fails.
    ///
    /// A binary fuse build takes about 14 bytes per key and the finished block. Repeated keys that are not adjacent add
    /// 2 bytes per key and eight more passes. Sorted hashes are fastest. The block equals, byte for byte, the unbound
    /// block that this policy's builder makes of the same keys. Other kinds read one pass into memory and ignore
    /// `keys`.
    ///
    /// ```
    /// use sstfilter::{FilterBlock, KeyHasher, KindPolicy, Sizing};
    ///
    /// let hasher = KeyHasher::default();
    /// let hash = |key: u64| hasher.hash(&key.to_le_bytes());
    /// let policy = KindPolicy::binary_fuse(Sizing::FingerprintBits(16))?;
    /// let built = policy.build_multi_pass(|| (0..50_000).map(hash), 50_000, hasher.identity())?;
    /// let filter = FilterBlock::load(built.block.unwrap_or_default(), &hasher)?;
    /// assert!((0..50_000).all(|key| filter.may_contain(hash(key))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError::PassesDiffer`] when passes return different hashes, so that a key may be missing;
    /// [`FilterError::ConstructionFailed`] when there are more keys than announced, when hashes are not well mixed, or
    /// when a self-check finds a key missing; [`FilterError::TooLarge`] and [`FilterError::NoMemory`].
    pub fn build_multi_pass<I: Iterator<Item = KeyHash>>(
        &self,
        read: impl Fn() -> I,
        keys: u64,
        identity: HashIdentity,
    ) -> Result<BuiltFilter, FilterError> {
        let elapsed = stopwatch();
        let fuse = if let AnyKind::BinaryFuse(kind) = &self.kind { Some(kind) } else { None };
        let job = fuse.map(|kind| Job::new(kind, self.rules, identity.into(), BuildLimits::default()));
        let mut built = match job.map(|job| (job.plan(keys), job)) {
            Some((Ok(shape), job)) => job.build_fuse(shape, read, keys)?,
            // Its fallback would hold all of them in memory.
            Some((Err(FallbackReason::TooManyKeys), _)) => return Err(too_large(u64::MAX)),
            _ => {
                let (mut hashes, mut added) = (Vec::new(), 0);
                for hash in read() {
                    added += 1;
                    if hashes.last() != Some(&hash) {
                        hashes.push(hash);
                    }
                }
                let mut built = self.build_buffered(identity.into(), hashes);
                built.report.keys_added = added;
                built
            }
        };
        built.report.finish_time = elapsed();
        Ok(built)
    }
}

impl Job<BinaryFuseKind> {
    fn build_fuse<I: Iterator<Item = KeyHash>>(
        &self,
        shape: FuseShape,
        read: impl Fn() -> I,
        keys: u64,
    ) -> Result<BuiltFilter, FilterError> {
        let payload_bytes = shape.payload_bytes();
        let passes = Passes::default();
        let read = || passes.watched(read());
        let built = binary_fuse::build_multi_pass(read, keys, shape);
        if passes.have_differed.get() {
            return Err(FilterError::PassesDiffer);
        }
        let MultiPassFilter { payload, added, distinct } = built.map_err(|failure| match failure {
            FallbackReason::TooManyKeys => too_large(payload_bytes),
            FallbackReason::MemoryBudget => {
                FilterError::NoMemory { bytes: self.kind.build_bytes(keys, &shape) + payload_bytes }
            }
            _ => construction_failed(),
        })?;
        let mut built = self.seal(payload, distinct).map_err(|_| too_large(payload_bytes))?;
        if self.rules.is_self_checked && !contains_each(built.block.as_deref(), read()) {
            return Err(construction_failed());
        }
        if passes.have_differed.get() {
            return Err(FilterError::PassesDiffer);
        }
        built.report.keys_added = added;
        Ok(built)
    }
}

fn contains_each(block: Option<&[u8]>, mut hashes: impl Iterator<Item = KeyHash>) -> bool {
    let filter = block.map(FilterBlock::open_unverified);
    filter.is_some_and(|filter| filter.is_ok_and(|filter| hashes.all(|hash| filter.may_contain(hash))))
}

fn too_large(got: u64) -> FilterError {
    FilterError::TooLarge { most_bytes: MAX_PAYLOAD_BYTES, got }
}

fn construction_failed() -> FilterError {
    FilterError::ConstructionFailed { salts: (0..binary_fuse::SALTS).collect() }
}

/// Compares the passes of one build. A key that one of them lacks may be in no cell of the filter.
#[derive(Debug, Default)]
struct Passes {
    /// The first pass's number of hashes, and a sum over them that does not depend on their order.
    first: OnceCell<(u64, u64)>,
    have_differed: Cell<bool>,
}

impl Passes {
    /// The hashes of one pass; at its end, its count and sum are compared with those of the first pass.
    fn watched(&self, mut hashes: impl Iterator<Item = KeyHash>) -> impl Iterator<Item = KeyHash> {
        let (mut count, mut sum) = (0, 0_u64);
        core::iter::from_fn(move || {
            let hash = hashes.next();
            if let Some(hash) = hash {
                count += 1;
                sum = sum.wrapping_add(mix64(hash.get()));
            } else if *self.first.get_or_init(|| (count, sum)) != (count, sum) {
                self.have_differed.set(true);
            }
            hash
        })
    }
}
