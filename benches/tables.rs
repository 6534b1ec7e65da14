//! Point lookups in a store of 70 tables with overlapping ranges: the whole saving that filters bring to a reader.
//!
//! The tables are in memory, so a false positive costs the search of a block and no disk read.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

mod common;

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use common::{absent, policies, present};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, TableSet};
use sstfilter::{BuildContext, KeyHasher};

/// Files of a store whose key ranges overlap, and keys in each: what a lookup has to probe.
const FILES: u64 = 70;
const KEYS_PER_FILE: u64 = 15_000;

/// Keys looked up in one iteration.
const QUERIES: u64 = 2048;

/// Keys of one `multi_get`.
const BATCH: usize = 32;

/// How tables are written, by the filter that they get.
fn stores() -> Vec<(&'static str, TableOptions)> {
    let context = || BuildContext::new(&KeyHasher::default()).with_expected_keys(KEYS_PER_FILE);
    let options = || TableOptions::default().with_context(context());
    let filtered = policies().into_iter().take(2).map(|(name, policy)| (name, options().with_policy(Arc::new(policy))));
    let mut stores: Vec<_> = filtered.collect();
    stores.push(("no filter", options().without_filter()));
    stores
}

/// Deals `keys`, which ascend, over all tables.
fn table_set(keys: &[[u8; 16]], options: &TableOptions) -> TableSet {
    let file_count = usize::try_from(FILES).expect("it is small");
    let table = |file: usize| {
        let mut builder = TableBuilder::new(Vec::new(), options).expect("a vector takes all");
        for key in keys.iter().skip(file).step_by(file_count) {
            builder.add(key, b"a value of 20 bytes.").expect("keys ascend");
        }
        let (bytes, _) = builder.finish().expect("a vector takes all");
        Table::open_source(Bytes::from(bytes), &ReadOptions::default()).expect("it was just written")
    };
    TableSet::new((0..file_count).map(table).collect()).expect("all have the default hasher")
}

fn found(set: &TableSet, keys: &[[u8; 16]]) -> usize {
    keys.iter().filter(|key| matches!(set.get(&key[..]), Ok(Some(_)))).count()
}

fn found_in_batches(set: &TableSet, keys: &[&[u8]]) -> usize {
    let values = keys.chunks(BATCH).flat_map(|batch| set.multi_get(batch));
    values.filter(|value| matches!(value, Ok(Some(_)))).count()
}

fn lookups(criterion: &mut Criterion) {
    let keys = present(FILES * KEYS_PER_FILE);
    // Both spread over the whole range of keys.
    let stride = keys.len() / usize::try_from(QUERIES).expect("it is small");
    let hits: Vec<_> = keys.iter().copied().step_by(stride).collect();
    let misses: Vec<_> = absent(FILES * KEYS_PER_FILE).into_iter().step_by(stride).collect();
    let missed: Vec<&[u8]> = misses.iter().map(|key| &key[..]).collect();
    for (name, options) in stores() {
        let set = table_set(&keys, &options);
        assert_eq!((found(&set, &hits), found_in_batches(&set, &missed)), (hits.len(), 0));
        let mut group = criterion.benchmark_group(format!("{FILES} tables, {name}"));
        group.throughput(Throughput::Elements(misses.len() as u64)).sample_size(10);
        group.bench_function("get absent", |bencher| bencher.iter(|| found(&set, black_box(&misses))));
        group.bench_function("get present", |bencher| bencher.iter(|| found(&set, black_box(&hits))));
        group.bench_function(format!("multi_get absent, {BATCH} keys"), |bencher| {
            bencher.iter(|| found_in_batches(&set, black_box(&missed)));
        });
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
