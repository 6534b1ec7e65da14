//! NEON: eight columns in four vectors of two words, added up pairwise until one byte of each word is left.

use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vcntq_u8, vdupq_n_u64, veorq_u8, vgetq_lane_u64, vld1q_u8, vpaddq_u8, vreinterpretq_u8_u64,
    vreinterpretq_u64_u8,
};

use super::driver::{self, Coefficients, Four, Fours, Kernel, Words};
use crate::filter::OpenShape;
use crate::hash::KeyHash;

pub(super) struct Neon;

#[target_feature(enable = "neon")]
pub(super) fn probe(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    // SAFETY: this function has the instructions.
    unsafe { driver::probe::<Neon>(data, hash, open) }
}

impl Kernel for Neon {
    #[inline(always)]
    unsafe fn agree(words: Words, next: usize, count: usize, coefficients: Coefficients, arranged: u64) -> bool {
        // SAFETY: the caller promises it.
        unsafe {
            let columns = Fours::new(words, next, count);
            let masks = [
                vreinterpretq_u8_u64(vdupq_n_u64(coefficients.here)),
                vreinterpretq_u8_u64(vdupq_n_u64(coefficients.next)),
            ];
            let (here, next) = (columns.here, columns.next);
            let first = vpaddq_u8(counts(here[0], next[0], masks, 0), counts(here[0], next[0], masks, 2));
            let second = vpaddq_u8(counts(here[1], next[1], masks, 0), counts(here[1], next[1], masks, 2));
            // Each step halves the bytes of a word; a count is at most 64 in the end.
            let pairs = vpaddq_u8(first, second);
            let sums = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)));
            // Bit 8i moves to bit 56 + i.
            let parities = (sums & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            parities == arranged
        }
    }
}

/// Counts the ones in each byte of the two columns from `column` on, after masking.
///
/// # Safety
///
/// The CPU must have NEON, and `column` must be at most 2.
#[inline(always)]
unsafe fn counts(here: &Four, next: &Four, masks: [uint8x16_t; 2], column: usize) -> uint8x16_t {
    // SAFETY: the caller promises the set; a four has 32 bytes, and 16 are left at `column`.
    unsafe {
        let here = vandq_u8(vld1q_u8(here.as_ptr().add(column).cast()), masks[0]);
        let next = vandq_u8(vld1q_u8(next.as_ptr().add(column).cast()), masks[1]);
        vcntq_u8(veorq_u8(here, next))
    }
}
