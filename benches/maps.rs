//! File maps beside one filter per file, as tables in Markdown: size, false candidates and lookups by the number of
//! files, then builds and merges. `-- --test` runs all of it with few keys.
//!
//! Candidates take turns for several rounds. The fastest build counts, and the sum of the fastest lookups of each
//! stretch of keys.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use sstfilter::{
    BuildContext, FalsePositiveRate, FileId, FilterReader, FilterSet, Filters, FixedPolicy, KeyHash, KeyHasher,
    MatchBitmap, MatchMatrix,
};
use sstfilter_map::{FileMap, MapAnswer, MapBuilder, MapMerge, MapOptions};

/// Keys of a batch.
const BATCH: usize = 32;

/// Files, and keys in each. The first ones show how many files a map pays off for.
const STORES: [(u64, u64); 9] = [
    (1, 15_000),
    (2, 15_000),
    (4, 15_000),
    (8, 15_000),
    (16, 15_000),
    (32, 15_000),
    (70, 15_000),
    (1_000, 10_000),
    (100_000, 1_000),
];

/// In more files, lookups of filters are not timed: one takes milliseconds.
const TIMED_FILES: u64 = 1_000;

/// Stores that are built and merged.
const BUILT: [(u64, u64); 2] = [(70, 15_000), (1_000, 10_000)];

/// Maps that are merged.
const MERGED: [u64; 3] = [2, 8, 32];

/// A store of files, each with keys of its own.
#[derive(Clone, Copy)]
struct Store {
    files: u64,
    keys: u64,
}

impl Store {
    /// A hundredth of the keys for a test, and of many files.
    fn new((files, keys): (u64, u64), is_test: bool) -> Self {
        if is_test { Self { files: files.min(70), keys: keys / 100 } } else { Self { files, keys } }
    }

    fn hashes(self, file: u64) -> Vec<KeyHash> {
        let mut hashes: Vec<_> = (0..self.keys).map(|key| KeyHash::mix((file << 32) | key)).collect();
        hashes.sort_unstable();
        hashes
    }

    fn options(self) -> MapOptions {
        MapOptions::for_entries(self.files * self.keys, FalsePositiveRate::ONE_PERCENT).expect("few bits")
    }

    /// A map of those files whose number leaves this rest.
    fn map(self, (divisor, rest): (u64, u64)) -> FileMap<Vec<u8>> {
        let mut builder = MapBuilder::new(&Filters::default(), self.options());
        (rest..self.files).step_by(usize_of(divisor)).for_each(|file| builder.add_file(id(file), self.hashes(file)));
        let mut bytes = Vec::new();
        builder.finish(id(rest), &mut bytes).expect("it stays in memory");
        FileMap::load(bytes, &Filters::default(), id(rest)).expect("it was just built")
    }

    /// The filters of all files, with 10 bits per key.
    fn filters(self) -> FilterSet<Bytes> {
        let context = BuildContext::new(&KeyHasher::default()).with_expected_keys(self.keys);
        let filters = Filters::default();
        let reader = |file| -> FilterReader<Bytes> {
            let mut builder = FixedPolicy::default().builder(&context);
            builder.add_hashes(&self.hashes(file));
            let block = builder.finish().block.expect("few keys");
            filters.reader(sstfilter::FilterBlock::load(block, &KeyHasher::default()))
        };
        FilterSet::new(&filters, (0..self.files).map(reader))
    }

    fn present(self, number: u64) -> KeyHash {
        let (file, key) = (number % self.files, number.wrapping_mul(7_919) % self.keys);
        KeyHash::mix((file << 32) | key)
    }
}

/// Ids of files and maps.
fn id(number: u64) -> FileId {
    FileId::new(&number.to_le_bytes()).expect("8 bytes")
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("it fits into memory")
}

fn absent(number: u64) -> KeyHash {
    KeyHash::mix((1 << 63) | number)
}

/// The time for which this thread has run. By wall-clock time, a busy machine would interrupt each build.
fn processor_time() -> Duration {
    // Linux adds the time since the last switch when a thread yields. Elsewhere, time that others take counts.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.map_or_else(|| SystemTime::UNIX_EPOCH.elapsed().expect("the clock is right"), Duration::from_nanos)
}

/// Runs `work`, and returns its result and its processor time, if that is less than `fastest`.
fn timed<T>(fastest: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begin = processor_time();
    let result = work();
    *fastest = processor_time().saturating_sub(begin).min(*fastest);
    result
}

fn ns_per(keys: u64, time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / keys as f64
}

/// A way to look up keys, which returns how many files may have them.
type Lookup<'a> = Box<dyn FnMut(&[KeyHash]) -> u64 + 'a>;

fn count(found: MapAnswer<'_>) -> u64 {
    match found {
        MapAnswer::Only(files) => files.count() as u64,
        MapAnswer::All => panic!("a page is damaged"),
    }
}

/// Filters and map, one key at a time; filters and map, in batches.
fn lookups<'a>(filters: &'a FilterSet<Bytes>, map: &'a FileMap<Vec<u8>>) -> [Lookup<'a>; 4] {
    let (mut matches, mut matrix) = (MatchBitmap::default(), MatchMatrix::default());
    let filters_single = move |hashes: &[KeyHash]| {
        let count = |hash: &KeyHash| {
            filters.matches_hash(*hash, &mut matches);
            matches.count()
        };
        hashes.iter().map(count).sum()
    };
    let map_single = move |hashes: &[KeyHash]| hashes.iter().map(|hash| count(map.candidates(*hash))).sum();
    let filters_batched = move |hashes: &[KeyHash]| {
        let count = |batch: &[KeyHash]| {
            filters.matches_batch(batch, &mut matrix);
            matrix.count()
        };
        hashes.chunks(BATCH).map(count).sum()
    };
    let map_batched = move |hashes: &[KeyHash]| {
        let mut sum = 0;
        hashes.chunks(BATCH).for_each(|batch| map.candidates_each(batch, |_, found| sum += count(found)));
        sum
    };
    [Box::new(filters_single), Box::new(map_single), Box::new(filters_batched), Box::new(map_batched)]
}

/// The times of all lookups per key.
fn time_lookups(lookups: &mut [Lookup<'_>; 4], hashes: &[KeyHash], stretch: usize, rounds: usize) -> [f64; 4] {
    let stretches = hashes.len().div_ceil(stretch);
    let mut fastest = [(); 4].map(|()| vec![Duration::MAX; stretches]);
    for _ in 0..rounds {
        for (lookup, fastest) in lookups.iter_mut().zip(&mut fastest) {
            // Twice, because other candidates, and other programs, have used the caches.
            for _ in 0..2 {
                for (hashes, fastest) in hashes.chunks(stretch).zip(&mut *fastest) {
                    let begin = Instant::now();
                    black_box(lookup(black_box(hashes)));
                    *fastest = begin.elapsed().min(*fastest);
                }
            }
        }
    }
    fastest.map(|fastest| ns_per(hashes.len() as u64, fastest.iter().sum()))
}

/// How many files a lookup finds for a key.
fn found(lookup: &mut Lookup<'_>, key: impl Fn(u64) -> KeyHash, queries: u64) -> f64 {
    lookup(&(0..queries).map(key).collect::<Vec<_>>()) as f64 / queries as f64
}

fn print_lookups(is_test: bool) {
    println!(
        "| files | keys in each | bits per key | false candidates: filters | map | absent: filters | map | \
         absent, batch: filters | map | present: filters | map |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for store in STORES.map(|store| Store::new(store, is_test)) {
        let (filters, map) = (store.filters(), store.map((1, 0)));
        let mut lookups = lookups(&filters, &map);
        let [by_filters, by_map, ..] = &mut lookups;
        let few = if is_test { 64 } else { ((1 << 26) / store.files).clamp(1 << 9, 1 << 20) };
        let false_candidates =
            [found(by_filters, absent, few), found(by_map, absent, if is_test { few } else { 1 << 22 })];
        let present = |number| store.present(number);
        assert!(found(by_filters, present, few) >= 1.0 && found(by_map, present, few) >= 1.0, "a key was lost");
        let bits = map.as_bytes().len() as f64 * 8.0 / (store.files * store.keys) as f64;
        print!("| {} | {} | {bits:.1} | ", store.files, store.keys);
        print!("{:.3} | {:.4} |", false_candidates[0], false_candidates[1]);
        if store.files > TIMED_FILES {
            println!(" | | | | | |");
            continue;
        }
        let (queries, rounds) = if is_test { (64, 1) } else { ((1 << 24) / store.files.max(1 << 8), 15) };
        let stretch = usize_of((1 << 16) / store.files).min(512);
        let [absent, present] = [&absent as &dyn Fn(u64) -> KeyHash, &present].map(|key| {
            let hashes: Vec<_> = (0..queries).map(key).collect();
            time_lookups(&mut lookups, &hashes, stretch, rounds)
        });
        absent.iter().chain(&present[..2]).for_each(|time| print!(" {time:.1} |"));
        println!();
    }
}

/// The times of a build, and of merges of the maps of `MERGED`, per entry.
fn time_builds(store: Store, rounds: u64) -> Vec<f64> {
    let files: Vec<_> = (0..store.files).map(|file| store.hashes(file)).collect();
    let parts = MERGED.map(|parts| (0..parts).map(|part| store.map((parts, part))).collect::<Vec<_>>());
    let (mut build, mut merges) = (Duration::MAX, MERGED.map(|_| Duration::MAX));
    let (mut built, mut merged) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let files = files.clone();
        built.clear();
        timed(&mut build, || {
            let mut builder = MapBuilder::new(&Filters::default(), store.options());
            (0..).zip(files).for_each(|(file, hashes)| builder.add_file(id(file), hashes));
            builder.finish(id(0), &mut built).expect("it stays in memory")
        });
        for (maps, time) in parts.iter().zip(&mut merges) {
            merged.clear();
            timed(time, || {
                let mut merge = MapMerge::new(store.options());
                maps.iter().for_each(|map| merge.add_loaded(map, |_| true).expect("equal options"));
                merge.finish(id(0), &mut merged).expect("it stays in memory")
            });
            assert!(merged == built, "a merge must write the bytes of a build");
        }
    }
    [build].into_iter().chain(merges).map(|time| ns_per(store.files * store.keys, time)).collect()
}

fn print_builds(is_test: bool) {
    println!(
        "\n## Builds from sorted hashes, and merges\n\n| files | keys in each | build | merge of 2 | of 8 | of 32 |\n|--:|--:|--:|--:|--:|--:|"
    );
    for store in BUILT.map(|store| Store::new(store, is_test)) {
        let rounds = if is_test { 1 } else { 60_000_000 / (store.files * store.keys) };
        let times = time_builds(store, rounds).into_iter().map(|time| format!("{time:.1}"));
        println!("| {} | {} | {} |", store.files, store.keys, times.collect::<Vec<_>>().join(" | "));
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    println!(
        "# File maps\n\nWritten by `cargo bench -p sstfilter-benches --bench maps`. Times are nanoseconds per key with the \
         hash given,\non one thread. *Filters* are a `FilterSet` of blocked Bloom filters with 10 bits per key; a batch has \
         {BATCH} keys.\nFalse candidates are files per absent key.\n\n## Lookups\n"
    );
    print_lookups(is_test);
    print_builds(is_test);
}
