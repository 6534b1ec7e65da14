//! Asking for memory before it is needed.

use super::line::Line;

/// Starts to fetch `line`, which may lie in two cache lines. Changes nothing but time.
#[inline(always)]
pub(crate) fn prefetch(line: &Line) {
    let [first, .., last] = line;
    fetch(core::ptr::from_ref(first));
    fetch(core::ptr::from_ref(last));
}

/// Starts to fetch the cache line in which `line` begins: all of it when it is aligned.
#[inline(always)]
pub(crate) fn prefetch_first(line: &Line) {
    fetch(line.as_ptr());
}

/// Starts to fetch the cache line of any address, be there anything or not.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn fetch(byte: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which no address makes fault; every x86-64 has SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(byte.cast()) }
}

/// Starts to fetch the cache line of any address, be there anything or not.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub(crate) fn fetch(byte: *const u8) {
    // SAFETY: a hint, which no address makes fault; it changes no register and no flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) byte, options(nostack, preserves_flags, readonly));
    }
}

/// Nothing: there is no such hint.
#[inline(always)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn fetch(_byte: *const u8) {}
