//! Writes lines from ascending codes.

use bytes::BufMut;
use sstfilter::internal::code_line::{BitWriter, OpenLine};

use crate::params::MAX_CODES;

const _: () = assert!(MAX_CODES < 1 << 31, "ranks have 31 bits");

/// Writes ascending codes as lines, low bits and overflow.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    /// The byte at which the current line's low bits begin. Written instead of the rank if each line has its own number
    /// of low bits.
    low_byte: Option<u64>,
    lines: Vec<u8>,
    low_bits: u32,
    packed: BitWriter,
    overflow: Vec<u8>,
    /// Number of codes in the lines written so far.
    rank: u64,
    /// Number of the current line.
    number: u64,
    current: OpenLine,
    /// Last code of the current line.
    last: Option<u64>,
}

/// The parts of a payload.
#[derive(Debug)]
pub(crate) struct WrittenLines {
    pub(crate) lines: Vec<u8>,
    pub(crate) lows: Vec<u8>,
    pub(crate) overflow: Vec<u8>,
    pub(crate) codes: u32,
}

impl LineWriter {
    /// Returns a writer of codes that all have `low_bits` low bits, for [`Lows::Uniform`](super::Lows::Uniform). The
    /// default writer is for [`Lows::PerLine`](super::Lows::PerLine): call [`begin_line`](Self::begin_line) for each
    /// line.
    pub(crate) fn uniform(low_bits: u32) -> Self {
        Self { low_bits, ..Self::default() }
    }

    /// Reserves memory for `lines` lines with `codes` codes. `None` if allocation fails.
    pub(crate) fn reserve(&mut self, lines: u64, codes: u64) -> Option<()> {
        self.lines.try_reserve_exact(usize::try_from(lines.checked_mul(64)?).ok()?).ok()?;
        self.packed.reserve(codes.checked_mul(self.low_bits.into())?)
    }

    /// Begins the next line, whose codes have `low_bits` low bits.
    pub(crate) fn begin_line(&mut self, low_bits: u32) {
        if self.current.codes() > 0 {
            self.finish_lines(self.number + 1);
        }
        self.low_bits = low_bits;
        self.low_byte = Some(self.packed.next_byte());
    }

    /// Adds a number to a line. Both must not be below the previous ones. Skips a number that the line already has.
    #[inline]
    pub(crate) fn push(&mut self, line: u64, cell: u64) {
        if line != self.number {
            self.finish_lines(line);
        }
        // Keys in one cell share a code.
        if self.last == Some(cell) {
            return;
        }
        self.last = Some(cell);
        self.current.push((cell >> self.low_bits) as u8);
        self.packed.push(cell & ((1 << self.low_bits) - 1), self.low_bits);
    }

    /// Returns the bytes of the low bits so far.
    pub(crate) fn low_bytes(&self) -> u64 {
        self.packed.byte_len()
    }

    /// Returns the bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        (self.lines.len() + self.overflow.len()) as u64 + self.packed.whole_bytes()
    }

    /// Writes the lines from the current one to before `next`.
    fn finish_lines(&mut self, next: u64) {
        for _ in self.number..next {
            let codes = self.current.codes();
            let overflow = |ends: &[u32]| {
                // A number of words of 4 bytes, as it has 32 bits.
                let start = self.overflow.len() / 4;
                ends.iter().for_each(|&end| self.overflow.put_u32_le(end));
                start as u32
            };
            let line = self.current.end(self.low_byte.unwrap_or(self.rank) as u32, overflow);
            self.lines.extend_from_slice(&line);
            self.rank += u64::from(codes);
        }
        (self.number, self.last) = (next, None);
    }

    /// Completes `lines` lines. `None` if there are more codes than ranks can count.
    pub(crate) fn finish(mut self, lines: u64) -> Option<WrittenLines> {
        let codes = u32::try_from(self.rank + u64::from(self.current.codes()))
            .ok()
            .filter(|&codes| u64::from(codes) <= MAX_CODES)?;
        // The offsets of low bits have 31 bits, like the ranks, and this one is the highest.
        (self.low_byte.unwrap_or(0) <= MAX_CODES).then_some(())?;
        if lines > 0 {
            self.finish_lines(lines);
        }
        let mut overflow = self.overflow;
        overflow.resize(overflow.len().next_multiple_of(8), 0);
        Some(WrittenLines { lines: self.lines, lows: self.packed.finish(), overflow, codes })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sstfilter::internal::code_line::{Portable, QUOTIENT_BITS};

    use super::super::{Code, Lines, Lows};
    use super::*;

    fn lines_of(written: &WrittenLines, lows: Lows) -> Lines<'_> {
        Lines { all: written.lines.as_chunks().0, low_bytes: &written.lows, overflow: &written.overflow, lows }
    }

    fn uniform(written: &WrittenLines) -> Lines<'_> {
        lines_of(written, Lows::Uniform { codes: written.codes.into() })
    }

    fn split(number: u64, low_bits: u32) -> (u64, u64) {
        let bits = QUOTIENT_BITS + low_bits;
        (number >> bits, number & ((1 << bits) - 1))
    }

    fn code(number: u64, low_bits: u32) -> Code {
        let (line, cell) = split(number, low_bits);
        Code::new(line, cell, low_bits)
    }

    fn write(codes: &BTreeSet<u64>, low_bits: u32, lines: u64) -> WrittenLines {
        let mut writer = LineWriter::uniform(low_bits);
        for (line, cell) in codes.iter().map(|&number| split(number, low_bits)) {
            writer.push(line, cell);
            writer.push(line, cell);
        }
        writer.finish(lines).unwrap()
    }

    #[test]
    fn every_interval_of_a_small_space_is_answered_as_by_a_sorted_set() {
        for (low_bits, lines, step) in [(0, 2, 1), (0, 3, 7), (0, 2, 300), (1, 2, 3), (2, 1, 1), (2, 2, 11), (3, 1, 5)]
        {
            let space = lines << (QUOTIENT_BITS + low_bits);
            let codes: BTreeSet<u64> = (0..space).filter(|number| number * number % (step + 2) < 2).collect();
            let written = write(&codes, low_bits, lines);
            let all = uniform(&written);
            for from in 0..space {
                let next = codes.range(from..).next();
                for to in from..space {
                    let expected = next.is_some_and(|&next| next <= to);
                    let got = all.any_in::<Portable>(code(from, low_bits), code(to, low_bits));
                    assert_eq!(got, expected, "{from}..={to} of {low_bits} low bits, step {step}");
                }
            }
        }
    }

    #[test]
    fn lines_with_low_bits_of_their_own_are_answered_as_by_a_sorted_set() {
        // Also lines without low bits between others, and intervals from the start of a line to the end of another.
        for low_bits in [[0, 0, 0], [2, 0, 1], [0, 3, 0], [1, 2, 3]] {
            let mut writer = LineWriter::default();
            let mut codes = BTreeSet::new();
            for (line, bits) in (0..).zip(low_bits) {
                writer.begin_line(bits);
                for cell in (0..256 << bits).filter(|cell| (cell + line) % 37 == 5 || cell % 301 == 7) {
                    writer.push(line, cell);
                    codes.insert(Code::new(line, cell, bits).position());
                }
            }
            let written = writer.finish(3).unwrap();
            let all = lines_of(&written, Lows::PerLine);
            let every = |line: u64| {
                let bits = low_bits[line as usize];
                let inner = (0..256 << bits).map(move |cell| Code::new(line, cell, bits));
                inner.chain([Code::start_of(line), Code::end_of(line)])
            };
            for from in (0..3).flat_map(every) {
                let next = codes.range(from.position()..).next();
                let first = all.first_from::<Portable>(from, |line| low_bits.get(line as usize).copied().unwrap_or(0));
                assert_eq!(first.map(Code::position), next.copied());
                assert!(first.is_none_or(|code| code.low_bits == low_bits[code.line as usize]));
                let is_above = |to: &Code| to.position() >= from.position();
                for to in (from.line..3).flat_map(every).step_by(3).filter(is_above) {
                    let expected = next.is_some_and(|next| *next <= to.position());
                    assert_eq!(all.any_in::<Portable>(from, to), expected, "{from:?} {to:?}");
                }
            }
        }
    }

    #[test]
    fn a_writer_counts_the_bytes_of_complete_lines_their_overflow_and_the_low_bits() {
        let mut writer = LineWriter::uniform(8);
        assert_eq!((writer.bytes(), writer.low_bytes()), (0, 0));
        // An overfull line of two runs, and eight codes of the next: whole words of low bits.
        (0..232).for_each(|cell| writer.push(0, cell * 2));
        (0..8).for_each(|cell| writer.push(1, cell));
        assert_eq!((writer.bytes(), writer.low_bytes()), (64 + 240 + 2 * 4, 240));
        // One more code waits in a word that is not complete.
        writer.push(1, 8);
        assert_eq!((writer.bytes(), writer.low_bytes()), (64 + 240 + 2 * 4, 241));
        let written = writer.finish(2).unwrap();
        assert_eq!([written.lines.len(), written.lows.len(), written.overflow.len()], [2 * 64, 248 + 8, 2 * 4]);
    }

    #[test]
    fn an_overfull_line_is_searched_like_any_other() {
        // 224 codes fill a line; 225 and more overfill it, up to one run of all codes.
        for codes in [224, 225, 226, 300, 5_000] {
            for spread in [1, 3, 40] {
                let low_bits = 10;
                let codes: BTreeSet<u64> = (0..codes).map(|number| 7_000 + number * spread).collect();
                let written = write(&codes, low_bits, 2);
                let all = uniform(&written);
                for from in (0..300_000).step_by(97).chain(6_990..7_100) {
                    for length in [0, 1, 2, 39, 1_000, 200_000] {
                        let to = from + length;
                        let expected = codes.range(from..=to).next().is_some();
                        let got = all.any_in::<Portable>(code(from, low_bits), code(to, low_bits));
                        assert_eq!(got, expected, "{from}..={to}, {} codes of step {spread}", codes.len());
                    }
                }
            }
        }
    }
}
