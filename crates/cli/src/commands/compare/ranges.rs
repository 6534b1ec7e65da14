//! `sstfilter compare --range-length`: measures both sorts of range filter on empty ranges of the keys, and recommends
//! one. Ranges that are independent of the keys are what scans of other data ask for; those that begin next to a key
//! are the hardest.

use core::ops::Bound;

use anyhow::Context as _;
use bytes::BufMut;
use sstfilter::{BuildContext, FalsePositiveRate, KeyHash, KeyHasher, KeyRange};
use sstfilter_range::{RangeContext, RangeFilter, RangePolicy, RangeUnits};

use super::keys::{Intake, Keys};
use super::run::CompareArgs;
use crate::commands::options::with_prefix;
use crate::file::context::{Context, RangePrefix};
use crate::model::filters::{BITMAP, exact_form};
use crate::print::types::{Bits, Bytes, Rate};
use crate::print::{Outcome, record};
use crate::words::units::{brief_percent, counted};

/// Maximum bytes of the integer that ranges are counted in.
const MAX_INTEGER_BYTES: usize = 8;

/// Maximum number of ranges of each sort.
const MAX_RANGES: usize = 100_000;

/// With at least this many prefixes, the sample file has half of the prefixes, and otherwise half of the keys.
const MANY_PREFIXES: usize = 32;

/// Otherwise, stretches of this many neighbouring keys are in the file or not, of few keys fewer.
const STRETCH: usize = 64;

/// Keys of an ordered filter's smallest segment. If prefixes have fewer rows, a segment spans several of them, and its
/// cells distinguish prefixes but not the rows of one.
const FEW_ROWS: usize = 164;

/// A measured rate keeps the requested one up to this factor: the bound of ordered codes is 1.4 times their mean, and a
/// sample adds its own error.
const KEPT_WITHIN: f64 = 2.0;

record! {
    /// With `--range-length`: both sorts of range filter for the keys, measured on empty ranges.
    pub(crate) struct RangeComparison {
        keys: u64,
        prefix: Option<String>,
        keys_per_prefix: Option<u64>,
        integer_bytes: Option<Bytes>,
        range_length: Option<u64>,
        range_filters: Vec<MeasuredRanges>,
        not_read: Vec<String>,
        notes: Vec<String>,
        advice: String [notable],
        options: String [notable],
    }

    /// A range filter of the keys.
    struct MeasuredRanges {
        range_kind: &'static str [row],
        bits_per_key: Bits [row],
        /// how a filter without false positives keeps the keys: as a bitmap, which replaces the point filter of a
        /// store, or as split codes; null for others
        exact: Option<&'static str> [row],
        expected_fpr: Rate [row],
        /// positives over empty ranges that are independent of the keys; null if there are none
        independent_fpr: Option<Rate> [row],
        /// positives over empty ranges that begin next to a key; null if there are none
        beside_fpr: Option<Rate> [row],
    }
}

pub(crate) fn run(args: &CompareArgs, units: u64, context: &Context) -> anyhow::Result<(Outcome, RangeComparison)> {
    let mut intake = Intake::new(context);
    let read = Keys::read(&args.source.input, "--input", &mut intake)?;
    let keys = Shape::of(read.iter().collect(), context.range_prefix);
    let rate = args.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT);
    let sample = keys.sample(units);
    let mut range_filters = vec![sample.measure("ordered", &RangePolicy::ordered(rate)?, &keys.all)?];
    let mut notes = intake.notes;
    let counts = [&sample.independent, &sample.beside].map(|ranges| counted(ranges.len() as u64, "empty range"));
    notes.push(format!("independent: {} between keys that the file does not have", counts[0]));
    notes.push(format!("beside: {} that begin right after a key of the file", counts[1]));
    match keys.integer_bytes {
        Some(bytes) => {
            let counted_in = with_prefix(RangeUnits::integer(bytes)?, keys.prefix);
            let policy = RangePolicy::hashed(counted_in, units, rate)?;
            range_filters.push(sample.measure("hashed", &policy, &keys.all)?);
        }
        None => notes.push(
            "hashed: not measured: keys of various lengths have no integer to count ranges in, unless --range-prefix \
             locates one"
                .to_owned(),
        ),
    }
    let (advised, why) = choose(&keys, rate.get(), &range_filters);
    let options = match (advised, keys.integer_bytes) {
        ("hashed", Some(bytes)) => {
            let prefix = keys.prefix.map(|prefix| format!(" --range-prefix {prefix}")).unwrap_or_default();
            format!("--range-filter hashed:{units}:{}:{bytes}{prefix}", rate.get())
        }
        _ => format!("--range-filter ordered:{}", rate.get()),
    };
    let report = RangeComparison {
        keys: keys.all.len() as u64,
        prefix: keys.prefix.map(RangePrefix::in_words),
        keys_per_prefix: keys.rows_per_prefix().map(|rows| rows as u64),
        integer_bytes: keys.integer_bytes.map(|bytes| Bytes(bytes.into())),
        range_length: keys.integer_bytes.map(|_| units),
        range_filters,
        not_read: intake.not_read,
        notes,
        advice: format!("{advised}: {why}"),
        options,
    };
    Ok((intake.outcome, report))
}

/// Returns the recommended sort of range filter and the reason.
fn choose(keys: &Shape<'_>, rate: f64, measured: &[MeasuredRanges]) -> (&'static str, String) {
    let of = |rate: Option<Rate>| rate.unwrap_or_default().0;
    let [ordered, ..] = measured else { return ("ordered", String::new()) };
    let (independent, beside) = (of(ordered.independent_fpr), of(ordered.beside_fpr));
    let share = brief_percent(beside);
    if let Some(form) = ordered.exact {
        let replaces = if form == BITMAP { ", and a store writes no point filter for such a file" } else { "" };
        return (
            "ordered",
            format!("it has no false positives, because the keys are dense integers: {form}{replaces}"),
        );
    }
    // Hashed codes need an integer, which these keys do not have.
    let [_, hashed] = measured else {
        let caution = format!(
            ". It is wrong in {} of the ranges between keys of other files, and in {share} of the ranges that begin after \
             one of its own keys: these keys are far from evenly spread, so the expected rate does not hold",
            brief_percent(independent)
        );
        let is_wrong = independent.max(beside) > rate * KEPT_WITHIN;
        let caution = if is_wrong { caution } else { String::new() };
        return ("ordered", format!("only it supports ranges of any length between any keys{caution}"));
    };
    if beside <= rate * KEPT_WITHIN {
        return ("ordered", "it also keeps the rate next to keys, and supports ranges of any length".to_owned());
    }
    let few_rows = keys.rows_per_prefix().filter(|&rows| rows < FEW_ROWS);
    if let Some((rows, of_hashed)) = few_rows.zip(hashed.beside_fpr) {
        let of_hashed = brief_percent(of_hashed.0);
        let why = format!(
            "there are few rows per prefix ({rows} in the median): ranges inside a prefix begin next to its keys, where \
             ordered codes are wrong in {share} of cases and hashed codes in {of_hashed}"
        );
        return ("hashed", why);
    }
    let why = format!(
        "it supports ranges of any length in fewer bits. Use hashed if ranges begin next to keys of the file, where \
         ordered codes are wrong in {share} of cases"
    );
    ("ordered", why)
}

/// The parts of a key. Without an integer, all keys are rows of one prefix.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    key: &'a [u8],
    prefix: &'a [u8],
    /// Number of its prefix.
    number: usize,
    integer: u64,
}

/// Distinct keys in order, and the properties of these keys that decide which filter suits them.
struct Shape<'a> {
    all: Vec<&'a [u8]>,
    /// The part of keys before the integer.
    prefix: Option<RangePrefix>,
    /// Bytes of the integer that ranges are counted in, if keys have one.
    integer_bytes: Option<u32>,
    /// The keys that have the prefix, in order.
    rows: Vec<Row<'a>>,
}

impl<'a> Shape<'a> {
    /// Takes sorted keys with the `given` prefix, or one that leaves an integer of eight bytes if all keys have one
    /// length.
    fn of(all: Vec<&'a [u8]>, given: Option<RangePrefix>) -> Self {
        let first_bytes = all.first().map_or(0, |key| key.len());
        let is_fixed = all.iter().all(|key| key.len() == first_bytes);
        let rest = first_bytes.checked_sub(MAX_INTEGER_BYTES).filter(|&bytes| is_fixed && bytes > 0);
        let prefix = given.or(rest.map(RangePrefix::Bytes));
        let extractor = prefix.map(RangePrefix::extractor);
        let end = |key: &[u8]| extractor.as_ref().map_or(Some(0), |extractor| Some(extractor.extract(key)?.len()));
        let mut parts: Vec<_> = all.iter().filter_map(|&key| Some((key, end(key)?))).collect();
        // Keys of various lengths do not all end in an integer, unless the user has said where it is.
        let integer_bytes = integer_bytes(&parts).filter(|_| is_fixed || given.is_some());
        if integer_bytes.is_none() {
            parts = all.iter().map(|&key| (key, 0)).collect();
        }
        let mut rows = Vec::<Row<'_>>::new();
        for (key, end) in parts {
            let (prefix, rest) = key.split_at(end);
            let number = rows.last().map_or(0, |last| last.number + usize::from(last.prefix != prefix));
            rows.push(Row { key, prefix, number, integer: integer(rest, integer_bytes.unwrap_or_default()) });
        }
        Self { all, prefix: prefix.filter(|_| integer_bytes.is_some()), integer_bytes, rows }
    }

    /// Returns the number of keys with one prefix, in the median.
    fn rows_per_prefix(&self) -> Option<usize> {
        let mut counts: Vec<_> = self.rows.chunk_by(|one, next| one.number == next.number).map(<[_]>::len).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().filter(|_| self.prefix.is_some())
    }

    /// Puts half of the keys in a file. Empty ranges of it begin at other keys, or right after those in the file.
    fn sample(&self, units: u64) -> Sample<'a> {
        let is_by_prefix = self.rows.last().is_some_and(|last| last.number + 1 >= MANY_PREFIXES);
        // By stretches, 16 or more, so that a range at another key is seldom next to one in the file.
        let stretch = (self.rows.len() / 16).clamp(1, STRETCH);
        let number = |at: usize| if is_by_prefix { self.rows[at].number } else { at / stretch };
        // The same in each run.
        let is_in_file = |at: usize| KeyHash::mix(number(at) as u64).get() & 1 == 0;
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..self.rows.len()).partition(|&at| is_in_file(at));
        let file: Vec<_> = inside.iter().map(|&at| self.rows[at].key).collect();
        let ranges = |rows: &[usize], is_after| {
            let some = rows.iter().step_by(rows.len().div_ceil(MAX_RANGES).max(1));
            some.filter_map(|&at| self.range(at, is_after, units)).filter(|ends| is_empty(ends, &file)).collect()
        };
        Sample { independent: ranges(&outside, false), beside: ranges(&inside, true), file, units }
    }

    /// Returns the range of up to `units` from a key, or from right after it to the next key; without an integer, to
    /// the next key.
    fn range(&self, at: usize, is_after: bool, units: u64) -> Option<Ends> {
        let row = self.rows[at];
        let Some(bytes) = self.integer_bytes else {
            let begin = if is_after { Bound::Excluded } else { Bound::Included };
            return Some((begin(row.key.to_vec()), Bound::Included(self.rows.get(at + 1)?.key.to_vec())));
        };
        let mut others = self.rows[at..].iter().take_while(|other| is_after && other.number == row.number);
        let next = others.find(|other| other.integer != row.integer);
        let free = next.map_or(u64::MAX, |next| next.integer - row.integer - 1);
        let from = row.integer.checked_add(is_after.into())?;
        let end = from.checked_add(units.min(free)).filter(|&end| end > from && end <= u64::MAX >> (64 - 8 * bytes))?;
        let key = |integer: u64| {
            let mut key = row.prefix.to_vec();
            key.put_uint(integer, bytes as usize);
            key
        };
        Some((Bound::Included(key(from)), Bound::Excluded(key(end))))
    }
}

/// Returns the bytes that all keys have after their prefix, up to eight; eight if they vary.
fn integer_bytes(parts: &[(&[u8], usize)]) -> Option<u32> {
    let rest = |&(key, end): &(&[u8], usize)| key.len() - end;
    let first = rest(parts.first()?);
    let bytes = if parts.iter().all(|part| rest(part) == first) { first } else { MAX_INTEGER_BYTES };
    u32::try_from(bytes.min(MAX_INTEGER_BYTES)).ok().filter(|&bytes| bytes > 0)
}

/// Returns the big-endian integer in the first bytes, so that integers sort like keys.
fn integer(rest: &[u8], bytes: u32) -> u64 {
    let padded = rest.iter().copied().chain(core::iter::repeat(0)).take(bytes as usize);
    padded.fold(0, |integer, byte| integer << 8 | u64::from(byte))
}

/// Both ends of a range.
type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys of a sample file, and empty ranges of it.
struct Sample<'a> {
    file: Vec<&'a [u8]>,
    independent: Vec<Ends>,
    beside: Vec<Ends>,
    /// Length of the longest range.
    units: u64,
}

impl Sample<'_> {
    /// Builds a filter of all keys to get its size, and a filter of the sample file to get its answers.
    fn measure(&self, range_kind: &'static str, policy: &RangePolicy, all: &[&[u8]]) -> anyhow::Result<MeasuredRanges> {
        let build = |keys: &[&[u8]]| {
            let hasher = KeyHasher::default();
            let mut builder = policy.builder(&BuildContext::new(&hasher));
            keys.iter().for_each(|key| builder.add_key(key));
            let built = builder.finish();
            let block = built.block.with_context(|| format!("no range filter: {}", built.report.reason))?;
            anyhow::Ok(RangeFilter::load(block, RangeContext::new(&hasher, policy.extractor()))?)
        };
        let (filter, sampled) = (build(all)?, build(&self.file)?);
        let observed = |ranges: &[Ends]| {
            let positives = ranges.iter().filter(|ends| sampled.may_contain_range(range_of(ends))).count();
            (!ranges.is_empty()).then(|| Rate(positives as f64 / ranges.len() as f64))
        };
        Ok(MeasuredRanges {
            range_kind,
            bits_per_key: Bits(filter.info().bits_per_key()),
            exact: exact_form(&filter.info()),
            expected_fpr: Rate(filter.info().expected_fpr(self.units)),
            independent_fpr: observed(&self.independent),
            beside_fpr: observed(&self.beside),
        })
    }
}

fn range_of((lower, upper): &Ends) -> KeyRange<'_> {
    KeyRange::from((lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice)))
}

fn is_empty(ends: &Ends, file: &[&[u8]]) -> bool {
    // Keys are sorted, so the first key that is not below the range decides.
    let is_below = |key: &&[u8]| match &ends.0 {
        Bound::Included(lower) => *key < lower.as_slice(),
        Bound::Excluded(lower) => *key <= lower.as_slice(),
        Bound::Unbounded => false,
    };
    file.get(file.partition_point(is_below)).is_none_or(|key| !range_of(ends).contains(key))
}
