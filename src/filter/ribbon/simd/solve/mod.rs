//! Back-substitution: from a section's echelon form to the columns of its blocks.
//!
//! Slots are solved from the right. Each has as many bits as there are columns: the sum (exclusive or) of its pivot's
//! result and of the slots to its right where the pivot has ones. Slots without a pivot are free, and are 0.
//!
//! For every four solved slots, all sixteen sums are tabulated. So a slot takes sixteen look-ups for its 64 neighbours,
//! in all columns at once, instead of 32 additions on average.

mod planes;
mod portable;

use super::sweep::Echelon;
use crate::filter::ribbon::columns::MAX_COLUMNS;
use crate::simd;

/// The columns of one block: word `c` holds bit `c` of its 64 slots, the first slot in bit 0.
pub(crate) type BlockColumns = [u64; MAX_COLUMNS as usize];

/// Solves `echelon` and calls `visit` for each block of 64 slots, from the last one, with its index and its columns.
/// Only the first `columns` of them are valid.
pub(crate) fn solve(echelon: &Echelon, columns: usize, visit: impl FnMut(usize, &BlockColumns)) {
    match simd::selected() {
        // With AVX-512, too: 64 lanes would save 1 to 2 % of a build, and need a second implementation.
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        simd::InstructionSet::Avx512 | simd::InstructionSet::Avx2 => crate::kernel::dispatch_generic!(
            @with "avx2,bmi1,bmi2,lzcnt,popcnt", planes::solve::<super::bytes::avx2::Avx2>,
            (echelon: &Echelon, columns: usize, visit: impl FnMut(usize, &BlockColumns))
        ),
        #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
        simd::InstructionSet::Neon => crate::kernel::dispatch_generic!(
            @with "neon", planes::solve::<super::bytes::neon::Neon>,
            (echelon: &Echelon, columns: usize, visit: impl FnMut(usize, &BlockColumns))
        ),
        _ => portable::solve(echelon, columns, visit),
    }
}
