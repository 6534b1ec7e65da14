//! The query, for any instruction set.

use super::{Layer, Table};
use crate::hash::KeyHash;
use crate::kernel::equation::{
    BUCKET_SLOTS, THRESHOLDS, WIDTH, bumping_start, coefficients, final_layer_hash, final_start, next_layer_hash,
    result,
};

/// Four columns of a block.
pub(super) type Four = [[u8; 8]; 4];

/// Columns compared at once.
pub(super) const GROUP: usize = 8;

/// Eight columns of two neighbouring blocks, in two fours that may overlap.
pub(super) struct Eight<'a> {
    /// Both fours in the block where the equation starts.
    pub(super) here: [&'a Four; 2],
    /// Both fours in the block after it.
    pub(super) next: [&'a Four; 2],
}

/// The coefficients of an equation, as they lie over two blocks.
#[derive(Clone, Copy)]
pub(super) struct Coefficients {
    pub(super) here: u64,
    pub(super) next: u64,
}

/// What each instruction set has to bring.
pub(super) trait Kernel {
    /// Whether all eight parities are those of the low eight bits of `expected`, the first four's lowest.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn agree(columns: &Eight<'_>, coefficients: Coefficients, expected: u32) -> bool;
}

/// See [`super::may_contain`].
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain<K: Kernel>(table: &Table<'_>, hash: KeyHash) -> bool {
    let hash = hash.get();
    // SAFETY: the caller's.
    unsafe {
        let Some(first) = table.bumping.first() else { return final_holds::<K>(table, hash) };
        let start = bumping_start(hash, first.slots);
        match bumps(table, first, start) {
            Some(false) => holds::<K>(table, first, hash, start),
            Some(true) => may_contain_after_first::<K>(table, hash),
            None => true,
        }
    }
}

/// Asks for a key that the first layer has bumped in the others.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
pub(super) unsafe fn may_contain_after_first<K: Kernel>(table: &Table<'_>, mut hash: u64) -> bool {
    for layer in table.bumping.iter().skip(1) {
        hash = next_layer_hash(hash);
        let start = bumping_start(hash, layer.slots);
        match bumps(table, layer, start) {
            // SAFETY: the caller's.
            Some(false) => return unsafe { holds::<K>(table, layer, hash, start) },
            Some(true) => {}
            None => return true,
        }
    }
    // SAFETY: the caller's.
    unsafe { final_holds::<K>(table, hash) }
}

/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn final_holds<K: Kernel>(table: &Table<'_>, hash: u64) -> bool {
    let hash = final_layer_hash(hash, table.salt);
    // SAFETY: the caller's.
    unsafe { holds::<K>(table, table.last, hash, final_start(hash, table.last.slots)) }
}

/// Whether `layer` passes keys that start at `start` on to the next layer; `None` when the payload is too short.
#[inline(always)]
fn bumps(table: &Table<'_>, layer: &Layer, start: u64) -> Option<bool> {
    let bucket = start / BUCKET_SLOTS;
    let word = usize::try_from(layer.threshold_word.checked_add(bucket / 32)?).ok()?;
    let code = u64::from_le_bytes(*table.words.get(word)?) >> (bucket % 32 * 2) & 3;
    Some(start % BUCKET_SLOTS < u64::from(THRESHOLDS[code as usize & 3]))
}

/// First word of the block of `start`, and how many columns it has.
#[inline(always)]
fn block_of(start: u64, layer: &Layer, upper: u8) -> (u64, usize) {
    let block = start / WIDTH;
    let word = layer.first_word + block * u64::from(upper) - block.min(layer.lower_blocks);
    (word, usize::from(upper - u8::from(block < layer.lower_blocks)))
}

/// Whether the equation of `hash` at `start` of `layer` holds; `true` when the payload is too short.
///
/// # Safety
///
/// The CPU must have the set.
#[inline(always)]
unsafe fn holds<K: Kernel>(table: &Table<'_>, layer: &Layer, hash: u64, start: u64) -> bool {
    let (word, count) = block_of(start, layer, table.upper);
    let shift = start % WIDTH;
    // An equation that fills its own block does not reach the next, which may not exist.
    let next = if shift == 0 { 0 } else { count };
    let Ok(word) = usize::try_from(word) else { return true };
    let Some(words) = table.words.get(word..word.saturating_add(next + count)) else { return true };
    let expected = result(hash);
    // SAFETY: the set is the caller's; `words` has `next + count` words.
    unsafe { columns_hold::<K>(words.as_ptr(), next, count, coefficients_over(hash, shift), expected) }
}

/// The coefficients of an equation that starts `shift` slots into a block.
#[inline(always)]
fn coefficients_over(hash: u64, shift: u64) -> Coefficients {
    let all = coefficients(hash);
    Coefficients { here: all << shift, next: all >> 1 >> (WIDTH - 1 - shift) }
}

/// Whether the parities of the columns at `words` and `next` words behind them are the lowest `count` bits of
/// `expected`.
///
/// # Safety
///
/// The CPU must have the set; `next + count` words must be there.
#[inline(always)]
pub(super) unsafe fn columns_hold<K: Kernel>(
    words: *const [u8; 8],
    next: usize,
    count: usize,
    coefficients: Coefficients,
    expected: u32,
) -> bool {
    // SAFETY: the caller's, and the ranges of `count`.
    unsafe {
        match count {
            0..4 => few_columns_hold::<K>(words, next, count, coefficients, expected),
            4..=GROUP => K::agree(&eight(words, next, 0, count - 4), coefficients, overlap(expected, count)),
            _ => many_columns_hold::<K>(words, next, count, coefficients, expected),
        }
    }
}

/// Of the lowest `count` bits (4 to 8) the first four and, in bits 4 to 7, the last four.
#[inline(always)]
const fn overlap(expected: u32, count: usize) -> u32 {
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
    expected: u32,
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
    expected: u32,
) -> bool {
    let mut all_agree = true;
    let mut first = 0;
    while first < count {
        // The last eight overlap those before them.
        let at = first.min(count - GROUP);
        // SAFETY: the caller's; at + 8 <= count.
        all_agree &= unsafe { K::agree(&eight(words, next, at, 4), coefficients, expected >> at) };
        first += GROUP;
    }
    all_agree
}
