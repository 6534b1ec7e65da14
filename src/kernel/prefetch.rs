//! Asking for memory before it is needed.

use super::line::Line;

/// Starts to fetch `line`, which may lie in two cache lines. Changes nothing but time.
#[inline]
pub(crate) fn prefetch(line: &Line) {
    let [first, .., last] = line;
    fetch(first);
    fetch(last);
}

#[inline]
#[cfg(target_arch = "x86_64")]
fn fetch(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, of an address that could be read; every x86-64 has SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(byte).cast()) }
}

#[inline]
#[cfg(target_arch = "aarch64")]
fn fetch(byte: &u8) {
    // SAFETY: a hint, of an address that could be read; it changes no register and no flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) byte, options(nostack, preserves_flags, readonly));
    }
}

#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fetch(_byte: &u8) {}
