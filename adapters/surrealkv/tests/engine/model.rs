//! A store whose policy changes at each reopening: it contains filters of five kinds at once, and compaction turns one
//! into another. In every order, each lookup must agree with a map.
//!
//! The default run takes some seconds; `SSTFILTER_LONG=1` runs 1,200 sequences.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use sstfilter::{KeyHasher, KindId};
use sstfilter_surrealkv::{FilterCounts, SstFilterPolicy};
use surrealkv::{CipherPreference, CompressionType, Options, SoftwareKeyManager};
use tokio::runtime::Runtime;

use crate::store::{Policy, Store, custom_hasher, engine_bloom, engine_ribbon, migrating, runtime};

const SHORT_SEQUENCES: u64 = 24;
const LONG_SEQUENCES: u64 = 1_200;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The policies that a sequence changes between: all of them, or those that share the name of the engine's default.
struct Policies {
    own: Vec<SstFilterPolicy>,
    others: Vec<Policy>,
}

impl Policies {
    fn new(rng: &mut Rng) -> Self {
        let hasher = if rng.bool() { KeyHasher::with_secret_seed(rng.u64(..)) } else { custom_hasher() };
        let mut own = vec![
            migrating(engine_bloom()),
            SstFilterPolicy::bloom().with_hasher(hasher.clone()).migrating_from(engine_bloom()).unwrap(),
        ];
        let mut others = vec![Some(engine_bloom())];
        if rng.bool() {
            own.push(SstFilterPolicy::bloom());
            own.push(SstFilterPolicy::ribbon());
            own.push(SstFilterPolicy::ribbon().with_hasher(hasher.clone()));
            own.push(migrating(engine_ribbon()).with_hasher(hasher));
            others.extend([Some(engine_ribbon()), None]);
        }
        Self { own, others }
    }

    fn choose(&self, rng: &mut Rng) -> Policy {
        let index = rng.usize(..self.own.len() + self.others.len());
        match self.own.get(index) {
            Some(own) => Some(Arc::new(own.clone())),
            None => self.others[index - self.own.len()].clone(),
        }
    }
}

/// Options that a store keeps; the options of its tables' shape change at each reopening.
struct Shape {
    is_encrypted: bool,
    is_versioned: bool,
}

impl Shape {
    fn options(&self, folder: &Path, rng: &mut Rng) -> Options {
        let mut options = Options::new()
            .with_path(folder.to_owned())
            .with_block_size([256, 4_096, 65_536][rng.usize(..3)])
            .with_index_partition_size([256, 2_048, 16_384][rng.usize(..3)])
            .with_target_file_size([4_096, 1 << 20][rng.usize(..2)])
            .with_max_memtable_size(1 << 20)
            .with_flush_on_close(rng.bool())
            .with_versioning(self.is_versioned, 0);
        if rng.bool() {
            options = options.with_compression_per_level(vec![CompressionType::ZstdCompression]);
        }
        if self.is_encrypted {
            options = options.with_encryption(Arc::new(SoftwareKeyManager::new([7; 32])), CipherPreference::default());
        }
        options
    }
}

#[test]
fn any_sequence_of_writes_compactions_and_policies_agrees_with_a_map() {
    let runtime = runtime();
    let is_long = std::env::var_os("SSTFILTER_LONG").is_some();
    let sequences = if is_long { LONG_SEQUENCES } else { SHORT_SEQUENCES };
    let mut all = Totals::default();
    for seed in 0..sequences {
        run(&runtime, seed, &mut all);
    }
    assert!(all.negatives > 0 && all.positives > 0 && all.old_negatives > 0 && all.old_positives > 0, "{all:?}");
    assert!(all.other_hash > 0 && all.blooms > 0 && all.ribbons > 0, "{all:?}");
}

/// Events that the sequences must have reached for the test to mean anything.
#[derive(Debug, Default)]
struct Totals {
    negatives: u64,
    positives: u64,
    old_negatives: u64,
    old_positives: u64,
    other_hash: u64,
    blooms: u64,
    ribbons: u64,
}

impl Totals {
    fn add(&mut self, counts: &FilterCounts) {
        let built =
            |kind| counts.builds.iter().filter(|&&(built, _)| built == kind).map(|&(_, count)| count).sum::<u64>();
        self.negatives += counts.negatives;
        self.positives += counts.positives;
        self.old_negatives += counts.old_negatives;
        self.old_positives += counts.old_positives;
        self.other_hash += counts.unusable.other_hash;
        self.blooms += built(KindId::BLOCKED_BLOOM);
        self.ribbons += built(KindId::RIBBON);
        assert_eq!(counts.unusable.total(), counts.unusable.other_hash, "{counts:?}");
    }
}

fn run(runtime: &Runtime, seed: u64, all: &mut Totals) {
    let rng = &mut Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let policies = Policies::new(rng);
    let shape = Shape { is_encrypted: rng.u8(..4) == 0, is_versioned: rng.u8(..4) == 0 };
    let mut map = Map::new();
    let mut store = Store::open(runtime, shape.options(folder.path(), rng), policies.choose(rng));
    for step in 0..rng.usize(10..40) {
        match rng.u8(..20) {
            0..8 => write(&store, &mut map, rng),
            8 => delete_range(&store, &mut map, rng, &shape),
            9..12 => store.flush(),
            12 => store.compact(),
            13..16 => {
                store.close();
                store = Store::open(runtime, shape.options(folder.path(), rng), policies.choose(rng));
            }
            _ => assert_lookups_agree(&store, &map, rng, 100, &format!("seed {seed}, step {step}")),
        }
    }
    assert_lookups_agree(&store, &map, rng, 2_000, &format!("seed {seed}, end"));
    assert_eq!(store.scan(), map.into_iter().collect::<Vec<_>>(), "seed {seed}, scan");
    store.close();
    policies.own.iter().for_each(|policy| all.add(&policy.counters().snapshot()));
}

/// Keys of 1 to 40 bytes that are often prefixes of each other.
fn any_key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.u32(..3_000);
    match rng.u8(..4) {
        0 => vec![b'k'; rng.usize(1..40)],
        1 => number.to_be_bytes()[2..].to_vec(),
        2 => format!("record-{number:06}").into_bytes(),
        _ => format!("/*shop\0*{}\0*{number}", number % 3).into_bytes(),
    }
}

fn write(store: &Store<'_>, map: &mut Map, rng: &mut Rng) {
    // Every fourth write is large enough for a Ribbon filter.
    let entries = if rng.u8(..4) == 0 { rng.usize(1_100..2_500) } else { rng.usize(1..60) };
    let is_delete = |rng: &mut Rng| rng.u8(..5) == 0;
    let entries = (0..entries).map(|_| (any_key(rng), (!is_delete(rng)).then(|| vec![rng.u8(..); rng.usize(..50)])));
    let entries: BTreeMap<_, _> = entries.collect();
    store.write(entries.clone());
    for (key, value) in entries {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
}

fn delete_range(store: &Store<'_>, map: &mut Map, rng: &mut Rng, shape: &Shape) {
    let (mut from, mut to) = (any_key(rng), any_key(rng));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    if from == to || shape.is_versioned {
        return;
    }
    store.delete_range(&from, &to);
    map.retain(|key, _| *key < from || *key >= to);
}

fn assert_lookups_agree(store: &Store<'_>, map: &Map, rng: &mut Rng, lookups: usize, at: &str) {
    for _ in 0..lookups {
        let key = any_key(rng);
        assert_eq!(store.get(&key).as_ref(), map.get(&key), "{at}, key {key:?}");
    }
    for (key, value) in map.iter().skip(rng.usize(..4)).step_by(4) {
        assert_eq!(store.get(key).as_ref(), Some(value), "{at}, key {key:?}");
    }
}
