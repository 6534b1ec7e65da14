//! The rank structure: which cells of the third block are kept, and how many are kept before each.

/// The cells that one line records: seven words of bits, because the eighth holds counts.
pub(super) const LINE_CELLS: usize = 448;

/// A line of 64 bytes. Bit `i % 64` of word `i / 64` is set if cell `i` is kept. The eighth word holds counts of kept
/// cells: three of nine bits for the words 0 and 1, 0 to 3, and 0 to 5, and above them the count for all lines before.
pub(super) type Line = [u8; 64];

/// The lowest bit of the count for all lines before: behind three counts of nine bits, as each is at most 384.
const BEFORE: u32 = 27;

/// A position beyond any payload that does not overflow when a position within the payload is added to it.
const NOWHERE: usize = usize::MAX / 2;

/// Returns the position of a cell of the third block among the kept ones, and whether it is kept. In a damaged payload,
/// counts can exceed a `usize` of 32 bits: the position is then [`NOWHERE`], out of range.
#[inline]
pub(super) fn place_of(lines: &[Line], cell: usize) -> (usize, bool) {
    let Some(line) = lines.get(cell / LINE_CELLS) else { return (0, false) };
    let within = cell % LINE_CELLS;
    let words = line.as_chunks().0;
    let word = |number: usize| words.get(number).map_or(0, |&bytes| u64::from_le_bytes(bytes));
    let (number, bit) = (within / 64, within % 64);
    let (bits, counts) = (word(number), word(7));
    // The shift by 9 puts a count of 0 in front of the three counts, for the words of the first pair.
    let in_pairs_before = (counts << 9) >> (9 * (number / 2)) & 511;
    // Counts the first word of the pair only if the cell lies in the second.
    let whole = word(number & !1) & 0_u64.wrapping_sub(number as u64 & 1);
    let below = ones_in_both(whole, bits & ((1 << bit) - 1));
    let place = (counts >> BEFORE) + in_pairs_before + below;
    (usize::try_from(place).unwrap_or(NOWHERE), bits >> bit & 1 == 1)
}

/// Counts the ones in two words. `count_ones` is a call or a longer sequence on x86-64 without POPCNT, which a default
/// build cannot use. Because both words are added up together, the second costs little more.
#[inline]
const fn ones_in_both(one: u64, other: u64) -> u64 {
    const fn in_fours(word: u64) -> u64 {
        const PAIRS: u64 = 0x5555_5555_5555_5555;
        const FOURS: u64 = 0x3333_3333_3333_3333;
        let pairs = word - (word >> 1 & PAIRS);
        (pairs & FOURS) + (pairs >> 2 & FOURS)
    }
    const EIGHTS: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let fours = in_fours(one) + in_fours(other);
    ((fours & EIGHTS) + (fours >> 4 & EIGHTS)).wrapping_mul(0x0101_0101_0101_0101) >> 56
}

/// Builds the line of up to 448 cells; `before` cells are kept in the lines before it.
pub(super) fn line_of(is_kept: impl Iterator<Item = bool>, before: u64) -> Line {
    let mut words = [0_u64; 8];
    for (cell, is_kept) in is_kept.take(LINE_CELLS).enumerate() {
        words[cell / 64] |= u64::from(is_kept) << (cell % 64);
    }
    let (mut counts, mut ones) = (before << BEFORE, 0);
    for pair in 0..3 {
        ones += u64::from(words[2 * pair].count_ones() + words[2 * pair + 1].count_ones());
        counts |= ones << (9 * pair);
    }
    words[7] = counts;
    let mut line = [0; 64];
    line.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHash;

    fn is_kept(cell: usize, share: u64) -> bool {
        KeyHash::mix(cell as u64).get() % 16 < share
    }

    #[test]
    fn a_cells_place_is_the_number_of_cells_kept_before_it() {
        for share in [0, 1, 8, 15, 16] {
            for cells in [1, 63, 64, 65, 447, 448, 449, 5_000] {
                let (mut lines, mut before) = (Vec::new(), 0);
                for first in (0..cells).step_by(LINE_CELLS) {
                    let range = first..(first + LINE_CELLS).min(cells);
                    lines.push(line_of(range.clone().map(|cell| is_kept(cell, share)), before));
                    before += range.filter(|&cell| is_kept(cell, share)).count() as u64;
                }
                let mut expected = 0;
                for cell in 0..cells {
                    assert_eq!(place_of(&lines, cell), (expected, is_kept(cell, share)), "{cell} of {cells}, {share}");
                    expected += usize::from(is_kept(cell, share));
                }
            }
        }
    }

    #[test]
    fn cells_beyond_the_lines_are_not_kept() {
        assert_eq!(place_of(&[], 0), (0, false));
        assert_eq!(place_of(&[[0xff; 64]], LINE_CELLS), (0, false));
    }

    #[test]
    fn more_can_be_kept_than_a_block_has_room_for() {
        let line = line_of([true].into_iter(), (1 << 37) - 1);
        assert_eq!(place_of(&[line], 1), (usize::try_from(1_u64 << 37).unwrap_or(NOWHERE), false));
    }
}
