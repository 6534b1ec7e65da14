//! The interface between the harness and a subject.

use super::keys::{KeyKind, Ranges, SortedKeys};
use crate::subject::BuildError;

/// A range filter with its settings.
pub trait Subject {
    /// Returns the description.
    fn label(&self) -> Label;

    /// Builds a filter that can be probed, from sorted keys.
    ///
    /// # Errors
    ///
    /// The crate's error.
    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError>;

    /// Returns a distance at whose multiples the filter's map of numbers changes, for `keys` keys.
    fn boundary_step(&self, _keys: u64) -> u64 {
        1 << 32
    }
}

/// The description of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The crate.
    pub implementation: &'static str,
    /// The kind of filter and its settings.
    pub kind: String,
    /// The longest range that it is built for; `None` for any.
    pub longest: Option<u64>,
    /// The keys it takes.
    pub takes: Takes,
}

/// The keys that a filter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Numbers of 64 bits.
    Numbers,
    /// Any bytes.
    Bytes,
}

impl Label {
    /// Whether the filter is for keys of this kind.
    pub fn is_for(&self, kind: KeyKind) -> bool {
        kind.is_of_numbers() || self.takes == Takes::Bytes && self.longest.is_none()
    }

    /// Whether the filter is for ranges of exactly this length, or for any.
    pub fn is_built_for(&self, length: u64) -> bool {
        self.longest.is_none_or(|longest| longest == length)
    }

    /// Whether the filter is for ranges of this length.
    pub fn covers(&self, length: u64) -> bool {
        self.longest.is_none_or(|longest| length <= longest)
    }
}

/// A filter that was built. Many ranges are probed in one call, so that the loop is compiled into each crate's query.
pub trait Filter {
    /// The bytes of the serialised filter, if it can be serialised.
    fn serialised_bytes(&self) -> Option<u64> {
        None
    }

    /// Probes for all ranges, one by one.
    fn probe(&mut self, ranges: Ranges<'_>) -> Answers;

    /// How many ranges may hold a key, by the crate's own batch call; `None` when it has none.
    fn probe_batch(&mut self, _ranges: Ranges<'_>) -> Option<u64> {
        None
    }
}

/// A filter's answers for some ranges. All other ranges are reported as empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Ranges that may hold a key.
    pub positives: u64,
    /// Ranges with an error instead of an answer, which a caller must treat as positives.
    pub errors: u64,
}
