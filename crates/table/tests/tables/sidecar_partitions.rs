//! Sidecars in partitions, and sidecars that are not read before the first probe. The failures guarded against are
//! those of `sidecar.rs`, for each partition, and a sidecar that is replaced between the opening of its table and the
//! read of its filter.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter::{BlockBuilder, BuildContext, FilterPolicy, FixedPolicy, FixedPrefix};
use sstfilter_store::{FilterBudget, FilterProblem, FilterStore, PartitionCut, PartitionOptions, sidecar_path};
use sstfilter_table::{
    FileSystem, FilterVerdict, LocalFileSystem, Lookup, Table, TableError, TableOptions, WritableFile,
};

use super::sidecar::{
    SIDECAR, assert_no_key_is_lost, files, name, open, ribbon, sidecar_lacking_keys, sidecar_of, sidecar_of_keys, table,
};
use crate::common::effort;
use crate::container::ranges;

/// Options for sidecars of both cuts, with the smallest partitions.
fn partitioned() -> [TableOptions; 2] {
    [PartitionCut::KeyRange, PartitionCut::HashRange]
        .map(|cut| ribbon().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()))
}

fn built(table: &Bytes, options: &TableOptions) -> Bytes {
    super::sidecar::built(table, &TableOptions::default(), options)
}

#[test]
fn a_partitioned_sidecar_is_read_by_partitions_and_loses_no_key() {
    let bytes = table(1, 5_000, b"value");
    for options in partitioned() {
        let files = files(&bytes, built(&bytes, &options));
        let table = open(&files, TableOptions::default());
        assert!(table.sidecar_problem().is_none(), "{:?}", table.sidecar_problem());
        assert!(table.uses_sidecar() && table.filters().partitions().is_some());
        let opened = table.stats().bytes_read;
        // One of the two may be a false positive.
        assert!(!table.may_contain_key(b"user:002500 is absent") || !table.may_contain_key(b"user:002501 is absent"));
        let read = table.stats().bytes_read - opened;
        // At most two partitions, with a target of 1,024 bytes each.
        assert!((1..=2 * 1_100).contains(&read), "{read} bytes for two probes");
        assert_no_key_is_lost(&table, 5_000, "partitions");
        let absent = (0..2_000).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count();
        assert!(absent > 1_900, "{absent} of 2000 absent keys");
        assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
    }
}

#[test]
fn verify_finds_a_key_that_a_partition_of_a_sidecar_lacks() {
    let bytes = table(1, 5_000, b"value");
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        let store = FilterStore::default().with_partitions(PartitionOptions::new(cut, 1_024).unwrap());
        let lacking = sidecar_of_keys(&bytes, &store, (0..5_000).filter(|key| !(2_500..2_600).contains(key)));
        let table = open(&files(&bytes, lacking), TableOptions::default());
        assert!(table.filters().partitions().unwrap().partitions() > 3);
        match table.verify().unwrap_err() {
            TableError::FalseNegative { at, key, .. } => {
                assert_eq!(at.path.as_deref(), Some(Path::new(SIDECAR)));
                assert!((name(2_500)..name(2_600)).contains(&key), "{}", key.escape_ascii());
            }
            other => panic!("{other}"),
        }
    }
}

/// A policy that declines the third filter.
#[derive(Debug, Default)]
struct Moody(AtomicU32);

impl FilterPolicy for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        // The third, so that partitions with filters are on both sides.
        (self.0.fetch_add(1, Ordering::Relaxed) != 2).then(|| FixedPolicy::default().builder(context))
    }
}

#[test]
fn verify_takes_a_partition_of_a_sidecar_without_a_filter_for_sound_and_finds_damage_behind_it() {
    let bytes = table(1, 5_000, b"value");
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1_024).unwrap();
    let options = TableOptions::default().with_policy(Arc::new(Moody::default())).with_partitioned_filter(options);
    let sidecar = built(&bytes, &options);
    let table = open(&files(&bytes, sidecar.clone()), TableOptions::default());
    let ranges = ranges(table.filters().partitions().unwrap());
    let without_filter = ranges.iter().position(Range::is_empty).expect("one was declined");
    assert_eq!(table.verify().unwrap().sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
    assert_no_key_is_lost(&table, 5_000, "a partition without a filter");

    let mut damaged = sidecar.to_vec();
    damaged[ranges[without_filter + 1].start] ^= 1;
    match open(&files(&bytes, damaged), TableOptions::default()).verify().unwrap_err() {
        TableError::Filter { at, source: FilterProblem::PartitionChecksum { number, .. } } => {
            assert_eq!((number as usize, at.path.as_deref()), (without_filter + 1, Some(Path::new(SIDECAR))));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn verify_names_the_damaged_partition_of_a_sidecar() {
    let bytes = table(1, 5_000, b"value");
    for options in partitioned() {
        let sidecar = built(&bytes, &options);
        let sound = open(&files(&bytes, sidecar.clone()), TableOptions::default());
        for (damaged_number, range) in (0..).zip(ranges(sound.filters().partitions().unwrap())) {
            let mut damaged = sidecar.to_vec();
            damaged[range.start.midpoint(range.end)] ^= 1;
            match open(&files(&bytes, damaged), TableOptions::default()).verify().unwrap_err() {
                TableError::Filter { source: FilterProblem::PartitionChecksum { number, .. }, .. } => {
                    assert_eq!(number, damaged_number);
                }
                other => panic!("partition {damaged_number}: {other}"),
            }
        }
    }
}

#[test]
fn under_a_budget_a_sidecar_comes_in_with_the_first_probe_and_a_damaged_one_loses_no_key() {
    let bytes = table(1, 2_000, b"value");
    let under_budget = || TableOptions::default().with_filter_budget(FilterBudget::new(1 << 20));
    for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
        let sidecar = built(&bytes, &options);
        let table = open(&files(&bytes, sidecar.clone()), under_budget());
        let sizes = (table.stats().bytes_read, sidecar.len() as u64);
        assert!(table.uses_sidecar(), "{:?}", table.sidecar_problem());
        assert_eq!(table.filters().residency().bytes, 0);
        assert_no_key_is_lost(&table, 2_000, "a budget");
        assert!(table.stats().bytes_read > sizes.0 + sizes.1, "it was read when it was probed");
        assert!((0..500).filter(|key| !table.may_contain_key(format!("user:{key:06}x").as_bytes())).count() > 450);
        table.verify().unwrap();
        for bit in (0..sidecar.len() * 8).step_by(101 * effort::stride(7)) {
            let mut damaged = sidecar.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let table = open(&files(&bytes, damaged), under_budget());
            for key in (0..2_000).step_by(7) {
                assert!(table.get(&name(key)).unwrap() != Lookup::Absent, "bit {bit}: key {key} is lost");
            }
        }
    }
}

/// A file that is opened by name for each read.
#[derive(Debug)]
struct ByName(PathBuf);

impl RandomAccess for ByName {
    fn len(&self) -> io::Result<u64> {
        LocalFileSystem.open(&self.0)?.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        LocalFileSystem.open(&self.0)?.read_exact_at(buf, offset)
    }
}

/// Local files that are opened by name for each read.
#[derive(Debug)]
struct FilesByName;

impl FileSystem for FilesByName {
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccess>> {
        // Fails for a missing file, as the local file system does.
        LocalFileSystem.open(path)?;
        Ok(Box::new(ByName(path.into())))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        LocalFileSystem.create(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        LocalFileSystem.sync_directory(path)
    }
}

#[test]
fn a_sidecar_that_vanishes_or_is_replaced_before_it_is_loaded_loses_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.sst");
    let bytes = table(1, 2_000, b"value");
    std::fs::write(&path, &bytes).unwrap();
    let prefixes = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(8)));
    let of_prefixes = super::sidecar::built(&bytes, &prefixes, &ribbon());
    let replacements = [
        None,
        Some(of_prefixes),
        Some(sidecar_of(&table(1, 1_000, b"value"))),
        Some(sidecar_lacking_keys(&bytes, 1_999)),
        Some(Bytes::new()),
    ];
    for (number, replacement) in replacements.into_iter().enumerate() {
        for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
            std::fs::write(sidecar_path(&path), built(&bytes, &options)).unwrap();
            let reading = TableOptions::default().with_file_system(Arc::new(FilesByName));
            let table = Table::open(&path, &reading.with_filter_budget(FilterBudget::new(1 << 20))).unwrap();
            assert!(table.uses_sidecar());
            match &replacement {
                None => std::fs::remove_file(sidecar_path(&path)).unwrap(),
                Some(other) => std::fs::write(sidecar_path(&path), other).unwrap(),
            }
            assert_no_key_is_lost(&table, 2_000, &format!("replacement {number}"));
        }
    }
}
