//! Our range filters.

use bytes::Bytes;
use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher, MatchBitmap};
use sstfilter_range::{RangeFilter, RangePolicy, RangeUnits};

use super::keys::Ranges;
use super::subject::{Label, OfRanges, Subjects, Takes};
use crate::subject::{BuildError, Filter, Subject, count_batches, count_where};
use crate::subjects::sstfilter::NAME;

/// Ordered codes at 1 %, and hashed codes at 1 % for ranges of each of these lengths.
pub fn subjects(lengths: &[u64]) -> Result<Subjects, BuildError> {
    let rate = FalsePositiveRate::ONE_PERCENT;
    let mut subjects = Vec::new();
    for &longest in lengths {
        let policy = RangePolicy::hashed(RangeUnits::integer(8)?, longest, rate)?;
        subjects.push(subject(hashed(longest), Some(longest), policy));
    }
    subjects.push(subject(ORDERED.to_owned(), None, RangePolicy::ordered(rate)?));
    Ok(subjects)
}

/// The name of ordered codes at 1 %.
pub const ORDERED: &str = "ordered, 1 %";

/// The name of hashed codes at 1 %.
pub fn hashed(longest: u64) -> String {
    format!("hashed, 1 % at 2^{}", longest.ilog2())
}

fn subject(kind: String, longest: Option<u64>, policy: RangePolicy) -> Box<dyn Subject<OfRanges>> {
    Label { implementation: NAME, kind, longest, takes: Takes::Bytes, is_slow: false }.built_by(move |keys| {
        let hasher = KeyHasher::default();
        let mut builder = policy.builder(&BuildContext::new(&hasher));
        keys.bytes.iter().for_each(|key| builder.add_key(key));
        let block = builder.finish().block.ok_or("no filter for these keys")?;
        let filter = RangeFilter::open_unverified(block, &hasher)?;
        Ok(Box::new(Loaded { filter, matches: MatchBitmap::default() }))
    })
}

struct Loaded {
    filter: RangeFilter<Bytes>,
    matches: MatchBitmap,
}

impl Filter<OfRanges> for Loaded {
    fn bytes(&self) -> Option<u64> {
        Some(self.filter.as_bytes().len() as u64)
    }

    fn count(&mut self, ranges: Ranges<'_>) -> u64 {
        count_where(ranges.keys, |&range| self.filter.may_contain_range(range))
    }

    fn count_batch(&mut self, ranges: Ranges<'_>) -> Option<u64> {
        let filter = &self.filter;
        Some(count_batches(ranges.keys, &mut self.matches, |part, matches| {
            filter.may_contain_range_batch(part, matches);
        }))
    }
}
