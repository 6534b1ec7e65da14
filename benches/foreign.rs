//! How many probes a core makes in other engines' filters that are in memory.
//!
//! 100 filters of 10,000 to 60,000 keys are probed with 200,000 absent keys, one filter after the other, whole batches
//! (`many`) and single probes (`one`). Elements per second are probes per second.
//!
//! `cargo bench -p sstfilter-benches --bench foreign`

#![expect(clippy::expect_used, reason = "a benchmark may stop")]

#[path = "../crates/interop/tests/filters/build.rs"]
mod build;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sstfilter_interop::{Filter, build_leveldb_bloom};

const FILTERS: u64 = 100;
const ABSENT: u64 = 200_000;

/// `SplitMix64`: as good as hashes of keys.
fn hash(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn filters(build: impl Fn(&[u64]) -> Filter<Vec<u8>>) -> Vec<Filter<Vec<u8>>> {
    let keys = |filter: u64| 10_000 + filter * 50_000 / (FILTERS - 1);
    (0..FILTERS).map(|i| build(&(0..keys(i)).map(|key| hash(i << 32 | key)).collect::<Vec<_>>())).collect()
}

fn probe(c: &mut Criterion, name: &str, filters: &[Filter<Vec<u8>>]) {
    let absent: Vec<u64> = (0..ABSENT).map(|i| hash(1 << 40 | i)).collect();
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(FILTERS * ABSENT)).sample_size(10);
    let mut answers = Vec::new();
    group.bench_function("many", |b| {
        b.iter(|| {
            filters.iter().for_each(|filter| filter.may_contain_hashes(&absent, &mut answers));
            answers.len()
        });
    });
    group.bench_function("one", |b| {
        b.iter(|| {
            let positives =
                |filter: &Filter<Vec<u8>>| absent.iter().filter(|&&hash| filter.may_contain_hash(hash)).count();
            filters.iter().map(positives).sum::<usize>()
        });
    });
}

fn rocksdb(bytes: Vec<u8>) -> Filter<Vec<u8>> {
    Filter::rocksdb(bytes).expect("a filter")
}

fn foreign(c: &mut Criterion) {
    probe(c, "FastLocalBloom, 10 bits", &filters(|hashes| rocksdb(build::fast_local_bloom(hashes, 10.0, 6))));
    probe(c, "Standard128Ribbon, 7 columns", &filters(|hashes| rocksdb(build::ribbon128(hashes, 7, 0))));
    probe(c, "legacy Bloom, 10 bits", &filters(|hashes| rocksdb(build::legacy_bloom(hashes, 10.0, 6, 64))));
    let leveldb = |hashes: &[u64]| build_leveldb_bloom(hashes.iter().map(|hash| hash.to_le_bytes()), 10);
    probe(c, "LevelDB Bloom, 10 bits", &filters(|hashes| Filter::leveldb(leveldb(hashes)).expect("a filter")));
}

criterion_group!(benches, foreign);
criterion_main!(benches);
