//! 64 lanes.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_min_epu8,
    _mm512_or_si512, _mm512_set1_epi8, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_storeu_si512, _mm512_subs_epu8,
    _mm512_test_epi8_mask, _mm512_xor_si512,
};

use super::avx2::Avx2;
use super::{ByteTable, ByteVector};

/// Must be used only where there is AVX-512 F and BW, and AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512i);

impl ByteVector for Avx512 {
    const LANES: usize = 64;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn load(bytes: &[u8]) -> Self {
        // SAFETY: the slice has 64 bytes.
        unsafe { Self(_mm512_loadu_si512(bytes[..64].as_ptr().cast())) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn store(self, bytes: &mut [u8]) {
        // SAFETY: the slice has 64 bytes.
        unsafe { _mm512_storeu_si512(bytes[..64].as_mut_ptr().cast(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn table(table: &ByteTable) -> Self {
        // SAFETY: 16 bytes can be read.
        unsafe { Self(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()))) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn look_up(table: Self, indexes: Self) -> Self {
        Self(_mm512_shuffle_epi8(table.0, indexes.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn and(self, other: Self) -> Self {
        Self(_mm512_and_si512(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn or(self, other: Self) -> Self {
        Self(_mm512_or_si512(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn xor(self, other: Self) -> Self {
        Self(_mm512_xor_si512(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn upper_half(self) -> Self {
        Self(_mm512_and_si512(_mm512_srli_epi16::<4>(self.0), _mm512_set1_epi8(0xf)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn saturating_sub(self, other: Self) -> Self {
        Self(_mm512_subs_epu8(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn min(self, other: Self) -> Self {
        Self(_mm512_min_epu8(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn low_bits(self) -> [u64; 4] {
        [1, 2, 4, 8].map(|bit| _mm512_test_epi8_mask(self.0, _mm512_set1_epi8(bit)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn non_zero(self) -> u64 {
        _mm512_test_epi8_mask(self.0, self.0)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn transpose(words: &[u64; 16]) -> [ByteTable; 8] {
        // SAFETY: this function has the instructions.
        unsafe { Avx2::transpose(words) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn transpose_pairs(pairs: &[[u64; 2]; 16]) -> [[ByteTable; 8]; 2] {
        // SAFETY: this function has the instructions.
        unsafe { Avx2::transpose_pairs(pairs) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    unsafe fn sums(words: [u64; 4]) -> [ByteTable; 8] {
        // SAFETY: this function has the instructions.
        unsafe { Avx2::sums(words) }
    }
}
