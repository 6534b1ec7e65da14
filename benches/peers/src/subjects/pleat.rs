//! `pleat`: Ribbon filters, standard of width 128 and homogeneous of width 64, 7 bits of result.
//!
//! Built by its `pleated` constructors, which produce the same bytes as the plain ones, faster.

use pleat::filter::{Ribbon, StdRibbon};

use super::RIBBON_SEVEN;
use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

struct Pleat {
    kind: &'static str,
    build: fn(&[u64]) -> BuildResult,
}

/// A filter, and the answers of a batch.
struct Built<F> {
    filter: F,
    answers: Vec<bool>,
}

fn boxed<F>(filter: F) -> Box<Built<F>> {
    Box::new(Built { filter, answers: vec![false; BATCH_KEYS] })
}

pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    [
        Box::new(Pleat {
            kind: "standard Ribbon, w=128",
            build: |keys| Ok(boxed(StdRibbon::<7>::from_keys_pleated(keys)?)),
        }),
        Box::new(Pleat {
            kind: "homogeneous Ribbon, w=64",
            build: |keys| Ok(boxed(Ribbon::<7>::from_keys_pleated(keys))),
        }),
    ]
}

impl Subject for Pleat {
    fn label(&self) -> Label {
        let (family, hash) = (Family::Static, HashUse::Given);
        Label { implementation: "pleat", kind: self.kind, family, hash, isa: None, against: RIBBON_SEVEN }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        (self.build)(keys.numbers)
    }
}

/// Probes in batches with `ask`, which fills a slice of answers.
fn count_batches(keys: Keys<'_>, answers: &mut [bool], ask: impl Fn(&[u64], &mut [bool])) -> u64 {
    keys.numbers.chunks(BATCH_KEYS).fold(0, |sum, batch| {
        let answers = &mut answers[..batch.len()];
        ask(batch, answers);
        sum + count_where(answers, |&answer| answer)
    })
}

impl Filter for Built<StdRibbon<7>> {
    fn bytes(&self) -> u64 {
        self.filter.to_bytes().len() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&key| self.filter.contains(key))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        let filter = &self.filter;
        Some(count_batches(keys, &mut self.answers, |keys, answers| filter.contains_batch(keys, answers)))
    }
}

impl Filter for Built<Ribbon<7>> {
    fn bytes(&self) -> u64 {
        self.filter.to_bytes().len() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&key| self.filter.contains(key))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        let filter = &self.filter;
        Some(count_batches(keys, &mut self.answers, |keys, answers| filter.contains_batch(keys, answers)))
    }
}
