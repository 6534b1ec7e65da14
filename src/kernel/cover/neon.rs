//! NEON: a line is four vectors; what they lack is gathered by `bic` and `orr`.

use std::arch::aarch64::{uint8x16_t, uint32x4_t, vbicq_u8, vld1q_u8, vmaxvq_u32, vorrq_u8, vreinterpretq_u32_u8};

use super::Candidate;
use crate::kernel::line::LineMask;
use crate::kernel::prefetch::prefetch;

#[target_feature(enable = "neon")]
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

/// Four vectors from `bytes` on, at any alignment.
///
/// # Safety
///
/// 64 bytes can be read there.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(bytes: *const u8) -> [uint8x16_t; 4] {
    // SAFETY: the caller's promise; `ld1` of bytes takes any alignment.
    unsafe { [vld1q_u8(bytes), vld1q_u8(bytes.add(16)), vld1q_u8(bytes.add(32)), vld1q_u8(bytes.add(48))] }
}

/// Whether all bits of `wanted` are set in `line`.
#[inline]
#[target_feature(enable = "neon")]
fn lacks_none(line: [uint8x16_t; 4], wanted: [uint8x16_t; 4]) -> bool {
    let low = vorrq_u8(vbicq_u8(wanted[0], line[0]), vbicq_u8(wanted[1], line[1]));
    let high = vorrq_u8(vbicq_u8(wanted[2], line[2]), vbicq_u8(wanted[3], line[3]));
    let missing: uint32x4_t = vreinterpretq_u32_u8(vorrq_u8(low, high));
    vmaxvq_u32(missing) == 0
}
