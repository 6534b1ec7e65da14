//! One key, or many, against the filters of 70 files. The benchmark `tables` has whole lookups.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::{
    BuildContext, FilterBlock, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher, MatchBitmap, MatchMatrix,
};

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

criterion_group!(benches, filters);
criterion_main!(benches);
