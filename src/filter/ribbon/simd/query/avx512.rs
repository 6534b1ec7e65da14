//! AVX-512: eight columns in one vector of eight words, with a population count of each.

use core::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_and_si512, _mm512_castsi256_si512, _mm512_inserti64x4, _mm512_popcnt_epi64,
    _mm512_set1_epi64, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
};

use super::driver::{Coefficients, Eight, Four, Kernel};

pub(super) struct Avx512;

/// `a ^ (b & c)`, as a view of its eight cases.
const A_XOR_B_AND_C: i32 = 0x78;

impl Kernel for Avx512 {
    #[inline(always)]
    unsafe fn agree(columns: &Eight<'_>, coefficients: Coefficients, expected: u64) -> bool {
        // SAFETY: the set is the caller's.
        unsafe {
            let here = _mm512_set1_epi64(coefficients.here.cast_signed());
            let next = _mm512_set1_epi64(coefficients.next.cast_signed());
            let masked = _mm512_and_si512(load(columns.here), here);
            let masked = _mm512_ternarylogic_epi64::<A_XOR_B_AND_C>(masked, load(columns.next), next);
            let parities = _mm512_test_epi64_mask(_mm512_popcnt_epi64(masked), _mm512_set1_epi64(1));
            parities == expected as u8
        }
    }
}

/// # Safety
///
/// The CPU must have AVX-512 F.
#[inline(always)]
unsafe fn load([low, high]: [&Four; 2]) -> __m512i {
    // SAFETY: the caller's; a four has 32 bytes.
    unsafe {
        let low = _mm256_loadu_si256(low.as_ptr().cast());
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), _mm256_loadu_si256(high.as_ptr().cast()))
    }
}
