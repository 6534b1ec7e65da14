//! Absent and present lookups in SurrealKV stores that differ only in their filters: the engine's Bloom filter, its
//! "Ribbon" (a blocked Bloom filter), this package's blocked Bloom and Ribbon, and none.
//!
//! ```sh
//! cargo run --release -p sstfilter-surrealkv --example side_by_side
//! ```
//!
//! Bytes and false positives are counted. Times are from one run, in rounds that alternate between the stores; only
//! their ratios are reliable. Each store is measured twice: as eight flushed tables whose ranges overlap, and compacted
//! into one level.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sstfilter_surrealkv::SstFilterPolicy;
use surrealkv::inspect::dump_sst;
use surrealkv::{CompactRangeOptions, FilterPolicy, Mode, Options, RibbonFilter, Tree, TreeBuilder};

/// A store holds 480,000 keys: in eight tables, each with several partitions.
const TABLES: usize = 8;
const KEYS_PER_TABLE: usize = 60_000;
const COUNTED_LOOKUPS: usize = 200_000;
const TIMED_LOOKUPS: usize = 10_000;
const ROUNDS: usize = 21;

type Policy = Option<Arc<dyn FilterPolicy>>;
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(compare())
}

async fn compare() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let present = keys(1, TABLES * KEYS_PER_TABLE);
    let absent = keys(2, COUNTED_LOOKUPS);
    for (shape, is_compacted) in [("eight overlapping tables", false), ("compacted into one level", true)] {
        let mut stores = Vec::new();
        for (name, policy) in policies() {
            let path = folder.path().join(format!("{name} {is_compacted}"));
            stores.push(Store::fill(name, path, policy, &present, &absent, is_compacted).await?);
        }
        println!("\n{} keys, {shape}; {} absent keys looked up\n", present.len(), absent.len());
        time(&mut stores, &present, &absent).await?;
        print(&stores, present.len(), absent.len());
    }
    Ok(())
}

fn policies() -> [(&'static str, Policy); 5] {
    [
        ("engine's Bloom", Options::default().filter_policy),
        ("engine's \"Ribbon\"", Some(Arc::new(RibbonFilter::new(10)))),
        ("blocked Bloom", Some(Arc::new(SstFilterPolicy::bloom()))),
        ("Ribbon", Some(Arc::new(SstFilterPolicy::ribbon()))),
        ("none", None),
    ]
}

/// Record keys as `SurrealDB` writes them: namespace, database, table, and an id of 20 letters and digits.
fn keys(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let table = |random: &mut fastrand::Rng| ["person", "order", "product", "session"][random.usize(..4)];
    let key = |_| {
        let mut key = format!("/*shop\0*live\0*{}\0*", table(&mut random)).into_bytes();
        key.extend((0..20).map(|_| random.alphanumeric().to_ascii_lowercase() as u8));
        key
    };
    (0..count).map(key).collect()
}

/// One store, with its counts and times.
struct Store {
    name: &'static str,
    path: PathBuf,
    policy: Policy,
    filter_bytes: u64,
    partitions: usize,
    false_positives: u64,
    absent_ns: Vec<f64>,
    present_ns: Vec<f64>,
}

impl Store {
    async fn fill(
        name: &'static str,
        path: PathBuf,
        policy: Policy,
        present: &[Vec<u8>],
        absent: &[Vec<u8>],
        is_compacted: bool,
    ) -> Outcome<Self> {
        let positives = Arc::new(AtomicU64::new(0));
        let count =
            |policy| -> Arc<dyn FilterPolicy> { Arc::new(Counting { policy, positives: Arc::clone(&positives) }) };
        let tree = open(&path, policy.clone().map(count))?;
        for table in present.chunks(KEYS_PER_TABLE) {
            write(&tree, table).await?;
            tree.compact_range(None, None, &only_flush())?;
        }
        if is_compacted {
            tree.compact_range(None, None, &CompactRangeOptions::default())?;
        }
        positives.store(0, Ordering::Relaxed);
        assert_eq!(found(&tree, absent)?, 0);
        let false_positives = positives.load(Ordering::Relaxed);
        assert_eq!(found(&tree, present)?, present.len(), "no key may be lost");
        tree.close().await?;
        let (filter_bytes, partitions) = filter_sizes(&path)?;
        let (absent_ns, present_ns) = (Vec::new(), Vec::new());
        Ok(Self { name, path, policy, filter_bytes, partitions, false_positives, absent_ns, present_ns })
    }
}

fn open(path: &Path, policy: Policy) -> Outcome<Tree> {
    let mut options = Options::new()
        .with_path(path.to_owned())
        .with_filter_policy(policy)
        // Larger than the store: all lookups are from memory.
        .with_block_cache_capacity(512 << 20)
        .with_l0_stall_threshold(100);
    options.level0_max_files = 100;
    Ok(TreeBuilder::with_options(options).build()?)
}

fn only_flush() -> CompactRangeOptions {
    CompactRangeOptions { target_level: Some(0), ..CompactRangeOptions::default() }
}

async fn write(tree: &Tree, keys: &[Vec<u8>]) -> Outcome<()> {
    for some in keys.chunks(1_000) {
        let mut transaction = tree.begin()?;
        for key in some {
            transaction.set(key.clone(), vec![b'v'; 100])?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// Returns how many of `keys` the store contains.
fn found(tree: &Tree, keys: &[Vec<u8>]) -> Outcome<usize> {
    let transaction = tree.begin_with_mode(Mode::ReadOnly)?;
    let mut found = 0;
    for key in keys {
        found += usize::from(transaction.get(key.as_slice())?.is_some());
    }
    Ok(found)
}

/// Returns bytes and number of the filters in a store's tables. The bytes include the index of the filters.
fn filter_sizes(store: &Path) -> Outcome<(u64, usize)> {
    let (mut bytes, mut partitions) = (0, 0);
    for entry in std::fs::read_dir(store.join("sstables"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let table = dump_sst(&path, false, true)?;
            bytes += table.filter_size;
            partitions += table.verified.map_or(0, |blocks| blocks.filter_partitions);
        }
    }
    Ok((bytes, partitions))
}

async fn time(stores: &mut [Store], present: &[Vec<u8>], absent: &[Vec<u8>]) -> Outcome<()> {
    let trees: Vec<Tree> =
        stores.iter().map(|store| open(&store.path, store.policy.clone())).collect::<Outcome<_>>()?;
    for tree in &trees {
        // Fills the block cache, so that the timed lookups read nothing.
        found(tree, present)?;
        found(tree, absent)?;
    }
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..ROUNDS {
        let absent = random.choose_multiple(absent.iter().cloned(), TIMED_LOOKUPS);
        let present = random.choose_multiple(present.iter().cloned(), TIMED_LOOKUPS);
        for (store, tree) in stores.iter_mut().zip(&trees) {
            store.absent_ns.push(ns_per_lookup(tree, &absent)?);
            store.present_ns.push(ns_per_lookup(tree, &present)?);
        }
    }
    for tree in trees {
        tree.close().await?;
    }
    Ok(())
}

fn ns_per_lookup(tree: &Tree, keys: &[Vec<u8>]) -> Outcome<f64> {
    let started = Instant::now();
    found(tree, keys)?;
    Ok(started.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn print(stores: &[Store], keys: usize, lookups: usize) {
    println!(
        "| filter | partitions | filter bytes | bits per key | false positives per 1,000 lookups | absent `get`, ns | ratio | present `get`, ns | ratio |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let base = &stores[0];
    for store in stores {
        let bits_per_key = store.filter_bytes as f64 * 8.0 / keys as f64;
        let false_positives = store.false_positives as f64 * 1_000.0 / lookups as f64;
        let false_positives = if store.policy.is_some() { format!("{false_positives:.1}") } else { String::new() };
        println!(
            "| {} | {} | {} | {bits_per_key:.2} | {false_positives} | {:.0} | {:.2} | {:.0} | {:.2} |",
            store.name,
            store.partitions,
            store.filter_bytes,
            median(store.absent_ns.clone()),
            ratio(&store.absent_ns, &base.absent_ns),
            median(store.present_ns.clone()),
            ratio(&store.present_ns, &base.present_ns),
        );
    }
}

/// Returns the median of the ratios round by round, because a slow round slows all stores.
fn ratio(times: &[f64], base: &[f64]) -> f64 {
    median(times.iter().zip(base).map(|(time, base)| time / base).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A policy that counts its positives, which are false positives for absent keys.
struct Counting {
    policy: Arc<dyn FilterPolicy>,
    positives: Arc<AtomicU64>,
}

impl FilterPolicy for Counting {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        let answer = self.policy.may_contain(filter, key);
        self.positives.fetch_add(u64::from(answer), Ordering::Relaxed);
        answer
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        self.policy.create_filter(keys)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.policy.key_hash(key)
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        self.policy.create_filter_from_hashes(hashes)
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        self.policy.filter_keys_per_partition(partition_bytes)
    }
}
