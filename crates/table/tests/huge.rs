//! Real filters of more than 4 GiB: more than 2^32 bytes, and bits beyond 2^35. The failure guarded against: an offset
//! is truncated to 32 bits between a key and its bit, which folds the filter onto its first 4 GiB. If builder and
//! reader fold alike, there are no false negatives, and only the rate and the empty part reveal it.
//!
//! A separate program, because its tests run one by one. Needs up to 11 GB of memory, 6 GB of disk, and minutes:
//!
//! `SSTFILTER_HUGE=1 cargo test --test huge -- --nocapture --test-threads 1`

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use sstfilter::{
    BitsPerKey, BuildContext, CountingBloom, CuckooFilter, DynamicFilter, FilterBlock, FilterPolicy, FixedPolicy,
    HashIdentity, KeyHash, KeyHasher, KindId, MatchBitmap, StandardBloom,
};
use sstfilter_table::{Lookup, Table, TableOptions, TableWriter};

const FOUR_GIB: u64 = 1 << 32;

/// Whether the test should run. Prints the answer past the test harness, which hides the output of tests.
fn is_wanted(test: &str) -> bool {
    let is_wanted = std::env::var_os("SSTFILTER_HUGE").is_some_and(|value| value == "1");
    if !is_wanted {
        let reason = "needs 11 GB of memory and minutes; SSTFILTER_HUGE=1 runs it";
        let line = format!("\n#### skipped: {test}: {reason}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    is_wanted
}

/// Returns hashes by number, in chunks. Different sets, for present and absent keys, are disjoint.
fn chunks(set: u64, count: u64) -> impl Iterator<Item = Vec<KeyHash>> {
    let chunk = 1 << 16;
    let hash = move |number| KeyHash::mix(set << 40 | number);
    (0..count.div_ceil(chunk)).map(move |at| (at * chunk..count.min((at + 1) * chunk)).map(hash).collect())
}

/// Asserts that there is no false negative, in batches and, for every thousandth key, in single probes, and that the
/// false positives among a million absent keys match `expected` within five standard deviations.
fn assert_answers(name: &str, keys: u64, expected: f64, mut ask: impl FnMut(&[KeyHash]) -> (u64, u64)) {
    let started = Instant::now();
    for hashes in chunks(1, keys) {
        let (in_batch, alone) = ask(&hashes);
        assert_eq!(in_batch, hashes.len() as u64, "{name}: false negatives");
        assert_eq!(alone, (hashes.len() as u64).div_ceil(1_000), "{name}: false negatives");
    }
    let asked = 4_000_000;
    let matches: u64 = chunks(2, asked).map(|hashes| ask(&hashes).0).sum();
    let mean = expected * asked as f64;
    println!(
        "{name}: {matches} of {asked} absent keys were false positives, {mean:.1} expected; probed in {:?}",
        started.elapsed()
    );
    assert!((matches as f64 - mean).abs() <= 5.0 * mean.sqrt() + 1.0, "{name}: {matches} matches, {mean} expected");
}

fn ask_block<D: AsRef<[u8]>>(block: &FilterBlock<D>, matches: &mut MatchBitmap, hashes: &[KeyHash]) -> (u64, u64) {
    block.may_contain_batch(hashes, matches);
    let alone = hashes.iter().step_by(1_000).filter(|&&hash| block.may_contain(hash));
    (matches.count(), alone.count() as u64)
}

/// Asserts that the sixteenths of a payload, the last of which are beyond 4 GiB, are filled equally, within six
/// standard deviations of keys that set 16 bits each.
fn assert_filled_evenly(name: &str, payload: &[u8]) {
    assert!(payload.len() as u64 > FOUR_GIB + FOUR_GIB / 16, "{name}");
    let samples: Vec<u64> = payload
        .chunks(payload.len().div_ceil(16))
        .map(|part| part[part.len() - (4 << 20)..].iter().map(|byte| u64::from(byte.count_ones())).sum())
        .collect();
    let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    println!("{name}: ones in the last 4 MiB of each sixteenth: {samples:?}");
    assert!(samples.iter().all(|&ones| (ones as f64 - mean).abs() < 24.0 * mean.sqrt() + 1.0), "{name}: {samples:?}");
}

fn report_memory(name: &str, started: Instant) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown").to_owned();
    println!("{name}: {:?}, {peak}", started.elapsed());
}

/// Checks a filter that is planned for `planned` keys and gets `keys`.
fn assert_policy_is_right(name: &str, policy: &dyn FilterPolicy, planned: u64, keys: u64) {
    let started = Instant::now();
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(planned);
    let mut builder = policy.builder(&context).unwrap();
    chunks(1, keys).for_each(|hashes| builder.add_hashes(&hashes));
    let built = builder.finish();
    let block = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
    block.verify().unwrap();
    let info = block.info();
    assert_eq!(info.keys, keys);
    assert!(info.payload_bytes > FOUR_GIB, "{name}: {} bytes", info.payload_bytes);
    println!("{name}: {} bytes, built in {:?}", info.block_bytes, started.elapsed());
    assert_filled_evenly(name, &block.as_bytes()[..usize::try_from(info.payload_bytes).unwrap()]);
    let mut matches = MatchBitmap::default();
    assert_answers(name, keys, info.expected_fpr, |hashes| ask_block(&block, &mut matches, hashes));
    report_memory(name, started);
}

// promise: no-false-negatives
#[test]
fn blocked_bloom_is_right_beyond_four_gib() {
    if !is_wanted("blocked Bloom of more than 4 GiB") {
        return;
    }
    // One probe, so that the rate is measurable with few keys, and sixteen probes.
    let one_probe = FixedPolicy::bloom(BitsPerKey::MIN).unwrap();
    assert_policy_is_right("blocked bloom, 1 probe", &one_probe, 40_000_000_000, 40_000_000);
    let sixteen_probes = FixedPolicy::bloom(BitsPerKey::MAX).unwrap();
    assert_policy_is_right("blocked bloom, 16 probes", &sixteen_probes, 400_000_000, 20_000_000);
}

// promise: no-false-negatives
#[test]
fn standard_bloom_is_right_beyond_four_gib() {
    if !is_wanted("standard Bloom of more than 4 GiB") {
        return;
    }
    let one_probe = FixedPolicy::standard_bloom(BitsPerKey::MIN).unwrap();
    assert_policy_is_right("standard bloom, 1 probe", &one_probe, 40_000_000_000, 40_000_000);

    let (name, started, keys) = ("standard bloom in memory, 7 probes", Instant::now(), 20_000_000);
    let identity = KeyHasher::default().identity();
    let block = {
        let mut filter = StandardBloom::with_shape(HashIdentity::default(), 40_000_000_000, 7).unwrap();
        chunks(1, keys).for_each(|hashes| assert_eq!(filter.insert_all(&hashes), hashes.len() as u64));
        filter.to_block().unwrap()
    };
    let filter = StandardBloom::from_block(&block, identity).unwrap();
    drop(block);
    assert_eq!(filter.keys(), keys);
    let (fill, expected) = (filter.health().fill_ratio, 7.0 * keys as f64 / 40e9);
    assert!((fill / expected - 1.0).abs() < 0.01, "{fill}, {expected} expected");
    let mut matches = MatchBitmap::default();
    assert_answers(name, keys, filter.health().expected_fpr, |hashes| {
        filter.contains_batch(hashes, &mut matches);
        (matches.count(), hashes.iter().step_by(1_000).filter(|&&hash| filter.contains(hash)).count() as u64)
    });
    report_memory(name, started);
}

// promise: no-false-negatives
#[test]
fn counting_bloom_is_right_beyond_four_gib() {
    if !is_wanted("counting Bloom of more than 4 GiB") {
        return;
    }
    let (name, started, keys) = ("counting bloom, 1 probe", Instant::now(), 20_000_000);
    let mut filter = CountingBloom::with_shape(HashIdentity::default(), 10_000_000_000, 1).unwrap();
    chunks(1, keys).for_each(|hashes| {
        filter.insert_all(&hashes);
    });
    chunks(3, keys / 2).for_each(|hashes| {
        filter.insert_all(&hashes);
    });
    chunks(3, keys / 2).for_each(|hashes| hashes.iter().for_each(|&hash| filter.remove(hash).unwrap()));
    assert_eq!(filter.keys(), keys);
    let mut matches = MatchBitmap::default();
    assert_answers(name, keys, filter.health().expected_fpr, |hashes| {
        filter.contains_batch(hashes, &mut matches);
        (matches.count(), hashes.iter().step_by(1_000).filter(|&&hash| filter.contains(hash)).count() as u64)
    });
    report_memory(name, started);
}

// promise: no-false-negatives
#[test]
fn cuckoo_is_right_beyond_four_gib() {
    if !is_wanted("cuckoo of more than 4 GiB") {
        return;
    }
    // The narrowest tags, so that the rate is measurable, and the widest.
    for (tag_bits, planned) in [(4, 9_000_000_000), (32, 1_100_000_000)] {
        let (name, started, keys) = (format!("cuckoo, tags of {tag_bits} bits"), Instant::now(), 20_000_000);
        let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), planned, tag_bits).unwrap();
        assert!(filter.slots() * u64::from(tag_bits) / 8 > FOUR_GIB);
        chunks(1, keys).for_each(|hashes| filter.insert_all(&hashes).unwrap());
        chunks(3, keys / 4).for_each(|hashes| filter.insert_all(&hashes).unwrap());
        chunks(3, keys / 4).for_each(|hashes| hashes.iter().for_each(|&hash| filter.remove(hash).unwrap()));
        let block = filter.to_block().unwrap();
        drop(filter);
        let block = FilterBlock::open_unverified(block).unwrap();
        block.verify().unwrap();
        let info = block.info();
        assert_eq!((info.kind, info.keys), (KindId::CUCKOO, keys));
        let mut matches = MatchBitmap::default();
        assert_answers(&name, keys, info.expected_fpr, |hashes| ask_block(&block, &mut matches, hashes));
        report_memory(&name, started);
    }
}

/// Tests the filter's section, its offset, and the properties that describe it, in a real file.
// promise: no-false-negatives
#[test]
fn a_table_with_a_filter_of_more_than_four_gib_is_written_and_read_again() {
    if !is_wanted("a table whose filter has more than 4 GiB") {
        return;
    }
    let (name, started, keys) = ("table", Instant::now(), 200_000_u32);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("huge.sst");
    let policy = Arc::new(FixedPolicy::bloom(BitsPerKey::MAX).unwrap());
    let options = TableOptions::default()
        .with_policy(policy)
        .with_context(BuildContext::new(&KeyHasher::default()).with_expected_keys(400_000_000));
    let mut builder = TableWriter::create(&path, &options).unwrap();
    (0..keys).for_each(|number| builder.add(&common::cases::key(number), b"value").unwrap());
    let summary = builder.finish().unwrap();
    println!("{name}: {summary:?}");
    let table = Table::open(&path, &TableOptions::default()).unwrap();
    assert!(table.filter_problem().is_none() && table.file_bytes() > FOUR_GIB);
    for number in 0..keys {
        assert!(matches!(table.get(&common::cases::key(number)).unwrap(), Lookup::Found(_)));
    }
    for number in 0..keys {
        // Within the key bounds, so that the filter is probed.
        assert_eq!(table.get(format!("key-{number:08}x").as_bytes()).unwrap(), Lookup::Absent);
    }
    let stats = table.stats();
    println!("{name}: {stats:?}");
    assert!(stats.data_block_reads <= u64::from(keys) + 1, "{stats:?}");
    drop(table);
    report_memory(name, started);
}
