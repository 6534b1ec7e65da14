//! Back-substitution: from the echelon form of a section to the columns of its blocks.

use super::band::Section;
use super::shape::Layer;
use crate::filter::ribbon::columns::{Columns, MAX_COLUMNS};
use crate::kernel::parity::{GROUP, parities};

/// Solves `section`, which lies in `layer` from `first_slot` on, and writes its columns to the payload.
///
/// Slots are solved from the right. For each column a word holds the solution of the last 64 slots, so
/// that a slot's bit is the parity of that word where the row has ones, plus the row's result. Slots
/// without a pivot are free, and are 0. When a block's first slot is reached, the words are its columns.
#[expect(clippy::cast_possible_truncation, reason = "a shift below 64, and eight bits of a result")]
pub(super) fn solve(section: &Section, first_slot: u64, layer: &Layer, columns: Columns, payload: &mut [u8]) {
    let (words, _) = payload.as_chunks_mut::<8>();
    let groups = usize::from(columns.upper()).div_ceil(GROUP);
    let mut solution = [[0_u64; GROUP]; MAX_COLUMNS as usize / GROUP];
    for slot in (0..section.slots()).rev() {
        let (row, result) = section.pivot(slot).unwrap_or_default();
        // Bit 0 stands for the slot itself, bit j for the slot j to the right.
        let row = row.rotate_right((slot % 64) as u32);
        for (group, solved) in solution.iter_mut().take(groups).enumerate() {
            solve_slot(solved, row, (result >> (group * GROUP)) as u8);
        }
        if slot % 64 == 0 {
            let (first_word, count) = layer.block((first_slot + slot as u64) / 64, columns);
            let first_word = usize::try_from(first_word).unwrap_or(usize::MAX);
            let block = words.get_mut(first_word..).unwrap_or_default();
            for (word, column) in block.iter_mut().zip(solution.as_flattened()).take(count.into()) {
                *word = column.to_le_bytes();
            }
        }
    }
}

/// Solves one slot in eight columns.
#[inline]
fn solve_slot(solved: &mut [u64; GROUP], row: u64, result: u8) {
    let mut masked = [0; GROUP];
    for (out, column) in masked.iter_mut().zip(solved.iter_mut()) {
        *column <<= 1;
        *out = *column & row;
    }
    let bits = parities(&masked) ^ result;
    for (index, column) in solved.iter_mut().enumerate() {
        *column |= u64::from(bits >> index & 1);
    }
}
