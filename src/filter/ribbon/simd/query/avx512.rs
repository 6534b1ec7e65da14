//! AVX-512: up to eight columns in one vector of eight words, with a population count of each.

use core::arch::x86_64::{
    _mm512_and_si512, _mm512_maskz_loadu_epi64, _mm512_popcnt_epi64, _mm512_set1_epi64, _mm512_ternarylogic_epi64,
    _mm512_test_epi64_mask,
};

use super::driver::{self, Coefficients, Kernel, Words};
use crate::filter::OpenShape;
use crate::hash::KeyHash;

pub(super) struct Avx512;

#[target_feature(enable = "avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn probe(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    // SAFETY: this function has the instructions.
    unsafe { driver::probe::<Avx512>(data, hash, open) }
}

/// The truth table of `a ^ (b & c)`, which the ternary operation takes.
const A_XOR_B_AND_C: i32 = 0x78;

impl Kernel for Avx512 {
    #[inline(always)]
    fn arrange(expected: u64, count: u64) -> u64 {
        expected & ((1 << count) - 1)
    }

    #[inline(always)]
    unsafe fn agree(words: Words, next: usize, count: usize, coefficients: Coefficients, arranged: u64) -> bool {
        // SAFETY: the caller promises the set; a masked load reads only the words in its mask.
        unsafe {
            let columns = ((1_u32 << count) - 1) as u8;
            let here = _mm512_maskz_loadu_epi64(columns, words.cast());
            let over = _mm512_maskz_loadu_epi64(columns, words.add(next).cast());
            let masked = _mm512_and_si512(here, _mm512_set1_epi64(coefficients.here.cast_signed()));
            let next = _mm512_set1_epi64(coefficients.next.cast_signed());
            let masked = _mm512_ternarylogic_epi64::<A_XOR_B_AND_C>(masked, over, next);
            let parities = _mm512_test_epi64_mask(_mm512_popcnt_epi64(masked), _mm512_set1_epi64(1));
            parities == arranged as u8
        }
    }
}
