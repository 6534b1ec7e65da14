//! The test program's allocator, which counts bytes and fails beyond a limit.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The maximum number of bytes held.
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

// SAFETY: every call is passed on to the system's allocator unchanged, or fails.
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

    /// Counts the old and the new bytes together, as if they were copied, although the system moves large ones.
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

/// Lets one test run at a time, because the count is that of the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes held now.
#[allow(dead_code, reason = "not every test program calls it")]
pub(crate) fn held() -> usize {
    HELD.load(Relaxed)
}

/// Returns the result of `step`, and the maximum number of bytes held during it.
pub(crate) fn measure<T>(step: impl FnOnce() -> T) -> (T, usize) {
    measure_within(usize::MAX, step)
}

/// Like [`measure`], with a limit on the bytes in addition to those already held.
pub(crate) fn measure_within<T>(max_bytes: usize, step: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    LIMIT.store(before.saturating_add(max_bytes), Relaxed);
    let result = step();
    LIMIT.store(usize::MAX, Relaxed);
    (result, PEAK.load(Relaxed).saturating_sub(before))
}
