//! Guards against a budget that counts other bytes than it takes, and files that cost memory although nobody reads
//! them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::{io, thread};

use bytes::Bytes;
use sstfilter::{FileId, KeyHash};
use sstfilter_store::{FileFilters, FilterBudget, FilterMetadata, FilterSource, FilterStore};

use crate::allocator::{alone, measure};
use crate::common::{effort, ribbon};

/// A filter "on disk".
#[derive(Debug)]
struct Disk(Bytes);

impl FilterSource for Disk {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        Ok(Bytes::copy_from_slice(&self.0.read(range)?))
    }
}

/// Returns a store of Ribbon filters under a budget.
fn store(budget: &FilterBudget) -> FilterStore {
    FilterStore::default().with_policy(Arc::new(ribbon(0.01))).with_budget(budget.clone())
}

/// Returns key `number` of a set: eight bytes; no two sets share a key.
fn key(set: u32, number: u32) -> [u8; 8] {
    KeyHash::mix(1 << 63 | u64::from(set) << 32 | u64::from(number)).get().to_le_bytes()
}

/// Returns the filter of this many keys of a set.
fn built(set: u32, keys: u32) -> (Bytes, FilterMetadata) {
    let store = store(&FilterBudget::unlimited());
    let mut builder = store.builder(FileId::random());
    (0..keys).for_each(|number| builder.add_key(&key(set, number)));
    builder.finish().seal()
}

/// Probes for a key that no set has.
fn probe(file: &FileFilters, number: u64) {
    let _ = file.probe(&KeyHash::mix(number).get().to_le_bytes());
}

const FILES: u32 = 40;
const KEYS: u32 = 40_000;

fn opened(budget: &FilterBudget, filters: &[(Bytes, FilterMetadata)]) -> Vec<FileFilters> {
    let store = store(budget);
    filters.iter().map(|(filter, metadata)| store.open(metadata.clone(), Disk(filter.clone()))).collect()
}

/// Makes files hot and cold again by lookups.
fn look_up(files: &[FileFilters], seed: u64) {
    for round in 0..40_u64 {
        for (at, file) in (0..).zip(files) {
            let times = if at % 8 == (round / 8 + seed) % 8 { 200 } else { 10 };
            for number in 0..times {
                probe(file, seed << 40 | round << 20 | number);
            }
        }
    }
}

// promise: limited-memory
#[test]
fn memory_exceeds_a_budget_by_one_filter_at_most() {
    let _alone = alone();
    let filters: Vec<_> = (0..FILES).map(|set| built(set, KEYS)).collect();
    for threads in [1_u64, 8] {
        for percent in [100, 50, 25, 10, 2, 0] {
            let budget = FilterBudget::new(0).with_probes_per_plan(2_000);
            let files = opened(&budget, &filters);
            let whole = budget.stats().whole_bytes;
            let (limit, largest) = (whole * percent / 100, whole / u64::from(FILES));
            budget.set_bytes(limit);
            let ((), peak) = measure(|| {
                thread::scope(|scope| {
                    let files = &files;
                    for seed in 1..threads {
                        scope.spawn(move || look_up(files, seed));
                    }
                    look_up(files, 0);
                });
            });
            // Bookkeeping: 1 KiB for each block in memory and each curve, the lists of a plan, and the threads' own
            // memory.
            let most = limit + largest + 1024 * u64::from(FILES) + 16 * 1024 * threads;
            println!(
                "{threads} threads, {percent} %: {peak} bytes, {limit} of the budget, {largest} of a filter, {:?}",
                budget.stats()
            );
            assert!(peak as u64 <= most, "{peak} bytes, {most} at most");
            assert!(budget.stats().used_bytes <= limit);
            assert!(percent < 10 || percent == 100 || budget.stats().shrinks > 10);
        }
    }
}

/// A source whose callers wait for one another for a while, so that their loads overlap if the budget allows it.
#[derive(Debug)]
struct Overlapping {
    disk: Disk,
    loading: Arc<AtomicU64>,
}

/// Long enough for all threads to arrive, however few processors there are.
const PATIENCE: u32 = 2_000;

impl FilterSource for Overlapping {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.loading.fetch_add(1, SeqCst);
        let block = self.disk.read(range);
        (0..PATIENCE).take_while(|_| self.loading.load(SeqCst) < THREADS).for_each(|_| thread::yield_now());
        self.loading.fetch_sub(1, SeqCst);
        block
    }
}

const THREADS: u64 = 8;

/// As many filters of one size as threads.
fn overlapping(budget: &FilterBudget) -> Vec<FileFilters> {
    let (store, loading) = (store(budget), Arc::new(AtomicU64::new(0)));
    let (filter, metadata) = built(1, 200_000);
    let open = |_| {
        let disk = Disk(filter.clone());
        store.open(metadata.clone(), Overlapping { disk, loading: loading.clone() })
    };
    (0..THREADS).map(open).collect()
}

/// Each thread probes its own file.
fn look_up_at_once(files: &[FileFilters], seed: u64) {
    thread::scope(|scope| {
        for (at, file) in (0..).zip(files) {
            scope.spawn(move || {
                for number in 0..1_000_u64 {
                    probe(file, seed << 40 | at << 20 | number);
                }
            });
        }
    });
}

#[test]
fn filters_that_all_threads_grow_at_once_exceed_a_budget_by_one_at_most() {
    let _alone = alone();
    let budget = FilterBudget::new(0).without_automatic_plans();
    let files = overlapping(&budget);
    let whole = budget.stats().whole_bytes;
    // From nothing to shrunk, from shrunk to larger, from larger to whole, and back.
    for (seed, sixteenths) in (0..).zip([6, 9, 12, 17, 8, 17]) {
        let limit = whole * sixteenths / 16;
        budget.set_bytes(limit);
        let held = budget.stats().used_bytes;
        let ((), peak) = measure(|| {
            for round in 0..20 {
                look_up_at_once(&files, seed << 8 | round);
                budget.rebalance();
            }
        });
        let most = (limit - held) + whole / THREADS + 1024 * THREADS + 16 * 1024 * THREADS;
        println!("{held} bytes, {peak} more, {most} at most, {:?}", budget.stats());
        assert!(peak as u64 <= most, "{peak} bytes, {most} at most, of filters of {} bytes", whole / THREADS);
        let used = budget.stats().used_bytes;
        assert!(used <= limit && used >= limit.min(whole) * 3 / 4, "{used} of {limit} bytes");
    }
    assert!(files.iter().all(|file| file.residency().bytes == file.residency().whole_bytes), "all have grown");
}

/// All in the long form, otherwise a quarter.
#[test]
fn a_hundred_thousand_files_take_750_bytes_each_before_their_filters() {
    let _alone = alone();
    let budget = FilterBudget::new(16);
    let (store, source) = (store(&budget), Arc::new(Disk(Bytes::new())));
    let (_, metadata) = built(1, 2_000);
    let open = |_| store.open(metadata.clone(), source.clone());
    let (files, peak) = measure(|| (0..100_000 / effort::sample(4)).map(open).collect::<Vec<_>>());
    println!("{} bytes for each file", peak / files.len());
    // Half of these bytes are the description.
    assert!(peak <= 750 * files.len(), "{peak} bytes");
    let ((), peak) = measure(|| {
        files.iter().for_each(|file| probe(file, 1));
    });
    println!("{peak} bytes for a probe and plans");
    assert!(peak <= 120 * files.len(), "{peak} bytes for plans");
}
