//! Kinds behind one interface without type parameters.
//!
//! So policies and builders are compiled once, and not for each kind. A kind that a program never configures is left
//! out of it, because nothing refers to its code; nor does a program have what only other kinds need, such as the sort.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use super::AnyShape;
use super::kind::{BuildLimits, BuildResult, Kind};
use super::payload::{BuiltPayload, StreamedPayload};
use super::reason::FallbackReason;
use super::shape::FilterShape;
use crate::hash::{KeyHash, SORT_THREAD_BYTES, SortScratch, partition_hashes, sort_with};
use crate::ids::KindId;
use crate::units::BitsPerKey;

/// The plan of a filter.
pub(crate) struct Planned {
    pub(crate) shape: AnyShape,
    /// The maximum bytes that building takes in addition to the hashes and the finished block.
    pub(crate) build_bytes: u64,
    /// The maximum bytes that each further thread takes, while it sorts or while it builds.
    pub(crate) thread_bytes: u64,
    /// The size above which a finished block is discarded for a Bloom filter.
    pub(crate) max_block_bytes: Option<u64>,
}

/// What a builder asks of a kind, whatever its configuration.
pub(crate) struct KindTraits {
    /// [`Kind::DEFAULT_MIN_KEYS`]
    pub(crate) min_keys: u64,
    /// [`Kind::IS_STREAMED`]
    pub(crate) is_streamed: bool,
    /// [`Kind::ACCEPTS_PARTITIONED_HASHES`]
    pub(crate) accepts_partitioned_hashes: bool,
}

/// A configured [`Kind`] of any type. Plans passed to it must be its own.
pub(crate) trait AnyKind: Send + Sync {
    fn id(&self) -> KindId;
    fn name(&self) -> &'static str;
    fn traits(&self) -> KindTraits;
    fn plan(&self, keys: u64) -> Result<Planned, FallbackReason>;
    /// Partitions hashes for [`build`](Self::build) with spare memory; `false` if it would not help.
    fn partition(&self, hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, max_bytes: u64) -> bool;
    /// Sorts hashes for [`build`](Self::build) and drops repetitions, unless the kind takes them in any order.
    fn sort(&self, hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, max_bytes: u64);
    /// Builds the filter: of partitioned hashes if there is `spare` memory, else of sorted ones.
    fn build(
        &self,
        plan: &AnyShape,
        hashes: &[KeyHash],
        spare: Option<Vec<KeyHash>>,
        limits: BuildLimits,
    ) -> BuildResult<AnyShape>;
    fn stream(&self, plan: &AnyShape, limits: BuildLimits) -> Option<Box<dyn StreamedPayload>>;
    fn fallback_size(&self) -> Option<BitsPerKey>;
    fn shrinkable(&self) -> Option<Arc<dyn AnyKind>>;
}

impl<K: Kind> AnyKind for K {
    fn id(&self) -> KindId {
        Kind::id(self)
    }

    fn name(&self) -> &'static str {
        Kind::name(self)
    }

    fn traits(&self) -> KindTraits {
        KindTraits {
            min_keys: K::DEFAULT_MIN_KEYS,
            is_streamed: K::IS_STREAMED,
            accepts_partitioned_hashes: K::ACCEPTS_PARTITIONED_HASHES,
        }
    }

    fn plan(&self, keys: u64) -> Result<Planned, FallbackReason> {
        let shape = Kind::plan(self, keys)?;
        let thread_bytes = self.thread_bytes(keys, &shape);
        Ok(Planned {
            build_bytes: self.build_bytes(keys, &shape),
            thread_bytes: if K::IS_STREAMED { thread_bytes } else { thread_bytes.max(SORT_THREAD_BYTES) },
            max_block_bytes: self.max_block_bytes(keys, &shape),
            shape: shape.into(),
        })
    }

    fn partition(&self, hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, max_bytes: u64) -> bool {
        K::ACCEPTS_PARTITIONED_HASHES && partition_hashes(hashes, scratch, max_bytes)
    }

    fn sort(&self, hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, max_bytes: u64) {
        if !K::IS_STREAMED {
            sort_with(hashes, scratch, max_bytes);
            hashes.dedup();
        }
    }

    fn build(
        &self,
        plan: &AnyShape,
        hashes: &[KeyHash],
        spare: Option<Vec<KeyHash>>,
        limits: BuildLimits,
    ) -> BuildResult<AnyShape> {
        let plan = shape_of::<K>(plan).ok_or(FallbackReason::ConstructionFailed)?;
        let built = match spare {
            Some(spare) => self.build_from_partitioned(plan, hashes, spare, limits),
            None => Some(Kind::build(self, plan, hashes, limits)?),
        };
        let BuiltPayload { shape, payload, attempts, peak_bytes } = built.ok_or(FallbackReason::ConstructionFailed)?;
        Ok(BuiltPayload { shape: shape.into(), payload, attempts, peak_bytes })
    }

    fn stream(&self, plan: &AnyShape, limits: BuildLimits) -> Option<Box<dyn StreamedPayload>> {
        Kind::stream(self, shape_of::<K>(plan)?, limits)
    }

    fn fallback_size(&self) -> Option<BitsPerKey> {
        Kind::fallback_size(self)
    }

    fn shrinkable(&self) -> Option<Arc<dyn AnyKind>> {
        Kind::shrinkable(self).map(|kind| Arc::new(kind) as _)
    }
}

impl fmt::Debug for dyn AnyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns a shape that the kind has planned.
fn shape_of<K: Kind>(plan: &AnyShape) -> Option<&K::Shape> {
    let shape: &dyn FilterShape = &**plan;
    (shape as &dyn Any).downcast_ref()
}
