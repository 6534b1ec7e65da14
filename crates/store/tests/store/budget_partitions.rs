//! Guards against a probe that loads more than its key's partition, a partition without a usable filter that affects
//! its neighbours, and plans that treat partitions of different kinds alike.

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sstfilter::{FileId, FilterPolicy, Filters, FixedPolicy, FixedPrefix, KeyHasher, KeyParts, LookupOutcome, Probe};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterSource, FilterStore, PartitionCut, PartitionOptions,
    ResidencyReason,
};

use crate::common::{effort, ribbon};

const KEYS: u32 = 60_000;

/// A container "on disk".
#[derive(Default)]
struct Disk {
    container: Mutex<Bytes>,
    loads: AtomicU64,
    loaded_bytes: AtomicU64,
    /// Returns the bytes 64 after those of a partition.
    mixes_up: bool,
}

impl Disk {
    fn flip(&self, at: usize) {
        let mut container = self.container.lock().unwrap();
        let mut bytes = container.to_vec();
        bytes[at] ^= 1;
        *container = bytes.into();
    }
}

impl FilterSource for Disk {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let container = self.container.lock().unwrap().clone();
        let is_index = range.end == container.len() as u64;
        let range = if self.mixes_up && !is_index { range.start + 64..range.end + 64 } else { range };
        self.loads.fetch_add(u64::from(!is_index), SeqCst);
        self.loaded_bytes.fetch_add(range.end - range.start, SeqCst);
        container.read(range)
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{:03}/{number:08}", number / 1_000).into_bytes()
}

fn absent_key(number: u32) -> Vec<u8> {
    [&key(number)[..], b"-"].concat()
}

/// Parts for which only known keys can show that the extractor is unchanged.
fn parts() -> KeyParts {
    KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(4)))
}

fn open(budget: &FilterBudget, policy: impl FilterPolicy + 'static, cut: PartitionCut) -> (FileFilters, Arc<Disk>) {
    open_from(Disk::default(), &KeyParts::whole_keys(), budget, policy, cut)
}

fn open_from(
    disk: Disk,
    parts: &KeyParts,
    budget: &FilterBudget,
    policy: impl FilterPolicy + 'static,
    cut: PartitionCut,
) -> (FileFilters, Arc<Disk>) {
    let (store, container, metadata) = built(parts, policy, cut);
    let disk = Arc::new(Disk { container: Mutex::new(container), ..disk });
    (store.with_budget(budget.clone()).open(metadata, disk.clone()), disk)
}

/// Returns the filter of all keys, and a store to open it with.
fn built(
    parts: &KeyParts,
    policy: impl FilterPolicy + 'static,
    cut: PartitionCut,
) -> (FilterStore, Bytes, FilterMetadata) {
    let store = FilterStore::new(Filters::default().with_key_parts(parts.clone())).with_policy(Arc::new(policy));
    let store = store.with_partitions(PartitionOptions::new(cut, 4 << 10).unwrap());
    let mut builder = store.builder(FileId::random());
    (0..KEYS).for_each(|number| builder.add_key(&key(number)));
    let (container, metadata) = builder.finish().seal();
    (store, container, metadata)
}

fn assert_no_key_lost(filter: &FileFilters) {
    for key in (0..KEYS).map(key) {
        let answer = filter.probe(&key);
        assert!(!answer.is_absent(), "key {key:?} is lost");
        filter.record_lookup(&key, answer, LookupOutcome::Found);
    }
}

fn useless_reads(filter: &FileFilters, numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.map(|number| u32::from(!filter.probe(&absent_key(number)).is_absent())).sum()
}

/// Looks up absent keys, whatever it costs.
fn look_up(filter: &FileFilters, numbers: impl Iterator<Item = u32>) {
    useless_reads(filter, numbers);
}

#[test]
fn a_probe_loads_the_partition_of_its_key_alone() {
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        let budget = FilterBudget::unlimited();
        let (filter, disk) = open(&budget, ribbon(0.01), cut);
        assert!(filter.residency().partitions > 10 && filter.residency().whole_bytes > 40_000);
        assert!(useless_reads(&filter, 0..1) <= 1);
        assert_eq!((disk.loads.load(SeqCst), filter.residency().partitions_in_memory), (1, 1));
        assert!(disk.loaded_bytes.load(SeqCst) <= 5 << 10, "with the top index");
        assert_no_key_lost(&filter);
        assert!(useless_reads(&filter, 0..KEYS) < KEYS / 60);
        assert_eq!(disk.loads.load(SeqCst), filter.residency().partitions.into());
        assert_eq!(budget.stats().used_bytes, filter.residency().whole_bytes);
    }
}

#[test]
fn partitions_in_use_keep_their_bytes_and_the_others_go() {
    let budget = FilterBudget::new(16 << 10).with_probes_per_plan(5_000);
    let (filter, _) = open(&budget, ribbon(0.01), PartitionCut::KeyRange);
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
        let (filter, _) = open_from(Disk::default(), &parts(), &budget, ribbon(0.01), cut);
        for number in 0..KEYS / 1_000 {
            let prefix = format!("{number:03}/");
            assert!(filter.may_contain_prefix(prefix.as_bytes()), "prefix {prefix}");
        }
        // Between the smallest and the largest key.
        let prefix_of = |number: u16| format!("{:03}{:x}", number % 59, number / 59).into_bytes();
        let may_contain = |&number: &u16| filter.may_contain_prefix(&prefix_of(number));
        let absent = 1_000 - (0..1_000).filter(may_contain).count();
        assert!(absent > if bytes == u64::MAX { 950 } else { 10 }, "{absent} of 1,000 with {bytes} bytes");
    }
}

#[test]
fn a_damaged_partition_is_unusable_for_its_own_keys_only() {
    let budget = FilterBudget::unlimited();
    let (filter, disk) = open(&budget, ribbon(0.01), PartitionCut::KeyRange);
    disk.flip(100);
    let unusable = (0..KEYS).filter(|&number| filter.probe(&key(number)) == Probe::Unusable).count();
    let index = filter.partitions().unwrap();
    let damaged = (0..KEYS).filter(|&number| index.locate(&key(number), KeyHasher::default().hash(b"")).0 == 0);
    assert_eq!(unusable, damaged.count());
    assert!(matches!(filter.residency().reason, ResidencyReason::LoadFailed(_)));
    assert!(useless_reads(&filter, KEYS / 2..KEYS) < KEYS / 80);
    assert!(disk.loads.load(SeqCst) < 50);
    // The disk has recovered.
    disk.flip(100);
    (0..3).for_each(|_| assert_no_key_lost(&filter));
    (0..20).for_each(|_| look_up(&filter, 0..KEYS / 8));
    assert_eq!(filter.residency().partitions, filter.residency().partitions_in_memory);
}

/// Looks up all keys in the long form, otherwise one in three.
#[test]
fn partitions_of_kinds_that_shrink_differently_share_a_budget() {
    let xor = crate::common::policy("xor", sstfilter::Sizing::FingerprintBits(8));
    let whole = KeyParts::whole_keys();
    let built = [
        built(&whole, xor, PartitionCut::HashRange),
        built(&whole, FixedPolicy::default(), PartitionCut::KeyRange),
        built(&whole, ribbon(0.01).with_min_keys(KEYS.into()), PartitionCut::KeyRange),
        built(&whole, ribbon(0.001), PartitionCut::HashRange),
    ];
    for bytes in [0, 900, 5_000, 20_000, 60_000] {
        let budget = FilterBudget::new(bytes).with_probes_per_plan(2_000);
        let filters = built.each_ref().map(|(store, container, metadata)| {
            let disk = Disk { container: Mutex::new(container.clone()), ..Disk::default() };
            store.clone().with_budget(budget.clone()).open(metadata.clone(), disk)
        });
        for round in 0..8 {
            filters.iter().for_each(|filter| look_up(filter, (round..KEYS).step_by(8 * effort::sample(3))));
            assert!(budget.stats().used_bytes <= bytes);
        }
        filters.iter().for_each(assert_no_key_lost);
        let stats = budget.stats();
        assert!(stats.used_bytes <= bytes && stats.used_bytes >= bytes / 2, "{stats:?}");
        println!("{bytes} bytes: {stats:?}");
    }
}

// promise: limited-memory
#[test]
fn a_source_that_mixes_partitions_up_loses_no_key() {
    for parts in [KeyParts::whole_keys(), parts()] {
        let (disk, budget) = (Disk { mixes_up: true, ..Disk::default() }, FilterBudget::unlimited());
        let (filter, _) = open_from(disk, &parts, &budget, FixedPolicy::default(), PartitionCut::KeyRange);
        assert_no_key_lost(&filter);
        assert!(matches!(filter.residency().reason, ResidencyReason::LoadFailed(_)));
    }
}
