//! AVX-512: one round of lanes is still a 256-bit vector (the wider form is no faster there), whose rotate takes its
//! count modulo 32; two rounds are one 512-bit vector.

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_mullo_epi32, _mm256_or_si256, _mm256_rolv_epi32, _mm256_set1_epi32, _mm256_srai_epi32,
    _mm256_srli_epi32, _mm256_testc_si256, _mm512_and_si512, _mm512_cmpneq_epi64_mask, _mm512_loadu_si512,
    _mm512_mask_blend_epi32, _mm512_mask_testn_epi32_mask, _mm512_maskz_mov_epi32, _mm512_maskz_rolv_epi32,
    _mm512_movepi32_mask, _mm512_mullo_epi32, _mm512_or_si512, _mm512_rolv_epi32, _mm512_set1_epi32,
    _mm512_shuffle_i64x2, _mm512_srli_epi32, _mm512_storeu_si512,
};

use super::avx2::{load as load_row, load_line as load_halves, store_line as store_halves};
use super::batch::{functions_of_set, line_at, line_at_mut};
use super::{ActiveRows, ActiveSets, Candidate, Line, MULTIPLIERS, active_rows, active_sets, covered_by, in_line_bits};
use crate::filter::batch::word_of;
use crate::hash::KeyHash;

functions_of_set!(all #[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt"
)]);

/// The bits of one key in its line, for keys of `ROUNDS` rounds of lanes.
#[derive(Clone, Copy)]
struct Lanes<const ROUNDS: usize> {
    /// Active lanes as vectors, for one round.
    rows: &'static ActiveRows,
    /// Active lanes as mask registers, for two rounds.
    sets: &'static ActiveSets,
}

impl<const ROUNDS: usize> Lanes<ROUNDS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn new(probes: u8) -> Self {
        Self { rows: active_rows(probes)[0], sets: active_sets(probes) }
    }

    /// Computes one round: for each lane, its product (whose sign chooses the half) and its bit, 0 if inactive.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn one_round(self, x: u32) -> (__m256i, __m256i) {
        let products = _mm256_mullo_epi32(_mm256_set1_epi32(x.cast_signed()), load_row(&MULTIPLIERS.0[0]));
        let active = load_row(&self.rows.0[(x & 7) as usize]);
        (products, _mm256_rolv_epi32(active, _mm256_srli_epi32::<26>(products)))
    }

    /// Computes two rounds: the lanes' products, and which lanes are active.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn two_rounds(self, x: u32) -> (__m512i, u16) {
        let products = _mm512_mullo_epi32(_mm512_set1_epi32(x.cast_signed()), load_multipliers());
        (products, self.sets[(x & 63) as usize])
    }

    /// Returns whether the line has all of the key's bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn contains(self, line: &Line, hash: KeyHash) -> bool {
        let x = in_line_bits(hash);
        if ROUNDS == 1 {
            let (products, bits) = self.one_round(x);
            let [low, high] = load_halves(line);
            let words = _mm256_castps_si256(_mm256_blendv_ps(
                _mm256_castsi256_ps(low),
                _mm256_castsi256_ps(high),
                _mm256_castsi256_ps(products),
            ));
            return _mm256_testc_si256(words, bits) == 1;
        }
        let (products, active) = self.two_rounds(x);
        let own = load_line(line);
        let words = _mm512_mask_blend_epi32(_mm512_movepi32_mask(products), own, swap_halves(own));
        let bits = _mm512_rolv_epi32(_mm512_set1_epi32(1), _mm512_srli_epi32::<26>(products));
        _mm512_mask_testn_epi32_mask(active, words, bits) == 0
    }

    /// Tests eight keys, each in its line: bit `i` is the answer for key `i`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn test_eight(self, lines: &[Line], keys: &[KeyHash; 8]) -> u8 {
        word_of(keys.iter().map(|&hash| self.contains(line_at(lines, hash), hash))) as u8
    }

    /// Sets the key's bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn set(self, line: &mut Line, hash: &KeyHash) {
        let x = in_line_bits(*hash);
        if ROUNDS == 1 {
            let (products, bits) = self.one_round(x);
            let [low, high] = load_halves(line);
            // Arithmetic shift: the sign becomes a mask of all bits. The bit goes to the own half, or to the partner's
            // if the product is negative.
            let negative = _mm256_srai_epi32::<31>(products);
            let low = _mm256_or_si256(low, _mm256_andnot_si256(negative, bits));
            let high = _mm256_or_si256(high, _mm256_and_si256(negative, bits));
            return store_halves(line, [low, high]);
        }
        let (products, active) = self.two_rounds(x);
        let bits = _mm512_maskz_rolv_epi32(active, _mm512_set1_epi32(1), _mm512_srli_epi32::<26>(products));
        let negative = _mm512_movepi32_mask(products);
        let own = _mm512_maskz_mov_epi32(!negative, bits);
        let partner = swap_halves(_mm512_maskz_mov_epi32(negative, bits));
        store_line(line, _mm512_or_si512(load_line(line), _mm512_or_si512(own, partner)));
    }
}

/// Swaps words 0 to 7 and 8 to 15: the partner of each lane's word.
#[inline]
#[target_feature(enable = "avx512f")]
fn swap_halves(line: __m512i) -> __m512i {
    _mm512_shuffle_i64x2::<0b01_00_11_10>(line, line)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_multipliers() -> __m512i {
    // SAFETY: 64 bytes are readable there; `loadu` takes any alignment.
    unsafe { _mm512_loadu_si512((&raw const MULTIPLIERS).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_line(line: &Line) -> __m512i {
    // SAFETY: a line is 64 bytes; `loadu` takes any alignment.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_line(line: &mut Line, words: __m512i) {
    // SAFETY: a line is 64 bytes, borrowed for writing; `storeu` takes any alignment.
    unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), words) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn covered<'a>(mask: &Line, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    let wanted = load_line(mask);
    covered_by(candidates, |line| _mm512_cmpneq_epi64_mask(_mm512_and_si512(load_line(line), wanted), wanted) == 0)
}
