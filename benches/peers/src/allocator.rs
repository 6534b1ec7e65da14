//! An allocator that measures the peak memory of a build.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The allocated bytes, now and at their peak.
#[derive(Debug)]
pub struct Counter {
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// The memory that this program has allocated.
pub static COUNTER: Counter = Counter::new();

impl Counter {
    const fn new() -> Self {
        Self { live: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    fn grow(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Runs `work`. Returns its result, the peak of allocated bytes beyond those before, and how many more are
    /// allocated after it than before: the size of the result.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, u64, u64) {
        let before = self.live.load(Ordering::Relaxed);
        self.peak.store(before, Ordering::Relaxed);
        let result = work();
        let more = |counter: &AtomicUsize| counter.load(Ordering::Relaxed).saturating_sub(before) as u64;
        (result, more(&self.peak), more(&self.live))
    }
}

/// The system's allocator, counted.
///
/// A reallocation counts as its difference: memory that the system grows in place or remaps is not held twice.
pub struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator; the counters touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the promises that `System` requires.
        counted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller makes the promises that `System` requires.
        counted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, the only source of pointers here.
        unsafe { System.dealloc(pointer, layout) };
        COUNTER.shrink(layout.size());
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `pointer` came from `System` with this layout, the only source of pointers here.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        if !moved.is_null() {
            COUNTER.shrink(layout.size());
        }
        counted(moved, new_size)
    }
}

fn counted(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if !pointer.is_null() {
        COUNTER.grow(bytes);
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_what_was_freed_again_but_not_what_was_there_before() {
        let counter = Counter::new();
        counter.grow(64);
        let ((), peak, held) = counter.during(|| {
            counter.grow(32);
            counter.shrink(32);
            counter.grow(16);
        });
        assert_eq!((peak, held), (32, 16));
        let ((), peak, held) = counter.during(|| counter.shrink(8));
        assert_eq!((peak, held), (0, 0));
    }

    #[test]
    fn allocations_of_this_program_are_counted() {
        let (held, peak, _) = COUNTER.during(|| vec![1_u8; 8 << 20]);
        assert!(peak >= held.len() as u64, "{peak}");
    }
}
