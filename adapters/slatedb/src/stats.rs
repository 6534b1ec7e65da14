//! Counters of filters, for a snapshot and for the engine's metrics.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slatedb_common::metrics::{CounterFn, MetricsRecorder};
use sstfilter::{BlockError, KindId};

/// Declares each event once, with its field in the snapshot and its metric.
macro_rules! events {
    ($($event:ident $field:ident $metric:literal [$($label:literal = $value:literal)?] $what:literal)+) => {
        /// A counted event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($event),+
        }

        const EVENTS: usize = [$(Event::$event),+].len();

        /// The counts of one [`SlateFilters`](crate::SlateFilters) in this process.
        ///
        /// SlateDB counts the answers of sound filters (`slatedb.db.sst_filter_positive_count` and so on).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct SlateFilterStats {
            $(#[doc = $what] pub $field: u64,)+
        }

        impl Counters {
            /// Returns the counts so far.
            pub(crate) fn snapshot(&self) -> SlateFilterStats {
                SlateFilterStats { $($field: self.counts[Event::$event as usize].load(Ordering::Relaxed)),+ }
            }

            /// Returns counters that also count into metrics of `recorder`.
            pub(crate) fn with_recorder(recorder: &dyn MetricsRecorder) -> Self {
                let metrics = vec![
                    $(recorder.register_counter(
                        concat!("sstfilter.slatedb.", $metric),
                        $what,
                        &[$(($label, $value))?],
                    )),+
                ];
                Self { metrics, ..Self::default() }
            }
        }
    };
}

events! {
    BuiltRibbon built_ribbon "filters_built" ["kind" = "ribbon"] "Ribbon filters built."
    BuiltBloom built_bloom "filters_built" ["kind" = "blocked_bloom"] "Blocked Bloom filters built."
    BuiltRange built_range "filters_built" ["kind" = "range"] "Range filters built."
    BuiltOther built_other "filters_built" ["kind" = "other"] "Filters of other kinds built."
    BuiltNone built_none "filters_built" ["kind" = "none"] "Filters that could not be built: their SSTs have an empty entry."
    BuiltBytes built_bytes "filter_bytes_built" [] "Bytes of the filters built."
    Decoded decoded "filters_decoded" ["outcome" = "usable"] "Stored filters that were read and are usable."
    Damaged damaged "filters_decoded" ["outcome" = "damaged"] "Stored filters that are damaged: each of their queries may match."
    Unsupported unsupported "filters_decoded" ["outcome" = "unsupported"] "Stored filters of a newer version or an unknown kind: each of their queries may match."
    OtherHash other_hash "filters_decoded" ["outcome" = "other_hash"] "Stored filters built with another hash or prefix extractor: each of their queries may match."
    NoFilter no_filter "filters_decoded" ["outcome" = "none"] "Stored entries without a filter, because none could be built."
    UnusableProbes unusable_probes "unusable_probes" [] "Queries that may match because their SST's filter is unusable."
    ForeignProbes foreign_probes "foreign_probes" [] "Queries outside their filter's key range, which may match: the filter is another SST's, or the store is a clone with a projection range."
}

/// The counters of one set of policies.
#[derive(Default)]
pub(crate) struct Counters {
    counts: [AtomicU64; EVENTS],
    metrics: Vec<Arc<dyn CounterFn>>,
}

impl Counters {
    pub(crate) fn add(&self, event: Event, count: u64) {
        self.counts[event as usize].fetch_add(count, Ordering::Relaxed);
        if let Some(metric) = self.metrics.get(event as usize) {
            metric.increment(count);
        }
    }

    pub(crate) fn add_built(&self, kind: Option<KindId>, bytes: usize) {
        let event = match kind {
            Some(KindId::RIBBON) => Event::BuiltRibbon,
            Some(KindId::BLOCKED_BLOOM) => Event::BuiltBloom,
            Some(KindId::RANGE) => Event::BuiltRange,
            Some(_) => Event::BuiltOther,
            None => Event::BuiltNone,
        };
        self.add(event, 1);
        self.add(Event::BuiltBytes, bytes as u64);
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The reason why a stored filter is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// Its bytes are damaged, or not a filter.
    Damaged(String),
    /// It has a newer version, or a kind that this reader does not know.
    Unsupported(String),
    /// It was built with another hash function, seed or prefix extractor.
    OtherHash(String),
    /// There is no filter, because it could not be built.
    NoFilter,
}

impl Unusable {
    pub(crate) fn event(&self) -> Event {
        match self {
            Self::Damaged(_) => Event::Damaged,
            Self::Unsupported(_) => Event::Unsupported,
            Self::OtherHash(_) => Event::OtherHash,
            Self::NoFilter => Event::NoFilter,
        }
    }
}

impl From<BlockError> for Unusable {
    fn from(error: BlockError) -> Self {
        let text = error.to_string();
        match error {
            BlockError::Version { .. } | BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } => {
                Self::Unsupported(text)
            }
            BlockError::HashMismatch { .. }
            | BlockError::ExtractorMismatch { .. }
            | BlockError::PartNotHeld
            | BlockError::KnownKeyAbsent { .. } => Self::OtherHash(text),
            _ => Self::Damaged(text),
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(text) | Self::Unsupported(text) | Self::OtherHash(text) => f.write_str(text),
            Self::NoFilter => f.write_str("no filter could be built for this SST"),
        }
    }
}
