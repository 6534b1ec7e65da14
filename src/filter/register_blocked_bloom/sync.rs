//! The atomic words: the standard library's or, under `cfg(all(test, loom))`, those of loom, which tries every
//! interleaving.

#[cfg(not(all(test, loom)))]
pub(super) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

/// Changes a word under exclusive access, without an atomic operation.
#[cfg(not(all(test, loom)))]
#[inline(always)]
pub(super) fn with_mut<T>(word: &mut AtomicU64, change: impl FnOnce(&mut u64) -> T) -> T {
    change(word.get_mut())
}

/// Changes a word under exclusive access.
#[cfg(all(test, loom))]
pub(super) fn with_mut<T>(word: &mut AtomicU64, change: impl FnOnce(&mut u64) -> T) -> T {
    word.with_mut(change)
}
