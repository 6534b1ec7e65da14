//! Building and probing filters, by kind and number of keys.
//!
//! Keys are hashed beforehand, except in the benchmarks called "hashing". `SSTFILTER_LONG` adds ten million keys.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;

use bytes::Bytes;
use common::{absent, policies, present};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::kind::BlockedBloomKind;
use sstfilter::{
    BlockBuilder, BuildContext, CuckooFilter, DynamicFilter, FalsePositiveRate, FilterBlock, FilterPolicy, Filters,
    FixedPolicy, HashIdentity, KeyHash, KeyHasher, MatchBitmap,
};

/// The most keys probed in one iteration.
const MAX_QUERIES: u64 = 1 << 20;

fn filter_sizes() -> Vec<u64> {
    let mut sizes = vec![10_000, 100_000, 1_000_000];
    if std::env::var_os("SSTFILTER_LONG").is_some() {
        sizes.push(10_000_000);
    }
    sizes
}

fn hashes(keys: &[[u8; 16]]) -> Vec<KeyHash> {
    let hasher = KeyHasher::default();
    keys.iter().map(|key| hasher.hash(key)).collect()
}

fn build(policy: &dyn FilterPolicy, keys: usize, add_all: impl FnOnce(&mut dyn BlockBuilder)) -> Bytes {
    let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(keys as u64);
    let mut builder = policy.builder(&context).expect("the policy never declines");
    add_all(builder.as_mut());
    builder.finish().block.expect("the keys fit")
}

fn filter_of(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> FilterBlock<Bytes> {
    FilterBlock::load(build(policy, hashes.len(), |builder| builder.add_hashes(hashes)), &KeyHasher::default())
        .expect("it was just built")
}

fn filters(criterion: &mut Criterion) {
    for count in filter_sizes() {
        let (present, absent) = (present(count), absent(count.min(MAX_QUERIES)));
        for (name, policy) in policies() {
            let mut group = criterion.benchmark_group(name);
            group.sample_size(10);
            builds(&mut group, &policy, &present);
            queries(&mut group, &policy, &present, &absent);
        }
    }
}

fn builds(group: &mut BenchmarkGroup<'_, WallTime>, policy: &dyn FilterPolicy, keys: &[[u8; 16]]) {
    let (count, hashes) = (keys.len(), hashes(keys));
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::new("build", count), |bencher| {
        bencher.iter(|| build(policy, count, |builder| builder.add_hashes(black_box(&hashes))));
    });
    group.bench_function(BenchmarkId::new("build hashing", count), |bencher| {
        bencher.iter(|| build(policy, count, |builder| black_box(keys).iter().for_each(|key| builder.add_key(key))));
    });
}

fn queries(
    group: &mut BenchmarkGroup<'_, WallTime>,
    policy: &dyn FilterPolicy,
    present: &[[u8; 16]],
    absent: &[[u8; 16]],
) {
    let (count, hasher) = (present.len(), KeyHasher::default());
    let (hits, misses) = (hashes(present), hashes(absent));
    let filter = filter_of(policy, &hits);
    let hits = &hits[..misses.len()];
    let mut bitmap = MatchBitmap::default();
    let count_of = |hashes: &[KeyHash]| hashes.iter().filter(|&&hash| filter.may_contain(hash)).count();
    group.throughput(Throughput::Elements(misses.len() as u64));
    group.bench_function(BenchmarkId::new("hit", count), |bencher| bencher.iter(|| count_of(black_box(hits))));
    group.bench_function(BenchmarkId::new("miss", count), |bencher| bencher.iter(|| count_of(black_box(&misses))));
    let reader = Filters::default().reader(Ok(filter.clone()));
    group.bench_function(BenchmarkId::new("miss counted", count), |bencher| {
        bencher.iter(|| black_box(&misses).iter().filter(|&&hash| !reader.probe_hash(hash).is_absent()).count());
    });
    group.bench_function(BenchmarkId::new("miss hashing", count), |bencher| {
        bencher.iter(|| black_box(absent).iter().filter(|key| filter.may_contain(hasher.hash(&key[..]))).count());
    });
    group.bench_function(BenchmarkId::new("batch hit", count), |bencher| {
        bencher.iter(|| filter.may_contain_batch(black_box(hits), &mut bitmap));
    });
    group.bench_function(BenchmarkId::new("batch miss", count), |bencher| {
        bencher.iter(|| filter.may_contain_batch(black_box(&misses), &mut bitmap));
    });
}

/// Probes of raw bytes that nothing keeps open, with and without a comparison of the payload's checksum: one line, and
/// 1,000 keys.
fn raw_bytes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("raw bytes");
    let identity = HashIdentity::default();
    for count in [50, 1_000] {
        let hashes = hashes(&present(count));
        let block = build(&FixedPolicy::default(), hashes.len(), |builder| builder.add_hashes(&hashes));
        group.throughput(Throughput::Elements(count));
        group.bench_function(BenchmarkId::new("unverified", count), |bencher| {
            let probe =
                |&&hash: &&KeyHash| FilterBlock::probe_unverified(black_box(&block), identity, hash) == Ok(true);
            bencher.iter(|| hashes.iter().filter(probe).count());
        });
        group.bench_function(BenchmarkId::new("verified", count), |bencher| {
            let probe = |&&hash: &&KeyHash| !FilterBlock::probe(black_box(&block), identity, hash).is_absent();
            bencher.iter(|| hashes.iter().filter(probe).count());
        });
    }
}

/// Dynamic filters, with about 1 % false positives.
fn dynamic_filters(criterion: &mut Criterion) {
    for count in filter_sizes() {
        let (present, absent) = (hashes(&present(count)), hashes(&absent(count.min(MAX_QUERIES))));
        let mut group = criterion.benchmark_group("cuckoo");
        group.sample_size(10);
        cuckoo(&mut group, &present, &absent);
    }
}

fn cuckoo(group: &mut BenchmarkGroup<'_, WallTime>, present: &[KeyHash], absent: &[KeyHash]) {
    let count = present.len();
    let empty = || {
        CuckooFilter::for_rate(HashIdentity::default(), count as u64, FalsePositiveRate::ONE_PERCENT)
            .expect("one percent is offered")
    };
    let filled = || {
        let mut filter = empty();
        filter.insert_all(present).expect("planned for them");
        filter
    };
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::new("insert all", count), |bencher| bencher.iter(filled));
    group.bench_function(BenchmarkId::new("insert", count), |bencher| {
        bencher.iter(|| {
            let mut filter = empty();
            present.iter().try_for_each(|&hash| filter.insert(black_box(hash))).expect("planned for them");
            filter
        });
    });
    group.bench_function(BenchmarkId::new("remove", count), |bencher| {
        let remove_all = |mut filter: CuckooFilter| present.iter().try_for_each(|&hash| filter.remove(hash));
        bencher.iter_batched(filled, remove_all, BatchSize::PerIteration);
    });
    let (filter, mut bitmap) = (filled(), MatchBitmap::default());
    let hits = &present[..absent.len()];
    let count_of = |hashes: &[KeyHash]| hashes.iter().filter(|&&hash| filter.contains(hash)).count();
    group.throughput(Throughput::Elements(absent.len() as u64));
    group.bench_function(BenchmarkId::new("hit", count), |bencher| bencher.iter(|| count_of(black_box(hits))));
    group.bench_function(BenchmarkId::new("miss", count), |bencher| bencher.iter(|| count_of(black_box(absent))));
    group.bench_function(BenchmarkId::new("batch miss", count), |bencher| {
        bencher.iter(|| filter.contains_batch(black_box(absent), &mut bitmap));
    });
}

/// Folding and dropping columns, in bytes of the whole block, which is verified, too.
fn shrinking(criterion: &mut Criterion) {
    let folding = BlockedBloomKind::default().with_fold(12).expect("a small factor");
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).expect("a usual rate");
    let policies = [("bloom", FixedPolicy::from(folding)), ("ribbon", ribbon)];
    for count in filter_sizes() {
        let present = hashes(&present(count));
        for (name, policy) in &policies {
            let block = filter_of(policy, &present);
            let block_bytes = block.info().block_bytes;
            let mut group = criterion.benchmark_group(*name);
            group.sample_size(10).throughput(Throughput::Bytes(block_bytes));
            group.bench_function(BenchmarkId::new("verify", count), |bencher| bencher.iter(|| block.verify()));
            for share in [2, 3, 4] {
                group.bench_function(BenchmarkId::new(format!("shrink to 1 of {share}"), count), |bencher| {
                    bencher.iter(|| {
                        block
                            .shrink_to(black_box(block_bytes / share + 40))
                            .map(FilterBlock::into_inner)
                            .expect("it has such a size")
                    });
                });
            }
        }
    }
}

criterion_group!(benches, filters, raw_bytes, dynamic_filters, shrinking);
criterion_main!(benches);
