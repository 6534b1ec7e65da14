//! Counts of the states that the sequences reached: a test that never meets a false positive says nothing about them.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;

use sstfilter::kind;

/// Every state that must have been reached, in addition to filters of each kind.
const STATES: [&str; 32] = [
    "batch reads",
    "block cache hits",
    "compactions",
    "compactions that kept tombstones",
    "declined filters",
    "deletes",
    "empty tables",
    "entries scanned by prefix",
    "extractors, some shared",
    "extractors that differ",
    "fallbacks",
    "false positives",
    "filters ignored",
    "filters under a budget",
    "flushes",
    "hashes that differ",
    "hidden values",
    "keys outside the domain",
    "negatives",
    "partitions",
    "point reads",
    "prefixes queried",
    "probes of filters that were not loaded",
    "range skips",
    "reopenings",
    "tables on disk",
    "tables skipped for a prefix",
    "tombstone hits",
    "tombstones dropped",
    "true positives",
    "unusable filters probed",
    "walked entries",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn add(&mut self, state: &str, times: u64) {
        if let Some(count) = self.0.get_mut(state) {
            *count += times;
        } else if times > 0 {
            self.0.insert(state.to_owned(), times);
        }
    }

    pub(crate) fn assert_all_reached(&self) {
        let kinds = kind::all().iter().map(|entry| format!("filters of kind {}", entry.id));
        let states = STATES.into_iter().map(str::to_owned).chain(kinds);
        let missed: Vec<String> = states.filter(|state| !self.0.contains_key(state)).collect();
        assert!(missed.is_empty(), "never reached: {missed:?}");
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, counts| {
            counts.0.iter().for_each(|(state, &times)| sum.add(state, times));
            sum
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(state, count)| writeln!(f, "  {state}: {count}"))
    }
}
