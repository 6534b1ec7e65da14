//! An allocator that counts, and refuses what is too much, for the whole test program.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The most bytes that may be held.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Whether this many more bytes may be held; if so, counts them.
fn count(bytes: usize) -> bool {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    if held > LIMIT.load(Relaxed) {
        HELD.fetch_sub(bytes, Relaxed);
        return false;
    }
    PEAK.fetch_max(held, Relaxed);
    true
}

// SAFETY: every call is passed on to the system's allocator as it came, or refused.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !count(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !count(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    /// Counts the old and the new bytes at once, as if they were copied; the system moves large ones without a copy.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !count(bytes) {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        let moved = unsafe { System.realloc(memory, layout, bytes) };
        HELD.fetch_sub(if moved.is_null() { bytes } else { layout.size() }, Relaxed);
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, because the count is the whole process's.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes held now.
#[allow(dead_code, reason = "not every test program asks")]
pub(crate) fn held() -> usize {
    HELD.load(Relaxed)
}

/// What `step` gives, and the most bytes held at once in it.
pub(crate) fn measure<T>(step: impl FnOnce() -> T) -> (T, usize) {
    measure_within(usize::MAX, step)
}

/// The same with a limit on the bytes beyond those already held.
pub(crate) fn measure_within<T>(max_bytes: usize, step: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    LIMIT.store(before.saturating_add(max_bytes), Relaxed);
    let result = step();
    LIMIT.store(usize::MAX, Relaxed);
    (result, PEAK.load(Relaxed).saturating_sub(before))
}
