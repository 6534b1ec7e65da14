//! The harness for range filters: candidates run round-robin and the best of several turns counts, so that noise hits
//! all alike.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::keys::{KeyKind, RangeSet, Ranges, SortedKeys};
use super::record::{Built, CorrelatedRecord, HeldRecord, RangeRecord};
use super::subject::{Answers, Filter, Label, Subject};
use crate::allocator::COUNTER;
use crate::harness::{Stretches, keep_least, timed};
use crate::record::crate_version;
use crate::subject::BuildError;

/// Lengths of ranges.
pub const LENGTHS: [u64; 4] = [1, 1 << 5, 1 << 10, 1 << 20];

/// Degrees of correlation, and the length of the ranges.
const DEGREES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const CORRELATED_LENGTH: u64 = 1 << 10;

/// The number of timed ranges. With their ends they stay in the second-level cache.
const TIMED: usize = 1 << 14;

/// Ranges that are timed together, about a millisecond, so that most stretches see no interruption.
const STRETCH: usize = 1 << 12;

/// Loops per turn. The first also loads the filter into the caches that it fits into.
const PASSES: usize = 4;

/// A filter with a longer mean time per range is slow, and gets [`OF_SLOW`] ranges of each kind.
const SLOW_NS: f64 = 20_000.0;
const OF_SLOW: usize = 256;

/// Ranges that show whether a filter is slow.
const TRIAL: usize = 16;

/// A filter that takes longer to build is built in the first turn only.
const SLOW_BUILD_NS: f64 = 5e8;

/// The extent of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Numbers among the keys.
    pub keys: usize,
    /// Turns.
    pub turns: usize,
    /// The number of empty ranges for the observed rate, and of ranges with a key.
    pub ranges: usize,
}

/// All ranges of one length.
struct Load {
    length: u64,
    empty: RangeSet,
    held: RangeSet,
    /// The first of the empty ranges.
    timed: RangeSet,
    /// Half of them hold a key.
    mixed: RangeSet,
}

impl Load {
    fn new(keys: &SortedKeys, kind: KeyKind, length: u64, count: usize) -> io::Result<Self> {
        let (empty, held) = (keys.empty_ranges(kind, length, count)?, keys.ranges_with_a_key(length, count));
        let (timed, mixed) = (empty.first(TIMED), empty.mixed(&held, TIMED));
        Ok(Self { length, empty, held, timed, mixed })
    }
}

/// A subject, its filter and its best figures so far.
struct Entrant<'a> {
    subject: &'a dyn Subject,
    label: Label,
    filter: Option<Box<dyn Filter>>,
    is_slow: bool,
    bytes: u64,
    build: Option<f64>,
    figures: Vec<Figures>,
}

/// The figures for ranges of one length.
#[derive(Debug, Default)]
struct Figures {
    empty: Seen,
    held: Seen,
    single: Stretches,
    batch: Stretches,
    mixed: Stretches,
}

/// Ranges and their answers.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ranges: u64,
    answers: Answers,
}

impl Seen {
    fn share(self, part: u64) -> f64 {
        part as f64 / self.ranges as f64
    }

    /// Returns the share of positives and errors, which a caller must treat alike.
    fn positive(self) -> f64 {
        self.share(self.answers.positives + self.answers.errors)
    }

    fn add(&mut self, other: Self) {
        self.ranges += other.ranges;
        self.answers.positives += other.answers.positives;
        self.answers.errors += other.answers.errors;
    }

    fn negatives(self) -> u64 {
        self.ranges - self.answers.positives - self.answers.errors
    }
}

impl<'a> Entrant<'a> {
    fn new(subject: &'a dyn Subject, lengths: usize) -> Self {
        let figures = (0..lengths).map(|_| Figures::default()).collect();
        let label = subject.label();
        Self { subject, label, filter: None, is_slow: false, bytes: 0, build: None, figures }
    }

    fn take_turn(&mut self, keys: &SortedKeys, loads: &[Load], is_first: bool) -> Result<(), BuildError> {
        if is_first {
            // A first build, because memory that a crate allocates only once is not part of a filter.
            self.subject.build(&SortedKeys::of_numbers((1..=1_000).collect()))?;
            let (filter, bytes) = COUNTER.held_after(|| self.timed_build(keys));
            let filter = self.filter.insert(filter?);
            // Some crates cannot serialise; their memory then counts, and the tables mark it.
            self.bytes = filter.serialised_bytes().unwrap_or(bytes);
            self.is_slow = is_slow(filter.as_mut(), &loads[0]);
        } else if self.build.is_some_and(|least| least < SLOW_BUILD_NS) {
            // Dropped before the next build, so that two filters never exist at once.
            self.filter = None;
            self.filter = Some(self.timed_build(keys)?);
        }
        let filter = self.filter.as_deref_mut().ok_or("no filter")?;
        for (load, figures) in loads.iter().zip(&mut self.figures) {
            if self.label.covers(load.length) {
                if is_first {
                    figures.observe(filter, load, self.is_slow)?;
                }
                // A slow filter is timed once.
                if is_first || !self.is_slow {
                    figures.time(filter, load, self.is_slow);
                }
            }
        }
        Ok(())
    }

    fn timed_build(&mut self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
        let (filter, nanoseconds) = timed(|| self.subject.build(keys));
        keep_least(&mut self.build, nanoseconds);
        filter
    }

    fn built(&self, kind: KeyKind, keys: u64) -> Built {
        built(&self.label, kind.name(), keys)
    }

    fn records(&self, kind: KeyKind, keys: u64, loads: &[Load]) -> (Vec<RangeRecord>, Vec<HeldRecord>) {
        let covered = loads.iter().zip(&self.figures).filter(|(load, _)| self.label.covers(load.length));
        covered.map(|(load, figures)| self.record(kind, keys, load.length, figures)).unzip()
    }

    fn record(&self, kind: KeyKind, keys: u64, length: u64, figures: &Figures) -> (RangeRecord, HeldRecord) {
        let measured = |least: Option<f64>| least.unwrap_or(f64::NAN);
        let Figures { empty, held, .. } = *figures;
        let record = RangeRecord {
            built: self.built(kind, keys),
            length,
            bits_per_key: self.bytes as f64 * 8.0 / keys as f64,
            is_allocated: self.filter.as_ref().is_some_and(|filter| filter.serialised_bytes().is_none()),
            empty_ranges: empty.ranges,
            fpr: empty.positive(),
            errors: empty.share(empty.answers.errors),
            build_ns_per_key: measured(self.build) / keys as f64,
            empty_ns: measured(figures.single.mean()),
            batch_ns: figures.batch.mean(),
            mixed_ns: measured(figures.mixed.mean()),
        };
        (record, held_record(self.built(kind, keys), ANYWHERE, Some(length), held))
    }
}

impl Figures {
    /// Measures the figures that do not vary.
    fn observe(&mut self, filter: &mut dyn Filter, load: &Load, is_slow: bool) -> Result<(), BuildError> {
        let empty_keys = load.empty.keys();
        let empty = part_for(load.empty.all(&empty_keys), is_slow);
        self.empty = seen(filter, empty);
        let positives = self.empty.answers.positives;
        if filter.probe_batch(empty).is_some_and(|in_batches| in_batches != positives) {
            return Err("answers otherwise in batches".into());
        }
        let held_keys = load.held.keys();
        self.held = seen(filter, part_for(load.held.all(&held_keys), is_slow));
        Ok(())
    }

    fn time(&mut self, filter: &mut dyn Filter, load: &Load, is_slow: bool) {
        let (empty_keys, mixed_keys) = (load.timed.keys(), load.mixed.keys());
        let empty = part_for(load.timed.all(&empty_keys), is_slow);
        let mixed = part_for(load.mixed.all(&mixed_keys), is_slow);
        for _ in 0..if is_slow { 1 } else { PASSES } {
            self.single.time_parts(stretches(empty), |ranges| Some(sum(filter.probe(ranges))));
            self.mixed.time_parts(stretches(mixed), |ranges| Some(sum(filter.probe(ranges))));
        }
        for _ in 0..PASSES {
            self.batch.time_parts(stretches(empty), |ranges| filter.probe_batch(ranges));
        }
    }
}

fn stretches(ranges: Ranges<'_>) -> impl Iterator<Item = (Ranges<'_>, usize)> {
    ranges.chunks(STRETCH).map(|ranges| (ranges, ranges.len()))
}

fn sum(answers: Answers) -> u64 {
    answers.positives + answers.errors
}

fn seen(filter: &mut dyn Filter, ranges: Ranges<'_>) -> Seen {
    Seen { ranges: ranges.len() as u64, answers: filter.probe(ranges) }
}

/// Returns the part of the ranges for a slow filter, or for another one.
fn part_for(ranges: Ranges<'_>, is_slow: bool) -> Ranges<'_> {
    if is_slow { ranges.first(OF_SLOW) } else { ranges }
}

fn is_slow(filter: &mut dyn Filter, load: &Load) -> bool {
    let keys = load.timed.keys();
    let ranges = load.timed.all(&keys).first(TRIAL);
    let (_, nanoseconds) = timed(|| filter.probe(ranges));
    nanoseconds > SLOW_NS * ranges.len() as f64
}

fn built(label: &Label, keys: &str, n: u64) -> Built {
    Built {
        implementation: label.implementation.to_owned(),
        version: crate_version(label.implementation).unwrap_or_default().to_owned(),
        kind: label.kind.clone(),
        longest: label.longest,
        keys: keys.to_owned(),
        n,
    }
}

/// The positions of ranges with a key.
const ANYWHERE: &str = "at random";
const AT_BOUNDARIES: &str = "across multiples of";
const BETWEEN_KEYS: &str = "from above a key to the next";

/// Keys of a small filter, and how many of them are built for each length.
const FEW_KEYS: usize = 16;
const SMALL_FILTERS: u64 = 10_000;

fn held_record(built: Built, place: &str, length: Option<u64>, seen: Seen) -> HeldRecord {
    let (lost, errors) = (seen.negatives(), seen.answers.errors);
    HeldRecord { built, place: place.to_owned(), length, ranges: seen.ranges, lost, errors }
}

/// Runs `work`, and returns a panic as an error, because peers may panic.
fn caught<T>(work: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(format!("panics: {}", message(&*panic)).into()))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Measures all `subjects` with keys of one kind. Passes errors to `report`, and continues with the others.
///
/// # Errors
///
/// The error of the names' decompressor.
pub fn measure(
    subjects: &[Box<dyn Subject>],
    kind: KeyKind,
    extent: Extent,
    mut report: impl FnMut(String),
) -> io::Result<(Vec<RangeRecord>, Vec<HeldRecord>)> {
    let keys = SortedKeys::new(kind, extent.keys)?;
    let load = |length| Load::new(&keys, kind, length, extent.ranges);
    let loads = LENGTHS.into_iter().map(load).collect::<io::Result<Vec<_>>>()?;
    let takes_part = subjects.iter().filter(|subject| subject.label().is_for(kind));
    let mut entrants: Vec<_> = takes_part.map(|subject| Entrant::new(subject.as_ref(), loads.len())).collect();
    for turn in 0..extent.turns {
        entrants.retain_mut(|entrant| match caught(|| entrant.take_turn(&keys, &loads, turn == 0)) {
            Ok(()) => true,
            Err(error) => {
                report(format!("{} {}, {}: {error}", entrant.label.implementation, entrant.label.kind, kind.name()));
                false
            }
        });
    }
    let all = entrants.iter().map(|entrant| entrant.records(kind, keys.len() as u64, &loads));
    let (records, held): (Vec<_>, Vec<_>) = all.unzip();
    Ok((records.concat(), held.concat()))
}

/// Measures the rates of all `subjects` for empty ranges close above uniform keys.
///
/// # Errors
///
/// The error of the names' decompressor.
pub fn correlated(subjects: &[Box<dyn Subject>], extent: Extent) -> io::Result<Vec<CorrelatedRecord>> {
    let kind = KeyKind::Uniform;
    let keys = SortedKeys::new(kind, extent.keys)?;
    let sets = DEGREES.map(|degree| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 30")]
        let distance_log2 = (30.0 * (1.0 - degree)).round() as u32;
        (degree, keys.ranges_above_keys(distance_log2, CORRELATED_LENGTH, extent.ranges))
    });
    let mut records = Vec::new();
    for subject in subjects.iter().filter(|subject| is_correlated(&subject.label())) {
        let label = subject.label();
        // `measure` has reported subjects that cannot be built.
        let rates = caught(|| {
            let mut filter = subject.build(&keys)?;
            let load = Load::new(&keys, kind, CORRELATED_LENGTH, TRIAL)?;
            let is_slow = is_slow(filter.as_mut(), &load);
            let mut rate = |set: &RangeSet| seen(filter.as_mut(), part_for(set.all(&set.keys()), is_slow));
            Ok(sets.iter().map(|(degree, set)| (*degree, rate(set))).collect::<Vec<_>>())
        });
        records.extend(rates.unwrap_or_default().into_iter().map(|(degree, seen)| CorrelatedRecord {
            built: built(&label, kind.name(), keys.len() as u64),
            length: CORRELATED_LENGTH,
            degree,
            empty_ranges: seen.ranges,
            fpr: seen.positive(),
        }));
    }
    Ok(records)
}

/// Returns whether the filter is for any length, or for this one.
fn is_correlated(label: &Label) -> bool {
    label.longest.is_none_or(|longest| longest == CORRELATED_LENGTH)
}

/// Counts false negatives of all `subjects` where their maps change, and between neighbouring keys.
pub fn held(subjects: &[Box<dyn Subject>], extent: Extent) -> Vec<HeldRecord> {
    let mut records = Vec::new();
    for subject in subjects.iter().map(AsRef::as_ref) {
        let label = subject.label();
        // A range of one point crosses nothing.
        for length in LENGTHS.into_iter().filter(|&length| length > 1 && label.is_built_for(length)) {
            records.extend(around_multiples(subject, length, 1, extent.keys));
            records.extend(around_multiples(subject, length, SMALL_FILTERS, FEW_KEYS));
        }
        if label.longest.is_none() {
            records.extend(between_keys(subject, extent));
        }
    }
    records
}

/// Probes filters whose keys are next to multiples of the subject's step. Returns `None` for a subject that cannot be
/// built, which `measure` reports.
fn around_multiples(subject: &dyn Subject, length: u64, filters: u64, keys: usize) -> Option<HeldRecord> {
    let (label, step) = (subject.label(), subject.boundary_step(keys as u64));
    let mut all = Seen::default();
    for seed in 0..filters {
        let (sorted, ranges) = SortedKeys::around_multiples(step, length, keys, seed);
        all.add(caught(|| probe_all(subject, &sorted, &ranges)).ok()?);
    }
    let place = format!("{AT_BOUNDARIES} {step}, {keys} keys a filter");
    Some(held_record(built(&label, "close to the multiples", keys as u64), &place, Some(length), all))
}

/// Probes the ranges from above each key to the next, for filters of any length.
fn between_keys(subject: &dyn Subject, extent: Extent) -> Vec<HeldRecord> {
    let label = subject.label();
    let record = |kind: KeyKind| {
        let keys = SortedKeys::new(kind, extent.keys).ok()?;
        let seen = caught(|| probe_all(subject, &keys, &keys.ranges_between_keys())).ok()?;
        Some(held_record(built(&label, kind.name(), keys.len() as u64), BETWEEN_KEYS, None, seen))
    };
    KeyKind::ALL.into_iter().filter(|&kind| label.is_for(kind)).filter_map(record).collect()
}

fn probe_all(subject: &dyn Subject, keys: &SortedKeys, ranges: &RangeSet) -> Result<Seen, BuildError> {
    let mut filter = subject.build(keys)?;
    let views = ranges.keys();
    let all = ranges.all(&views);
    let (_, nanoseconds) = timed(|| filter.probe(all.first(TRIAL)));
    let is_slow = nanoseconds > SLOW_NS * TRIAL as f64;
    Ok(seen(filter.as_mut(), part_for(all, is_slow)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::subject::Takes;
    use crate::subject::count_where;

    /// A filter that stores every key, or panics, or loses the lowest.
    #[derive(Clone, Copy, PartialEq)]
    enum Exact {
        Right,
        Panics,
        LosesOne,
    }

    struct Sorted(Vec<u64>);

    impl Filter for Sorted {
        fn probe(&mut self, ranges: Ranges<'_>) -> Answers {
            let positives = count_where(ranges.numbers, |&[lower, upper]| {
                self.0.get(self.0.partition_point(|&key| key < lower)).is_some_and(|&key| key <= upper)
            });
            Answers { positives, errors: 0 }
        }
    }

    impl Subject for Exact {
        fn label(&self) -> Label {
            Label { implementation: "exact", kind: "sorted".to_owned(), longest: None, takes: Takes::Numbers }
        }

        fn build(&self, keys: &SortedKeys) -> Result<Box<dyn Filter>, BuildError> {
            assert!(*self != Self::Panics, "no filter");
            // Large enough that memory freed by other tests meanwhile does not hide it.
            let mut numbers = Vec::with_capacity(1 << 20);
            numbers.extend_from_slice(&keys.numbers[usize::from(*self == Self::LosesOne)..]);
            Ok(Box::new(Sorted(numbers)))
        }
    }

    const SMALL: Extent = Extent { keys: 500, turns: 2, ranges: 2_000 };

    fn measured(exact: Exact) -> (Vec<RangeRecord>, Vec<HeldRecord>, Vec<String>) {
        let (subjects, mut reports): (Vec<Box<dyn Subject>>, _) = (vec![Box::new(exact)], Vec::new());
        let done = measure(&subjects, KeyKind::Uniform, SMALL, |report| reports.push(report));
        let (records, held) = done.unwrap();
        (records, held, reports)
    }

    #[test]
    fn an_exact_set_has_no_false_positives_and_no_false_negatives() {
        let (records, held, reports) = measured(Exact::Right);
        assert!(reports.is_empty() && records.len() == LENGTHS.len() && held.len() == LENGTHS.len());
        assert!(records.iter().all(|record| record.fpr <= 0.0 && record.empty_ns > 0.0 && record.is_allocated));
        assert!(records.iter().all(|record| record.bits_per_key >= 64.0 && record.batch_ns.is_none()));
        assert!(held.iter().all(|held| held.lost == 0 && held.ranges == 2_000));
    }

    #[test]
    fn a_lost_key_is_counted() {
        let (_, held, _) = measured(Exact::LosesOne);
        assert!(held.iter().all(|held| held.lost > 0), "{held:?}");
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(Exact::LosesOne)];
        let lost: Vec<_> = super::held(&subjects, SMALL).iter().map(|held| held.lost > 0).collect();
        assert_eq!(lost, [[true; 6].as_slice(), &[false; 2]].concat(), "the lowest key is between no two");
    }

    #[test]
    fn a_filter_that_panics_is_left_out() {
        let (records, _, reports) = measured(Exact::Panics);
        assert!(records.is_empty());
        assert_eq!(reports, ["exact sorted, u64, uniform: panics: no filter"]);
    }

    #[test]
    fn an_exact_set_has_a_rate_of_zero_close_above_keys() {
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(Exact::Right)];
        let records = correlated(&subjects, SMALL).unwrap();
        assert!(records.len() == DEGREES.len() && records.iter().all(|record| record.fpr <= 0.0));
    }
}
