//! Asking for memory before it is needed.

use super::line::Line;

/// Starts to fetch `line`, which may lie in two cache lines. Changes nothing but time.
#[inline(always)]
pub(crate) fn prefetch(line: &Line) {
    let [first, .., last] = line;
    fetch(first);
    fetch(last);
}

/// Starts to fetch the cache line in which `line` begins: all of it when it is aligned.
#[inline(always)]
pub(crate) fn prefetch_first(line: &Line) {
    fetch(&line[0]);
}

#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn fetch(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, of an address that could be read; every x86-64 has SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(byte).cast()) }
}

#[inline(always)]
#[cfg(target_arch = "aarch64")]
fn fetch(byte: &u8) {
    // SAFETY: a hint, of an address that could be read; it changes no register and no flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) byte, options(nostack, preserves_flags, readonly));
    }
}

#[inline(always)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fetch(_byte: &u8) {}
