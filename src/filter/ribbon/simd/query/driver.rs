//! The query, for any instruction set.

use super::FilterView;
use crate::filter::ribbon::equation::{
    BUCKET_SLOTS, THRESHOLDS, WIDTH, bumping_start, coefficients, final_layer_hash, next_layer_hash, result,
};
use crate::filter::ribbon::layer::Layer;
use crate::hash::KeyHash;

/// Four columns of a block.
pub(super) type Four = [[u8; 8]; 4];

/// Columns compared at once: two AVX2 vectors of words, and a byte of the expected result.
pub(super) const COLUMNS_AT_ONCE: usize = 8;

/// Eight columns of two neighbouring blocks, in two fours that may overlap.
pub(super) struct Eight<'a> {
    /// Both fours in the block where the equation starts.
    pub(super) here: [&'a Four; 2],
    /// Both fours in the block after it.
    pub(super) next: [&'a Four; 2],
}

/// The coefficients of an equation, split over two blocks.
#[derive(Clone, Copy)]
pub(super) struct Coefficients {
    pub(super) here: u64,
    pub(super) next: u64,
}

/// A key's equation in one layer, placed in the payload.
#[derive(Clone, Copy)]
pub(super) struct Equation {
    /// First word of the block where it starts.
    pub(super) word: u64,
    /// Words from there to the next block; 0 when that is not needed.
    pub(super) next: u64,
    /// Columns of the block.
    pub(super) count: u64,
    pub(super) coefficients: Coefficients,
    /// The result, column 0 in the lowest bit.
    pub(super) expected: u64,
}

impl Equation {
    /// The equation of `hash` that starts at slot `start` of a layer where most blocks have `upper` columns.
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
    /// Whether all eight parities equal the low eight bits of `expected`, the first four in the lowest bits.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn agree(columns: &Eight<'_>, coefficients: Coefficients, expected: u64) -> bool;
}

/// See [`super::may_contain`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain<K: Kernel>(view: &FilterView<'_>, hash: KeyHash) -> bool {
    let hash = hash.get();
    // SAFETY: the caller's.
    unsafe {
        let Some(first) = view.bumping.first() else { return final_holds::<K>(view, hash) };
        let start = bumping_start(hash, first.slots);
        match bumps(view, first, start) {
            Some(false) => holds::<K>(view, first, hash, start),
            Some(true) => may_contain_after_first::<K>(view, hash),
            None => true,
        }
    }
}

/// Probes the other layers for a key that the first layer has bumped.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_after_first<K: Kernel>(view: &FilterView<'_>, mut hash: u64) -> bool {
    for layer in view.bumping.iter().skip(1) {
        hash = next_layer_hash(hash);
        let start = bumping_start(hash, layer.slots);
        match bumps(view, layer, start) {
            // SAFETY: the caller's.
            Some(false) => return unsafe { holds::<K>(view, layer, hash, start) },
            Some(true) => {}
            None => return true,
        }
    }
    // SAFETY: the caller's.
    unsafe { final_holds::<K>(view, hash) }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn final_holds<K: Kernel>(view: &FilterView<'_>, hash: u64) -> bool {
    let hash = final_layer_hash(hash, view.salt);
    // SAFETY: the caller's.
    unsafe { holds::<K>(view, view.last, hash, view.last.start(hash)) }
}

/// Whether `layer` bumps keys that start at `start`; `None` when the payload is too short.
#[inline(always)]
fn bumps(view: &FilterView<'_>, layer: &Layer, start: u64) -> Option<bool> {
    let bucket = start / BUCKET_SLOTS;
    let word = usize::try_from(layer.threshold_word.checked_add(bucket / 32)?).ok()?;
    let code = u64::from_le_bytes(*view.words.get(word)?) >> (bucket % 32 * 2) & 3;
    Some(start % BUCKET_SLOTS < u64::from(THRESHOLDS[code as usize & 3]))
}

/// Whether the equation of `hash` at `start` of `layer` holds; `true` when the payload is too short.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn holds<K: Kernel>(view: &FilterView<'_>, layer: &Layer, hash: u64, start: u64) -> bool {
    let equation = Equation::new(layer, view.upper, hash, start);
    let Ok(word) = usize::try_from(equation.word) else { return true };
    let length = (equation.next + equation.count) as usize;
    let Some(words) = view.words.get(word..word.saturating_add(length)) else { return true };
    // SAFETY: the set is the caller's; `words` has `next + count` words.
    unsafe { columns_hold::<K>(words.as_ptr(), &equation) }
}

/// Whether the parities of the columns at `words`, where the equation's block begins, and of those of the next block
/// equal the lowest bits of what is expected.
///
/// # Safety
///
/// The CPU must have the set; `next + count` words must be there.
#[inline(always)]
pub(super) unsafe fn columns_hold<K: Kernel>(words: *const [u8; 8], equation: &Equation) -> bool {
    let &Equation { next, count, coefficients, expected, .. } = equation;
    let (next, count) = (next as usize, count as usize);
    // SAFETY: the caller's, and the ranges of `count`.
    unsafe {
        match count {
            0..4 => few_columns_hold::<K>(words, next, count, coefficients, expected),
            4..=COLUMNS_AT_ONCE => {
                K::agree(&eight(words, next, 0, count - 4), coefficients, overlap(expected, count as u64))
            }
            _ => many_columns_hold::<K>(words, next, count, coefficients, expected),
        }
    }
}

/// The first four of the lowest `count` bits (4 to 8), and in bits 4 to 7 the last four: the two loads of four columns
/// overlap, so they read nothing beyond the block.
#[inline(always)]
pub(super) const fn overlap(expected: u64, count: u64) -> u64 {
    (expected & 0xf) | (expected >> (count - 4) & 0xf) << 4
}

/// The eight columns in the fours at `first` and `first + distance`.
///
/// # Safety
///
/// `next + first + distance + 4` words must be there.
#[inline(always)]
pub(super) unsafe fn eight<'a>(words: *const [u8; 8], next: usize, first: usize, distance: usize) -> Eight<'a> {
    // SAFETY: the caller's; a four has the alignment of a byte.
    unsafe {
        let here = words.add(first);
        let next = here.add(next);
        Eight { here: [&*here.cast(), &*here.add(distance).cast()], next: [&*next.cast(), &*next.add(distance).cast()] }
    }
}

/// [`columns_hold`] for fewer than four columns.
///
/// # Safety
///
/// As there.
#[inline(always)]
unsafe fn few_columns_hold<K: Kernel>(
    words: *const [u8; 8],
    next: usize,
    count: usize,
    coefficients: Coefficients,
    expected: u64,
) -> bool {
    let mut padded = [[0; 8]; 2 * 4];
    for column in 0..count.min(3) {
        // SAFETY: the caller's.
        unsafe {
            padded[column] = *words.add(column);
            padded[4 + column] = *words.add(next + column);
        }
    }
    let expected = overlap(expected & ((1 << count) - 1), 4);
    // SAFETY: the set is the caller's; there are eight words.
    unsafe { K::agree(&eight(padded.as_ptr(), 4, 0, 0), coefficients, expected) }
}

/// [`columns_hold`] for more than eight columns.
///
/// # Safety
///
/// As there.
#[inline(always)]
unsafe fn many_columns_hold<K: Kernel>(
    words: *const [u8; 8],
    next: usize,
    count: usize,
    coefficients: Coefficients,
    expected: u64,
) -> bool {
    let mut all_agree = true;
    let mut first = 0;
    while first < count {
        // The last eight overlap those before them.
        let at = first.min(count - COLUMNS_AT_ONCE);
        // SAFETY: the caller's; at + 8 <= count.
        all_agree &= unsafe { K::agree(&eight(words, next, at, 4), coefficients, expected >> at) };
        first += COLUMNS_AT_ONCE;
    }
    all_agree
}
