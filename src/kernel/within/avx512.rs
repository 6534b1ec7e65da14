//! AVX-512: eight unsigned comparisons give one mask.

use std::arch::x86_64::{
    __m512i, _mm512_cmpge_epu64_mask, _mm512_cmpgt_epu64_mask, _mm512_loadu_si512, _mm512_mask_cmple_epu64_mask,
    _mm512_mask_cmplt_epu64_mask, _mm512_set1_epi64,
};

use super::{LANES, Ranges, Within};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn within(number: u64, ranges: &[Ranges]) -> Within {
    let number = _mm512_set1_epi64(number.cast_signed());
    let mut within = Within::default();
    for (chunk, ranges) in ranges.iter().take(64 / LANES).enumerate() {
        let (smallest, largest) = (load(&ranges.smallest), load(&ranges.largest));
        let from_smallest = _mm512_cmpge_epu64_mask(number, smallest);
        let above_smallest = _mm512_cmpgt_epu64_mask(number, smallest);
        let inside = _mm512_mask_cmple_epu64_mask(from_smallest, number, largest);
        let strictly_inside = _mm512_mask_cmplt_epu64_mask(above_smallest, number, largest);
        within.inside |= u64::from(inside) << (chunk * LANES);
        within.strictly_inside |= u64::from(strictly_inside) << (chunk * LANES);
    }
    within
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(numbers: &[u64; LANES]) -> __m512i {
    // SAFETY: eight numbers are 64 bytes; `loadu` takes any alignment.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}
