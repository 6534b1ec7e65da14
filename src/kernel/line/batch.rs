//! The loops over many keys: one text, stamped into every set's file, so that each set compiles it with
//! its own instructions.

use crate::codec::map_to_range;
use crate::hash::KeyHash;
use crate::kernel::line::Line;

/// How many keys ahead of its use a line is asked for: 0 or [`AHEAD`].
///
/// Measured on Zen 3: in 250 KiB of lines a prefetch costs 0.1 ns per key, in 500 KiB and above it saves 0.5 ns or
/// more. Distances from 8 to 48 differ little up to the size of L3; beyond it 48 is best (also on Zen 4).
pub(super) fn prefetch_distance(lines: usize) -> usize {
    if lines <= 256 * 1024 / size_of::<Line>() { 0 } else { AHEAD }
}

pub(super) const AHEAD: usize = 48;

/// The line of `hash`, from its high bits. `lines` must not be empty: the functions that dispatch to the loops see
/// to that.
#[inline(always)]
pub(super) fn line_at(lines: &[Line], hash: KeyHash) -> &Line {
    // SAFETY: the high half of a product with the number of lines is below it, unless that is 0.
    unsafe { lines.get_unchecked(index_of(lines.len(), hash)) }
}

#[inline(always)]
pub(super) fn line_at_mut(lines: &mut [Line], hash: KeyHash) -> &mut Line {
    // SAFETY: as in `line_at`.
    unsafe { lines.get_unchecked_mut(index_of(lines.len(), hash)) }
}

#[inline(always)]
fn index_of(lines: usize, hash: KeyHash) -> usize {
    map_to_range(hash.get(), lines as u64) as usize
}

/// Defines `contains_batch` and `insert_batch` from a `Probe<ROUNDS>` with `new`, `test` and `set`.
/// The argument is the attribute that all of the set's functions carry.
macro_rules! batch_loops {
    ($(#[$features:meta])?) => {
        /// Sets bit `i % 64` of word `i / 64` of `hits` to whether hash `i` may be in its line.
        $(#[$features])?
        pub(super) fn contains_batch(lines: &[Line], probes: u8, hashes: &[KeyHash], hits: &mut [u64]) {
            specialised!(probe_all(lines, probes, hashes, hits));
        }

        /// Sets the bits of all keys.
        $(#[$features])?
        pub(super) fn insert_batch(lines: &mut [Line], probes: u8, hashes: &[KeyHash]) {
            specialised!(set_all(lines, probes, hashes));
        }

        $(#[$features])?
        fn probe_all<const ROUNDS: usize, const DISTANCE: usize, const SPLIT: bool>(
            lines: &[Line],
            probes: u8,
            hashes: &[KeyHash],
            hits: &mut [u64],
        ) {
            let probe = Probe::<ROUNDS>::new(probes);
            let upcoming = hashes.get(DISTANCE..).unwrap_or_default();
            if DISTANCE > 0 {
                hashes.iter().take(DISTANCE).for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
            }
            let mut groups = 0;
            let full = hashes.as_chunks::<64>().0.iter().zip(upcoming.as_chunks::<64>().0);
            for ((group, ahead), word) in full.zip(&mut *hits) {
                let mut bits = 0_u64;
                for (i, (eight, ahead)) in group.as_chunks::<8>().0.iter().zip(ahead.as_chunks::<8>().0).enumerate() {
                    if DISTANCE > 0 {
                        ahead.iter().for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
                    }
                    bits |= u64::from(probe.test_eight(lines, eight)) << (8 * i);
                }
                *word = bits;
                groups += 1;
            }
            let rest = hashes[groups * 64..].chunks(64).zip(&mut hits[groups..]);
            let mut ahead = upcoming[(groups * 64).min(upcoming.len())..].iter();
            for (group, word) in rest {
                if DISTANCE > 0 {
                    ahead.by_ref().take(64).for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
                }
                let (eights, last) = group.as_chunks::<8>();
                let mut bits = 0_u64;
                for (i, eight) in eights.iter().enumerate() {
                    bits |= u64::from(probe.test_eight(lines, eight)) << (8 * i);
                }
                for (i, &hash) in last.iter().enumerate() {
                    bits |= u64::from(probe.test(line_at(lines, hash), hash)) << (8 * eights.len() + i);
                }
                *word = bits;
            }
        }

        $(#[$features])?
        fn set_all<const ROUNDS: usize, const DISTANCE: usize, const SPLIT: bool>(
            lines: &mut [Line],
            probes: u8,
            hashes: &[KeyHash],
        ) {
            let probe = Probe::<ROUNDS>::new(probes);
            let upcoming = hashes.get(DISTANCE..).unwrap_or_default();
            if DISTANCE > 0 {
                hashes.iter().take(DISTANCE).for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
            }
            let mut groups = 0;
            for (eight, ahead) in hashes.as_chunks::<8>().0.iter().zip(upcoming.as_chunks::<8>().0) {
                for (hash, &next) in eight.iter().zip(ahead) {
                    if DISTANCE > 0 {
                        prefetch_at::<SPLIT>(lines, next);
                    }
                    probe.set(line_at_mut(lines, *hash), hash);
                }
                groups += 1;
            }
            for hash in &hashes[groups * 8..] {
                probe.set(line_at_mut(lines, *hash), hash);
            }
        }

        $(#[$features])?
        #[inline]
        fn prefetch_at<const SPLIT: bool>(lines: &[Line], hash: KeyHash) {
            let line = line_at(lines, hash);
            if SPLIT { prefetch(line) } else { prefetch_first(line) }
        }
    };
}

/// Calls a loop compiled for the rounds, the prefetch distance and the alignment at hand.
macro_rules! specialised {
    ($kernel:ident($lines:expr, $probes:expr, $($argument:expr),*)) => {{
        let is_split = $lines.as_ptr().align_offset(64) != 0;
        match ($probes <= 8, prefetch_distance($lines.len()), is_split) {
            (true, 0, _) => $kernel::<1, 0, false>($lines, $probes, $($argument),*),
            (true, _, false) => $kernel::<1, AHEAD, false>($lines, $probes, $($argument),*),
            (true, _, true) => $kernel::<1, AHEAD, true>($lines, $probes, $($argument),*),
            (false, 0, _) => $kernel::<2, 0, false>($lines, $probes, $($argument),*),
            (false, _, false) => $kernel::<2, AHEAD, false>($lines, $probes, $($argument),*),
            (false, _, true) => $kernel::<2, AHEAD, true>($lines, $probes, $($argument),*),
        }
    }};
}

pub(super) use {batch_loops, specialised};
