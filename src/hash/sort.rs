//! Sorts hashes. Hashes are spread evenly, so their high bits almost determine their positions: two partition passes
//! and a few moves replace the log2(n) comparisons per hash of a general sort. A radix sort of all 64 bits would take
//! six more passes for bits that order almost nothing. The price is a second copy of the hashes, whose size callers
//! limit.

use alloc::vec::Vec;
use core::ops::Range;

use super::KeyHash;
use crate::threads::{share, worthwhile};

/// Up to this many hashes, a comparison sort is as fast.
const SMALL: usize = 128;

/// log2 of the target window size, which holds for up to 2^24 hashes: 4,096 hashes (32 KiB), their copy and the counts
/// of their bins stay in the first- and second-level caches during the second pass.
const WINDOW_HASHES_LOG2: u32 = 12;

/// log2, rounded down, of the maximum number of hashes in a single window. With two or three windows, each hash would
/// wait for the count that the one before it has changed.
const MAX_ONE_WINDOW_LOG2: u32 = 13;

/// log2 of the maximum number of windows. Each window is a stream of writes to its own page. More than 4,096 streams
/// exceed the TLB, and every store would wait for a page walk. Larger inputs get larger windows instead.
const MAX_WINDOWS_LOG2: u32 = 12;

/// Resources for sorting: threads, and memory that is reused.
#[derive(Debug, Default)]
pub(crate) struct SortScratch {
    threads: usize,
    /// A copy of the hashes; between sorts, memory for other work.
    pub(crate) spare: Vec<KeyHash>,
    /// The ends of each run's windows. The copy consists of runs, one for each thread that partitioned some of the
    /// hashes.
    runs: Vec<Vec<u32>>,
    /// The ends of a window's bins. Each thread has its own vector; this one belongs to the calling thread.
    bin_ends: Vec<u32>,
}

/// Bytes budgeted for each thread but the first: more than the ends of its windows and bins take, for up to 2^24
/// hashes.
pub(crate) const SORT_THREAD_BYTES: u64 = 256 << 10;

impl SortScratch {
    /// Creates an empty scratch for sorting on up to `threads` threads.
    pub(crate) fn of_threads(threads: usize) -> Self {
        Self { threads, ..Self::default() }
    }

    /// Upper bound of the bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let window_ends: usize = self.runs.iter().map(Vec::capacity).sum();
        let ends = window_ends + self.bin_ends.capacity() * self.runs.len().max(1);
        (self.spare.capacity() * size_of::<KeyHash>() + ends * size_of::<u32>()) as u64
    }

    /// Reserves memory for a copy of `hashes`, and returns log2 of the number of windows. Returns `None` if the copy
    /// would exceed `max_bytes` or cannot be allocated.
    fn reserve(&mut self, hashes: &[KeyHash], max_bytes: u64) -> Option<u32> {
        self.spare.clear();
        let left = max_bytes.checked_sub(size_of_val(hashes) as u64)?;
        // The ends are counted in 32 bits.
        u32::try_from(hashes.len()).ok()?;
        self.spare.try_reserve_exact(hashes.len()).ok()?;
        // The calling thread always sorts. The budget that the copy leaves limits the others.
        let affordable = usize::try_from(left / SORT_THREAD_BYTES).unwrap_or(usize::MAX).saturating_add(1);
        let threads = worthwhile(self.threads.min(affordable), hashes.len() as u64);
        self.runs.resize_with(threads, Vec::new);
        let log2 = hashes.len().max(1).ilog2();
        let is_one_window = log2 <= MAX_ONE_WINDOW_LOG2;
        Some(if is_one_window { 0 } else { (log2 - WINDOW_HASHES_LOG2).min(MAX_WINDOWS_LOG2) })
    }

    /// Copies `hashes` to the reserved memory, grouped by window within each run.
    fn partition(&mut self, hashes: &[KeyHash], windows_log2: u32) {
        self.spare.resize(hashes.len(), KeyHash(0));
        let threads = self.runs.len();
        let run_hashes = hashes.len().div_ceil(threads);
        let runs = hashes.chunks(run_hashes).zip(self.spare.chunks_mut(run_hashes)).zip(&mut self.runs).collect();
        share(threads, runs, &mut (), |(), ((source, target), ends): ((&[KeyHash], &mut [KeyHash]), _)| {
            if windows_log2 > 0 {
                return scatter(&[source], target, 0..windows_log2, ends);
            }
            target.copy_from_slice(source);
            ends.clear();
            ends.extend(u32::try_from(source.len()));
        });
    }
}

/// Sorts `hashes` in ascending order on up to `threads` threads. Sorts more slowly, without a copy, if the copy would
/// exceed `max_bytes`. Returns the number of bytes used.
pub fn sort_hashes(hashes: &mut [KeyHash], threads: usize, max_bytes: u64) -> u64 {
    let mut scratch = SortScratch::of_threads(threads);
    sort_with(hashes, &mut scratch, max_bytes);
    scratch.bytes()
}

/// Sorts `hashes` in ascending order.
///
/// The first pass partitions the hashes into up to 4,096 windows by their high bits. The second partitions each window
/// into as many bins as it has hashes. An insertion sort then moves each misplaced hash past one or two others. Uneven
/// windows are sorted by comparisons, as is everything if a copy would exceed `max_bytes`.
pub(crate) fn sort_with(hashes: &mut [KeyHash], scratch: &mut SortScratch, max_bytes: u64) {
    let is_large = hashes.len() > SMALL;
    // The standard library's sort compares, but works in place.
    let Some(windows_log2) = is_large.then(|| scratch.reserve(hashes, max_bytes)).flatten() else {
        return hashes.sort_unstable();
    };
    scratch.partition(hashes, windows_log2);
    // Evenly spread hashes never fill a window to four times the mean. Uneven ones would fill bins with many hashes
    // each.
    let max_in_window = (hashes.len() >> windows_log2) * 4;
    for_each_window(scratch, hashes, |bin_ends, parts, target| {
        if target.len() > max_in_window {
            gather(parts, target);
            target.sort_unstable();
        } else {
            sort_window(parts, target, windows_log2, bin_ends);
        }
    });
}

/// Runs only the first pass of the sort: windows of about 4,096 hashes ascend, and the hashes within a window have no
/// order. Up to 16,383 hashes are one window. Returns `false` and changes nothing if a copy would exceed `max_bytes` or
/// cannot be allocated.
pub(crate) fn partition_hashes(hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, max_bytes: u64) -> bool {
    let Some(windows_log2) = scratch.reserve(hashes, max_bytes) else { return false };
    // A single window is already the result of the first pass.
    if windows_log2 > 0 {
        scratch.partition(hashes, windows_log2);
        if scratch.runs.len() == 1 {
            // The copy of a single run is already in order, so swapping saves copying it back.
            core::mem::swap(hashes, &mut scratch.spare);
        } else {
            for_each_window(scratch, hashes, |_, parts, target| gather(parts, target));
        }
    }
    true
}

/// Copies the parts of a window to `target`.
fn gather(parts: &[&[KeyHash]], mut target: &mut [KeyHash]) {
    for part in parts {
        let here;
        (here, target) = target.split_at_mut(part.len());
        here.copy_from_slice(part);
    }
}

/// Calls `work` for each window, to fill its part of `hashes`. Passes memory for the ends of bins, the window's part of
/// each run, and the target.
fn for_each_window(
    scratch: &mut SortScratch,
    mut hashes: &mut [KeyHash],
    work: impl Fn(&mut Vec<u32>, &[&[KeyHash]], &mut [KeyHash]) + Sync,
) {
    let SortScratch { spare, runs, bin_ends, .. } = scratch;
    let run_hashes = hashes.len().div_ceil(runs.len());
    let windows = (0..runs.first().map_or(0, Vec::len)).map(|window| {
        let in_run =
            |ends: &[u32]| window.checked_sub(1).map_or(0, |before| ends[before]) as usize..ends[window] as usize;
        let parts = spare.chunks(run_hashes).zip(runs.iter()).map(|(run, ends)| &run[in_run(ends)]);
        let parts: Vec<&[KeyHash]> = parts.collect();
        let target = hashes.split_off_mut(..parts.iter().map(|part| part.len()).sum()).unwrap_or_default();
        (parts, target)
    });
    share(runs.len(), windows.collect(), bin_ends, |ends, (parts, target): (Vec<_>, _)| work(ends, &parts, target));
}

/// Sorts the hashes of a window, whose highest `skipped` bits are equal.
fn sort_window(source: &[&[KeyHash]], target: &mut [KeyHash], skipped: u32, bin_ends: &mut Vec<u32>) {
    let log2 = target.len().next_power_of_two().ilog2();
    // The counts of 2^13 bins fit the first-level cache; a window of all hashes has at most twice as many.
    let log2 = if skipped == 0 { log2.min(MAX_ONE_WINDOW_LOG2) } else { log2 };
    scatter(source, target, skipped..skipped + log2, bin_ends);
    let mut moves = 0;
    for at in 1..target.len() {
        let hash = target[at];
        let mut place = at;
        while place > 0 && target[place - 1] > hash {
            target[place] = target[place - 1];
            place -= 1;
        }
        target[place] = hash;
        moves += at - place;
        // More than 8 moves per hash mean uneven bins, for which insertion becomes quadratic.
        if moves > 8 * at + 64 {
            target.sort_unstable();
            return;
        }
    }
}

/// Copies the parts of `source` to `target`, grouped by bin, and leaves the ends of bins in `ends`. A hash's bin is the
/// number in its `bits`, counted from the highest bit.
fn scatter(source: &[&[KeyHash]], target: &mut [KeyHash], bits: Range<u32>, ends: &mut Vec<u32>) {
    ends.clear();
    ends.resize(1 << bits.len(), 0);
    let ends = ends.as_mut_slice();
    // The shift moves a hash's bin to its low bits, and the mask clears the bits above. A single bin masks everything,
    // so `bin` may reduce a shift of 64 to 0.
    let (shift, mask) = (u64::BITS - bits.end, ends.len() - 1);
    for part in source {
        for &hash in *part {
            ends[bin(hash, shift, mask)] += 1;
        }
    }
    let mut sum = 0;
    for end in ends.iter_mut() {
        let count = *end;
        *end = sum;
        sum += count;
    }
    for part in source {
        for &hash in *part {
            let next = &mut ends[bin(hash, shift, mask)];
            target[*next as usize] = hash;
            *next += 1;
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the mask clears the upper bits anyway")]
fn bin(hash: KeyHash, shift: u32, mask: usize) -> usize {
    (hash.0 >> (shift & 63)) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut hashes: Vec<KeyHash>, what: &str) {
        let mut expected = hashes.clone();
        expected.sort_unstable();
        let mut scratch = SortScratch::default();
        let unsorted = hashes.clone();
        let mut again = hashes.clone();
        sort_with(&mut hashes, &mut scratch, u64::MAX);
        assert!(hashes == expected, "{what}");
        sort_with(&mut hashes, &mut scratch, u64::MAX);
        assert!(hashes == expected, "{what}, sorted before");
        let mut scratch = SortScratch::default();
        sort_with(&mut again, &mut scratch, 100);
        assert!(again == expected && scratch.bytes() == 0, "{what}, without memory");
        for threads in [2, 3, 8] {
            let (mut by_threads, mut scratch) = (unsorted.clone(), SortScratch::of_threads(threads));
            sort_with(&mut by_threads, &mut scratch, u64::MAX);
            assert!(by_threads == expected, "{what}, {threads} threads");
        }
    }

    #[test]
    fn a_scratch_counts_the_copy_the_ends_and_the_bins_of_a_window_for_each_run() {
        assert_eq!(SortScratch::of_threads(8).bytes(), 0);
        let (spare, bin_ends) = (|| Vec::with_capacity(1_000), || Vec::with_capacity(30));
        let of_runs = |runs| SortScratch { threads: 2, spare: spare(), runs, bin_ends: bin_ends() };
        assert_eq!(of_runs(Vec::new()).bytes(), 1_000 * 8 + 30 * 4);
        let runs = vec![Vec::with_capacity(100), Vec::with_capacity(200), Vec::with_capacity(300)];
        assert_eq!(of_runs(runs).bytes(), 1_000 * 8 + 600 * 4 + 3 * 30 * 4);
    }

    #[test]
    fn mixed_hashes_are_sorted_at_every_size() {
        for count in [0, 1, 2, 127, 128, 129, 1_000, 4_095, 4_096, 4_097, 8_192, 100_000, 1_000_000] {
            check((0..count).map(KeyHash::mix).collect(), &format!("{count} hashes"));
        }
    }

    #[test]
    fn partitioning_keeps_all_hashes_and_orders_the_windows() {
        for (count, threads) in [(0, 1), (1, 1), (5_000, 1), (100_000, 1), (200_000, 2), (700_000, 3)] {
            let hashes: Vec<KeyHash> = (0..count).map(KeyHash::mix).collect();
            let mut partitioned = hashes.clone();
            assert!(partition_hashes(&mut partitioned, &mut SortScratch::of_threads(threads), u64::MAX));
            let window = |hash: &KeyHash| hash.0 >> 60;
            assert!(count < 100_000 || partitioned.is_sorted_by_key(window));
            let mut again = hashes.clone();
            assert!(count == 0 || !partition_hashes(&mut again, &mut SortScratch::default(), 7));
            assert_eq!(again, hashes);
            again.sort_unstable();
            partitioned.sort_unstable();
            assert_eq!(partitioned, again);
        }
    }

    /// A wrong order would go unnoticed elsewhere: the insertion sort, or the fallback, repairs it.
    #[test]
    fn scattered_hashes_lie_in_the_order_of_the_bits_that_their_bins_are_of() {
        for (skipped, log2) in [(0, 0), (0, 4), (0, 13), (8, 0), (8, 4), (12, 13)] {
            let hashes: Vec<KeyHash> = (0..1_000).map(|key| KeyHash(KeyHash::mix(key).0 >> skipped)).collect();
            let (mut scattered, mut ends) = (vec![KeyHash(0); hashes.len()], Vec::new());
            scatter(&[&hashes], &mut scattered, skipped..skipped + log2, &mut ends);
            let bin = |hash: &KeyHash| (hash.0 << skipped).checked_shr(u64::BITS - log2).unwrap_or(0);
            assert!(scattered.is_sorted_by_key(bin), "{log2} bits after {skipped}");
            assert_eq!((ends.len(), ends.last()), (1 << log2, Some(&1_000)));
            let mut expected = hashes;
            expected.sort_unstable();
            scattered.sort_unstable();
            assert_eq!(scattered, expected);
        }
    }

    #[test]
    fn hashes_that_are_not_spread_evenly_are_sorted_too() {
        for count in [129, 5_000, 300_000] {
            let of = |hash: fn(u64) -> u64| (0..count).map(|key| KeyHash(hash(key))).collect::<Vec<_>>();
            check(of(|_| 7), "all the same");
            check(of(|key| key), "ascending small numbers");
            check(of(|key| u64::MAX - key), "descending large numbers");
            check(of(|key| key % 5), "few different ones");
            check(of(|key| key << 40), "one bit in common out of two");
            check(of(|key| if key % 2 == 0 { KeyHash::mix(key).0 } else { 1 << 63 }), "half mixed");
            check(of(|key| KeyHash::mix(key / 3).0), "each three times");
        }
    }
}
