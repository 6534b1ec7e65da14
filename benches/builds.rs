//! What adding a key costs by the way in which an engine builds its filters, as a table in Markdown. `-- --test` runs
//! it with few keys.
//!
//! All filters are blocked Bloom filters with 10 bits per key, of keys that ascend. The ways take turns for several
//! rounds, and the fastest build of each counts.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]
#![expect(clippy::big_endian_bytes, reason = "keys of numbers, in the order of the numbers")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use sstfilter::{FileId, FilterBuilder, Filters, FixedPolicy, KeyHash};
use sstfilter_store::{FileFilterBuilder, FilterStore, PartitionCut, PartitionOptions};

const ID: FileId = FileId::from_fingerprint(7);

/// A way to build the filter of some keys. Returns how long adding them and finishing took.
type Way<'a> = (&'static str, &'a dyn Fn() -> [Duration; 2]);

fn timed<B>(mut builder: B, add_all: impl FnOnce(&mut B), finish: impl FnOnce(B) -> usize) -> [Duration; 2] {
    let begin = Instant::now();
    add_all(&mut builder);
    let added = Instant::now();
    assert!(black_box(finish(builder)) > 0, "the keys fit");
    [added - begin, added.elapsed()]
}

fn filter(builder: FilterBuilder, add_all: impl FnOnce(&mut FilterBuilder)) -> [Duration; 2] {
    timed(builder, add_all, |builder| builder.finish().block.map_or(0, |block| block.len()))
}

fn file(store: &FilterStore, keys: &[[u8; 8]]) -> [Duration; 2] {
    let add_all = |builder: &mut FileFilterBuilder| black_box(keys).iter().for_each(|key| builder.add_key(key));
    timed(store.builder(ID), add_all, |builder| builder.finish().seal().0.len())
}

/// Returns the nanoseconds per key of each way, for adding and for finishing.
fn times(keys: &[[u8; 8]], rounds: usize) -> Vec<(&'static str, [f64; 2])> {
    let filters = Filters::new(FixedPolicy::default());
    let hashes: Vec<KeyHash> = keys.iter().map(|key| filters.hash(key)).collect();
    let store = FilterStore::new(filters.clone());
    let options = PartitionOptions::new(PartitionCut::KeyRange, 16 << 10).expect("a usual size");
    let partitions = store.clone().with_partitions(options);
    let known = || filters.builder(ID).with_expected_keys(keys.len() as u64);
    let add_hashes = |builder: &mut FilterBuilder| builder.add_hashes(black_box(&hashes));
    let add_keys = |builder: &mut FilterBuilder| black_box(keys).iter().for_each(|key| builder.add_key(key));
    let hash_all = |sum: &mut u64| {
        *sum = black_box(keys).iter().fold(1, |sum: u64, key| sum.wrapping_add(filters.hash(key).get()));
    };
    let ways: [Way<'_>; 7] = [
        ("`add_hashes`, number known", &|| filter(known(), add_hashes)),
        ("`add_hashes`", &|| filter(filters.builder(ID), add_hashes)),
        ("`add_key`, number known", &|| filter(known(), add_keys)),
        ("`add_key`", &|| filter(filters.builder(ID), add_keys)),
        ("`add_key` of a store", &|| file(&store, keys)),
        ("`add_key` of a store, in partitions", &|| file(&partitions, keys)),
        ("hashing alone", &|| timed(1, hash_all, |sum| usize::from(black_box(sum) > 0))),
    ];
    let mut fastest = ways.map(|_| [Duration::MAX; 2]);
    for _ in 0..=rounds {
        for ((_, build), fastest) in ways.iter().zip(&mut fastest) {
            let times = build();
            // One round counts, not the best of each half.
            if times[0] + times[1] < fastest[0].saturating_add(fastest[1]) {
                *fastest = times;
            }
        }
    }
    let per_key = |times: [Duration; 2]| times.map(|time| time.as_nanos() as f64 / keys.len() as f64);
    ways.iter().map(|(name, _)| *name).zip(fastest.map(per_key)).collect()
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let sizes = if is_test { [500_u64, 1_000] } else { [15_000, 1_000_000] };
    let rounds = |keys: u64| if is_test { 1 } else { 90_000_000 / keys.max(100_000) };
    let columns = sizes.map(|count| {
        let keys: Vec<[u8; 8]> = (0..count).map(|number| (number * 3).to_be_bytes()).collect();
        times(&keys, usize::try_from(rounds(count)).expect("few"))
    });
    println!(
        "# Adding keys\n\nWritten by `cargo bench -p sstfilter-benches --bench builds`. Nanoseconds per key of 8 bytes:"
    );
    println!("adding, `finish`, and in brackets the ratio of adding to both of the first row.\n");
    println!("| blocked Bloom, 10 bits per key | {} keys | {} keys |\n|---|--:|--:|", sizes[0], sizes[1]);
    let whole = [0, 1].map(|column: usize| columns[column][0].1.iter().sum::<f64>());
    for ((name, few), (_, many)) in columns[0].iter().zip(&columns[1]) {
        let cell = |[add, finish]: [f64; 2], whole| format!("{add:.1} + {finish:.1} ({:.1})", add / whole);
        println!("| {name} | {} | {} |", cell(*few, whole[0]), cell(*many, whole[1]));
    }
}
