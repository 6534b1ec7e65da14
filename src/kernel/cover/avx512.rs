//! AVX-512: a line is one vector, tested by one `vptestmq`.

use std::arch::x86_64::{__m512i, _mm512_andnot_si512, _mm512_loadu_si512, _mm512_test_epi64_mask};

use super::Candidate;
use crate::kernel::line::LineMask;
use crate::kernel::prefetch::prefetch;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn covered<'a>(mask: &LineMask, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    // SAFETY: a mask is 64 bytes; `loadu` takes any alignment.
    let wanted = unsafe { _mm512_loadu_si512(mask.as_ptr().cast()) };
    let mut places = 0;
    for Candidate { place, line, ahead } in candidates {
        let covers = match line {
            // SAFETY: a line is 64 bytes; `loadu` takes any alignment.
            Some(line) => lacks_none(unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }, wanted),
            None => true,
        };
        places |= u64::from(covers) << (place % 64);
        if let Some(ahead) = ahead {
            prefetch(ahead);
        }
    }
    places
}

/// Whether all bits of `wanted` are set in `line`.
#[inline]
#[target_feature(enable = "avx512f")]
fn lacks_none(line: __m512i, wanted: __m512i) -> bool {
    let missing = _mm512_andnot_si512(line, wanted);
    _mm512_test_epi64_mask(missing, missing) == 0
}
