//! An allocator that knows how much memory a build takes at its peak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counted.
///
/// A reallocation counts as its difference: what the system moves in place or remaps is not held twice.
pub struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came; the counters touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
        let pointer = unsafe { System.alloc(layout) };
        count(pointer, layout.size());
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        count(pointer, layout.size());
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, for nothing else is handed out.
        unsafe { System.dealloc(pointer, layout) };
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `pointer` came from `System` with this layout, for nothing else is handed out.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        if !moved.is_null() {
            LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
            count(moved, new_size);
        }
        moved
    }
}

fn count(pointer: *mut u8, bytes: usize) {
    if !pointer.is_null() {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

/// What `work` returns, and the most bytes that were allocated during it beyond those allocated before.
pub fn peak_during<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests allocate meanwhile, so the sizes are such that they do not matter.
    #[test]
    fn the_peak_counts_what_was_freed_again_but_not_what_was_there_before() {
        let before = vec![0_u8; 64 << 20];
        let ((), peak) = peak_during(|| {
            drop(std::hint::black_box(vec![1_u8; 32 << 20]));
            drop(std::hint::black_box(vec![1_u8; 16 << 20]));
        });
        assert!((32 << 20..40 << 20).contains(&peak), "{peak}");
        drop(before);
    }
}
