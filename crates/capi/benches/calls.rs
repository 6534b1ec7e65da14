//! What a call from C costs: nanoseconds of CPU time per probe of an absent key, beside the same probe from Rust.
//!
//! `bench FOLDER`, which crates/capi/check calls, has `libcalls.so` of calls.c and the library in FOLDER.

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::unchecked_time_subtraction,
    reason = "a benchmark, which calls functions of C"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::time::Duration;

use sstfilter::kind::KindEntry;
use sstfilter::{
    BitsPerKey, BuildContext, FilterBlock, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, LoadContext,
    MatchBitmap,
};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
}

/// A loop over probes: what to probe, values to probe for, and how many.
type Loop = extern "C" fn(*const c_void, *const c_void, usize) -> u64;

fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    let found = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "no {name:?}");
    found
}

fn cpu_time() -> Duration {
    let mut time = [0; 2];
    unsafe { clock_gettime(3, &raw mut time) };
    Duration::new(time[0].try_into().unwrap(), time[1].try_into().unwrap())
}

/// Nanoseconds per probe of each loop: the minimum of rounds, which take turns.
fn measure<const LOOPS: usize>(probes: usize, mut loops: [&mut dyn FnMut() -> u64; LOOPS]) -> [f64; LOOPS] {
    let mut best = [f64::MAX; LOOPS];
    for _ in 0..40 {
        for (best, run) in best.iter_mut().zip(&mut loops) {
            let start = cpu_time();
            black_box(run());
            *best = best.min((cpu_time() - start).as_secs_f64() * 1e9 / probes as f64);
        }
    }
    best
}

struct C {
    functions: *mut c_void,
    loops: *mut c_void,
    policy: *mut c_void,
}

impl C {
    fn open(folder: &str) -> Self {
        let open = |name: &str| {
            let path = CString::new(format!("{folder}/{name}")).unwrap();
            let library = unsafe { dlopen(path.as_ptr(), 258) };
            assert!(!library.is_null(), "cannot open {path:?}");
            library
        };
        let mut c =
            Self { functions: open("libsstfilter.so.0"), loops: open("libcalls.so"), policy: std::ptr::null_mut() };
        unsafe {
            let create: extern "C" fn(*const usize, *mut *mut c_void, *mut c_void) -> c_int =
                std::mem::transmute(symbol(c.functions, "sstf_policy_create"));
            let options = [size_of::<[u64; 10]>(), 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(create(options.as_ptr(), &raw mut c.policy, std::ptr::null_mut()), 0);
        }
        c
    }

    fn filter(&self, block: &[u8]) -> *const c_void {
        let mut filter = std::ptr::null_mut();
        unsafe {
            type Open =
                extern "C" fn(*const c_void, *const u8, usize, u64, u32, *mut *mut c_void, *mut c_void) -> c_int;
            let open: Open = std::mem::transmute(symbol(self.functions, "sstf_filter_open"));
            let status =
                open(self.policy, block.as_ptr(), block.len(), u64::MAX, 0, &raw mut filter, std::ptr::null_mut());
            assert_eq!(status, 0);
        }
        filter
    }

    fn set(&self, blocks: &[impl AsRef<[u8]>]) -> *const c_void {
        let pointers: Vec<_> = blocks.iter().map(|block| block.as_ref().as_ptr()).collect();
        let lengths: Vec<_> = blocks.iter().map(|block| block.as_ref().len()).collect();
        let (files, mut set, mut unusable) = (vec![u64::MAX; blocks.len()], std::ptr::null_mut(), 1_usize);
        unsafe {
            type Open = extern "C" fn(
                *const c_void,
                *const *const u8,
                *const usize,
                *const u64,
                usize,
                u32,
                *mut *mut c_void,
                *mut usize,
                *mut c_void,
            ) -> c_int;
            let open: Open = std::mem::transmute(symbol(self.functions, "sstf_set_open"));
            let (pointers, lengths) = (pointers.as_ptr(), lengths.as_ptr());
            let out = (&raw mut set, &raw mut unusable);
            let count = blocks.len();
            let status =
                open(self.policy, pointers, lengths, files.as_ptr(), count, 0, out.0, out.1, std::ptr::null_mut());
            assert_eq!((status, unusable), (0, 0));
        }
        set
    }

    fn run<'a, T>(&self, name: &str, object: *const c_void, values: &'a [T]) -> impl FnMut() -> u64 + 'a {
        let run: Loop = unsafe { std::mem::transmute(symbol(self.loops, name)) };
        move || run(object, values.as_ptr().cast(), values.len())
    }
}

fn build(policy: &FixedPolicy, keys: std::ops::Range<u64>) -> bytes::Bytes {
    let mut builder = policy.builder(&BuildContext::new(&KeyHasher::default()));
    keys.for_each(|key| builder.add_key(&key_bytes(key)));
    builder.finish().block.unwrap()
}

fn key_bytes(key: u64) -> [u8; 16] {
    format!("{key:016}").into_bytes().try_into().unwrap()
}

fn main() {
    let folder = std::env::args().nth(1).filter(|folder| std::path::Path::new(folder).is_dir());
    let Some(folder) = folder else { return println!("expected the folder of the libraries") };
    let (c, hasher, probes) = (C::open(&folder), KeyHasher::default(), 1 << 16);
    let absent: Vec<_> = (0..probes).map(|key| key_bytes(1_000_000_000 + key)).collect();
    let hashes: Vec<_> = absent.iter().map(|key| hasher.hash(key)).collect();
    println!("{:24}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "Rust hash", "C hash", "Rust key", "C key", "C of 16", "16/1");
    for kind in sstfilter::kind::all() {
        let sizing = if kind.name.starts_with("xor") { 9.9 } else { 12.0 };
        let policy = KindEntry::named(kind.name).and_then(|kind| kind.configure(BitsPerKey::new(sizing).unwrap()).ok());
        let Some(policy) = policy.or_else(|| kind.configure(BitsPerKey::new(40.0).unwrap()).ok()) else { continue };
        for keys in [10_000, 1_000_000] {
            let block = build(&policy, 0..keys);
            let (filter, rust) = (c.filter(&block), FilterBlock::load(&block, &hasher).unwrap());
            let count = |found: &mut u64, may_contain: bool| *found += u64::from(may_contain);
            let mut rust_hash = || {
                let mut found = 0;
                hashes.iter().for_each(|&hash| count(&mut found, rust.may_contain(hash)));
                found
            };
            let mut rust_key = || {
                let mut found = 0;
                absent.iter().for_each(|key| count(&mut found, rust.may_contain(hasher.hash(key))));
                found
            };
            let [rust_hash, c_hash, rust_key, c_key, sixteen] = measure(
                hashes.len(),
                [
                    &mut rust_hash,
                    &mut c.run("by_hash", filter, &hashes),
                    &mut rust_key,
                    &mut c.run("by_key", filter, &absent),
                    &mut c.run("by_sixteen", filter, &hashes),
                ],
            );
            println!(
                "{:15}{keys:>9}{rust_hash:9.2}{c_hash:9.2}{rust_key:9.2}{c_key:9.2}{sixteen:9.2}{:9.2}",
                kind.name,
                sixteen / c_hash
            );
        }
    }
    set(&c, &hashes);
}

fn set(c: &C, hashes: &[KeyHash]) {
    let filters = Filters::default();
    let blocks: Vec<_> =
        (0..70).map(|file| build(&FixedPolicy::default(), file * 10_000..(file + 1) * 10_000)).collect();
    let load = |block| filters.reader(FilterBlock::load(block, LoadContext::new(filters.hasher())));
    let rust = FilterSet::new(&filters, blocks.iter().cloned().map(load));
    let mut matches = MatchBitmap::default();
    let mut rust = || {
        let mut found = 0;
        for &hash in hashes {
            rust.matches_hash(hash, &mut matches);
            found += matches.count();
        }
        found
    };
    let set = c.set(&blocks);
    let [rust, from_c] = measure(hashes.len(), [&mut rust, &mut c.run("by_set", set, hashes)]);
    println!("70 filters, one hash: Rust {rust:.1}, C {from_c:.1}, C over Rust {:.3}", from_c / rust);
}
