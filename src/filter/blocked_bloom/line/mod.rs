//! The pair-lane line: where the bits of one key lie in its 64-byte line.
//!
//! A line is 16 little-endian 32-bit words. Lane `j` owns the *pair* of words `j` and `j XOR 8`. A key uses `probes` of
//! the 16 lanes (of the first 8, up to eight probes), chosen by its low bits, and sets one of the 64 bits of each
//! lane's pair. So no two probes of the first eight share a bit, and a vector of eight 32-bit lanes computes them all
//! with one multiply and one variable shift.
//!
//! Each instruction set has one file, all with the same functions. `batch` has the loops over keys, and [`covered`]
//! tests one key in many filters.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::inline_always,
    clippy::needless_range_loop,
    clippy::trivially_copy_pass_by_ref,
    reason = "bits are cut off on purpose; operators bind as in the field's formulas; loops count what they unroll; \
              functions without the instructions must be inlined into those with them; a key's address can be useful"
)]
#![cfg_attr(
    not(any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")
    )),
    allow(dead_code, unused_macros, reason = "nothing uses the vector versions here")
)]

mod batch;
mod portable;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
mod neon;

#[cfg(test)]
mod tests;

pub(crate) use crate::codec::LINE_BYTES;
use crate::filter::{OpenShape, SingleProbe};
use crate::hash::{KeyHash, map_to_range};
use crate::kernel::prefetch::prefetch_line;
use crate::kernel::{SetProbe, dispatch, for_this_cpu};
use crate::simd;

/// One line, as it lies in a payload.
pub(crate) type Line = [u8; LINE_BYTES];

/// A line with all bits set: the answer to a probe in a payload that is too short.
static FULL: Line = [u8::MAX; LINE_BYTES];

/// The maximum number of probes in a line: one in each lane.
pub(crate) const MAX_PROBES: u8 = 16;

/// The maximum number of probes in one round of eight lanes.
const ROUND_PROBES: u8 = 8;

/// The multipliers of lanes 0 to 7 and 8 to 15: lane `j` has 0x9e3779b9 (the golden ratio in 32 bits) to the power
/// `j + 1`.
static MULTIPLIERS: Multipliers = {
    let mut rounds = [[0; 8]; 2];
    let (mut lane, mut power) = (0, 1_u32);
    while lane < 16 {
        power = power.wrapping_mul(0x9e37_79b9);
        rounds[lane / 8][lane % 8] = power;
        lane += 1;
    }
    Multipliers(rounds)
};

#[repr(align(64))]
struct Multipliers([[u32; 8]; 2]);

/// The active lanes of a round of eight for 0 to 8 probes, before the key's rotation. Chosen by search so that, over
/// the eight rotations, all pairs of lanes occur together about equally often.
const BASE_SETS: [u8; 9] = [0x00, 0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff];

/// One round's active lanes: 1 if active, 0 if not. A kernel shifts this bit into place, so an inactive lane sets and
/// tests nothing without a branch.
type ActiveRow = [u32; 8];

/// The active lanes of one base set under its eight rotations, aligned so that no row straddles two cache lines.
#[repr(align(64))]
struct ActiveRows([ActiveRow; 8]);

/// Indexed by the number of probes in a round.
static ACTIVE_ROWS: [ActiveRows; 9] = {
    let mut sets = [const { ActiveRows([[0; 8]; 8]) }; 9];
    let mut at = 0;
    while at < 9 * 8 * 8 {
        let (probes, rotation, lane) = (at / 64, at / 8 % 8, at % 8);
        sets[probes].0[rotation][lane] = (BASE_SETS[probes].rotate_left(rotation as u32) >> lane & 1) as u32;
        at += 1;
    }
    sets
};

/// Returns the probes in the first and in the second round of lanes.
const fn probes_per_round(probes: u8) -> [u8; 2] {
    if probes <= ROUND_PROBES {
        [probes, 0]
    } else if probes <= MAX_PROBES {
        [probes.div_ceil(2), probes / 2]
    } else {
        [ROUND_PROBES; 2]
    }
}

/// Returns the active lanes of both rounds. The key chooses a row by its low three bits, and by the next three.
#[inline]
fn active_rows(probes: u8) -> [&'static ActiveRows; 2] {
    probes_per_round(probes).map(|probes| &ACTIVE_ROWS[usize::from(probes)])
}

/// The active lanes of both rounds, one bit each, indexed by the key's low six bits.
#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), test))]
type ActiveSets = [u16; 64];

/// Indexed by the number of probes.
#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), test))]
static ACTIVE_SETS: [ActiveSets; MAX_PROBES as usize + 1] = {
    let mut sets = [[0; 64]; MAX_PROBES as usize + 1];
    let mut at = 0;
    while at < sets.len() * 64 {
        let (probes, x) = (at / 64, at as u32 % 64);
        let [first, second] = probes_per_round(probes as u8);
        let first = BASE_SETS[first as usize].rotate_left(x & 7);
        let second = BASE_SETS[second as usize].rotate_left(x >> 3);
        sets[probes][x as usize] = first as u16 | (second as u16) << 8;
        at += 1;
    }
    sets
};

#[cfg(any(all(target_arch = "x86_64", target_feature = "sse2"), test))]
#[inline]
fn active_sets(probes: u8) -> &'static ActiveSets {
    &ACTIVE_SETS[usize::from(probes.min(MAX_PROBES))]
}

/// Returns the bits of a hash that choose positions inside its line: the low 32. The high bits choose the line.
#[inline]
fn in_line_bits(hash: KeyHash) -> u32 {
    hash.get() as u32
}

/// Returns whether all of the key's bits are set in its line. Uses the set that the crate is compiled for, if any,
/// because it can be inlined.
#[inline]
pub(crate) fn contains(line: &Line, hash: KeyHash, probes: u8) -> bool {
    dispatch!(simd::COMPILED.unwrap_or_else(simd::selected), contains(line, hash, probes))
}

/// The lines of a filter, in the form that a single probe needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    count: u64,
    /// The offset where they end, and others that may follow them.
    end: usize,
}

impl Lines {
    /// Describes `count` lines. If there are none, or more than fit memory, `end` is a length that no slice has.
    pub(crate) fn new(count: u64) -> Self {
        let end =
            usize::try_from(count).ok().filter(|&count| count > 0).and_then(|count| count.checked_mul(LINE_BYTES));
        Self { count, end: end.unwrap_or(usize::MAX) }
    }

    /// Describes `count` lines among others that end at the offset `end`.
    pub(crate) fn among(count: u64, end: u64) -> Self {
        Self { count, end: usize::try_from(end).unwrap_or(usize::MAX) }
    }

    pub(crate) fn count(self) -> u64 {
        self.count
    }

    /// Returns the offset where all lines end.
    pub(crate) fn end(self) -> usize {
        self.end
    }

    pub(crate) fn bytes(self) -> u64 {
        self.count * LINE_BYTES as u64
    }

    /// Returns the key's line in `data`, which begins with the lines. If `data` is too short, returns a line that
    /// contains every key.
    #[inline(always)]
    pub(crate) fn line_of(self, data: &[u8], hash: KeyHash) -> &Line {
        if data.len() < self.end {
            return &FULL;
        }
        let index = map_to_range(hash.get(), self.count) as usize;
        // SAFETY: `end` is no more than `data` has, so `count` lines, at least one, end there or before. The index is
        // below `count`: see `map_to_range`.
        unsafe { &*data.as_ptr().cast::<Line>().add(index) }
    }
}

/// Returns the probe of single keys in a filter with `probes` probes.
pub(crate) fn single_probe(probes: u8) -> SingleProbe {
    let probe = dispatch!(set_probe(probes));
    // SAFETY: the selected set is one that the CPU supports.
    unsafe { for_this_cpu(probe) }
}

/// Sets the key's bits in its line.
#[cfg(test)]
pub(crate) fn insert(line: &mut Line, hash: KeyHash, probes: u8) {
    insert_batch(core::slice::from_mut(line), probes, &[hash]);
}

/// Sets the bits of all keys, each in its line of `lines`. `lines` must not be empty unless `hashes` is.
pub(crate) fn insert_batch(lines: &mut [Line], probes: u8, hashes: &[KeyHash]) {
    // The loops index lines without a bounds check, and are sound only if there is a line.
    assert!(!lines.is_empty() || hashes.is_empty(), "keys need a line");
    dispatch!(insert_batch(lines, probes, hashes));
}

/// Sets bit `i % 64` of word `i / 64` of `matches` if all bits of hash `i` are set in its line of `lines`, and clears
/// the bits after the last. `lines` must not be empty unless `hashes` is.
pub(crate) fn contains_batch(lines: &[Line], probes: u8, hashes: &[KeyHash], matches: &mut [u64]) {
    // As in `insert_batch`.
    assert!(!lines.is_empty() || hashes.is_empty(), "keys need a line");
    dispatch!(contains_batch(lines, probes, hashes, matches));
}

/// Returns a line with only the key's bits: computed once, then tested against many filters.
pub(crate) fn mask(hash: KeyHash, probes: u8) -> Line {
    dispatch!(mask(hash, probes))
}

/// Counts the ones in all lines.
pub(crate) fn ones(lines: &[Line]) -> u64 {
    dispatch!(ones(lines))
}

/// The part of one filter in a test of one key in many filters.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// The key's line.
    pub(crate) line: &'a Line,
    /// The line of a later key, prefetched while this one is tested.
    pub(crate) ahead: Option<&'a Line>,
}

/// Tests which of up to 64 candidates have lines that cover `mask`. The last candidate comes first, and the first one's
/// answer is bit 0, so that each answer is shifted in.
///
/// The candidates come as an iterator, so that the loop is compiled into the kernel without allocating or depending on
/// how filters are stored. It does not branch on the contents of a line.
#[inline]
pub(crate) fn covered<'a>(mask: &Line, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    dispatch!(covered(mask, candidates))
}

/// The loop of [`covered`] with an instruction set's test of one line.
#[inline(always)]
fn covered_by<'a>(candidates: impl Iterator<Item = Candidate<'a>>, covers: impl Fn(&Line) -> bool) -> u64 {
    // `fold`, because a `for` loop would test each candidate for the end of the iterator.
    candidates.fold(0, |answers, Candidate { line, ahead }| {
        if let Some(ahead) = ahead {
            prefetch_line(ahead);
        }
        answers << 1 | u64::from(covers(line))
    })
}
