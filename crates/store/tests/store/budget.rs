//! Guards against a budget that loses a key, takes more memory than it was given, loads a filter twice, makes a reader
//! wait for another thread's slow disk, loses count after a source fails or panics, or spends its bytes on files that
//! were probed once.

use std::sync::{Arc, Barrier};
use std::thread;

use bytes::Bytes;
use sstfilter::{BuildContext, FixedPolicy, KeyHasher, LookupOutcome, Probe};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterResidency, FilterStore, PartitionCut, PartitionOptions,
    ResidencyReason,
};

use crate::common::random::Random;
use crate::common::{policy, ribbon};
use crate::container::CUTS;
use crate::engine::{Disk, Mode};

/// Key `number` of file `set`.
#[expect(clippy::big_endian_bytes, reason = "in the order of the numbers")]
fn key(set: u32, number: u32) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(set)).to_be_bytes()
}

/// Absent keys between the smallest and the largest key of each file.
#[expect(clippy::big_endian_bytes, reason = "in the order of the numbers")]
fn absent(number: u64) -> [u8; 8] {
    ((1 + number % 150) << 32 | 1 << 31 | number).to_be_bytes()
}

/// Returns the filter of `keys` keys of file `set`.
fn built(policy: &FixedPolicy, set: u32, keys: u32) -> (Bytes, FilterMetadata) {
    let store = FilterStore::default().with_policy(Arc::new(policy.clone()));
    let mut builder = store.builder([7; 16].into());
    (0..keys).for_each(|number| builder.add_key(&key(set, number)));
    builder.finish().seal()
}

/// Opens the file of 1,000 keys of a set under the budget.
fn open(budget: &FilterBudget, set: u32, gate: Option<Arc<Barrier>>) -> (FileFilters, Arc<Disk>) {
    let (block, metadata) = built(&ribbon(0.01), set, 1_000);
    let disk = Disk::gated(block, gate);
    (FilterStore::default().with_budget(budget.clone()).open(metadata, disk.clone()), disk)
}

/// Files whose filters differ only in their keys: file `n` has the keys of set `n`.
fn files(budget: &FilterBudget, policy: &FixedPolicy, count: u32, keys: u32) -> Vec<FileFilters> {
    let store = FilterStore::default().with_budget(budget.clone());
    let open = |(block, metadata)| store.open(metadata, block);
    (0..count).map(|set| open(built(policy, set, keys))).collect()
}

fn bytes_of(files: &[FileFilters]) -> Vec<u64> {
    files.iter().map(|filter| filter.residency().bytes).collect()
}

/// Looks up absent keys in a file, and returns the data blocks read in vain.
fn useless_reads(filter: &FileFilters, numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.map(|number| u64::from(!filter.probe(&absent(number)).is_absent())).sum()
}

fn assert_no_key_lost(filter: &FileFilters, set: u32, keys: u32) {
    for key in (0..keys).map(|number| key(set, number)) {
        let answer = filter.probe(&key);
        assert!(!answer.is_absent(), "a key of file {set} is lost");
        filter.record_lookup(&key, answer, LookupOutcome::Found);
    }
}

/// Looks up absent keys, whatever it costs.
fn look_up(filter: &FileFilters, numbers: impl Iterator<Item = u64>) {
    useless_reads(filter, numbers);
}

#[test]
fn a_filter_comes_in_when_it_is_first_probed_and_leaves_with_its_file() {
    let budget = FilterBudget::unlimited();
    let (filter, disk) = open(&budget, 1, None);
    assert_eq!((filter.residency().bytes, filter.residency().reason), (0, ResidencyReason::NotProbed));
    assert_eq!(budget.stats().used_bytes, 0);
    assert_no_key_lost(&filter, 1, 1_000);
    assert!(useless_reads(&filter, 0..1_000) < 30);
    assert_eq!(
        (filter.residency().bytes, filter.residency().reason),
        (filter.residency().whole_bytes, ResidencyReason::Fits)
    );
    assert_eq!((budget.stats().used_bytes, disk.reads()), (disk.bytes().len() as u64, 1));
    drop(filter);
    assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0));
}

#[test]
fn counts_are_exact_for_one_thread() {
    let budget = FilterBudget::new(0).with_probes_per_plan(7);
    let (filter, _) = open(&budget, 1, None);
    for number in 0..100 {
        let answer = filter.probe(&absent(number));
        assert_eq!(answer, Probe::NotLoaded);
        let outcome = if number < 10 { LookupOutcome::Found } else { LookupOutcome::NotFound };
        filter.record_lookup(&absent(number), answer, outcome);
    }
    assert_eq!(filter.stats().filter.not_loaded, 100);
    budget.set_bytes(1 << 20);
    let mut expected = filter.stats().filter;
    for number in 0..1_000 {
        let answer = filter.probe(&absent(number));
        filter.record_lookup(&absent(number), answer, LookupOutcome::NotFound);
        let is_absent = answer.is_absent();
        expected.negatives += u64::from(is_absent);
        expected.positives += u64::from(!is_absent);
        expected.false_positives += u64::from(!is_absent);
    }
    assert!(expected.positives > 0 && filter.stats().filter == expected, "{:?}", filter.stats().filter);
    assert_eq!(filter.stats().filter.probes(), 1_100);
}

#[test]
fn budgets_of_no_one_few_and_all_bytes_lose_no_key_and_are_kept() {
    for bytes in [0, 1, 31, 500, 1_100, 5_000, 20_000, u64::MAX] {
        let budget = FilterBudget::new(bytes).with_probes_per_plan(50);
        let files = files(&budget, &ribbon(0.01), 10, 1_000);
        for round in 0..20 {
            for (set, filter) in (0..).zip(&files) {
                useless_reads(filter, round * 100..round * 100 + 100);
                assert_no_key_lost(filter, set, 100);
                let used = budget.stats().used_bytes;
                assert!(used <= bytes, "{used} of {bytes} bytes");
                assert_eq!(used, bytes_of(&files).iter().sum());
            }
        }
        let loads: u64 = budget.stats().loads;
        assert!(loads <= 10 * (budget.stats().plans + 1), "{loads} loads, {} plans", budget.stats().plans);
        assert_eq!(loads == 0, bytes < 140, "{loads} loads with {bytes} bytes");
        assert!(bytes < 20_000 || files.iter().all(|filter| filter.residency().reason == ResidencyReason::Fits));
    }
}

/// Opens 40 files that `store` has written, with `keys(n)` keys in file `n`, under `share` percent of their bytes. Looks
/// up absent keys in each, and returns the share of data blocks read in vain.
fn useless_share(store: &FilterStore, keys: impl Fn(u32) -> u32, share: u64) -> (f64, Vec<FileFilters>) {
    let open = |set: u32| {
        let mut builder = store.builder([7; 16].into());
        (0..keys(set)).for_each(|number| builder.add_key(&key(set, number)));
        let (block, metadata) = builder.finish().seal();
        store.open(metadata, block)
    };
    let files: Vec<FileFilters> = (0..40).map(open).collect();
    let whole: u64 = files.iter().map(|file| file.residency().whole_bytes).sum();
    store.budget().unwrap().set_bytes(whole * share / 100);
    let mut random = Random::new(3);
    // Spread over all partitions.
    let mut lookups = |count: u64| -> usize {
        let mut is_read = |(set, file): &(u32, &FileFilters)| {
            let before = random.next() % u64::from(keys(*set) - 1);
            let absent = (before << 32) | (1 << 31) | (random.next() % (1 << 31));
            !file.probe(&absent.to_be_bytes()).is_absent()
        };
        (0..count).flat_map(|_| (0..).zip(&files)).filter(|file| is_read(file)).count()
    };
    lookups(2_000);
    let useless = lookups(4_000) as f64 / (4_000.0 * 40.0);
    assert!((0..keys(39)).all(|number| !files[39].probe(&key(39, number)).is_absent()));
    (useless, files)
}

/// A Bloom filter whose number of lines has no small divisor was dropped instead: a quarter and a half of the reads
/// were in vain.
// promise: limited-memory
#[test]
fn a_store_with_a_budget_shrinks_its_filters_instead_of_dropping_them() {
    let options = PartitionOptions::new(PartitionCut::KeyRange, 4 << 10).unwrap();
    let stores = || {
        [false, true].map(|has_partitions| {
            let store = FilterStore::default().with_budget(FilterBudget::unlimited());
            if has_partitions { store.with_partitions(options) } else { store }
        })
    };
    let sizes: [fn(u32) -> u32; 2] = [|_| 12_500, |file| 5_000 + file * 397];
    for (share, most) in [(100, 0.016), (75, 0.065), (50, 0.115)] {
        for (keys, store) in sizes.into_iter().flat_map(|keys| stores().map(|store| (keys, store))) {
            let (useless, files) = useless_share(&store, keys, share);
            println!("{share} %: {:.2} %, {} partitions", useless * 100.0, files[0].residency().partitions);
            assert!(useless < most, "{share} % of the bytes: {useless}");
            assert!(files.iter().all(|file| file.residency().bytes > 0), "{share} %: a filter was dropped");
            // A small partition may wait for the next plan.
            let [held, all] = [|r: FilterResidency| r.partitions_in_memory, |r: FilterResidency| r.partitions]
                .map(|count| files.iter().map(|file| u64::from(count(file.residency()))).sum::<u64>());
            assert!(held * 20 >= all * 19, "{share} %: {held} of {all} partitions");
        }
    }
}

/// The store that writes decides; a context of the engine's cannot take it back.
#[test]
fn only_a_budget_that_shrinks_makes_filters_shrinkable() {
    let bytes = |store: FilterStore| {
        let context = BuildContext::new(&KeyHasher::default());
        let mut builder = store.builder([7; 16].into()).with_context(&context);
        (0..9_950).for_each(|number| builder.add_key(&key(1, number)));
        builder.finish().seal().0.len()
    };
    let [plain, shrinking] = [195, 204].map(|lines| lines * 64 + 44);
    assert_eq!(bytes(FilterStore::default()), plain);
    assert_eq!(bytes(FilterStore::default().with_budget(FilterBudget::new(0).without_shrinking())), plain);
    assert_eq!(bytes(FilterStore::default().with_budget(FilterBudget::unlimited())), shrinking);
}

#[test]
fn what_is_looked_up_often_keeps_its_bytes() {
    let budget = FilterBudget::new(8_000).with_probes_per_plan(2_000);
    let files = files(&budget, &ribbon(0.01), 20, 2_000);
    // Cold files come first, and take all memory.
    for number in 0..2_000 {
        for (at, filter) in files.iter().enumerate() {
            let times = if at >= 16 { 20 } else { u64::from(number % 10 == 0) };
            useless_reads(filter, number * 20..number * 20 + times);
        }
    }
    let states = bytes_of(&files);
    assert!(states[16..].iter().all(|&hot| states[..16].iter().all(|&cold| cold < hot)), "{states:?}");
    // In reverse: the hot files become cold.
    for number in 0..2_000 {
        for filter in &files[..4] {
            useless_reads(filter, number * 20..number * 20 + 20);
        }
    }
    let states = bytes_of(&files);
    assert!(states[..4].iter().all(|&hot| states[4..].iter().all(|&cold| cold < hot)), "{states:?}");
}

// promise: limited-memory
#[test]
fn many_threads_load_a_filter_once_and_none_waits() {
    let budget = FilterBudget::unlimited();
    let gate = Arc::new(Barrier::new(2));
    let (filter, disk) = open(&budget, 1, Some(gate.clone()));
    thread::scope(|scope| {
        let loader = scope.spawn(|| filter.probe(&absent(1)));
        gate.wait();
        // The load has begun, and ends only after all other threads have their answers.
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    for number in 0..100 {
                        let answer = filter.probe(&absent(number));
                        assert_eq!(answer, Probe::NotLoaded);
                    }
                });
            }
        });
        gate.wait();
        assert!(loader.join().unwrap().is_absent());
    });
    assert_eq!((disk.reads(), filter.stats().filter.not_loaded), (1, 3_200));
    assert_no_key_lost(&filter, 1, 1_000);
}

#[test]
fn a_source_that_fails_is_tried_again_rarely_and_recovers() {
    let budget = FilterBudget::new(1 << 20);
    let (filter, disk) = open(&budget, 1, None);
    disk.set(Mode::Fails);
    for number in 0..10_000 {
        assert_eq!(filter.probe(&absent(number)), Probe::Unusable);
    }
    assert!(filter.problem().unwrap().to_string().contains("the disk is away"));
    let loads = disk.reads();
    assert!((2..=9).contains(&loads), "{loads} loads for 10,000 probes");
    assert!(matches!(filter.residency().reason, ResidencyReason::LoadFailed(_)) && budget.stats().used_bytes == 0);
    assert_eq!(filter.stats().filter.unusable, 10_000);
    assert_eq!(budget.stats().failed_loads, loads);
    disk.set(Mode::Sound);
    useless_reads(&filter, 0..20_000);
    assert_eq!(filter.residency().reason, ResidencyReason::Fits);
}

#[test]
fn a_filter_that_failed_comes_back_into_a_budget_that_is_full() {
    let budget = FilterBudget::new(2_000).with_probes_per_plan(500);
    let (failing, disk) = open(&budget, 0, None);
    disk.set(Mode::Fails);
    let others = files(&budget, &ribbon(0.01), 4, 1_000);
    useless_reads(&failing, 0..10);
    for round in 0..20 {
        others.iter().for_each(|filter| look_up(filter, round * 100..round * 100 + 100));
    }
    disk.set(Mode::Sound);
    useless_reads(&failing, 0..5_000);
    assert!(failing.residency().bytes > 0, "{:?}", budget.stats());
    assert!(budget.stats().used_bytes <= 2_000);
}

#[test]
fn filters_that_cannot_shrink_are_whole_or_absent() {
    let xor = policy("xor", sstfilter::Sizing::FingerprintBits(8));
    let budget = FilterBudget::new(4_000).with_probes_per_plan(100);
    let files = files(&budget, &xor, 10, 1_000);
    for number in 0..500 {
        for (set, filter) in (0..).zip(&files) {
            useless_reads(filter, number..=number);
            assert_no_key_lost(filter, set, 2);
        }
    }
    let held = files.iter().filter(|filter| filter.residency().reason == ResidencyReason::Fits).count();
    assert_eq!(held, 3, "{:?}", budget.stats());
    assert!(budget.stats().loads <= 10 + budget.stats().plans / 10, "{:?}", budget.stats());
}

// promise: limited-memory
#[test]
fn bytes_that_were_planned_for_a_file_are_free_again_when_it_is_dropped() {
    let budget = FilterBudget::new(0).without_automatic_plans();
    let [(dropped, disk), (next, _)] = [1, 2].map(|set| open(&budget, set, None));
    let whole = disk.bytes().len() as u64;
    look_up(&dropped, 0..1_000);
    budget.set_bytes(whole * 3 / 2);
    assert_eq!((dropped.residency().planned_bytes, dropped.residency().bytes), (whole, 0));
    assert!(!next.probe(&absent(1)).is_absent(), "the plan gives the bytes to the other file");
    drop(dropped);
    // No plan is made in between.
    assert!(next.probe(&absent(1)).is_absent() && next.residency().reason == ResidencyReason::Fits);
    assert_no_key_lost(&next, 2, 1_000);
}

// promise: limited-memory
#[test]
fn filters_that_are_being_loaded_while_the_budget_becomes_smaller_obey_it() {
    const THREADS: u32 = 8;
    let whole = built(&ribbon(0.01), 0, 1_000).0.len() as u64;
    for limit in [0, whole / 2, whole * 3 / 4, whole, whole * 5 / 2] {
        let budget = FilterBudget::new(whole * u64::from(THREADS)).without_automatic_plans();
        let gate = Arc::new(Barrier::new(THREADS as usize + 1));
        let files: Vec<_> = (0..THREADS).map(|set| open(&budget, set, Some(gate.clone())).0).collect();
        thread::scope(|scope| {
            let loaders: Vec<_> = files.iter().map(|file| scope.spawn(|| file.probe(&absent(1)))).collect();
            gate.wait();
            budget.set_bytes(limit);
            gate.wait();
            let mut answers = loaders.into_iter().map(|loader| loader.join().unwrap());
            assert!(answers.all(|answer| answer == Probe::Absent), "the answers of what was loaded");
        });
        assert!(budget.stats().used_bytes <= limit, "{limit}: {:?}", budget.stats());
    }
}

// promise: limited-memory
#[test]
fn a_probe_loads_the_partition_of_its_key_alone() {
    const KEYS: u32 = 60_000;
    for cut in CUTS {
        let budget = FilterBudget::unlimited();
        let store = FilterStore::default().with_partitions(PartitionOptions::new(cut, 4 << 10).unwrap());
        let store = store.with_policy(Arc::new(ribbon(0.01))).with_budget(budget.clone());
        let mut builder = store.builder([7; 16].into());
        (0..KEYS).for_each(|number| builder.add_key(&key(1, number)));
        let (container, metadata) = builder.finish().seal();
        let disk = Disk::new(container);
        let filter = store.open(metadata, disk.clone());
        assert!(filter.residency().partitions > 10 && filter.residency().whole_bytes > 40_000);
        assert_no_key_lost(&filter, 1, 1);
        assert_eq!((disk.reads(), filter.residency().partitions_in_memory), (2, 1), "the top index and one partition");
        assert!(budget.stats().used_bytes <= 4 << 10, "{:?}", budget.stats());
        assert_no_key_lost(&filter, 1, KEYS);
        assert_eq!(disk.reads(), 1 + u64::from(filter.residency().partitions));
        assert_eq!(budget.stats().used_bytes, filter.residency().whole_bytes);
    }
}
