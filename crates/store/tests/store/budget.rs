//! Guards against a budget that loses a key, takes more memory than it was given, loads a filter twice, makes a reader
//! wait for another thread's slow disk, loses count after a source fails or panics, or spends its bytes on files that
//! were probed once.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier};
use std::{io, thread};

use bytes::Bytes;
use sstfilter::{BuildContext, FixedPolicy, KeyHasher, LookupOutcome, Probe};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterProblem, FilterResidency, FilterSource, FilterStore, PartitionCut,
    PartitionOptions, ResidencyReason,
};

use crate::common::random::Random;
use crate::common::{policy, ribbon};

/// A file's filter "on disk".
struct Disk {
    block: Bytes,
    metadata: FilterMetadata,
    loads: AtomicU64,
    fails: AtomicBool,
    panics: AtomicBool,
    /// A load waits here twice: for the test to see that it has begun, and for permission to end.
    gate: Option<Barrier>,
}

impl FilterSource for Disk {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.loads.fetch_add(1, SeqCst);
        if let Some(gate) = &self.gate {
            gate.wait();
            gate.wait();
        }
        assert!(!self.panics.load(SeqCst), "a source that panics");
        if self.fails.load(SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.block.read(range)
    }
}

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

fn disk(policy: &FixedPolicy, set: u32, keys: u32) -> Disk {
    let store = FilterStore::default().with_policy(Arc::new(policy.clone()));
    let mut builder = store.builder([7; 16].into());
    (0..keys).for_each(|number| builder.add_key(&key(set, number)));
    let (block, metadata) = builder.finish().seal();
    let (loads, fails, panics) = (0.into(), false.into(), false.into());
    Disk { block, metadata, loads, fails, panics, gate: None }
}

/// Opens a file under the budget.
fn open(budget: &FilterBudget, disk: Disk) -> (FileFilters, Arc<Disk>) {
    let (store, disk) = (FilterStore::default().with_budget(budget.clone()), Arc::new(disk));
    (store.open(disk.metadata.clone(), disk.clone()), disk)
}

/// Files whose filters differ only in their keys: file `n` has the keys of set `n`.
fn files(budget: &FilterBudget, policy: &FixedPolicy, count: u32, keys: u32) -> Vec<(FileFilters, Arc<Disk>)> {
    (0..count).map(|set| open(budget, disk(policy, set, keys))).collect()
}

fn bytes_of<D>(files: &[(FileFilters, D)]) -> u64 {
    files.iter().map(|(filter, _)| filter.residency().bytes).sum()
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
    let (filter, disk) = open(&budget, disk(&ribbon(0.01), 1, 1_000));
    assert_eq!((filter.residency().bytes, filter.residency().reason), (0, ResidencyReason::NotProbed));
    assert_eq!(budget.stats().used_bytes, 0);
    assert_no_key_lost(&filter, 1, 1_000);
    assert!(useless_reads(&filter, 0..1_000) < 30);
    assert_eq!(
        (filter.residency().bytes, filter.residency().reason),
        (filter.residency().whole_bytes, ResidencyReason::Fits)
    );
    assert_eq!((budget.stats().used_bytes, disk.loads.load(SeqCst)), (disk.block.len() as u64, 1));
    drop(filter);
    assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0));
}

#[test]
fn counts_are_exact_for_one_thread() {
    let budget = FilterBudget::new(0).with_probes_per_plan(7);
    let (filter, _) = open(&budget, disk(&ribbon(0.01), 1, 1_000));
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
            for (set, (filter, _)) in (0..).zip(&files) {
                useless_reads(filter, round * 100..round * 100 + 100);
                assert_no_key_lost(filter, set, 100);
                let used = budget.stats().used_bytes;
                assert!(used <= bytes, "{used} of {bytes} bytes");
                assert_eq!(used, bytes_of(&files));
            }
        }
        let loads: u64 = budget.stats().loads;
        assert!(loads <= 10 * (budget.stats().plans + 1), "{loads} loads, {} plans", budget.stats().plans);
        assert_eq!(loads == 0, bytes < 140, "{loads} loads with {bytes} bytes");
        assert!(bytes < 20_000 || files.iter().all(|(filter, _)| filter.residency().reason == ResidencyReason::Fits));
    }
}

#[test]
fn shrinking_halves_the_useless_reads_of_a_quarter_of_the_bytes() {
    let useless = [false, true].map(|shrinks| {
        let bytes = files(&FilterBudget::new(0), &ribbon(0.01), 1, 2_000)[0].0.residency().whole_bytes * 70 / 4;
        let budget = FilterBudget::new(bytes);
        let budget = if shrinks { budget } else { budget.without_shrinking() };
        let files = files(&budget, &ribbon(0.01), 70, 2_000);
        let lookups = |range: std::ops::Range<u64>| -> u64 {
            range.map(|number| files.iter().map(|(file, _)| useless_reads(file, number..=number)).sum::<u64>()).sum()
        };
        lookups(0..500);
        let useless = lookups(500..2_500);
        let stats = budget.stats();
        println!("shrinks: {shrinks}: {useless} useless reads of 140000 probes, {stats:?}");
        // Each filter is loaded once to be shrunk, and a few again, because the counts of equal files differ by chance.
        assert!(stats.loads < 3 * 70, "{stats:?}");
        useless
    });
    assert!(useless[1] * 2 < useless[0], "{useless:?}");
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
        for (at, (filter, _)) in files.iter().enumerate() {
            let times = if at >= 16 { 20 } else { u64::from(number % 10 == 0) };
            useless_reads(filter, number * 20..number * 20 + times);
        }
    }
    let states: Vec<u64> = files.iter().map(|(filter, _)| filter.residency().bytes).collect();
    assert!(states[16..].iter().all(|&hot| states[..16].iter().all(|&cold| cold < hot)), "{states:?}");
    // In reverse: the hot files become cold.
    for number in 0..2_000 {
        for (filter, _) in &files[..4] {
            useless_reads(filter, number * 20..number * 20 + 20);
        }
    }
    let states: Vec<u64> = files.iter().map(|(filter, _)| filter.residency().bytes).collect();
    assert!(states[..4].iter().all(|&hot| states[4..].iter().all(|&cold| cold < hot)), "{states:?}");
}

#[test]
fn a_scan_of_all_files_does_not_displace_the_hot_ones() {
    let budget = FilterBudget::new(10_000).with_probes_per_plan(1_000);
    let hot = files(&budget, &ribbon(0.01), 5, 2_000);
    hot.iter().for_each(|(filter, _)| look_up(filter, 0..5_000));
    let before: Vec<u64> = hot.iter().map(|(filter, _)| filter.residency().bytes).collect();
    let cold: Vec<_> = (100..400).map(|set| open(&budget, disk(&ribbon(0.01), set, 200))).collect();
    for round in 0..10 {
        for (filter, _) in &cold {
            useless_reads(filter, round..=round);
        }
        hot.iter().for_each(|(filter, _)| look_up(filter, 0..2_000));
    }
    let after: Vec<u64> = hot.iter().map(|(filter, _)| filter.residency().bytes).collect();
    assert_eq!(before, after);
    assert!(hot.iter().all(|(_, disk)| disk.loads.load(SeqCst) == 1));
}

#[test]
fn a_filter_is_loaded_at_most_once_for_each_plan_whatever_the_lookups() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let budget = FilterBudget::new(6_000).with_probes_per_plan(300);
        let files = files(&budget, &ribbon(0.01), 30, 1_000);
        for _ in 0..200 {
            // The worst case for a cache: a few files at a time, others each time.
            let (filter, _) = random.pick(&files);
            useless_reads(filter, 0..random.below(400) as u64);
            let (plans, used) = (budget.stats().plans, budget.stats().used_bytes);
            let most = files.iter().map(|(_, disk)| disk.loads.load(SeqCst)).max().unwrap();
            assert!(most <= plans + 1 && used <= 6_000);
        }
        let stats = budget.stats();
        println!(
            "{} loads, {} shrinks, {} evictions, {} plans",
            stats.loads, stats.shrinks, stats.evictions, stats.plans
        );
        assert!(stats.loads < 4 * stats.plans, "{stats:?}");
    }
}

#[test]
fn the_same_calls_give_the_same_state() {
    let runs = [(); 2].map(|()| {
        let mut random = Random::new(9);
        let budget = FilterBudget::new(9_000);
        let mut files = files(&budget, &ribbon(0.01), 30, 1_000);
        let mut trace = Vec::new();
        for round in 0..300_u32 {
            let at = random.below(files.len()).min(random.below(files.len()));
            useless_reads(&files[at].0, 0..random.below(200) as u64);
            if round % 40 == 39 {
                files.remove(random.below(files.len()));
                files.push(open(&budget, disk(&ribbon(0.02), 1_000 + round, 1_500)));
            }
            let files: Vec<_> = files.iter().map(|(filter, _)| filter.residency()).collect();
            trace.push((budget.stats(), files));
        }
        trace
    });
    let plans = runs[0].last().map(|(stats, _)| stats.plans);
    assert!(plans > Some(5) && runs[0] == runs[1]);
}

// promise: limited-memory
#[test]
fn many_threads_load_a_filter_once_and_none_waits() {
    let budget = FilterBudget::unlimited();
    let gated = Disk { gate: Some(Barrier::new(2)), ..disk(&ribbon(0.01), 1, 1_000) };
    let (filter, disk) = open(&budget, gated);
    let gate = disk.gate.as_ref().unwrap();
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
    assert_eq!((disk.loads.load(SeqCst), filter.stats().filter.not_loaded), (1, 3_200));
    assert_no_key_lost(&filter, 1, 1_000);
}

#[test]
fn a_source_that_fails_is_tried_again_rarely_and_recovers() {
    let budget = FilterBudget::new(1 << 20);
    let (filter, disk) = open(&budget, disk(&ribbon(0.01), 1, 1_000));
    disk.fails.store(true, SeqCst);
    for number in 0..10_000 {
        assert_eq!(filter.probe(&absent(number)), Probe::Unusable);
    }
    assert!(filter.problem().unwrap().to_string().contains("the disk is gone"));
    let loads = disk.loads.load(SeqCst);
    assert!((2..=9).contains(&loads), "{loads} loads for 10,000 probes");
    assert!(matches!(filter.residency().reason, ResidencyReason::LoadFailed(_)) && budget.stats().used_bytes == 0);
    assert_eq!(filter.stats().filter.unusable, 10_000);
    assert_eq!(budget.stats().failed_loads, loads);
    disk.fails.store(false, SeqCst);
    useless_reads(&filter, 0..20_000);
    assert_eq!(filter.residency().reason, ResidencyReason::Fits);
}

#[test]
fn a_filter_that_failed_comes_back_into_a_budget_that_is_full() {
    let budget = FilterBudget::new(2_000).with_probes_per_plan(500);
    let (failing, disk) = open(&budget, disk(&ribbon(0.01), 0, 1_000));
    disk.fails.store(true, SeqCst);
    let others = files(&budget, &ribbon(0.01), 4, 1_000);
    useless_reads(&failing, 0..10);
    for round in 0..20 {
        others.iter().for_each(|(filter, _)| look_up(filter, round * 100..round * 100 + 100));
    }
    disk.fails.store(false, SeqCst);
    useless_reads(&failing, 0..5_000);
    assert!(failing.residency().bytes > 0, "{:?}", budget.stats());
    assert!(budget.stats().used_bytes <= 2_000);
}

#[test]
fn a_panic_of_a_source_reaches_its_caller_and_breaks_nothing() {
    let budget = FilterBudget::new(1 << 20);
    let (filter, disk) = open(&budget, disk(&ribbon(0.01), 1, 1_000));
    let (other, _) = open(&budget, self::disk(&ribbon(0.01), 2, 1_000));
    disk.panics.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| filter.probe(&absent(1)))).is_err());
    assert_eq!(filter.probe(&absent(1)), Probe::Unusable, "the next probe does not panic");
    assert_eq!(budget.stats().used_bytes, 0);
    assert!(other.probe(&absent(1)).is_absent());
    budget.rebalance();
    disk.panics.store(false, SeqCst);
    useless_reads(&filter, 0..1_000);
    assert_eq!(filter.residency().reason, ResidencyReason::Fits);
}

// promise: limited-memory
#[test]
fn bytes_of_another_length_than_wanted_are_unusable() {
    let budget = FilterBudget::unlimited();
    let Disk { block, metadata, .. } = disk(&ribbon(0.01), 1, 1_000);
    for bytes in [block.slice(1..), Bytes::new(), Bytes::from([&block[..], &[0; 64]].concat())] {
        let filter = FilterStore::default().with_budget(budget.clone()).open(metadata.clone(), All(bytes));
        assert_eq!(filter.probe(&absent(1)), Probe::Unusable);
        assert!(matches!(filter.problem(), Some(FilterProblem::Length { .. })));
        assert_eq!(budget.stats().used_bytes, 0);
    }
}

/// Returns the same bytes for every range.
struct All(Bytes);

impl FilterSource for All {
    fn read(&self, _range: Range<u64>) -> io::Result<Bytes> {
        Ok(self.0.clone())
    }
}

#[test]
fn filters_that_cannot_shrink_are_whole_or_absent() {
    let xor = policy("xor", sstfilter::Sizing::FingerprintBits(8));
    let budget = FilterBudget::new(4_000).with_probes_per_plan(100);
    let files = files(&budget, &xor, 10, 1_000);
    for number in 0..500 {
        for (set, (filter, _)) in (0..).zip(&files) {
            useless_reads(filter, number..=number);
            assert_no_key_lost(filter, set, 2);
        }
    }
    let held = files.iter().filter(|(filter, _)| filter.residency().reason == ResidencyReason::Fits).count();
    assert_eq!(held, 3, "{:?}", budget.stats());
    assert!(budget.stats().loads <= 10 + budget.stats().plans / 10, "{:?}", budget.stats());
}

#[test]
fn a_budget_can_become_smaller_and_larger() {
    let budget = FilterBudget::unlimited().without_automatic_plans();
    let files = files(&budget, &ribbon(0.01), 10, 1_000);
    let look_all_up = || files.iter().for_each(|(filter, _)| look_up(filter, 0..1_000));
    look_all_up();
    let whole = budget.stats().used_bytes;
    for bytes in [whole / 2, whole / 3, 100, 0] {
        budget.set_bytes(bytes);
        assert!(budget.stats().used_bytes <= bytes);
        (0..).zip(&files).for_each(|(set, (filter, _))| assert_no_key_lost(filter, set, 1_000));
    }
    assert_eq!(budget.stats().used_bytes, 0);
    budget.set_bytes(whole * 2);
    look_all_up();
    assert_eq!(budget.stats().used_bytes, whole);
}

// promise: limited-memory
#[test]
fn bytes_that_were_planned_for_a_file_are_free_again_when_it_is_dropped() {
    let disks = [1, 2].map(|set| disk(&ribbon(0.01), set, 1_000));
    let whole = disks[0].block.len() as u64;
    let budget = FilterBudget::new(0).without_automatic_plans();
    let [(dropped, _), (next, _)] = disks.map(|disk| open(&budget, disk));
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
fn a_filter_that_is_being_loaded_while_the_budget_becomes_smaller_obeys_it() {
    for share in [0, 2, 3] {
        let budget = FilterBudget::unlimited();
        let (filter, disk) = open(&budget, Disk { gate: Some(Barrier::new(2)), ..disk(&ribbon(0.01), 1, 1_000) });
        let bytes = disk.block.len() as u64 * share / 4;
        thread::scope(|scope| {
            let loader = scope.spawn(|| filter.probe(&absent(1)));
            let gate = disk.gate.as_ref().unwrap();
            gate.wait();
            budget.set_bytes(bytes);
            gate.wait();
            assert!(loader.join().unwrap().is_absent(), "the answer of what was loaded");
        });
        let stats = budget.stats();
        assert!(stats.used_bytes <= bytes, "{stats:?}");
    }
}

// promise: limited-memory
#[test]
fn no_key_is_lost_while_threads_probe_plan_resize_and_drop_files() {
    const LIMIT: u64 = 12_000;
    let budget = FilterBudget::new(LIMIT).with_probes_per_plan(500);
    let steady = files(&budget, &ribbon(0.01), 20, 500);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let probers: Vec<_> = (0..8_u64)
            .map(|seed| {
                let (budget, steady) = (&budget, &steady);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut own = None;
                    for round in 0..400_u32 {
                        let set = random.below(steady.len()).min(random.below(steady.len()));
                        assert_no_key_lost(&steady[set].0, u32::try_from(set).unwrap(), 50);
                        useless_reads(&steady[set].0, 0..50);
                        if round % 20 == 0 {
                            own = Some(open(budget, disk(&ribbon(0.01), 77, 300)));
                        }
                        own.iter().for_each(|(filter, _)| assert_no_key_lost(filter, 77, 20));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                for bytes in [LIMIT, LIMIT / 4, 0, LIMIT / 2] {
                    budget.set_bytes(bytes);
                    thread::yield_now();
                }
            }
        });
        let results: Vec<_> = probers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, SeqCst);
        results.into_iter().for_each(|result| result.unwrap());
    });
    budget.set_bytes(LIMIT);
    assert!(budget.stats().used_bytes <= LIMIT);
    assert_eq!(budget.stats().used_bytes, bytes_of(&steady));
    assert_eq!(budget.stats().partitions, 20);
    drop(steady);
    assert_eq!(budget.stats().used_bytes, 0);
}
