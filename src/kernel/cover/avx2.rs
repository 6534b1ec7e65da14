//! AVX2: a line is two vectors, tested together by one `vptest`.

use std::arch::x86_64::{__m256i, _mm256_andnot_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_testz_si256};

use super::Candidate;
use crate::kernel::line::LineMask;
use crate::kernel::prefetch::prefetch;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn covered<'a>(mask: &LineMask, candidates: impl Iterator<Item = Candidate<'a>>) -> u64 {
    // SAFETY: a mask is 64 bytes.
    let wanted = unsafe { load(mask.as_ptr().cast()) };
    let mut places = 0;
    for Candidate { place, line, ahead } in candidates {
        let covers = match line {
            // SAFETY: a line is 64 bytes.
            Some(line) => lacks_none(unsafe { load(line.as_ptr()) }, wanted),
            None => true,
        };
        places |= u64::from(covers) << (place % 64);
        if let Some(ahead) = ahead {
            prefetch(ahead);
        }
    }
    places
}

/// Two vectors from `bytes` on, at any alignment.
///
/// # Safety
///
/// 64 bytes can be read there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(bytes: *const u8) -> [__m256i; 2] {
    // SAFETY: the caller's promise; `loadu` takes any alignment.
    unsafe { [_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())] }
}

/// Whether all bits of `wanted` are set in `line`.
#[inline]
#[target_feature(enable = "avx2")]
fn lacks_none(line: [__m256i; 2], wanted: [__m256i; 2]) -> bool {
    let missing = [_mm256_andnot_si256(line[0], wanted[0]), _mm256_andnot_si256(line[1], wanted[1])];
    let missing = _mm256_or_si256(missing[0], missing[1]);
    _mm256_testz_si256(missing, missing) == 1
}
