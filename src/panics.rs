//! State that survives a panic which the caller catches: locks, and builders that were running the engine's code.

#[cfg(feature = "std")]
pub mod locks {
    //! Locks that are taken even if a thread has panicked while it held them. Use them only for values that stay valid
    //! after each step: the engine's code, which may panic, runs before the first change or outside the lock.

    use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

    /// Locks `mutex`.
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks `mutex`, unless another thread has locked it.
    pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Tracks whether a call of a builder was interrupted. The engine's hash function, extractor, policy or sink may panic,
/// and the engine may catch the panic and go on: its file then has a key that the filter lacks. Such a filter must not
/// be built.
///
/// A call that ends early, by a panic or `?`, never reaches [`leave`](Self::leave). So a forgotten `leave` costs a
/// filter, but loses no key.
#[derive(Debug, Default)]
pub struct Interruption {
    /// Calls entered and not yet left; a number, because calls may nest.
    calls: u64,
}

impl Interruption {
    /// Call this before code that may panic.
    #[inline]
    pub fn enter(&mut self) {
        self.calls += 1;
    }

    /// Call this after the code has returned.
    #[inline]
    pub fn leave(&mut self) {
        self.calls -= 1;
    }

    /// Returns whether a call was interrupted. Valid only outside of all calls.
    #[must_use]
    pub const fn has_happened(&self) -> bool {
        self.calls > 0
    }
}

#[cfg(test)]
mod tests {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::sync::Mutex;

    use super::locks::{lock, try_lock};
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
        assert_eq!(try_lock(&mutex).as_deref(), Some(&7));
        let _guard = lock(&mutex);
        assert!(try_lock(&mutex).is_none());
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
