//! The range filters of other crates.

use grafite::{PairwiseIndependentHasher, RangeFilter};
use range_filters::Diva;
use rsurf::options::Options;
use rsurf::surf::Surf;
use std::ops::Bound;

use super::keys::{Ranges, SortedKeys};
use super::subject::{Answers, Filter, Label, Subject, Takes};
use crate::subject::{BuildError, count_where};

/// The names of the crates.
pub const GRAFITE: &str = "grafite";
pub const DIVA: &str = "range-filters";
pub const SURF: &str = "rsurf";

/// Returns the peers; a filter for ranges of one length is built for each of these lengths.
pub fn subjects(lengths: &[u64]) -> Vec<Box<dyn Subject>> {
    let grafites = lengths.iter().map(|&longest| -> Box<dyn Subject> { Box::new(Grafite { longest }) });
    let divas = DIVA_RATES.map(|rate| -> Box<dyn Subject> { Box::new(ToyDiva { rate }) });
    let surf: Box<dyn Subject> = Box::new(RustSurf);
    grafites.chain(divas).chain([surf]).collect()
}

/// The rate that Grafite's constructor takes.
const GRAFITE_EPSILON: f64 = 0.01;

/// Grafite with the settings of its documentation: an error rate, and the longest range.
struct Grafite {
    longest: u64,
}

impl Subject for Grafite {
    fn label(&self) -> Label {
        let kind = format!("Grafite, 1 % at 2^{}", self.longest.ilog2());
        Label { implementation: GRAFITE, kind, longest: Some(self.longest), takes: Takes::Numbers }
    }

    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
        let hasher = PairwiseIndependentHasher::new(keys.len(), GRAFITE_EPSILON, self.longest)
            .map_err(|error| format!("{error:?}"))?;
        Ok(Box::new(RangeFilter::new(keys.numbers.iter().copied(), hasher)))
    }

    /// The size of the reduced universe.
    fn boundary_step(&self, keys: u64) -> u64 {
        keys * self.longest * 100
    }
}

impl Filter for RangeFilter {
    fn probe(&mut self, ranges: Ranges<'_>) -> Answers {
        let positives = count_where(ranges.numbers, |&[lower, upper]| self.query(lower..=upper));
        Answers { positives, errors: 0 }
    }
}

/// The rate in the documentation of `range-filters`, and the highest setting that keeps 1 %: of remainders of 8, 9 and
/// 10 bits, the last.
const DIVA_RATES: [f64; 2] = [0.01, 0.0025];

/// Keys per sample, as in the documentation.
const DIVA_TARGET: usize = 1024;

/// The Diva of `range-filters`.
struct ToyDiva {
    rate: f64,
}

impl Subject for ToyDiva {
    fn label(&self) -> Label {
        let kind = format!("Diva, {} % set", self.rate * 100.0);
        Label { implementation: DIVA, kind, longest: None, takes: Takes::Numbers }
    }

    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
        Ok(Box::new(Diva::new_with_keys(&keys.numbers, DIVA_TARGET, self.rate)))
    }
}

impl Filter for Diva {
    fn probe(&mut self, ranges: Ranges<'_>) -> Answers {
        let positives = count_where(ranges.numbers, |&[lower, upper]| self.range_query(lower, upper));
        Answers { positives, errors: 0 }
    }
}

/// `rsurf` with its default options. It uses only the memory limit.
struct RustSurf;

impl Subject for RustSurf {
    fn label(&self) -> Label {
        Label { implementation: SURF, kind: "SuRF".to_owned(), longest: None, takes: Takes::Bytes }
    }

    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
        let keys = keys.bytes.iter().map(<[u8]>::to_vec).collect();
        Ok(Box::new(Surf::new(keys, Options::default())?))
    }
}

impl Filter for Surf {
    fn probe(&mut self, ranges: Ranges<'_>) -> Answers {
        let mut answers = Answers::default();
        for range in ranges.keys {
            let (Bound::Included(lower), Bound::Included(upper)) = (range.lower, range.upper) else { continue };
            match self.range(lower.to_vec(), upper.to_vec()) {
                Ok(may_contain_range) => answers.positives += u64::from(may_contain_range),
                Err(_) => answers.errors += 1,
            }
        }
        answers
    }
}
