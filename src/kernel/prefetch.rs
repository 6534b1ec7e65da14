//! Prefetching: starts the load of a cache line before it is needed. It changes nothing but time.

/// Prefetches a line of 64 bytes that may straddle two cache lines.
#[inline(always)]
// The second address is the last byte, not one line further: an aligned line must not load its neighbour.
pub(crate) fn prefetch_line(line: &[u8; 64]) {
    prefetch(line);
    prefetch(&raw const line[63]);
}

/// Prefetches the cache line of any address, valid or not.
///
/// The line goes into all levels (`T0`), because it is probed within a microsecond, and again for later keys. A
/// non-temporal hint would keep a hot filter out of the larger caches. Other architectures than x86-64 and aarch64 have
/// no stable hint, so nothing is done there.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fault; every x86-64 has SSE.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which no address makes fault; it changes no register and no flag. Assembly, because the intrinsic
    // is not stable.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches the cache line of any address, valid or not, to write to it: takes it away from other cores. An atomic
/// operation waits for that otherwise, and blocks the next one, so that two threads would be no faster than one.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fault and which CPUs without it ignore; it changes no register and no
    // flag. Assembly, because the intrinsic becomes a prefetch to read unless the program is compiled for CPUs that
    // have it.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
