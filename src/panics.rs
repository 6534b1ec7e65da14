//! What outlives a panic that the caller catches: locks, and builders that were running the engine's code.

#[cfg(feature = "std")]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if a thread has panicked while it held the lock. Only for values that each step leaves whole:
/// code of the engine's, which may panic, runs before the first change or outside of the lock.
#[cfg(feature = "std")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a call of a builder has not come to its end. The engine's hash function, extractor, policy or sink may
/// panic, and the engine may catch the panic and go on: its file then has a key that the filter lacks. Such a filter
/// must not be built.
///
/// A call that ends early, by a panic or `?`, is never left. So a forgotten [`leave`](Self::leave) costs a filter, but
/// loses no key.
#[derive(Debug, Default)]
pub struct Interruption {
    /// Calls that have been entered and not left: they may be nested.
    calls: u64,
}

impl Interruption {
    /// Before code that may panic.
    #[inline]
    pub fn enter(&mut self) {
        self.calls += 1;
    }

    /// After it.
    #[inline]
    pub fn leave(&mut self) {
        self.calls -= 1;
    }

    /// Outside of all calls: whether one of them was interrupted.
    #[must_use]
    pub const fn has_happened(&self) -> bool {
        self.calls > 0
    }
}

#[cfg(test)]
mod tests {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_lock_is_taken_whoever_panicked_with_it() {
        let mutex = Mutex::new(7);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock(&mutex);
            panic!("with the lock");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 7);
    }

    #[test]
    fn a_call_that_panics_is_an_interruption_whatever_comes_after_it() {
        let mut interruption = Interruption::default();
        let mut call = |panics: bool| {
            interruption.enter();
            interruption.enter();
            assert!(!panics);
            interruption.leave();
            interruption.leave();
            interruption.has_happened()
        };
        assert!(!call(false));
        assert!(catch_unwind(AssertUnwindSafe(|| call(true))).is_err());
        assert!(call(false));
    }
}
