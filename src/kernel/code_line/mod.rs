//! A line of 64 bytes with sorted codes, which range filters and file maps are made of.
//!
//! It is in the core, as a part of `internal`, because `sstfilter-range` and `sstfilter-map` stand side by side: both
//! need this line, and neither needs the other. What a code is, which bytes surround the lines, and where the run ends
//! of overfull lines are stored is up to them.
//!
//! A line holds the codes of 256 consecutive quotients. Its bits encode the quotients of its codes; the codes' other
//! bits are packed outside the lines:
//!
//! ```text
//!   0  32  occupied: bit q is set when a code has quotient q
//!  32  28  run ends: bit i is set when code i of the line is the last one with its quotient
//!  60   4  rank (low 31 bits), the number of codes before the line; overfull (high bit)
//! ```
//!
//! The codes with one quotient are a *run*. Its first and last code follow from the run ends: the line alone answers
//! most queries, and the others read the low bits of one or two codes (a quotient filter's line, Bender et al. 2012,
//! over the upper-bits split of Elias and Fano).
//!
//! The run ends have bits for 224 codes. A line with more codes is *overfull*: its run ends are stored elsewhere as
//! numbers, one for each run. Its 28 bytes then begin with the number of its first run end there (32 bits) and the
//! number of its codes (32 bits). Codes that lie close together cause overfull lines. Rejected alternative: retry with
//! another salt until no line is overfull. With close keys, every salt would fail.
//!
//! Damaged bytes cause wrong answers, but never a panic.

#![allow(
    clippy::cast_possible_truncation,
    clippy::inline_always,
    reason = "casts drop bits on purpose; queries are compiled for several instruction sets, and functions that are not \
              inlined into them would be compiled for the baseline"
)]

mod simd;
mod write;

use core::hint::select_unpredictable;

pub use simd::{Portable, Query, Select, answer};
pub use write::{BitEnd, BitWriter, OpenLine};

/// Maximum number of codes for which a line has run-end bits: 28 bytes.
pub const LINE_CODES: u32 = 224;

/// log2 of the quotients of a line. With 256 quotients and 224 run ends, a line fills exactly 64 bytes.
pub const QUOTIENT_BITS: u32 = 8;

/// The high bit of the rank.
const OVERFULL: u64 = 1 << 63;

/// A line as bytes and as words. Variable indices go into the bytes; words are accessed only at fixed positions. To
/// index words in registers, the compiler first stores them to the stack, and LLVM 22.1 for s390x reads them there
/// before they are written.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    bytes: &'a [u8; 64],
    words: [u64; 8],
}

/// Positions of the first and the last code of a run within its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Position of the first code.
    pub first: u64,
    /// Position of the last code.
    pub last: u64,
}

impl<'a> Line<'a> {
    /// Decodes a line.
    #[inline(always)]
    #[must_use]
    pub fn new(bytes: &'a [u8; 64]) -> Self {
        let mut words = [0; 8];
        for (word, &bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(bytes);
        }
        Self { bytes, words }
    }

    /// Returns the number of codes before the line, or what else the writer has passed as the rank.
    #[inline(always)]
    #[must_use]
    pub const fn rank(&self) -> u64 {
        (self.words[7] & !OVERFULL) >> 32
    }

    /// Whether the line has too many codes for its run-end bits.
    #[inline(always)]
    #[must_use]
    pub const fn is_overfull(&self) -> bool {
        self.words[7] & OVERFULL != 0
    }

    /// Returns the number of the first run end of an overfull line.
    #[must_use]
    pub const fn overflow_start(&self) -> u32 {
        self.words[4] as u32
    }

    /// Whether a code has this quotient.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, quotient: u8) -> bool {
        self.bytes[usize::from(quotient >> 3)] >> (quotient & 7) & 1 == 1
    }

    /// Whether code `at`, below 224, is the last of its run; meaningless in an overfull line.
    #[inline(always)]
    fn ends_run(&self, at: u8) -> bool {
        self.bytes[usize::from(32 + (at >> 3))] >> (at & 7) & 1 == 1
    }

    /// Whether code `at` is the first of its run; meaningless in an overfull line.
    #[inline(always)]
    #[must_use]
    pub fn begins_run(&self, at: u32) -> bool {
        at == 0 || self.ends_run(at.wrapping_sub(1) as u8)
    }

    /// Returns the run ends; meaningless in an overfull line.
    #[inline(always)]
    const fn run_ends(&self) -> [u64; 4] {
        let [.., a, b, c, d] = self.words;
        [a, b, c, d & u32::MAX as u64]
    }

    /// Returns the number of occupied quotients below `quotient`.
    #[inline(always)]
    #[must_use]
    pub fn runs_below(&self, quotient: u8) -> u32 {
        let [a, b, c, d, ..] = self.words;
        let bits = u32::from(quotient);
        (a & low_mask(bits)).count_ones()
            + (b & low_mask(bits.saturating_sub(64))).count_ones()
            + (c & low_mask(bits.saturating_sub(128))).count_ones()
            + (d & low_mask(bits.saturating_sub(192))).count_ones()
    }

    /// Returns the number of occupied quotients.
    #[inline(always)]
    #[must_use]
    pub const fn runs(&self) -> u32 {
        let [a, b, c, d, ..] = self.words;
        a.count_ones() + b.count_ones() + c.count_ones() + d.count_ones()
    }

    /// Returns the lowest occupied quotient at or above `quotient`.
    #[must_use]
    pub fn next(&self, quotient: u32) -> Option<u8> {
        let [a, b, c, d, ..] = self.words;
        let words = [(0, a), (64, b), (128, c), (192, d)];
        let from = words.map(|(start, word)| (start, word & !low_mask(quotient.saturating_sub(start))));
        from.into_iter().find(|&(_, bits)| bits != 0).map(|(start, bits)| (start + bits.trailing_zeros()) as u8)
    }

    /// Returns the position of the last code with an occupied quotient; meaningless in an overfull line.
    #[inline(always)]
    #[must_use]
    pub fn last_of_run<S: Select>(&self, quotient: u8) -> u32 {
        simd::select::<S>(&self.run_ends(), self.runs_below(quotient))
    }

    /// Returns the run of an occupied quotient. `overflow` returns a run end of overfull lines by its number; only
    /// forged lines have other numbers, and then no run.
    #[inline(always)]
    pub fn run<S: Select>(&self, quotient: u8, overflow: impl Fn(u64) -> Option<u32>) -> Option<Run> {
        let before = self.runs_below(quotient);
        if self.is_overfull() {
            return overflow_run(self.overflow_start(), before, overflow);
        }
        let ends = self.run_ends();
        let last = simd::select::<S>(&ends, before);
        // The run before ends where this one begins.
        let first = if before == 0 { 0 } else { simd::select::<S>(&ends, before - 1) + 1 };
        Some(Run { first: first.into(), last: last.into() })
    }

    /// Calls `visit` for each code, with its quotient and its position in the line, until it returns false or an error.
    /// Returns false, too, if a forged line has other run ends than runs. `overflow` is that of [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// That of `visit`.
    #[inline(always)]
    pub fn for_each_code<E>(
        &self,
        overflow: impl Fn(u64) -> Option<u32>,
        mut visit: impl FnMut(u8, u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.is_overfull() {
            return self.for_each_overflow_code(overflow, visit);
        }
        let [a, b, c, d] = self.run_ends();
        let last = [(192, d), (128, c), (64, b), (0, a)].into_iter().find(|&(_, ends)| ends != 0);
        let codes = last.map_or(0, |(start, ends)| start + 64 - ends.leading_zeros());
        let [mut quotients, later @ .., _, _, _, _] = self.words;
        let (mut later, mut start) = (later.into_iter(), 0);
        for at in 0..codes {
            while quotients == 0 {
                let Some(next) = later.next() else { return Ok(false) };
                (quotients, start) = (next, start + 64);
            }
            if !visit((start + quotients.trailing_zeros()) as u8, at.into())? {
                return Ok(false);
            }
            // Clears the lowest bit after the run's last code. A branch would be mispredicted for every third code.
            quotients &= quotients.wrapping_sub(self.ends_run(at as u8).into());
        }
        Ok(quotients == 0 && later.all(|word| word == 0))
    }

    #[cold]
    fn for_each_overflow_code<E>(
        &self,
        overflow: impl Fn(u64) -> Option<u32>,
        mut visit: impl FnMut(u8, u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let (mut next, mut first) = (self.next(0), 0);
        for number in u64::from(self.overflow_start()).. {
            let Some(quotient) = next else { break };
            let Some(last) = overflow(number).map(u64::from).filter(|&last| last >= first) else { return Ok(false) };
            for at in first..=last {
                if !visit(quotient, at)? {
                    return Ok(false);
                }
            }
            (next, first) = (self.next(u32::from(quotient) + 1), last + 1);
        }
        Ok(true)
    }
}

// With the fullest plan of a range filter, about one line in a hundred is overfull. No method: if the line were passed
// by reference, its words would be stored to the stack for each query.
#[cold]
fn overflow_run(start: u32, before: u32, overflow: impl Fn(u64) -> Option<u32>) -> Option<Run> {
    let number = u64::from(start) + u64::from(before);
    let first = if before == 0 { 0 } else { u64::from(overflow(number - 1)?) + 1 };
    Some(Run { first, last: overflow(number)?.into() })
}

/// Returns a mask of the lowest `bits` bits, all 64 for more.
#[inline(always)]
fn low_mask(bits: u32) -> u64 {
    select_unpredictable(bits < 64, (1_u64 << (bits & 63)).wrapping_sub(1), u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::hash::mix64;

    /// Checks all that a line of these ascending quotients says.
    fn check(open: &mut OpenLine, quotients: &[u8], rank: u32) {
        quotients.iter().for_each(|&quotient| open.push(quotient));
        assert_eq!(open.codes() as usize, quotients.len());
        let mut overflow = vec![77];
        let bytes = open.end(rank, |ends| {
            overflow.extend_from_slice(ends);
            1
        });
        let (line, is_overfull) = (Line::new(&bytes), quotients.len() > LINE_CODES as usize);
        assert_eq!((line.rank(), line.is_overfull()), (rank.into(), is_overfull));
        let end = |number: u64| overflow.get(usize::try_from(number).unwrap()).copied();
        for quotient in 0..=u8::MAX {
            let below = quotients.partition_point(|&other| other < quotient) as u64;
            let up_to = quotients.partition_point(|&other| other <= quotient) as u64;
            assert_eq!(line.has(quotient), below < up_to);
            assert_eq!(line.next(quotient.into()), quotients.get(below as usize).copied());
            let runs = quotients[..below as usize].chunk_by(|one, other| one == other).count();
            assert_eq!(line.runs_below(quotient) as usize, runs);
            if below < up_to {
                let run = line.run::<Portable>(quotient, end);
                assert_eq!(run, Some(Run { first: below, last: up_to - 1 }));
                if !is_overfull {
                    assert_eq!(u64::from(line.last_of_run::<Portable>(quotient)), up_to - 1);
                    (below..up_to).for_each(|at| assert_eq!(line.begins_run(at as u32), at == below));
                }
            }
        }
        assert_eq!(line.runs() as usize, quotients.chunk_by(|one, other| one == other).count());
        let mut found = Vec::new();
        let is_whole = line.for_each_code(end, |quotient, at| {
            assert_eq!(at, found.len() as u64);
            found.push(quotient);
            Ok::<_, ()>(true)
        });
        assert_eq!((is_whole, &found[..]), (Ok(true), quotients));
        let mut visits = 0;
        let stopped = line.for_each_code(end, |_, _| {
            visits += 1;
            Ok::<_, ()>(visits < 3)
        });
        assert_eq!((stopped, visits), (Ok(quotients.len() < 3), quotients.len().min(3)));
        // Without its run ends, an overfull line has no run.
        if is_overfull {
            assert_eq!(line.run::<Portable>(quotients[0], |_| None), None);
            assert_eq!(line.for_each_code(|_| None, |_, _| Ok::<_, ()>(true)), Ok(false));
        }
    }

    #[test]
    fn a_line_says_of_each_quotient_where_its_codes_are() {
        let mut open = OpenLine::default();
        for case in 0..300_u64 {
            let codes = [0, 1, 5, 63, 64, 65, 176, 223, 224, 225, 300, 5_000][case as usize % 12];
            let spread = [1, 3, 40, 256][case as usize / 12 % 4];
            let quotient = |code: u64| (mix64(case << 32 | code) % spread + case % (257 - spread)) as u8;
            let mut quotients: Vec<u8> = (0..codes).map(quotient).collect();
            quotients.sort_unstable();
            check(&mut open, &quotients, (mix64(case) >> 33) as u32);
        }
        check(&mut open, &(0..=u8::MAX).collect::<Vec<_>>(), 0);
        check(&mut open, &(0..224).collect::<Vec<_>>(), u32::MAX >> 1);
    }

    #[test]
    fn a_marked_line_has_all_quotients_and_no_codes() {
        let bytes = OpenLine::marked(u32::MAX - 1, 9);
        let line = Line::new(&bytes);
        assert_eq!((line.runs(), line.rank(), line.overflow_start()), (256, 9, u32::MAX - 1));
        assert!(line.is_overfull() && line.has(0) && line.has(u8::MAX));
    }

    #[test]
    fn forged_lines_cause_no_panic_and_end() {
        for case in 0..5_000_u64 {
            let mut bytes = [0; 64];
            for (at, word) in (0_u64..).zip(bytes.as_chunks_mut().0) {
                *word = (mix64(case << 8 | at) & mix64((case % 3) << 40 | at)).to_le_bytes();
            }
            let line = Line::new(&bytes);
            let end = |number: u64| (!number.is_multiple_of(7)).then_some((mix64(number) % 900) as u32);
            (0..=u8::MAX).for_each(|quotient| _ = line.run::<Portable>(quotient, end));
            let mut visits = 0;
            let _ = line.for_each_code(end, |_, _| {
                visits += 1;
                Ok::<_, ()>(true)
            });
            assert!(visits <= 900);
        }
    }
}
