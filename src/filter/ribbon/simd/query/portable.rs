//! Plain Rust, without a population count: the default build of x86-64 has no instruction for it.

use super::driver::{self, Coefficients, Fours, Kernel, Words};
use super::{FilterView, batch};
use crate::filter::{AnyShape, OpenShape};
use crate::hash::KeyHash;

struct Portable;

impl Kernel for Portable {
    const HAS_COPIES: bool = false;

    #[inline(always)]
    unsafe fn agree(words: Words, next: usize, count: usize, coefficients: Coefficients, arranged: u64) -> bool {
        // SAFETY: the caller promises it.
        let columns = unsafe { Fours::new(words, next, count) };
        let mut masked = [0; 8];
        for column in 0..4 {
            masked[column] = leave(columns.here[0][column], columns.next[0][column], coefficients);
            masked[4 + column] = leave(columns.here[1][column], columns.next[1][column], coefficients);
        }
        parities(&masked) == arranged as u8
    }
}

/// Masks a column of two blocks by the coefficients, and adds them.
#[inline(always)]
fn leave(here: [u8; 8], next: [u8; 8], coefficients: Coefficients) -> u64 {
    (u64::from_le_bytes(here) & coefficients.here) ^ (u64::from_le_bytes(next) & coefficients.next)
}

pub(super) fn probe(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    // A call, unlike in the vector versions: it takes little of the time here.
    let AnyShape::Ribbon(shape) = &open.any else { return true };
    shape.view(data).is_none_or(|view| may_contain(view, hash))
}

// Not inlined, to keep the functions that choose a set small.
#[inline(never)]
pub(super) fn may_contain(view: FilterView<'_>, hash: KeyHash) -> bool {
    // SAFETY: plain Rust runs everywhere.
    unsafe { driver::may_contain::<Portable>(view, hash) }
}

#[inline(never)]
pub(super) fn may_contain_after_first(view: FilterView<'_>, hash: KeyHash) -> bool {
    // SAFETY: as above.
    unsafe { driver::may_contain_after_first::<Portable>(view, hash) }
}

pub(super) fn may_contain_batch(view: FilterView<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    // SAFETY: as above.
    unsafe { batch::may_contain_batch::<Portable>(view, hashes, matches) };
}

/// Returns the parity of each of eight words: bit `i` is the parity of `words[i]`.
///
/// Three steps fold two words into one, each word then taking half the bits, until every word is one byte; three more
/// fold all eight bytes at once.
#[inline]
fn parities(words: &[u64; 8]) -> u8 {
    let &[w0, w1, w2, w3, w4, w5, w6, w7] = words;
    let halves = [fold::<32>(w0, w4), fold::<32>(w1, w5), fold::<32>(w2, w6), fold::<32>(w3, w7)];
    let quarters = [fold::<16>(halves[0], halves[2]), fold::<16>(halves[1], halves[3])];
    let mut bytes = fold::<8>(quarters[0], quarters[1]);
    bytes ^= bytes >> 4;
    bytes ^= bytes >> 2;
    bytes ^= bytes >> 1;
    // Bit 8i moves to bit 56 + i.
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Folds every field of `2 x WIDTH` bits into its lower half (from `low`) or upper half (from `high`).
#[inline]
const fn fold<const WIDTH: u32>(low: u64, high: u64) -> u64 {
    // Ones in the lower half of each field: 2^WIDTH - 1 repeated every 2 x WIDTH bits.
    let mask = u64::MAX / ((1 << WIDTH) + 1);
    ((low ^ low >> WIDTH) & mask) | ((high ^ high << WIDTH) & !mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;

    #[test]
    fn each_bit_is_the_parity_of_its_word() {
        for seed in 0..1_000 {
            let words: [u64; 8] = core::array::from_fn(|index| mix64(seed * 8 + index as u64));
            for (index, word) in words.iter().enumerate() {
                assert_eq!(u32::from(parities(&words) >> index & 1), word.count_ones() % 2, "{words:x?}");
            }
        }
        for bit in 0..512 {
            let mut words = [0; 8];
            words[bit / 64] = 1_u64 << (bit % 64);
            assert_eq!(parities(&words), 1 << (bit / 64));
        }
    }
}
