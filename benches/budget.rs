//! Useless reads under a memory budget by the kind of filter, as a table in Markdown. `-- --test` runs it with few keys.
//!
//! A lookup of an absent key reads a data block in vain if the file's filter is not in memory or is wrong. All files are
//! probed equally often, so that nothing but the filters' sizes decides.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]
#![expect(clippy::big_endian_bytes, reason = "keys of numbers, in the order of the numbers")]

use std::hint::black_box;
use std::time::Instant;

use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FileId, FilterBlock, FixedPolicy, KeyHash, KeyHasher, Sizing,
};
use sstfilter_store::{FileFilters, FilterBudget, FilterStore, PartitionCut, PartitionOptions};

const FILES: u64 = 40;

/// Shares of the bytes of all filters, in percent.
const SHARES: [u64; 4] = [100, 75, 50, 25];

/// Opens the files that `writer` writes, with `keys(n)` keys in file `n`.
fn open(writer: &FilterStore, reader: &FilterStore, keys: &dyn Fn(u64) -> u64) -> Vec<FileFilters> {
    let open = |file: u64| {
        let mut builder = writer.builder(FileId::from_fingerprint(file));
        (0..keys(file)).for_each(|number| builder.add_key(&((number << 32) | file).to_be_bytes()));
        let (bytes, description) = builder.finish().seal();
        reader.open(description, bytes)
    };
    (0..FILES).map(open).collect()
}

/// Returns the share of absent keys that are read in vain.
fn useless(files: &[FileFilters], keys: &dyn Fn(u64) -> u64, lookups: std::ops::Range<u64>) -> f64 {
    let is_read = |number: u64, file: u64| {
        // Spread over all partitions.
        let random = KeyHash::mix((number << 8) | file).get();
        let absent = ((random % (keys(file) - 1)) << 32) | (1 << 31) | (random >> 33);
        !files[usize::try_from(file).expect("few")].probe(&absent.to_be_bytes()).is_absent()
    };
    let count = (lookups.end - lookups.start) * FILES;
    let reads = lookups.flat_map(|number| (0..FILES).map(move |file| (number, file)));
    reads.filter(|&(number, file)| is_read(number, file)).count() as f64 / count as f64
}

/// Returns the cells of a row: bits per key, and the rate at each share.
fn row(writer: &FilterStore, keys: &dyn Fn(u64) -> u64, lookups: u64) -> Vec<String> {
    let whole_and_rate = |share: u64| {
        // The plan depends on the lookups before, so each share has a budget of its own.
        let budget = FilterBudget::unlimited();
        let files = open(writer, &writer.clone().with_budget(budget.clone()), keys);
        let whole: u64 = files.iter().map(|file| file.residency().whole_bytes).sum();
        budget.set_bytes(whole * share / 100);
        useless(&files, keys, 0..lookups);
        (whole, useless(&files, keys, lookups..3 * lookups))
    };
    let measured = SHARES.map(whole_and_rate);
    let all_keys: u64 = (0..FILES).map(keys).sum();
    let bits = format!("{:.2}", measured[0].0 as f64 * 8.0 / all_keys as f64);
    [bits].into_iter().chain(measured.map(|(_, rate)| format!("{:.2} %", rate * 100.0))).collect()
}

fn stores() -> Vec<(&'static str, FilterStore)> {
    let unlimited = || FilterStore::default().with_policy(FixedPolicy::default());
    let store = |policy: FixedPolicy| FilterStore::default().with_policy(policy).with_budget(FilterBudget::unlimited());
    let bloom = || store(FixedPolicy::default());
    let options = PartitionOptions::new(PartitionCut::KeyRange, 16 << 10).expect("a usual size");
    let ribbon = || FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).expect("a usual rate");
    let bits = Sizing::FingerprintBits(8);
    vec![
        ("blocked Bloom, 10 bits, of a store with a budget", bloom()),
        ("the same in partitions of 16 KiB", bloom().with_partitions(options)),
        ("blocked Bloom, 10 bits, of a store without a budget", unlimited()),
        ("Ribbon, 1 %", store(ribbon())),
        ("the same in partitions of 16 KiB", store(ribbon()).with_partitions(options)),
        ("standard Bloom, 10 bits", store(FixedPolicy::standard_bloom(BitsPerKey::TEN).expect("a usual size"))),
        ("line ribbon, 0.4 %", store(FixedPolicy::line_ribbon(bits).expect("its length"))),
        ("binary fuse, 0.4 %", store(FixedPolicy::binary_fuse(bits).expect("a usual length"))),
    ]
}

/// Returns the nanoseconds of a probe of an absent key in one whole filter of the default policy: the fastest of many
/// rounds.
fn probe_ns(context: &BuildContext, keys: u64) -> f64 {
    let mut builder = FixedPolicy::default().builder(context);
    (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(key)));
    let block = FilterBlock::load(builder.finish().block.expect("few keys"), &KeyHasher::default());
    let block = block.expect("it was just built");
    let absent: Vec<KeyHash> = (keys..keys + 10_000).map(KeyHash::mix).collect();
    let round = |_| {
        let begin = Instant::now();
        black_box(black_box(&absent).iter().filter(|&&hash| block.may_contain(hash)).count());
        begin.elapsed().as_nanos() as f64 / absent.len() as f64
    };
    (0..100).map(round).fold(f64::INFINITY, f64::min)
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (keys, lookups) = if is_test { (3_000, 20) } else { (50_000, 2_500) };
    println!("# Useless reads under a memory budget\n");
    println!(
        "Written by `cargo bench -p sstfilter-benches --bench budget`. The share of absent keys whose data block is"
    );
    println!(
        "read although it lacks them, in {FILES} files that are probed equally often, by the share of the bytes of"
    );
    println!("all filters that fits into the budget.");
    let equal = |_: u64| keys;
    let differing = |file: u64| keys / 5 + file * keys / 24;
    let sizes: [(String, &dyn Fn(u64) -> u64); 2] = [
        (format!("{keys} keys in each file"), &equal),
        (format!("{} to {} keys", differing(0), differing(FILES - 1)), &differing),
    ];
    for (title, keys) in sizes {
        println!("\n## {title}\n\n| filter | bits per key | 100 % | 75 % | 50 % | 25 % |\n|---|--:|--:|--:|--:|--:|");
        for (name, store) in stores() {
            println!("| {name} | {} |", row(&store, keys, lookups).join(" | "));
        }
    }
    let context = BuildContext::new(&KeyHasher::default());
    let contexts = [context.clone(), context.shrinkable()];
    // In turns, because other programs may take the processor for a while.
    let [usual, shrinkable] = (0..if is_test { 1 } else { 50 }).fold([f64::INFINITY; 2], |[usual, shrinkable], _| {
        [usual.min(probe_ns(&contexts[0], keys)), shrinkable.min(probe_ns(&contexts[1], keys))]
    });
    println!("\nA probe of blocked Bloom takes {shrinkable:.2} ns of a store with a budget, {usual:.2} ns without.");
}
