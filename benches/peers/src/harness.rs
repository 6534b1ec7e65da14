//! The harness: candidates run round-robin and the best of several turns counts, so that noise hits all alike.

use std::any::Any;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::allocator::COUNTER;
use crate::subject::{BuildError, BuildResult, Filter, Queries, Subject, Workload};

/// Loops per turn. The first also loads the filter into the caches that it fits into.
const PASSES: usize = 4;

/// How often everything is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Turns.
    pub turns: usize,
    /// Builds in each turn: small filters are built several times.
    pub builds: usize,
    /// Queries that are timed together. They take about a millisecond, so that most stretches see no interruption.
    pub stretch: usize,
}

/// The queries of a filter.
#[derive(Clone, Copy)]
pub struct Load<Q> {
    /// For the observed false positive rate.
    pub absent: Q,
    /// To find the keys that a filter loses.
    pub present: Q,
    /// Absent ones that are timed.
    pub misses: Q,
    /// Present ones that are timed, if any.
    pub hits: Option<Q>,
}

/// A subject, and its best figures so far.
pub struct Entrant<'a, W: Workload> {
    subject: &'a dyn Subject<W>,
    /// Bytes of the filter.
    pub bytes: u64,
    /// Whether those are allocated bytes, because it cannot be serialised.
    pub is_allocated: bool,
    /// The peak of allocated bytes during a build.
    pub bytes_peak: u64,
    /// Nanoseconds of a build.
    pub build: f64,
    /// Figures of each load.
    pub figures: Vec<Figures>,
}

/// The figures of a load.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Positives among the absent queries.
    pub positives: u64,
    /// Positives among the present ones.
    pub found: u64,
    /// Times of absent queries, one by one.
    pub miss: Stretches,
    /// Times of present ones.
    pub hit: Stretches,
    /// Times of absent ones by the batch call.
    batch: Stretches,
}

/// Measures all `subjects`, each with its loads. Passes errors to `report`, and continues with the others.
pub fn measure<'a, 'k, W: Workload>(
    subjects: impl Iterator<Item = &'a dyn Subject<W>>,
    keys: W::Keys<'k>,
    loads: impl Fn(&W::Label) -> Vec<Load<W::Queries<'k>>>,
    effort: Effort,
    mut report: impl FnMut(&W::Label, BuildError),
) -> Vec<Entrant<'a, W>> {
    let (bytes, bytes_peak, build) = (0, 0, f64::NAN);
    let entrant = |subject| Entrant { subject, bytes, is_allocated: false, bytes_peak, build, figures: Vec::new() };
    let mut entrants: Vec<_> = subjects.map(entrant).collect();
    for turn in 0..effort.turns {
        entrants.retain_mut(|entrant| {
            let loads = loads(entrant.label());
            let done = caught(|| entrant.take_turn(keys, &loads, effort, turn == 0));
            done.map_err(|error| report(entrant.label(), error)).is_ok()
        });
    }
    entrants
}

/// Runs `work`, and returns a panic as an error, because peers may panic.
pub fn caught<T>(work: impl FnOnce() -> Result<T, BuildError>) -> Result<T, BuildError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(format!("panics: {}", message(&*panic)).into()))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// The minimum nanoseconds of each stretch of queries. Each stretch has its own best turn, so that one interruption
/// does not spoil a whole turn.
#[derive(Clone, Debug, Default)]
pub struct Stretches(Vec<f64>);

impl Stretches {
    /// Times `ask` for each stretch of `count` queries. An `ask` that returns `None` does not count.
    pub fn time<Q: Queries>(&mut self, queries: Q, count: usize, mut ask: impl FnMut(Q) -> Option<u64>) {
        for (index, stretch) in queries.chunks(count).enumerate() {
            // A minimum ignores what is not a number.
            self.0.resize(self.0.len().max(index + 1), f64::NAN);
            // Hidden from the optimizer, which could hoist or drop probes of known keys.
            let (answer, nanoseconds) = timed(|| ask(black_box(stretch)));
            if black_box(answer).is_some() {
                self.0[index] = self.0[index].min(nanoseconds / stretch.len() as f64);
            }
        }
    }

    /// Returns the nanoseconds per key over all stretches, if all were timed, or not a number.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

impl<'a, W: Workload> Entrant<'a, W> {
    /// The subject's description.
    pub fn label(&self) -> &'a W::Label {
        self.subject.label()
    }

    fn take_turn(
        &mut self,
        keys: W::Keys<'_>,
        loads: &[Load<W::Queries<'_>>],
        effort: Effort,
        is_first: bool,
    ) -> Result<(), BuildError> {
        if is_first {
            self.first_build(keys, loads)?;
        }
        let mut filter = self.timed_build(keys)?;
        for _ in 1..effort.builds {
            // Dropped before the next build, so that two filters never exist at once.
            drop(filter);
            filter = self.timed_build(keys)?;
        }
        for (load, figures) in loads.iter().zip(&mut self.figures) {
            figures.time(filter.as_mut(), load, effort.stretch);
        }
        Ok(())
    }

    fn timed_build(&mut self, keys: W::Keys<'_>) -> BuildResult<W> {
        let (built, nanoseconds) = timed(|| self.subject.build(black_box(keys)));
        self.build = self.build.min(nanoseconds);
        built
    }

    /// Measures the figures that do not vary, and checks that no key is lost.
    fn first_build(&mut self, keys: W::Keys<'_>, loads: &[Load<W::Queries<'_>>]) -> Result<(), BuildError> {
        // Memory that a crate allocates only once is not part of a filter.
        drop(self.subject.build(keys)?);
        let (filter, peak, held) = COUNTER.during(|| self.subject.build(keys));
        let mut filter = filter?;
        self.bytes_peak = peak;
        self.is_allocated = filter.bytes().is_none();
        self.bytes = filter.bytes().unwrap_or(held);
        let figures = loads.iter().map(|load| Figures::observed(filter.as_mut(), load));
        self.figures = figures.collect::<Result<_, _>>()?;
        Ok(())
    }
}

impl Figures {
    fn observed<W: Workload>(filter: &mut dyn Filter<W>, load: &Load<W::Queries<'_>>) -> Result<Self, BuildError> {
        let (found, present) = (filter.count(load.present), load.present.len() as u64);
        // Checked before anything is timed: a filter that loses keys may be fast.
        if found != present && !W::COUNTS_LOST_KEYS {
            return Err(format!("loses {} of {present} keys", present - found).into());
        }
        let positives = filter.count(load.absent);
        if filter.count_batch(load.absent).is_some_and(|in_batches| in_batches != positives) {
            return Err("answers otherwise in batches".into());
        }
        Ok(Self { positives, found, ..Self::default() })
    }

    /// Nanoseconds of absent queries by the batch call, if there is one.
    pub fn batch_ns(&self) -> Option<f64> {
        Some(self.batch.mean()).filter(|mean| !mean.is_nan())
    }

    fn time<W: Workload>(&mut self, filter: &mut dyn Filter<W>, load: &Load<W::Queries<'_>>, stretch: usize) {
        for _ in 0..PASSES {
            self.miss.time(load.misses, stretch, |queries| Some(filter.count(queries)));
            if let Some(hits) = load.hits {
                self.hit.time(hits, stretch, |queries| Some(filter.count(queries)));
            }
        }
        for _ in 0..PASSES {
            self.batch.time(load.misses, stretch, |queries| filter.count_batch(queries));
        }
    }
}

/// Returns the minimum nanoseconds to `run` each of `works` in `turns` turns, round-robin.
pub fn least_times<W>(works: &mut [W], turns: usize, mut run: impl FnMut(&mut W) -> u64) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; works.len()];
    for _ in 0..turns {
        for (work, least) in works.iter_mut().zip(&mut least) {
            let (answer, nanoseconds) = timed(|| run(work));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeySet;

    #[test]
    fn each_stretch_counts_by_its_best_turn_and_none_without_an_answer() {
        assert!((Stretches(vec![1.0, 2.0]).mean() - 1.5).abs() < 1e-9);
        let mut unanswered = Stretches::default();
        unanswered.time(KeySet::present(10).all(), 4, |_| None);
        assert!(unanswered.mean().is_nan() && Stretches::default().mean().is_nan());
    }
}
