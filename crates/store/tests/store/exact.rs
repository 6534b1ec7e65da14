//! Files of dense ids, whose exact range filter takes the place of the point filter. A file that is skipped because the
//! wrong filter was probed, or because equal keys have different bytes, loses its keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use sstfilter::{FalsePositiveRate, FileId, Filters, FixedPrefix, KeyHasher, KeyParts, Probe};
use sstfilter_range::RangePolicy;
use sstfilter_store::{FilterBudget, FilterMetadata, FilterPart, FilterStore, FilterView, PartitionCut, PointFilters};

use crate::engine::{
    File, Key, all_candidates, assert_keeps_all, build, file, file_to_be_read, file_with, numbered, partitioned,
    tagged, view_of, view_of_all, with_key_parts,
};
use crate::maps;

fn store() -> FilterStore {
    FilterStore::default().with_range_filters(RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap())
}

fn parts_of(metadata: &FilterMetadata) -> Vec<FilterPart> {
    metadata.sections().iter().map(|section| section.part).collect()
}

/// Returns files with two of three ids each, the others missing: each has the same keys within its bounds.
fn files(store: &FilterStore, count: u32) -> Vec<Arc<File>> {
    (0..count).map(|number| file(store, numbered((0..3_000).filter(|id| id % 3 != number % 3)))).collect()
}

/// Checks that lookups of single keys and of many find exactly the files with the key.
fn assert_exact(view: &FilterView<File>, files: &[Arc<File>], what: &str) {
    let ids = numbered((0..3_000).step_by(7));
    let other = ids.iter().map(|id| [id, &[0][..]].concat()).chain([vec![0, 0], vec![0; 3], vec![0; 12]]);
    let keys: Vec<Key> = ids.iter().cloned().chain(other).collect();
    let holding = |key: &Key| files.iter().filter(|file| file.has(key)).count();
    for key in &keys {
        assert_eq!(all_candidates(view, key).len(), holding(key), "{what}: {key:?}");
    }
    let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let (mut batch, mut given) = (view.candidates_of_each(&slices), vec![0; keys.len()]);
    while let files @ [_, ..] = batch.next_files() {
        files.iter().for_each(|(position, _)| given[*position] += 1);
    }
    assert_eq!(given, keys.iter().map(holding).collect::<Vec<_>>(), "{what}, in a batch");
}

// promise: range-filters
#[test]
fn files_of_dense_ids_need_no_point_filter_for_keys_batches_prefixes_ranges_maps_and_budgets() {
    let stores = [
        ("in memory", store()),
        ("with a budget", store().with_budget(FilterBudget::unlimited())),
        ("in partitions", partitioned(&store().with_point_filters(PointFilters::UnlessExact), PartitionCut::KeyRange)),
        ("with parts", with_key_parts(store(), KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(3))))),
    ];
    for (what, store) in stores {
        let files = files(&store, 70);
        for file in &files {
            assert_eq!(parts_of(file.filters.metadata()), [FilterPart::Ranges], "{what}");
        }
        let view = view_of_all(&store, &files);
        assert_exact(&view, &files, what);
        let stats = view.level_stats(0);
        assert!(stats.filter.negatives > 10_000 && stats.filter.positives > 10_000, "{what}: {stats:?}");
        assert_eq!((stats.filter.unusable, stats.filter.not_loaded), (0, 0), "{what}: {stats:?}");
        // One after the other: at most one file of a level.
        let sorted: Vec<_> = (0..70)
            .map(|number| file(&store, numbered((0..60).filter(|id| id % 3 != 1).map(|id| number * 60 + id))))
            .collect();
        let view = view_of(&store, &sorted.iter().map(|file| (1, file)).collect::<Vec<_>>());
        assert_exact(&view, &sorted, what);
        sorted.iter().for_each(|file| assert_keeps_all(&view, file, what));
        let is_searched = |from: &[u8], to: &[u8]| view.candidates_in_range(from..to).next().is_some();
        assert!(!is_searched(&[0, 0, 0, 1], &[0, 0, 0, 2]) && is_searched(&[0, 0, 0, 1], &[0, 0, 0, 3]), "{what}");
        assert_eq!(
            view.candidates_by_prefix(&[0, 0, 1]).count(),
            sorted.iter().filter(|f| f.keys.iter().any(|key| key[2] == 1)).count()
        );
        assert_eq!(view.candidates_by_prefix(&[0, 0, 0, 1]).count(), 0, "{what}");
        let view = view_of_all(&store, &files[..5]);
        let (map, bytes) = maps::write(&view);
        let mapped = view.with_maps(&[maps::load(&view, map, bytes)]).unwrap();
        assert_exact(&mapped, &files[..5], what);
    }
}

// promise: range-filters
#[test]
fn exact_and_other_filters_in_one_view_lose_no_key() {
    let store = store();
    let mut all = files(&store, 20);
    all.extend((0..20).map(|number| file(&store, tagged("text", (0..900).map(|id| id * (number + 2))))));
    // Ids of another length and after a prefix, and a file with text, too.
    all.extend((0..9).map(|number| {
        file(&store, (0..3_000_u64).filter(|id| id % 3 != number % 3).map(|id| id.to_be_bytes().to_vec()))
    }));
    for prefix in [&b"\0\0"[..], b"tenant 1", b"tenant 2"] {
        all.push(file(&store, numbered(0..500).iter().map(|id| [prefix, &[0; 4], id].concat())));
    }
    // Sparse ones: split codes beside the point filter, and without any.
    all.push(file(&store, numbered((0..3_000).step_by(30))));
    assert_eq!(parts_of(all.last().unwrap().filters.metadata()), [FilterPart::Points, FilterPart::Ranges]);
    all.push(file(&store.clone().without_point_filters(), numbered((0..3_000).step_by(30))));
    let split = Arc::clone(all.last().unwrap());
    assert_eq!(split.filters.probe(&[0, 0, 0, 31]), Probe::Absent);
    let of_any = store.clone().with_point_filters(PointFilters::UnlessExact);
    all.push(file(&of_any, numbered((0..3_000).step_by(30))));
    assert_eq!(parts_of(all.last().unwrap().filters.metadata()), [FilterPart::Ranges]);
    all.push(file(&store, numbered(0..500).into_iter().chain(tagged("text", 0..500))));
    let tombstone = Some((vec![0; 4], vec![0, 0, 2]));
    all.push(file_with(&store, numbered((0..3_000).step_by(3)).into_iter().collect(), tombstone));
    assert_eq!(parts_of(all.last().unwrap().filters.metadata()), [FilterPart::Points]);
    let view = view_of_all(&store, &all);
    all.iter().for_each(|file| assert_keeps_all(&view, file, "in one view"));
    let by_another = view_of_all(&FilterStore::default(), &all);
    all.iter().for_each(|file| assert_keeps_all(&by_another, file, "in a view of another store"));
}

/// A bitmap is one block that does not shrink: it must not take the place of filters that can be in memory in part.
#[test]
fn with_partitions_or_a_budget_that_shrinks_a_large_bitmap_replaces_no_point_filter() {
    let budgeted = || store().with_budget(FilterBudget::new(1 << 20));
    for (what, store, gap, has_points) in [
        ("a small one", budgeted(), 3, false),
        ("a large one", budgeted(), 7, true),
        ("no budget", store(), 7, false),
        ("a budget, and any exact filter", budgeted().with_point_filters(PointFilters::UnlessExact), 7, false),
        ("partitions", partitioned(&store(), PartitionCut::HashRange), 1, true),
    ] {
        let (_, metadata) = build(&store, &numbered((0..20_000).map(|id| id * gap)).into_iter().collect());
        assert_eq!(metadata.points().is_some(), has_points, "{what}");
    }
}

// promise: range-filters
#[test]
fn a_damaged_bitmap_and_one_that_only_seems_to_replace_a_point_filter_lose_no_key() {
    let ids = numbered(0..1_000).into_iter().collect();
    let (bytes, metadata) = build(&store(), &ids);
    let mut damaged = bytes.to_vec();
    damaged[9] ^= 1;
    let file = store().open(metadata, bytes::Bytes::from(damaged));
    assert!(file.point_problem().is_some() && file.range_problem().is_some());
    assert!(ids.iter().all(|id| file.probe(id) == Probe::Unusable));
    // The point filter has a type that the reader does not know, and finds keys by a part of their bytes.
    let parts = KeyParts::whole_keys().with_extractor(Arc::new(FixedPrefix::new(3)));
    let (bytes, metadata) = build(&with_key_parts(store().with_point_filters(PointFilters::All), parts), &ids);
    let mut covered = metadata.encode_covered();
    covered[44] = 9;
    let later = FilterMetadata::decode_covered(&covered).unwrap();
    let reader = with_key_parts(store(), KeyParts::extracted(Arc::new(FixedPrefix::new(3))));
    assert_eq!(reader.open(later, bytes).probe(&[0, 0, 1, 2, 0]), Probe::Unusable);
}

// promise: range-filters
#[test]
fn the_reads_of_a_lookup_bring_the_exact_filter_into_memory() {
    let store = store();
    let files: Vec<_> =
        (0..3).map(|_| file_to_be_read(&store, numbered((0..3_000).filter(|id| id % 3 != 0)))).collect();
    let view = view_of_all(&store, &files);
    let key = [0, 0, 0, 3];
    assert_eq!(all_candidates(&view, &key).len(), 3, "not loaded");
    let candidates = view.candidates(&key);
    for (file, read) in candidates.reads().pending {
        let range = usize::try_from(read.range().start).unwrap()..usize::try_from(read.range().end).unwrap();
        read.complete(Ok::<_, std::io::Error>(file.disk.bytes().slice(range)));
    }
    assert!(candidates.reads().is_empty());
    assert_eq!(all_candidates(&view, &key).len(), 0);
    assert_eq!(view.level_stats(0).filter.not_loaded, 3);
}

/// A custom hash may give one hash to keys that the engine takes for equal, and filters of parts are probed with keys
/// that no file has: the bytes of a key do not decide there.
// promise: range-filters
#[test]
fn point_filters_stay_where_different_bytes_can_be_one_key() {
    let folded = KeyHasher::custom(5, |key| KeyHasher::default().hash(&key.to_ascii_lowercase()));
    let parts = KeyParts::extracted(Arc::new(FixedPrefix::new(1)));
    let letters: BTreeSet<Key> = (b'A'..=b'A').chain(b'a'..=b'z').map(|letter| vec![b'k', letter]).collect();
    for (what, store, expected) in [
        ("the default hash", store(), vec![FilterPart::Ranges]),
        (
            "all point filters",
            store().with_point_filters(PointFilters::All),
            vec![FilterPart::Points, FilterPart::Ranges],
        ),
        (
            "a custom hash",
            store().with_filters(Filters::default().with_hasher(folded)),
            vec![FilterPart::Points, FilterPart::Ranges],
        ),
        ("parts alone", with_key_parts(store(), parts), vec![FilterPart::Points, FilterPart::Ranges]),
        ("no point filters", store().without_point_filters(), vec![FilterPart::Ranges]),
    ] {
        let (bytes, metadata) = build(&store, &letters);
        assert_eq!(parts_of(&metadata), expected, "{what}");
        let opened = store.open(metadata.clone(), bytes.clone());
        assert!(letters.iter().all(|key| opened.probe(key) == Probe::MaybePresent), "{what}");
        if what == "a custom hash" {
            assert_eq!((opened.probe(b"k["), opened.probe(b"kY")), (Probe::Absent, Probe::MaybePresent));
        }
        // A store that would hash otherwise does not use a filter of the bytes either.
        let custom = FilterStore::new(
            Filters::default().with_hasher(KeyHasher::custom(6, |key| KeyHasher::default().hash(key))),
        );
        assert_eq!(custom.open(metadata, bytes).probe(b"k["), Probe::Unusable, "{what}");
    }
    let store = store();
    let mut builder = store.builder(FileId::random());
    letters.iter().for_each(|key| builder.add_hash(key, store.filters().hash(key)));
    let built = builder.finish();
    assert_eq!(parts_of(built.metadata()), [FilterPart::Ranges]);
    assert!(built.point_report.is_none() && built.range_report.is_some());
}
