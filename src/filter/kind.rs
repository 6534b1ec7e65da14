//! The trait of a configured kind; each kind implements it in its folder.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::AnyShape;
use super::payload::{BuiltPayload, StreamedPayload};
use super::reason::FallbackReason;
use super::shape::FilterShape;
use crate::hash::KeyHash;
use crate::ids::KindId;
use crate::units::BitsPerKey;

/// The resources that building a filter may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildLimits {
    /// Limit on the bytes that a streamed build uses in addition to the payload, if any. For other kinds the builder
    /// compares [`build_bytes`](Kind::build_bytes) with the memory budget.
    pub(crate) scratch_bytes: Option<u64>,
    /// The maximum number of threads, including the calling one: at least 1.
    pub(crate) threads: usize,
}

#[cfg(test)]
impl Default for BuildLimits {
    /// One thread, and unlimited memory.
    fn default() -> Self {
        Self { scratch_bytes: None, threads: 1 }
    }
}

/// How a filter's keys can change while it is in use, from the fewest changes to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Updates {
    /// Not at all: all keys are known when the filter is built.
    None,
    /// Keys are added.
    Insert,
    /// Keys are added and removed.
    InsertAndRemove,
}

/// A kind of filter. A value of the type is the *configured* kind: for binary fuse, it knows the cells per key and the
/// length of fingerprints. CONTRIBUTING.md lists what a new kind needs; user-defined kinds implement
/// [`UserKind`](super::user::UserKind) instead.
///
/// # The contract
///
/// `(plan build)*`. [`plan`](Self::plan) depends only on the number of keys, [`build`](Self::build) only on the plan
/// and the set of hashes, so that the same keys give the same bytes everywhere. A filter that was built contains every
/// hash that it was built from. If it cannot be built, that is an error, and a blocked Bloom filter takes its place.
pub(crate) trait Kind: Clone + fmt::Debug + Send + Sync + 'static {
    /// The parameters that a block records, and the code that probes the payload.
    type Shape: FilterShape + Clone + Into<AnyShape>;

    /// The kind's number.
    const ID: KindId;

    /// The reason to choose it: the predicate of a sentence whose subject is its name.
    const STRENGTH: &'static str = "";

    /// How a filter's keys can change while it is in use.
    const UPDATES: Updates = Updates::None;

    /// Whether many threads can make these changes at once while others read.
    const IS_CONCURRENT: bool = false;

    /// Files with fewer keys get a blocked Bloom filter, unless a policy sets another minimum.
    const DEFAULT_MIN_KEYS: u64 = 0;

    /// Whether a finished block always has the planned size. If not, the size depends on the hashes.
    const HAS_EXACT_SIZE: bool = true;

    /// Whether filters are [streamed](Self::stream): built from hashes in any order, possibly repeated.
    const IS_STREAMED: bool = false;

    /// Whether [`build_from_partitioned`](Self::build_from_partitioned) can succeed.
    const ACCEPTS_PARTITIONED_HASHES: bool = false;

    /// Returns [`ID`](Self::ID), except for a user-defined kind.
    fn id(&self) -> KindId {
        Self::ID
    }

    /// Returns the kind's name.
    fn name(&self) -> &'static str {
        Self::ID.name()
    }

    /// Returns the shape of a filter of `keys` distinct keys, exact or approximate
    /// ([`HAS_EXACT_SIZE`](Self::HAS_EXACT_SIZE)), or the reason to fall back to another kind. An implementation need
    /// not check `MAX_KEYS` and `MAX_PAYLOAD_BYTES`: the caller does.
    fn plan(&self, keys: u64) -> Result<Self::Shape, FallbackReason>;

    /// Returns the maximum bytes that building takes in addition to the hashes and the finished block.
    fn build_bytes(&self, _keys: u64, _plan: &Self::Shape) -> u64 {
        0
    }

    /// Returns the maximum bytes that each thread after the first adds to [`build_bytes`](Self::build_bytes).
    fn thread_bytes(&self, _keys: u64, _plan: &Self::Shape) -> u64 {
        0
    }

    /// Builds the filter of `hashes`, which are distinct and ascending unless the kind is streamed. The bytes do not
    /// depend on `limits`.
    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        let mut stream = self.stream(plan, limits).ok_or(FallbackReason::MemoryBudget)?;
        stream.insert_and_count(None, hashes);
        Ok(BuiltPayload::of_stream(plan.clone(), stream))
    }

    /// Builds the same filter from hashes that are only partitioned into windows. `None` when the first attempt fails
    /// or a hash repeats. `spare` is a buffer with capacity for about as many hashes as `hashes` has.
    fn build_from_partitioned(
        &self,
        _plan: &Self::Shape,
        _hashes: &[KeyHash],
        _spare: Vec<KeyHash>,
        _limits: BuildLimits,
    ) -> Option<BuiltPayload<Self::Shape>> {
        None
    }

    /// Creates an empty filter that accepts hashes as they arrive; `None` when allocation fails, and for kinds that are
    /// not streamed.
    fn stream(&self, _plan: &Self::Shape, _limits: BuildLimits) -> Option<Box<dyn StreamedPayload>> {
        None
    }

    /// Returns the size above which a finished block is discarded for a Bloom filter, for kinds whose size depends on
    /// the hashes.
    ///
    /// `None` means no limit. It is right for kinds whose size follows from the number of keys: whoever requests such a
    /// kind accepts that size, even if it exceeds Bloom's.
    fn max_block_bytes(&self, _keys: u64, _plan: &Self::Shape) -> Option<u64> {
        None
    }

    /// Returns the size of the blocked Bloom filter to fall back to; `None` chooses one with the rate of a large filter
    /// of this kind.
    fn fallback_size(&self) -> Option<BitsPerKey> {
        None
    }

    /// Returns the kind for filters that will shrink, unless it is this one.
    fn shrinkable(&self) -> Option<Self> {
        None
    }
}

/// The result of [`Kind::build`].
pub(crate) type BuildResult<S> = Result<BuiltPayload<S>, FallbackReason>;
