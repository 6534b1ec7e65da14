//! Views with file maps: a map that is stale, damaged, foreign or wrong costs time and never a key.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, FileWrites, MapBuilder, MapError, MapOptions, WriteId, Writes};
use sstfilter_store::{
    FilterMetadata, FilterStore, FilterView, MapPolicy, MapReason, MapWrite, PartitionCut, TableIdentity, ViewEdit,
};

use crate::engine::{
    AddNewest, File, Key, all_candidates, file, file_with, is_candidate, numbered, partitioned, unfiltered, view_of,
    view_of_all,
};

pub(crate) type Map = Arc<FileMap<Bytes>>;

/// Small pages, and so few false candidates that tests meet none.
pub(crate) fn options() -> MapOptions {
    MapOptions::with_prefix_bits(44).unwrap().with_page_bytes(1 << 10).unwrap()
}

pub(crate) fn load(view: &FilterView<File>, map: FileId, bytes: Vec<u8>) -> Map {
    Arc::new(FileMap::load(bytes.into(), view.filters(), map).unwrap())
}

/// Returns the hashes of the file's keys, as an engine gives them to a map.
pub(crate) fn hashes(view: &FilterView<File>, file: &File) -> Vec<KeyHash> {
    file.keys.iter().map(|key| view.filters().hash(key)).collect()
}

/// Returns the file, which states its writes.
pub(crate) fn with_writes(file: Arc<File>, writes: FileWrites) -> Arc<File> {
    let file = Arc::try_unwrap(file).unwrap();
    Arc::new(File { filters: file.filters.with_writes(writes), ..file })
}

/// Adds the files for which there are hashes, and returns the bytes of the map.
pub(crate) fn finish(
    mut write: MapWrite<File>,
    map: FileId,
    mut hashes: impl FnMut(&File) -> Option<Vec<KeyHash>>,
) -> io::Result<Vec<u8>> {
    for file in write.files() {
        if let Some(hashes) = hashes(&file) {
            write.add(&file, hashes)?;
        }
    }
    let mut bytes = Vec::new();
    write.finish(map, &mut bytes)?;
    Ok(bytes)
}

/// Writes a map of all files.
pub(crate) fn write(view: &FilterView<File>) -> (FileId, Vec<u8>) {
    let map = FileId::random();
    (map, finish(view.write_map(options()).unwrap(), map, |file| Some(hashes(view, file))).unwrap())
}

pub(crate) fn map_of(view: &FilterView<File>) -> Map {
    let (map, bytes) = write(view);
    load(view, map, bytes)
}

fn with_map(view: &FilterView<File>) -> FilterView<File> {
    view.with_maps(&[map_of(view)]).unwrap()
}

fn found(view: &FilterView<File>, key: &[u8]) -> Vec<*const File> {
    all_candidates(view, key).iter().map(Arc::as_ptr).collect()
}

pub(crate) fn key(number: u32) -> Key {
    number.to_be_bytes().to_vec()
}

// promise: file-maps
#[test]
fn covered_and_uncovered_files_come_in_the_order_of_their_age() {
    let store = FilterStore::default();
    // All have key 7, and each has keys of its own.
    let new = |number: u32| file(&store, numbered([7, 100 + number, 1_000 + number]));
    let (level_1, old, middle, new_one, newest) = (new(0), new(1), new(2), new(3), new(4));
    let view = with_map(&view_of(&store, &[(1, &level_1), (0, &old), (0, &middle)]));
    // Between covered files comes one that replaced a covered file.
    let replacement = new(5);
    let edit = ViewEdit::new()
        .add_newest(0, new_one.clone())
        .replace(0, &middle, replacement.clone())
        .add_newest(0, newest.clone());
    let view = view.edited(edit).unwrap();
    let expected = [&newest, &new_one, &replacement, &old, &level_1].map(Arc::as_ptr);
    assert_eq!(found(&view, &key(7)), expected);
    let keys = [7, 8, 101].map(key);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut batch = view.candidates_of_each(&keys);
    let mut given = Vec::new();
    while let files @ [_, ..] = batch.next_files() {
        given.extend(files.iter().map(|(position, file)| (*position, Arc::as_ptr(file))));
    }
    given.sort_by_key(|(position, _)| *position);
    let in_batch = expected.map(|file| (0, file)).into_iter().chain([(2, Arc::as_ptr(&old))]);
    assert_eq!(given, in_batch.collect::<Vec<_>>());
    assert_eq!(
        view.uncovered_files().map(|(level, file)| (level, Arc::as_ptr(file))).collect::<Vec<_>>(),
        [(0, expected[0]), (0, expected[1]), (0, expected[2])]
    );
    // A covered file that moves to another level stays covered.
    let view = view.edited(ViewEdit::new().remove(0, &old).add(2, old.clone())).unwrap();
    assert_eq!(found(&view, &key(7)).last(), Some(&Arc::as_ptr(&old)));
    assert_eq!(view.uncovered_files().count(), 3);
    // Files that leave are found no more, whatever the map says.
    let view = view.edited(ViewEdit::new().remove(2, &old).remove(0, &newest)).unwrap();
    assert_eq!(found(&view, &key(7)), [&new_one, &replacement, &level_1].map(Arc::as_ptr));
}

#[test]
fn a_lookup_of_covered_files_searches_only_what_the_map_finds() {
    let store = FilterStore::default().without_point_filters();
    let files: Vec<_> = (0..100).map(|n| file(&store, numbered((0..50).map(|i| i * 100 + n)))).collect();
    let view = view_of_all(&store, &files);
    let view = with_map(&view);
    for number in 0..5_000 {
        let file = &files[number as usize % 100];
        assert_eq!(found(&view, &key(number)), [Arc::as_ptr(file)], "{number}");
    }
    (5_000..6_000).for_each(|number| assert!(found(&view, &key(number)).is_empty()));
    let stats = view.map_stats();
    assert_eq!((stats.lookups, stats.candidates, stats.false_candidates), (6_000, 5_000, 5_000));
    assert_eq!((stats.unknown, stats.false_reads, view.stats().searched), (0, 0, 5_000));
    // The lookups above did not end at a file; one that does had a right candidate.
    let key = key(7);
    let mut candidates = view.candidates(&key);
    assert!(candidates.next_file().is_some());
    candidates.found();
    assert_eq!(view.map_stats().false_candidates, 5_000);
}

// promise: file-maps
#[test]
fn files_with_range_tombstones_and_without_an_id_are_not_covered() {
    let store = FilterStore::default();
    let deleting = file_with(&store, numbered([1, 2]).into_iter().collect(), Some((key(10), key(20))));
    let nameless = unfiltered(&store, numbered([3]), ..);
    let view = with_map(&view_of(&store, &[(0, &deleting), (0, &nameless), (0, &file(&store, numbered([4])))]));
    assert_eq!(view.uncovered_files().count(), 2);
    assert!(is_candidate(&view, &key(15), &deleting) && is_candidate(&view, &key(3), &nameless));
}

// promise: file-maps
#[test]
fn an_older_map_or_one_of_a_later_view_judges_only_the_files_of_both() {
    let store = FilterStore::default();
    let files: Vec<_> = (0..10).map(|n| file(&store, numbered((0..10).map(|i| i * 10 + n)))).collect();
    let view = |range: core::ops::Range<usize>| view_of_all(&store, &files[range]);
    let maps = [map_of(&view(0..5)), map_of(&view(3..10))];
    for (range, maps, uncovered) in
        [(0..5, &maps[1..], 3), (2..8, &maps[..1], 3), (0..10, &maps[..], 0), (0..10, &maps[1..], 3)]
    {
        let view = view(range.clone()).with_maps(maps).unwrap();
        assert_eq!(view.uncovered_files().count(), uncovered, "{range:?}");
        for number in 0..100 {
            let expected = range.contains(&(number as usize % 10));
            assert_eq!(is_candidate(&view, &key(number), &files[number as usize % 10]), expected, "{number}");
        }
        // Merged into one, which covers all.
        let merged = with_map(&view);
        assert_eq!((merged.maps().count(), merged.uncovered_files().count()), (1, 0));
        let ids = merged.maps().next().unwrap().index().files().len();
        assert_eq!(ids, range.len(), "files that are gone are dropped");
    }
}

#[test]
fn a_map_is_due_when_files_have_come_or_gone_or_were_searched_in_vain() {
    let store = FilterStore::default();
    let files: Vec<_> = (0..40).map(|n| file(&store, numbered((0..10).map(|i| i * 40 + n)))).collect();
    let policy = MapPolicy::default();
    let view = view_of_all(&store, &files[..8]);
    assert_eq!(view.needs_map(&policy), None);
    assert_eq!(view.needs_map(&policy.with_max_uncovered_files(7)), Some(MapReason::UncoveredFiles(8)));
    let add = |view: &FilterView<File>, files: &[Arc<File>]| {
        view.edited(files.iter().fold(ViewEdit::new(), |edit, file| edit.add_newest(0, file.clone()))).unwrap()
    };
    let view = with_map(&add(&view, &files[8..20]));
    assert_eq!(view.needs_map(&policy), None);
    assert_eq!(add(&view, &files[20..30]).needs_map(&policy), Some(MapReason::UncoveredFiles(10)));
    let gone = files[..6].iter().fold(ViewEdit::new(), |edit, file| edit.remove(0, file));
    assert_eq!(view.edited(gone).unwrap().needs_map(&policy), Some(MapReason::FilesGone(6)));
    // A file without a filter is searched by every lookup.
    let without = file(&FilterStore::default().without_point_filters(), numbered((0..10).map(|i| i * 40 + 33)));
    let view = add(&view, &[without]);
    (0..9_999).for_each(|_| drop(all_candidates(&view, &key(34))));
    assert_eq!(view.needs_map(&policy), None, "too few lookups");
    drop(all_candidates(&view, &key(34)));
    assert_eq!(view.needs_map(&policy), Some(MapReason::FalseReads(10_000)));
    assert_eq!(with_map(&view).needs_map(&policy), None, "counts from now on");
}

#[test]
fn files_that_no_map_can_cover_make_none_due() {
    let store = FilterStore::default();
    let deletes = |n: u32| file_with(&store, numbered([n]).into_iter().collect(), Some((key(n), key(n + 1))));
    let files: Vec<_> = (0..20).map(|n| if n % 2 == 0 { deletes(n) } else { file(&store, numbered([n])) }).collect();
    let view = view_of_all(&store, &files);
    let policy = MapPolicy::default();
    assert_eq!(view.needs_map(&policy), Some(MapReason::UncoveredFiles(10)));
    // The engine has no hashes of nine more.
    let map = FileId::random();
    let of_one = |file: &File| file.has(&key(1)).then(|| hashes(&view, file));
    let bytes = finish(view.write_map(options()).unwrap(), map, of_one).unwrap();
    let view = view.with_maps(&[load(&view, map, bytes)]).unwrap();
    assert_eq!((view.uncovered_files().count(), view.needs_map(&policy)), (19, None));
    (0..10_000).for_each(|_| drop(all_candidates(&view, &key(2))));
    assert_eq!((view.map_stats().false_reads, view.needs_map(&policy)), (0, None));
}

#[test]
fn a_view_has_no_map_once_its_last_covered_file_has_left() {
    let store = FilterStore::default();
    let [one, other] = [0, 100].map(|from| file(&store, numbered(from..from + 10)));
    let map = map_of(&view_of(&store, &[(0, &one)]));
    let view = view_of(&store, &[(0, &one), (1, &other)]).with_maps(std::slice::from_ref(&map)).unwrap();
    assert_eq!(view.maps().count(), 1);
    let view = view.edited(ViewEdit::new().remove(0, &one)).unwrap();
    assert_eq!(
        (view.maps().count(), view.uncovered_files().count(), view.needs_map(&MapPolicy::default())),
        (0, 1, None)
    );
    assert!(is_candidate(&view, &key(105), &other));
    assert_eq!(view.with_maps(&[map]).unwrap().maps().count(), 0);
}

#[test]
fn a_builder_keeps_the_hashes_that_a_map_needs() {
    let store = FilterStore::default();
    let keys = numbered(0..1_000);
    let mut builder = store.builder(FileId::random()).keep_hashes();
    keys[..500].iter().for_each(|key| builder.add_key(key));
    keys[500..].iter().for_each(|key| builder.add_hash(key, store.filters().hash(key)));
    let mut built = builder.finish();
    let hashes: Vec<_> = keys.iter().map(|key| store.filters().hash(key)).collect();
    assert_eq!(built.take_hashes(), Some(hashes));
    let mut others = store.builder(FileId::random());
    others.add_key(b"a");
    assert_eq!(others.finish().take_hashes(), None);
}

#[test]
fn a_file_that_gets_a_sidecar_stays_covered_and_its_filter_has_the_id_of_the_table() {
    let store = FilterStore::default();
    let (old, other) = (file(&store, numbered([1, 5])), file(&store, numbered([3, 7])));
    let view = with_map(&view_of(&store, &[(0, &old), (0, &other)]));
    let table = TableIdentity::new(old.filters.metadata().file_id(), 4_096, 7);
    for written_by in [store.clone(), partitioned(&store, PartitionCut::KeyRange)] {
        let mut builder = written_by.sidecar_builder(&table);
        old.keys.iter().for_each(|key| builder.add_key(key));
        let sidecar = builder.finish().seal_sidecar().unwrap();
        let description = FilterMetadata::of_sidecar(&sidecar, sidecar.len() as u64, &table).unwrap();
        assert_eq!(description.file_id(), table.file);
        let section = description.points().unwrap();
        if section.index_bytes == 0 {
            // As a reader of the format's page does, which knows the table alone.
            let block = sidecar.slice(..usize::try_from(section.bytes).unwrap());
            assert!(store.filters().load(Some(block.clone()), table.file).problem().is_none());
            assert!(store.filters().load(Some(block), FileId::random()).problem().is_some());
        }
        let filters = store.open(description, sidecar);
        assert_eq!(filters.problem(), None);
        let again = Arc::new(File::new(old.keys.clone(), old.disk.clone(), filters));
        let view = view.edited(ViewEdit::new().replace(0, &old, again.clone())).unwrap();
        assert_eq!((view.uncovered_files().count(), view.maps().count()), (0, 1));
        assert!(is_candidate(&view, &key(5), &again));
    }
}

// promise: file-maps
#[test]
fn covered_files_of_the_last_level_number_are_found() {
    let store = FilterStore::default();
    let (covered, other) = (file(&store, numbered([1, 5])), file(&store, numbered([7, 9])));
    let view = with_map(&view_of(&store, &[(u32::MAX, &covered)]));
    let view = view.edited(ViewEdit::new().add(u32::MAX, other.clone())).unwrap();
    let keys = [5, 9].map(key);
    assert!(is_candidate(&view, &keys[0], &covered) && is_candidate(&view, &keys[1], &other));
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut batch = view.candidates_of_each(&keys);
    let mut given = 0;
    while let files @ [_, ..] = batch.next_files() {
        given += files.len();
    }
    assert_eq!(given, 2);
}

// promise: file-maps
#[test]
fn a_file_that_stays_beside_one_that_replaces_a_covered_file_leaves_covered_files_covered() {
    let store = FilterStore::default();
    let new = |number: u32| file(&store, numbered([7, 100 + number]));
    let (old, covered, stays, by) = (new(1), new(2), new(3), new(4));
    let view = with_map(&view_of(&store, &[(0, &old), (0, &covered)]));
    let view = view.edited(ViewEdit::new().add_newest(0, stays.clone())).unwrap();
    let edit = ViewEdit::new().remove(0, &stays).add_newest(0, stays.clone()).replace(0, &covered, by.clone());
    let view = view.edited(edit).unwrap();
    let uncovered: Vec<_> = view.uncovered_files().map(|(_, file)| Arc::as_ptr(file)).collect();
    assert_eq!(uncovered, [&stays, &by].map(Arc::as_ptr));
    assert_eq!(found(&view, &key(7)), [&stays, &by, &old].map(Arc::as_ptr));
}

// promise: file-maps
#[test]
fn a_map_of_other_contents_under_a_files_id_is_refused_by_the_number_of_entries() {
    let store = FilterStore::default();
    let (one, other) = (file(&store, numbered(0..100)), file(&store, numbered(200..300)));
    let view = view_of(&store, &[(0, &one), (0, &other)]);
    let map_of = |files: &[(&Arc<File>, std::ops::Range<u32>)]| {
        let (map, mut bytes, mut builder) = (FileId::random(), Vec::new(), MapBuilder::new(view.filters(), options()));
        for (file, keys) in files {
            let hashes = keys.clone().map(|number| view.filters().hash(&key(number))).collect();
            builder.add_file(file.filters.metadata().file_id(), hashes);
        }
        builder.finish(map, &mut bytes).unwrap();
        load(&view, map, bytes)
    };
    // All known keys are there, and one key too many.
    let refused = view.with_maps(&[map_of(&[(&one, 0..101)])]).err().unwrap();
    assert!(matches!(refused, MapError::Contradiction { other: None, expected: 100, got: 101, .. }), "{refused}");
    // Of two maps, at most one is right, and nothing says which.
    let (right, wrong) = (map_of(&[(&one, 0..100)]), map_of(&[(&one, 50..100), (&other, 200..300)]));
    for maps in [[right.clone(), wrong.clone()], [wrong, right]] {
        let view = view.with_maps(&maps).unwrap();
        assert_eq!((view.uncovered_files().count(), view.map_contradictions().len()), (1, 1));
        let without_covered = view.edited(ViewEdit::new().remove(0, &other)).unwrap();
        assert_eq!(without_covered.map_contradictions().len(), 1);
        (0..100).for_each(|number| assert!(is_candidate(&view, &key(number), &one), "{number}"));
        // A new map of the files themselves covers both.
        assert_eq!(with_map(&view).uncovered_files().count(), 0);
    }
}

/// A store whose hash of keys that begin with an exclamation mark is what follows it.
fn store_with_choosable_hashes() -> FilterStore {
    let of_others = KeyHasher::default();
    let hash = move |key: &[u8]| match key.split_first() {
        Some((b'!', rest)) if rest.len() == 8 => KeyHash::from_well_mixed(u64::from_be_bytes(rest.try_into().unwrap())),
        _ => of_others.hash(key),
    };
    let filters = Filters::default().with_hasher(KeyHasher::custom(7, hash));
    FilterStore::default().with_filters(filters)
}

/// 70,000 keys with hashes side by side: more than a line of a map may have.
fn chosen_keys() -> Vec<Key> {
    (0..70_000_u64).map(|number| [&b"!"[..], &(number << 24).to_be_bytes()].concat()).collect()
}

/// A random view, with files of all kinds. Those whose number of keys is a multiple of 7 have no hashes for maps.
fn random_view(store: &FilterStore, case: u64, are_writes: bool) -> FilterView<File> {
    let mut random = (0..).map(|step: u64| u32::try_from(KeyHash::mix(case << 20 | step).get() >> 36).unwrap());
    let mut next = move |below: u32| random.next().unwrap() % below;
    let mut view = FilterView::new(store);
    for number in 0..next(40) {
        let keys = |count: u32| numbered((0..count).map(|key| key * 40 + number));
        let mut new = match next(12) {
            0 => file_with(store, keys(20).into_iter().collect(), Some((key(10), key(20)))),
            1 => unfiltered(store, keys(9), ..),
            2 => file(store, Vec::new()),
            3 if number < 3 || case.is_multiple_of(4) => file(store, chosen_keys()),
            4 => file(store, keys(7 * (1 + next(3)))),
            _ => file(store, keys(1 + next(60))),
        };
        if are_writes && next(10) > 0 {
            let writes = Writes::of(WriteId::new(1, u64::from(number) + 1).unwrap());
            new = with_writes(new, FileWrites::of_flush(writes));
        }
        // A level may refuse files that share keys.
        for level in [next(3), 0] {
            if let Ok(edited) = view.edited(ViewEdit::new().add_newest(level, new.clone())) {
                view = edited;
                break;
            }
        }
    }
    if are_writes { view.with_flushed(WriteId::new(1, u64::from(next(50)) + 1).unwrap()) } else { view }
}

/// A map of some files of the view, which may be damaged, and may have fewer keys of a file than another one.
fn random_map(view: &FilterView<File>, case: u64) -> Option<Map> {
    let (map, mut bytes, mut builder) = (FileId::random(), Vec::new(), MapBuilder::new(view.filters(), options()));
    for (number, (_, file)) in (0..).zip(view.uncovered_files()) {
        let id = file.filters.metadata().file_id();
        let random = KeyHash::mix(case << 32 | number).get();
        if random.is_multiple_of(3) && id.fingerprint() != 0 {
            let all = file.keys.iter().take(if random.is_multiple_of(9) { 2 } else { usize::MAX });
            builder.add_file(id, all.chain(file.keys.last()).map(|key| view.filters().hash(key)).collect());
        }
    }
    builder.finish(map, &mut bytes).ok()?;
    if case.is_multiple_of(3) {
        bytes[64] ^= 1;
    }
    FileMap::load(Bytes::from(bytes), view.filters(), map).ok().map(Arc::new)
}

/// Writes and uses maps as long as one is due, and returns how many that were.
fn maintain(mut view: FilterView<File>, policy: &MapPolicy) -> u32 {
    let (mut rounds, are_writes, mut failed) = (0, view.flushed().is_some(), None);
    while let Some(reason) = view.needs_map(policy) {
        rounds += 1;
        assert!(rounds < 12, "{reason:?} again and again, at last with {failed:?}");
        let id = FileId::random();
        let write = if are_writes { view.write_map_for(reason, options()) } else { view.write_map(options()) };
        let write = write.unwrap();
        let replaced = write.replaced().to_vec();
        let written = finish(write, id, |file| Some(hashes(&view, file)).filter(|of| !of.len().is_multiple_of(7)));
        // If the engine has hashes of no file, there is no map.
        match written {
            Ok(bytes) => {
                let new = load(&view, id, bytes);
                let is_kept = |old: &&Map| !replaced.contains(&old.index().map_id());
                let maps: Vec<_> = view.maps().filter(is_kept).cloned().chain([new]).collect();
                view = view.with_maps(&maps).unwrap();
            }
            Err(error) => failed = Some(error),
        }
    }
    rounds
}

#[test]
fn a_loop_that_writes_the_maps_that_are_due_ends() {
    let (store, mut rounds) = (store_with_choosable_hashes(), [0; 2]);
    for case in 0..80 {
        let are_writes = case % 2 == 1;
        let view = random_view(&store, case, are_writes);
        let policy = MapPolicy::default().with_max_uncovered_files((case % 5) as usize).with_max_entries_per_key(0.1);
        let maps: Vec<_> = (0..case / 2 % 4).filter_map(|map| random_map(&view, case << 4 | map)).collect();
        let view = if are_writes { view } else { view.with_maps(&maps).unwrap_or(view) };
        rounds[usize::from(are_writes)] += maintain(view, &policy);
    }
    println!("{rounds:?} rounds");
    assert!(rounds.iter().all(|rounds| *rounds > 20), "{rounds:?}");
}

#[test]
fn a_damaged_map_of_files_without_hashes_is_due_once() {
    let store = FilterStore::default();
    // Of 7 keys, so that `maintain` has no hashes of it.
    let view = view_of(&store, &[(0, &file(&store, numbered(0..7)))]);
    let (map, mut bytes) = write(&view);
    bytes[0] ^= 1;
    let damaged = load(&view, map, bytes);
    assert_eq!(maintain(view.with_maps(&[damaged]).unwrap(), &MapPolicy::default()), 1);
}
