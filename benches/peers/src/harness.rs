//! The harness: candidates run round-robin and the best of several turns counts, so that noise hits all alike.

use std::hint::black_box;
use std::time::Instant;

use crate::allocator::COUNTER;
use crate::keys::{KeySet, Keys};
use crate::record::{Record, crate_version, target_cpu};
use crate::subject::{BuildError, BuildResult, Family, Label, Subject};

/// Keys in each timed loop over a filter of up to [`CACHED_KEYS`] keys. Their hashes stay in the second-level cache, so
/// that the loop times filters and not the stream of hashes. With eight times as many, the fastest filters take up to
/// twice as long.
const QUERIES_OF_CACHED: usize = 1 << 17;

/// Keys in each timed loop over a larger filter: together they touch all of it.
const QUERIES_OF_LARGE: usize = 1 << 20;

/// The maximum number of keys in a filter of which [`QUERIES_OF_CACHED`] keys touch every line.
const CACHED_KEYS: usize = 1_000_000;

/// The number of absent keys for the observed false positive rate.
const RATE_QUERIES: usize = 1 << 22;

/// Keys that are timed together. They take less than a millisecond, so that most stretches see no interruption.
const STRETCH: usize = 1 << 15;

/// Loops per turn. The first also loads the filter into the caches that it fits into.
const PASSES: usize = 4;

/// One number of keys, and the number of measurements with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Keys in each filter.
    pub keys: usize,
    /// Turns.
    pub turns: usize,
    /// Builds in each turn: small filters are built several times.
    pub builds: usize,
    /// The candidates that take part.
    pub entrants: Entrants,
}

/// The candidates of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrants {
    /// All.
    All,
    /// Filters whose build needs no more memory than the filter itself.
    BloomOnly,
}

/// The sizes of a run.
pub fn rounds(length: Length) -> Vec<Round> {
    let round = |keys, turns, builds| Round { keys, turns, builds, entrants: Entrants::All };
    match length {
        Length::Quick => vec![round(10_000, 5, 10), round(100_000, 5, 3), round(1_000_000, 3, 1)],
        Length::Full | Length::Large => {
            let mut rounds =
                vec![round(10_000, 25, 20), round(100_000, 25, 5), round(1_000_000, 15, 1), round(10_000_000, 5, 1)];
            if length == Length::Large {
                // Bloom filters need no memory beyond the filter to build, so this round fits into 3 GiB.
                rounds.push(Round { keys: 100_000_000, turns: 3, builds: 1, entrants: Entrants::BloomOnly });
            }
            rounds
        }
    }
}

/// The duration of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Under two minutes.
    Quick,
    /// Under twenty minutes.
    Full,
    /// Also 100 million keys.
    Large,
}

/// Measures all `subjects` in one round. Passes errors to `report`, and continues with the others.
pub fn measure(subjects: &[Box<dyn Subject>], round: Round, mut report: impl FnMut(String)) -> Vec<Record> {
    let present = KeySet::present(round.keys);
    let queries = if round.keys <= CACHED_KEYS { QUERIES_OF_CACHED } else { QUERIES_OF_LARGE };
    let (absent, drawn) = (KeySet::absent(RATE_QUERIES), KeySet::drawn_from(present.all(), queries));
    let load = Load { present: present.all(), absent: absent.all(), misses: absent.first(queries), hits: drawn.all() };
    let takes_part = |family| round.entrants == Entrants::All || family == Family::Bloom;
    let mut entrants: Vec<_> = subjects
        .iter()
        .filter(|subject| takes_part(subject.label().family))
        .map(|subject| Entrant { subject: subject.as_ref(), best: Best::default() })
        .collect();
    for turn in 0..round.turns {
        entrants.retain_mut(|entrant| match entrant.take_turn(&load, round.builds, turn == 0) {
            Ok(()) => true,
            Err(error) => {
                let Label { implementation, kind, .. } = entrant.subject.label();
                report(format!("{implementation} {kind}, {} keys: {error}", round.keys));
                false
            }
        });
    }
    entrants.iter().map(|entrant| entrant.best.record(&entrant.subject.label(), round.keys)).collect()
}

/// The keys of a round.
struct Load<'a> {
    present: Keys<'a>,
    absent: Keys<'a>,
    misses: Keys<'a>,
    hits: Keys<'a>,
}

/// A subject and its best figures so far.
struct Entrant<'a> {
    subject: &'a dyn Subject,
    best: Best,
}

/// The minimum nanoseconds per key, and the figures that do not vary.
#[derive(Debug, Default)]
struct Best {
    build: Option<f64>,
    miss: Stretches,
    hit: Stretches,
    batch: Stretches,
    bytes: u64,
    bytes_peak: u64,
    fpr: f64,
}

/// The minimum nanoseconds of each stretch of keys. Each stretch has its own best turn, so that one interruption does
/// not spoil a whole turn.
#[derive(Clone, Debug, Default)]
pub struct Stretches(Vec<Option<f64>>);

impl Stretches {
    /// Times `ask` for each stretch of `count` keys. An `ask` that returns `None` does not count.
    pub fn time(&mut self, keys: Keys<'_>, count: usize, ask: impl FnMut(Keys<'_>) -> Option<u64>) {
        self.time_parts(keys.chunks(count).map(|stretch| (stretch, stretch.len())), ask);
    }

    /// Times `ask` for each part, which comes with its number of queries. An `ask` that returns `None` does not count.
    pub fn time_parts<P>(&mut self, parts: impl Iterator<Item = (P, usize)>, mut ask: impl FnMut(P) -> Option<u64>) {
        for (index, (part, queries)) in parts.enumerate() {
            self.0.resize(self.0.len().max(index + 1), None);
            // Hidden from the optimizer, which could hoist or drop probes of known keys.
            let (answer, nanoseconds) = timed(|| ask(black_box(part)));
            if black_box(answer).is_some() {
                keep_least(&mut self.0[index], nanoseconds / queries as f64);
            }
        }
    }

    /// Returns the nanoseconds per key over all stretches, if all were timed.
    pub fn mean(&self) -> Option<f64> {
        // `None` if a stretch has no time: the subject has no such call.
        let sum = self.0.iter().copied().sum::<Option<f64>>()?;
        (!self.0.is_empty()).then(|| sum / self.0.len() as f64)
    }
}

impl Entrant<'_> {
    fn take_turn(&mut self, load: &Load<'_>, builds: usize, is_first: bool) -> Result<(), BuildError> {
        if is_first {
            self.first_build(load)?;
        }
        let mut filter = self.timed_build(load)?;
        for _ in 1..builds {
            // Dropped before the next build, so that two filters never exist at once.
            drop(filter);
            filter = self.timed_build(load)?;
        }
        for _ in 0..PASSES {
            self.best.miss.time(load.misses, STRETCH, |keys| Some(filter.count(keys)));
            self.best.hit.time(load.hits, STRETCH, |keys| Some(filter.count(keys)));
        }
        for _ in 0..PASSES {
            self.best.batch.time(load.misses, STRETCH, |keys| filter.count_batch(keys));
        }
        Ok(())
    }

    fn timed_build(&mut self, load: &Load<'_>) -> BuildResult {
        let (built, nanoseconds) = timed(|| self.subject.build(black_box(load.present)));
        keep_least(&mut self.best.build, nanoseconds / load.present.len() as f64);
        built
    }

    /// Measures the figures that do not vary, and checks that no key is lost.
    fn first_build(&mut self, load: &Load<'_>) -> Result<(), BuildError> {
        let (filter, bytes_peak) = COUNTER.peak_during(|| self.subject.build(load.present));
        let mut filter = filter?;
        let (found, present) = (filter.count(load.present), load.present.len() as u64);
        // Checked before anything is timed: a filter that loses keys may be fast.
        if found != present {
            return Err(format!("loses {} of {present} keys", present - found).into());
        }
        let positives = filter.count(load.absent);
        if filter.count_batch(load.absent).is_some_and(|in_batches| in_batches != positives) {
            return Err("answers otherwise in batches".into());
        }
        self.best.fpr = positives as f64 / load.absent.len() as f64;
        (self.best.bytes, self.best.bytes_peak) = (filter.bytes(), bytes_peak);
        Ok(())
    }
}

impl Best {
    fn record(&self, label: &Label, keys: usize) -> Record {
        let Label { implementation, kind, family, hash, isa, against } = *label;
        let measured = |least: Option<f64>| least.unwrap_or(f64::NAN);
        Record {
            implementation: implementation.to_owned(),
            version: crate_version(implementation).unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            family,
            isa: isa.map(str::to_owned),
            target_cpu: target_cpu().map(str::to_owned),
            against: against.to_owned(),
            n: keys as u64,
            hash,
            bits_per_key: self.bytes as f64 * 8.0 / keys as f64,
            fpr: self.fpr,
            build_ns_per_key: measured(self.build),
            query_miss_ns: measured(self.miss.mean()),
            query_hit_ns: measured(self.hit.mean()),
            batch_miss_ns: self.batch.mean(),
            bytes_peak: self.bytes_peak,
        }
    }
}

/// Returns the minimum nanoseconds of each of `works` in `turns` turns, round-robin.
pub fn least_times<W: FnMut() -> u64>(works: &mut [W], turns: usize) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; works.len()];
    for _ in 0..turns {
        for (work, least) in works.iter_mut().zip(&mut least) {
            let (answer, nanoseconds) = timed(work);
            black_box(answer);
            *least = least.min(nanoseconds);
        }
    }
    least
}

/// Runs `work`. Returns its result and the nanoseconds it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed().as_nanos() as f64)
}

/// Replaces `least` by `value` if that is less, or the first.
pub fn keep_least(least: &mut Option<f64>, value: f64) {
    *least = Some(least.map_or(value, |least| least.min(value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Filter, HashUse};

    /// A filter that stores every key, or loses the first.
    struct Exact {
        loses_one: bool,
    }

    struct Sorted(Vec<u64>);

    impl Filter for Sorted {
        fn bytes(&self) -> u64 {
            self.0.len() as u64 * 8
        }

        fn count(&self, keys: Keys<'_>) -> u64 {
            keys.numbers.iter().filter(|key| self.0.binary_search(key).is_ok()).count() as u64
        }
    }

    impl Subject for Exact {
        fn label(&self) -> Label {
            let (family, hash) = (Family::Static, HashUse::Given);
            Label { implementation: "exact", kind: "sorted", family, hash, isa: None, against: "none" }
        }

        fn build(&self, keys: Keys<'_>) -> BuildResult {
            let mut sorted = keys.numbers[usize::from(self.loses_one)..].to_vec();
            sorted.sort_unstable();
            Ok(Box::new(Sorted(sorted)))
        }
    }

    fn measured(loses_one: bool, entrants: Entrants) -> (Vec<Record>, Vec<String>) {
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(Exact { loses_one })];
        let mut reports = Vec::new();
        let round = Round { keys: 1_000, turns: 1, builds: 1, entrants };
        (measure(&subjects, round, |report| reports.push(report)), reports)
    }

    #[test]
    fn an_exact_set_has_no_false_positives_and_64_bits_per_key() {
        let (records, reports) = measured(false, Entrants::All);
        assert!(reports.is_empty());
        assert!(records[0].bits_per_key > 63.9 && records[0].fpr <= 0.0 && records[0].batch_miss_ns.is_none());
        assert!(records[0].build_ns_per_key > 0.0 && records[0].query_miss_ns > 0.0);
    }

    #[test]
    fn a_filter_that_loses_a_key_gets_no_record() {
        let (records, reports) = measured(true, Entrants::All);
        assert!(records.is_empty());
        assert_eq!(reports, ["exact sorted, 1000 keys: loses 1 of 1000 keys"]);
    }

    #[test]
    fn each_stretch_counts_by_its_best_turn_and_none_without_an_answer() {
        let stretches = Stretches(vec![Some(1.0), Some(2.0)]);
        assert!((stretches.mean().unwrap_or_default() - 1.5).abs() < 1e-9);
        let mut unanswered = Stretches::default();
        unanswered.time(KeySet::present(10).all(), 4, |_| None);
        assert_eq!((unanswered.mean(), Stretches::default().mean()), (None, None));
    }

    #[test]
    fn rounds_of_bloom_filters_leave_the_others_out() {
        assert!(measured(false, Entrants::BloomOnly).0.is_empty());
    }
}
