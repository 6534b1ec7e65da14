//! Sorted codes in lines of 64 bytes, and whether any of them is in an interval.
//!
//! A line holds the codes of one interval of 256 quotients. A code's quotient is told by its line's bits, and its low
//! bits are stored outside, packed:
//!
//! ```text
//! line, 64 bytes
//!   0  32  occupied: bit q is set when a code has quotient q
//!  32  28  run ends: bit i is set when code i of the line is the last one with its quotient
//!  60   4  rank: codes in all lines before (low 31 bits); overfull (high bit)
//! ```
//!
//! The codes with one quotient are a *run*. Its first and last code follow from the run ends: the line answers most
//! queries alone, and the others with one or two low bits (a quotient filter's line, Bender et al. 2012, over the
//! upper-bits split of Elias and Fano).
//!
//! The run ends have bits for 224 codes. A line with more is *overfull*: the 28 bytes then hold the offset of its run
//! ends in the overflow area, a u32 for each run, and the number of its codes. Keys that lie close together make such
//! lines. Rejected: another salt until no line is overfull, which close keys would make fail for every salt.

mod select;
mod write;

pub(super) use select::{Portable, Select};
pub(super) use write::{LineWriter, WrittenLines};

use crate::codec::read_u32;

/// Codes that the run ends of a line have bits for.
pub(super) const LINE_CODES: u32 = 224;

/// The high bit of the rank.
const OVERFULL: u64 = 1 << 63;

/// Runs up to this length are searched code by code.
const SHORT_RUN: u64 = 8;

/// A code: its line, and its number in that line, the quotient before the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code {
    pub(super) line: u64,
    pub(super) cell: u64,
}

/// The codes of a filter, in the bytes of its payload. Damaged bytes give wrong answers; they never panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    lines: &'a [[u8; 64]],
    lows: &'a [u8],
    /// The run ends of overfull lines.
    overflow: &'a [u8],
    low_bits: u32,
    /// Codes in all.
    codes: u64,
}

/// Positions of the first and the last code of a run, in its line.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
}

/// A line's words.
#[derive(Clone, Copy, Debug)]
struct Line {
    words: [u64; 8],
}

impl Line {
    #[inline(always)]
    fn new(bytes: &[u8; 64]) -> Self {
        let words = bytes.as_chunks().0;
        Self { words: core::array::from_fn(|word| words.get(word).map_or(0, |&bytes| u64::from_le_bytes(bytes))) }
    }

    #[inline(always)]
    fn occupied(&self) -> &[u64; 4] {
        self.words.first_chunk().unwrap_or(&[0; 4])
    }

    /// The run ends; meaningless in an overfull line.
    #[inline(always)]
    fn run_ends(&self) -> [u64; 4] {
        let [.., a, b, c, d] = self.words;
        [a, b, c, d & u64::from(u32::MAX)]
    }

    #[inline(always)]
    fn rank(&self) -> u64 {
        (self.words[7] & !OVERFULL) >> 32
    }

    #[inline(always)]
    fn is_overfull(&self) -> bool {
        self.words[7] & OVERFULL != 0
    }

    #[inline(always)]
    fn has(&self, quotient: u8) -> bool {
        self.words[usize::from(quotient >> 6)] >> (quotient & 63) & 1 == 1
    }

    /// The bits of the words that stand for quotients below `quotient`.
    #[inline(always)]
    fn below(&self, quotient: u8) -> [u64; 4] {
        let (whole, bits) = (usize::from(quotient >> 6), (1_u64 << (quotient & 63)) - 1);
        let occupied = self.occupied();
        core::array::from_fn(|word| {
            let mask = if word < whole {
                u64::MAX
            } else if word == whole {
                bits
            } else {
                0
            };
            occupied[word] & mask
        })
    }

    /// The lowest occupied quotient from `quotient` on.
    fn next(&self, quotient: u32) -> Option<u8> {
        let (whole, skipped) = ((quotient / 64) as usize, quotient % 64);
        let words = (0..).zip(self.occupied()).skip(whole);
        let masked =
            words.map(|(word, &bits)| (word, if word == whole as u32 { bits >> skipped << skipped } else { bits }));
        masked.into_iter().find(|&(_, bits)| bits != 0).map(|(word, bits)| (word * 64 + bits.trailing_zeros()) as u8)
    }
}

#[inline(always)]
fn count(words: &[u64; 4]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

impl<'a> Lines<'a> {
    #[inline(always)]
    pub(super) fn new(lines: &'a [u8], lows: &'a [u8], overflow: &'a [u8], low_bits: u32, codes: u32) -> Self {
        Self { lines: lines.as_chunks().0, lows, overflow, low_bits, codes: codes.into() }
    }

    /// The line that a code belongs to, for prefetching.
    pub(super) fn line_bytes(&self, line: u64) -> Option<&'a [u8; 64]> {
        self.lines.get(usize::try_from(line).ok()?)
    }

    /// Where the low bits of the line's first code are, for prefetching.
    pub(super) fn lows_of(&self, line: u64) -> Option<&'a u8> {
        let bit = self.line(line)?.rank() * u64::from(self.low_bits);
        self.lows.get(usize::try_from(bit / 8).ok()?)
    }

    #[inline(always)]
    fn line(&self, line: u64) -> Option<Line> {
        self.line_bytes(line).map(Line::new)
    }

    /// The low bits of code `index` of the filter.
    #[inline(always)]
    fn low(&self, index: u64) -> u64 {
        let bit = index.wrapping_mul(self.low_bits.into());
        let word = usize::try_from(bit / 8).ok().and_then(|byte| self.lows.get(byte..)?.first_chunk());
        let mask = (1 << self.low_bits) - 1;
        word.map_or(0, |&word| u64::from_le_bytes(word) >> (bit % 8) & mask)
    }

    #[inline(always)]
    fn split(&self, cell: u64) -> (u8, u64) {
        ((cell >> self.low_bits) as u8, cell & ((1 << self.low_bits) - 1))
    }

    /// The run of an occupied quotient.
    #[inline(always)]
    fn run<S: Select>(&self, line: &Line, quotient: u8) -> Run {
        let runs_before = count(&line.below(quotient));
        if line.is_overfull() {
            return self.overflow_run(line, runs_before);
        }
        let ends = line.run_ends();
        let last = S::select(&ends, runs_before);
        let first = if runs_before == 0 { 0 } else { S::select(&ends, runs_before - 1) + 1 };
        Run { first: first.into(), last: last.into() }
    }

    #[cold]
    fn overflow_run(&self, line: &Line, runs_before: u32) -> Run {
        let start = line.words[4] & u64::from(u32::MAX);
        let end = |run: u64| {
            let offset = usize::try_from((start + run) * 4).unwrap_or(usize::MAX);
            u64::from(read_u32(self.overflow, offset).unwrap_or(0))
        };
        let first = if runs_before == 0 { 0 } else { end(u64::from(runs_before) - 1) + 1 };
        Run { first, last: end(runs_before.into()) }
    }

    /// Whether a code is in `from..=to`, where `from <= to`. Codes beyond the last line are in no filter.
    #[inline(always)]
    pub(super) fn any_in<S: Select>(&self, from: Code, to: Code) -> bool {
        let Some(first) = self.line(from.line) else { return false };
        if from.line == to.line {
            return self.any_in_line::<S>(&first, from.cell, to.cell);
        }
        self.any_in_lines::<S>(&first, from, to)
    }

    #[inline(always)]
    fn any_in_line<S: Select>(&self, line: &Line, from: u64, to: u64) -> bool {
        let ((from_quotient, from_low), (to_quotient, to_low)) = (self.split(from), self.split(to));
        if from_quotient == to_quotient {
            return line.has(from_quotient) && self.any_in_run::<S>(line, from_quotient, from_low, to_low);
        }
        let (before_from, before_to) = (line.below(from_quotient), line.below(to_quotient));
        let is_from_occupied = line.has(from_quotient);
        if count(&before_to) > count(&before_from) + u32::from(is_from_occupied) {
            return true;
        }
        (is_from_occupied && self.last_low::<S>(line, from_quotient) >= from_low)
            || (line.has(to_quotient) && self.first_low::<S>(line, to_quotient) <= to_low)
    }

    #[inline(never)]
    fn any_in_lines<S: Select>(&self, first: &Line, from: Code, to: Code) -> bool {
        let (quotient, low) = self.split(from.cell);
        let above = count(first.occupied()) - count(&first.below(quotient));
        let is_occupied = first.has(quotient);
        if above > u32::from(is_occupied) || (is_occupied && self.last_low::<S>(first, quotient) >= low) {
            return true;
        }
        let Some(last) = self.line(to.line) else {
            // The end is beyond the last line: a code in any line after the first is in the interval.
            return self.line(from.line + 1).is_some_and(|next| next.rank() < self.codes);
        };
        let codes_to_second = self.line(from.line + 1).map_or(self.codes, |second| second.rank());
        if last.rank() > codes_to_second {
            return true;
        }
        let (quotient, low) = self.split(to.cell);
        count(&last.below(quotient)) > 0 || (last.has(quotient) && self.first_low::<S>(&last, quotient) <= low)
    }

    #[inline(always)]
    fn first_low<S: Select>(&self, line: &Line, quotient: u8) -> u64 {
        self.low(line.rank() + self.run::<S>(line, quotient).first)
    }

    #[inline(always)]
    fn last_low<S: Select>(&self, line: &Line, quotient: u8) -> u64 {
        self.low(line.rank() + self.run::<S>(line, quotient).last)
    }

    /// Whether a code of the run has low bits in `from..=to`.
    #[inline(always)]
    fn any_in_run<S: Select>(&self, line: &Line, quotient: u8, from: u64, to: u64) -> bool {
        let run = self.run::<S>(line, quotient);
        self.first_low_from(line, run, from).is_some_and(|low| low <= to)
    }

    /// The lowest low bits of the run that are `from` or more.
    #[inline(always)]
    fn first_low_from(&self, line: &Line, run: Run, from: u64) -> Option<u64> {
        let rank = line.rank();
        let (mut first, mut end) = (rank + run.first, rank + run.last + 1);
        while end.saturating_sub(first) > SHORT_RUN {
            let middle = first.midpoint(end);
            if self.low(middle - 1) < from {
                first = middle;
            } else {
                end = middle;
            }
        }
        (first..end).map(|index| self.low(index)).find(|&low| low >= from)
    }

    /// The lowest code from `from` on, in lines that all have codes. `None` when there is none.
    pub(super) fn first_from<S: Select>(&self, from: Code) -> Option<Code> {
        let line = self.line(from.line)?;
        let (quotient, low) = self.split(from.cell);
        if line.has(quotient)
            && let Some(low) = self.first_low_from(&line, self.run::<S>(&line, quotient), low)
        {
            return Some(self.code(from.line, quotient, low));
        }
        let (number, line, quotient) = match line.next(u32::from(quotient) + 1) {
            Some(quotient) => (from.line, line, quotient),
            None => {
                let next = self.line(from.line + 1)?;
                (from.line + 1, next, next.next(0)?)
            }
        };
        Some(self.code(number, quotient, self.first_low::<S>(&line, quotient)))
    }

    fn code(&self, line: u64, quotient: u8, low: u64) -> Code {
        Code { line, cell: u64::from(quotient) << self.low_bits | low }
    }
}
