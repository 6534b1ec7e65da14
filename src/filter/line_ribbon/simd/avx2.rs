//! AVX2 with BMI2.

use core::arch::x86_64::*;

use super::solver::Tables;
use super::{Line, Set, functions_of_set};

pub(super) struct Avx2;

functions_of_set!(Avx2, #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]);

impl Set for Avx2 {
    type Solver = Tables<Self>;

    #[inline(always)]
    unsafe fn parities(line: &Line, coefficients: u64) -> u8 {
        // SAFETY: the caller promises the set; a line has four vectors of 16 bytes.
        unsafe {
            let words = |pair: usize| _mm_loadu_si128(line.as_ptr().add(16 * pair).cast());
            let both = |low, high| {
                let all = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(words(low)), words(high));
                _mm256_castsi256_ps(all)
            };
            // Words 0, 1, 4, 5 and 2, 3, 6, 7, so that the shuffles give the halves of words 0 to 7 in order.
            let (even, odd) = (both(0, 2), both(1, 3));
            let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(even, odd));
            let high = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(even, odd));
            let mut sums = _mm256_xor_si256(
                _mm256_and_si256(low, _mm256_set1_epi32(coefficients as i32)),
                _mm256_and_si256(high, _mm256_set1_epi32((coefficients >> 32) as i32)),
            );
            sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<16>(sums));
            sums = _mm256_xor_si256(sums, _mm256_slli_epi32::<8>(sums));
            sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<4>(sums));
            let nibbles = _mm256_and_si256(sums, _mm256_set1_epi8(15));
            // The parity of a nibble becomes the sign of its byte.
            let odd = _mm_setr_epi8(0, -1, -1, 0, -1, 0, 0, -1, -1, 0, 0, -1, 0, -1, -1, 0);
            let parities = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(odd), nibbles);
            _mm256_movemask_ps(_mm256_castsi256_ps(parities)).cast_unsigned() as u8
        }
    }

    #[inline(always)]
    unsafe fn extract(words: &[u64; 64], mask: u64) -> [u8; 64] {
        // SAFETY: the caller promises the set.
        words.map(|word| unsafe { _pext_u64(word, mask) } as u8)
    }
}
