//! Asking a Ribbon filter: are all parities of a key's equation right?
//!
//! A key's 64 slots lie in two neighbouring blocks. Per column, the words of the two blocks are masked by
//! the equation's coefficients, and the parity of what is left must be the column's bit of the result. All
//! columns are computed and compared at once: an early exit would mispredict on every other absent key.
//!
//! The loop over keys is written once, in `driver`, over a small trait with one implementation for each
//! instruction set; all of it is inlined into that set's entry functions. A function called
//! from there would be compiled without the set's instructions, and be 30 times as slow.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batch;
mod driver;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod portable;
#[cfg(test)]
mod tests;

use crate::hash::KeyHash;

/// One layer's place in the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Slots, a multiple of 64.
    pub(crate) slots: u64,
    /// Blocks of one column less.
    pub(crate) lower_blocks: u64,
    /// First word of its columns.
    pub(crate) first_word: u64,
    /// First word of its thresholds; none for the final layer.
    pub(crate) threshold_word: u64,
}

/// A filter to be asked. Nothing needs to fit together: what lies outside of `words` reads as "may be
/// present".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    /// The payload.
    pub(crate) words: &'a [[u8; 8]],
    pub(crate) bumping: &'a [Layer],
    pub(crate) last: &'a Layer,
    /// Columns of all blocks but the lower ones, 1 to 32.
    pub(crate) upper: u8,
    /// Salt of the final layer.
    pub(crate) salt: u8,
}

/// Whether the key of `hash` may have been added.
#[inline]
pub(crate) fn may_contain(table: &Table<'_>, hash: KeyHash) -> bool {
    dispatch!(may_contain(table, hash))
}

/// Asks for many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
pub(crate) fn may_contain_batch(table: &Table<'_>, hashes: &[KeyHash], hits: &mut [u64]) {
    dispatch!(may_contain_batch(table, hashes, hits));
}
