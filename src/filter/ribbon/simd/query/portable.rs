//! Plain Rust.

use super::driver::{self, Coefficients, Eight, Kernel};
use super::parity::parities;
use super::{FilterView, batch};
use crate::hash::KeyHash;

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

/// A column of two blocks, masked by the coefficients and added.
#[inline(always)]
fn leave(here: [u8; 8], next: [u8; 8], coefficients: Coefficients) -> u64 {
    (u64::from_le_bytes(here) & coefficients.here) ^ (u64::from_le_bytes(next) & coefficients.next)
}

pub(super) fn may_contain(view: &FilterView<'_>, hash: KeyHash) -> bool {
    // SAFETY: plain Rust runs everywhere.
    unsafe { driver::may_contain::<Portable>(view, hash) }
}

pub(super) fn may_contain_batch(view: &FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    // SAFETY: as above.
    unsafe { batch::may_contain_batch::<Portable>(view, hashes, matches) };
}
