//! The functions that differ between instruction sets only in how they test and set the bits of one key, above all the
//! loops over many keys. The one source is expanded in every instruction set's file, so that each copy is compiled with
//! its own instructions.
//!
//! A macro, unlike Ribbon's loops, because generic functions over a trait, inlined into each set's entry function, made
//! building a fifth slower and probing a tenth. The loop must be a separate function, and a generic function cannot
//! have the target features of its type parameter.

use super::Line;
use crate::filter::cache::PROBE_PREFETCH_BYTES;
use crate::hash::{KeyHash, map_to_range};

/// Returns how many keys ahead of its use a line is prefetched: 0 or [`LINES_AHEAD`].
pub(super) fn prefetch_distance(lines: usize) -> usize {
    if lines <= PROBE_PREFETCH_BYTES / size_of::<Line>() { 0 } else { LINES_AHEAD }
}

/// Distances from 8 to 48 differ little up to the size of the last-level cache; beyond it 48 is best, because the
/// longest latency needs the most loads in flight.
pub(super) const LINES_AHEAD: usize = 48;

/// Returns the line of `hash`, chosen by its high bits. `lines` must not be empty: the functions that dispatch to the
/// loops check that once, because a bounds check here would cost one compare per key.
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

/// Counts the ones in all lines. Inlined into each set's function, so that it uses the set's population count.
#[inline(always)]
pub(super) fn count_ones(lines: &[Line]) -> u64 {
    let words = lines.as_flattened().as_chunks().0;
    words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum()
}

/// Defines a set's functions from its `Lanes<ROUNDS>` with `new`, `contains`, `test_eight` and `set`.
/// The arguments are whether the loops over keys have `all` copies or a `few`, and the attribute that all of the set's
/// functions carry.
macro_rules! functions_of_set {
    ($copies:ident $(#[$features:meta])?) => {
        use super::batch::{LINES_AHEAD, count_ones, prefetch_distance, with_constants};
        use crate::filter::cache::HASHES_AHEAD;
        use super::{MAX_PROBES, OpenShape, SetProbe};
        use crate::kernel::prefetch::{prefetch, prefetch_line};

        $(#[$features])?
        #[inline]
        pub(super) fn contains(line: &Line, hash: KeyHash, probes: u8) -> bool {
            if probes <= 8 { Lanes::<1>::new(probes).contains(line, hash) } else { Lanes::<2>::new(probes).contains(line, hash) }
        }

        /// A [`single_probe`](super::single_probe) for a constant number of probes: the rounds are unrolled, and the
        /// active lanes lie at a fixed address.
        $(#[$features])?
        fn may_contain<const PROBES: u8>(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
            contains(open.lines.line_of(data, hash), hash, PROBES)
        }

        $(#[$features])?
        pub(super) fn set_probe(probes: u8) -> SetProbe<OpenShape> {
            // Indexed by the number of probes minus one.
            static SINGLE_PROBES: [SetProbe<OpenShape>; 16] = [
                may_contain::<1>, may_contain::<2>, may_contain::<3>, may_contain::<4>,
                may_contain::<5>, may_contain::<6>, may_contain::<7>, may_contain::<8>,
                may_contain::<9>, may_contain::<10>, may_contain::<11>, may_contain::<12>,
                may_contain::<13>, may_contain::<14>, may_contain::<15>, may_contain::<16>,
            ];
            SINGLE_PROBES[usize::from(probes.clamp(1, MAX_PROBES) - 1)]
        }

        $(#[$features])?
        pub(super) fn mask(hash: KeyHash, probes: u8) -> Line {
            let mut line = [0; 64];
            if probes <= 8 {
                Lanes::<1>::new(probes).set(&mut line, &hash);
            } else {
                Lanes::<2>::new(probes).set(&mut line, &hash);
            }
            line
        }

        $(#[$features])?
        pub(super) fn ones(lines: &[Line]) -> u64 {
            count_ones(lines)
        }

        /// Sets bit `i % 64` of word `i / 64` of `matches` if hash `i` may be in its line.
        $(#[$features])?
        pub(super) fn contains_batch(lines: &[Line], probes: u8, hashes: &[KeyHash], matches: &mut [u64]) {
            with_constants!($copies, probe_all(lines, probes, hashes, matches));
        }

        /// Sets the bits of all keys.
        $(#[$features])?
        pub(super) fn insert_batch(lines: &mut [Line], probes: u8, hashes: &[KeyHash]) {
            // A payload that is being built is aligned, so that no line is split.
            match (probes <= 8, prefetch_distance(lines.len())) {
                (true, 0) => set_all::<1, 0>(lines, probes, hashes),
                (true, _) => set_all::<1, LINES_AHEAD>(lines, probes, hashes),
                (false, 0) => set_all::<2, 0>(lines, probes, hashes),
                (false, _) => set_all::<2, LINES_AHEAD>(lines, probes, hashes),
            }
        }

        $(#[$features])?
        fn probe_all<const ROUNDS: usize, const DISTANCE: usize, const SPLIT: bool>(
            lines: &[Line],
            probes: u8,
            hashes: &[KeyHash],
            matches: &mut [u64],
        ) {
            let lanes = Lanes::<ROUNDS>::new(probes);
            let upcoming = hashes.get(DISTANCE..).unwrap_or_default();
            if DISTANCE > 0 {
                hashes.iter().take(DISTANCE).for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
            }
            let (eights, last) = hashes.as_chunks::<8>();
            let mut ahead = upcoming.as_chunks::<8>().0.iter();
            // The loop over a word's eights has no fixed length: unrolled, it would be six times as long, and no
            // faster.
            for (word, eights) in eights.chunks(8).enumerate() {
                let mut bits = 0_u64;
                for (i, eight) in eights.iter().enumerate() {
                    if DISTANCE > 0 && let Some(ahead) = ahead.next() {
                        ahead.iter().for_each(|&hash| prefetch_at::<SPLIT>(lines, hash));
                    }
                    bits |= u64::from(lanes.test_eight(lines, eight)) << (8 * i);
                }
                matches[word] = bits;
            }
            if !last.is_empty() {
                let test = |&hash: &KeyHash| lanes.contains(line_at(lines, hash), hash);
                let bits = last.iter().rev().fold(0, |bits, hash| bits << 1 | u64::from(test(hash)));
                let (word, byte) = (eights.len() / 8, eights.len() % 8);
                matches[word] = if byte == 0 { bits } else { matches[word] | bits << (8 * byte) };
            }
        }

        $(#[$features])?
        fn set_all<const ROUNDS: usize, const DISTANCE: usize>(lines: &mut [Line], probes: u8, hashes: &[KeyHash]) {
            let lanes = Lanes::<ROUNDS>::new(probes);
            let upcoming = hashes.get(DISTANCE..).unwrap_or_default();
            if DISTANCE > 0 {
                hashes.iter().take(DISTANCE).for_each(|&hash| prefetch_at::<false>(lines, hash));
            }
            let mut groups = 0;
            for (eight, ahead) in hashes.as_chunks::<8>().0.iter().zip(upcoming.as_chunks::<8>().0) {
                if DISTANCE > 0 {
                    // The hashes as well, because hardware prefetches end with each page.
                    prefetch(eight.as_ptr().wrapping_add(HASHES_AHEAD));
                }
                for (hash, &next) in eight.iter().zip(ahead) {
                    if DISTANCE > 0 {
                        prefetch_at::<false>(lines, next);
                    }
                    lanes.set(line_at_mut(lines, *hash), hash);
                }
                groups += 1;
            }
            for hash in &hashes[groups * 8..] {
                lanes.set(line_at_mut(lines, *hash), hash);
            }
        }

        $(#[$features])?
        #[inline]
        fn prefetch_at<const SPLIT: bool>(lines: &[Line], hash: KeyHash) {
            let line = line_at(lines, hash);
            if SPLIT { prefetch_line(line) } else { prefetch(line) }
        }
    };
}

/// Calls a loop compiled for constant rounds, prefetch distance and alignment: a probe takes one to two nanoseconds,
/// and testing these inside the loop would add to that. An unaligned line straddles two cache lines, and both are
/// prefetched.
///
/// The `few` copies of portable code, which takes several times as long, always prefetch as for unaligned lines.
macro_rules! with_constants {
    (few, $kernel:ident($lines:expr, $probes:expr, $($argument:expr),*)) => {
        if $probes <= 8 {
            $kernel::<1, LINES_AHEAD, true>($lines, $probes, $($argument),*)
        } else {
            $kernel::<2, LINES_AHEAD, true>($lines, $probes, $($argument),*)
        }
    };
    (all, $kernel:ident($lines:expr, $probes:expr, $($argument:expr),*)) => {{
        let is_split = $lines.as_ptr().align_offset(64) != 0;
        match ($probes <= 8, prefetch_distance($lines.len()), is_split) {
            (true, 0, _) => $kernel::<1, 0, false>($lines, $probes, $($argument),*),
            (true, _, false) => $kernel::<1, LINES_AHEAD, false>($lines, $probes, $($argument),*),
            (true, _, true) => $kernel::<1, LINES_AHEAD, true>($lines, $probes, $($argument),*),
            (false, 0, _) => $kernel::<2, 0, false>($lines, $probes, $($argument),*),
            (false, _, _) => $kernel::<2, LINES_AHEAD, true>($lines, $probes, $($argument),*),
        }
    }};
}

pub(super) use {functions_of_set, with_constants};
