//! Our range filters.

use bytes::Bytes;
use sstfilter::{BuildContext, FalsePositiveRate, KeyHasher, MatchBitmap};
use sstfilter_range::{RangeFilter, RangePolicy, RangeUnits};

use super::keys::{Ranges, SortedKeys};
use super::subject::{Answers, Filter, Label, Subject, Takes};
use crate::subject::{BuildError, count_batches, count_where};
use crate::subjects::sstfilter::NAME;

/// Ordered codes at 1 %, and hashed codes at 1 % for ranges of each of these lengths.
pub fn subjects(lengths: &[u64]) -> Result<Vec<Box<dyn Subject>>, BuildError> {
    let rate = FalsePositiveRate::ONE_PERCENT;
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for &longest in lengths {
        let policy = RangePolicy::hashed(RangeUnits::integer(8)?, longest, rate)?;
        let kind = hashed(longest);
        subjects.push(Box::new(Ours { kind, longest: Some(longest), policy }));
    }
    subjects.push(Box::new(Ours { kind: ORDERED.to_owned(), longest: None, policy: RangePolicy::ordered(rate)? }));
    Ok(subjects)
}

/// The name of ordered codes at 1 %.
pub const ORDERED: &str = "ordered, 1 %";

/// The name of hashed codes at 1 %.
pub fn hashed(longest: u64) -> String {
    format!("hashed, 1 % at 2^{}", longest.ilog2())
}

struct Ours {
    kind: String,
    longest: Option<u64>,
    policy: RangePolicy,
}

struct Loaded {
    filter: RangeFilter<Bytes>,
    matches: MatchBitmap,
}

impl Subject for Ours {
    fn label(&self) -> Label {
        Label { implementation: NAME, kind: self.kind.clone(), longest: self.longest, takes: Takes::Bytes }
    }

    fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
        let hasher = KeyHasher::default();
        let mut builder = self.policy.builder(&BuildContext::new(&hasher));
        keys.bytes.iter().for_each(|key| builder.add_key(key));
        let block = builder.finish().block.ok_or("no filter for these keys")?;
        let filter = RangeFilter::open_unverified(block, &hasher)?;
        Ok(Box::new(Loaded { filter, matches: MatchBitmap::default() }))
    }

    /// Hashed codes: the units of a chunk, 32 times the longest range.
    fn boundary_step(&self, _keys: u64) -> u64 {
        self.longest.map_or(1 << 32, |longest| longest.next_power_of_two() << 5)
    }
}

impl Filter for Loaded {
    fn serialised_bytes(&self) -> Option<u64> {
        Some(self.filter.as_bytes().len() as u64)
    }

    fn probe(&mut self, ranges: Ranges<'_>) -> Answers {
        let positives = count_where(ranges.keys, |&range| self.filter.may_contain_range(range));
        Answers { positives, errors: 0 }
    }

    fn probe_batch(&mut self, ranges: Ranges<'_>) -> Option<u64> {
        let filter = &self.filter;
        Some(count_batches(ranges.keys, &mut self.matches, |part, matches| {
            filter.may_contain_range_batch(part, matches);
        }))
    }
}
