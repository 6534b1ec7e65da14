//! Range filters as subjects of the harness.

use super::keys::{KeyKind, Ranges, SortedKeys};
use crate::subject::{BuildResult, Queries, Subject, Workload};

/// The name of a crate.
pub const GRAFITE: &str = "grafite";

/// Filters of ranges, built from sorted keys.
pub struct OfRanges;

impl Workload for OfRanges {
    type Label = Label;
    type Keys<'a> = &'a SortedKeys;
    type Queries<'a> = Ranges<'a>;
    const COUNTS_LOST_KEYS: bool = true;
}

/// Some range filters.
pub type Subjects = Vec<Box<dyn Subject<OfRanges>>>;

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
    /// Whether a range takes so long that it gets [`OF_SLOW`] of them.
    pub is_slow: bool,
}

/// The keys that a filter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Numbers of 64 bits.
    Numbers,
    /// Any bytes.
    Bytes,
}

/// Ranges of each kind that a slow filter is probed for.
const OF_SLOW: usize = 256;

impl Label {
    /// Makes a subject of a label and a function that builds its filter.
    pub fn built_by(
        self,
        build: impl Fn(&SortedKeys) -> BuildResult<OfRanges> + 'static,
    ) -> Box<dyn Subject<OfRanges>> {
        Box::new((self, build))
    }

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

    /// Returns the ranges that the filter is probed for.
    pub fn part_of<'a>(&self, ranges: Ranges<'a>) -> Ranges<'a> {
        if self.is_slow { ranges.first(OF_SLOW) } else { ranges }
    }

    /// Returns a distance at whose multiples the filter's map of numbers changes, for `keys` keys.
    pub fn boundary_step(&self, keys: u64) -> u64 {
        match self.longest {
            // The size of the reduced universe.
            Some(longest) if self.implementation == GRAFITE => keys * longest * 100,
            // The units of a chunk of our hashed codes.
            Some(longest) => longest.next_power_of_two() << 5,
            None => 1 << 32,
        }
    }
}
