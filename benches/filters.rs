//! Building and asking filters, by kind and number of keys; hashes given.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::{
    BloomPolicy, BuildContext, FalsePositiveRate, FilterBlock, FilterPolicy, HitBitmap, KeyHash, KeyHasher,
    RibbonPolicy, RibbonSizing,
};

/// The policies measured, by name: about 1 % false positives each.
fn policies() -> Vec<(&'static str, Box<dyn FilterPolicy>)> {
    let ribbon = RibbonPolicy::new(RibbonSizing::Rate(FalsePositiveRate::ONE_PERCENT));
    let mut policies: Vec<(_, Box<dyn FilterPolicy>)> = vec![("bloom", Box::new(BloomPolicy::default()))];
    policies.extend(ribbon.map(|policy| ("ribbon", Box::new(policy) as Box<dyn FilterPolicy>)));
    policies
}

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(KeyHash::from_remixed).collect()
}

fn build(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> Option<bytes::Bytes> {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(hashes.len() as u64);
    let mut builder = policy.builder(&context)?;
    builder.add_hashes(hashes);
    builder.finish().block
}

fn filters(criterion: &mut Criterion) {
    for keys in [10_000, 100_000, 1_000_000] {
        let (present, absent) = (hashes(0, keys), hashes(1 << 40, keys));
        for (name, policy) in policies() {
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Elements(keys)).sample_size(10);
            group.bench_function(BenchmarkId::new("build", keys), |bencher| {
                bencher.iter(|| build(policy.as_ref(), black_box(&present)));
            });
            let Some(filter) = build(policy.as_ref(), &present).and_then(|block| FilterBlock::open(block).ok()) else {
                continue;
            };
            let count = |hashes: &[KeyHash]| hashes.iter().filter(|&&hash| filter.may_contain(hash)).count();
            group.bench_function(BenchmarkId::new("hit", keys), |bencher| bencher.iter(|| count(black_box(&present))));
            group.bench_function(BenchmarkId::new("miss", keys), |bencher| bencher.iter(|| count(black_box(&absent))));
            let mut hits = HitBitmap::default();
            group.bench_function(BenchmarkId::new("batch miss", keys), |bencher| {
                bencher.iter(|| filter.may_contain_batch(black_box(&absent), &mut hits));
            });
        }
    }
}

criterion_group!(benches, filters);
criterion_main!(benches);
