//! A filter that lost one key would look like a correct store: the read succeeds, and the key is absent. Random
//! sequences of operations, under filters that change at each reopening, are compared with a map.
//!
//! The short form runs in each test run. `SSTFILTER_LONG=1` runs 1,000 sequences, which takes 40 seconds on one core;
//! `SSTFILTER_SEED=n` repeats sequence `n` alone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slatedb::bytes::Bytes;
use slatedb::config::{CompressionCodec, DbReaderOptions, ScanOptions, Settings};
use slatedb::db_cache::SplitCache;
use slatedb::db_cache::foyer::FoyerCache;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::{
    CompactorBuilder, Db, DbIterator, DbReadOps, DbReader, IterationOrder, MergeOperator, MergeOperatorError,
    SstBlockSize,
};
use sstfilter_slatedb::FilterState;

use crate::common::{Counted, PATH, flush, settings};
use crate::configurations::{self, Configuration};
use crate::{common, compaction};

const SHORT: u64 = 30;
const LONG: u64 = 1_000;
/// Sequences wait for compactions more than they compute.
const AT_ONCE: usize = 8;

#[tokio::test]
async fn random_sequences_of_operations_agree_with_a_map() {
    let seeds: Vec<u64> = match std::env::var("SSTFILTER_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) if std::env::var("SSTFILTER_LONG").is_ok() => (0..LONG).collect(),
        Err(_) => (0..SHORT).collect(),
    };
    let mut tally = Tally::default();
    for batch in seeds.chunks(AT_ONCE) {
        let running: Vec<_> = batch.iter().map(|&seed| (seed, tokio::spawn(run_sequence(seed)))).collect();
        for (seed, sequence) in running {
            match sequence.await {
                Ok(counts) => tally.add(counts),
                Err(error) => panic!("SSTFILTER_SEED={seed} repeats this: {error}"),
            }
        }
    }
    println!("{} sequences: {tally:?}", seeds.len());
    if seeds.len() > 1 {
        let Tally { ribbon, bloom, range, decoded, compactions, usable, usable_ranges, .. } = tally;
        let Tally { point_negatives, prefix_negatives, range_negatives, .. } = tally;
        let filters = [ribbon, bloom, range, decoded, compactions, usable, usable_ranges];
        let counts = [&filters[..], &[point_negatives, prefix_negatives, range_negatives]].concat();
        assert!(counts.iter().all(|&count| count > 0), "something was never reached: {tally:?}");
    }
}

/// The events that sequences reached.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    ribbon: u64,
    bloom: u64,
    range: u64,
    decoded: u64,
    point_negatives: u64,
    prefix_negatives: u64,
    range_negatives: u64,
    compactions: u64,
    usable: u64,
    usable_ranges: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.ribbon += other.ribbon;
        self.bloom += other.bloom;
        self.range += other.range;
        self.decoded += other.decoded;
        self.point_negatives += other.point_negatives;
        self.prefix_negatives += other.prefix_negatives;
        self.range_negatives += other.range_negatives;
        self.compactions += other.compactions;
        self.usable += other.usable;
        self.usable_ranges += other.usable_ranges;
    }
}

async fn run_sequence(seed: u64) -> Tally {
    let mut sequence = Sequence::begin(seed).await;
    for _ in 0..30 + sequence.dice.below(40) {
        sequence.step().await;
    }
    sequence.check_everything().await;
    sequence.end().await
}

/// A generator of numbers: `SplitMix64` (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap();
        &items[index]
    }
}

/// Few enough keys for lookups to find them: of one byte (SlateDB refuses empty keys), of few, of more bytes than a
/// filter's key range stores, and of 64 KiB.
fn keys() -> Vec<Bytes> {
    let letters = || b'a'..=b'e';
    let one = letters().map(|a| vec![a]);
    let two = letters().flat_map(move |a| letters().map(move |b| vec![a, b]));
    let three = letters().flat_map(|a| (b'0'..b'3').map(move |b| vec![a, a, b]));
    let long = (b'0'..b'4').map(|last| [vec![b'c'; 70], vec![last]].concat());
    let huge = (b'0'..b'2').map(|last| [vec![b'd'; (1 << 16) - 1], vec![last]].concat());
    one.chain(two).chain(three).chain(long).chain(huge).map(Bytes::from).collect()
}

/// Appends.
struct Append;

impl MergeOperator for Append {
    fn merge(&self, _key: &Bytes, existing: Option<Bytes>, value: Bytes) -> Result<Bytes, MergeOperatorError> {
        Ok([existing.unwrap_or_default(), value].concat().into())
    }
}

/// Ends of a scan.
type Range = (Bound<Bytes>, Bound<Bytes>);

struct Sequence {
    seed: u64,
    dice: Dice,
    keys: Vec<Bytes>,
    model: BTreeMap<Bytes, Bytes>,
    store: Arc<dyn ObjectStore>,
    settings: Settings,
    configurations: Vec<Configuration>,
    counted: Counted,
    compactions: u64,
    db: Db,
    compacts_itself: bool,
}

impl Sequence {
    async fn begin(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let compression_codec = dice.one_in(3).then_some(CompressionCodec::Lz4);
        let settings = Settings { compression_codec, ..settings() };
        let (configurations, counted) = (configurations::all(), Counted::new());
        let db = open(&store, settings.clone(), dice.pick(&configurations), &counted, false).await;
        let (keys, model) = (keys(), BTreeMap::new());
        let (compactions, compacts_itself) = (0, false);
        Self { seed, dice, keys, model, store, settings, configurations, counted, compactions, db, compacts_itself }
    }

    async fn step(&mut self) {
        match self.dice.below(100) {
            0..40 => self.put().await,
            40..52 => self.delete().await,
            52..62 => self.merge().await,
            62..72 => flush(&self.db).await,
            72..77 => self.compact().await,
            77..84 => self.reopen().await,
            84..86 => self.check_reader().await,
            _ => self.check_a_little().await,
        }
    }

    fn key(&mut self) -> Bytes {
        self.dice.pick(&self.keys).clone()
    }

    async fn put(&mut self) {
        let (key, value) = (self.key(), Bytes::from(format!("{:064}", self.dice.next())));
        self.db.put(&key, &value).await.unwrap();
        self.model.insert(key, value);
    }

    async fn delete(&mut self) {
        let key = self.key();
        self.db.delete(&key).await.unwrap();
        self.model.remove(&key);
    }

    async fn merge(&mut self) {
        let (key, operand) = (self.key(), self.dice.below(10).to_string());
        self.db.merge(&key, &operand).await.unwrap();
        let value = self.model.entry(key).or_default();
        *value = [value.as_ref(), operand.as_bytes()].concat().into();
    }

    /// Compacts by the engine's compactor if it has one, otherwise by a separate process, which may have other filters.
    async fn compact(&mut self) {
        flush(&self.db).await;
        self.compactions += 1;
        if self.compacts_itself {
            return compaction::embedded(&self.db).await;
        }
        let builder = compactor(&self.store, &self.settings);
        let builder = self.dice.pick(&self.configurations).compactor(builder);
        compaction::run(&self.store, builder).await;
        self.db.refresh_manifest().await.unwrap();
    }

    async fn reopen(&mut self) {
        self.db.close().await.unwrap();
        self.compacts_itself = self.dice.one_in(3);
        let configuration = self.dice.pick(&self.configurations);
        self.db = open(&self.store, self.settings.clone(), configuration, &self.counted, self.compacts_itself).await;
    }

    async fn check_a_little(&mut self) {
        for _ in 0..8 {
            let key = self.key();
            self.check_key(&self.db, &key).await;
        }
        let prefix = self.prefix();
        self.check_prefix(&self.db, &prefix).await;
        for _ in 0..4 {
            let (range, order) = (self.range(), self.order());
            self.check_range(&self.db, range, order).await;
        }
    }

    /// Returns a range between two keys or next to them, with any kinds of ends.
    fn range(&mut self) -> Range {
        let mut ends = [self.end_key(), self.end_key()];
        ends.sort();
        let [lower, upper] = ends;
        if lower == upper {
            return (Bound::Included(lower), Bound::Included(upper));
        }
        let mut end = |key| match self.dice.below(8) {
            0 => Bound::Unbounded,
            1..4 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        (end(lower), end(upper))
    }

    /// A key, or one just above it.
    fn end_key(&mut self) -> Bytes {
        let key = self.key();
        if self.dice.one_in(2) { key } else { [&key, &b"\0"[..]].concat().into() }
    }

    fn order(&mut self) -> IterationOrder {
        if self.dice.one_in(3) { IterationOrder::Descending } else { IterationOrder::Ascending }
    }

    /// Some bytes of a key, seldom all: shorter than the extractor's, as long, and longer.
    fn prefix(&mut self) -> Bytes {
        let key = self.key();
        let length = usize::try_from(1 + self.dice.below(4)).unwrap().min(key.len());
        key.slice(..length)
    }

    async fn check_reader(&mut self) {
        self.db.flush().await.unwrap();
        let reader = DbReader::builder(Path::from(PATH), Arc::clone(&self.store))
            .with_options(DbReaderOptions {
                manifest_poll_interval: self.settings.manifest_poll_interval,
                checkpoint_lifetime: 3 * self.settings.manifest_poll_interval,
                ..DbReaderOptions::default()
            })
            .with_merge_operator(Arc::new(Append))
            .with_metrics_recorder(self.counted.recorder());
        let reader = self.dice.pick(&self.configurations).reader(reader).build().await.unwrap();
        self.check_all(&reader).await;
        reader.close().await.unwrap();
    }

    async fn check_everything(&mut self) {
        self.check_all(&self.db).await;
        flush(&self.db).await;
        self.check_all(&self.db).await;
        self.check_reader().await;
    }

    async fn check_all(&self, store: &(impl DbReadOps + Sync)) {
        for key in &self.keys {
            self.check_key(store, key).await;
        }
        for prefix in self.keys.iter().filter(|key| key.len() <= 3) {
            self.check_prefix(store, prefix).await;
        }
        for order in [IterationOrder::Ascending, IterationOrder::Descending] {
            self.check_range(store, (Bound::Unbounded, Bound::Unbounded), order).await;
        }
        for pair in self.keys.windows(2) {
            let (lower, upper) = (pair[0].clone().min(pair[1].clone()), pair[0].clone().max(pair[1].clone()));
            let range = (Bound::Excluded(lower), Bound::Included(upper));
            self.check_range(store, range, IterationOrder::Ascending).await;
        }
    }

    async fn check_key(&self, store: &(impl DbReadOps + Sync), key: &Bytes) {
        let found = store.get(key).await.unwrap();
        assert_eq!(found.as_ref(), self.model.get(key), "sequence {}, key {}", self.seed, short(key));
    }

    async fn check_prefix(&self, store: &(impl DbReadOps + Sync), prefix: &Bytes) {
        let found = collect(store.scan_prefix(prefix, ..).await.unwrap()).await;
        let expected: Vec<_> = self.model.iter().filter(|(key, _)| key.starts_with(prefix)).map(short_row).collect();
        assert_eq!(found, expected, "sequence {}, prefix {}", self.seed, short(prefix));
    }

    async fn check_range(&self, store: &(impl DbReadOps + Sync), range: Range, order: IterationOrder) {
        let mut expected: Vec<_> = self.model.range(range.clone()).map(short_row).collect();
        if matches!(order, IterationOrder::Descending) {
            expected.reverse();
        }
        let options = ScanOptions::default().with_order(order);
        let found = collect(store.scan_with_options(range.clone(), &options).await.unwrap()).await;
        assert_eq!(found, expected, "sequence {}, {order:?}, {range:?}", self.seed);
    }

    /// Checks that neither reads nor an audit ever found a fault in a filter.
    async fn end(self) -> Tally {
        self.db.close().await.unwrap();
        let mut tally = Tally {
            compactions: self.compactions,
            point_negatives: self.counted.point_answers().negative,
            prefix_negatives: self.counted.prefix_answers().negative,
            range_negatives: self.counted.range_answers().negative,
            ..Tally::default()
        };
        for filters in self.configurations.iter().filter_map(Configuration::ours) {
            let stats = filters.stats();
            let wrong = [stats.damaged, stats.unsupported, stats.other_hash, stats.foreign_probes, stats.no_filter];
            assert_eq!(wrong, [0; 5], "sequence {}: {filters:?}", self.seed);
            tally.ribbon += stats.built_ribbon;
            tally.bloom += stats.built_bloom;
            tally.range += stats.built_range;
            tally.decoded += stats.decoded;
            let audit = filters.audit(DbReader::builder(PATH, Arc::clone(&self.store))).await.unwrap();
            for sst in &audit.ssts {
                match sst.state {
                    FilterState::Usable(_) => tally.usable += 1,
                    FilterState::NotWritten | FilterState::OtherPolicy => {}
                    _ => panic!("sequence {}: {audit}", self.seed),
                }
                match sst.range_state {
                    Some(FilterState::Usable(_)) => tally.usable_ranges += 1,
                    None | Some(FilterState::NotWritten | FilterState::OtherPolicy) => {}
                    _ => panic!("sequence {}: {audit}", self.seed),
                }
            }
        }
        tally
    }
}

async fn open(
    store: &Arc<dyn ObjectStore>,
    settings: Settings,
    configuration: &Configuration,
    counted: &Counted,
    compacts_itself: bool,
) -> Db {
    let cache = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new()))).build();
    let builder = common::uncached(store, settings.clone())
        .with_sst_block_size(SstBlockSize::Block1Kib)
        .with_merge_operator(Arc::new(Append))
        .with_metrics_recorder(counted.recorder());
    let builder = if compacts_itself {
        builder.with_compactor_builder(compactor(store, &settings))
    } else {
        builder.with_db_cache(Arc::new(cache), 0)
    };
    configuration.db(builder).build().await.unwrap()
}

/// Writes small SSTs, so that sorted runs have several.
fn compactor(store: &Arc<dyn ObjectStore>, settings: &Settings) -> CompactorBuilder<Path> {
    let mut options = compaction::options();
    if let Some(worker) = &mut options.worker {
        worker.compression_codec = settings.compression_codec;
        worker.max_sst_size = 2_048;
    }
    compaction::builder(store)
        .with_sst_block_size(SstBlockSize::Block1Kib)
        .with_options(options)
        .with_merge_operator(Arc::new(Append))
}

async fn collect(mut rows: DbIterator) -> Vec<(String, Bytes)> {
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        found.push((short(&row.key), row.value));
    }
    found
}

fn short_row((key, value): (&Bytes, &Bytes)) -> (String, Bytes) {
    (short(key), value.clone())
}

/// A key to print: its length, and its first and last bytes.
fn short(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    match key.len() {
        0..=8 => text.into_owned(),
        length => format!("{}...{} of {length} bytes", &text[..4], &text[length - 4..]),
    }
}
