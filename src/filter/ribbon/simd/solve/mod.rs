//! Back-substitution: from a section's echelon form to the columns of its blocks.
//!
//! Slots are solved from the right. Each has as many bits as there are columns: the sum (exclusive or) of
//! those slots to its right where its pivot has ones, and of the pivot's result. Slots without a pivot are
//! free, and are 0.
//!
//! Of every four slots that are solved all sixteen sums are tabulated, so that a slot takes sixteen
//! look-ups for its 64 neighbours, in all columns at once, instead of 32 additions in the mean.

mod planes;
mod portable;

use super::sweep::Echelon;
use crate::kernel::dispatch;

/// The most columns there can be: bits of a result.
pub(crate) const MAX_COLUMNS: usize = 32;

/// The columns of one block: word `c` holds bit `c` of its 64 slots, the first slot in bit 0.
pub(crate) type BlockColumns = [u64; MAX_COLUMNS];

/// Solves `echelon` and calls `visit` with the index of each block of 64 slots, the last one first, and its
/// columns, of which the first `columns` are meant.
pub(crate) fn solve(echelon: &Echelon, columns: usize, visit: impl FnMut(usize, &BlockColumns)) {
    dispatch!(solve(echelon, columns, visit));
}

/// Defines a module with the form for one instruction set.
macro_rules! solve_with {
    ($module:ident, $vector:ident, $features:literal) => {
        mod $module {
            use super::{BlockColumns, Echelon, planes};
            use crate::filter::ribbon::simd::bytes::$module::$vector;

            #[target_feature(enable = $features)]
            pub(super) fn solve(echelon: &Echelon, columns: usize, visit: impl FnMut(usize, &BlockColumns)) {
                // SAFETY: this function has the instructions.
                unsafe { planes::solve::<$vector>(echelon, columns, visit) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
solve_with!(avx2, Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt");
#[cfg(target_arch = "x86_64")]
solve_with!(avx512, Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt");
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
solve_with!(neon, Neon, "neon");
