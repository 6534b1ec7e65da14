//! Filters that many threads fill: every interleaving of two threads, and every value that relaxed atomics allow them
//! to see. The failures guarded against: two simultaneous inserts into one word, where one overwrites the other's bits;
//! and a reader that synchronizes with an insert but does not see the key.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --lib --features growing loom_tests`

use core::ops::RangeInclusive;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::register_blocked_bloom::RegisterBlockedBloom;
use super::standard_bloom::AtomicBloom;
use crate::hash::{HashIdentity, KeyHash};

/// A filter that many threads fill.
trait Shared: Send + Sync + Sized + 'static {
    /// The numbers of bits of a key that are tried.
    const PROBES: RangeInclusive<u8>;

    /// A filter with a payload of few words.
    fn smallest(probes: u8) -> Self;
    fn add(&self, key: KeyHash) -> bool;
    fn add_all(&self, keys: &[KeyHash]);
    fn merge(&self, other: &Self);
    fn has(&self, key: KeyHash) -> bool;
}

macro_rules! shared {
    ($type:ty, $probes:expr, $smallest:expr) => {
        impl Shared for $type {
            const PROBES: RangeInclusive<u8> = $probes;

            fn smallest(probes: u8) -> Self {
                <$type>::with_shape(HashIdentity::default(), $smallest, probes).unwrap()
            }

            fn add(&self, key: KeyHash) -> bool {
                self.insert(key)
            }

            fn add_all(&self, keys: &[KeyHash]) {
                self.insert_all(keys);
            }

            fn merge(&self, other: &Self) {
                self.union(other).unwrap();
            }

            fn has(&self, key: KeyHash) -> bool {
                self.contains(key)
            }
        }
    };
}

shared!(RegisterBlockedBloom, 2..=4, 64);
// The bits of a key are in different words; with one probe, all three keys below would have the same bit.
shared!(AtomicBloom, 2..=2, 128);

/// A key of the first machine word: its low bits choose the bits.
fn key(low_bits: u64) -> KeyHash {
    KeyHash::from_well_mixed(low_bits)
}

const ONE: u64 = 1 << 6 | 2;
const OTHER: u64 = 3 << 6 | 4;
/// Shares one bit with the first.
const OVERLAPPING: u64 = 1 << 6 | 5;

fn race<F: Shared>(probes: u8, keys: [u64; 2]) {
    loom::model(move || {
        let filter = Arc::new(F::smallest(probes));
        let threads = keys.map(|low_bits| {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.add(key(low_bits)))
        });
        let told_new = threads.map(|thread| thread.join().unwrap());
        assert!(keys.iter().all(|&low_bits| filter.has(key(low_bits))));
        assert!(told_new.contains(&true), "a key that nobody was told is new");
    });
}

fn inserts_lose_no_bit<F: Shared>() {
    for probes in F::PROBES {
        race::<F>(probes, [ONE, OTHER]);
        race::<F>(probes, [ONE, OVERLAPPING]);
        race::<F>(probes, [ONE, ONE]);
    }
}

// promise: threads
#[test]
fn inserts_at_the_same_moment_lose_no_bit_and_a_new_key_is_new_to_at_least_one() {
    inserts_lose_no_bit::<RegisterBlockedBloom>();
    inserts_lose_no_bit::<AtomicBloom>();
}

fn merges_lose_no_bit<F: Shared>() {
    loom::model(|| {
        let filter = Arc::new(F::smallest(2));
        let batch = Arc::clone(&filter);
        let thread = thread::spawn(move || batch.add_all(&[key(ONE), key(OTHER)]));
        let merged = F::smallest(2);
        merged.add(key(OVERLAPPING));
        filter.merge(&merged);
        thread.join().unwrap();
        assert!([ONE, OTHER, OVERLAPPING].into_iter().all(|low_bits| filter.has(key(low_bits))));
    });
}

// promise: threads
#[test]
fn a_batch_and_a_merge_at_the_same_moment_lose_no_bit() {
    merges_lose_no_bit::<RegisterBlockedBloom>();
    merges_lose_no_bit::<AtomicBloom>();
}

/// Two threads insert a key, and the second tells a third by a flag with this ordering.
fn tell<F: Shared>(ordering: Ordering) {
    loom::model(move || {
        let (filter, told) = (Arc::new(F::smallest(2)), Arc::new(AtomicBool::new(false)));
        let first = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.add(key(ONE)))
        };
        let second = {
            let (filter, told) = (Arc::clone(&filter), Arc::clone(&told));
            thread::spawn(move || {
                filter.add(key(ONE));
                told.store(true, if ordering == Ordering::Acquire { Ordering::Release } else { ordering });
            })
        };
        if told.load(ordering) {
            assert!(filter.has(key(ONE)), "absent");
        }
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// Whether the key was already present or not, a thread that synchronizes with the insert sees it.
// promise: threads
#[test]
fn a_reader_that_was_told_of_an_insert_sees_the_key() {
    tell::<RegisterBlockedBloom>(Ordering::Acquire);
    tell::<AtomicBloom>(Ordering::Acquire);
}

/// Shows a documented non-guarantee, so that the test above is known to be able to fail.
#[test]
#[should_panic(expected = "absent")]
fn a_reader_that_was_told_by_a_relaxed_flag_may_miss_the_key_in_one_word() {
    tell::<RegisterBlockedBloom>(Ordering::Relaxed);
}

/// As above.
#[test]
#[should_panic(expected = "absent")]
fn a_reader_that_was_told_by_a_relaxed_flag_may_miss_the_key_in_several_words() {
    tell::<AtomicBloom>(Ordering::Relaxed);
}
