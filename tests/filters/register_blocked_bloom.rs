//! The filter that many threads insert into. The failures guarded against: two threads set bits of one word at the same
//! time and lose a key; a filter answers differently after it is stored, merged or restored.
//!
//! The library's unit tests check under loom that no interleaving loses a bit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sstfilter::{DynamicFilter, FilterBlock, HashIdentity, KeyHash, MatchBitmap, RegisterBlockedBloom};

use crate::common;

/// Absent keys that each filter is probed for, and filters per setting.
const ABSENT: u32 = 2_000_000;
const SETS: u32 = 5;

/// Keys at eight bits per key in the usual 256 KiB.
const KEYS: u32 = 1 << 18;

fn filter(probes: u8, bytes: u64) -> RegisterBlockedBloom {
    RegisterBlockedBloom::with_shape(HashIdentity::default(), bytes, probes).unwrap()
}

fn to_block(filter: &RegisterBlockedBloom) -> Vec<u8> {
    filter.to_block().unwrap().to_vec()
}

/// The mean rate over several key sets, the rate expected from their fills, and the rate expected from the number of
/// keys.
fn measure(probes: u8, keys: u32) -> (f64, f64, f64) {
    let measured = common::on_all_cores(SETS as usize, |set| {
        let set = u32::try_from(set).unwrap();
        let hashes: Vec<KeyHash> = common::key_set(set, keys).collect();
        let filter = filter(probes, 256 << 10);
        filter.insert_all(&hashes);
        assert!(hashes.iter().all(|&hash| filter.contains(hash)), "a key is lost");
        let off = filter.keys().abs_diff(keys.into());
        assert!(off < u64::from(keys) / 100, "{off} keys off");
        let absent: Vec<KeyHash> = common::key_set(1_000 + set, ABSENT).collect();
        let mut matches = MatchBitmap::default();
        filter.contains_batch(&absent, &mut matches);
        (matches.count() as f64 / f64::from(ABSENT), filter.health().expected_fpr)
    });
    let sets = f64::from(SETS);
    let observed = measured.iter().map(|(rate, _)| rate).sum::<f64>() / sets;
    let of_fill = measured.iter().map(|(_, of_fill)| of_fill).sum::<f64>() / sets;
    (observed, of_fill, filter(probes, 256 << 10).expected_fpr(keys.into()))
}

/// Within four standard errors of the rate from the words, which is exact, and within half a percent of the rate from
/// the number of keys, around which the key sets vary.
fn assert_rate(probes: u8, keys: u32) -> f64 {
    let (rate, of_words, of_keys) = measure(probes, keys);
    let sigma = (of_words * (1.0 - of_words) / (f64::from(ABSENT) * f64::from(SETS))).sqrt();
    println!(
        "{probes}, {keys} keys: {:.4} %; by the words {:.4} %, by the keys {:.4} %",
        rate * 100.0,
        of_words * 100.0,
        of_keys * 100.0
    );
    assert!((rate - of_words).abs() < 4.0 * sigma, "{probes}: {rate}, by its words {of_words}");
    assert!((of_words / of_keys - 1.0).abs() < 0.005, "{probes}: {of_words}, by its keys {of_keys}");
    rate
}

#[test]
fn rates_at_eight_bits_per_key_and_at_other_fills_are_as_documented() {
    for (probes, at_most) in [(2, 0.054), (3, 0.0378), (4, 0.034)] {
        let rate = assert_rate(probes, KEYS);
        assert!(rate <= at_most, "{probes}: {rate}, at most {at_most}");
        for keys in [KEYS / 4, KEYS / 2, KEYS * 2] {
            assert_rate(probes, keys);
        }
    }
}

/// Filters of one line that are filled at the same time, one after the other.
const LINES: u32 = 256;
/// Keys that each thread inserts into a line.
const KEYS_PER_LINE: u32 = 6;

/// Inserts keys of all threads into each of many lines at the same moment, and returns how many of them are lost.
///
/// The threads start together at every line: in some of a thousand lines, a read-modify-write that is not atomic then
/// meets another one, without rare scheduling.
fn keys_lost(probes: u8, threads: u32, round: u32) -> usize {
    let lines: Vec<RegisterBlockedBloom> = (0..LINES).map(|_| filter(probes, 64)).collect();
    let keys = |thread: u32| common::key_set(round * threads + thread, KEYS_PER_LINE * LINES).collect();
    let keys: Vec<Vec<KeyHash>> = (0..threads).map(keys).collect();
    let of_lines = |thread: usize| lines.iter().zip(keys[thread].chunks(KEYS_PER_LINE as usize));
    let arrived = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..threads as usize {
            let (of_lines, arrived) = (&of_lines, &arrived);
            scope.spawn(move || {
                for (turn, (line, hashes)) in (1..).zip(of_lines(thread)) {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    wait_for(arrived, turn * threads as usize);
                    hashes.iter().for_each(|&hash| {
                        line.insert(hash);
                    });
                }
            });
        }
    });
    let is_lost = |(line, hashes): (&RegisterBlockedBloom, &[KeyHash])| hashes.iter().any(|&hash| !line.contains(hash));
    (0..threads as usize).flat_map(of_lines).filter(|&of_line| is_lost(of_line)).count()
}

/// Spins, so that all threads continue within nanoseconds, and yields if there are more threads than cores.
fn wait_for(arrived: &AtomicUsize, all: usize) {
    let mut spins = 0_u32;
    while arrived.load(Ordering::Relaxed) < all {
        spins += 1;
        if spins.is_multiple_of(1_000) { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

// promise: no-false-negatives
#[test]
fn no_key_is_lost_where_threads_hammer_one_line() {
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let threads = u32::try_from(cores.clamp(2, 4)).unwrap();
    for probes in [2, 3, 4] {
        let started = Instant::now();
        let mut rounds = 0;
        while rounds < 20 || started.elapsed() < Duration::from_millis(50) {
            assert_eq!(keys_lost(probes, threads, rounds), 0, "{probes}, round {rounds}: keys are lost");
            rounds += 1;
        }
    }
}

/// Four threads with bits in every word, at every size and in batches.
// promise: no-false-negatives
#[test]
fn keys_inserted_by_many_threads_at_once_are_all_there() {
    const THREADS: u32 = 4;
    let rounds = if common::is_long() { 400 } else { 40 };
    for (round, probes) in (0..rounds).zip([2, 3, 4].into_iter().cycle()) {
        let filter = filter(probes, 64 << (round % 5));
        let start = Barrier::new(THREADS as usize);
        let keys = |thread| common::key_set(round * THREADS + thread, 20 << (round % 5));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (filter, start) = (&filter, &start);
                scope.spawn(move || {
                    let hashes: Vec<KeyHash> = keys(thread).collect();
                    start.wait();
                    let (one_by_one, batch) = hashes.split_at(hashes.len() / 2);
                    one_by_one.iter().for_each(|&hash| {
                        filter.insert(hash);
                    });
                    filter.insert_all(batch);
                    assert!(hashes.iter().all(|&hash| filter.contains(hash)), "a thread's own key is lost");
                });
            }
        });
        assert!((0..THREADS).flat_map(keys).all(|hash| filter.contains(hash)), "round {round}: a key is lost");
        let mut alone = self::filter(probes, 64 << (round % 5));
        (0..THREADS).flat_map(keys).for_each(|hash| {
            alone.insert_exclusive(hash);
        });
        assert_eq!(to_block(&alone), to_block(&filter), "round {round}: other bytes than from one thread");
    }
}

// promise: threads
// misuse: early-lookup
#[test]
fn a_key_is_there_for_whoever_is_told_of_it() {
    let filter = filter(2, 1 << 16);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for set in 0..2 {
            let (filter, sender) = (&filter, sender.clone());
            scope.spawn(move || {
                for hash in common::key_set(set, 20_000) {
                    filter.insert(hash);
                    sender.send(hash).unwrap();
                }
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().filter(|&hash| filter.contains(hash)).count(), 40_000);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(200, 3_000)))]

    // promise: no-false-negatives
    #[test]
    fn a_key_is_new_once_and_found_however_it_came_in(
        probes in prop::sample::select(vec![2, 3, 4]), size in 6..14_u32,
        hashes in prop::collection::vec(any::<u64>(), 0..300), shift in 0..64_u32, offset in 0..16_usize,
    ) {
        // Shifted down, the hashes are badly mixed and fall into few words.
        let hashes: Vec<KeyHash> = hashes.into_iter().map(|hash| KeyHash::from_well_mixed(hash >> shift)).collect();
        let (shared, batch, mut alone) = (filter(probes, 1 << size), filter(probes, 1 << size), filter(probes, 1 << size));
        for &hash in &hashes {
            let is_new = !shared.contains(hash);
            prop_assert_eq!((shared.insert(hash), alone.insert_exclusive(hash)), (is_new, is_new));
        }
        batch.insert_all(&hashes);
        prop_assert_eq!(batch.insert_all(&hashes), 0);
        let block = to_block(&shared);
        prop_assert_eq!((&block, &block), (&to_block(&alone), &to_block(&batch)));
        let buffer = [&vec![0xa5; offset][..], &block].concat();
        let stored = FilterBlock::open_unverified(&buffer[offset..]).unwrap();
        let mut matches = MatchBitmap::default();
        stored.may_contain_batch(&hashes, &mut matches);
        prop_assert_eq!(matches.count(), hashes.len() as u64);
        prop_assert!(hashes.iter().all(|&hash| shared.contains(hash) && stored.may_contain(hash)));
        prop_assert_eq!(stored.info().keys, shared.keys());
    }
}
