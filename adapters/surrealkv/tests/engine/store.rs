//! Stores, keys and policies shared by the tests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sstfilter::{KeyHash, KeyHasher};
use sstfilter_surrealkv::SstFilterPolicy;
use surrealkv::{CompactRangeOptions, FilterPolicy, LSMIterator, Mode, Options, RibbonFilter, Tree, TreeBuilder};
use tokio::runtime::Runtime;

pub(crate) type Policy = Option<Arc<dyn FilterPolicy>>;

/// The engine's default policy, a Bloom filter of 10 bits per key.
pub(crate) fn engine_bloom() -> Arc<dyn FilterPolicy> {
    Options::default().filter_policy.expect("the engine's default has filters")
}

pub(crate) fn engine_ribbon() -> Arc<dyn FilterPolicy> {
    Arc::new(RibbonFilter::new(10))
}

#[expect(clippy::unnecessary_wraps, reason = "as the engine takes it")]
pub(crate) fn policy(policy: SstFilterPolicy) -> Policy {
    Some(Arc::new(policy))
}

pub(crate) fn migrating(old: Arc<dyn FilterPolicy>) -> SstFilterPolicy {
    SstFilterPolicy::ribbon().migrating_from(old).expect("one of the engine's policies")
}

/// A user-defined hash. It mixes too little for a good filter, so it is more likely to break one.
pub(crate) fn custom_hasher() -> KeyHasher {
    let sum = |key: &[u8]| key.iter().fold(7_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    KeyHasher::custom(5, move |key| KeyHash::mix(sum(key)))
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// A key in the order of its number.
pub(crate) fn key(number: usize) -> Vec<u8> {
    format!("/*shop\0*live\0*order\0*{number:08}").into_bytes()
}

/// Small partitions, so that a few thousand keys make several of them, and no compaction except explicit ones.
pub(crate) fn options(folder: &Path) -> Options {
    let mut options = Options::new()
        .with_path(folder.to_owned())
        .with_block_size(1_024)
        .with_index_partition_size(2_048)
        .with_l0_stall_threshold(1_000);
    options.level0_max_files = 1_000;
    options
}

/// An open store, within the runtime that the engine's tasks need.
pub(crate) struct Store<'a> {
    runtime: &'a Runtime,
    tree: Tree,
}

impl<'a> Store<'a> {
    pub(crate) fn open(runtime: &'a Runtime, options: Options, policy: Policy) -> Self {
        let _inside = runtime.enter();
        let tree = TreeBuilder::with_options(options.with_filter_policy(policy)).build().expect("the store opens");
        Self { runtime, tree }
    }

    pub(crate) fn write(&self, entries: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
        let mut transaction = self.tree.begin().expect("a transaction");
        for (key, value) in entries {
            match value {
                Some(value) => transaction.set(key, value).expect("a put"),
                None => transaction.delete(key).expect("a delete"),
            }
        }
        self.runtime.block_on(transaction.commit()).expect("a commit");
    }

    pub(crate) fn put(&self, keys: impl IntoIterator<Item = Vec<u8>>) {
        self.write(keys.into_iter().map(|key| (key.clone(), Some(key))));
    }

    pub(crate) fn delete_range(&self, from: &[u8], to: &[u8]) {
        let mut transaction = self.tree.begin().expect("a transaction");
        transaction.delete_range(from, to).expect("a range");
        self.runtime.block_on(transaction.commit()).expect("a commit");
    }

    /// Writes the memtable to a table of level 0.
    pub(crate) fn flush(&self) {
        self.compact_to(Some(0));
    }

    /// Rewrites all tables, with the policy in use.
    pub(crate) fn compact(&self) {
        self.compact_to(None);
    }

    fn compact_to(&self, target_level: Option<u8>) {
        let _inside = self.runtime.enter();
        let options = CompactRangeOptions { target_level, ..CompactRangeOptions::default() };
        self.tree.compact_range(None, None, &options).expect("a compaction");
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.tree.begin_with_mode(Mode::ReadOnly).expect("a transaction").get(key).expect("a read")
    }

    /// All entries, by a scan: it reads no filter.
    pub(crate) fn scan(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let transaction = self.tree.begin_with_mode(Mode::ReadOnly).expect("a transaction");
        let mut entries = Vec::new();
        let mut scan = transaction.iter().expect("a scan");
        let mut is_valid = scan.seek_first().expect("a scan");
        while is_valid {
            entries.push((scan.key().user_key().to_vec(), scan.value().expect("a value")));
            is_valid = scan.next().expect("a scan");
        }
        entries
    }

    /// Returns how many of `keys` a lookup does not find.
    pub(crate) fn lost(&self, keys: impl IntoIterator<Item = Vec<u8>>) -> usize {
        keys.into_iter().filter(|key| self.get(key).as_ref() != Some(key)).count()
    }

    pub(crate) fn close(self) {
        self.runtime.block_on(self.tree.close()).expect("the store closes");
    }
}

/// The store's tables.
pub(crate) fn tables(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("sstables")).expect("a folder of tables");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect()
}

/// A policy that remembers the bytes of each filter it builds.
pub(crate) struct Recording {
    pub(crate) policy: Arc<dyn FilterPolicy>,
    pub(crate) filters: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl FilterPolicy for Recording {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        self.policy.may_contain(filter, key)
    }

    fn create_filter(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        self.policy.create_filter(keys)
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        self.policy.key_hash(key)
    }

    fn create_filter_from_hashes(&self, hashes: &[u64]) -> Vec<u8> {
        let filter = self.policy.create_filter_from_hashes(hashes);
        self.filters.lock().expect("no panic in between").push(filter.clone());
        filter
    }

    fn filter_keys_per_partition(&self, partition_bytes: usize) -> usize {
        self.policy.filter_keys_per_partition(partition_bytes)
    }
}
