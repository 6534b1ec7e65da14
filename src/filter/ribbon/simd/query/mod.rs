//! The query: tests whether all parities of a key's equation are right.
//!
//! A key's 64 slots lie in two neighbouring blocks. Per column, the words of the two blocks are masked by the
//! equation's coefficients, and the parity of the remaining bits must equal the column's bit of the result. All columns
//! are computed and compared at once: an early exit would mispredict on every other absent key.
//!
//! `driver` has the query of one key and `batch` the loop over many, both over a small trait with one implementation
//! for each instruction set. All of it is inlined into that set's entry functions: a function that is called instead
//! would be compiled without the set's instructions, and be 30 times as slow.
//!
//! Both derive an equation by `Equation::new` from its start, but compute the start in different ways. `driver` takes
//! one key, with a branch that moves bumped keys out of line. `batch` takes 16 keys without any branch, with arithmetic
//! that the compiler turns into vectors of keys (128-bit products and early returns would prevent that).
//! [`Filter::view`] checks once that each position lies within the payload. `tests` compares both with the format's
//! specification.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
mod batch;
mod driver;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
mod neon;
mod portable;
#[cfg(test)]
mod tests;

use core::marker::PhantomData;

use crate::filter::ribbon::columns::Columns;
use crate::filter::ribbon::equation::SMASH;
use crate::filter::ribbon::layer::{Layer, MAX_BUMPING_LAYERS};
use crate::filter::{OpenShape, SingleProbe};
use crate::hash::KeyHash;
use crate::kernel::{SetProbe, dispatch_generic, for_this_cpu};
use crate::simd;

/// The parts of a filter that a query needs in addition to the payload, precomputed when it is opened. Until it is
/// [laid out](Self::lay_out), it has no layers, and no payload is long enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// In this order, most queries read one or two neighbouring lines.
#[repr(C)]
pub(crate) struct Filter {
    /// The length that a payload must have: no query reads beyond it.
    payload_bytes: u64,
    bumping: u8,
    /// The columns of all blocks except the lower ones, 1 to 32.
    upper: u8,
    /// The salt of the final layer.
    salt: u8,
    /// The bumping layers, then the final one.
    layers: [Layer; MAX_BUMPING_LAYERS + 1],
}

impl Default for Filter {
    fn default() -> Self {
        Self { layers: Default::default(), bumping: 0, upper: 0, salt: 0, payload_bytes: u64::MAX }
    }
}

impl Filter {
    /// Lays out layers with these numbers of blocks, the final one last: first the columns of all, then the thresholds.
    /// `None` if there is no layer, too many, or an empty one; the filter is then unusable.
    ///
    /// In place, because a filter that is probed once takes longer to move than to probe.
    #[inline]
    pub(crate) fn lay_out(&mut self, columns: Columns, blocks: &[u32], salt: u8) -> Option<()> {
        let bumping = blocks.len().checked_sub(1).filter(|&bumping| bumping <= MAX_BUMPING_LAYERS)?;
        (self.bumping, self.upper, self.salt, self.payload_bytes) = (bumping as u8, columns.upper(), salt, u64::MAX);
        let mut words = 0;
        for (index, (layer, &blocks)) in self.layers.iter_mut().zip(blocks).enumerate() {
            if blocks == 0 {
                return None;
            }
            let smash = if index == bumping { SMASH } else { 0 };
            *layer = Layer { first_word: words, ..Layer::alone(columns, blocks, smash) };
            words += layer.words(columns);
        }
        for layer in self.layers.iter_mut().take(bumping) {
            layer.threshold_word = words;
            words += layer.threshold_words();
        }
        self.measure()
    }

    /// Computes the length of the payload that queries can read; `None` if no filter has such layers.
    #[inline]
    fn measure(&mut self) -> Option<()> {
        let (bumping, last) = self.layers.get(..=usize::from(self.bumping))?.split_at_checked(self.bumping.into())?;
        let mut words = last.first()?.columns_end(self.upper)?;
        for layer in bumping {
            words = words.max(layer.columns_end(self.upper)?).max(layer.thresholds_end()?);
        }
        self.payload_bytes = words.checked_mul(8)?;
        Some(())
    }

    /// Returns the layers in use: the bumping ones, then the final one.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers[..=usize::from(self.bumping)]
    }

    pub(crate) fn salt(&self) -> u8 {
        self.salt
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Returns the filter with the payload that begins `payload`; `None` if `payload` is too short.
    #[inline]
    pub(crate) fn view<'a>(&'a self, payload: &'a [u8]) -> Option<FilterView<'a>> {
        // Longer is allowed: `payload` may be a whole block, with its trailer.
        let is_whole = payload.len() as u64 >= self.payload_bytes;
        is_whole.then_some(FilterView { filter: self, words: payload.as_ptr().cast(), payload: PhantomData })
    }
}

/// A filter with its payload, small enough for two registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterView<'a> {
    filter: &'a Filter,
    /// As many words as the filter reads.
    words: *const [u8; 8],
    payload: PhantomData<&'a [u8]>,
}

impl<'a> FilterView<'a> {
    /// Returns the bumping layers except the first.
    #[inline(always)]
    fn later_layers(self) -> &'a [Layer] {
        self.filter.layers.get(1..usize::from(self.filter.bumping)).unwrap_or_default()
    }

    #[inline(always)]
    fn last_layer(self) -> &'a Layer {
        &self.filter.layers[usize::from(self.filter.bumping) % (MAX_BUMPING_LAYERS + 1)]
    }

    /// Returns word `index` of the payload.
    ///
    /// # Safety
    ///
    /// It must be a word of a layer's columns or thresholds.
    #[inline(always)]
    unsafe fn word(self, index: u64) -> *const [u8; 8] {
        // SAFETY: the payload has all words of all layers.
        unsafe { self.words.add(index as usize) }
    }
}

/// Returns the probe of single keys in an open filter.
///
/// Chosen once: matching the kind and the instruction set for each key took a tenth of its time.
pub(crate) fn single_probe() -> SingleProbe {
    let probe: SetProbe<OpenShape> = match simd::selected() {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        simd::InstructionSet::Avx512 => avx512::probe,
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        simd::InstructionSet::Avx2 => avx2::probe,
        #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
        simd::InstructionSet::Neon => neon::probe,
        _ => portable::probe,
    };
    // SAFETY: the selected set is one that the CPU supports.
    unsafe { for_this_cpu(probe) }
}

/// Returns whether the key of `hash` may have been added.
#[inline]
pub(crate) fn may_contain(view: FilterView<'_>, hash: KeyHash) -> bool {
    dispatch_generic!(driver::may_contain, self, portable::may_contain, (view: FilterView<'_>, hash: KeyHash) -> bool)
}

/// Probes for a key that the first layer has bumped: one key in 25.
///
/// Out of line, so that the other keys need no stack frame.
#[cold]
#[inline(never)]
fn may_contain_after_first(view: FilterView<'_>, hash: KeyHash) -> bool {
    dispatch_generic!(
        driver::may_contain_after_first, self, portable::may_contain_after_first,
        (view: FilterView<'_>, hash: KeyHash) -> bool
    )
}

/// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
pub(crate) fn may_contain_batch(view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    dispatch_generic!(
        batch::may_contain_batch, self, portable::may_contain_batch,
        (view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64])
    );
}
