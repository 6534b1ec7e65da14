//! One key, or many, against 70 files: filters alone, and whole lookups of absent keys.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::{
    BuildContext, FilterBlock, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, MatchMatrix,
};
use sstfilter_table::{Table, TableBuilder, TableOptions, TableSet};

const FILES: u64 = 70;
const BATCH: usize = 32;

/// A filter of `keys` keys that no other file has.
fn filter(policy: &FixedPolicy, file: u64, keys: u64) -> Option<FilterBlock<Bytes>> {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys);
    let mut builder = policy.builder(&context);
    (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(file << 40 | key)));
    FilterBlock::load(builder.finish().block?, &KeyHasher::default()).ok()
}

/// Sizes differ by up to a fifth, so that the files' lines do not fall on each other's cache sets.
fn filters(criterion: &mut Criterion) {
    let absent: Vec<KeyHash> = (0..2_048).map(|key| KeyHash::mix(1 << 60 | key)).collect();
    let policies = common::policies();
    // A set has a kernel for Bloom filters alone.
    let measured = policies.iter().filter(|(name, _)| ["bloom", "line-ribbon"].contains(name));
    for ((name, policy), keys) in measured.flat_map(|policy| [15_000, 1_000_000].map(|keys| (policy, keys))) {
        let blocks: Vec<_> =
            (0..FILES).filter_map(|file| filter(policy, file, keys * (80 + file % 41) / 100)).collect();
        let set = FilterSet::new(
            &Filters::default(),
            blocks.iter().cloned().map(|block| Filters::default().reader(Ok(block))),
        );
        let mut group = criterion.benchmark_group(format!("{FILES} filters of {keys} keys, {name}"));
        group.throughput(Throughput::Elements(FILES * absent.len() as u64)).sample_size(10);
        let one_by_one = |hash| blocks.iter().filter(|block| block.may_contain(hash)).count();
        group.bench_function("one by one", |bencher| {
            bencher.iter(|| black_box(&absent).iter().map(|&hash| one_by_one(hash)).sum::<usize>());
        });
        let mut matches = MatchBitmap::default();
        group.bench_function("one key", |bencher| {
            bencher.iter(|| black_box(&absent).iter().for_each(|&hash| set.matches_hash(hash, &mut matches)));
        });
        let mut matches = MatchMatrix::default();
        group.bench_function("batches", |bencher| {
            bencher.iter(|| {
                black_box(&absent).chunks(BATCH).for_each(|hashes| set.matches_batch(hashes, &mut matches));
            });
        });
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("user:{number:012}").into_bytes()
}

/// The bytes of a table of every 70th even number.
fn table(file: u64, keys: u64, value: &[u8]) -> Option<Bytes> {
    let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default()).ok()?;
    (0..keys).try_for_each(|number| builder.add(&key((number * FILES + file) * 2), value).ok())?;
    Some(Bytes::from(builder.finish().ok()?.0))
}

/// A set of the tables in `sources`, which stay in memory.
fn table_set(sources: &[Bytes], options: &TableOptions) -> TableSet {
    let tables = sources.iter().rev().filter_map(|source| Table::open_source(source.clone(), options).ok());
    TableSet::new((0..).zip(tables)).expect("ages differ")
}

/// Keys between those of the tables.
fn absent(keys: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..6_000).map(move |number| key(number * 341 % (keys * FILES - FILES) * 2 + FILES * 2 + 1))
}

/// Lookups of keys that no filter contains: the others cost reads, which are not what is measured here.
fn lookups(criterion: &mut Criterion) {
    let keys = 15_000;
    let sources: Vec<_> = (0..FILES).filter_map(|file| table(file, keys, b"value")).collect();
    let set = table_set(&sources, &TableOptions::default());
    let snapshot = set.snapshot();
    let is_negative = |key: &Vec<u8>| snapshot.view().candidates(key).next_file().is_none();
    let negatives: Vec<Vec<u8>> = absent(keys).filter(is_negative).collect();
    let negatives: Vec<&[u8]> = negatives.iter().map(Vec::as_slice).collect();
    let mut group = criterion.benchmark_group(format!("absent keys over {FILES} tables of {keys} keys"));
    group.throughput(Throughput::Elements(negatives.len() as u64)).sample_size(10);
    group.bench_function("get", |bencher| {
        bencher.iter(|| black_box(&negatives).iter().filter(|key| set.get(key).is_ok()).count());
    });
    group.bench_function("multi_get", |bencher| {
        bencher.iter(|| black_box(&negatives).chunks(BATCH).map(|keys| set.multi_get(keys).len()).sum::<usize>());
    });
}

/// Lookups of absent keys, false positives and the block searches that they cause included.
fn false_positives(criterion: &mut Criterion) {
    let keys = 15_000;
    let sources: Vec<_> = (0..FILES).filter_map(|file| table(file, keys, &[7; 100])).collect();
    let absent: Vec<Vec<u8>> = absent(keys).collect();
    let mut group = criterion.benchmark_group(format!("all absent keys over {FILES} tables of {keys} keys"));
    group.throughput(Throughput::Elements(absent.len() as u64)).sample_size(10);
    let read = TableOptions::default();
    let cached = read.clone().with_block_cache(1 << 30);
    for (name, options) in [("blocks read", read), ("blocks cached", cached)] {
        let set = table_set(&sources, &options);
        group.bench_function(format!("get, {name}"), |bencher| {
            bencher.iter(|| black_box(&absent).iter().filter(|key| set.get(key).is_ok()).count());
        });
    }
}

criterion_group!(benches, filters, lookups, false_positives);
criterion_main!(benches);
