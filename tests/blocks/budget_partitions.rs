//! Guards against: a probe that loads more than its key's partition, a partition that is damaged or has no filter and
//! spoils its neighbours, and plans that take partitions of different kinds for equal.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::budget::{BudgetReason, BudgetedFilter, BudgetedProbe, FilterBudget, FilterLayout, FilterSource};
use sstfilter::partition::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};
use sstfilter::{
    BlockError, BuildContext, FilterBlock, FilterPolicy, FixedPrefix, KeyHasher, KeyParts, KindPolicy, LoadContext,
    LookupOutcome,
};

use crate::common::ribbon;

const KEYS: u32 = 60_000;

/// A container "on disk".
#[derive(Debug)]
struct Disk {
    container: Mutex<Vec<u8>>,
    index: Arc<PartitionIndex>,
    loads: AtomicU64,
    loaded_bytes: AtomicU64,
}

impl FilterSource for Disk {
    fn load(&self, unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        let entry = self.index.entries().nth(unit as usize).unwrap();
        let from = usize::try_from(entry.offset).unwrap();
        let bytes = Bytes::copy_from_slice(&self.container.lock().unwrap()[from..from + entry.block_bytes as usize]);
        self.loads.fetch_add(1, SeqCst);
        self.loaded_bytes.fetch_add(bytes.len() as u64, SeqCst);
        self.index.open(unit, bytes)
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{:03}/{number:08}", number / 1_000).into_bytes()
}

fn absent_key(number: u32) -> Vec<u8> {
    [&key(number)[..], b"-"].concat()
}

fn parts() -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)))
}

fn register(
    budget: &FilterBudget,
    policy: impl FilterPolicy + 'static,
    cut: PartitionCut,
) -> (BudgetedFilter, Arc<Disk>) {
    register_knowing(&[], budget, policy, cut)
}

/// Like `register`, for a reader that knows these keys.
fn register_knowing(
    known_keys: &[&[u8]],
    budget: &FilterBudget,
    policy: impl FilterPolicy + 'static,
    cut: PartitionCut,
) -> (BudgetedFilter, Arc<Disk>) {
    let hasher = KeyHasher::default();
    let options = PartitionOptions::new(cut, 4 << 10).unwrap();
    let context = BuildContext::new(&hasher).with_key_parts(parts());
    let mut builder = PartitionedBuilder::new(Arc::new(policy), &context, options);
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    let container = builder.finish().seal().unwrap().to_vec();
    let tail = PartitionIndex::tail_bytes(&container[container.len() - PartitionIndex::MAX_END_BYTES..]).unwrap();
    let (tail, parts) = (&container[container.len() - usize::try_from(tail).unwrap()..], parts());
    let context = LoadContext::new(&hasher).with_key_parts(&parts).with_known_keys(known_keys);
    let index = PartitionIndex::load(tail, context).unwrap();
    let (container, index) = (Mutex::new(container), Arc::new(index));
    let disk = Arc::new(Disk { container, index: index.clone(), loads: 0.into(), loaded_bytes: 0.into() });
    (budget.register(FilterLayout::Partitioned(index), disk.clone()), disk)
}

fn probe(filter: &BudgetedFilter, key: &[u8]) -> BudgetedProbe {
    filter.probe(key, KeyHasher::default().hash(key))
}

fn assert_no_key_lost(filter: &BudgetedFilter) {
    for number in 0..KEYS {
        let answer = probe(filter, &key(number));
        assert!(!answer.is_absent(), "key {number} is lost");
        filter.record_lookup(&answer, LookupOutcome::Found);
    }
}

fn useless_reads(filter: &BudgetedFilter, numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.map(|number| u32::from(!probe(filter, &absent_key(number)).is_absent())).sum()
}

/// Looks absent keys up, whatever it costs.
fn look_up(filter: &BudgetedFilter, numbers: impl Iterator<Item = u32>) {
    useless_reads(filter, numbers);
}

#[test]
fn a_probe_loads_the_partition_of_its_key_alone() {
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        let budget = FilterBudget::unlimited();
        let (filter, disk) = register(&budget, ribbon(0.01), cut);
        assert!(filter.state().units > 10 && filter.state().whole_bytes > 40_000);
        assert!(useless_reads(&filter, 0..1) <= 1);
        assert_eq!((disk.loads.load(SeqCst), filter.state().units_in_memory), (1, 1));
        assert!(disk.loaded_bytes.load(SeqCst) <= 4 << 10);
        assert_no_key_lost(&filter);
        assert!(useless_reads(&filter, 0..KEYS) < KEYS / 60);
        assert_eq!(disk.loads.load(SeqCst), filter.state().units.into());
        assert_eq!(budget.stats().used_bytes, filter.state().whole_bytes);
    }
}

#[test]
fn partitions_in_use_keep_their_bytes_and_the_others_go() {
    let budget = FilterBudget::new(16 << 10).with_probes_per_plan(5_000);
    let (filter, _) = register(&budget, ribbon(0.01), PartitionCut::KeyRange);
    let quarter = KEYS / 4;
    (0..4).for_each(|_| look_up(&filter, (0..KEYS).step_by(7)));
    (0..10).for_each(|_| look_up(&filter, 0..quarter));
    let used = useless_reads(&filter, 0..quarter);
    assert!(used < quarter / 50, "{used} useless reads in {quarter} lookups, {:?}", budget.stats());
    assert!(budget.stats().used_bytes <= 16 << 10);
    assert_no_key_lost(&filter);
}

#[test]
fn a_prefix_is_absent_only_if_all_its_partitions_say_so() {
    for (cut, bytes) in
        [(PartitionCut::KeyRange, u64::MAX), (PartitionCut::HashRange, u64::MAX), (PartitionCut::KeyRange, 9_000)]
    {
        let budget = FilterBudget::new(bytes);
        let (filter, _) = register(&budget, ribbon(0.01), cut);
        let probe_prefix =
            |prefix: &str| filter.probe_prefix(&parts().prefix(&KeyHasher::default(), prefix.as_bytes()));
        for number in 0..KEYS / 1_000 {
            let prefix = format!("{number:03}/");
            assert!(!probe_prefix(&prefix).is_absent(), "prefix {prefix}");
        }
        let absent = (0..1_000).filter(|number| probe_prefix(&format!("{number:03}x")).is_absent()).count();
        assert!(absent > if bytes == u64::MAX { 950 } else { 10 }, "{absent} of 1,000 with {bytes} bytes");
    }
}

#[test]
fn a_damaged_partition_is_unusable_for_its_own_keys_only() {
    let budget = FilterBudget::unlimited();
    let (filter, disk) = register(&budget, ribbon(0.01), PartitionCut::KeyRange);
    disk.container.lock().unwrap()[100] ^= 1;
    let unusable =
        (0..KEYS).filter(|&number| matches!(probe(&filter, &key(number)), BudgetedProbe::Unusable(_))).count();
    let damaged =
        (0..KEYS).filter(|&number| disk.index.place(&key(number), KeyHasher::default().hash(b"")).number == 0);
    assert_eq!(unusable, damaged.count());
    assert!(matches!(filter.state().why, BudgetReason::LoadFailed(_)));
    assert!(useless_reads(&filter, KEYS / 2..KEYS) < KEYS / 80);
    assert!(disk.loads.load(SeqCst) < 50);
    // The disk has recovered.
    disk.container.lock().unwrap()[100] ^= 1;
    (0..3).for_each(|_| assert_no_key_lost(&filter));
    (0..20).for_each(|_| look_up(&filter, 0..KEYS / 8));
    assert_eq!(filter.state().units, filter.state().units_in_memory);
}

#[test]
fn a_partition_of_a_known_key_that_cannot_be_read_is_tried_for_all_others_together() {
    let budget = FilterBudget::unlimited();
    let known_keys = [&key(0)[..], &key(KEYS - 1)];
    let (filter, disk) = register_knowing(&known_keys, &budget, ribbon(0.01), PartitionCut::KeyRange);
    disk.container.lock().unwrap()[100] ^= 1;
    // Each partition would have tried several times by now.
    for number in (0..5).flat_map(|_| 0..KEYS) {
        assert!(matches!(probe(&filter, &key(number)), BudgetedProbe::Unusable(_)));
    }
    let failed = disk.loads.load(SeqCst);
    assert!((3..=15).contains(&failed), "{failed} reads for {} partitions", filter.state().units);
    assert_eq!((budget.stats().loads, budget.stats().failed_loads), (failed, failed));
    assert!(matches!(filter.state().why, BudgetReason::LoadFailed(_)));

    // Readable again: after the next try, all partitions are used at once.
    disk.container.lock().unwrap()[100] ^= 1;
    look_up(&filter, 0..KEYS);
    look_up(&filter, 0..KEYS / 2);
    assert!(useless_reads(&filter, 0..KEYS) < KEYS / 60);
    assert_eq!(disk.loads.load(SeqCst), failed + 2 + u64::from(filter.state().units));
    assert!(budget.stats().loaded_bytes > filter.state().whole_bytes);
    assert_eq!(filter.state().why, BudgetReason::Fits);
    assert_no_key_lost(&filter);
}

#[test]
fn known_keys_that_were_found_elsewhere_end_a_failure_at_once() {
    let budget = FilterBudget::unlimited();
    let (filter, disk) = register_knowing(&[&key(0)], &budget, ribbon(0.01), PartitionCut::KeyRange);
    disk.container.lock().unwrap()[100] ^= 1;
    look_up(&filter, 0..KEYS);
    assert!(matches!(filter.state().why, BudgetReason::LoadFailed(_)));

    disk.container.lock().unwrap()[100] ^= 1;
    disk.index.check_known_keys(|number| disk.load(number).map(FilterBlock::into_inner)).unwrap();
    assert!(!matches!(filter.state().why, BudgetReason::LoadFailed(_)));
    assert!(useless_reads(&filter, 0..KEYS) < KEYS / 60);
    assert_eq!(filter.state().why, BudgetReason::Fits);
}

#[test]
fn partitions_of_kinds_that_shrink_differently_share_a_budget() {
    for bytes in [0, 900, 5_000, 20_000, 60_000] {
        let budget = FilterBudget::new(bytes).with_probes_per_plan(2_000);
        let xor = crate::common::policy("xor", sstfilter::Sizing::FingerprintBits(8));
        let filters = [
            register(&budget, xor, PartitionCut::HashRange),
            register(&budget, KindPolicy::default(), PartitionCut::KeyRange),
            register(&budget, ribbon(0.01).with_min_keys(KEYS.into()), PartitionCut::KeyRange),
            register(&budget, ribbon(0.001), PartitionCut::HashRange),
        ];
        for round in 0..8 {
            filters.iter().for_each(|(filter, _)| look_up(filter, (round..KEYS).step_by(8)));
            assert!(budget.stats().used_bytes <= bytes);
        }
        filters.iter().for_each(|(filter, _)| assert_no_key_lost(filter));
        let stats = budget.stats();
        assert!(stats.used_bytes <= bytes && stats.used_bytes >= bytes / 2, "{stats:?}");
        println!("{bytes} bytes: {stats:?}");
    }
}

/// Gives the neighbour's block for each partition.
#[derive(Debug)]
struct MixedUp(Arc<Disk>);

impl FilterSource for MixedUp {
    fn load(&self, unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        self.0.load((unit + 1) % self.0.index.partitions())
    }
}

#[test]
fn a_source_that_mixes_partitions_up_loses_no_key() {
    let budget = FilterBudget::unlimited();
    let (_, disk) = register(&budget, KindPolicy::default(), PartitionCut::KeyRange);
    let layout = FilterLayout::Partitioned(disk.index.clone());
    let filter = budget.register(layout, Arc::new(MixedUp(disk)));
    let hasher = KeyHasher::default();
    let is_absent = |number| filter.probe(&key(number), hasher.hash(&key(number))).is_absent();
    assert!(!(0..KEYS).any(is_absent));
    assert!(matches!(filter.state().why, BudgetReason::LoadFailed(_)));
}

#[test]
fn a_partition_that_is_registered_as_a_whole_filter_loses_no_key() {
    let budget = FilterBudget::unlimited();
    let (_, disk) = register(&budget, KindPolicy::default(), PartitionCut::KeyRange);
    let bytes = disk.index.entries().next().unwrap().block_bytes.into();
    let filter = budget.register(FilterLayout::Whole { bytes }, disk);
    assert_no_key_lost(&filter);
    assert!(matches!(filter.state().why, BudgetReason::LoadFailed(reason) if *reason == BlockError::Partition));
}
