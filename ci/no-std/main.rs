//! Builds, loads and probes filters without the standard library, and compares their bytes with the golden ones, built
//! with it. This file has its own panic handler: with `std` anywhere among the dependencies there would be two, which
//! does not compile.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};

use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FallbackReason, FalsePositiveRate, FileId, FilterBlock,
    FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, Sizing,
};

#[link(name = "c")]
unsafe extern "C" {
    fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
    fn abort() -> !;
    fn write(file: c_int, bytes: *const c_void, count: usize) -> isize;
}

struct Allocator;

// SAFETY: the C library's function, with the requested alignment.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a power of two, and a multiple of it.
        unsafe { aligned_alloc(layout.align(), layout.pad_to_align().size()).cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the pointer comes from `alloc`.
        unsafe { free(memory.cast()) }
    }
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn print(text: &str) {
    // SAFETY: bytes of the text.
    unsafe { write(2, text.as_ptr().cast(), text.len()) };
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    print(&format!("{info}\n"));
    // SAFETY: it can be called at any time.
    unsafe { abort() }
}

/// The compiled `alloc` names these for panics that unwind, which none does here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

fn hashes(name: &str, count: u32) -> Vec<KeyHash> {
    (0..count).map(|number| KeyHasher::default().hash(format!("{name}-{number:08}").as_bytes())).collect()
}

/// Policies, and the fixtures/v1 that their filters must equal.
fn check_golden_blocks() {
    macro_rules! golden {
        ($name:literal) => {
            &include_bytes!(concat!("../../fixtures/v1/", $name, ".block"))[..]
        };
    }
    let size = BitsPerKey::TEN;
    let (one_percent, one_in_a_thousand) = (FalsePositiveRate::ONE_PERCENT, FalsePositiveRate::new(0.001).unwrap());
    let cases = [
        (FixedPolicy::bloom(size), 1_000, golden!("bloom-1000-keys-10-bits")),
        (FixedPolicy::ribbon(one_percent), 1_024, golden!("ribbon-1024-keys-1-percent")),
        (FixedPolicy::ribbon(one_in_a_thousand), 20_000, golden!("ribbon-20000-keys-01-percent")),
        (FixedPolicy::ribbon(one_percent), 200, golden!("ribbon-fallen-back-to-bloom")),
        (FixedPolicy::binary_fuse(Sizing::FingerprintBits(8)), 1_000, golden!("fuse-1000-keys-3-cells-8-bits")),
        (FixedPolicy::line_ribbon(BitsPerKey::new(9.4).unwrap()), 3_000, golden!("line-ribbon-3000-keys-load-90")),
        (FixedPolicy::line_ribbon(BitsPerKey::new(8.6).unwrap()), 4_000, golden!("line-ribbon-4000-keys-load-105")),
        (FixedPolicy::xor(Sizing::FingerprintBits(8)), 500, golden!("xor-500-keys")),
        (FixedPolicy::xor_plus(Sizing::FingerprintBits(8)), 1_200, golden!("xor-plus-1200-keys")),
    ];
    let hasher = KeyHasher::default();
    for (policy, keys, golden) in cases {
        let (policy, keys) = (policy.unwrap(), hashes("key", keys));
        let mut builder = policy.builder(&BuildContext::new(&hasher).with_threads(4));
        builder.add_hashes(&keys);
        let built = builder.finish();
        assert_eq!(built.block.as_deref(), Some(golden), "{:?}", built.report);
        assert!(built.report.finish_time.is_zero());

        let filter = FilterBlock::load(golden, &hasher).unwrap();
        let (mut matches, absent) = (MatchBitmap::default(), hashes("absent", 1_000));
        filter.may_contain_batch(&keys, &mut matches);
        assert_eq!(matches.count(), keys.len() as u64);
        assert!(absent.iter().filter(|&&key| filter.may_contain(key)).count() < 30);
    }
}

/// Tests filters of files, one by one and in a set; damaged blocks and blocks of other files; the counts.
fn check_readers() {
    let store = Filters::new(AutoPolicy::default());
    let filters: Vec<_> = (0..70_u8)
        .map(|number| {
            let file = FileId::new(&[number]).unwrap();
            let mut builder = store.builder(file).with_purpose(BuildPurpose::Compaction);
            builder.add_hashes(&hashes(&format!("file {number}"), 2_000));
            let built = builder.finish();
            assert_eq!(built.report.reason, FallbackReason::None);
            let block = built.block.unwrap();

            assert!(store.load(Some(block.clone()), FileId::new(b"another").unwrap()).block().is_err());
            let mut damaged = block.to_vec();
            damaged[100] ^= 1;
            assert!(store.load(Some(damaged), file).block().is_err());
            store.load(Some(block), file)
        })
        .collect();

    let of_file_7 = hashes("file 7", 2_000);
    assert!(of_file_7.iter().all(|&key| !filters[7].probe_hash(key).is_absent()));
    assert_eq!(filters[7].stats().positives, 2_000);
    let set = FilterSet::new(&store, filters);
    let mut matches = MatchBitmap::default();
    for &key in &of_file_7 {
        set.matches_hash(key, &mut matches);
        assert!(matches.may_contain(7) && matches.count() < 10);
    }
    assert_eq!(set.filters()[7].stats().positives, 4_000);
}

#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    check_golden_blocks();
    check_readers();
    print("filters without the standard library: as with it\n");
    0
}
