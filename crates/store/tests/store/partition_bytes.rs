//! Sizes and rates of partitioned filters. The failure guarded against: partitions cost more bytes or more false
//! positives than one filter of all keys, their index outgrows memory, or the bytes depend on the number of threads that
//! built them.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{ThreadId, current};
use std::time::Duration;

use bytes::Bytes;
use sstfilter::{
    BlockBuilder, BuildContext, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, KeyHash, KeyHasher,
};
use sstfilter_store::{PartitionCut, PartitionIndex, PartitionOptions, PartitionedBuilder};

use crate::common;
use crate::common::random::Random;
use crate::container::{CUTS, Container};

/// Returns keys of 24 bytes: one of 50 tenants, then a random number. Ascending and distinct.
fn keys(count: usize, seed: u64) -> Vec<[u8; 24]> {
    let mut random = Random::new(seed);
    let mut numbers: Vec<u64> = (0..count).map(|_| random.next()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let tenant_of = |place: usize| place * 50 / count;
    numbers.into_iter().enumerate().map(|(place, number)| key_of(tenant_of(place), number)).collect()
}

fn key_of(tenant: usize, number: u64) -> [u8; 24] {
    let mut key = *b"tenant-00/orders________";
    key[7] += u8::try_from(tenant / 10).unwrap();
    key[8] += u8::try_from(tenant % 10).unwrap();
    // The highest byte first, so that keys ascend as their numbers do.
    key[16..].iter_mut().zip(number.to_le_bytes().iter().rev()).for_each(|(byte, &of_number)| *byte = of_number);
    key
}

fn partitioned(policy: &Arc<dyn FilterPolicy>, cut: PartitionCut, target_bytes: u32, keys: &[[u8; 24]]) -> Bytes {
    let options = PartitionOptions::new(cut, target_bytes).unwrap();
    let mut builder = PartitionedBuilder::new(policy.clone(), &BuildContext::new(&KeyHasher::default()), options);
    keys.iter().for_each(|key| builder.add_key(key));
    let built = builder.finish();
    let container = built.block.unwrap();
    assert_eq!(built.report.block_bytes, container.len() as u64);
    container
}

fn whole(policy: &Arc<dyn FilterPolicy>, keys: &[[u8; 24]]) -> FilterBlock<Bytes> {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys.len() as u64);
    let mut builder = policy.builder(&context).unwrap();
    keys.iter().for_each(|key| builder.add_key(key));
    FilterBlock::load(builder.finish().block.unwrap(), &KeyHasher::default()).unwrap()
}

/// Returns the mean of the partitions' expected rates. Absent keys reach each equally often.
fn expected_fpr(filter: &Container) -> f64 {
    let rates = (0..filter.index.partitions()).map(|number| {
        let info = filter.partition(number).unwrap().info();
        (info.expected_fpr, info.keys as f64)
    });
    let (sum, keys) = rates.fold((0.0, 0.0), |(sum, all), (rate, keys)| (sum + rate * keys, all + keys));
    sum / keys
}

/// Checks that the observed rate is within four standard deviations of the expected one, for keys between those of the
/// file.
fn assert_rate(filter: &Container, what: &str) {
    let probes: u32 = if common::is_long() { 400_000 } else { 100_000 };
    let (hasher, expected) = (KeyHasher::default(), expected_fpr(filter));
    let mut random = Random::new(99);
    let mut positives = 0_u32;
    for probe in 0..probes {
        // As many keys for each tenant, distributed like those in the file.
        let tenant = probe as usize % 50;
        let number = (u64::MAX / 50) * tenant as u64 + random.next() / 50;
        let key = key_of(tenant, number);
        positives += u32::from(filter.may_contain(&key, hasher.hash(&key)));
    }
    let observed = f64::from(positives) / f64::from(probes);
    let sigma = (expected * (1.0 - expected) / f64::from(probes)).sqrt();
    println!("{what}: expected {expected:.6}, observed {observed:.6}");
    assert!((observed - expected).abs() < 4.0 * sigma, "{what}: expected {expected}, observed {observed}");
}

#[test]
fn partitions_of_16_kib_take_at_most_1_5_percent_more_than_one_filter_of_the_same_rate() {
    let keys = keys(common::effort::of_minutes(10_000_000, 2_000_000, 300_000), 1);
    let policies: [(&str, Arc<dyn FilterPolicy>); 2] = [
        ("bloom", Arc::new(FixedPolicy::default())),
        ("ribbon", Arc::new(FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap())),
    ];
    for (name, policy) in policies {
        let whole = whole(&policy, &keys);
        let (bytes, rate) = (whole.as_bytes().len(), whole.info().expected_fpr);
        for cut in CUTS {
            let container = partitioned(&policy, cut, 16 << 10, &keys);
            let filter = Container::load(&container, &KeyHasher::default()).unwrap();
            filter.verify().unwrap();
            let (more, partitions) = (filter.as_bytes().len() as f64 / bytes as f64 - 1.0, filter.index.partitions());
            let what =
                format!("{name}, {} keys by {cut:?}: {partitions} partitions, {:+.3} %", keys.len(), more * 100.0);
            assert!(more < 0.015, "{what}");
            let own = expected_fpr(&filter);
            assert!((own / rate - 1.0).abs() < 0.01, "{what}: a rate of {own}, whole {rate}");
            assert_rate(&filter, &what);
            let hasher = KeyHasher::default();
            assert!(keys.iter().all(|key| filter.may_contain(key, hasher.hash(key))), "{what}");
        }
    }
}

#[test]
fn the_top_index_takes_at_most_one_percent_in_the_file_and_in_memory() {
    let keys = keys(if common::is_long() { 10_000_000 } else { 1_000_000 }, 2);
    let policy: Arc<dyn FilterPolicy> = Arc::new(FixedPolicy::default());
    for (cut, target_bytes) in CUTS.into_iter().flat_map(|cut| [(cut, 4 << 10), (cut, 16 << 10)]) {
        let container = partitioned(&policy, cut, target_bytes, &keys);
        let tail_bytes = PartitionIndex::tail_bytes(&container).unwrap();
        let tail = &container[container.len() - usize::try_from(tail_bytes).unwrap()..];
        let index = PartitionIndex::load(tail, &KeyHasher::default()).unwrap();
        let [in_file, in_memory] =
            [tail_bytes as f64, index.memory_bytes() as f64].map(|bytes| bytes * 100.0 / container.len() as f64);
        println!("{cut:?}, {target_bytes} bytes: {in_file:.3} % in the file, {in_memory:.3} % in memory");
        assert!(in_file <= 1.0 && in_memory <= 1.0, "{cut:?}, {target_bytes}: {in_file} % and {in_memory} %");
    }
}

fn by_hash(policy: &Arc<dyn FilterPolicy>, context: &BuildContext, target_bytes: u32, keys: u32) -> Bytes {
    of_hashes(policy, context, target_bytes, &common::key_set(1, keys).collect::<Vec<_>>())
}

fn of_hashes(policy: &Arc<dyn FilterPolicy>, context: &BuildContext, target_bytes: u32, hashes: &[KeyHash]) -> Bytes {
    let options = PartitionOptions::new(PartitionCut::HashRange, target_bytes).unwrap();
    let mut builder = PartitionedBuilder::new(policy.clone(), context, options);
    hashes.iter().for_each(|&hash| builder.add_hash(&[], hash));
    let built = builder.finish();
    let container = built.block.unwrap();
    let partitions = Container::load(&container, &context.hasher).unwrap().ranges();
    let blocks: usize = partitions.iter().map(Range::len).sum();
    assert!(built.report.peak_build_bytes > (blocks + hashes.len() * 8) as u64);
    container
}

fn in_threads(threads: usize) -> BuildContext {
    BuildContext::new(&KeyHasher::default()).with_threads(threads)
}

// promise: same-bytes
#[test]
fn partitions_have_the_same_bytes_whatever_the_number_of_threads() {
    let policies: [Arc<dyn FilterPolicy>; 2] =
        [Arc::new(FixedPolicy::default()), Arc::new(FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap())];
    // As many partitions in either form, and in both more keys than one thread gets.
    let scale: u32 = if common::is_long() { 1 } else { 2 };
    let sizes =
        [(1 << 10, 0), (1 << 10, 1_000), ((4 << 10) / scale, 300_000 / scale), ((1 << 20) / scale, 2_000_000 / scale)];
    for policy in policies {
        for (target_bytes, keys) in sizes {
            let one = by_hash(&policy, &in_threads(1), target_bytes, keys);
            for threads in [0, 2, 3, 8] {
                let built = by_hash(&policy, &in_threads(threads), target_bytes, keys);
                assert!(built == one, "{policy:?}, {keys} keys by {target_bytes} bytes, {threads} threads");
            }
            let filter = Container::load(&one, &KeyHasher::default()).unwrap();
            assert!(common::key_set(1, keys).all(|hash| filter.may_contain(&[], hash)));
        }
    }
}

/// Ribbon filters, and the threads that build them. After the first, each waits until there are `expected` threads.
#[derive(Debug)]
struct Watched {
    policy: FixedPolicy,
    expected: usize,
    builders: Mutex<(u32, HashSet<ThreadId>)>,
    another: Condvar,
}

impl Watched {
    fn new(expected: usize) -> Arc<Self> {
        let policy = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap();
        Arc::new(Self { policy, expected, builders: Mutex::default(), another: Condvar::new() })
    }

    fn threads(&self) -> usize {
        self.builders.lock().unwrap().1.len()
    }
}

impl FilterPolicy for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        let mut builders = self.builders.lock().unwrap();
        builders.0 += 1;
        builders.1.insert(current().id());
        self.another.notify_all();
        let is_waiting = |(count, threads): &mut (u32, HashSet<ThreadId>)| *count > 1 && threads.len() < self.expected;
        drop(self.another.wait_timeout_while(builders, Duration::from_secs(60), is_waiting).unwrap());
        Some(self.policy.builder(context))
    }

    fn block_bytes(&self, _context: &BuildContext, keys: u64) -> Option<u64> {
        self.policy.block_bytes(keys)
    }
}

// promise: same-bytes
#[test]
fn partitions_cut_by_hash_are_built_by_all_threads_that_there_is_memory_for() {
    let even: Vec<KeyHash> = common::key_set(1, 600_000).collect();
    // The lower half of the partitions is empty, the others have twice as many keys.
    let crowded = even.iter().copied().filter(|hash| hash.get() >> 63 == 1).collect();
    for (hashes, max_keys) in [(even, 20_000), (crowded, 40_000)] {
        let build = |policy: &Arc<Watched>, context: &BuildContext| {
            let policy: Arc<dyn FilterPolicy> = policy.clone();
            of_hashes(&policy, context, 16 << 10, &hashes)
        };
        let (one, three, poor) = (Watched::new(1), Watched::new(3), Watched::new(1));
        let expected = build(&one, &in_threads(1));
        assert!(build(&three, &in_threads(3)) == expected);
        // Enough for one Ribbon filter, not for two.
        let budget = one.policy.plan(max_keys, None).unwrap().build_bytes;
        assert!(build(&poor, &in_threads(3).with_memory_budget(budget)) == expected);
        assert_eq!([one.threads(), three.threads(), poor.threads()], [1, 3, 1]);
    }
}
