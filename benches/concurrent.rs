//! The filters that many threads insert into: one thread's time per key, then the throughput of two threads together.
//!
//! Keys are hashed beforehand. A figure is the time of one pass over all keys, divided by their number; with two
//! threads, the time until both finish, divided by the keys of both.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::{AtomicBloom, DynamicFilter, HashIdentity, KeyHash, MatchBitmap, RegisterBlockedBloom};

/// Eight bits per key in 256 KiB.
const KEYS: u64 = 1 << 18;

fn hashes(set: u64) -> Vec<KeyHash> {
    (0..KEYS).map(|number| KeyHash::mix(set << 32 | number)).collect()
}

fn empty(bits: u8) -> RegisterBlockedBloom {
    RegisterBlockedBloom::with_shape(HashIdentity::default(), 256 << 10, bits).expect("memory for 256 KiB")
}

fn filled(bits: u8, hashes: &[KeyHash]) -> RegisterBlockedBloom {
    let filter = empty(bits);
    filter.insert_all(hashes);
    filter
}

fn one_thread(criterion: &mut Criterion) {
    let (present, absent) = (hashes(0), hashes(1));
    for bits in [2, 3, 4] {
        let mut group = criterion.benchmark_group(format!("register-blocked bloom, {bits} bits in 64"));
        group.throughput(Throughput::Elements(KEYS)).sample_size(20);
        inserts(&mut group, bits, &present);
        probes(&mut group, bits, &present, &absent);
    }
}

fn inserts(group: &mut BenchmarkGroup<'_, WallTime>, bits: u8, present: &[KeyHash]) {
    let all = filled(bits, present);
    let one_by_one = |filter: &RegisterBlockedBloom| present.iter().filter(|&&hash| filter.insert(hash)).count();
    group.bench_function("insert, new", |bencher| {
        bencher.iter_batched_ref(|| empty(bits), |filter| one_by_one(filter), BatchSize::LargeInput);
    });
    group.bench_function("insert, present", |bencher| bencher.iter(|| one_by_one(black_box(&all))));
    group.bench_function("batch insert, new", |bencher| {
        bencher.iter_batched_ref(|| empty(bits), |filter| filter.insert_all(present), BatchSize::LargeInput);
    });
    group.bench_function("batch insert, present", |bencher| bencher.iter(|| all.insert_all(black_box(present))));
    group.bench_function("insert, exclusive", |bencher| {
        let exclusive =
            |filter: &mut RegisterBlockedBloom| present.iter().filter(|&&hash| filter.insert_exclusive(hash)).count();
        bencher.iter_batched_ref(|| empty(bits), exclusive, BatchSize::LargeInput);
    });
}

fn probes(group: &mut BenchmarkGroup<'_, WallTime>, bits: u8, present: &[KeyHash], absent: &[KeyHash]) {
    let filter = filled(bits, present);
    let mut matches = MatchBitmap::default();
    for (name, hashes) in [("hit", present), ("miss", absent)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(hashes).iter().filter(|&&hash| filter.contains(hash)).count());
        });
        group.bench_function(format!("batch {name}"), |bencher| {
            bencher.iter(|| {
                for batch in black_box(hashes).chunks(4_096) {
                    filter.contains_batch(batch, &mut matches);
                    black_box(&mut matches);
                }
            });
        });
    }
}

/// What two threads do to one filter, each with its own half of the work.
fn two_threads(criterion: &mut Criterion) {
    let (one, other) = (hashes(0), hashes(1));
    let mut group = criterion.benchmark_group("register-blocked bloom, two threads");
    group.throughput(Throughput::Elements(2 * KEYS)).sample_size(20);
    let bits = 2;
    let insert = |filter: &RegisterBlockedBloom, hashes: &[KeyHash]| filter.insert_all(hashes);
    let contains = |filter: &RegisterBlockedBloom, hashes: &[KeyHash]| {
        hashes.iter().map(|&hash| u64::from(filter.contains(hash))).sum::<u64>()
    };
    let full = filled(bits, &one);
    full.insert_all(&other);
    group.bench_function("insert, new, different keys", |bencher| {
        bencher.iter_custom(|turns| (0..turns).map(|_| together(&empty(bits), [&one, &other], insert)).sum());
    });
    group.bench_function("insert, new, the same keys", |bencher| {
        bencher.iter_custom(|turns| (0..turns).map(|_| together(&empty(bits), [&one, &one], insert)).sum());
    });
    group.bench_function("insert, present", |bencher| {
        bencher.iter_custom(|turns| (0..turns).map(|_| together(&full, [&one, &other], insert)).sum());
    });
    group.bench_function("contains", |bencher| {
        bencher.iter_custom(|turns| (0..turns).map(|_| together(&full, [&one, &other], contains)).sum());
    });
}

/// A standard Bloom filter of 10 bits per key, in 0.6, 5 and 20 MB: one thread with all keys, then two with half of
/// them each.
fn standard(criterion: &mut Criterion) {
    for sets in [1, 8, 32] {
        let [one, other] = [0, sets].map(|first| (first..first + sets).flat_map(hashes).collect::<Vec<_>>());
        let (all, keys) = ([&one[..], &other].concat(), 2 * sets * KEYS);
        let mut group = criterion.benchmark_group(format!("standard bloom for threads, {keys} keys"));
        group.throughput(Throughput::Elements(keys)).sample_size(20);
        let empty = || AtomicBloom::with_shape(HashIdentity::default(), 10 * keys, 7).expect("memory for its keys");
        let insert = |filter: &AtomicBloom, hashes: &[KeyHash]| filter.insert_all(hashes);
        group.bench_function("insert, new, one thread", |bencher| {
            bencher.iter_batched_ref(empty, |filter| filter.insert_all(black_box(&all)), BatchSize::LargeInput);
        });
        group.bench_function("insert, new, two threads", |bencher| {
            bencher.iter_custom(|turns| (0..turns).map(|_| together(&empty(), [&one, &other], insert)).sum());
        });
    }
}

/// The time from when both threads run until both are done.
fn together<F: Sync>(filter: &F, work: [&[KeyHash]; 2], job: impl Fn(&F, &[KeyHash]) -> u64 + Sync) -> Duration {
    let (start, job) = (std::sync::Barrier::new(2), &job);
    let spans = std::thread::scope(|scope| {
        let threads = work.map(|hashes| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                let started = Instant::now();
                black_box(job(filter, black_box(hashes)));
                (started, Instant::now())
            })
        });
        threads.map(|thread| thread.join().expect("it does not panic"))
    });
    let (started, ended) = (spans.map(|span| span.0), spans.map(|span| span.1));
    ended.into_iter().max().expect("two").duration_since(started.into_iter().min().expect("two"))
}

criterion_group!(benches, one_thread, two_threads, standard);
criterion_main!(benches);
