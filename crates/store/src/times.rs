//! Sampled times of probes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sstfilter::KeyHash;
use sstfilter::internal::{StripedCounters, ThreadCounters};

/// Samples the time of calls: of probes of a filter, of a set of filters, or of a whole store.
///
/// What a `ProbeTimes` covers is up to its owner: keep one per filter, per level or per store, and wrap the probes in
/// [`time`](Self::time). A probe that is not wrapped costs nothing, and a call that is not sampled about 2 ns. Samples
/// are random, so that a workload that repeats in a pattern is not sampled in step with it.
///
/// Each sample is less by the minimum of what two readings of the clock in a row took; a call that does nothing is
/// recorded with 8 ns all the same. This is too coarse for a single filter in a cache, which takes 2 to 10 ns. Each
/// `ProbeTimes` takes 600 bytes for each thread that calls it.
///
/// ```
/// use std::sync::Arc;
/// use sstfilter_store::{FileFilters, FilterStore, FilterView, ProbeTimes};
///
/// let view = FilterView::<Arc<FileFilters>>::new(&FilterStore::default());
/// let times = ProbeTimes::one_in(64); // once per store
///
/// for key in [b"apple", b"lemon"] {
///     // The first candidate, or none: of an absent key, all probes.
///     let (mut candidates, mut file) = times.time(|| {
///         let mut candidates = view.candidates(key);
///         let file = candidates.next_file();
///         (candidates, file)
///     });
///     while let Some(searched) = file {
///         // ... search it; if the key is there, call `candidates.found()`. Else:
///         file = candidates.next_file();
///     }
/// }
///
/// let mut all = 0;
/// for (nanoseconds, samples) in times.buckets() {
///     println!("filter_probe_nanoseconds_bucket{{le=\"{nanoseconds}\"}} {samples}");
///     all = samples;
/// }
/// println!("filter_probe_nanoseconds_bucket{{le=\"+Inf\"}} {all}");
/// println!("filter_probe_nanoseconds_sum {}", times.nanoseconds());
/// println!("filter_probe_nanoseconds_count {all}");
/// ```
#[derive(Debug)]
pub struct ProbeTimes {
    /// A call is sampled if these bits of its number, mixed with the object's, are 0.
    mask: u64,
    /// So that not all objects sample the calls of the same numbers: calls inside calls would be sampled together.
    object: u64,
    /// Returns nanoseconds.
    clock: fn() -> u64,
    /// The time of two readings in a row.
    reading: u64,
    counters: StripedCounters,
}

/// The counters: calls, and the nanoseconds of all samples; then samples by their times.
const CALLS: usize = 0;
const NANOSECONDS: usize = 1;
const FIRST_BUCKET: usize = 2;

/// Bucket `i` counts samples below 2^i ns that no bucket before counts; the last one, from 9 minutes on, all others.
const BUCKETS: usize = 41;

impl ProbeTimes {
    /// Times one in `calls` calls, rounded up to a power of two, by [`Instant`].
    #[must_use]
    pub fn one_in(calls: u32) -> Self {
        Self::with_clock(calls, || {
            static START: OnceLock<Instant> = OnceLock::new();
            u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
    }

    /// Times one in `calls` calls, rounded up to a power of two, by a clock that returns nanoseconds since any point in
    /// time: for engines with a clock of their own, and for platforms where [`Instant`] panics.
    #[must_use]
    pub fn with_clock(calls: u32, clock: fn() -> u64) -> Self {
        static OBJECTS: AtomicU64 = AtomicU64::new(0);
        let mask = u64::from(calls).next_power_of_two() - 1;
        let reading = (0..16).map(|_| elapsed(clock(), clock())).min().unwrap_or(0);
        let object = OBJECTS.fetch_add(1, Ordering::Relaxed) << 40;
        Self { mask, object, clock, reading, counters: StripedCounters::new(FIRST_BUCKET + BUCKETS) }
    }

    /// Calls `probe`, and times it if this call is sampled.
    #[inline]
    pub fn time<T>(&self, probe: impl FnOnce() -> T) -> T {
        let counters = self.counters.of_thread();
        counters.add(CALLS, 1);
        if KeyHash::mix(counters.get(CALLS) ^ self.object).get() & self.mask != 0 {
            return probe();
        }
        let start = (self.clock)();
        let answer = probe();
        self.record(counters, elapsed(start, (self.clock)()));
        answer
    }

    #[cold]
    fn record(&self, counters: ThreadCounters<'_>, nanoseconds: u64) {
        let nanoseconds = nanoseconds.saturating_sub(self.reading);
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        counters.add(FIRST_BUCKET + bucket.min(BUCKETS - 1), 1);
        counters.add(NANOSECONDS, nanoseconds);
    }

    /// Returns the number of calls, sampled or not.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.counters.sum(CALLS)
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.buckets().last().map_or(0, |(_, samples)| samples)
    }

    /// Returns the time of all samples together, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self) -> u64 {
        self.counters.sum(NANOSECONDS)
    }

    /// Returns the mean time of a call in nanoseconds; `None` without samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let samples = self.samples();
        (samples > 0).then(|| self.nanoseconds() as f64 / samples as f64)
    }

    /// Returns the smallest bound of a bucket that at least a `share` (0 to 1) of the samples do not exceed; `None`
    /// without samples. A share of 0.99 gives the 99th percentile, rounded up to 1, 3, 7, 15 and so on.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.samples() as f64).max(1.0);
        let mut buckets = self.buckets();
        buckets.find(|&(_, samples)| samples as f64 >= wanted).map(|(nanoseconds, _)| nanoseconds)
    }

    /// Returns nanoseconds, 0, 1, 3, 7 and so on to 2^40 - 1, each with the number of samples that took at most as
    /// many: the buckets of a histogram for export. Samples above, of more than 18 minutes, count in the last one.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..BUCKETS).scan(0, |samples, bucket| {
            *samples += self.counters.sum(FIRST_BUCKET + bucket);
            Some(((1 << bucket) - 1, *samples))
        })
    }
}

/// Clocks of other processors may be behind.
fn elapsed(start: u64, end: u64) -> u64 {
    end.saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The time, and what reading it takes.
        static NOW: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    fn clock() -> u64 {
        let (now, reading) = NOW.get();
        NOW.set((now + reading, reading));
        now
    }

    fn pass(nanoseconds: u64) {
        let (now, reading) = NOW.get();
        NOW.set((now.wrapping_add(nanoseconds), reading));
    }

    #[test]
    fn times_are_those_of_the_calls_without_the_clock() {
        NOW.set((0, 20));
        let times = ProbeTimes::with_clock(1, clock);
        for nanoseconds in [0, 1, 2, 3, 4, 1_000, 1 << 50] {
            assert_eq!(
                times.time(|| {
                    pass(nanoseconds);
                    nanoseconds
                }),
                nanoseconds
            );
        }
        assert_eq!((times.calls(), times.samples(), times.nanoseconds()), (7, 7, 1_010 + (1 << 50)));
        let bounds: Vec<_> = times.buckets().collect();
        assert_eq!(bounds[..5], [(0, 1), (1, 2), (3, 4), (7, 5), (15, 5)]);
        assert_eq!(
            (bounds[9], bounds[10], bounds[39], bounds[40]),
            ((511, 5), (1_023, 6), ((1 << 39) - 1, 6), ((1 << 40) - 1, 7))
        );
        assert_eq!(
            [0.0, 0.2, 0.5, 0.7, 0.8, 1.0].map(|share| times.quantile(share)),
            [0, 1, 3, 7, 1_023, (1 << 40) - 1].map(Some)
        );
        assert!(times.mean().is_some_and(|mean| (mean - ((1_u64 << 50) + 1_010) as f64 / 7.0).abs() < 1.0));
    }

    #[test]
    fn one_call_in_64_is_timed_by_chance_and_every_call_answers() {
        let times = ProbeTimes::with_clock(33, clock);
        let answers: u64 = (0..640_000_u64)
            .map(|call| {
                times.time(|| {
                    pass(call % 64);
                    call & 1
                })
            })
            .sum();
        assert_eq!((answers, times.calls()), (320_000, 640_000));
        // Four standard deviations of 10,000 samples; their times are not those of one call in 64, always the same.
        assert!(times.samples().abs_diff(10_000) < 400, "{}", times.samples());
        assert!(times.mean().is_some_and(|mean| (mean - 31.5).abs() < 4.0 * 18.5 / 100.0), "{:?}", times.mean());
    }

    #[test]
    fn clocks_that_go_back_and_calls_that_were_never_made_give_no_times() {
        NOW.set((1 << 20, 0));
        let times = ProbeTimes::with_clock(0, clock);
        assert_eq!((times.mean(), times.quantile(0.5)), (None, None));
        times.time(|| NOW.set((0, 0)));
        assert_eq!((times.samples(), times.nanoseconds(), times.quantile(1.0)), (1, 0, Some(0)));
    }

    #[test]
    #[cfg_attr(target_os = "wasi", ignore = "starts threads")]
    fn samples_of_all_threads_count() {
        let times = ProbeTimes::one_in(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..4_000).for_each(|_| times.time(|| ())));
            }
        });
        assert_eq!(times.calls(), 16_000);
        // Four standard deviations; a thread of its own stripe samples the same numbers of calls as the others.
        assert!(times.samples().abs_diff(4_000) < 4 * 4 * 28, "{}", times.samples());
    }
}
