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
use crate::file::key_list::KeysFormat;
use crate::print::types::{Bits, Bytes, Rate};
use crate::print::{Outcome, record};
use crate::words::units::{brief_percent, counted, whole};

/// Maximum bytes of the integer that ranges are counted in.
const MAX_INTEGER_BYTES: usize = 8;

/// Maximum number of ranges of each sort.
const MAX_RANGES: usize = 100_000;

/// With at least this many prefixes, independent ranges are taken from prefixes that the file does not have.
const MANY_PREFIXES: usize = 32;

/// Length of the stretch of keys in which an independent range begins. The density of keys hardly changes over so few,
/// and the range is as likely to be in a wide gap as another key.
const STRETCH: usize = 16;

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
        /// length of each key; null if it varies
        key_bytes: Option<Bytes>,
        /// the part of a key before the integer that ranges are counted in
        prefix: Option<String>,
        /// number of prefixes
        prefixes: Option<u64>,
        /// keys with one prefix, in the median
        keys_per_prefix: Option<u64>,
        /// length of the integer; null if keys have none
        integer_bytes: Option<Bytes>,
        /// share of the integers between the smallest and the largest of each prefix that are keys
        share_of_integers: Option<Rate>,
        /// length of the ranges, in units of the integer
        range_length: Option<u64>,
        range_filters: Vec<MeasuredRanges>,
        not_read: Vec<String>,
        notes: Vec<String>,
        advice: String [notable],
        /// options for `build` and `filter`
        options: String [notable],
    }

    /// A range filter of the keys.
    struct MeasuredRanges {
        /// `ordered` or `hashed`, as in `--range-filter`
        range_kind: &'static str [row],
        bits_per_key: Bits [row],
        expected_fpr: Rate [row],
        /// positives over empty ranges that are independent of the keys; null if there are none
        independent_fpr: Option<Rate> [row],
        /// positives over empty ranges that begin next to a key; null if there are none
        beside_fpr: Option<Rate> [row],
    }
}

pub(crate) fn run(
    args: &CompareArgs,
    units: u64,
    format: KeysFormat,
    context: &Context,
) -> anyhow::Result<(Outcome, RangeComparison)> {
    let mut intake = Intake::new(format, context);
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
        key_bytes: keys.key_bytes.map(|bytes| Bytes(bytes as u64)),
        prefix: keys.prefix.map(RangePrefix::in_words),
        prefixes: keys.prefix.map(|_| keys.of_prefixes.len() as u64),
        keys_per_prefix: keys.rows_per_prefix().map(|rows| rows as u64),
        integer_bytes: keys.integer_bytes.map(|bytes| Bytes(bytes.into())),
        share_of_integers: keys.share_of_integers().map(Rate),
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

/// The parts of a key that has an integer.
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
    /// Length of every key, unless it varies.
    key_bytes: Option<usize>,
    /// The part of keys before the integer.
    prefix: Option<RangePrefix>,
    /// Bytes of the integer that ranges are counted in, if keys have one.
    integer_bytes: Option<u32>,
    /// The keys that have an integer, by prefix.
    of_prefixes: Vec<Vec<Row<'a>>>,
}

impl<'a> Shape<'a> {
    /// Takes sorted keys with the `given` prefix, or one that leaves an integer of eight bytes if all keys have one
    /// length.
    fn of(all: Vec<&'a [u8]>, given: Option<RangePrefix>) -> Self {
        let first_bytes = all.first().map_or(0, |key| key.len());
        let key_bytes = all.iter().all(|key| key.len() == first_bytes).then_some(first_bytes);
        let rest = key_bytes.and_then(|bytes| bytes.checked_sub(MAX_INTEGER_BYTES)).filter(|&bytes| bytes > 0);
        let prefix = given.or(rest.map(RangePrefix::Bytes));
        let extractor = prefix.map(RangePrefix::extractor);
        let end = |key: &[u8]| extractor.as_ref().map_or(Some(0), |extractor| Some(extractor.extract(key)?.len()));
        let parts: Vec<_> = all.iter().filter_map(|&key| Some((key, end(key)?))).collect();
        // Keys of various lengths do not all end in an integer, unless the user has said where it is.
        let integer_bytes = integer_bytes(&parts).filter(|_| key_bytes.is_some() || given.is_some());
        let mut of_prefixes = Vec::<Vec<Row<'_>>>::new();
        for (key, end) in parts.into_iter().filter(|_| integer_bytes.is_some()) {
            let (prefix, rest) = key.split_at(end);
            let is_next = of_prefixes.last().is_none_or(|rows| rows[0].prefix != prefix);
            let number = of_prefixes.len() - usize::from(!is_next);
            let row = Row { key, prefix, number, integer: integer(rest, integer_bytes.unwrap_or_default()) };
            match of_prefixes.last_mut() {
                Some(rows) if !is_next => rows.push(row),
                _ => of_prefixes.push(vec![row]),
            }
        }
        let prefix = prefix.filter(|_| integer_bytes.is_some());
        Self { all, key_bytes, prefix, integer_bytes, of_prefixes }
    }

    /// Returns the number of keys with one prefix, in the median.
    fn rows_per_prefix(&self) -> Option<usize> {
        let mut counts: Vec<_> = self.of_prefixes.iter().map(Vec::len).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().filter(|_| self.prefix.is_some())
    }

    fn share_of_integers(&self) -> Option<f64> {
        // In floating point, because one more than a 64-bit difference may overflow.
        let span = |rows: &Vec<Row<'_>>| (rows[rows.len() - 1].integer - rows[0].integer) as f64 + 1.0;
        let span: f64 = self.of_prefixes.iter().map(span).sum();
        let rows: usize = self.of_prefixes.iter().map(Vec::len).sum();
        (rows > 0).then(|| rows as f64 / span)
    }

    /// Returns the range of `units` from the integer on, with the row's prefix; `None` at the end of the integers.
    fn range(&self, row: &Row<'_>, from: u64, units: u64) -> Option<Ends> {
        let bytes = self.integer_bytes?;
        let end = from.checked_add(units).filter(|&end| end <= u64::MAX >> (64 - 8 * bytes))?;
        let key = |integer: u64| {
            let mut key = row.prefix.to_vec();
            key.put_uint(integer, bytes as usize);
            key
        };
        Some((Bound::Included(key(from)), Bound::Excluded(key(end))))
    }

    fn sample(&self, units: u64) -> Sample<'a> {
        if self.integer_bytes.is_none() {
            self.sample_of_strings()
        } else if self.prefix.is_some() && self.of_prefixes.len() >= MANY_PREFIXES {
            self.sample_of_prefixes(units)
        } else {
            self.sample_of_integers(units)
        }
    }

    /// Puts half of the prefixes in the file. Ranges in the other prefixes are independent of it.
    fn sample_of_prefixes(&self, units: u64) -> Sample<'a> {
        let (inside, outside): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
            self.of_prefixes.iter().flatten().partition(|row| is_heads(row.number));
        let file: Vec<_> = inside.iter().map(|row| row.key).collect();
        let independent = some_of(&outside).filter_map(|row| self.range(row, row.integer, units));
        Sample {
            // A positive for a range with a key is not a false one.
            independent: independent.filter(|ends| is_empty(ends, &file)).collect(),
            beside: self.beside(units, |rows| is_heads(rows[0].number)),
            file,
            units,
        }
    }

    /// Puts all keys in the file. Ranges begin anywhere in a stretch of keys.
    fn sample_of_integers(&self, units: u64) -> Sample<'a> {
        let rows = self.of_prefixes.iter().flat_map(|rows| (0..rows.len()).map(move |at| (rows, at)));
        let numbered: Vec<_> = rows.enumerate().collect();
        let anywhere = |&(number, (rows, at)): &(usize, (&Vec<Row<'_>>, usize))| {
            let (row, far) = (rows[at], rows[(at + STRETCH).min(rows.len() - 1)]);
            // From 0 to 1, the same in each run.
            let uniform = (KeyHash::mix(number as u64).get() >> 11) as f64 / (1_u64 << 53) as f64;
            self.range(&row, row.integer + whole(uniform * (far.integer - row.integer) as f64), units)
        };
        let independent = some_of(&numbered).filter_map(anywhere);
        Sample {
            independent: independent.filter(|ends| is_empty(ends, &self.all)).collect(),
            beside: self.beside(units, |_| true),
            file: self.all.clone(),
            units,
        }
    }

    /// Puts half of the keys in the file. Ranges go from one of the other keys to the next.
    fn sample_of_strings(&self) -> Sample<'a> {
        let pairs: Vec<_> = self.all.windows(2).enumerate().filter(|(at, _)| !is_heads(at + 1)).collect();
        let ends = |begins_in_file: bool| {
            let chosen = pairs.iter().filter(move |(at, _)| is_heads(*at) == begins_in_file).take(MAX_RANGES);
            let begin = if begins_in_file { Bound::Excluded } else { Bound::Included };
            chosen.map(move |(_, pair)| (begin(pair[0].to_vec()), Bound::Included(pair[1].to_vec()))).collect()
        };
        Sample {
            file: self.all.iter().enumerate().filter(|&(at, _)| is_heads(at)).map(|(_, &key)| key).collect(),
            independent: ends(false),
            beside: ends(true),
            units: 1,
        }
    }

    /// Returns ranges of up to `units` that begin one unit after a key of these prefixes and end before the next key.
    fn beside(&self, units: u64, is_in_file: impl Fn(&Vec<Row<'a>>) -> bool) -> Vec<Ends> {
        let with_next = |rows: &Vec<Row<'a>>| {
            let next = |at: usize| rows[at..].iter().find(|next| next.integer != rows[at].integer).copied();
            (0..rows.len()).map(|at| (rows[at], next(at))).collect::<Vec<_>>()
        };
        let rows: Vec<_> = self.of_prefixes.iter().filter(|rows| is_in_file(rows)).flat_map(with_next).collect();
        let behind = |(row, next): &(Row<'_>, Option<Row<'_>>)| {
            let free = next.map_or(u64::MAX, |next| next.integer - row.integer - 1);
            self.range(row, row.integer.checked_add(1)?, units.min(free)).filter(|_| free > 0)
        };
        some_of(&rows).filter_map(behind).collect()
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
            expected_fpr: Rate(filter.info().expected_fpr(self.units)),
            independent_fpr: observed(&self.independent),
            beside_fpr: observed(&self.beside),
        })
    }
}

fn range_of((lower, upper): &Ends) -> KeyRange<'_> {
    KeyRange::from((lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice)))
}

/// Whether the item with this number goes to the first half, the same in each run.
fn is_heads(number: usize) -> bool {
    KeyHash::mix(number as u64).get() & 1 == 0
}

/// Returns at most `MAX_RANGES` items, evenly spread.
fn some_of<T>(items: &[T]) -> impl Iterator<Item = &T> {
    items.iter().step_by(items.len().div_ceil(MAX_RANGES).max(1))
}

fn is_empty(ends: &Ends, file: &[&[u8]]) -> bool {
    // Keys are sorted, so the first key that is not below the range decides.
    let is_below = |key: &&[u8]| matches!(&ends.0, Bound::Included(lower) if *key < lower.as_slice());
    file.get(file.partition_point(is_below)).is_none_or(|key| !range_of(ends).contains(key))
}
