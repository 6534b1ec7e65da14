//! A compaction runs next to everything else that the engine does, so a filter that takes far more memory to
//! build than to keep brings the process down at the worst of times. Here the allocator itself counts.

#![cfg(not(feature = "parallel"))]
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sstfilter::{
    BuildContext, BuildReport, FalsePositiveRate, FilterKind, FilterPolicy, KeyHash, KeyHasher, RibbonPolicy,
    RibbonSizing,
};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once in `finish`, beyond the buffered hashes, and the report.
fn measure(policy: &RibbonPolicy, keys: u64) -> (u64, BuildReport) {
    let hashes: Vec<KeyHash> = (0..keys).map(KeyHash::from_remixed).collect();
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default())).unwrap();
    builder.add_hashes(&hashes);
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let report = builder.finish().report;
    ((PEAK.load(Relaxed) - before) as u64, report)
}

/// One test, because the count is the whole process's.
#[test]
fn building_takes_ten_bytes_a_key_and_three_megabytes_beyond_the_hashes_and_says_so() {
    for (exponent, keys) in [(7, 5_000), (7, 20_000), (7, 250_000), (7, 1_000_000), (7, 3_000_000), (16, 1_000_000)] {
        let rate = FalsePositiveRate::new(0.5_f64.powi(exponent)).unwrap();
        // Each policy begins without memory from earlier builds.
        let policy = RibbonPolicy::new(RibbonSizing::Rate(rate)).unwrap();
        let (peak, report) = measure(&policy, keys);
        assert_eq!(report.used, Some(FilterKind::RIBBON));
        let estimate = policy.estimated_build_bytes(keys).unwrap();
        let reported = report.peak_build_bytes - keys * 8;
        println!("2^-{exponent}, {keys} keys: {peak} bytes, reported {reported}, estimated {estimate}");
        assert!(peak <= keys * 10 + 3_000_000, "2^-{exponent}, {keys} keys: {peak}");
        let most = estimate + report.block_bytes;
        assert!(peak <= most && estimate <= keys * 10 + 3_600_000, "{keys} keys: {peak}, estimated {estimate}");
        assert!(reported + 16_384 >= peak - peak / 50, "{keys} keys: {peak}, reported {reported}");
    }
}
