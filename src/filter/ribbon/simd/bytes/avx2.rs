//! Vectors of 32 lanes.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_permute2x128_si256,
    _mm256_permute4x64_epi64, _mm256_set_epi64x, _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setr_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi16, _mm256_srli_epi16, _mm256_storeu_si256,
    _mm256_subs_epu8, _mm256_unpackhi_epi16, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi16,
    _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use super::{ByteTable, ByteVector};

/// A vector of AVX2, which the CPU must have.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256i);

impl ByteVector for Avx2 {
    const LANES: usize = 32;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(bytes: &[u8]) -> Self {
        let bytes: &[u8; 32] = &bytes[..32].as_chunks().0[0];
        // SAFETY: 32 bytes can be read.
        unsafe { Self(_mm256_loadu_si256(bytes.as_ptr().cast())) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(self, bytes: &mut [u8]) {
        let bytes: &mut [u8; 32] = &mut bytes[..32].as_chunks_mut().0[0];
        // SAFETY: 32 bytes can be written.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), self.0) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn table(table: &ByteTable) -> Self {
        // SAFETY: 16 bytes can be read.
        unsafe { Self(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()))) }
    }

    operations! {
        "avx2",
        look_up: _mm256_shuffle_epi8,
        and: _mm256_and_si256,
        or: _mm256_or_si256,
        xor: _mm256_xor_si256,
        saturating_sub: _mm256_subs_epu8,
        min: _mm256_min_epu8,
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn upper_half(self) -> Self {
        Self(_mm256_and_si256(_mm256_srli_epi16::<4>(self.0), _mm256_set1_epi8(0xf)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn low_bits(self) -> [u64; 4] {
        // The mask instruction reads only the highest bit of a byte, so each low bit is moved there.
        let third = _mm256_slli_epi16::<4>(self.0);
        let second = _mm256_add_epi8(third, third);
        let first = _mm256_add_epi8(second, second);
        let zeroth = _mm256_add_epi8(first, first);
        [zeroth, first, second, third].map(|bits| high_bits(bits))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn non_zero(self) -> u64 {
        u64::from(u32::MAX) & !high_bits(_mm256_cmpeq_epi8(self.0, _mm256_setzero_si256()))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn transpose(words: &[u64; 16]) -> [ByteTable; 8] {
        let of = |at: usize| {
            let [a, b, c, d] = [words[at], words[at + 1], words[at + 8], words[at + 9]].map(u64::cast_signed);
            _mm256_set_epi64x(d, c, b, a)
        };
        transpose_halves([of(0), of(2), of(4), of(6)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn transpose_pairs(pairs: &[[u64; 2]; 16]) -> [[ByteTable; 8]; 2] {
        // SAFETY: two pairs can be read from each place.
        unsafe {
            let halves = |at: usize| {
                let [low, high] = [at, at + 8].map(|at| _mm256_loadu_si256(pairs[at..at + 2].as_ptr().cast()));
                let even = _mm256_permute2x128_si256::<0x20>(low, high);
                let odd = _mm256_permute2x128_si256::<0x31>(low, high);
                (_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd))
            };
            let ((f0, s0), (f2, s2), (f4, s4), (f6, s6)) = (halves(0), halves(2), halves(4), halves(6));
            [transpose_halves([f0, f2, f4, f6]), transpose_halves([s0, s2, s4, s6])]
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn sums(rows: [u64; 4]) -> [ByteTable; 8] {
        let [first, second, third, fourth] = rows.map(|row| _mm256_set1_epi64x(row.cast_signed()));
        let odd = _mm256_and_si256(first, _mm256_set_epi64x(-1, 0, -1, 0));
        let upper = _mm256_and_si256(fourth, _mm256_set_epi64x(-1, -1, 0, 0));
        let sums_0 = _mm256_xor_si256(odd, upper);
        let sums_2 = _mm256_xor_si256(sums_0, second);
        let sums_4 = _mm256_xor_si256(sums_0, third);
        let sums_6 = _mm256_xor_si256(sums_2, third);
        transpose_halves([sums_0, sums_2, sums_4, sums_6])
    }
}

/// Returns byte `b` of sixteen words as table `b`. Vector `v` holds words 2v and 2v+1 in its lower half, 2v+8 and 2v+9
/// in its upper one: the unpack operations work within halves.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_halves(words: [__m256i; 4]) -> [ByteTable; 8] {
    // SAFETY: a store goes to 32 bytes of the result.
    unsafe {
        let pair_up = _mm256_setr_epi8(
            0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15,
        );
        let [p0, p1, p2, p3] = words.map(|words| _mm256_shuffle_epi8(words, pair_up));
        let (low_01, high_01) = (_mm256_unpacklo_epi16(p0, p1), _mm256_unpackhi_epi16(p0, p1));
        let (low_23, high_23) = (_mm256_unpacklo_epi16(p2, p3), _mm256_unpackhi_epi16(p2, p3));
        let joined = [
            _mm256_unpacklo_epi32(low_01, low_23),
            _mm256_unpackhi_epi32(low_01, low_23),
            _mm256_unpacklo_epi32(high_01, high_23),
            _mm256_unpackhi_epi32(high_01, high_23),
        ];
        let mut tables = [[0; 16]; 8];
        for (pair, joined) in tables.as_chunks_mut::<2>().0.iter_mut().zip(joined) {
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(joined);
            _mm256_storeu_si256(pair.as_mut_ptr().cast(), ordered);
        }
        tables
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn high_bits(vector: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(vector).cast_unsigned())
}
