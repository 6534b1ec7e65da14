//! Maps of writes: a map that is damaged, written again, or of a lost flush excludes no file that has a key.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FileId;
use sstfilter_map::{FileMap, FileWrites, MapBuilder, MapError, WriteId, Writes};
use sstfilter_store::{FilterMetadata, FilterStore, FilterView, MapPolicy, MapReason, ViewEdit};

use crate::descriptions::sealed;
use crate::engine::{self, AddNewest, File, all_candidates, numbered, unfiltered};
use crate::maps::{Map, finish, hashes, load, options, with_writes, write};

/// Maps alone exclude files.
fn store() -> FilterStore {
    FilterStore::default().without_point_filters()
}

fn id(number: u64) -> WriteId {
    WriteId::new(1, number).unwrap()
}

fn writes(first: u64, last: u64) -> Writes {
    Writes::new(id(first), id(last)).unwrap()
}

/// Returns a file with these keys, whose writes its flush had.
fn flushed(keys: &[u32], writes: Writes) -> Arc<File> {
    with_writes(engine::file(&store(), numbered(keys.iter().copied())), FileWrites::of_flush(writes))
}

/// Returns a view of files with their levels, keys and writes; those without writes have no description either.
fn view_of(files: &[(u32, &[u32], Option<Writes>)]) -> FilterView<File> {
    let add = |edit: ViewEdit<File>, (level, keys, writes): &(u32, &[u32], Option<Writes>)| {
        let without = || unfiltered(&store(), numbered(keys.iter().copied()), ..);
        edit.add_newest(*level, writes.map_or_else(without, |writes| flushed(keys, writes)))
    };
    FilterView::new(&store()).edited(files.iter().fold(ViewEdit::new(), add)).unwrap()
}

fn added(view: &FilterView<File>, level: u32, file: Arc<File>) -> FilterView<File> {
    view.edited(ViewEdit::new().add_newest(level, file)).unwrap()
}

/// Returns the bytes of a flush's map.
fn leaf_bytes(map: FileId, writes: Writes, keys: &[u32]) -> Vec<u8> {
    let (mut builder, mut bytes, store) = (MapBuilder::new(store().filters(), options()), Vec::new(), store());
    builder.add_writes(writes, keys.iter().map(|key| store.filters().hash(&key.to_be_bytes())).collect());
    builder.finish(map, &mut bytes).unwrap();
    bytes
}

fn leaf(writes: Writes, keys: &[u32]) -> Map {
    Arc::new(FileMap::load_any(Bytes::from(leaf_bytes(FileId::random(), writes, keys))).unwrap())
}

/// Returns the map of a flush, with a damaged page.
fn damaged_leaf(writes: Writes, keys: &[u32]) -> Map {
    let mut bytes = leaf_bytes(FileId::random(), writes, keys);
    bytes[50] ^= 1;
    Arc::new(FileMap::load_any(Bytes::from(bytes)).unwrap())
}

/// Writes the map that is due, and returns it with the ids of those that it replaces.
fn written(view: &FilterView<File>, reason: MapReason) -> (Map, Vec<FileId>) {
    let (map, write) = (FileId::random(), view.write_map_for(reason, options()).unwrap());
    let replaced = write.replaced().to_vec();
    (load(view, map, finish(write, map, |file| Some(hashes(view, file))).unwrap()), replaced)
}

/// Does what is due until nothing is, without the keys of the file that has the key `unreadable`.
fn maintained(mut view: FilterView<File>, policy: &MapPolicy, unreadable: u32) -> FilterView<File> {
    for _ in 0..5 {
        let Some(reason) = view.needs_map(policy) else { return view };
        let (map, write) = (FileId::random(), view.write_map_for(reason, options()).unwrap());
        let replaced = write.replaced().to_vec();
        let is_readable = |file: &File| !file.has(&unreadable.to_be_bytes());
        let bytes = finish(write, map, |file| Some(hashes(&view, file)).filter(|_| is_readable(file)));
        // If nothing is left to cover, there is no map.
        let Ok(bytes) = bytes else { continue };
        let kept = view.maps().filter(|map| !replaced.contains(&map.index().map_id())).cloned();
        let maps: Vec<_> = kept.chain([load(&view, map, bytes)]).collect();
        view = view.with_maps(&maps).unwrap();
    }
    panic!("{:?} is due for ever", view.needs_map(policy));
}

/// Returns the number of files that are searched for an absent key.
fn found(view: &FilterView<File>, key: u32) -> usize {
    all_candidates(view, &key.to_be_bytes()).len()
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_covers_no_flush_that_is_still_to_come() {
    let policy = MapPolicy::default().with_max_uncovered_files(0);
    // One file states all writes, also those to come.
    let view = view_of(&[(0, &[1, 2, 9], Some(writes(1, 1))), (1, &[1, 3, 9], Some(Writes::ALL))]);
    // Which flushes have joined is not known, so a map of files is due, and one of writes impossible.
    assert_eq!(view.needs_map(&policy), Some(MapReason::UncoveredFiles(2)));
    let reason = MapReason::UncoveredFiles(1);
    assert!(view.write_map_for(reason, options()).is_err());
    let view = view.with_flushed(id(1)).with_flushed(id(0));
    assert_eq!((view.flushed(), view.needs_map(&policy)), (Some(id(1)), Some(reason)));
    let view = view.with_maps(&[written(&view, reason).0]).unwrap();
    assert_eq!((found(&view, 2), found(&view, 3), found(&view, 4)), (2, 2, 1));
    // A flush with the smallest and the largest key, whose map is not there yet.
    let view = added(&view, 0, flushed(&[1, 4, 9], writes(2, 2))).with_flushed(id(2));
    assert_eq!((found(&view, 4), view.map_stats().dropped), (2, 0));
    assert_eq!(view.needs_map(&policy), Some(reason), "a file of all writes does not count");
}

// promise: file-maps
#[test]
fn only_damaged_and_unknown_maps_are_written_anew() {
    let view = view_of(&[(0, &[1, 2], Some(writes(2, 2))), (0, &[1, 3], Some(writes(1, 1)))]).with_flushed(id(2));
    let (sound, damaged) = (leaf(writes(1, 1), &[1, 3]), damaged_leaf(writes(2, 2), &[1, 2]));
    // A merge writes its page as unknown: its checksum holds.
    let mut unknown = Vec::new();
    let mut merge = sstfilter_map::MapMerge::new(options());
    merge.add_loaded(&damaged, |_| true).unwrap();
    merge.finish(FileId::random(), &mut unknown).unwrap();
    let unknown = Arc::new(FileMap::load_any(Bytes::from(unknown)).unwrap());
    assert!(!damaged.has_unknown_pages() && unknown.has_unknown_pages() && unknown.problems().next().is_none());
    for lost in [damaged, unknown] {
        let view = view.with_maps(&[sound.clone(), lost.clone()]).unwrap();
        assert_eq!(view.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
        assert_eq!(view.write_map_for(MapReason::Damaged, options()).unwrap().files().len(), 1, "that with its writes");
        let (map, replaced) = written(&view, MapReason::Damaged);
        assert_eq!(replaced, [lost.index().map_id()]);
        let view = view.with_maps(&[sound.clone(), map]).unwrap();
        assert_eq!((view.needs_map(&MapPolicy::default()), found(&view, 2), found(&view, 3)), (None, 1, 1));
    }
}

// promise: file-maps
#[test]
fn a_map_that_takes_the_place_of_another_must_have_the_known_keys_of_all_files() {
    let view = view_of(&[(0, &[1, 2], Some(writes(1, 1)))]).with_flushed(id(1));
    let [own, other] = [[1, 2], [1, 3]].map(|keys| leaf(writes(0, 1), &keys));
    let view = view.with_maps(std::slice::from_ref(&own)).unwrap();
    assert!(matches!(view.with_maps(std::slice::from_ref(&other)), Err(MapError::KnownKeyAbsent { .. })));
    // Beside the map that was there, it excludes no file.
    assert_eq!(found(&view.with_maps(&[own, other]).unwrap(), 2), 1);
}

// promise: file-maps
#[test]
fn files_with_range_tombstones_or_without_writes_are_never_excluded() {
    let tombstone = [1_u32, 9].map(|key| key.to_be_bytes().to_vec());
    let deleting = engine::file_with(&store(), numbered([5]).into_iter().collect(), Some(tombstone.into()));
    let deleting = with_writes(deleting, FileWrites::of_flush(writes(2, 2)));
    let view = added(&view_of(&[(0, &[1, 9], Some(writes(1, 1))), (1, &[1, 9], None)]), 0, deleting);
    let view = view.with_maps(&[leaf(writes(0, 9), &[1, 5, 9])]).unwrap();
    assert_eq!([found(&view, 3), found(&view, 5), found(&view, 10)], [2, 3, 1]);
    assert_eq!(view.candidates_of_each(&[&3_u32.to_be_bytes()]).next_files().len(), 1);
    // Nor is one without a description, which may have any range tombstones.
    let unknown = with_writes(unfiltered(&store(), [], ..), FileWrites::of_flush(writes(1, 1)));
    assert_eq!(found(&added(&view, 2, unknown), 3), 3);
}

#[test]
fn lookups_count_what_maps_of_writes_did() {
    let files: [(u32, &[u32], _); 3] =
        [(0, &[1, 9], Some(writes(3, 3))), (1, &[1, 9], Some(writes(2, 2))), (2, &[1, 5, 9], Some(writes(1, 1)))];
    let view = view_of(&files).with_maps(&[leaf(writes(3, 3), &[1, 9]), leaf(writes(1, 1), &[1, 5, 9])]).unwrap();
    // The file at level 1 is not covered, and in the way.
    assert_eq!([found(&view, 5), found(&view, 4)], [2, 1]);
    let keys = [1_u32, 4].map(u32::to_be_bytes);
    let mut batch = view.candidates_of_each(&[&keys[0], &keys[1]]);
    assert_eq!([(); 4].map(|()| batch.next_files().len()), [1, 2, 1, 0]);
    let stats = view.map_stats();
    assert_eq!((stats.lookups, stats.unknown), (4, 0));
    assert_eq!((stats.candidates, stats.false_candidates, stats.false_reads), (3, 3, 4));
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_has_the_keys_of_files_that_do_not_state_their_writes() {
    let view = view_of(&[(0, &[2, 4], Some(writes(5, 6))), (1, &[1, 3, 5], None)]).with_flushed(id(6));
    let map = written(&view, MapReason::UncoveredFiles(1)).0;
    // A compaction finds out which writes they were.
    let view = view_of(&[(0, &[2, 4], Some(writes(5, 6))), (1, &[1, 3, 5], Some(writes(5, 5)))]);
    let view = view.with_maps(&[map]).unwrap();
    // As one interval, the writes of both files are all that is known of a key.
    assert_eq!((view.uncovered_files().count(), found(&view, 3), found(&view, 7)), (0, 2, 0));
}

// promise: file-maps
#[test]
fn the_writes_of_a_file_whose_keys_could_not_be_read_are_not_covered() {
    let files: [(u32, &[u32], _); 4] = [
        (0, &[1, 7, 9], Some(writes(7, 9))),
        (0, &[1, 5, 9], Some(writes(4, 6))),
        (0, &[1, 2, 9], Some(writes(1, 3))),
        (1, &[1, 8, 9], Some(writes(0, 0))),
    ];
    let policy = MapPolicy::default().with_max_uncovered_files(0);
    let view = view_of(&files).with_flushed(id(9));
    let reason = view.needs_map(&policy).unwrap();
    let write = view.write_map_for(reason, options()).unwrap();
    let of_others = |file: &File| Some(hashes(&view, file)).filter(|_| !file.has(&5_u32.to_be_bytes()));
    let map = FileId::random();
    let view = view.with_maps(&[load(&view, map, finish(write, map, of_others).unwrap())]).unwrap();
    assert_eq!((view.uncovered_files().count(), view.needs_map(&policy)), (1, None));
    assert_eq!([5, 2, 7, 8, 6].map(|key| found(&view, key)), [1, 2, 2, 2, 1]);
}

// promise: file-maps
#[test]
fn maintenance_ends_although_files_of_damaged_maps_cannot_be_read() {
    let files: [(u32, &[u32], _); 2] = [(0, &[1, 2, 9], Some(writes(2, 2))), (0, &[1, 3, 9], Some(writes(1, 1)))];
    let view = view_of(&files).with_flushed(id(2));
    let [newer, older] = [(writes(2, 2), [1, 2, 9]), (writes(1, 1), [1, 3, 9])];
    let damaged = |(writes, keys): (Writes, [u32; 3])| damaged_leaf(writes, &keys);
    // Nothing can be rebuilt.
    let one = view.with_maps(&[leaf(older.0, &older.1), damaged(newer)]).unwrap();
    assert_eq!(one.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
    let one = maintained(one, &MapPolicy::default(), 2);
    assert_eq!((one.maps().count(), found(&one, 2), found(&one, 3)), (2, 2, 2));
    // One of two can. By now, the file of the other is known not to be readable.
    let both = view.with_maps(&[damaged(older), damaged(newer)]).unwrap();
    assert_eq!(both.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
    let both = maintained(both, &MapPolicy::default(), 2);
    assert_eq!((both.maps().count(), found(&both, 2), found(&both, 3)), (1, 1, 2));
    // Without the file, a new map is of use again.
    let unreadable = one.files(0).find(|file| file.has(&2_u32.to_be_bytes())).unwrap().clone();
    let edit = ViewEdit::new().remove(0, &unreadable).add_newest(0, flushed(files[0].1, newer.0));
    let replaced = one.edited(edit).unwrap();
    assert_eq!(replaced.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
    assert_eq!(found(&maintained(replaced, &MapPolicy::default(), 4), 4), 0);
}

// promise: file-maps
#[test]
fn maintenance_ends_although_files_below_the_garbage_cannot_be_read() {
    let (keys, gone): (Vec<u32>, Vec<u32>) = ((1..=20).collect(), (1..=200).collect());
    let unstated = || engine::file(&store(), numbered([50, 60]));
    // Nothing is left to cover; or two intervals, each with all keys of the first file.
    for unreadable in [unstated(), flushed(&[50, 60], writes(5, 5))] {
        let view = added(&view_of(&[(1, &keys, Some(writes(1, 9)))]), 1, unreadable).with_flushed(id(9));
        let view = view.with_maps(&[leaf(writes(1, 9), &gone)]).unwrap();
        assert_eq!(view.needs_map(&MapPolicy::default()), Some(MapReason::Garbage(200)));
        let view = maintained(view, &MapPolicy::default(), 50);
        assert_eq!([1, 20, 50, 60].map(|key| found(&view, key)), [1; 4]);
    }
}

#[test]
fn a_map_is_not_written_anew_from_hashes_that_lack_a_known_key() {
    let view = view_of(&[(0, &[1, 2, 3], Some(writes(1, 1)))]).with_flushed(id(1));
    let write = |keys: usize| {
        let write = view.write_map_for(MapReason::UncoveredFiles(1), options()).unwrap();
        finish(write, FileId::random(), |file| Some(hashes(&view, file)[..keys].to_vec()))
    };
    assert!(write(3).is_ok());
    let refused = write(2).unwrap_err().downcast::<MapError>().unwrap();
    assert!(matches!(refused, MapError::KnownKeyAbsent { .. }), "{refused}");
}

#[test]
fn a_number_that_two_flushes_have_is_found_by_the_smallest_and_largest_keys() {
    // The map of a lost flush, whose number another one has got: nothing but the engine can prevent it.
    let lost = leaf(writes(0, 3), &[1, 2]);
    let view = view_of(&[(0, &[1, 2, 7], Some(writes(3, 3)))]);
    let refused = view.with_maps(std::slice::from_ref(&lost)).unwrap_err();
    assert!(matches!(refused, MapError::KnownKeyAbsent { .. }), "{refused}");
    let empty = FilterView::new(&store()).with_maps(&[lost]).unwrap();
    let view = added(&empty, 0, flushed(&[1, 2, 7], writes(3, 3)));
    assert_eq!((view.maps().count(), found(&view, 7)), (0, 1));
}

#[test]
fn a_view_has_maps_of_files_or_of_writes() {
    let view = view_of(&[(0, &[1, 2], Some(writes(1, 1)))]);
    let (map, bytes) = write(&view);
    let (of_files, of_writes) = (load(&view, map, bytes), leaf(writes(1, 1), &[1, 2]));
    // Of both, those of the kind that serves the files: here of writes, which these files state.
    let both = [of_files.clone(), of_writes.clone()];
    let unstated = added(&FilterView::new(&store()), 0, engine::file(&store(), numbered([1])));
    let (map, bytes) = write(&unstated);
    let view_of_files = unstated.with_maps(&[load(&view, map, bytes), of_writes.clone()]).unwrap();
    let is_of_writes = |view: FilterView<File>| view.maps().all(|map| !map.index().writes().is_empty());
    assert_eq!([view.with_maps(&both).unwrap(), view_of_files].map(is_of_writes), [true, false]);
    let view = view.with_maps(&[of_writes]).unwrap();
    assert_eq!((view.uncovered_files().count(), view.needs_map(&MapPolicy::default())), (0, None));
    assert!(view.write_map(options()).is_err());
    // One kind replaces the other.
    let view = view.with_maps(&[of_files]).unwrap();
    assert_eq!((view.maps().count(), view.uncovered_files().count(), found(&view, 3)), (1, 0, 0));
    let view = view.with_maps(&[]).unwrap();
    assert_eq!((view.maps().count(), view.uncovered_files().count()), (0, 1));
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_leaves_out_a_flush_that_has_not_joined() {
    let view = view_of(&[(0, &[1, 9], Some(writes(1, 1)))]).with_flushed(id(1));
    // Its map came first, was merged with the older one, and then damaged.
    let covered = writes(0, 1).including(view.flush_covers(FileWrites::of_flush(writes(2, 2))));
    let view = view.with_maps(&[damaged_leaf(covered, &[1, 2, 9])]).unwrap();
    assert_eq!(view.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
    let view = view.with_maps(&[written(&view, MapReason::Damaged).0]).unwrap();
    // The known keys of the flush's file do not show that its other key is in no map.
    let view = added(&view, 0, flushed(&[1, 2, 9], writes(2, 2))).with_flushed(id(2));
    assert_eq!((found(&view, 2), view.map_stats().dropped), (1, 0));
}

#[test]
fn bounds_without_a_description_are_no_keys_that_a_new_map_must_have() {
    let bounds = [1_u32, 9].map(u32::to_be_bytes);
    let file = unfiltered(&store(), numbered([4]), &bounds[0][..]..=&bounds[1][..]);
    let file = with_writes(file, FileWrites::of_earlier_file(id(5)));
    let view = added(&view_of(&[(2, &[1, 9], Some(writes(0, 5)))]), 1, file).with_flushed(id(5));
    let view = view.with_maps(&[written(&view, MapReason::UncoveredFiles(1)).0]).unwrap();
    assert_eq!((found(&view, 4), view.map_stats().dropped), (2, 0));
}

#[test]
fn the_map_of_a_flush_covers_the_numbers_before_it_only_if_no_file_has_them() {
    let flush = FileWrites::of_flush(writes(5, 6));
    let empty = FilterView::<File>::new(&store());
    assert_eq!(empty.flush_covers(flush), Writes::new(WriteId::MIN, id(6)).unwrap());
    let view = view_of(&[(0, &[1, 9], None)]);
    assert_eq!(view.flush_covers(flush), writes(5, 6));
    assert_eq!(view.with_flushed(id(2)).flush_covers(flush), writes(3, 6));
    assert_eq!(view.with_flushed(id(8)).flush_covers(flush), writes(5, 6));
}

#[test]
fn files_of_level_0_alone_keep_their_writes_apart() {
    let keys: Vec<_> = (1..=8).map(|key| [key, key + 100]).collect();
    let numbered = || (1..).map(|number| writes(number, number)).zip(&keys);
    let files: Vec<(u32, &[u32], _)> = numbered().map(|(own, keys)| (0, &keys[..], Some(own))).collect();
    let maps: Vec<_> = numbered().map(|(own, keys)| leaf(own, keys)).collect();
    let view = view_of(&files).with_flushed(id(8)).with_maps(&maps).unwrap();
    let view = view.with_maps(&[written(&view, MapReason::Tier(8)).0]).unwrap();
    assert_eq!([found(&view, 8), found(&view, 50)], [1, 0]);
}

#[test]
fn keys_of_files_that_do_not_state_their_writes_are_no_garbage() {
    let unstated = engine::file(&store(), numbered(3..9));
    let view = added(&view_of(&[(1, &[1, 2], Some(writes(1, 1)))]), 1, unstated).with_flushed(id(1));
    let policy = MapPolicy::default().with_max_uncovered_files(0);
    let map = written(&view, view.needs_map(&policy).unwrap()).0;
    assert_eq!(view.with_maps(&[map]).unwrap().needs_map(&policy), None);
}

#[test]
fn forged_numbers_of_keys_do_not_overflow() {
    let forged = |key: u32| {
        let (bytes, metadata) = engine::build(&store(), &numbered([key]).into_iter().collect());
        let mut forged = metadata.encode();
        forged[32..40].fill(0xff);
        let metadata = FilterMetadata::decode(&sealed(forged)).unwrap();
        assert_eq!(metadata.keys_added(), u64::MAX);
        let file = engine::open(&store(), numbered([key]).into_iter().collect(), (bytes, metadata));
        with_writes(Arc::new(file), FileWrites::of_flush(writes(1, 1)))
    };
    let edit = ViewEdit::new().add(1, forged(1)).add(1, forged(2));
    let view = FilterView::new(&store()).edited(edit).unwrap().with_flushed(id(1));
    assert_eq!(view.needs_map(&MapPolicy::default()), None);
}
