//! What is measured, seen from the harness.

use super::keys::{KeyKind, Ranges, SortedKeys};
use crate::subject::BuildError;

/// A range filter with its settings.
pub trait Subject {
    /// What it is.
    fn label(&self) -> Label;

    /// Everything from sorted keys to a filter that can be probed.
    ///
    /// # Errors
    ///
    /// What the crate says when it cannot build one.
    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError>;

    /// A distance at whose multiples the filter maps numbers in another way, for `keys` keys.
    fn boundary_step(&self, _keys: u64) -> u64 {
        1 << 32
    }
}

/// What a subject is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The crate.
    pub implementation: &'static str,
    /// The kind of filter and its settings.
    pub kind: String,
    /// The longest range that it is built for; `None` for any.
    pub longest: Option<u64>,
    /// Which keys it takes.
    pub takes: Takes,
}

/// Which keys a filter takes.
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

/// What a filter says of some ranges. The other ranges are reported as empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Ranges that may hold a key.
    pub positives: u64,
    /// Ranges for which there is an error instead of an answer. A caller must take them for positives.
    pub errors: u64,
}
