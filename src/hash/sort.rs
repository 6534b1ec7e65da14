//! Sorting hashes, which are spread evenly: by their high bits, straight to where they belong.

use super::KeyHash;

/// Up to here a comparison sort is as fast.
const SMALL: usize = 128;

/// Hashes in a window, about, up to 2^24 in all: they and the counts of their bins fit the first caches.
const WINDOW_HASHES_LOG2: u32 = 12;

/// The most windows: more streams of stores than this are more than the address translation holds.
const MAX_WINDOWS_LOG2: u32 = 12;

/// Memory that sorting uses, to be kept from file to file.
#[derive(Debug, Default)]
pub(crate) struct SortScratch {
    spare: Vec<KeyHash>,
    window_ends: Vec<u32>,
    bin_ends: Vec<u32>,
}

impl SortScratch {
    /// The memory alone.
    pub(crate) fn into_spare(self) -> Vec<KeyHash> {
        self.spare
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let counts = self.window_ends.capacity() + self.bin_ends.capacity();
        (self.spare.capacity() * size_of::<KeyHash>() + counts * size_of::<u32>()) as u64
    }
}

/// Sorts `hashes`, ascending.
///
/// One pass puts each hash into one of up to 4,096 windows by its high bits; a second one, within the
/// window, into a bin by the bits below; what is still out of place has to move past one or two others.
/// Hashes that are not spread evenly are sorted by comparisons, and so are all of them when a copy would take
/// more than `most_bytes`.
pub(crate) fn sort_hashes(hashes: &mut [KeyHash], scratch: &mut SortScratch, most_bytes: u64) {
    let SortScratch { spare, window_ends, bin_ends } = scratch;
    let is_large = hashes.len() > SMALL && u32::try_from(hashes.len()).is_ok();
    let is_affordable = size_of_val(hashes) as u64 <= most_bytes;
    spare.clear();
    if !is_large || !is_affordable || spare.try_reserve_exact(hashes.len()).is_err() {
        hashes.sort_unstable();
        return;
    }
    spare.resize(hashes.len(), KeyHash(0));
    let windows_log2 = hashes.len().ilog2().saturating_sub(WINDOW_HASHES_LOG2).min(MAX_WINDOWS_LOG2);
    let window = Bins { skipped: 0, log2: windows_log2 };
    window.scatter(hashes, spare, window_ends);
    let crowded = (hashes.len() >> windows_log2) * 4;
    let sort = |bin_ends: &mut Vec<u32>, (source, target): (&[KeyHash], &mut [KeyHash])| {
        if source.len() > crowded {
            target.copy_from_slice(source);
            target.sort_unstable();
        } else {
            sort_window(source, target, windows_log2, bin_ends);
        }
    };
    for_each_window(spare, hashes, window_ends, bin_ends, sort);
}

/// Puts `hashes` roughly in order: those of each window of about 4,096 come before those of the next. `false`, and
/// nothing is done, when a copy would take more than `most_bytes`, or cannot be had.
pub(crate) fn sort_hashes_roughly(hashes: &mut Vec<KeyHash>, scratch: &mut SortScratch, most_bytes: u64) -> bool {
    let SortScratch { spare, window_ends, .. } = scratch;
    let is_affordable = u32::try_from(hashes.len()).is_ok() && size_of_val(hashes.as_slice()) as u64 <= most_bytes;
    spare.clear();
    if !is_affordable || spare.try_reserve_exact(hashes.len()).is_err() {
        return false;
    }
    let windows_log2 = hashes.len().max(1).ilog2().saturating_sub(WINDOW_HASHES_LOG2).min(MAX_WINDOWS_LOG2);
    if windows_log2 > 0 {
        spare.resize(hashes.len(), KeyHash(0));
        Bins { skipped: 0, log2: windows_log2 }.scatter(hashes, spare, window_ends);
        core::mem::swap(hashes, spare);
    }
    true
}

/// The windows of `spare`, each with its place in `hashes`.
fn windows<'a>(
    mut spare: &'a [KeyHash],
    mut hashes: &'a mut [KeyHash],
    ends: &'a [u32],
) -> impl Iterator<Item = (&'a [KeyHash], &'a mut [KeyHash])> {
    let mut start = 0;
    ends.iter().map(move |&end| {
        let count = (end - start) as usize;
        start = end;
        let (source, target);
        (source, spare) = spare.split_at(count);
        (target, hashes) = core::mem::take(&mut hashes).split_at_mut(count);
        (source, target)
    })
}

#[cfg(not(feature = "parallel"))]
fn for_each_window(
    spare: &[KeyHash],
    hashes: &mut [KeyHash],
    ends: &[u32],
    bin_ends: &mut Vec<u32>,
    sort: impl Fn(&mut Vec<u32>, (&[KeyHash], &mut [KeyHash])),
) {
    windows(spare, hashes, ends).for_each(|window| sort(bin_ends, window));
}

/// Above so many windows, they are shared among threads.
#[cfg(feature = "parallel")]
const FEW_WINDOWS: usize = 64;

#[cfg(feature = "parallel")]
fn for_each_window(
    spare: &[KeyHash],
    hashes: &mut [KeyHash],
    ends: &[u32],
    bin_ends: &mut Vec<u32>,
    sort: impl Fn(&mut Vec<u32>, (&[KeyHash], &mut [KeyHash])) + Send + Sync,
) {
    use rayon::prelude::{IntoParallelIterator, ParallelIterator};

    let mut windows: Vec<_> = windows(spare, hashes, ends).collect();
    if windows.len() <= FEW_WINDOWS {
        windows.drain(..).for_each(|window| sort(bin_ends, window));
    } else {
        windows.into_par_iter().for_each_init(Vec::new, sort);
    }
}

/// Sorts the hashes of a window, which have their `skipped` highest bits in common.
fn sort_window(source: &[KeyHash], target: &mut [KeyHash], skipped: u32, bin_ends: &mut Vec<u32>) {
    let log2 = source.len().next_power_of_two().ilog2();
    Bins { skipped, log2 }.scatter(source, target, bin_ends);
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
        if moves > 8 * at + 64 {
            target.sort_unstable();
            return;
        }
    }
}

/// 2^log2 bins by the highest bits of a hash but the first few.
#[derive(Clone, Copy)]
struct Bins {
    skipped: u32,
    log2: u32,
}

impl Bins {
    /// How far a hash is shifted to get its bin; what is above the bin's bits is cut off. Of a single bin for all hashes
    /// that is everything, so that it does not matter what [`bin`] makes of a shift by 64.
    fn shift(self) -> u32 {
        u64::BITS - self.skipped - self.log2
    }

    /// Copies `source` to `target` bin by bin; `ends` then has where each bin ends.
    fn scatter(self, source: &[KeyHash], target: &mut [KeyHash], ends: &mut Vec<u32>) {
        ends.clear();
        ends.resize(1 << self.log2, 0);
        let ends = ends.as_mut_slice();
        let (shift, mask) = (self.shift(), ends.len() - 1);
        for &hash in source {
            ends[bin(hash, shift, mask)] += 1;
        }
        let mut sum = 0;
        for end in ends.iter_mut() {
            let count = *end;
            *end = sum;
            sum += count;
        }
        for &hash in source {
            let next = &mut ends[bin(hash, shift, mask)];
            target[*next as usize] = hash;
            *next += 1;
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is cut off anyway")]
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
        let mut again = hashes.clone();
        sort_hashes(&mut hashes, &mut scratch, u64::MAX);
        assert!(hashes == expected, "{what}");
        sort_hashes(&mut hashes, &mut scratch, u64::MAX);
        assert!(hashes == expected, "{what}, sorted before");
        let mut scratch = SortScratch::default();
        sort_hashes(&mut again, &mut scratch, 100);
        assert!(again == expected && scratch.bytes() == 0, "{what}, without memory");
    }

    #[test]
    fn mixed_hashes_are_sorted_at_every_size() {
        for count in [0, 1, 2, 127, 128, 129, 1_000, 4_095, 4_096, 4_097, 8_192, 100_000, 1_000_000] {
            check((0..count).map(KeyHash::from_remixed).collect(), &format!("{count} hashes"));
        }
    }

    #[test]
    fn rough_order_keeps_all_hashes_and_is_one_of_windows() {
        for count in [0, 1, 5_000, 100_000] {
            let hashes: Vec<KeyHash> = (0..count).map(KeyHash::from_remixed).collect();
            let mut rough = hashes.clone();
            assert!(sort_hashes_roughly(&mut rough, &mut SortScratch::default(), u64::MAX));
            let window = |hash: &KeyHash| hash.0 >> 60;
            assert!(count < 100_000 || rough.is_sorted_by_key(window));
            let mut again = hashes.clone();
            assert!(count == 0 || !sort_hashes_roughly(&mut again, &mut SortScratch::default(), 7));
            assert_eq!(again, hashes);
            again.sort_unstable();
            rough.sort_unstable();
            assert_eq!(rough, again);
        }
    }

    /// Else they are sorted all the same, but by comparisons.
    #[test]
    fn scattered_hashes_lie_in_the_order_of_the_bits_that_their_bins_are_of() {
        for (skipped, log2) in [(0, 0), (0, 4), (0, 13), (8, 0), (8, 4), (12, 13)] {
            let hashes: Vec<KeyHash> = (0..1_000).map(|key| KeyHash(KeyHash::from_remixed(key).0 >> skipped)).collect();
            let (mut scattered, mut ends) = (vec![KeyHash(0); hashes.len()], Vec::new());
            Bins { skipped, log2 }.scatter(&hashes, &mut scattered, &mut ends);
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
            check(of(|key| if key % 2 == 0 { KeyHash::from_remixed(key).0 } else { 1 << 63 }), "half mixed");
            check(of(|key| KeyHash::from_remixed(key / 3).0), "each three times");
        }
    }
}
