//! Counts the lookups that met a chunk, for all of its files at once. Outcomes, such as false positives, are counted by
//! each file.

use sstfilter::internal::{StripedCounters, ThreadCounters, bits_of};

use super::stats::FileStats;

/// Counts of lookups for the files of a chunk.
///
/// Negatives have no counter, because a lookup of an absent key has one for nearly every file, and counting each took a
/// sixth of the lookup. They are the lookups that remain: those that reached a file and neither skipped nor searched
/// it.
#[derive(Debug)]
pub(super) struct ChunkCounts {
    counters: StripedCounters,
    files: usize,
    /// Files whose filters are in the group.
    grouped: u64,
    /// Files with filters that can never be probed.
    unusable: u64,
}

/// The counters of each file of a chunk.
#[derive(Clone, Copy)]
enum Count {
    /// Lookups that skipped the file by its bounds.
    Skips,
    /// Lookups that searched the file.
    Searches,
    /// Lookups that ended at the file.
    Ends,
    /// Searches without a probe, because the key has none of the parts of the file's filter.
    Unprobed,
}

/// The files of a chunk that one lookup found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Files that have the key within their bounds.
    pub(super) in_bounds: u64,
    /// The files of these that were searched, or are still to be.
    pub(super) candidates: u64,
}

/// Returns a word with the lowest `count` bits set.
const fn first_bits(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

impl ChunkCounts {
    /// `of_parts` are the files whose filters do not hold whole keys.
    pub(super) fn new(files: usize, grouped: u64, unusable: u64, of_parts: u64) -> Self {
        // Last and only up to the last file with a filter of parts: no other file needs this counter.
        let unprobed = (u64::BITS - of_parts.leading_zeros()) as usize;
        Self { counters: StripedCounters::new(1 + 3 * files + unprobed), files, grouped, unusable }
    }

    const LOOKUPS: usize = 0;

    /// Returns the counter of the file at a slot.
    const fn of_file(&self, count: Count, place: usize) -> usize {
        1 + count as usize * self.files + place
    }

    /// Counts a file that is returned although its filter was not probed.
    #[cold]
    pub(super) fn count_unprobed(&self, place: usize) {
        self.counters.of_thread().add(self.of_file(Count::Unprobed, place), 1);
    }

    /// Counts what a lookup found in the chunk: in the first `reached` files if it ended there, in all if it went on.
    #[inline]
    pub(super) fn count(&self, found: Found, reached: Option<usize>) {
        let ended = match reached {
            Some(0) => return,
            reached => reached.map(|reached| reached - 1),
        };
        let counters: ThreadCounters<'_> = self.counters.of_thread();
        let considered = first_bits(reached.unwrap_or(self.files));
        for place in bits_of(found.candidates & considered) {
            counters.add(self.of_file(Count::Searches, place), 1);
        }
        counters.add_bits(self.of_file(Count::Skips, 0), !found.in_bounds & considered);
        if let Some(place) = ended {
            counters.add(self.of_file(Count::Ends, place), 1);
        }
        // Last: negatives are the remainder of the lookups, and must not include a lookup that is still being counted.
        counters.add(Self::LOOKUPS, 1);
    }

    /// Returns the counts of each file.
    pub(super) fn all(&self) -> impl Iterator<Item = FileStats> {
        let sums = self.counters.sums();
        let mut ended_before = 0;
        (0..self.files).map(move |place| {
            let count = |count| sums.get(self.of_file(count, place)).copied().unwrap_or(0);
            let (skips, searches) = (count(Count::Skips), count(Count::Searches));
            let mut stats = FileStats { skipped_by_bounds: skips, searched: searches, ..FileStats::default() };
            if self.grouped >> place & 1 == 1 {
                let lookups = sums.get(Self::LOOKUPS).copied().unwrap_or(0);
                stats.filter.positives = searches.saturating_sub(count(Count::Unprobed));
                stats.filter.negatives = lookups.saturating_sub(ended_before + skips + searches);
            } else if self.unusable >> place & 1 == 1 {
                stats.filter.unusable = searches;
            }
            ended_before += count(Count::Ends);
            stats
        })
    }
}
