//! Stores sorted codes in lines of 64 bytes, and answers whether any code is in an interval.
//!
//! The line itself is that of the core (`sstfilter::internal::code_line`). Here it has low bits, packed outside the
//! lines, in one of two ways:
//!
//! - hashed: all codes have the same number of low bits. The low bits of a line begin at its rank. The run ends of
//!   overfull lines are in an overflow area, one u32 per run.
//! - ordered: each line has its own number of low bits. Instead of the rank, it stores the byte at which its low bits
//!   begin. No line is overfull, because a segment has at most 224 keys.

mod write;

use core::ops::Deref;

use sstfilter::internal::code_line::{self, Run, Select};

pub(super) use write::LineWriter;

/// Runs up to this length are searched linearly.
const SHORT_RUN: u64 = 8;

/// A code: its line, its quotient there, and its low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) line: u64,
    pub(super) quotient: u8,
    pub(super) low: u64,
    /// Number of low bits of the codes in its line. 0 for the start and the end of a line, which need none.
    pub(super) low_bits: u32,
}

impl Code {
    /// Returns the code of a number below 2^(8 + `low_bits`) in a line.
    #[inline(always)]
    pub(super) fn new(line: u64, cell: u64, low_bits: u32) -> Self {
        Self { line, quotient: (cell >> low_bits) as u8, low: cell & ((1 << low_bits) - 1), low_bits }
    }

    /// Returns a code not above any code of a line, for any number of low bits.
    pub(super) const fn start_of(line: u64) -> Self {
        Self { line, quotient: 0, low: 0, low_bits: 0 }
    }

    /// Returns a code not below any code of a line.
    pub(super) const fn end_of(line: u64) -> Self {
        Self { line, quotient: u8::MAX, low: u64::MAX, low_bits: 0 }
    }

    /// Returns the sort key of codes.
    #[inline(always)]
    pub(super) const fn position(self) -> (u64, u8, u64) {
        (self.line, self.quotient, self.low)
    }
}

/// How the low bits of codes are stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lows {
    /// All codes have the same number of low bits, contiguously. The low bits of a line begin at its rank.
    Uniform { codes: u64 },
    /// Each line has its own number of low bits, and stores the byte at which they begin. No line is empty.
    PerLine,
}

/// The codes of a filter, in the bytes of its payload. Damaged bytes cause wrong answers, but never a panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    pub(super) all: &'a [[u8; 64]],
    pub(super) low_bytes: &'a [u8],
    /// The run ends of overfull lines.
    pub(super) overflow: &'a [u8],
    pub(super) lows: Lows,
}

/// A line, and the number of low bits of its codes.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    line: code_line::Line<'a>,
    low_bits: u32,
}

impl<'a> Deref for Line<'a> {
    type Target = code_line::Line<'a>;

    #[inline(always)]
    fn deref(&self) -> &code_line::Line<'a> {
        &self.line
    }
}

impl<'a> Lines<'a> {
    /// Returns the bytes of a line, for prefetching.
    pub(super) fn line_bytes(&self, line: u64) -> Option<&'a [u8; 64]> {
        self.all.get(usize::try_from(line).ok()?)
    }

    /// Returns a line whose codes have `low_bits` low bits; pass 0 if none will be read.
    #[inline(always)]
    fn line(&self, line: u64, low_bits: u32) -> Option<Line<'a>> {
        Some(Line { line: code_line::Line::new(self.line_bytes(line)?), low_bits })
    }

    /// Returns the low bits of code `index` of the line.
    #[inline(always)]
    fn low(&self, line: &Line<'_>, index: u64) -> u64 {
        // The field that is a rank in uniform lines is a byte offset in lines with their own low bits.
        let unit = if matches!(self.lows, Lows::PerLine) { 8 } else { line.low_bits };
        // Damaged bytes can yield any index: nothing below may overflow or go out of bounds.
        let first_bit = line.rank() * u64::from(unit);
        let bit = first_bit.wrapping_add(index.wrapping_mul(line.low_bits.into()));
        let word = usize::try_from(bit / 8).ok().and_then(|byte| self.low_bytes.get(byte..)?.first_chunk());
        let mask = (1 << line.low_bits) - 1;
        word.map_or(0, |&word| u64::from_le_bytes(word) >> (bit % 8) & mask)
    }

    /// Returns the run of an occupied quotient.
    #[inline(always)]
    fn run<S: Select>(&self, line: &Line<'_>, quotient: u8) -> Run {
        let overflow = |number: u64| {
            let offset = usize::try_from(number * 4).ok()?;
            self.overflow.get(offset..)?.first_chunk().map(|&end| u32::from_le_bytes(end))
        };
        line.run::<S>(quotient, overflow).unwrap_or_default()
    }

    /// Whether a code is in `from..=to`; `from` must not be above `to`. No filter has codes beyond the last line.
    #[inline(always)]
    pub(super) fn any_in<S: Select>(&self, from: Code, to: Code) -> bool {
        // A code for the start or the end of a line has 0 low bits, so take those of the other code.
        let low_bits = if from.line == to.line { from.low_bits.max(to.low_bits) } else { from.low_bits };
        match self.line(from.line, low_bits) {
            Some(line) if from.line == to.line => self.any_in_line::<S>(&line, from, to),
            Some(line) => self.any_in_lines::<S>(&line, from, to),
            None => false,
        }
    }

    #[inline(always)]
    fn any_in_line<S: Select>(&self, line: &Line<'_>, from: Code, to: Code) -> bool {
        if from.quotient == to.quotient {
            return self.any_in_run::<S>(line, from, to.low);
        }
        let is_from_occupied = line.has(from.quotient);
        // A run strictly between the two quotients decides without low bits. Only the end quotients need theirs.
        if line.runs_below(to.quotient) > line.runs_below(from.quotient) + u32::from(is_from_occupied) {
            return true;
        }
        (is_from_occupied && self.last_low::<S>(line, from.quotient) >= from.low)
            || (line.has(to.quotient) && self.first_low::<S>(line, to.quotient) <= to.low)
    }

    #[inline(never)]
    // Not inlined: few ranges span lines, and the path of one line stays small.
    fn any_in_lines<S: Select>(&self, first: &Line<'_>, from: Code, to: Code) -> bool {
        let above = first.runs() - first.runs_below(from.quotient);
        let is_occupied = first.has(from.quotient);
        if above > u32::from(is_occupied) || (is_occupied && self.last_low::<S>(first, from.quotient) >= from.low) {
            return true;
        }
        let Some(last) = self.line(to.line, to.low_bits) else { return self.has_codes_from(from.line + 1) };
        if self.has_codes_between(from.line, to.line, &last) {
            return true;
        }
        let is_occupied = last.has(to.quotient);
        last.runs_below(to.quotient) > 0 || (is_occupied && self.first_low::<S>(&last, to.quotient) <= to.low)
    }

    /// Whether `line` or any later line has codes.
    fn has_codes_from(&self, line: u64) -> bool {
        match (self.line(line, 0), self.lows) {
            (Some(line), Lows::Uniform { codes }) => line.rank() < codes,
            (line, _) => line.is_some(),
        }
    }

    /// Whether any line strictly between `from` and `to` has codes; `last` is line `to`.
    #[inline(always)]
    fn has_codes_between(&self, from: u64, to: u64, last: &Line<'_>) -> bool {
        match self.lows {
            // A rank counts all codes before its line, so it grows where lines between have codes.
            Lows::Uniform { .. } => self.line(from + 1, 0).is_some_and(|second| last.rank() > second.rank()),
            Lows::PerLine => to > from + 1,
        }
    }

    #[inline(always)]
    fn first_low<S: Select>(&self, line: &Line<'_>, quotient: u8) -> u64 {
        self.low(line, self.run::<S>(line, quotient).first)
    }

    #[inline(always)]
    fn last_low<S: Select>(&self, line: &Line<'_>, quotient: u8) -> u64 {
        self.low(line, self.run::<S>(line, quotient).last)
    }

    /// Whether a code with the quotient of `from` has low bits in `from.low..=to`.
    #[inline(always)]
    fn any_in_run<S: Select>(&self, line: &Line<'_>, from: Code, to: u64) -> bool {
        if !line.has(from.quotient) {
            return false;
        }
        if !line.is_overfull() {
            // From the last code down to the highest that is not above `to`. Most runs have one code or two, so their
            // first codes are not looked for.
            let mut at = line.last_of_run::<S>(from.quotient);
            for _ in 0..SHORT_RUN {
                let low = self.low(line, at.into());
                if (low <= to) | line.begins_run(at) {
                    return from.low <= low && low <= to;
                }
                at -= 1;
            }
        }
        let run = self.run::<S>(line, from.quotient);
        self.first_low_from(line, run, from.low).is_some_and(|low| low <= to)
    }

    /// Returns the lowest low bits in the run that are at least `from`.
    #[inline(always)]
    fn first_low_from(&self, line: &Line<'_>, run: Run, from: u64) -> Option<u64> {
        let (mut first, mut end) = (run.first, run.last + 1);
        while end.saturating_sub(first) > SHORT_RUN {
            let middle = first.midpoint(end);
            if self.low(line, middle - 1) < from {
                first = middle;
            } else {
                end = middle;
            }
        }
        while first < end {
            let low = self.low(line, first);
            if low >= from {
                return Some(low);
            }
            first += 1;
        }
        None
    }

    /// Returns the lowest code at or above `from`, for lines that all have codes; `None` if there is none.
    /// `low_bits_of` returns the number of low bits of the codes in a line.
    pub(super) fn first_from<S: Select>(&self, from: Code, low_bits_of: impl Fn(u64) -> u32) -> Option<Code> {
        let open = |number: u64| self.line(number, low_bits_of(number));
        let line = open(from.line)?;
        if line.has(from.quotient)
            && let Some(low) = self.first_low_from(&line, self.run::<S>(&line, from.quotient), from.low)
        {
            return Some(Code { low, low_bits: line.low_bits, ..from });
        }
        let (number, line, quotient) = if let Some(quotient) = line.next(u32::from(from.quotient) + 1) {
            (from.line, line, quotient)
        } else {
            // The next line has a code, because no line is empty.
            let next = open(from.line + 1)?;
            (from.line + 1, next, next.next(0)?)
        };
        Some(Code { line: number, quotient, low: self.first_low::<S>(&line, quotient), low_bits: line.low_bits })
    }
}
