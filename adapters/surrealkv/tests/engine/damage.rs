//! Filter bytes that change on disk. The engine compares the checksum of each block it reads, so most damage never
//! reaches the policy. Damage with a repaired checksum does, and must not pass for a sound filter.
//!
//! Like the engine's own policies, this policy does not detect a damaged payload under a valid checksum. The crate's
//! documentation says so, and no test covers it because nothing is promised.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sstfilter::KeyHasher;
use sstfilter_surrealkv::{FilterCounts, SstFilterPolicy};
use surrealkv::FilterPolicy as _;
use tokio::runtime::Runtime;

use crate::store::{Recording, Store, engine_bloom, key, migrating, options, runtime, tables};

const KEYS: usize = 3_000;

/// A closed store of one table, and the ranges of its filters.
struct Victim {
    runtime: Runtime,
    folder: tempfile::TempDir,
    policy: fn() -> SstFilterPolicy,
    table: PathBuf,
    bytes: Vec<u8>,
    filters: Vec<Range<usize>>,
}

impl Victim {
    fn new(policy: fn() -> SstFilterPolicy) -> Self {
        let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
        let filters = Arc::new(Mutex::new(Vec::new()));
        let recording = Recording { policy: Arc::new(policy()), filters: Arc::clone(&filters) };
        let store = Store::open(&runtime, options(folder.path()), Some(Arc::new(recording)));
        store.put((0..KEYS).map(key));
        store.flush();
        store.close();
        let table = only_table(folder.path());
        let bytes = fs::read(&table).unwrap();
        let filters = filters.lock().unwrap().iter().map(|filter| find(&bytes, filter)).collect::<Vec<_>>();
        assert!(filters.len() > 1, "several partitions");
        Self { runtime, folder, policy, table, bytes, filters }
    }

    /// Damages the table, reads all keys, and returns the policy's counts.
    fn counts_after(&self, damage: impl FnOnce(&mut [u8])) -> FilterCounts {
        let mut bytes = self.bytes.clone();
        damage(&mut bytes);
        fs::write(&self.table, bytes).unwrap();
        let policy = (self.policy)();
        let counters = policy.counters();
        let store = Store::open(&self.runtime, options(self.folder.path()), Some(Arc::new(policy)));
        assert_eq!(store.lost((0..KEYS).map(key)), 0);
        store.close();
        counters.snapshot()
    }
}

fn only_table(folder: &Path) -> PathBuf {
    let mut tables = tables(folder);
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

fn find(bytes: &[u8], part: &[u8]) -> Range<usize> {
    let start = bytes.windows(part.len()).position(|window| window == part).expect("stored as it was built");
    start..start + part.len()
}

/// Repairs the engine's checksum of a block: a CRC32 of the block and of the byte behind it, which names its
/// compression; rotated right by 15 bits, plus a constant, as in `LevelDB`'s format.
fn repair_checksum(bytes: &mut [u8], block: &Range<usize>) {
    let checksum = crc32fast::hash(&bytes[block.start..=block.end]);
    let masked = checksum.rotate_right(15).wrapping_add(0xa282_ead8);
    bytes[block.end + 1..block.end + 5].copy_from_slice(&masked.to_le_bytes());
}

fn victims() -> [Victim; 3] {
    [SstFilterPolicy::bloom, SstFilterPolicy::ribbon, || migrating(engine_bloom())].map(Victim::new)
}

#[test]
fn an_intact_table_is_probed_for_every_key_and_its_checksums_are_as_the_tests_compute_them() {
    for victim in victims() {
        let counts = victim.counts_after(|_| ());
        assert_eq!((counts.positives, counts.unusable.total()), (KEYS as u64, 0));
        let mut repaired = victim.bytes.clone();
        victim.filters.iter().for_each(|filter| repair_checksum(&mut repaired, filter));
        assert!(repaired == victim.bytes);
    }
}

#[test]
fn damage_on_the_disk_is_found_by_the_engine_and_never_reaches_the_policy() {
    for victim in victims() {
        let filter = victim.filters[1].clone();
        for byte in filter.clone().step_by(97).chain([filter.end - 1]) {
            let counts = victim.counts_after(|bytes| bytes[byte] ^= 1 << (byte % 8));
            assert_eq!(counts.unusable.total(), 0);
            assert!(counts.positives < KEYS as u64, "the damaged partition is not probed");
        }
        let counts = victim.counts_after(|bytes| bytes[filter].fill(0));
        assert!(counts.positives < KEYS as u64);
    }
}

#[test]
fn a_damaged_trailer_under_a_right_checksum_is_found_by_the_policy() {
    for victim in victims() {
        let filter = victim.filters[0].clone();
        for byte in (filter.end - 33)..filter.end {
            let counts = victim.counts_after(|bytes| {
                bytes[byte] ^= 1 << (byte % 8);
                repair_checksum(bytes, &filter);
            });
            assert!(counts.unusable.total() > 100, "byte {byte}: {counts:?}");
            assert_eq!(counts.unusable.total() + counts.positives, KEYS as u64);
        }
    }
}

#[test]
fn foreign_bytes_under_a_right_checksum_mean_may_contain() {
    for victim in victims() {
        let filter = victim.filters[0].clone();
        for value in [0, 0x5a, 255] {
            let counts = victim.counts_after(|bytes| {
                bytes[filter.clone()].fill(value);
                repair_checksum(bytes, &filter);
            });
            assert!(counts.unusable.not_a_block > 100, "{value}: {counts:?}");
        }
    }
}

#[test]
fn a_filter_of_another_seed_under_a_right_checksum_means_may_contain() {
    let victim = Victim::new(SstFilterPolicy::bloom);
    let filter = victim.filters[0].clone();
    let other = SstFilterPolicy::bloom().with_hasher(KeyHasher::with_seed(1));
    let mut keys: Vec<Vec<u8>> = (0..filter.len()).map(key).collect();
    // Removes keys until the block has the victim's length.
    while other.create_filter(&keys).len() > filter.len() {
        keys.pop();
    }
    let foreign = other.create_filter(&keys);
    assert_eq!(foreign.len(), filter.len());
    let counts = victim.counts_after(|bytes| {
        bytes[filter.clone()].copy_from_slice(&foreign);
        repair_checksum(bytes, &filter);
    });
    assert!(counts.unusable.other_hash > 100, "{counts:?}");
}
