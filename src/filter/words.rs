//! Words of a filter: stored ones, and atomic ones that many threads change.
//!
//! Atomics are the standard library's or, under `cfg(all(test, loom))`, those of loom, which tries every interleaving.

#![expect(clippy::inline_always, reason = "the bodies of loops over keys")]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

#[cfg(not(all(test, loom)))]
pub(super) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};

use crate::filter::error::FilterError;

/// A word of a filter, in memory or stored.
pub(crate) trait Word {
    fn value(&self) -> u64;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn value(&self) -> u64 {
        // Relaxed: a filter publishes only its own bits, which only accumulate.
        self.load(Ordering::Relaxed)
    }
}

/// A stored word, at any alignment.
impl Word for [u8; 8] {
    #[inline(always)]
    fn value(&self) -> u64 {
        u64::from_le_bytes(*self)
    }
}

/// Sets bits of a word and returns whether one of them was clear.
///
/// Loads first: the atomic OR takes the cache line from all other cores, a cost that a present key can avoid. Relaxed
/// ordering suffices for both: bits are only ever set, an OR never loses one, and a thread that must see them
/// synchronizes with this one by other means (see [`RegisterBlockedBloom`](crate::RegisterBlockedBloom)).
#[inline(always)]
pub(super) fn set(word: &AtomicU64, mask: u64) -> bool {
    let is_new = word.value() & mask != mask;
    if is_new {
        // The OR's result is discarded: to use it, x86 needs a compare-and-swap loop instead of one `lock or`. The
        // price is that two threads that race with one key may both report it as new.
        word.fetch_or(mask, Ordering::Relaxed);
    }
    is_new
}

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

/// The payload of a filter that many threads fill.
pub(crate) struct AtomicWords(Box<[AtomicU64]>);

impl AtomicWords {
    /// Returns words without set bits for a payload of `bytes`, a multiple of 8.
    pub(super) fn zeroed(bytes: u64) -> Result<Self, FilterError> {
        let mut words = Vec::new();
        match usize::try_from(bytes / 8) {
            // Reserved first, because `resize_with` aborts when allocation fails.
            Ok(count) if words.try_reserve_exact(count).is_ok() => words.resize_with(count, || AtomicU64::new(0)),
            _ => return Err(FilterError::NoMemory { bytes }),
        }
        Ok(Self(words.into_boxed_slice()))
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut AtomicU64> {
        self.0.get_mut(index)
    }

    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(|word| with_mut(word, |word| *word = 0));
    }

    /// Sets the bits that are set in `other`.
    pub(super) fn union(&self, other: &Self) {
        for (word, added) in self.iter().zip(&other.0) {
            set(word, added.value());
        }
    }

    pub(super) fn write(&self, payload: &mut [u8]) {
        for (word, out) in self.iter().zip(payload.as_chunks_mut().0) {
            // Relaxed, as in `set`: a key that is inserted at the same time may or may not be stored.
            *out = word.value().to_le_bytes();
        }
    }

    pub(super) fn read(&mut self, payload: &[u8]) {
        for (word, &stored) in self.0.iter_mut().zip(payload.as_chunks().0) {
            with_mut(word, |word| *word = u64::from_le_bytes(stored));
        }
    }
}

impl fmt::Debug for AtomicWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.len())
    }
}

impl Deref for AtomicWords {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}
