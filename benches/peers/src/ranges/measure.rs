//! Measures range filters.

use std::io;

use super::keys::{KeyKind, RangeSet, SortedKeys};
use super::record::{Built, CorrelatedRecord, HeldRecord, RangeRecord};
use super::subject::{Label, OfRanges, Subjects};
use crate::harness::{self, Effort, Entrant, Figures, Load, caught};
use crate::record::crate_version;
use crate::subject::{Queries, Subject};

/// Lengths of ranges.
pub const LENGTHS: [u64; 4] = [1, 1 << 5, 1 << 10, 1 << 20];

/// Degrees of correlation with their titles, and the length of the ranges.
pub const DEGREES: [(&str, f64); 5] = [("D = 0", 0.0), ("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75), ("1", 1.0)];
const CORRELATED_LENGTH: u64 = 1 << 10;

/// The number of timed ranges. With their ends they stay in the second-level cache.
const TIMED: usize = 1 << 14;

/// Ranges that are timed together, about a millisecond.
const STRETCH: usize = 1 << 12;

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

/// Ranges, and how many of them a filter reports as possibly having a key.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ranges: u64,
    positives: u64,
}

impl Counts {
    fn rate(self) -> f64 {
        self.positives as f64 / self.ranges as f64
    }
}

/// Measures all `subjects` with keys of one kind. Passes errors to `report`, and continues with the others.
///
/// # Errors
///
/// The error of the names' decompressor.
pub fn measure(
    subjects: &Subjects,
    kind: KeyKind,
    extent: Extent,
    mut report: impl FnMut(String),
) -> io::Result<(Vec<RangeRecord>, Vec<HeldRecord>)> {
    let keys = SortedKeys::new(kind, extent.keys)?;
    let sets =
        |length| Ok((keys.empty_ranges(kind, length, extent.ranges)?, keys.ranges_with_a_key(length, extent.ranges)));
    let sets = LENGTHS.into_iter().map(sets).collect::<io::Result<Vec<_>>>()?;
    let views: Vec<_> = sets.iter().map(|(empty, held)| (empty.view(), held.view())).collect();
    let loads = |label: &Label| {
        let covered = LENGTHS.into_iter().zip(&views).filter(|(length, _)| label.covers(*length));
        let load = covered.map(|(_, (empty, held))| {
            let (absent, present) = (label.part_of(empty.all()), label.part_of(held.all()));
            Load { absent, present, misses: absent.first(TIMED), hits: None }
        });
        load.collect()
    };
    let takes_part = subjects.iter().map(AsRef::as_ref).filter(|subject| subject.label().is_for(kind));
    let effort = Effort { turns: extent.turns, builds: 1, stretch: STRETCH };
    let measured = harness::measure(takes_part, &keys, &loads, effort, |label, error| {
        report(format!("{} {}, {}: {error}", label.implementation, label.kind, kind.name()));
    });
    let records = measured.iter().flat_map(|entrant| {
        let built = built(entrant.label(), kind.name(), keys.len() as u64);
        let figures = LENGTHS.into_iter().zip(loads(entrant.label())).zip(&entrant.figures);
        figures.map(move |((length, load), figures)| {
            let held = Counts { ranges: load.present.len() as u64, positives: figures.found };
            let empty = Counts { ranges: load.absent.len() as u64, positives: figures.positives };
            let held = held_record(built.clone(), "at random", Some(length), held);
            (record(entrant, built.clone(), length, figures, empty), held)
        })
    });
    Ok(records.unzip())
}

fn record(entrant: &Entrant<'_, OfRanges>, built: Built, length: u64, figures: &Figures, empty: Counts) -> RangeRecord {
    let keys = built.n as f64;
    RangeRecord {
        built,
        length,
        bits_per_key: entrant.bytes as f64 * 8.0 / keys,
        is_allocated: entrant.is_allocated,
        empty_ranges: empty.ranges,
        fpr: empty.rate(),
        build_ns_per_key: entrant.build / keys,
        empty_ns: figures.miss.mean(),
        batch_ns: figures.batch_ns(),
    }
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

/// Keys of a small filter, and how many of them are built for each length.
const FEW_KEYS: usize = 16;
const SMALL_FILTERS: u64 = 10_000;

fn held_record(built: Built, place: &str, length: Option<u64>, counts: Counts) -> HeldRecord {
    let Counts { ranges, positives } = counts;
    HeldRecord { built, place: place.to_owned(), length, ranges, lost: ranges - positives }
}

/// Measures the rates of all `subjects` for empty ranges close above uniform keys.
///
/// # Errors
///
/// The error of the names' decompressor.
pub fn correlated(subjects: &Subjects, extent: Extent) -> io::Result<Vec<CorrelatedRecord>> {
    let kind = KeyKind::Uniform;
    let keys = SortedKeys::new(kind, extent.keys)?;
    let sets = DEGREES.map(|(_, degree)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 30")]
        let distance_log2 = (30.0 * (1.0 - degree)).round() as u32;
        keys.ranges_above_keys(distance_log2, CORRELATED_LENGTH, extent.ranges)
    });
    let mut records = Vec::new();
    for subject in subjects.iter().filter(|subject| subject.label().is_built_for(CORRELATED_LENGTH)) {
        let counts = count(subject.as_ref(), &keys, &sets).into_iter().flatten();
        records.extend(DEGREES.into_iter().zip(counts).map(|((_, degree), empty)| CorrelatedRecord {
            built: built(subject.label(), kind.name(), keys.len() as u64),
            length: CORRELATED_LENGTH,
            degree,
            empty_ranges: empty.ranges,
            fpr: empty.rate(),
        }));
    }
    Ok(records)
}

/// Builds a filter, and counts the positives among each set. Returns `None` for a subject that cannot be built, which
/// `measure` reports.
fn count(subject: &dyn Subject<OfRanges>, keys: &SortedKeys, sets: &[RangeSet]) -> Option<Vec<Counts>> {
    let counted = caught(|| {
        let mut filter = subject.build(keys)?;
        let counts = sets.iter().map(|set| {
            let view = set.view();
            let ranges = subject.label().part_of(view.all());
            Counts { ranges: ranges.len() as u64, positives: filter.count(ranges) }
        });
        Ok(counts.collect())
    });
    counted.ok()
}

/// Counts false negatives of all `subjects` where their maps change, and between neighbouring keys.
pub fn held(subjects: &Subjects, extent: Extent) -> Vec<HeldRecord> {
    let mut records = Vec::new();
    for subject in subjects.iter().map(AsRef::as_ref) {
        let label = subject.label();
        // A range of one point crosses nothing.
        for length in LENGTHS.into_iter().filter(|&length| length > 1 && label.is_built_for(length)) {
            records.extend(around_multiples(subject, length, 1, extent.keys));
            records.extend(around_multiples(subject, length, SMALL_FILTERS, FEW_KEYS));
        }
        if label.longest.is_none() {
            let kinds = KeyKind::ALL.into_iter().filter(|&kind| label.is_for(kind));
            records.extend(kinds.filter_map(|kind| between_keys(subject, kind, extent)));
        }
    }
    records
}

/// Probes filters whose keys are next to multiples of the subject's step.
fn around_multiples(subject: &dyn Subject<OfRanges>, length: u64, filters: u64, keys: usize) -> Option<HeldRecord> {
    let step = subject.label().boundary_step(keys as u64);
    let mut all = Counts::default();
    for seed in 0..filters {
        let (sorted, ranges) = SortedKeys::around_multiples(step, length, keys, seed);
        let counts = count(subject, &sorted, &[ranges])?[0];
        all.ranges += counts.ranges;
        all.positives += counts.positives;
    }
    let place = format!("across multiples of {step}, {keys} keys a filter");
    Some(held_record(built(subject.label(), "close to the multiples", keys as u64), &place, Some(length), all))
}

/// Probes the ranges from above each key to the next, for filters of any length.
fn between_keys(subject: &dyn Subject<OfRanges>, kind: KeyKind, extent: Extent) -> Option<HeldRecord> {
    let keys = SortedKeys::new(kind, extent.keys).ok()?;
    let counts = count(subject, &keys, &[keys.ranges_between_keys()])?[0];
    Some(held_record(
        built(subject.label(), kind.name(), keys.len() as u64),
        "from above a key to the next",
        None,
        counts,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::keys::Ranges;
    use crate::ranges::subject::Takes;
    use crate::subject::{Filter, count_where};

    /// A filter that stores every key, or panics, or loses the lowest.
    #[derive(Clone, Copy, PartialEq)]
    enum Exact {
        Right,
        Panics,
        LosesOne,
    }

    struct Sorted(Vec<u64>);

    impl Filter<OfRanges> for Sorted {
        fn bytes(&self) -> Option<u64> {
            None
        }

        fn count(&mut self, ranges: Ranges<'_>) -> u64 {
            count_where(ranges.numbers, |&[lower, upper]| {
                self.0.get(self.0.partition_point(|&key| key < lower)).is_some_and(|&key| key <= upper)
            })
        }
    }

    fn subject(exact: Exact) -> Subjects {
        let (kind, takes) = ("sorted".to_owned(), Takes::Numbers);
        let label = Label { implementation: "exact", kind, longest: None, takes, is_slow: false };
        vec![label.built_by(move |keys| {
            assert!(exact != Exact::Panics, "no filter");
            // Large enough that memory freed by other tests meanwhile does not hide it.
            let mut numbers = Vec::with_capacity(1 << 20);
            numbers.extend_from_slice(&keys.numbers[usize::from(exact == Exact::LosesOne)..]);
            Ok(Box::new(Sorted(numbers)))
        })]
    }

    const SMALL: Extent = Extent { keys: 500, turns: 2, ranges: 2_000 };

    fn measured(exact: Exact) -> (Vec<RangeRecord>, Vec<HeldRecord>, Vec<String>) {
        let mut reports = Vec::new();
        let done = measure(&subject(exact), KeyKind::Uniform, SMALL, |report| reports.push(report));
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
        let lost: Vec<_> = super::held(&subject(Exact::LosesOne), SMALL).iter().map(|held| held.lost > 0).collect();
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
        let records = correlated(&subject(Exact::Right), SMALL).unwrap();
        assert!(records.len() == DEGREES.len() && records.iter().all(|record| record.fpr <= 0.0));
    }
}
