//! Exact range filters of ids next to the point filters that they replace, as tables in Markdown. `-- --test` runs it
//! with few keys; `-- --chart FILE` draws the sizes.
//!
//! Each integer is an id with the chance that the density says. The ways take turns for several rounds, and the fastest
//! round of each counts.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]
#![expect(clippy::big_endian_bytes, reason = "ids, in the order of the numbers")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use sstfilter::{
    BitsPerKey, BuildContext, FalsePositiveRate, FileId, FilterBlock, FixedPolicy, KeyHash, KeyHasher, LoadContext,
    MatchBitmap,
};
use sstfilter_charts::{Axis, Chart, Form, Frame, Point, Series, Style};
use sstfilter_range::{RangeFilter, RangePolicy};
use sstfilter_store::{FileFilters, FilterStore, FilterView, ViewEdit};

/// Integers for each key, from the smallest to the largest.
const GAPS: [u64; 8] = [1, 2, 4, 8, 20, 50, 100, 250];

type Id = [u8; 8];

/// Returns the fastest nanoseconds per item of each way.
fn fastest<const N: usize>(rounds: usize, items: usize, ways: [&dyn Fn() -> usize; N]) -> [f64; N] {
    let mut fastest = [f64::MAX; N];
    for _ in 0..rounds {
        for (way, fastest) in ways.iter().zip(&mut fastest) {
            let begin = Instant::now();
            black_box(way());
            *fastest = fastest.min(begin.elapsed().as_nanos() as f64 / items as f64);
        }
    }
    fastest
}

fn drawn(number: u64, seed: u64, range: u64) -> u64 {
    KeyHash::mix(number ^ seed << 40).get() % range
}

/// Returns about `count` ids, each of the integers with the chance of one in `gap`.
fn ids(count: u64, gap: u64, seed: u64) -> Vec<Id> {
    (0..count * gap).filter(|id| drawn(*id, seed, gap) == 0).map(u64::to_be_bytes).collect()
}

/// Sizes, and a line of the table.
fn of_gap(count: u64, gap: u64, rounds: usize) -> ([f64; 3], String) {
    let (ids, hasher) = (ids(count, gap, 0), KeyHasher::default());
    let sought: Vec<Id> = (0..count).map(|number| drawn(number, 1, count * gap).to_be_bytes()).collect();
    let keys: Vec<&[u8]> = sought.iter().map(|id| &id[..]).collect();
    let ranges = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).expect("a usual rate");
    let bloom = FixedPolicy::bloom(BitsPerKey::TEN).expect("a usual size");
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).expect("a usual rate");
    let context = BuildContext::new(&hasher).with_expected_keys(count);
    let of_ranges = || {
        let mut builder = ranges.builder(&context);
        ids.iter().for_each(|id| builder.add_key(id));
        builder.finish().block.expect("ids ascend")
    };
    let of_points = |policy: &FixedPolicy| {
        let mut builder = policy.builder(&context);
        ids.iter().for_each(|id| builder.add_key(id));
        builder.finish().block.expect("few ids")
    };
    let blocks = [of_points(&bloom), of_points(&ribbon), of_ranges()];
    let bits = blocks.each_ref().map(|block| block.len() as f64 * 8.0 / ids.len() as f64);
    let load = LoadContext::new(&hasher);
    let exact = RangeFilter::load(blocks[2].clone(), load).expect("it was just built");
    let points = FilterBlock::load(blocks[0].clone(), load).expect("it was just built");
    assert!(ids.iter().all(|id| exact.may_contain(id)));
    let many = |probe: &dyn Fn(&mut MatchBitmap)| {
        let mut matches = MatchBitmap::default();
        probe(&mut matches);
        usize::try_from(matches.count()).expect("few")
    };
    let times = fastest(
        rounds,
        keys.len(),
        [
            &|| of_points(&bloom).len(),
            &|| of_ranges().len(),
            &|| keys.iter().filter(|key| points.may_contain(hasher.hash(key))).count(),
            &|| keys.iter().filter(|key| exact.may_contain(key)).count(),
            &|| {
                let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key)).collect();
                many(&|matches| points.may_contain_batch(&hashes, matches))
            },
            &|| many(&|matches| exact.may_contain_batch(&keys, matches)),
        ],
    );
    let is_exact = if exact.is_exact() { "yes" } else { "no" };
    let times = times.chunks(2).map(|times| format!("{:.1} / {:.1}", times[1], times[0])).collect::<Vec<_>>();
    let row = format!("| 1/{gap} | {:.2} | {is_exact} | {} |", bits[2], times.join(" | "));
    (bits, row)
}

/// Ids that no file of the store has: multiples of this.
const LEFT_OUT: u64 = 16;

/// Returns the bytes of the filters of 70 overlapping files, and a view of them.
fn store_of(store: &FilterStore, count: u64, gap: u64) -> (usize, FilterView<FileFilters>) {
    let (mut bytes, mut edit) = (0, ViewEdit::new());
    for number in 0..70 {
        let mut builder = store.builder(FileId::from_fingerprint(number + 1));
        let kept = |id: &Id| !u64::from_be_bytes(*id).is_multiple_of(LEFT_OUT);
        ids(count, gap, number).iter().filter(|id| kept(id)).for_each(|id| builder.add_key(id));
        let (filters, metadata) = builder.finish().seal();
        bytes += filters.len();
        edit = edit.add_to_level_0(number, Arc::new(store.open(metadata, filters)));
    }
    (bytes, FilterView::new(store).edited(edit).expect("they are of level 0"))
}

/// Compares exact filters with Bloom filters in stores of 70 files, for lookups of ids that no file has.
fn of_store(count: u64, gap: u64, rounds: usize) -> String {
    let bloom = FilterStore::default().with_policy(FixedPolicy::bloom(BitsPerKey::TEN).expect("a usual size"));
    let ranges = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).expect("a usual rate");
    let [(bloom_bytes, bloom), (bytes, exact)] =
        [bloom.clone(), bloom.with_range_filters(ranges)].map(|store| store_of(&store, count, gap));
    let absent: Vec<Id> =
        (0..count).map(|number| (drawn(number, 99, count * gap) / LEFT_OUT * LEFT_OUT).to_be_bytes()).collect();
    let searched = |view: &FilterView<FileFilters>| {
        let files = |id: &Id| {
            let mut candidates = view.candidates(id);
            core::iter::from_fn(|| candidates.next_file().map(drop)).count()
        };
        absent.iter().map(files).sum()
    };
    assert_eq!(searched(&exact), 0);
    let [of_bloom, of_exact] = fastest(rounds, absent.len(), [&|| searched(&bloom), &|| searched(&exact)]);
    let (size, time) = (bytes as f64 / bloom_bytes as f64, of_exact / of_bloom);
    format!("| 1/{gap} | {size:.3} | {of_exact:.0} / {of_bloom:.0} | {time:.2} |")
}

fn chart(sizes: &[(u64, [f64; 3])]) -> String {
    let line = |(number, name): (usize, &str)| Series {
        name: name.to_owned(),
        style: Style::nth(number),
        form: Form::Marked,
        points: sizes.iter().map(|(gap, bits)| Point { at: (*gap as f64, bits[number]), tip: String::new() }).collect(),
    };
    let names = ["blocked Bloom, 10 bits", "Ribbon, 1 %", "ordered range filter, 1 %; exact up to 1/200"];
    let chart = Chart {
        title: "Bits per key, by the density of ids".to_owned(),
        x: Axis::logarithmic("integers from the smallest to the largest, for each key", (1.0, 1_000.0)),
        y: Axis::linear("bits per key", 12.0, 2.0, |bits| format!("{bits:.0}")),
        series: names.into_iter().enumerate().map(line).collect(),
    };
    chart.svg(Frame::FILE).expect("it is drawn in memory")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let (count, in_file, rounds) = if is_test { (2_000, 500, 1) } else { (1_000_000, 100_000, 15) };
    println!(
        "# Exact range filters of ids\n\nWritten by `cargo bench -p sstfilter-benches --bench ids`. {count} ids of 8"
    );
    println!("bytes. Nanoseconds per id, of the range filter / of blocked Bloom with 10 bits per key and its hash.\n");
    println!("| density | bits per key | exact | build | single probe | batch |\n|--:|--:|---|--:|--:|--:|");
    let mut sizes = Vec::new();
    for gap in GAPS {
        let (bits, row) = of_gap(count, gap, rounds);
        println!("{row}");
        sizes.push((gap, bits));
    }
    println!(
        "\n70 overlapping files of {in_file} ids in memory: bytes of filters as a share of Bloom's, and nanoseconds of a"
    );
    println!("lookup of an id that no file has, with exact range filters / with Bloom.\n");
    println!("| density | bytes | absent id | ratio |\n|--:|--:|--:|--:|");
    [1, 2, 6].into_iter().for_each(|gap| println!("{}", of_store(in_file, gap, rounds)));
    if let Some(at) = arguments.iter().position(|argument| argument == "--chart") {
        std::fs::write(&arguments[at + 1], chart(&sizes)).expect("the file can be written");
    }
}
