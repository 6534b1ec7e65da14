//! The records of range filters.

use serde::{Deserialize, Serialize};

use crate::record::Run;
use crate::subjects::sstfilter::NAME;

/// Everything of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeMeasurements {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// One filter at a time.
    pub records: Vec<RangeRecord>,
    /// Empty ranges that start close above a key.
    pub correlated: Vec<CorrelatedRecord>,
    /// Ranges that hold a key.
    pub held: Vec<HeldRecord>,
    /// Subjects that could not be measured, with the reasons.
    pub left_out: Vec<String>,
}

/// A filter, its settings and its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The crate.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// Its version.
    pub version: String,
    /// The kind of filter and its settings.
    pub kind: String,
    /// The longest range that it is built for; `None` for any.
    pub longest: Option<u64>,
    /// The kind of keys.
    pub keys: String,
    /// The number of keys.
    pub n: u64,
}

impl Built {
    /// Whether it is one of our filters.
    pub fn is_ours(&self) -> bool {
        self.implementation == NAME
    }
}

/// One filter and ranges of one length. Times are of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RangeRecord {
    /// The filter.
    #[serde(flatten)]
    pub built: Built,
    /// Points in a range.
    pub length: u64,
    /// Bits of the whole filter per key: serialised, or as allocated where it cannot be serialised.
    pub bits_per_key: f64,
    /// Whether those are allocated bits.
    pub is_allocated: bool,
    /// Empty ranges that were probed.
    pub empty_ranges: u64,
    /// The share of them that may hold a key. Errors count as such.
    pub fpr: f64,
    /// Nanoseconds of building per key, from sorted keys.
    pub build_ns_per_key: f64,
    /// Nanoseconds per empty range, one by one.
    pub empty_ns: f64,
    /// Nanoseconds per empty range in batches; `None` without such a call.
    pub batch_ns: Option<f64>,
}

/// The rate for empty ranges that start up to a distance above a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorrelatedRecord {
    /// The filter.
    #[serde(flatten)]
    pub built: Built,
    /// Points in a range.
    pub length: u64,
    /// D: ranges start up to 2^round(30 (1 - D)) above a key.
    pub degree: f64,
    /// Empty ranges that were probed.
    pub empty_ranges: u64,
    /// The share of them that may hold a key. Errors count as such.
    pub fpr: f64,
}

/// Ranges with a key, and how many of them were reported as empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldRecord {
    /// The filter.
    #[serde(flatten)]
    pub built: Built,
    /// Where the ranges lie.
    pub place: String,
    /// Points in a range; `None` when they differ.
    pub length: Option<u64>,
    /// Ranges that hold a key.
    pub ranges: u64,
    /// False negatives.
    pub lost: u64,
}
