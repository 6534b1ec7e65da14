//! Plain Rust: solves with tables of words.

use super::BlockColumns;
use crate::filter::ribbon::simd::sweep::Echelon;

/// Slots whose sums are tabulated together.
const SLOTS_AT_ONCE: usize = 4;

/// The bits of a row for one group.
const GROUP_MASK: u64 = (1 << SLOTS_AT_ONCE) - 1;

/// For each group of a circle of 64 slots, the sums of all subsets of its solved slots.
type Sums = [[u32; 1 << SLOTS_AT_ONCE]; 64 / SLOTS_AT_ONCE];

pub(super) fn solve(echelon: &Echelon, columns: usize, mut visit: impl FnMut(usize, &BlockColumns)) {
    let mut sums: Sums = [[0; 1 << SLOTS_AT_ONCE]; 64 / SLOTS_AT_ONCE];
    let mut solved = [0; 64];
    let mut words = BlockColumns::default();
    let blocks = echelon.occupied.iter().zip(&echelon.rows).zip(&echelon.results).enumerate().rev();
    for (block, ((&occupied, rows), results)) in blocks {
        solve_block(occupied, rows, results, &mut sums, &mut solved);
        transpose(&solved, columns, &mut words);
        visit(block, &words);
    }
}

/// Solves the 64 slots of a block. On entry `sums` are those of the slots to its right, on return those of the block.
fn solve_block(occupied: u64, rows: &[u64; 64], results: &[u32; 64], sums: &mut Sums, solved: &mut [u32; 64]) {
    for group in (0..64 / SLOTS_AT_ONCE).rev() {
        let mut values = [0; SLOTS_AT_ONCE];
        for index in (0..SLOTS_AT_ONCE).rev() {
            let slot = group * SLOTS_AT_ONCE + index;
            let is_pivot = occupied >> slot & 1;
            let row = rows[slot] & is_pivot.wrapping_neg();
            let result = results[slot] & (is_pivot as u32).wrapping_neg();
            // Within the slot's own group, bits to its left stand for slots 64 further right, which the table still
            // describes. Bits to its right stand for slots just solved.
            let own = row >> (group * SLOTS_AT_ONCE);
            let left = own as usize & ((1 << index) - 1);
            let others = row & !(GROUP_MASK << (group * SLOTS_AT_ONCE));
            let right = (index + 1..SLOTS_AT_ONCE).fold(0, |sum, later| sum ^ values[later] & bit_mask(own, later));
            values[index] = result ^ sum_of(others, sums) ^ sums[group][left] ^ right;
        }
        tabulate(&values, &mut sums[group]);
        solved[group * SLOTS_AT_ONCE..][..SLOTS_AT_ONCE].copy_from_slice(&values);
    }
}

/// Returns all ones if `word` has bit `bit`.
#[inline]
fn bit_mask(word: u64, bit: usize) -> u32 {
    ((word >> bit & 1) as u32).wrapping_neg()
}

/// Returns the sum of the slots where `row` has ones.
#[inline]
fn sum_of(row: u64, sums: &Sums) -> u32 {
    sums.iter()
        .enumerate()
        .fold(0, |sum, (group, table)| sum ^ table[(row >> (group * SLOTS_AT_ONCE) & GROUP_MASK) as usize])
}

/// Tabulates all sums of a group's values.
#[inline]
fn tabulate(values: &[u32; SLOTS_AT_ONCE], table: &mut [u32; 1 << SLOTS_AT_ONCE]) {
    table[0] = 0;
    for (index, value) in values.iter().enumerate() {
        let (known, new) = table.split_at_mut(1 << index);
        for (new, known) in new.iter_mut().zip(known) {
            *new = *known ^ value;
        }
    }
}

/// Transposes the 64 values: bit `c` of all slots becomes word `c`.
fn transpose(values: &[u32; 64], columns: usize, words: &mut BlockColumns) {
    let (eights, _) = values.as_chunks::<8>();
    for (first, group) in words[..columns].chunks_mut(8).enumerate() {
        group.fill(0);
        for (byte, values) in eights.iter().enumerate() {
            let packed = u64::from_le_bytes(values.map(|value| (value >> (first * 8)) as u8));
            for (column, word) in group.iter_mut().enumerate() {
                // Bit 8i moves to bit 56 + i.
                let bits = (packed >> column & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
                *word |= bits << (byte * 8);
            }
        }
    }
}
