//! Every interleaving of two threads, and every value that relaxed atomics allow them to see. The failures guarded
//! against: two simultaneous inserts into one word, where one overwrites the other's bits; and a reader that
//! synchronizes with an insert but does not see the key.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib register_blocked`

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::RegisterBlockedBloom;
use super::layout::PROBES;
use crate::hash::KeyHash;

fn smallest(probes: u8) -> RegisterBlockedBloom {
    RegisterBlockedBloom::with_shape(crate::hash::HashIdentity::default(), 64, probes).unwrap()
}

/// A key of the first machine word: its low bits choose the bits.
fn key(low_bits: u64) -> KeyHash {
    KeyHash::from_well_mixed(low_bits)
}

const ONE: u64 = 1 << 6 | 2;
const OTHER: u64 = 3 << 6 | 4;
/// Shares one bit with the first.
const OVERLAPPING: u64 = 1 << 6 | 5;

fn race(probes: u8, keys: [u64; 2]) {
    loom::model(move || {
        let filter = Arc::new(smallest(probes));
        let threads = keys.map(|low_bits| {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(key(low_bits)))
        });
        let told_new = threads.map(|thread| thread.join().unwrap());
        assert!(keys.iter().all(|&low_bits| filter.contains(key(low_bits))));
        assert!(told_new.contains(&true), "a key that nobody was told is new");
    });
}

// promise: threads
#[test]
fn inserts_into_one_word_at_the_same_moment_lose_no_bit() {
    for probes in PROBES {
        race(probes, [ONE, OTHER]);
        race(probes, [ONE, OVERLAPPING]);
    }
}

// promise: threads
#[test]
fn the_same_key_from_two_threads_is_new_to_at_least_one() {
    race(2, [ONE, ONE]);
}

// promise: threads
#[test]
fn a_batch_and_a_merge_at_the_same_moment_lose_no_bit() {
    loom::model(|| {
        let filter = Arc::new(smallest(2));
        let batch = Arc::clone(&filter);
        let thread = thread::spawn(move || batch.insert_all(&[key(ONE), key(OTHER)]));
        let mut merged = smallest(2);
        merged.insert_exclusive(key(OVERLAPPING));
        filter.union(&merged).unwrap();
        thread.join().unwrap();
        assert!([ONE, OTHER, OVERLAPPING].into_iter().all(|low_bits| filter.contains(key(low_bits))));
    });
}

/// Whether the key was already present or not, a thread that synchronizes with the insert sees it.
// promise: threads
#[test]
fn a_reader_that_was_told_of_an_insert_sees_the_key() {
    loom::model(|| {
        let (filter, told) = (Arc::new(smallest(2)), Arc::new(AtomicBool::new(false)));
        let first = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(key(ONE)))
        };
        let second = {
            let (filter, told) = (Arc::clone(&filter), Arc::clone(&told));
            thread::spawn(move || {
                filter.insert(key(ONE));
                told.store(true, Ordering::Release);
            })
        };
        if told.load(Ordering::Acquire) {
            assert!(filter.contains(key(ONE)));
        }
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// Shows a documented non-guarantee, so that the test above is known to be able to fail.
#[test]
#[should_panic(expected = "absent")]
fn a_reader_that_was_told_by_a_relaxed_flag_may_miss_the_key() {
    loom::model(|| {
        let (filter, told) = (Arc::new(smallest(2)), Arc::new(AtomicBool::new(false)));
        let writer = {
            let (filter, told) = (Arc::clone(&filter), Arc::clone(&told));
            thread::spawn(move || {
                filter.insert(key(ONE));
                told.store(true, Ordering::Relaxed);
            })
        };
        if told.load(Ordering::Relaxed) {
            assert!(filter.contains(key(ONE)), "absent");
        }
        writer.join().unwrap();
    });
}
