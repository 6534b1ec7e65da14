//! Counts of filters' answers, and alarms for unexpected false positive rates.

// Stripes need thread locals, and so `std`.
#[cfg(all(test, feature = "std"))]
#[allow(dead_code, reason = "only its tests are compiled here")]
mod plain;
#[cfg_attr(not(feature = "std"), path = "plain.rs")]
mod striped;

use alloc::boxed::Box;
use alloc::sync::Arc;
use striped::CounterSlot;
#[cfg(not(feature = "std"))]
pub(crate) use striped::{StripedCounters, ThreadCounters};
#[cfg(feature = "std")]
pub use striped::{StripedCounters, ThreadCounters};

/// A filter's counters. Each is exact while no thread is counting; otherwise a snapshot of several may be a few probes
/// apart. No two threads write the same cache line.
#[derive(Debug, Default)]
pub struct FilterCounters {
    counts: CounterSlot,
    /// The counters of the filter's set. Boxed, because many filters are in no set.
    pub(crate) in_set: Option<Box<CountedBySet>>,
}

/// The events counted for a filter.
#[derive(Clone, Copy, Debug)]
enum Count {
    Negatives,
    Positives,
    TruePositives,
    FalsePositives,
    Unusable,
    NotLoaded,
    BoundSkips,
    Searched,
}

/// The counter of a set's probes. A probe of the set probes every filter, so all filters share one counter.
pub(crate) const PROBES: usize = 0;

/// The answers that a set counts for one of its filters. A set probes all filters each time, so it counts its probes
/// once, and the positives of each filter.
#[derive(Clone, Debug)]
pub(crate) struct CountedBySet {
    pub(crate) counters: Arc<StripedCounters>,
    /// The index of the counter of this filter's positives.
    pub(crate) positives: usize,
}

impl FilterCounters {
    /// Counts one answer.
    #[inline]
    pub fn add_answer(&self, maybe: bool) {
        self.add(if maybe { Count::Positives } else { Count::Negatives }, 1);
    }

    /// Counts `probes` answers, `positives` of them "may be present".
    #[inline]
    pub fn add_answers(&self, probes: u64, positives: u64) {
        self.add(Count::Positives, positives);
        self.add(Count::Negatives, probes - positives);
    }

    /// Counts probes that the filter could not answer.
    #[inline]
    pub fn add_unusable(&self, probes: u64) {
        self.add(Count::Unusable, probes);
    }

    /// Counts probes for which the filter was not in memory.
    #[inline]
    pub fn add_not_loaded(&self, probes: u64) {
        self.add(Count::NotLoaded, probes);
    }

    /// Counts lookups that a file's bounds answered, and searches of the file.
    #[inline]
    pub fn add_view_counts(&self, bound_skips: u64, searched: u64) {
        self.add(Count::BoundSkips, bound_skips);
        self.add(Count::Searched, searched);
    }

    /// Returns the lookups that bounds answered, and the searches.
    #[must_use]
    pub fn view_counts(&self) -> (u64, u64) {
        let [bound_skips, searched] = self.sums([Count::BoundSkips, Count::Searched]);
        (bound_skips, searched)
    }

    /// Counts whether the file contained the key after "may be present".
    #[inline]
    pub fn add_outcome(&self, found: bool) {
        self.add(if found { Count::TruePositives } else { Count::FalsePositives }, 1);
    }

    /// Prefetches this thread's counters.
    #[inline]
    pub fn prefetch(&self) {
        self.counts.prefetch();
    }

    #[inline]
    fn add(&self, count: Count, more: u64) {
        self.counts.add(count as usize, more);
    }

    fn sums<const COUNT: usize>(&self, counts: [Count; COUNT]) -> [u64; COUNT] {
        self.counts.sums(counts.map(|count| count as usize))
    }

    /// Returns the counts so far. Outcomes are read before positives, and positives before the set's probes, so that no
    /// part exceeds its whole: additions are Release, and a thread counts the whole before the part.
    pub fn snapshot(&self, is_usable: bool) -> FilterStats {
        let [true_positives, false_positives] = self.sums([Count::TruePositives, Count::FalsePositives]);
        let [negatives, positives, unusable, not_loaded] =
            self.sums([Count::Negatives, Count::Positives, Count::Unusable, Count::NotLoaded]);
        let mut stats = FilterStats { negatives, positives, true_positives, false_positives, unusable, not_loaded };
        if let Some(CountedBySet { counters, positives }) = self.in_set.as_deref() {
            // The part before the whole; see `StripedCounters::sum`.
            let positives = counters.sum(*positives);
            let probes = counters.sum(PROBES);
            if is_usable {
                stats.positives += positives;
                stats.negatives += probes.saturating_sub(positives);
            } else {
                stats.unusable += probes;
            }
        }
        stats
    }
}

/// The counts of a filter's answers. Without the feature `std`, counts are as wide as pointers, and saturate.
///
/// ```
/// use sstfilter::FilterStats;
///
/// let mut stats = FilterStats::default();
/// (stats.negatives, stats.positives, stats.false_positives) = (9_900, 100, 100);
/// assert_eq!(stats.observed_fpr(), Some(0.01));
/// assert!(stats.alarm(0.01).is_none());
/// assert!(stats.alarm(0.001).is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use]
pub struct FilterStats {
    /// Probes answered "absent".
    pub negatives: u64,
    /// Probes answered "may be present".
    pub positives: u64,
    /// Positives whose key was then found in the file.
    pub true_positives: u64,
    /// Positives whose key was then not found in the file. Filters that hold only parts of keys do not count these: the
    /// file may contain the part but not the key.
    pub false_positives: u64,
    /// Probes that the filter could not answer, because it is damaged, unknown or foreign.
    pub unusable: u64,
    /// Probes while the filter was not in memory, because of a memory budget.
    pub not_loaded: u64,
}

/// How many standard errors an observed rate may differ from the expected one without an alarm. At four, chance alone
/// raises an alarm once in 16,000 checks of a filter; at three, once in 370, too often for a store of thousands of
/// files.
const ALARM_SIGMAS: f64 = 4.0;

impl FilterStats {
    /// The number of all probes.
    #[must_use]
    pub const fn probes(&self) -> u64 {
        self.negatives + self.positives + self.unusable + self.not_loaded
    }

    /// The number of probes for keys that turned out absent: negatives and false positives.
    #[must_use]
    pub const fn absent_probes(&self) -> u64 {
        self.negatives + self.false_positives
    }

    /// The share of false positives among the keys known to be absent; `None` before the first such key, and for
    /// [inconsistent](Self::is_consistent) counts.
    ///
    /// It is a lower bound while some positives have no outcome: a lookup that stops at the newest file leaves those of
    /// older files open. This is the filter's rate; [`useless_read_rate`](Self::useless_read_rate) is that of reads.
    #[must_use]
    pub fn observed_fpr(&self) -> Option<f64> {
        let absent = self.absent_probes();
        (absent > 0 && self.is_consistent()).then(|| self.false_positives as f64 / absent as f64)
    }

    /// The share of absent keys whose file was searched in vain, because the filter answered "may be present", was not
    /// in memory, or was unusable; `None` before the first such key. It is an upper bound, because lookups that found
    /// their key without a filter count as well.
    #[must_use]
    pub fn useless_read_rate(&self) -> Option<f64> {
        let without_filter = self.not_loaded + self.unusable;
        let absent = self.absent_probes() + without_filter;
        (absent > 0).then(|| (self.false_positives + without_filter) as f64 / absent as f64)
    }

    /// Whether there are no more outcomes than positives. More outcomes were recorded for the wrong filter, and make
    /// the counts meaningless.
    #[must_use]
    pub const fn is_consistent(&self) -> bool {
        self.true_positives.saturating_add(self.false_positives) <= self.positives
    }

    /// The interval that contains the true rate, `sigmas` standard errors to each side (Wilson's score interval);
    /// `None` without an observed rate. Positives without an outcome may be true or false, which widens the interval
    /// upwards.
    #[must_use]
    pub fn fpr_interval(&self, sigmas: f64) -> Option<(f64, f64)> {
        self.observed_fpr()?;
        let (low, _) = wilson_interval(self.false_positives, self.negatives, sigmas);
        let (_, high) = wilson_interval(self.positives - self.true_positives, self.negatives, sigmas);
        Some((low, high))
    }

    /// Returns the observed rate if chance does not explain it: the expected rate lies outside the interval of four
    /// standard errors.
    ///
    /// A higher rate than expected means an overfull filter, badly mixed or hostile hashes, or repeated queries for one
    /// false positive. A lower rate means repeated queries for the same negative keys.
    #[must_use]
    pub fn alarm(&self, expected_fpr: f64) -> Option<f64> {
        let (low, high) = self.fpr_interval(ALARM_SIGMAS)?;
        self.observed_fpr().filter(|_| expected_fpr < low || expected_fpr > high)
    }

    /// Returns all counts with their names, for export. Counts never decrease while the filter is open.
    ///
    /// ```
    /// # let stats = sstfilter::FilterStats::default();
    /// for (name, count) in stats.counts() {
    ///     println!("filter_{name}_total {count}");
    /// }
    /// ```
    #[must_use]
    pub const fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("negatives", self.negatives),
            ("positives", self.positives),
            ("true_positives", self.true_positives),
            ("false_positives", self.false_positives),
            ("unusable", self.unusable),
            ("not_loaded", self.not_loaded),
        ]
    }

    /// Returns the sums of both counts.
    pub fn merged(&self, other: &Self) -> Self {
        self.with_each(other, u64::saturating_add)
    }

    /// Returns the counts added after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        self.with_each(earlier, u64::saturating_sub)
    }

    fn with_each(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            negatives: with(self.negatives, other.negatives),
            positives: with(self.positives, other.positives),
            true_positives: with(self.true_positives, other.true_positives),
            false_positives: with(self.false_positives, other.false_positives),
            unusable: with(self.unusable, other.unusable),
            not_loaded: with(self.not_loaded, other.not_loaded),
        }
    }
}

/// Wilson's score interval for the share of positives. At least one of the two counts must not be 0.
fn wilson_interval(positives: u64, misses: u64, sigmas: f64) -> (f64, f64) {
    let trials = (positives + misses) as f64;
    let share = positives as f64 / trials;
    let squared = sigmas * sigmas;
    let centre = share + squared / (2.0 * trials);
    let spread = sigmas * crate::math::sqrt(share * (1.0 - share) / trials + squared / (4.0 * trials * trials));
    let scale = 1.0 + squared / trials;
    // At 0 and 1, the formula yields 0 and 1 except for rounding errors, which would raise an alarm.
    let low = if positives == 0 { 0.0 } else { ((centre - spread) / scale).max(0.0) };
    let high = if misses == 0 { 1.0 } else { ((centre + spread) / scale).min(1.0) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(negatives: u64, false_positives: u64) -> FilterStats {
        FilterStats { negatives, positives: false_positives, false_positives, ..FilterStats::default() }
    }

    #[test]
    fn nothing_asked_is_no_rate_and_no_alarm() {
        assert_eq!(FilterStats::default().observed_fpr(), None);
        assert_eq!(FilterStats::default().alarm(0.01), None);
    }

    #[test]
    fn more_outcomes_than_positives_give_no_rate_and_no_alarm() {
        let reported_elsewhere = FilterStats { false_positives: 954, ..FilterStats::default() };
        let one_too_many = FilterStats {
            negatives: 900,
            positives: 100,
            true_positives: 1,
            false_positives: 100,
            ..Default::default()
        };
        for stats in [reported_elsewhere, one_too_many] {
            assert!(!stats.is_consistent());
            assert_eq!((stats.observed_fpr(), stats.fpr_interval(2.0), stats.alarm(0.01)), (None, None, None));
        }
        assert!(FilterStats { true_positives: 0, ..one_too_many }.alarm(0.01).is_some());
    }

    // promise: documented-use
    #[test]
    fn positives_without_an_outcome_are_no_reason_to_find_the_rate_too_low() {
        // A filter of 1 % whose positives have no outcome, because a newer file contained the keys.
        let open = FilterStats { negatives: 9_900, positives: 100, ..FilterStats::default() };
        assert_eq!((open.observed_fpr(), open.alarm(0.01)), (Some(0.0), None));
        assert_eq!(open.alarm(0.1).map(|rate| rate > 0.1), Some(false));
        let looked_up = FilterStats { true_positives: 100, ..open };
        assert_eq!(looked_up.alarm(0.01).map(|rate| rate > 0.01), Some(false));
        // Nor are they a reason to accept a high rate: the false positives among a few outcomes are enough for an
        // alarm.
        let high = FilterStats { negatives: 900, positives: 200, false_positives: 100, ..FilterStats::default() };
        assert_eq!(high.alarm(0.01).map(|rate| rate > 0.01), Some(true));
    }

    #[test]
    fn the_interval_holds_the_rate_and_narrows_with_probes() {
        let (few, many) = (stats(99, 1), stats(9_900, 100));
        let width = |stats: FilterStats| {
            let (low, high) = stats.fpr_interval(2.0).unwrap();
            assert!(low < 0.01 && 0.01 < high);
            high - low
        };
        assert!(width(many) < width(few) / 5.0);
        assert_eq!(stats(100, 0).fpr_interval(2.0).unwrap().0, 0.0);
    }

    #[test]
    fn alarms_name_the_direction() {
        assert!(stats(900, 100).alarm(0.01).is_some_and(|rate| rate > 0.01));
        assert!(stats(100_000, 1).alarm(0.01).is_some_and(|rate| rate < 0.01));
        assert_eq!(stats(5, 1).alarm(0.01), None);
    }

    #[test]
    fn rates_at_either_end_that_are_met_exactly_do_not_alarm() {
        for count in 1..10_000 {
            assert_eq!(stats(count, 0).alarm(0.0), None);
            assert_eq!(stats(0, count).alarm(1.0), None);
        }
    }

    #[test]
    fn counters_add_up() {
        let counters = FilterCounters::default();
        counters.add_answers(10, 3);
        counters.add_unusable(2);
        counters.add_outcome(true);
        counters.add_outcome(false);
        let snapshot = counters.snapshot(true);
        assert_eq!((snapshot.negatives, snapshot.positives, snapshot.unusable), (7, 3, 2));
        assert_eq!((snapshot.true_positives, snapshot.false_positives), (1, 1));
        assert_eq!(snapshot.probes(), 12);
        assert_eq!(snapshot.merged(&snapshot).probes(), 24);
    }
}
