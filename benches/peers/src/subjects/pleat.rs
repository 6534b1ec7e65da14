//! `pleat`: Ribbon filters, standard of width 128 and homogeneous of width 64, 7 bits of result.
//!
//! Built by its `pleated` constructors, which produce the same bytes as the plain ones, faster.

use pleat::filter::{Ribbon, StdRibbon};

use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, Family, Filter, Label, Subject, count_where};

/// A filter, and the answers of a batch.
struct Built<F> {
    filter: F,
    answers: Vec<bool>,
}

fn boxed<F>(filter: F) -> Box<Built<F>> {
    Box::new(Built { filter, answers: vec![false; BATCH_KEYS] })
}

pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    let label = |kind| Label::of("pleat", kind, Family::Static, "Ribbon, 2^-7");
    [
        label("standard Ribbon, w=128").built_by(|keys| Ok(boxed(StdRibbon::<7>::from_keys_pleated(keys.numbers)?))),
        label("homogeneous Ribbon, w=64").built_by(|keys| Ok(boxed(Ribbon::<7>::from_keys_pleated(keys.numbers)))),
    ]
}

// The crate has no trait of both.
macro_rules! impl_filter {
    ($ribbon:ty) => {
        impl Filter for Built<$ribbon> {
            fn bytes(&self) -> Option<u64> {
                Some(self.filter.to_bytes().len() as u64)
            }

            fn count(&mut self, keys: Keys<'_>) -> u64 {
                count_where(keys.numbers, |&key| self.filter.contains(key))
            }

            fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
                let batches = keys.numbers.chunks(BATCH_KEYS).map(|batch| {
                    let answers = &mut self.answers[..batch.len()];
                    self.filter.contains_batch(batch, answers);
                    count_where(answers, |&answer| answer)
                });
                Some(batches.sum())
            }
        }
    };
}

impl_filter!(StdRibbon<7>);
impl_filter!(Ribbon<7>);
