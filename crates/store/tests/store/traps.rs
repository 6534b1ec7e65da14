//! One test for each known way to lose a key or a count.

use core::ops::Bound;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::thread;

use bytes::Bytes;
use sstfilter::{
    DelimitedPrefix, FalsePositiveRate, FileId, Filters, FixedPolicy, FixedPrefix, KeyHasher, KeyParts, KeyRange,
    LookupOutcome, Probe, SecretSeed,
};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterPart, FilterSource, FilterStore, FilterView, PartitionCut,
    PartitionOptions, PendingRead, ViewEdit, ViewError,
};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{
    AddNewest, Disk, File, Key, Mode, all_candidates, build, file, file_to_be_read, file_with, is_candidate, numbered,
    tagged, unfiltered, view_of, with_key_parts,
};

fn partitioned(cut: PartitionCut) -> FilterStore {
    FilterStore::default().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap())
}

fn tombstone(start: &str, end: &str) -> (Key, Key) {
    (start.as_bytes().to_vec(), end.as_bytes().to_vec())
}

/// Completes a read with the bytes that it needs.
fn complete(read: PendingRead, bytes: &Bytes) {
    let wanted = bytes.read(read.range());
    read.complete(wanted);
}

#[test]
fn a_file_of_another_hasher_keeps_its_keys_in_every_level() {
    let store = FilterStore::default();
    let other =
        FilterStore::new(Filters::default().with_hasher(KeyHasher::with_secret_seed(SecretSeed::from_bytes([7; 8]))));
    let foreign = file(&other, numbered(0..500));
    let lazy = file(&other.clone().with_budget(FilterBudget::unlimited()), numbered(0..500));
    for (level, file) in [(0, &foreign), (1, &foreign), (0, &lazy), (1, &lazy)] {
        let view = view_of(&store, &[(level, file)]);
        for key in &file.keys {
            assert!(is_candidate(&view, key, file), "level {level}, {key:?}");
        }
        let keys: Vec<&[u8]> = file.keys.iter().map(|key| &key[..]).collect();
        assert_eq!(view.candidates_of_each(&keys).next_files().len(), keys.len(), "level {level}");
    }
}

#[test]
fn a_top_index_that_is_read_late_loses_no_key() {
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        for parts in [KeyParts::whole_keys(), KeyParts::extracted(Arc::new(FixedPrefix::new(9)))] {
            let store = with_key_parts(partitioned(cut), parts);
            let keys: BTreeSet<Key> = tagged("tag", 0..4_000).into_iter().collect();
            let (bytes, metadata) = build(&store, &keys);
            let disk = Disk::new(bytes);
            disk.set(Mode::Fails);
            let filters = store.open(metadata, disk.clone());
            let file = Arc::new(File::new(keys, disk, filters));
            file.disk.set(Mode::Sound);
            let view = view_of(&store, &[(0, &file)]);
            for key in file.keys.iter().rev() {
                assert!(is_candidate(&view, key, &file), "{cut:?} {key:?}");
            }
            assert!(file.filters.partitions().is_some_and(|index| index.partitions() > 2), "it was read at last");
        }
    }
}

#[test]
fn a_prefix_scan_comes_to_files_whose_range_tombstones_it_meets() {
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    let store = FilterStore::new(Filters::default().with_key_parts(parts));
    let old = file(&store, tagged("b", 0..10));
    let new = file_with(&store, tagged("a", 0..10).into_iter().collect(), Some(tombstone("b:", "b;")));
    let view = view_of(&store, &[(0, &old), (0, &new)]);
    let scanned: Vec<_> = view.candidates_by_prefix(b"b:").map(|candidate| candidate.file.clone()).collect();
    assert!(scanned.len() == 2 && Arc::ptr_eq(&scanned[0], &new), "the deletions are in the newer file");
    assert!(new.filters.may_contain_prefix(b"b:"));
    assert!(!new.filters.may_contain_prefix(b"c:"));
}

#[test]
fn unknown_bounds_mean_every_key_also_after_the_description_was_kept() {
    let store = FilterStore::default();
    let opened = unfiltered(&store, numbered(0..3), ..);
    let kept = FilterMetadata::decode(&opened.filters.metadata().encode()).unwrap();
    assert_eq!(&kept, &**opened.filters.metadata());
    let filters = store.open(kept, Bytes::new());
    let again = Arc::new(File::new(opened.keys.clone(), Disk::new(Bytes::new()), filters));
    for level in [0, 3] {
        let view = view_of(&store, &[(level, &opened), (level, &again)]);
        for key in [&b""[..], b"a", b"\xff\xff\xff"] {
            assert_eq!(all_candidates(&view, key).len(), 2, "{level} {key:?}");
        }
        assert_eq!(view.candidates_in_range(..).count(), 2);
        assert_eq!(view.candidates_by_prefix(b"zz").count(), 2);
    }
}

#[test]
fn a_file_whose_builder_wanted_no_key_is_a_candidate_for_every_key() {
    let store = FilterStore::default().without_point_filters();
    let mut builder = store.builder(FileId::random());
    assert!(builder.builds_nothing(), "no key has to be added");
    let (bytes, metadata) = builder.finish().seal();
    let metadata = FilterMetadata::decode(&metadata.encode()).unwrap();
    let filters = store.open(metadata, bytes);
    assert_eq!(filters.probe(b"key"), Probe::Unusable);
}

#[test]
fn files_without_keys_are_never_candidates_and_are_no_overlap() {
    let store = FilterStore::default();
    let (empty, other, full) = (file(&store, []), file(&store, []), file(&store, numbered(0..9)));
    assert_eq!(empty.filters.metadata().key_bounds(), None);
    for level in [0, 1] {
        let view = view_of(&store, &[(level, &empty), (level, &full), (level, &other)]);
        assert_eq!(view.files(level).count(), 3);
        for key in numbered(0..9).iter().chain([&Vec::new()]) {
            let given = all_candidates(&view, key);
            assert!(given.iter().all(|file| Arc::ptr_eq(file, &full)), "{level} {key:?}");
        }
        assert_eq!(view.candidates_in_range(..).count(), 1);
    }
}

#[test]
fn a_file_of_range_tombstones_alone_is_a_candidate_for_what_it_deletes() {
    let store = FilterStore::default();
    let deleting = file_with(&store, BTreeSet::new(), Some(tombstone("c", "f")));
    let old = file(&store, ["a", "d", "x"].map(|key| key.as_bytes().to_vec()));
    for level in [0, 1] {
        let view = view_of(&store, &[(level * 2, &old), (level, &deleting)]);
        for (key, expected) in [("a", 1), ("d", 2), ("x", 1), ("b", 0), ("e", 1)] {
            let given = all_candidates(&view, key.as_bytes());
            assert_eq!(given.len(), expected, "{level} {key}");
            assert!(expected < 2 || Arc::ptr_eq(&given[0], &deleting));
        }
        let scanned = |range: KeyRange<'_>| view.candidates_in_range(range).count();
        assert_eq!(scanned((&b"d"[..]..&b"e"[..]).into()), 2);
        assert_eq!(scanned((Bound::Excluded(&b"x"[..]), Bound::Unbounded).into()), 0);
    }
}

// misuse: overlapping-files
#[test]
fn equal_keys_at_the_ends_of_neighbours_are_an_overlap() {
    let store = FilterStore::default();
    let (low, high, apart) =
        (file(&store, numbered(0..=5)), file(&store, numbered(5..=9)), file(&store, numbered(6..=9)));
    for (first, second) in [(&low, &high), (&high, &low)] {
        let view = view_of(&store, &[(2, first)]);
        let refused = view.edited(ViewEdit::new().add(2, second.clone())).unwrap_err();
        assert!(matches!(refused, ViewError::Overlap { level: 2, .. }), "{refused}");
        assert!(view.edited(ViewEdit::new().add_newest(0, second.clone())).is_ok());
    }
    assert!(view_of(&store, &[(2, &low)]).edited(ViewEdit::new().add(2, apart)).is_ok());
}

#[test]
fn a_part_that_begins_on_both_sides_of_a_partition_border_is_in_both_partitions() {
    // One part for all keys: every boundary between partitions lies inside it.
    let parts = KeyParts::extracted(Arc::new(DelimitedPrefix::new(b':')));
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        for parts in [parts.clone(), KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')))] {
            let store = with_key_parts(partitioned(cut), parts);
            let keys = [tagged("a", 0..2_000), tagged("b", 0..2_000)].concat();
            let file = file(&store, keys);
            let view = view_of(&store, &[(1, &file)]);
            for key in &file.keys {
                assert!(is_candidate(&view, key, &file), "{cut:?} {key:?}");
            }
            for (prefix, expected) in [("a:", 1), ("b:", 1), ("b:019", 1)] {
                assert_eq!(view.candidates_by_prefix(prefix.as_bytes()).count(), expected, "{cut:?} {prefix}");
            }
            assert_eq!(view.candidates_by_prefix(b"aa:").count(), 0, "{cut:?}: between the bounds, and absent");
        }
    }
}

#[test]
fn a_read_that_is_dropped_can_be_wanted_again_at_once() {
    for budget in [FilterBudget::unlimited(), FilterBudget::new(1 << 20)] {
        for store in [FilterStore::default(), partitioned(PartitionCut::HashRange)] {
            let store = store.with_budget(budget.clone());
            let file = file_to_be_read(&store, numbered(0..3_000));
            let key = 7_u32.to_be_bytes();
            for _ in 0..3 {
                let read = file.filters.read_for(&key).expect("something is missing");
                assert!(file.filters.read_for(&key).is_none(), "another lookup has it in hand");
                drop(read);
            }
            while let Some(read) = file.filters.read_for(&key) {
                drop(read);
                let read = file.filters.read_for(&key).expect("it was dropped");
                complete(read, file.disk.bytes());
            }
            assert_eq!(file.filters.probe(&key), Probe::MaybePresent);
            assert_eq!(budget.stats().used_bytes, file.filters.residency().bytes);
            drop(file);
            assert_eq!(budget.stats().used_bytes, 0);
        }
    }
}

#[test]
fn a_read_that_is_dropped_after_the_limit_was_lowered_leaves_nothing_above_it() {
    let budget = FilterBudget::new(0).without_automatic_plans();
    let ribbon = FixedPolicy::ribbon(FalsePositiveRate::ONE_PERCENT).unwrap().with_min_keys(0);
    let store = FilterStore::default().with_policy(Arc::new(ribbon)).with_budget(budget.clone());
    let file = file_to_be_read(&store, numbered((0..6_000).map(|number| number * 2)));
    let absent = 5_u32.to_be_bytes();
    let use_it = || (0..3_000).for_each(|_| assert!(file.filters.probe(&absent) != Probe::Unusable));
    use_it();
    budget.set_bytes(4_000);
    complete(file.filters.read_for(&absent).unwrap(), file.disk.bytes());
    use_it();
    budget.set_bytes(1 << 20);
    let larger = file.filters.read_for(&absent).unwrap();
    budget.set_bytes(0);
    assert!(budget.stats().used_bytes > 0, "the smaller filter is there while a larger one is read");
    drop(larger);
    assert_eq!(budget.stats().used_bytes, 0);
}

/// Loads that end while a plan is made are in no plan, but must obey it.
#[test]
fn a_lowered_limit_holds_for_what_is_being_loaded() {
    let budget = FilterBudget::new(0).without_automatic_plans();
    let store = FilterStore::default();
    let (bytes, metadata) = build(&store, &numbered((0..1_200).map(|number| number * 2)).into_iter().collect());
    let (metadata, store) = (Arc::new(metadata), store.with_budget(budget.clone()));
    let open = |_| store.open(metadata.clone(), bytes.clone());
    let files: Vec<FileFilters> = (0..4_000).map(open).collect();
    let absent = 5_u32.to_be_bytes();
    for round in 0..100 / effort::strides(4, 5) {
        files.iter().for_each(|file| (0..6).for_each(|_| assert!(!file.probe(&absent).is_absent())));
        budget.set_bytes(1 << 30);
        let begun = AtomicUsize::new(0);
        thread::scope(|scope| {
            for files in files.chunks(6).take(4) {
                let begun = &begun;
                scope.spawn(move || {
                    for file in files {
                        begun.fetch_add(1, Ordering::Relaxed);
                        let _ = file.probe(&absent);
                    }
                });
            }
            while begun.load(Ordering::Relaxed) < 4 + round % 18 {
                thread::yield_now();
            }
            budget.set_bytes(0);
        });
        assert_eq!(budget.stats().used_bytes, 0, "round {round}");
    }
}

#[test]
fn a_read_outlives_its_file_and_gives_its_memory_back() {
    let budget = FilterBudget::new(1 << 20);
    for (is_completed, store) in
        [(true, FilterStore::default()), (false, FilterStore::default()), (true, partitioned(PartitionCut::KeyRange))]
    {
        let store = store.with_budget(budget.clone());
        let file = file_to_be_read(&store, numbered(0..3_000));
        let view = view_of(&store, &[(0, &file)]);
        let read = file.filters.read_for(&1_u32.to_be_bytes()).unwrap();
        let bytes = file.disk.bytes().clone();
        drop((view, file));
        assert_eq!(budget.stats().partitions, 0);
        if is_completed {
            complete(read, &bytes);
        } else {
            drop(read);
        }
        assert_eq!(budget.stats().used_bytes, 0);
    }
}

#[test]
fn a_read_that_is_leaked_costs_its_file_the_filter_and_nothing_else() {
    let store = FilterStore::default().with_budget(FilterBudget::unlimited());
    let (file, other) = (file_to_be_read(&store, numbered(0..100)), file(&store, numbered(0..100)));
    let view = view_of(&store, &[(0, &file), (0, &other)]);
    core::mem::forget(file.filters.read_for(&1_u32.to_be_bytes()));
    for number in 0..100_u32 {
        let key = number.to_be_bytes();
        assert_eq!(all_candidates(&view, &key).len(), 2);
        assert_eq!(file.filters.probe(&key), Probe::NotLoaded);
    }
    let absent = (0..99_u32).map(|number| [&number.to_be_bytes()[..], b"+"].concat());
    let searched: usize = absent.map(|key| all_candidates(&view, &key).len()).sum();
    assert!((99..110).contains(&searched), "the other file's filter works: {searched}");
}

#[test]
fn a_file_that_is_dropped_during_its_load_frees_everything() {
    struct Dropping {
        bytes: Bytes,
        file: std::sync::Mutex<Option<Arc<File>>>,
    }
    impl FilterSource for Dropping {
        fn read(&self, range: core::ops::Range<u64>) -> std::io::Result<Bytes> {
            drop(self.file.lock().unwrap().take());
            self.bytes.read(range)
        }
    }
    let budget = FilterBudget::new(1 << 20);
    let store = FilterStore::default().with_budget(budget.clone());
    let keys: BTreeSet<Key> = numbered(0..100).into_iter().collect();
    let (bytes, metadata) = build(&store, &keys);
    let source = Arc::new(Dropping { bytes: bytes.clone(), file: std::sync::Mutex::default() });
    let filters = store.open(metadata, source.clone());
    let file = Arc::new(File::new(keys, Disk::new(bytes), filters));
    let view = view_of(&store, &[(0, &file)]);
    *source.file.lock().unwrap() = Some(file);
    assert_eq!(all_candidates(&view, &3_u32.to_be_bytes()).len(), 1);
    drop(view);
    assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0));
}

#[test]
fn counts_of_chunks_that_die_are_neither_lost_nor_counted_twice() {
    let store = FilterStore::default();
    let files: Vec<_> = (0..40).map(|_| file(&store, numbered((0..200).step_by(2)))).collect();
    let mut view = view_of(&store, &files.iter().map(|file| (0, file)).collect::<Vec<_>>());
    let present = 4_u32.to_be_bytes();
    let rounds = 300_u64;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (files, is_done) = (&files, &is_done);
        scope.spawn(move || {
            let mut before = vec![0; files.len()];
            while !is_done.load(Ordering::Relaxed) {
                for (file, before) in files.iter().zip(&mut before) {
                    let stats = file.filters.stats();
                    assert!(stats.searched >= *before, "{} after {before}", stats.searched);
                    assert!(stats.filter.negatives < 1 << 40, "below zero");
                    assert_eq!(stats.filter.positives, stats.searched);
                    *before = stats.searched;
                }
            }
        });
        for round in 0..rounds {
            assert_eq!(all_candidates(&view, &present).len(), files.len());
            let file = &files[usize::try_from(round).unwrap() % files.len()];
            view = view.edited(ViewEdit::new().remove(0, file)).unwrap();
            view = view.edited(ViewEdit::new().add_newest(0, file.clone())).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    for file in &files {
        let stats = file.filters.stats();
        assert_eq!((stats.searched, stats.filter.false_positives), (rounds, rounds));
        assert_eq!(stats.filter.positives, rounds);
    }
}

#[test]
fn remainders_stay_above_zero_while_others_count() {
    let store = FilterStore::default();
    let plain: Vec<_> = (0..6).map(|_| file(&store, numbered((0..1_000).step_by(2)))).collect();
    let alone = file(&store.clone().with_budget(FilterBudget::unlimited()), numbered((0..1_000).step_by(2)));
    let mut files: Vec<_> = plain.iter().map(|file| (0, file)).collect();
    files.push((0, &alone));
    let view = view_of(&store, &files);
    let lookups = 20_000_u32;
    thread::scope(|scope| {
        for thread in 0..3 {
            let view = &view;
            scope.spawn(move || {
                for number in 0..lookups {
                    let key = ((number * 7 + thread) % 1_200).to_be_bytes();
                    let mut candidates = view.candidates(&key);
                    while let Some(file) = candidates.next_file() {
                        if file.has(&key) {
                            candidates.found();
                            break;
                        }
                    }
                }
            });
        }
        let view = &view;
        scope.spawn(move || {
            for _ in 0..2_000 {
                let stats = view.level_stats(0);
                assert!(stats.filter.negatives < 1 << 40, "{stats:?}");
            }
        });
    });
    let total = u64::from(lookups) * 3;
    let newest = &alone.filters.stats();
    assert_eq!(newest.filter.probes() + newest.skipped_by_bounds, total, "every lookup comes to the newest file");
    for file in &plain {
        let stats = file.filters.stats();
        assert!(stats.filter.probes() + stats.skipped_by_bounds <= total);
        assert_eq!(stats.filter.true_positives + stats.filter.false_positives, stats.filter.positives);
    }
}

#[test]
fn absent_keys_outside_of_all_bounds_count_no_probe() {
    let store = FilterStore::default();
    let files: Vec<_> = (0..3).map(|number| file(&store, numbered(number * 100..number * 100 + 50))).collect();
    for level in [0, 1] {
        let view = view_of(&store, &files.iter().map(|file| (level, file)).collect::<Vec<_>>());
        let before = view.level_stats(level).filter;
        for number in 1_000..2_000_u32 {
            assert!(all_candidates(&view, &number.to_be_bytes()).is_empty());
        }
        assert_eq!(view.level_stats(level).filter, before, "{level}");
    }
}

#[test]
fn a_probed_file_records_what_became_of_its_answers() {
    let store = FilterStore::default().with_budget(FilterBudget::new(0));
    let file = file(&store, numbered(0..10));
    let probe = file.filters.probe(&3_u32.to_be_bytes());
    assert_eq!(probe, Probe::NotLoaded);
    file.filters.record_lookup(&3_u32.to_be_bytes(), probe, LookupOutcome::Found);
    let stats = file.filters.stats().filter;
    assert_eq!((stats.not_loaded, stats.probes()), (1, 1), "counted once, as a probe that no filter would have saved");
}

#[test]
fn ranges_are_scanned_although_their_filter_holds_hashed_codes_inside_prefixes() {
    use sstfilter::FalsePositiveRate;
    use sstfilter_range::RangeUnits;
    let rate = FalsePositiveRate::new(0.01).unwrap();
    let units = RangeUnits::integer(4).unwrap().with_prefix(Arc::new(FixedPrefix::new(2)));
    let store = FilterStore::default().with_range_filters(RangePolicy::hashed(units, 16, rate).unwrap());
    // Keys without a prefix, before some that have one.
    let keys = [vec![Vec::new(), b"a".to_vec()], tagged("tenant", 0..300)].concat();
    let file = file(&store, keys);
    let view = view_of(&store, &[(0, &file)]);
    for key in &file.keys {
        assert_eq!(view.candidates_in_range(&key[..]..=&key[..]).count(), 1, "{key:?}");
        assert_eq!(view.candidates_by_prefix(key).count(), 1, "{key:?}");
    }
}

#[test]
fn a_view_of_no_files_has_no_candidates() {
    let view = FilterView::<File>::new(&FilterStore::default());
    assert!(view.candidates(b"key").next_file().is_none() && view.levels().next().is_none());
    assert!(view.candidates_of_each(&[b"key"]).next_files().is_empty());
    assert_eq!((view.candidates_in_range(..).count(), view.candidates_by_prefix(b"").count()), (0, 0));
}

#[test]
fn keys_and_hashes_in_one_builder_lose_no_key() {
    let extractor = || Arc::new(DelimitedPrefix::new(b':'));
    let parts =
        [KeyParts::whole_keys(), KeyParts::extracted(extractor()), KeyParts::whole_keys().with_extractor(extractor())];
    for parts in parts {
        let whole = FilterStore::new(Filters::default().with_key_parts(parts));
        let cut = |cut| whole.clone().with_partitions(PartitionOptions::new(cut, 1 << 10).unwrap());
        for store in [cut(PartitionCut::KeyRange), cut(PartitionCut::HashRange), whole.clone()] {
            let keys: BTreeSet<Key> = tagged("t", 0..100).into_iter().collect();
            // Keys first, hashes first, only hashes.
            for hashes in [50..100, 0..50, 0..100] {
                let mut builder = store.builder(FileId::random());
                for (number, key) in keys.iter().enumerate() {
                    if hashes.contains(&number) {
                        builder.add_hash(key, store.filters().hash(key));
                    } else {
                        builder.add_key(key);
                    }
                }
                let (bytes, metadata) = builder.finish().seal();
                let disk = Disk::new(bytes);
                let filters = store.open(metadata, disk.clone());
                let file = Arc::new(File::new(keys.clone(), disk, filters));
                let view = view_of(&store, &[(0, &file)]);
                for key in &keys {
                    assert!(is_candidate(&view, key, &file), "{hashes:?} {key:?}");
                    assert_eq!(view.candidates_by_prefix(key).count(), 1);
                }
                assert!(store.problem().is_none(), "{hashes:?}: {:?}", store.problem());
                assert_eq!(view.candidates_by_prefix(b"t:").count(), 1, "{hashes:?}");
            }
        }
    }
}

/// A lookup of another thread finds the top index missing, and shortly after it the first partition loaded.
#[test]
fn lookups_while_a_top_index_and_partitions_arrive_lose_no_key() {
    for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
        for round in 0..60 {
            let store = partitioned(cut).with_budget(FilterBudget::unlimited());
            let file = file_to_be_read(&store, numbered(0..5_000));
            let view = view_of(&store, &[(0, &file)]);
            thread::scope(|scope| {
                for thread in 0..2 {
                    let (view, file) = (&view, &file);
                    scope.spawn(move || {
                        for number in (0..5_000_u32).rev().step_by(7 + thread + round % 5) {
                            assert!(is_candidate(view, &number.to_be_bytes(), file), "{cut:?} {number}");
                        }
                    });
                }
                let (view, file) = (&view, &file);
                scope.spawn(move || {
                    for number in (0..5_000_u32).step_by(50) {
                        for (_, read) in view.candidates(&number.to_be_bytes()).reads() {
                            complete(read, file.disk.bytes());
                        }
                    }
                });
            });
        }
    }
}

#[test]
fn the_reads_for_a_key_are_those_of_all_its_parts() {
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(2))).with_extractor(Arc::new(FixedPrefix::new(6)));
    let store = with_key_parts(partitioned(PartitionCut::HashRange), parts).with_budget(FilterBudget::unlimited());
    let keys = (0..4_000_u32).map(|number| format!("{:02}{:06}", number % 50, number * 7).into_bytes());
    let file = file_to_be_read(&store, keys);
    let probed_after_reads = |key: &[u8]| {
        while let Some(read) = file.filters.read_for(key) {
            complete(read, file.disk.bytes());
        }
        file.filters.probe(key)
    };
    for number in 0..500_u32 {
        // The file has the first part, and not the second.
        let key = format!("{:02}9{number:05}", number % 50).into_bytes();
        assert_ne!(probed_after_reads(&key), Probe::NotLoaded, "{number}");
    }
    let loads = store.budget().unwrap().stats().loads;
    assert_eq!(probed_after_reads(b"4"), Probe::Unusable, "no part, and nothing to read");
    assert_eq!(store.budget().unwrap().stats().loads, loads);
}

#[test]
fn reads_come_with_their_files_and_once() {
    let store = FilterStore::default().with_budget(FilterBudget::unlimited());
    let files: Vec<_> = (0..70).map(|_| file_to_be_read(&store, numbered(0..100))).collect();
    let sorted = file_to_be_read(&store, numbered(0..100));
    let mut all: Vec<_> = files.iter().map(|file| (0, file)).collect();
    all.push((1, &sorted));
    let view = view_of(&store, &all);
    let keys = [3_u32.to_be_bytes(), 4_u32.to_be_bytes(), 3_u32.to_be_bytes()];
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let reads = view.candidates_of_each(&keys).reads();
    assert_eq!(reads.len(), 71);
    assert!(view.candidates(keys[0]).reads().is_empty(), "all of them are in hand");
    for (file, read) in reads {
        assert!(file.filters.read_for(keys[0]).is_none());
        complete(read, file.disk.bytes());
    }
    let absent = [keys[0], b"+"].concat();
    let left = all_candidates(&view, &absent).len();
    assert!(left < 8, "{left}: filters in memory are probed");
    // A lookup that has begun reads for the files that it has not reached, in its chunk and after it.
    let files: Vec<_> = (0..70).map(|_| file_to_be_read(&store, numbered(0..100))).collect();
    let view = view_of(&store, &files.iter().map(|file| (0, file)).collect::<Vec<_>>());
    let mut candidates = view.candidates(keys[0]);
    for given in 1..=70 {
        assert!(candidates.next_file().is_some());
        assert_eq!(candidates.reads().len(), 70 - given);
    }
}

// promise: no-false-negatives
#[test]
fn keys_in_any_order_and_the_empty_one_are_found_whatever_builds_the_filter() {
    let plain = FilterStore::default();
    let partitions = PartitionOptions::new(PartitionCut::HashRange, 1 << 10).unwrap();
    let stores = [plain.clone(), plain.clone().without_point_filters(), plain.with_partitions(partitions)];
    let keys = [&b""[..], b"\0", b"a", b"m", b"m\0", b"zz", b"\xff\xff"];
    for (number, store) in stores.iter().enumerate() {
        for first in 0..keys.len() {
            for step in [1, 2, 3, 4, 5, 6] {
                for is_hashed in [false, true] {
                    let order: Vec<_> = (0..keys.len()).map(|at| keys[(first + at * step) % keys.len()]).collect();
                    let mut builder = store.builder(FileId::random());
                    for key in &order {
                        if is_hashed {
                            builder.add_hash(key, store.filters().hash(key));
                        } else {
                            builder.add_key(key);
                        }
                    }
                    let (bytes, metadata) = builder.finish().seal();
                    assert_eq!(metadata.key_bounds(), Some((&b""[..], &b"\xff\xff"[..])), "{number} {order:?}");
                    let metadata = FilterMetadata::decode(&metadata.encode()).unwrap();
                    let disk = Disk::new(bytes);
                    let opened = store.open(metadata, disk.clone());
                    let file = Arc::new(File::new(keys.iter().map(|key| key.to_vec()).collect(), disk, opened));
                    for level in [0, 1] {
                        let view = view_of(store, &[(level, &file)]);
                        for key in keys {
                            assert!(is_candidate(&view, key, &file), "{key:?}: {number} {order:?} {is_hashed}");
                        }
                    }
                }
            }
        }
    }
}

// promise: no-false-negatives
#[test]
fn a_file_whose_ends_are_in_the_order_of_another_comparator_is_a_candidate_for_every_key() {
    let store = FilterStore::default();
    for level in [0, 1] {
        let file = unfiltered(&store, [b"m".to_vec()], &b"z"[..]..=&b"a"[..]);
        let view = view_of(&store, &[(level, &file)]);
        for key in [&b""[..], b"a", b"m", b"z", b"zz"] {
            assert!(is_candidate(&view, key, &file), "{key:?}");
        }
        assert_eq!(view.candidates_in_range(&b"b"[..]..&b"c"[..]).count(), 1);
    }
}

#[test]
fn a_source_that_fails_is_read_again_ever_more_rarely() {
    let store = FilterStore::default().with_budget(FilterBudget::unlimited());
    let file = file(&store, numbered(0..100));
    file.disk.set(Mode::Fails);
    let key = 7_u32.to_be_bytes();
    let mut reads_at = Vec::new();
    for probe in 0..1_000 {
        let before = file.disk.reads();
        assert!(!file.filters.probe(&key).is_absent());
        if file.disk.reads() > before {
            reads_at.push(probe);
        }
    }
    assert_eq!(reads_at, [0, 65, 65 + 129, 65 + 129 + 257, 65 + 129 + 257 + 513]);
    let (stats, unusable) = (store.budget().unwrap().stats(), file.filters.stats().filter.unusable);
    assert_eq!((stats.failed_loads, unusable, stats.used_bytes), (5, 1_000, 0));
}

#[test]
fn a_source_that_probes_its_own_file_waits_for_nobody() {
    struct Probing {
        bytes: Bytes,
        file: std::sync::OnceLock<Weak<File>>,
    }
    impl FilterSource for Probing {
        fn read(&self, range: core::ops::Range<u64>) -> std::io::Result<Bytes> {
            if let Some(file) = self.file.get() {
                let file = file.upgrade().unwrap();
                assert_eq!(file.filters.probe(&3_u32.to_be_bytes()), Probe::NotLoaded);
            }
            self.bytes.read(range)
        }
    }
    for store in [FilterStore::default(), partitioned(PartitionCut::KeyRange)] {
        let store = store.with_budget(FilterBudget::unlimited());
        let keys: BTreeSet<Key> = numbered(0..100).into_iter().collect();
        let (bytes, metadata) = build(&store, &keys);
        let source = Arc::new(Probing { bytes, file: std::sync::OnceLock::new() });
        let filters = store.open(metadata, source.clone());
        let file = Arc::new(File::new(keys, Disk::new(Bytes::new()), filters));
        source.file.set(Arc::downgrade(&file)).unwrap();
        assert_eq!(file.filters.probe(&3_u32.to_be_bytes()), Probe::MaybePresent);
    }
}

/// A range filter that is taken over brings the checks of its extractor along, or is left out.
#[test]
fn a_range_filter_that_is_taken_over_is_described_in_full_or_left_out() {
    let ranges = |within: &str| {
        let units = RangeUnits::integer(1).unwrap().with_prefix(Arc::new(DelimitedPrefix::new(within.as_bytes()[0])));
        RangePolicy::hashed(units, 4, FalsePositiveRate::new(0.01).unwrap()).unwrap()
    };
    // By `n`, only a key between the ends has a part; by `a`, an end has one.
    for (within, is_taken) in [("n", false), ("a", true)] {
        let plain = FilterStore::default();
        let ranged = plain.clone().with_range_filters(ranges(within));
        let keys: BTreeSet<Key> = ["apple", "banana", "cherry"].map(Key::from).into();
        let built = |store: &FilterStore| {
            let mut builder = store.builder(FileId::from([7; 16]));
            keys.iter().for_each(|key| builder.add_key(key));
            builder.finish()
        };
        let (bytes, old) = built(&ranged).seal();
        let section = old.sections().iter().find(|section| section.part == FilterPart::Ranges).unwrap();
        let at = [section.offset, section.offset + section.bytes].map(|at| usize::try_from(at).unwrap());
        let (bytes, new) = built(&plain).with_ranges_of(&old, bytes.slice(at[0]..at[1])).seal();
        assert_eq!(new.sections().len(), 1 + usize::from(is_taken), "{within}");
        let decoded = FilterMetadata::decode(&new.encode()).unwrap();
        assert_eq!(decoded, new);
        let file = Arc::new(File::new(keys.clone(), Disk::new(bytes.clone()), ranged.open(decoded, bytes)));
        let view = view_of(&ranged, &[(0, &file)]);
        assert!(keys.iter().all(|key| all_candidates(&view, key).len() == 1));
        assert_eq!(file.filters.range_problem(), None, "{within}");
        assert!(ranged.problem().is_none(), "{within}");
    }
}

#[test]
fn range_tombstones_of_an_order_of_the_engines_own_hide_no_deletion() {
    let store = FilterStore::default();
    let mut builder = store.builder(FileId::random());
    builder.add_key(b"k");
    builder.add_range_tombstone(b"z", b"a");
    builder.add_range_tombstone(b"q", b"q");
    let (bytes, metadata) = builder.finish().seal();
    let file = File::new([b"k".to_vec()].into(), Disk::new(bytes), store.open_without_source(metadata));
    let view = view_of(&store, &[(0, &Arc::new(file))]);
    assert_eq!(all_candidates(&view, b"m").len(), 1);
    assert_eq!(all_candidates(&view, b"zz").len(), 0);
}

/// An unsorted writer recorded the first and last key that it got as the smallest and largest.
#[test]
fn keys_that_are_added_in_no_order_are_found() {
    let units = RangeUnits::integer(4).unwrap();
    let rate = FalsePositiveRate::ONE_PERCENT;
    let stores = [
        FilterStore::default(),
        partitioned(PartitionCut::KeyRange),
        partitioned(PartitionCut::HashRange),
        FilterStore::default().with_range_filters(RangePolicy::ordered(rate).unwrap()),
        FilterStore::default().with_range_filters(RangePolicy::hashed(units, 16, rate).unwrap()),
    ];
    for store in stores {
        let mut keys = numbered(0..2_000);
        Random::new(7).shuffle(&mut keys);
        let mut builder = store.builder(FileId::random());
        keys.iter().for_each(|key| builder.add_key(key));
        let (bytes, metadata) = builder.finish().seal();
        let disk = Disk::new(bytes);
        let filters = store.open(metadata, disk.clone());
        let file = Arc::new(File::new(keys.iter().cloned().collect(), disk, filters));
        let view = view_of(&store, &[(1, &file)]);
        for key in &keys {
            assert!(is_candidate(&view, key, &file), "{store:?}: {key:?}");
            assert_eq!(view.candidates_in_range(&key[..]..=&key[..]).count(), 1, "{store:?}: {key:?}");
        }
    }
}

/// Engines used no filter for scans from the end of a range, or missed the last key of one.
#[test]
fn the_last_key_of_a_range_or_prefix_is_in_a_candidate_and_files_are_skipped() {
    let ranges = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(DelimitedPrefix::new(b':')));
    let store = with_key_parts(FilterStore::default().with_range_filters(ranges), parts);
    let mut random = Random::new(39);
    // Every file has keys at both ends, so that bounds exclude none.
    let files: Vec<Arc<File>> = (0..12)
        .map(|_| {
            let inner = (0..40)
                .flat_map(|_| tagged(["b", "m", "x"][random.below(3)], [u32::try_from(random.below(5_000)).unwrap()]));
            file(&store, [tagged("a", [0]), tagged("z", [0])].concat().into_iter().chain(inner))
        })
        .collect();
    let view = view_of(&store, &files.iter().map(|file| (0, file)).collect::<Vec<_>>());
    let mut skipped = 0;
    for number in (0..5_000).step_by(37) {
        for tag in ["b", "c", "m"] {
            let [start, end] = [number, number + 20].map(|number| format!("{tag}:{number:05}").into_bytes());
            let (range, prefix) = (KeyRange::from(&start[..]..=&end[..]), &start[..start.len() - 2]);
            let in_range = view.candidates_in_range(range).map(|found| found.file).collect::<Vec<_>>();
            let with_prefix = view.candidates_by_prefix(prefix).map(|found| found.file).collect::<Vec<_>>();
            skipped += 2 * files.len() - in_range.len() - with_prefix.len();
            let last_in_range = |file: &Arc<File>| file.keys.iter().rfind(|key| range.contains(key)).cloned();
            let last_with_prefix = |file: &Arc<File>| file.keys.iter().rfind(|key| key.starts_with(prefix)).cloned();
            let of_all = (files.iter().map(last_in_range).max(), files.iter().map(last_with_prefix).max());
            let of_candidates =
                (in_range.into_iter().map(last_in_range).max(), with_prefix.into_iter().map(last_with_prefix).max());
            // No candidate has no last key, like a file without such keys.
            assert_eq!(
                (of_candidates.0.flatten(), of_candidates.1.flatten()),
                (of_all.0.flatten(), of_all.1.flatten())
            );
        }
    }
    assert!(skipped > 3_000, "{skipped}");
}
