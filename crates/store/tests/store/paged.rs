//! Views with file maps that stay on the store: what is read of them, and what a lookup does without it. `model` reads
//! pages at random, wrongly or not at all.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, MapBuilder, MapError, WriteId, Writes};
use sstfilter_store::{Candidates, FilterSource, FilterStore, FilterView, MapPolicy, MapReason, PageRead, ViewEdit};

use crate::engine::{AddNewest, File, file_to_be_read, numbered, view_of_all};
use crate::maps::{Map, finish, hashes, key, load, map_of, options};

/// Returns the view with maps that are read by page.
pub(crate) fn paged(view: &FilterView<File>, maps: &[Map]) -> Result<FilterView<File>, MapError> {
    view.with_paged_maps(&maps.iter().map(|map| Arc::new(map.index().clone())).collect::<Vec<_>>())
}

/// Returns the bytes that a read needs.
pub(crate) fn bytes_of(maps: &[Map], page: &PageRead) -> Bytes {
    let map = maps.iter().find(|map| map.index().map_id() == page.map().map_id()).unwrap();
    Bytes::copy_from_slice(map.as_bytes()).read(page.read().range()).unwrap()
}

/// Reads what the lookup needs. Returns how many pages and filters that were, and how many files it finds.
fn look_up(maps: &[Map], mut candidates: Candidates<'_, File>) -> [usize; 3] {
    let (mut pages, mut filters) = (0, 0);
    loop {
        let reads = candidates.reads();
        if reads.is_empty() {
            return [pages, filters, core::iter::from_fn(|| candidates.next_file()).count()];
        }
        (pages, filters) = (pages + reads.pages.len(), filters + reads.pending.len());
        for page in reads.pages {
            let bytes = bytes_of(maps, &page);
            page.complete(Ok::<_, String>(bytes));
        }
        for (file, read) in reads.pending {
            let bytes = file.disk.read(read.range());
            read.complete(bytes);
        }
    }
}

/// Files with 50 keys each of their own, and key 7: of all these files, in a list behind the pages.
fn cold_files(store: &FilterStore, files: u32) -> Vec<Arc<File>> {
    (0..files).map(|n| file_to_be_read(store, numbered((0..50).map(|i| 1_000 + i * files + n).chain([7])))).collect()
}

// promise: file-maps
#[test]
fn an_absent_key_of_cold_files_costs_one_page_and_no_filter_until_they_leave() {
    let store = FilterStore::default();
    let files = cold_files(&store, 60);
    let view = view_of_all(&store, &files);
    let maps = [map_of(&view)];
    let view = paged(&view, &maps).unwrap();
    for number in 1_000..5_000 {
        let expected = [1, 0, usize::from(number < 4_000)];
        assert_eq!(look_up(&maps, view.candidates(&key(number))), expected, "{number}");
    }
    assert_eq!(look_up(&maps, view.candidates(&key(7))), [2, 0, 60], "a page, and the list behind it");
    let stats = view.map_stats();
    assert_eq!((stats.lookups, stats.unknown, stats.candidates), (4_001, 0, 3_060));
    let view = view.edited(ViewEdit::new().add_newest(0, file_to_be_read(&store, numbered([7, 9])))).unwrap();
    let key = key(8);
    let reads = view.candidates(&key).reads();
    assert_eq!((reads.pages.len(), reads.pending.len()), (1, 1), "the filter of a new file in the same round");
    drop(reads);
    let left = files.iter().fold(ViewEdit::new(), |edit, file| edit.remove(0, file));
    assert_eq!(look_up(&maps, view.edited(left).unwrap().candidates(&key)), [0, 1, 0]);
}

// promise: file-maps
#[test]
fn without_a_page_the_filters_of_its_map_are_used_and_damage_is_reported_until_a_new_map_covers_its_files() {
    let store = FilterStore::default();
    let (files, policy) = (cold_files(&store, 40), MapPolicy::default());
    let mut maps = [&files[..20], &files[20..]].map(|files| map_of(&view_of_all(&store, files)));
    let view = paged(&view_of_all(&store, &files), &maps).unwrap();
    let key = key(8);
    let mut candidates = view.candidates(&key);
    candidates.reads().pages.remove(0).complete(Err("the store is away"));
    // The other page is not waited for, and no filter.
    assert_eq!((core::iter::from_fn(|| candidates.next_file()).count(), view.map_stats().unknown), (40, 1));
    assert_eq!(view.needs_map(&policy), None);
    let (id, mut bytes) = (maps[0].index().map_id(), maps[0].as_bytes().to_vec());
    let of_pages = usize::try_from(maps[0].index().page_range(maps[0].index().pages() - 1).end).unwrap();
    bytes[..of_pages].iter_mut().for_each(|byte| *byte = !*byte);
    maps[0] = load(&view, id, bytes);
    assert_eq!(look_up(&maps, view.candidates(&key)), [2, 20, 0]);
    assert_eq!(view.needs_map(&policy), Some(MapReason::Damaged));
    let (write, new) = (view.write_map(options()).unwrap(), FileId::random());
    assert_eq!((write.files().len(), write.replaced()), (20, &[id][..]));
    let bytes = finish(write, new, |file| Some(hashes(&view, file))).unwrap();
    let view = view.with_maps(&[load(&view, new, bytes)]).unwrap();
    assert_eq!((view.needs_map(&policy), view.uncovered_files().count()), (None, 0));
    let unknown = view.map_stats().unknown;
    assert_eq!(look_up(&maps, view.candidates(&key)), [1, 0, 0]);
    let view = paged(&view, &maps[..1]).unwrap();
    drop(view.candidates_of_each(&[&key]));
    assert_eq!(view.map_stats().unknown, unknown, "the damaged map judges no file");
}

// promise: file-maps
#[test]
fn a_lookup_that_has_performed_its_reads_reads_nothing_more_when_a_page_is_missing() {
    let store = FilterStore::default();
    let files = [2, 3].map(|number| file_to_be_read(&store, numbered([1, number, 9])));
    let maps = files.each_ref().map(|file| map_of(&view_of_all(&store, core::slice::from_ref(file))));
    let (view, key) = (paged(&view_of_all(&store, &files), &maps).unwrap(), key(1));
    let candidates = view.candidates(&key);
    let [read, again] = [(); 2].map(|()| candidates.reads().pages.remove(0));
    read.complete(Err("the store is away"));
    let bytes = bytes_of(&maps, &again);
    again.complete(Ok::<_, String>(bytes));
    assert_eq!(look_up(&maps, candidates), [1, 2, 2], "the other page, and both filters");
}

// promise: file-maps
#[test]
fn maps_of_writes_of_another_hash_or_of_one_id_are_not_read_by_page() {
    let store = FilterStore::default();
    let view = view_of_all(&store, &cold_files(&store, 3));
    let (of_files, mut of_writes) = (map_of(&view), MapBuilder::new(view.filters(), options()));
    let (id, mut bytes) = (FileId::random(), Vec::new());
    of_writes.add_writes(Writes::of(WriteId::MIN), vec![KeyHash::mix(1)]);
    of_writes.finish(id, &mut bytes).unwrap();
    let of_writes = [Arc::new(FileMap::load(Bytes::from(bytes), view.filters(), id).unwrap())];
    let with_writes = view.with_maps(&of_writes).unwrap();
    assert_eq!(paged(&view, &of_writes).err(), Some(MapError::MixedCoverage));
    let twice = [of_files.clone(), of_files.clone()];
    assert!(matches!(paged(&view, &twice).err(), Some(MapError::Mismatch { .. })));
    assert_eq!(paged(&with_writes, core::slice::from_ref(&of_files)).err(), Some(MapError::MixedCoverage));
    let foreign = FilterStore::new(Filters::default().with_hasher(KeyHasher::custom(3, |_| KeyHash::mix(1))));
    assert!(matches!(paged(&FilterView::new(&foreign), &[of_files]).err(), Some(MapError::Block(_))));
}

// promise: file-maps
#[test]
fn pages_are_not_used_if_the_hash_does_not_match_its_name() {
    let [of_writer, of_reader] = [1, 2].map(|salt| {
        let hash = move |key: &[u8]| KeyHash::mix(KeyHasher::default().hash(key).get() ^ salt);
        FilterStore::new(Filters::default().with_hasher(KeyHasher::custom(7, hash)))
    });
    let files = cold_files(&of_writer, 3);
    let maps = [map_of(&view_of_all(&of_writer, &files))];
    let view = paged(&view_of_all(&of_reader, &files), &maps).unwrap();
    let key = key(7);
    let candidates = view.candidates(&key);
    // Only now a file is opened that shows it.
    drop(of_reader.open_without_source(files[0].filters.metadata().clone()));
    assert_eq!([candidates, view.candidates(&key)].map(|lookup| look_up(&maps, lookup)[2]), [3, 3]);
}
