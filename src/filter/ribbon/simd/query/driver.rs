//! The query of one key, for any instruction set.

use super::{Filter, FilterView};
use crate::filter::ribbon::equation::{
    BUCKET_SLOTS, THRESHOLDS, WIDTH, bumping_start, coefficients, final_layer_hash, next_layer_hash, result,
};
use crate::filter::ribbon::layer::Layer;
use crate::filter::{AnyShape, OpenShape};
use crate::hash::KeyHash;

/// A pointer to the first of several words of a payload.
pub(super) type Words = *const [u8; 8];

/// Four columns of a block.
pub(super) type Four = [[u8; 8]; 4];

/// The maximum number of columns compared at once: two AVX2 vectors of words, and a byte of the expected result.
pub(super) const COLUMNS_AT_ONCE: usize = 8;

/// Four to eight columns of two neighbouring blocks, in two fours. If there are fewer than eight columns, the fours
/// overlap, so that nothing is read beyond the block.
pub(super) struct Fours<'a> {
    /// Both fours in the block where the equation starts.
    pub(super) here: [&'a Four; 2],
    /// Both fours in the next block.
    pub(super) next: [&'a Four; 2],
}

impl Fours<'_> {
    /// Returns `count` columns, 4 to 8, from `words` on; the next block begins `next` words further.
    ///
    /// # Safety
    ///
    /// `next + count` words must be readable.
    #[inline(always)]
    pub(super) unsafe fn new(words: Words, next: usize, count: usize) -> Self {
        // SAFETY: the caller promises it; a four has the alignment of a byte.
        unsafe {
            let (next, distance) = (words.add(next), count - 4);
            Self {
                here: [&*words.cast(), &*words.add(distance).cast()],
                next: [&*next.cast(), &*next.add(distance).cast()],
            }
        }
    }
}

/// The coefficients of an equation, split over two blocks.
#[derive(Clone, Copy)]
pub(super) struct Coefficients {
    pub(super) here: u64,
    pub(super) next: u64,
}

/// A key's equation in one layer, with its position in the payload.
#[derive(Clone, Copy)]
pub(super) struct Equation {
    /// The first word of the block where it starts.
    pub(super) word: u64,
    /// The distance in words to the next block; 0 if the equation does not reach it.
    pub(super) next: u64,
    /// The number of columns of the block.
    pub(super) count: u64,
    pub(super) coefficients: Coefficients,
    /// The result, column 0 in the lowest bit.
    pub(super) expected: u64,
}

impl Equation {
    /// Returns the equation of `hash` that starts at slot `start` of a layer whose blocks mostly have `upper` columns.
    #[inline(always)]
    pub(super) fn new(layer: &Layer, upper: u8, hash: u64, start: u64) -> Self {
        let shift = start % WIDTH;
        let (word, count) = layer.block(start / WIDTH, upper);
        // An equation that fills its own block does not reach the next, which may not exist.
        let next = if shift == 0 { 0 } else { count };
        let all = coefficients(hash);
        let coefficients = Coefficients { here: all << shift, next: all >> 1 >> (WIDTH - 1 - shift) };
        Self { word, next, count, coefficients, expected: result(hash).into() }
    }
}

/// The operation that each instruction set implements.
pub(super) trait Kernel {
    /// Whether the loop over many keys has copies for the usual numbers of columns. Each takes some kilobytes.
    const HAS_COPIES: bool = true;

    /// Arranges the lowest `count` bits of `expected`, 4 to 8, as [`agree`](Self::agree) compares them. By default in
    /// the order of [`Fours`]: the first four, and in bits 4 to 7 the last four. A set with another order overrides
    /// this.
    #[inline(always)]
    fn arrange(expected: u64, count: u64) -> u64 {
        (expected & 0xf) | (expected >> (count - 4) & 0xf) << 4
    }

    /// Returns whether the parities of `count` columns, 4 to 8, equal the bits in `arranged`. The columns begin at
    /// `words`, those of the next block `next` words further.
    ///
    /// # Safety
    ///
    /// The CPU must have the set; `next + count` words must be readable.
    unsafe fn agree(words: Words, next: usize, count: usize, coefficients: Coefficients, arranged: u64) -> bool;
}

/// Probes an open block: a [`SingleProbe`](crate::filter::SingleProbe).
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn probe<K: Kernel>(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    let AnyShape::Ribbon(shape) = &open.any else { return true };
    // SAFETY: the caller promises the set.
    shape.view(data).is_none_or(|view| unsafe { may_contain::<K>(view, hash) })
}

/// See [`super::may_contain`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain<K: Kernel>(view: FilterView<'_>, hash: KeyHash) -> bool {
    let Filter { layers: [first, ..], bumping, .. } = view.filter;
    // SAFETY: the caller promises the set; the layer bumps, and `start` is one of its starts.
    unsafe {
        if *bumping == 0 {
            return final_holds::<K>(view, first, hash.get());
        }
        let start = bumping_start(hash.get(), first.slots);
        if bumps(view, first, start) {
            return super::may_contain_after_first(view, hash);
        }
        holds::<K>(view, first, hash.get(), start)
    }
}

/// See [`super::may_contain_after_first`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_after_first<K: Kernel>(view: FilterView<'_>, hash: KeyHash) -> bool {
    let mut hash = hash.get();
    for layer in view.later_layers() {
        hash = next_layer_hash(hash);
        let start = bumping_start(hash, layer.slots);
        // SAFETY: the caller promises the set; the layer bumps, and `start` is one of its starts.
        unsafe {
            if !bumps(view, layer, start) {
                return holds::<K>(view, layer, hash, start);
            }
        }
    }
    // SAFETY: the caller promises the set.
    unsafe { final_holds::<K>(view, view.last_layer(), hash) }
}

/// # Safety
///
/// The CPU must have the set, and `layer` must be the view's last.
#[inline(always)]
unsafe fn final_holds<K: Kernel>(view: FilterView<'_>, layer: &Layer, hash: u64) -> bool {
    let hash = final_layer_hash(hash, view.filter.salt);
    // SAFETY: the caller promises the set, and the start is one of the layer's.
    unsafe { holds::<K>(view, layer, hash, layer.start(hash)) }
}

/// Returns whether `layer` bumps keys that start at `start`.
///
/// # Safety
///
/// `layer` must be a bumping layer of the view, and `start` one of its starts.
#[inline(always)]
unsafe fn bumps(view: FilterView<'_>, layer: &Layer, start: u64) -> bool {
    let bucket = start / BUCKET_SLOTS;
    // SAFETY: each bucket in which an equation starts has a code.
    let word = unsafe { *view.word(layer.threshold_word + bucket / 32) };
    let code = u64::from_le_bytes(word) >> (bucket % 32 * 2) & 3;
    start % BUCKET_SLOTS < u64::from(THRESHOLDS[code as usize & 3])
}

/// Returns whether the equation of `hash` at `start` of `layer` holds.
///
/// # Safety
///
/// The CPU must have the set; `layer` must be a layer of the view, and `start` one of its starts.
#[inline(always)]
unsafe fn holds<K: Kernel>(view: FilterView<'_>, layer: &Layer, hash: u64, start: u64) -> bool {
    let equation = Equation::new(layer, view.filter.upper, hash, start);
    // SAFETY: the caller promises the set. A start is at least 64 slots before the layer's end: its block lies in the
    // layer, and the one after it too, unless `next` is 0.
    unsafe { columns_hold::<K>(view.word(equation.word), &equation) }
}

/// Returns whether the columns at `words`, where the equation's block begins, and those of the next block have the
/// expected parities.
///
/// # Safety
///
/// The CPU must have the set; `next + count` words must be readable.
#[inline(always)]
pub(super) unsafe fn columns_hold<K: Kernel>(words: Words, equation: &Equation) -> bool {
    let &Equation { next, count, coefficients, expected, .. } = equation;
    // SAFETY: the caller promises it, and each arm has the range of `count` that it needs.
    unsafe {
        match count as usize {
            0..4 => few_columns_hold::<K>(words, equation),
            4..=COLUMNS_AT_ONCE => {
                K::agree(words, next as usize, count as usize, coefficients, K::arrange(expected, count))
            }
            _ => many_columns_hold::<K>(words, equation),
        }
    }
}

/// Like [`columns_hold`], for fewer than four columns: copies them to a buffer that can be read as fours.
///
/// # Safety
///
/// As for [`columns_hold`].
#[inline(always)]
unsafe fn few_columns_hold<K: Kernel>(words: Words, equation: &Equation) -> bool {
    let &Equation { coefficients, expected, .. } = equation;
    let (next, count) = (equation.next as usize, equation.count as usize);
    let mut padded = [[0; 8]; 2 * 4];
    for column in 0..count.min(3) {
        // SAFETY: the caller promises it.
        unsafe {
            padded[column] = *words.add(column);
            padded[4 + column] = *words.add(next + column);
        }
    }
    let arranged = K::arrange(expected & ((1 << count) - 1), 4);
    // SAFETY: the caller promises the set; there are eight words.
    unsafe { K::agree(padded.as_ptr(), 4, 4, coefficients, arranged) }
}

/// Like [`columns_hold`], for more than eight columns.
///
/// # Safety
///
/// As for [`columns_hold`].
#[inline(always)]
unsafe fn many_columns_hold<K: Kernel>(words: Words, equation: &Equation) -> bool {
    let &Equation { coefficients, expected, .. } = equation;
    let (next, count) = (equation.next as usize, equation.count as usize);
    let mut all_agree = true;
    let mut first = 0;
    while first < count {
        // The last eight overlap the previous ones, so that no partial group is needed.
        let at = first.min(count - COLUMNS_AT_ONCE);
        let arranged = K::arrange(expected >> at, COLUMNS_AT_ONCE as u64);
        // SAFETY: the caller promises it; at + 8 <= count.
        all_agree &= unsafe { K::agree(words.add(at), next, COLUMNS_AT_ONCE, coefficients, arranged) };
        first += COLUMNS_AT_ONCE;
    }
    all_agree
}
