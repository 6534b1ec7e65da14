//! What lookups count for the files of a chunk.

use super::stats::FileStats;
use crate::block::{bits_of, first_bits};
use crate::stats::{StripedCounters, ThreadCounters};

/// What lookups count for the files of a chunk.
///
/// Negatives have no counter: a lookup of an absent key has one for nearly every file, and counting each took a sixth
/// of the lookup. They are what remains of the lookups that came to a file.
#[derive(Debug)]
pub(super) struct ChunkCounts {
    counters: StripedCounters,
    files: usize,
    /// Files whose filters are in the group.
    grouped: u64,
    /// Files with filters that can never be probed.
    unusable: u64,
}

/// What of a lookup is counted for a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Files that have the key within their bounds.
    pub(super) in_bounds: u64,
    /// Of those, the ones that are or were to be searched.
    pub(super) candidates: u64,
}

impl ChunkCounts {
    /// `of_parts` are the files whose filters do not hold whole keys.
    pub(super) fn new(files: usize, grouped: u64, unusable: u64, of_parts: u64) -> Self {
        let unprobed = (u64::BITS - of_parts.leading_zeros()) as usize;
        Self { counters: StripedCounters::new(1 + 3 * files + unprobed), files, grouped, unusable }
    }

    const LOOKUPS: usize = 0;

    /// Lookups that skipped the file by its bounds.
    const fn skips(place: usize) -> usize {
        1 + place
    }

    /// Lookups that searched the file.
    const fn searches(&self, place: usize) -> usize {
        1 + self.files + place
    }

    /// Lookups that ended at the file.
    const fn ends(&self, place: usize) -> usize {
        1 + 2 * self.files + place
    }

    /// Those of the searches before which the file's filter was not probed, because the key has none of its parts.
    const fn unprobed(&self, place: usize) -> usize {
        1 + 3 * self.files + place
    }

    /// Counts that the filter of a file that is given was not probed.
    #[cold]
    pub(super) fn count_unprobed(&self, place: usize) {
        self.counters.of_thread().add(self.unprobed(place), 1);
    }

    /// Counts what a lookup has found in the chunk, up to the file where it ended.
    #[inline]
    pub(super) fn count(&self, found: Found, ended: Option<usize>) {
        let counters: ThreadCounters<'_> = self.counters.of_thread();
        let considered = first_bits(ended.map_or(self.files, |place| place + 1));
        for place in bits_of(found.candidates & considered) {
            counters.add(self.searches(place), 1);
        }
        counters.add_bits(Self::skips(0), !found.in_bounds & considered);
        if let Some(place) = ended {
            counters.add(self.ends(place), 1);
        }
        // Last, so that negatives, the remainder of the lookups, never count a lookup on its way.
        counters.add(Self::LOOKUPS, 1);
    }

    /// What was counted for each file.
    pub(super) fn all(&self) -> impl Iterator<Item = FileStats> {
        let sums = self.counters.sums();
        (0..self.files).map(move |place| self.stats_in(&sums, place))
    }

    /// What was counted for the file at a place.
    pub(super) fn of(&self, place: u32) -> FileStats {
        self.stats_in(&self.counters.sums(), place as usize)
    }

    fn stats_in(&self, sums: &[u64], place: usize) -> FileStats {
        let count = |index: usize| sums.get(index).copied().unwrap_or(0);
        let ended_before: u64 = (0..place).map(|before| count(self.ends(before))).sum();
        let (skips, searches) = (count(Self::skips(place)), count(self.searches(place)));
        let mut stats = FileStats { skipped_by_bounds: skips, searched: searches, ..FileStats::default() };
        if self.grouped >> place & 1 == 1 {
            stats.filter.positives = searches.saturating_sub(count(self.unprobed(place)));
            stats.filter.negatives = count(Self::LOOKUPS).saturating_sub(ended_before + skips + searches);
        } else if self.unusable >> place & 1 == 1 {
            stats.filter.unusable = searches;
        }
        stats
    }
}
