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
//! key's, with a branch that takes bumped keys out of line. `batch` derives those of 16 keys without any branch, with
//! arithmetic that the compiler turns into vectors of keys (128-bit products and early returns would prevent that). That
//! each position lies within the payload is checked once, by [`Filter::view`]. `tests` compares both with the format's
//! specification.

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

use core::marker::PhantomData;
use core::num::NonZeroU32;

use crate::filter::ribbon::columns::Columns;
use crate::filter::ribbon::equation::SMASH;
use crate::filter::ribbon::layer::{Layer, MAX_BUMPING_LAYERS};
use crate::hash::KeyHash;
use crate::kernel::dispatch_generic;

/// The parts of a filter that a query needs beside the payload, settled when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Bumping layers, then the final one.
    layers: [Layer; MAX_BUMPING_LAYERS + 1],
    bumping: u8,
    /// Columns of all blocks but the lower ones, 1 to 32.
    upper: u8,
    /// Salt of the final layer.
    salt: u8,
    /// No query reads beyond these.
    payload_bytes: u64,
}

const NO_LAYER: Layer = Layer { slots: 0, smash: 0, lower_blocks: 0, first_word: 0, threshold_word: 0 };

impl Filter {
    /// `bumping` layers and the final one; `None` when no filter has such layers.
    pub(crate) fn new(layers: [Layer; MAX_BUMPING_LAYERS + 1], bumping: usize, upper: u8, salt: u8) -> Option<Self> {
        let mut words = 0;
        for (index, layer) in layers.get(..=bumping)?.iter().enumerate() {
            words = words.max(layer.columns_end(upper)?);
            if index < bumping {
                words = words.max(layer.thresholds_end()?);
            }
        }
        Some(Self { layers, bumping: bumping as u8, upper, salt, payload_bytes: words.checked_mul(8)? })
    }

    /// A filter without layers: for [`lay_out`](Self::lay_out).
    const UNPLANNED: Self =
        Self { layers: [NO_LAYER; MAX_BUMPING_LAYERS + 1], bumping: 0, upper: 0, salt: 0, payload_bytes: 0 };

    /// Lays the filter out in place, and probes it: a filter that is probed once is not worth moving. `None` where
    /// [`RibbonShape::new`](crate::filter::ribbon::shape::RibbonShape::new) and [`Self::new`] give none, and where the
    /// payload is shorter.
    #[inline]
    pub(crate) fn probe_once(
        columns: Columns,
        blocks: &[[u8; 4]],
        salt: u8,
        payload: &[u8],
        hash: KeyHash,
    ) -> Option<bool> {
        let mut filter = Self { upper: columns.upper(), salt, ..Self::UNPLANNED };
        let bumping = blocks.len().checked_sub(1).filter(|&bumping| bumping <= MAX_BUMPING_LAYERS)?;
        filter.bumping = bumping as u8;
        let mut words = 0;
        for (index, (layer, &blocks)) in filter.layers.iter_mut().zip(blocks).enumerate() {
            let smash = if index == bumping { SMASH } else { 0 };
            let blocks = NonZeroU32::new(u32::from_le_bytes(blocks))?.get();
            let Layer { slots, lower_blocks, .. } = Layer::alone(columns, blocks, smash);
            (layer.slots, layer.smash, layer.lower_blocks, layer.first_word) = (slots, smash, lower_blocks, words);
            words = layer.columns_end(filter.upper)?;
        }
        for layer in &mut filter.layers[..bumping] {
            layer.threshold_word = words;
            words = words.max(layer.thresholds_end()?).max(words + layer.threshold_words());
        }
        filter.payload_bytes = words.checked_mul(8)?;
        if payload.len() as u64 != filter.payload_bytes {
            return None;
        }
        Some(may_contain(filter.view(payload)?, hash))
    }

    /// The layers in use: bumping ones, then the final one.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers[..=usize::from(self.bumping)]
    }

    pub(crate) fn salt(&self) -> u8 {
        self.salt
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// The filter with its payload, which `payload` begins with; `None` when that is too short.
    #[inline]
    pub(crate) fn view<'a>(&'a self, payload: &'a [u8]) -> Option<FilterView<'a>> {
        let is_whole = payload.len() as u64 >= self.payload_bytes;
        is_whole.then_some(FilterView { filter: self, words: payload.as_ptr().cast(), payload: PhantomData })
    }
}

/// A filter with its payload, in two registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterView<'a> {
    filter: &'a Filter,
    /// As many words as the filter reads.
    words: *const [u8; 8],
    payload: PhantomData<&'a [u8]>,
}

impl<'a> FilterView<'a> {
    /// The bumping layers but the first.
    #[inline(always)]
    fn later_layers(self) -> &'a [Layer] {
        self.filter.layers.get(1..usize::from(self.filter.bumping)).unwrap_or_default()
    }

    #[inline(always)]
    fn last_layer(self) -> &'a Layer {
        &self.filter.layers[usize::from(self.filter.bumping) % (MAX_BUMPING_LAYERS + 1)]
    }

    /// Word `index` of the payload.
    ///
    /// # Safety
    ///
    /// A word of a layer's columns or thresholds.
    #[inline(always)]
    unsafe fn word(self, index: u64) -> *const [u8; 8] {
        // SAFETY: the payload has all words of all layers.
        unsafe { self.words.add(index as usize) }
    }
}

/// Whether the key of `hash` may have been added.
#[inline]
pub(crate) fn may_contain(view: FilterView<'_>, hash: KeyHash) -> bool {
    dispatch_generic!(driver::may_contain, self, portable::may_contain, (view: FilterView<'_>, hash: KeyHash) -> bool)
}

/// [`may_contain`] for a key that the first layer does not hold: one of 25, and all of a filter with one layer.
///
/// Out of line, so that the others need no stack frame.
#[cold]
#[inline(never)]
fn may_contain_after_first(view: FilterView<'_>, hash: KeyHash) -> bool {
    dispatch_generic!(
        driver::may_contain_after_first, self, portable::may_contain_after_first,
        (view: FilterView<'_>, hash: KeyHash) -> bool
    )
}

/// Probes many: bit `i % 64` of word `i / 64` of `matches` becomes the answer for hash `i`.
pub(crate) fn may_contain_batch(view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    dispatch_generic!(
        batch::may_contain_batch, self, portable::may_contain_batch,
        (view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64])
    );
}
