//! Sidecars in partitions, and sidecars that are not read before the first probe. The failures guarded against are
//! those of `sidecar.rs`, for each partition, and a sidecar that is replaced between the opening of its table and the
//! read of its filter.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use sstfilter::FixedPrefix;
use sstfilter_store::{FilterBudget, FilterProblem, FilterStore, PartitionCut, PartitionOptions};
use sstfilter_table::{FilterVerdict, TableError, TableOptions};

use super::sidecar::{SIDECAR, assert_no_key_is_lost, files, open, ribbon, sidecar_of, sidecar_of_keys, table};
use crate::callers::{Builder, Policy};
use crate::container::{CUTS, ranges};

/// Options for sidecars of both cuts, with the smallest partitions.
fn partitioned() -> [TableOptions; 2] {
    CUTS.map(|cut| ribbon().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap()))
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
        let report = table.verify().unwrap();
        assert_eq!(report.sidecar, FilterVerdict::ContainsAll { keys: 5_000 });
        assert_eq!(report.filter, report.sidecar);
    }
}

#[test]
fn verify_takes_a_partition_of_a_sidecar_without_a_filter_for_sound_and_finds_damage_behind_it() {
    let bytes = table(1, 5_000, b"value");
    let options = PartitionOptions::new(PartitionCut::KeyRange, 1_024).unwrap();
    // Declines the third filter, so that partitions with filters are on both sides.
    let asked = AtomicU32::new(0);
    let declining = Policy::of(move |context| (asked.fetch_add(1, Relaxed) != 2).then(|| Builder::new(context)));
    let options = TableOptions::default().with_policy(declining).with_partitioned_filter(options);
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
fn a_sidecar_that_vanishes_or_is_replaced_before_it_is_loaded_loses_no_key() {
    let bytes = table(1, 2_000, b"value");
    let prefixes = TableOptions::default().with_extractor(Arc::new(FixedPrefix::new(8)));
    let of_prefixes = super::sidecar::built(&bytes, &prefixes, &ribbon());
    let replacements = [
        None,
        Some(of_prefixes),
        Some(sidecar_of(&table(1, 1_000, b"value"))),
        Some(sidecar_of_keys(&bytes, &FilterStore::default(), 0..1_999)),
        Some(Bytes::new()),
    ];
    for (number, replacement) in replacements.into_iter().enumerate() {
        for options in [ribbon(), partitioned()[0].clone(), partitioned()[1].clone()] {
            let files = files(&bytes, built(&bytes, &options));
            let table = open(&files, TableOptions::default().with_filter_budget(FilterBudget::new(1 << 20)));
            assert!(table.uses_sidecar());
            files.replace_sidecar(replacement.clone());
            assert_no_key_is_lost(&table, 2_000, &format!("replacement {number}"));
            // One that holds prefixes alone is another sound sidecar of the table.
            assert!(number == 1 || table.verify().is_err(), "replacement {number}");
        }
    }
}
