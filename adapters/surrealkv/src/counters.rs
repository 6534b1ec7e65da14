//! Counters of a policy's filters and answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sstfilter::{BlockError, BuildReport, FallbackReason, KindId};

use crate::stripes::{Reader, Stripes};

/// The counters of a policy and its clones. Cheap to clone; keep one when the policy goes to the engine.
///
/// Threads count their probes in separate cache lines. Sums are exact when no thread is probing.
#[derive(Clone, Debug, Default)]
pub struct FilterCounters(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    answers: Stripes,
    unusable: [AtomicU64; 5],
    /// One lock per written partition costs nothing compared with building it.
    builds: Mutex<Builds>,
}

#[derive(Clone, Debug, Default)]
struct Builds {
    kinds: Vec<(KindId, u64)>,
    fallbacks: Vec<(FallbackReason, u64)>,
    bytes: u64,
    keys: u64,
}

/// The reason why a filter's bytes are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Empty,
    NotABlock,
    Damaged,
    Unknown,
    OtherHash,
}

impl Unusable {
    /// Returns the reason why `bytes` did not open.
    #[cold]
    pub(crate) fn of(bytes: &[u8], error: &BlockError) -> Self {
        match error {
            BlockError::TooShort { .. } | BlockError::Magic { .. } => Self::of_foreign(bytes),
            BlockError::Version { .. } | BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } => {
                Self::Unknown
            }
            BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. } => Self::OtherHash,
            _ => Self::Damaged,
        }
    }

    /// Returns the reason for bytes that are no block.
    pub(crate) const fn of_foreign(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::Empty } else { Self::NotABlock }
    }
}

/// The counts of a policy so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterCounts {
    /// Negative probes, after which the engine read nothing.
    pub negatives: u64,
    /// Positive probes.
    pub positives: u64,
    /// Probes of unusable filters, which all answered "may contain", by reason.
    pub unusable: UnusableCounts,
    /// Negative probes of the old policy during a migration.
    pub old_negatives: u64,
    /// Positive probes of the old policy during a migration.
    pub old_positives: u64,
    /// Filters built, by kind.
    pub builds: Vec<(KindId, u64)>,
    /// Filters of another kind than the configured one, by reason. A small partition gets Bloom instead of Ribbon.
    pub fallbacks: Vec<(FallbackReason, u64)>,
    /// Bytes of all filters built.
    pub bytes_built: u64,
    /// Keys in all filters built.
    pub keys_built: u64,
}

/// Probes of unusable filters, by reason. Each answered "may contain".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusableCounts {
    /// No bytes.
    pub empty: u64,
    /// Bytes that do not end like a filter block: foreign, or truncated.
    pub not_a_block: u64,
    /// A block with a damaged trailer, or of a wrong length.
    pub damaged: u64,
    /// A block of a newer version, or of an unknown kind or hash.
    pub unknown: u64,
    /// A block that was built with another hash or seed, or only from parts of keys.
    pub other_hash: u64,
}

impl UnusableCounts {
    /// Returns the sum of all reasons.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.empty + self.not_a_block + self.damaged + self.unknown + self.other_hash
    }
}

impl FilterCounters {
    /// Returns the counts so far.
    #[must_use]
    pub fn snapshot(&self) -> FilterCounts {
        let Counters { answers, unusable, builds } = &*self.0;
        let unusable = |reason: Unusable| unusable[reason as usize].load(Ordering::Relaxed);
        let Builds { kinds, fallbacks, bytes, keys } = builds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        FilterCounts {
            negatives: answers.sum(Reader::Block, false),
            positives: answers.sum(Reader::Block, true),
            unusable: UnusableCounts {
                empty: unusable(Unusable::Empty),
                not_a_block: unusable(Unusable::NotABlock),
                damaged: unusable(Unusable::Damaged),
                unknown: unusable(Unusable::Unknown),
                other_hash: unusable(Unusable::OtherHash),
            },
            old_negatives: answers.sum(Reader::Old, false),
            old_positives: answers.sum(Reader::Old, true),
            builds: kinds,
            fallbacks,
            bytes_built: bytes,
            keys_built: keys,
        }
    }

    #[inline]
    pub(crate) fn count_answer(&self, reader: Reader, may_contain: bool) {
        self.0.answers.count(reader, may_contain);
    }

    #[cold]
    pub(crate) fn count_unusable(&self, reason: Unusable) {
        self.0.unusable[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_build(&self, report: &BuildReport, bytes: usize) {
        let mut builds = self.0.builds.lock().unwrap_or_else(PoisonError::into_inner);
        // `None` if no filter could be built; the reason is counted below.
        if let Some(kind) = report.used {
            increment(&mut builds.kinds, kind);
        }
        if report.reason != FallbackReason::None {
            increment(&mut builds.fallbacks, report.reason);
        }
        builds.bytes += bytes as u64;
        builds.keys += report.distinct_keys;
    }
}

/// Adds one to the count of `key`, in a list because there are few keys.
fn increment<K: PartialEq>(counts: &mut Vec<(K, u64)>, key: K) {
    match counts.iter_mut().find(|(counted, _)| *counted == key) {
        Some((_, count)) => *count += 1,
        None => counts.push((key, 1)),
    }
}
