//! Plain Rust.

use super::driver::{self, Coefficients, Eight, Kernel};
use super::{Table, batch};
use crate::hash::KeyHash;
use crate::kernel::parity::parities;

struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    unsafe fn agree(columns: &Eight<'_>, coefficients: Coefficients, expected: u32) -> bool {
        let mut masked = [0; 8];
        for column in 0..4 {
            masked[column] = leave(columns.here[0][column], columns.next[0][column], coefficients);
            masked[4 + column] = leave(columns.here[1][column], columns.next[1][column], coefficients);
        }
        parities(&masked) == expected as u8
    }
}

/// What the coefficients leave of a column.
#[inline(always)]
fn leave(here: [u8; 8], next: [u8; 8], coefficients: Coefficients) -> u64 {
    (u64::from_le_bytes(here) & coefficients.here) ^ (u64::from_le_bytes(next) & coefficients.next)
}

pub(super) fn may_contain(table: &Table<'_>, hash: KeyHash) -> bool {
    // SAFETY: plain Rust runs everywhere.
    unsafe { driver::may_contain::<Portable>(table, hash) }
}

pub(super) fn may_contain_batch(table: &Table<'_>, hashes: &[KeyHash], hits: &mut [u64]) {
    // SAFETY: as above.
    unsafe { batch::may_contain_batch::<Portable>(table, hashes, hits) };
}
