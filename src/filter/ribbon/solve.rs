//! From the echelon form of a section to the bytes of its columns.

use super::band::Section;
use super::columns::Columns;
use super::shape::Layer;
use crate::kernel::solve;

/// Solves `section`, which lies in `layer` from block `first_block` on, and writes the columns of its blocks
/// to `payload`, which begins there.
pub(super) fn solve_section(
    section: &Section,
    first_block: u64,
    layer: &Layer,
    columns: Columns,
    payload: &mut [[u8; 8]],
) {
    let (first_word, _) = layer.block(first_block, columns);
    solve::solve(&section.echelon, columns.upper().into(), |block, words| {
        let (word, count) = layer.block(first_block + block as u64, columns);
        let place = usize::try_from(word - first_word).ok().and_then(|at| payload.get_mut(at..));
        for (out, word) in place.unwrap_or_default().iter_mut().zip(words).take(count.into()) {
            *out = word.to_le_bytes();
        }
    });
}
