//! AVX2: eight columns in two vectors of four words.

use core::arch::x86_64::{
    __m256, __m256i, _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256,
    _mm256_movemask_ps, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setr_epi32,
    _mm256_shuffle_epi8, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_xor_si256,
};

use super::driver::{self, Coefficients, Four, Fours, Kernel, Words};
use crate::filter::OpenShape;
use crate::hash::KeyHash;

pub(super) struct Avx2;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn probe(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    // SAFETY: this function has the instructions.
    unsafe { driver::probe::<Avx2>(data, hash, open) }
}

impl Kernel for Avx2 {
    #[inline(always)]
    unsafe fn agree(words: Words, next: usize, count: usize, coefficients: Coefficients, arranged: u64) -> bool {
        // SAFETY: the caller promises it.
        unsafe {
            let columns = Fours::new(words, next, count);
            let here = _mm256_set1_epi64x(coefficients.here.cast_signed());
            let next = _mm256_set1_epi64x(coefficients.next.cast_signed());
            let low = masked(columns.here[0], here, columns.next[0], next);
            let high = masked(columns.here[1], here, columns.next[1], next);
            // Adds the two halves of each word: columns 0 1 4 5 | 2 3 6 7.
            let even = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
            let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
            let mut sums = _mm256_xor_si256(even, odd);
            sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<16>(sums));
            sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<8>(sums));
            sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<4>(sums));
            let nibbles = _mm256_and_si256(sums, _mm256_set1_epi8(0xf));
            // AVX2 has no population count, so a shuffle looks up the parity of each half byte.
            let parities = _mm256_shuffle_epi8(parity_of_nibble(), nibbles);
            let differing = _mm256_xor_si256(parities, expected_signs(arranged));
            _mm256_movemask_ps(_mm256_castsi256_ps(differing)) == 0
        }
    }
}

/// Masks four columns of two blocks by the coefficients, and adds them.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn masked(here: &Four, here_mask: __m256i, next: &Four, next_mask: __m256i) -> __m256 {
    // SAFETY: the caller promises the set; a four has 32 bytes.
    unsafe {
        let here = _mm256_and_si256(_mm256_loadu_si256(here.as_ptr().cast()), here_mask);
        let next = _mm256_and_si256(_mm256_loadu_si256(next.as_ptr().cast()), next_mask);
        _mm256_castsi256_ps(_mm256_xor_si256(here, next))
    }
}

/// Returns a table of parities by half byte, in a byte's highest bit.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn parity_of_nibble() -> __m256i {
    const ODD: i8 = i8::MIN;
    // SAFETY: the caller promises it.
    unsafe {
        _mm256_setr_epi8(
            0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0, //
            0, ODD, ODD, 0, ODD, 0, 0, ODD, ODD, 0, 0, ODD, 0, ODD, ODD, 0,
        )
    }
}

/// Returns the expected bits in the highest bits of eight lanes, in the order of the columns.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn expected_signs(expected: u64) -> __m256i {
    // SAFETY: the caller promises it.
    unsafe {
        let shifts = _mm256_setr_epi32(31, 30, 27, 26, 29, 28, 25, 24);
        _mm256_sllv_epi32(_mm256_set1_epi32(expected as i32), shifts)
    }
}
