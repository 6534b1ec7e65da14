//! The range filters of other crates.

use std::ops::Bound;

use grafite::{PairwiseIndependentHasher, RangeFilter};
use range_filters::Diva;
use rsurf::options::Options;
use rsurf::surf::Surf;

use super::keys::Ranges;
use super::subject::{GRAFITE, Label, OfRanges, Subjects, Takes};
use crate::subject::{BuildResult, Filter, Subject, count_where};

/// Returns the peers; a filter for ranges of one length is built for each of these lengths.
pub fn subjects(lengths: &[u64]) -> Subjects {
    lengths.iter().map(|&longest| grafite(longest)).chain(DIVA_RATES.map(diva)).chain([surf()]).collect()
}

/// A filter of numbers whose query is a closure, which is compiled into the loop.
struct OfNumbers<F, P> {
    filter: F,
    may_contain: P,
}

impl<F, P: Fn(&F, u64, u64) -> bool> Filter<OfRanges> for OfNumbers<F, P> {
    fn bytes(&self) -> Option<u64> {
        None
    }

    fn count(&mut self, ranges: Ranges<'_>) -> u64 {
        count_where(ranges.numbers, |&[lower, upper]| (self.may_contain)(&self.filter, lower, upper))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the last call of a build")]
fn built<F: 'static>(filter: F, may_contain: impl Fn(&F, u64, u64) -> bool + 'static) -> BuildResult<OfRanges> {
    Ok(Box::new(OfNumbers { filter, may_contain }))
}

/// The rate that Grafite's constructor takes.
const GRAFITE_EPSILON: f64 = 0.01;

/// Grafite with the settings of its documentation: an error rate, and the longest range.
fn grafite(longest: u64) -> Box<dyn Subject<OfRanges>> {
    let kind = format!("Grafite, 1 % at 2^{}", longest.ilog2());
    let label = Label { implementation: GRAFITE, kind, longest: Some(longest), takes: Takes::Numbers, is_slow: false };
    label.built_by(move |keys| {
        let hasher = PairwiseIndependentHasher::new(keys.len(), GRAFITE_EPSILON, longest);
        let hasher = hasher.map_err(|error| format!("{error:?}"))?;
        let filter = RangeFilter::new(keys.numbers.iter().copied(), hasher);
        built(filter, |filter, lower, upper| filter.query(lower..=upper))
    })
}

/// The rate in the documentation of `range-filters`, and the highest setting that keeps 1 %: of remainders of 8, 9 and
/// 10 bits, the last.
const DIVA_RATES: [f64; 2] = [0.01, 0.0025];

/// Keys per sample, as in the documentation.
const DIVA_TARGET: usize = 1024;

/// The Diva of `range-filters`.
fn diva(rate: f64) -> Box<dyn Subject<OfRanges>> {
    let kind = format!("Diva, {} % set", rate * 100.0);
    let label = Label { implementation: "range-filters", kind, longest: None, takes: Takes::Numbers, is_slow: false };
    label.built_by(move |keys| built(Diva::new_with_keys(&keys.numbers, DIVA_TARGET, rate), Diva::range_query))
}

/// `rsurf` with its default options. It uses only the memory limit.
fn surf() -> Box<dyn Subject<OfRanges>> {
    let kind = "SuRF".to_owned();
    Label { implementation: "rsurf", kind, longest: None, takes: Takes::Bytes, is_slow: true }.built_by(|keys| {
        let keys = keys.bytes.iter().map(<[u8]>::to_vec).collect();
        Ok(Box::new(Surf::new(keys, Options::default())?))
    })
}

impl Filter<OfRanges> for Surf {
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// An error counts as a positive, because a caller cannot skip anything for it.
    fn count(&mut self, ranges: Ranges<'_>) -> u64 {
        count_where(ranges.keys, |range| {
            let (Bound::Included(lower), Bound::Included(upper)) = (range.lower, range.upper) else { return true };
            self.range(lower.to_vec(), upper.to_vec()).unwrap_or(true)
        })
    }
}
