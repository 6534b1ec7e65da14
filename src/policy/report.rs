//! The result of a builder: the block, and a report.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::block::FallbackReason;
use crate::filter::KindId;

/// Starts a stopwatch; without `std` it always returns zero.
pub(super) fn stopwatch() -> impl Fn() -> Duration {
    #[cfg(feature = "std")]
    let started = std::time::Instant::now();
    move || {
        #[cfg(feature = "std")]
        return started.elapsed();
        #[cfg(not(feature = "std"))]
        Duration::ZERO
    }
}

/// A finished filter.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct BuiltFilter {
    /// The block. Write it unchanged, preferably on a 64-byte boundary. `None` if the file gets no filter; the report
    /// says why.
    pub block: Option<Bytes>,
    /// How it was built.
    pub report: BuildReport,
}

impl BuiltFilter {
    /// Creates a result, for user-defined policies.
    pub fn new(block: Option<Bytes>, report: BuildReport) -> Self {
        Self { block, report }
    }
}

/// How a filter was built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BuildReport {
    /// The kind that the policy requested.
    pub requested: KindId,
    /// The kind that was built, if any.
    pub used: Option<KindId>,
    /// Why they differ.
    pub reason: FallbackReason,
    /// Keys added, repetitions included.
    pub keys_added: u64,
    /// Distinct keys. Bloom filters drop only adjacent repetitions, which covers a sorted file.
    pub distinct_keys: u64,
    /// Attempts at building the used kind; 1 for kinds that always succeed.
    pub attempts: u32,
    /// Bytes of the block.
    pub block_bytes: u64,
    /// Expected false positive rate; 1 without a filter.
    pub expected_fpr: f64,
    /// Whether it is a Bloom filter with far more keys than its size is for, because too few were announced
    /// ([`FilterBlock::is_overfull`](crate::FilterBlock::is_overfull)).
    pub is_overfull: bool,
    /// The maximum number of bytes held at once while building, including the hashes and the finished block.
    pub peak_build_bytes: u64,
    /// Time spent in `finish`; zero without the feature `std`.
    pub finish_time: Duration,
    /// Names of the extractors that broke the promise of
    /// [`KeyExtractor::extract_prefix`](crate::KeyExtractor::extract_prefix) for an added key. The block does not
    /// record their parts, so no reader probes for them.
    pub unstable_extractors: Vec<String>,
}

impl BuildReport {
    /// Creates a report without a filter, for the caller to fill in.
    #[must_use]
    pub fn new(requested: KindId) -> Self {
        Self {
            requested,
            used: None,
            reason: FallbackReason::None,
            keys_added: 0,
            distinct_keys: 0,
            attempts: 0,
            block_bytes: 0,
            expected_fpr: 1.0,
            is_overfull: false,
            peak_build_bytes: 0,
            finish_time: Duration::ZERO,
            unstable_extractors: Vec::new(),
        }
    }

    /// Bits of the whole block per distinct key; infinite for a filter without keys, 0 without a filter.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        if self.used.is_none() {
            return 0.0;
        }
        self.block_bytes as f64 * 8.0 / self.distinct_keys as f64
    }
}
