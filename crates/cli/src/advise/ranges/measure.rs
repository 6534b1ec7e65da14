//! Measures rates on empty ranges: ranges that are independent of the file's keys, and ranges that begin next to one.

use core::ops::Bound;

use anyhow::Context;
use bytes::Bytes;
use serde::Serialize;
use sstfilter::{BuildContext, KeyHash, KeyHasher, KeyRange};
use sstfilter_range::{RangeContext, RangeFilter, RangePolicy};

use super::keys::{Keys, Row};

/// Maximum number of ranges of each sort.
const MAX_RANGES: usize = 100_000;

/// With at least this many prefixes, independent ranges are taken from prefixes that the file does not have.
const MANY_PREFIXES: u64 = 32;

/// Length of the stretch of keys in which an independent range begins. The density of keys hardly changes over so few,
/// and the range is as likely to be in a wide gap as another key.
const STRETCH: usize = 16;

/// Both ends of a range.
type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys of a sample file, and empty ranges of it.
pub(super) struct Sample<'a> {
    file: Vec<&'a [u8]>,
    independent: Vec<Ends>,
    beside: Vec<Ends>,
    /// Length of the longest range.
    units: u64,
    pub(super) independent_in_words: &'static str,
    pub(super) beside_in_words: &'static str,
}

/// A map's filter of the keys.
#[derive(Debug, Serialize)]
pub(super) struct MapFigures {
    pub(super) map: &'static str,
    pub(super) bits_per_key: f64,
    pub(super) expected_fpr: f64,
    /// Null if no such range is empty.
    pub(super) independent: Option<Measured>,
    pub(super) beside: Option<Measured>,
}

/// Answers for empty ranges.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) ranges: u64,
    pub(super) positives: u64,
}

impl Measured {
    pub(super) fn rate(&self) -> f64 {
        self.positives as f64 / self.ranges as f64
    }
}

impl MapFigures {
    /// Builds a filter of all keys to get its size, and a filter of the sample file to get its answers.
    pub(super) fn new(
        map: &'static str,
        policy: &RangePolicy,
        keys: &Keys<'_>,
        sample: &Sample<'_>,
    ) -> anyhow::Result<Self> {
        let filter = build(policy, &keys.all)?;
        let sampled = build(policy, &sample.file)?;
        Ok(Self {
            map,
            bits_per_key: filter.info().bits_per_key(),
            expected_fpr: filter.info().expected_fpr(sample.units),
            independent: measured(&sampled, &sample.independent),
            beside: measured(&sampled, &sample.beside),
        })
    }

    /// Whether no range was a false positive.
    pub(super) fn is_never_wrong(&self) -> bool {
        let is_right = |measured: &Option<Measured>| measured.as_ref().is_none_or(|measured| measured.positives == 0);
        is_right(&self.independent) && is_right(&self.beside)
    }
}

fn build(policy: &RangePolicy, keys: &[&[u8]]) -> anyhow::Result<RangeFilter<Bytes>> {
    let hasher = KeyHasher::default();
    let mut builder = policy.builder(&BuildContext::new(&hasher));
    keys.iter().for_each(|key| builder.add_key(key));
    let built = builder.finish();
    let block = built.block.with_context(|| format!("no range filter: {}", built.report.reason))?;
    let context = RangeContext::new(&hasher, policy.extractor());
    Ok(RangeFilter::load(block, context)?)
}

fn measured(filter: &RangeFilter<Bytes>, ranges: &[Ends]) -> Option<Measured> {
    let may_contain_range =
        |(lower, upper): &&Ends| filter.may_contain_range(KeyRange::from((lower.as_ref(), upper.as_ref())));
    let positives = ranges.iter().filter(may_contain_range).count() as u64;
    (!ranges.is_empty()).then_some(Measured { ranges: ranges.len() as u64, positives })
}

impl<'a> Sample<'a> {
    pub(super) fn new(keys: &Keys<'a>, units: u64) -> Self {
        match keys.shape.prefixes {
            _ if keys.shape.integer_bytes.is_none() => Self::of_strings(keys),
            Some(prefixes) if prefixes >= MANY_PREFIXES => Self::of_prefixes(keys, units),
            _ => Self::of_integers(keys, units),
        }
    }

    /// Puts half of the prefixes in the file. Ranges in the other prefixes are independent of it.
    fn of_prefixes(keys: &Keys<'a>, units: u64) -> Self {
        let is_in_file = |row: &Row| is_heads(row.prefix);
        let (inside, outside): (Vec<_>, Vec<_>) = keys.rows.iter().copied().partition(|(_, row)| is_in_file(row));
        let file: Vec<_> = inside.iter().map(|&(key, _)| key).collect();
        let independent = some_of(&outside).filter_map(|&(key, row)| range_from(keys, (key, row), row.integer, units));
        Self {
            // A positive for a range with a key is not a false one.
            independent: independent.filter(|ends| is_empty(ends, &file)).collect(),
            beside: beside(keys, &inside, units),
            file,
            units,
            independent_in_words: "inside prefixes that the file does not have",
            beside_in_words: "from one unit after a key, or up to the next key",
        }
    }

    /// Puts all keys in the file. Ranges begin anywhere in a stretch of keys.
    fn of_integers(keys: &Keys<'a>, units: u64) -> Self {
        let anywhere = |(at, &(key, row)): (usize, &(&[u8], Row))| {
            let far = keys.rows[at..].iter().take(STRETCH + 1).rev().find(|(_, far)| far.prefix == row.prefix)?;
            let span = (far.1.integer - row.integer) as f64;
            let from = row.integer + crate::units::whole(uniform(at) * span);
            range_from(keys, (key, row), from, units)
        };
        let numbered: Vec<_> = keys.rows.iter().enumerate().collect();
        let independent = some_of(&numbered).copied().filter_map(anywhere);
        Self {
            independent: independent.filter(|ends| is_empty(ends, &keys.all)).collect(),
            beside: beside(keys, &keys.rows, units),
            file: keys.all.clone(),
            units,
            independent_in_words: "from anywhere between keys",
            beside_in_words: "from one unit after a key, or up to the next key",
        }
    }

    /// Puts half of the keys in the file. Ranges go from one of the other keys to the next.
    fn of_strings(keys: &Keys<'a>) -> Self {
        let file: Vec<_> = keys.all.iter().enumerate().filter(|&(at, _)| is_heads(at)).map(|(_, &key)| key).collect();
        let numbered: Vec<_> = keys.all.iter().enumerate().collect();
        let pairs: Vec<_> = numbered.windows(2).collect();
        let ends = |is_first_in_file: bool| {
            let chosen =
                pairs.iter().filter(move |pair| is_heads(pair[0].0) == is_first_in_file && !is_heads(pair[1].0));
            chosen.take(MAX_RANGES).map(move |pair| {
                let (first, last) = (pair[0].1.to_vec(), pair[1].1.to_vec());
                let lower = if is_first_in_file { Bound::Excluded(first) } else { Bound::Included(first) };
                (lower, Bound::Included(last))
            })
        };
        Self {
            independent: ends(false).collect(),
            beside: ends(true).collect(),
            file,
            units: 1,
            independent_in_words: "from one key that the file does not have to the next",
            beside_in_words: "from just after a key of the file to a key that it does not have",
        }
    }
}

/// Whether the item with this number goes to the first half, the same in each run.
fn is_heads(number: usize) -> bool {
    KeyHash::mix(number as u64).get() & 1 == 0
}

/// Returns a number from 0 to 1 for each item, the same in each run.
fn uniform(number: usize) -> f64 {
    (KeyHash::mix(number as u64).get() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns at most `MAX_RANGES` items, evenly spread.
fn some_of<T>(items: &[T]) -> impl Iterator<Item = &T> {
    items.iter().step_by(items.len().div_ceil(MAX_RANGES).max(1))
}

/// Returns the range of `units` that begins at the integer `from` with the row's prefix; `None` at the end of the
/// integers.
fn range_from(keys: &Keys<'_>, row: (&[u8], Row), from: u64, units: u64) -> Option<Ends> {
    let end = from.checked_add(units).filter(|&end| end <= keys.largest_integer())?;
    Some((Bound::Included(keys.with_integer(row, from)), Bound::Excluded(keys.with_integer(row, end))))
}

fn is_empty((lower, upper): &Ends, file: &[&[u8]]) -> bool {
    let range = KeyRange::from((lower.as_ref(), upper.as_ref()));
    // Keys are sorted, so the first key that is not below the range decides.
    let is_below = |key: &&[u8]| matches!(lower, Bound::Included(lower) if *key < lower.as_slice());
    file.get(file.partition_point(is_below)).is_none_or(|key| !range.contains(key))
}

/// Returns ranges of up to `units` that begin one unit after a key and end before the next key.
fn beside(keys: &Keys<'_>, rows: &[(&[u8], Row)], units: u64) -> Vec<Ends> {
    let numbered: Vec<_> = rows.iter().enumerate().collect();
    let behind = |&(at, &(key, row)): &(usize, &(&[u8], Row))| {
        let next = rows[at + 1..].iter().find(|(_, next)| (next.prefix, next.integer) != (row.prefix, row.integer));
        let free = match next.filter(|(_, next)| next.prefix == row.prefix) {
            Some((_, next)) => next.integer - row.integer - 1,
            None => u64::MAX,
        };
        range_from(keys, (key, row), row.integer.checked_add(1)?, units.min(free)).filter(|_| free > 0)
    };
    some_of(&numbered).filter_map(behind).collect()
}
