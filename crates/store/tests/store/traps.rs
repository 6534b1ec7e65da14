//! One test for each known way to lose a key or a count.

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

use bytes::Bytes;
use sstfilter::{DelimitedPrefix, FalsePositiveRate, FileId, FixedPolicy, FixedPrefix, KeyParts, KeyRange, Probe};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FileFilters, FilterBudget, FilterMetadata, FilterPart, FilterSource, FilterStore, PartitionCut, PendingRead,
    ViewEdit, ViewError,
};

use crate::common::effort;
use crate::common::random::Random;
use crate::container::CUTS;
use crate::engine::{
    self, AddNewest, Disk, File, Key, Mode, all_candidates, build, file, file_to_be_read, is_candidate, layouts,
    numbered, tagged, unfiltered, view_of, view_of_all, with_key_parts,
};

fn partitioned(cut: PartitionCut) -> FilterStore {
    engine::partitioned(&FilterStore::default(), cut)
}

/// A source that calls the test before it reads.
struct Calling<F> {
    bytes: Bytes,
    call: F,
}

impl<F: Fn() + Send + Sync> FilterSource for Calling<F> {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        (self.call)();
        self.bytes.read(range)
    }
}

/// Completes a read with the bytes that it needs.
fn complete(read: PendingRead, bytes: &Bytes) {
    let wanted = bytes.read(read.range());
    read.complete(wanted);
}

#[test]
fn a_top_index_that_is_read_late_loses_no_key() {
    for cut in CUTS {
        for parts in [KeyParts::whole_keys(), KeyParts::extracted(Arc::new(FixedPrefix::new(9)))] {
            let store = with_key_parts(partitioned(cut), parts);
            let keys: BTreeSet<Key> = tagged("tag", 0..4_000).into_iter().collect();
            let (bytes, metadata) = build(&store, &keys);
            let disk = Disk::new(bytes);
            disk.set(Mode::Fails);
            let filters = store.open(metadata, disk.clone());
            disk.set(Mode::Sound);
            let file = Arc::new(File::new(keys, disk, filters));
            let view = view_of(&store, &[(0, &file)]);
            for key in file.keys.iter().rev() {
                assert!(is_candidate(&view, key, &file), "{cut:?} {key:?}");
            }
            assert!(file.filters.partitions().is_some_and(|index| index.partitions() > 2), "it was read at last");
        }
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
fn a_file_that_is_dropped_during_its_load_frees_everything() {
    let budget = FilterBudget::new(1 << 20);
    let store = FilterStore::default().with_budget(budget.clone());
    let keys: BTreeSet<Key> = numbered(0..100).into_iter().collect();
    let (bytes, metadata) = build(&store, &keys);
    let to_drop = Arc::new(Mutex::new(None));
    let dropped = to_drop.clone();
    let filters = store.open(metadata, Calling { bytes, call: move || drop(dropped.lock().unwrap().take()) });
    let file = Arc::new(File::new(keys, Disk::new(Bytes::new()), filters));
    let view = view_of(&store, &[(0, &file)]);
    *to_drop.lock().unwrap() = Some(file);
    assert_eq!(all_candidates(&view, &3_u32.to_be_bytes()).len(), 1);
    drop(view);
    assert_eq!((budget.stats().used_bytes, budget.stats().partitions), (0, 0));
}

#[test]
fn a_source_that_probes_its_own_file_waits_for_nobody() {
    for store in [FilterStore::default(), partitioned(PartitionCut::KeyRange)] {
        let store = store.with_budget(FilterBudget::unlimited());
        let keys: BTreeSet<Key> = numbered(0..100).into_iter().collect();
        let (bytes, metadata) = build(&store, &keys);
        let own = Arc::new(OnceLock::<Weak<File>>::new());
        let probed = own.clone();
        let call = move || {
            if let Some(file) = probed.get().and_then(Weak::upgrade) {
                assert_eq!(file.filters.probe(&3_u32.to_be_bytes()), Probe::NotLoaded);
            }
        };
        let file = Arc::new(File::new(keys, Disk::new(Bytes::new()), store.open(metadata, Calling { bytes, call })));
        own.set(Arc::downgrade(&file)).unwrap();
        assert_eq!(file.filters.probe(&3_u32.to_be_bytes()), Probe::MaybePresent);
    }
}

/// A lookup of another thread finds the top index missing, and shortly after it the first partition loaded.
#[test]
fn lookups_while_a_top_index_and_partitions_arrive_lose_no_key() {
    for cut in CUTS {
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
                        for (_, read) in view.candidates(&number.to_be_bytes()).reads().pending {
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
    let reads = view.candidates_of_each(&keys).reads().pending;
    assert_eq!(reads.len(), 71);
    let others = view.candidates(keys[0]).reads();
    assert_eq!((others.pending.len(), others.ongoing.len()), (0, 71), "all of them are in hand");
    for (file, read) in reads {
        assert!(file.filters.read_for(keys[0]).is_none());
        complete(read, file.disk.bytes());
    }
    let absent = [keys[0], b"+"].concat();
    let left = all_candidates(&view, &absent).len();
    assert!(left < 8, "{left}: filters in memory are probed");
    // A lookup that has begun reads for the files that it has not reached, in its chunk and after it.
    let files: Vec<_> = (0..70).map(|_| file_to_be_read(&store, numbered(0..100))).collect();
    let view = view_of_all(&store, &files);
    let mut candidates = view.candidates(keys[0]);
    for given in 1..=70 {
        assert!(candidates.next_file().is_some());
        assert_eq!(candidates.reads().pending.len(), 70 - given);
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
// promise: no-false-negatives
#[test]
fn keys_are_found_in_whatever_order_and_with_or_without_hashes_a_builder_got_them() {
    let (rate, plain) = (FalsePositiveRate::ONE_PERCENT, FilterStore::default());
    let part = || Arc::new(DelimitedPrefix::new(b':'));
    let mut stores = vec![
        plain.clone().without_point_filters(),
        plain.clone().with_range_filters(RangePolicy::ordered(rate).unwrap()),
        plain.clone().with_range_filters(RangePolicy::hashed(RangeUnits::integer(4).unwrap(), 16, rate).unwrap()),
    ];
    for parts in [KeyParts::whole_keys(), KeyParts::extracted(part()), KeyParts::whole_keys().with_extractor(part())] {
        stores.extend(layouts(&with_key_parts(plain.clone(), parts)));
    }
    let ends = [&b""[..], b"\0", b"a", b"zz", b"\xff\xff"].map(<[u8]>::to_vec);
    let ascending: BTreeSet<Key> = ends.into_iter().chain(tagged("t", 0..2_000)).collect();
    let ascending: Vec<Key> = ascending.into_iter().collect();
    let descending: Vec<Key> = ascending.iter().rev().cloned().collect();
    let mut shuffled = ascending.clone();
    Random::new(7).shuffle(&mut shuffled);
    for (number, store) in stores.iter().enumerate() {
        for order in [&ascending, &descending, &shuffled] {
            for hashed in [0..0, 0..1_000, 1_000..order.len(), 0..order.len()] {
                let mut builder = store.builder(FileId::random());
                for (at, key) in order.iter().enumerate() {
                    if hashed.contains(&at) {
                        builder.add_hash(key, store.filters().hash(key));
                    } else {
                        builder.add_key(key);
                    }
                }
                let (bytes, metadata) = builder.finish().seal();
                assert_eq!(metadata.key_bounds(), Some((&b""[..], &b"\xff\xff"[..])), "{number} {hashed:?}");
                let metadata = FilterMetadata::decode(&metadata.encode()).unwrap();
                let file = Arc::new(engine::open(store, order.iter().cloned().collect(), (bytes, metadata)));
                let view = view_of(store, &[(1, &file)]);
                for key in file.keys.iter().step_by(7).chain(file.keys.last()) {
                    assert!(is_candidate(&view, key, &file), "{number} {hashed:?} {key:?}");
                    assert_eq!(view.candidates_in_range(&key[..]..=&key[..]).count(), 1, "{number} {hashed:?} {key:?}");
                    assert_eq!(view.candidates_by_prefix(key).count(), 1, "{number} {hashed:?} {key:?}");
                }
                assert!(store.problem().is_none(), "{number} {hashed:?}: {:?}", store.problem());
            }
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
    let view = view_of_all(&store, &files);
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
