//! AVX2: numbers are compared as signed ones, with their highest bit flipped.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
    _mm256_or_si256, _mm256_set1_epi64x, _mm256_xor_si256,
};

use super::{LANES, Ranges, Within};

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn within(number: u64, ranges: &[Ranges]) -> Within {
    let flip = _mm256_set1_epi64x(i64::MIN);
    let number = _mm256_xor_si256(_mm256_set1_epi64x(number.cast_signed()), flip);
    let mut within = Within::default();
    for (chunk, ranges) in ranges.iter().take(64 / LANES).enumerate() {
        let (smallest, _) = ranges.smallest.as_chunks::<4>();
        let (largest, _) = ranges.largest.as_chunks::<4>();
        for (half, (smallest, largest)) in smallest.iter().zip(largest).enumerate() {
            let smallest = _mm256_xor_si256(load(smallest), flip);
            let largest = _mm256_xor_si256(load(largest), flip);
            let outside = _mm256_or_si256(_mm256_cmpgt_epi64(smallest, number), _mm256_cmpgt_epi64(number, largest));
            let strictly = _mm256_and_si256(_mm256_cmpgt_epi64(number, smallest), _mm256_cmpgt_epi64(largest, number));
            let shift = chunk * LANES + half * 4;
            within.inside |= (signs(outside) ^ 0b1111) << shift;
            within.strictly_inside |= signs(strictly) << shift;
        }
    }
    within
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(numbers: &[u64; 4]) -> __m256i {
    // SAFETY: four numbers are 32 bytes; `loadu` takes any alignment.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

/// The highest bit of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn signs(lanes: __m256i) -> u64 {
    u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)).cast_unsigned())
}
