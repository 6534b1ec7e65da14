//! The query: are all parities of a key's equation right?
//!
//! A key's 64 slots lie in two neighbouring blocks. Per column, the words of the two blocks are masked by
//! the equation's coefficients, and the parity of the remaining bits must equal the column's bit of the result. All
//! columns are computed and compared at once: an early exit would mispredict on every other absent key.
//!
//! `driver` has the query of one key and `batch` the loop over many, both over a small trait with one implementation
//! for each instruction set. All of it is inlined into that set's entry functions: a function that is called instead
//! would be compiled without the set's instructions, and be 30 times as slow.
//!
//! Both derive an equation by `Equation::new` from its start, and each has its own way to the start. `driver` derives one
//! key's, with a branch at each layer. `batch` derives those of 16 keys without any branch, with arithmetic that the
//! compiler turns into vectors of keys (128-bit products and early returns would prevent that), after checking once that
//! all layers fit. `tests` compares both with the format's specification.

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

use crate::filter::ribbon::layer::Layer;
use crate::hash::KeyHash;
use crate::kernel::dispatch_generic;

/// The parts of a filter that a query reads. They need not be consistent: a position outside of `words` reads as "may
/// be present".
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterView<'a> {
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
pub(crate) fn may_contain(view: &FilterView<'_>, hash: KeyHash) -> bool {
    dispatch_generic!(driver::may_contain, self, portable::may_contain, (view: &FilterView<'_>, hash: KeyHash) -> bool)
}

/// Probes many: bit `i % 64` of word `i / 64` of `matches` becomes the answer for hash `i`.
pub(crate) fn may_contain_batch(view: &FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    dispatch_generic!(
        batch::may_contain_batch, self, portable::may_contain_batch,
        (view: &FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64])
    );
}
