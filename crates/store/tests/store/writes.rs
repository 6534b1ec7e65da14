//! A levelled store whose maps name flushes: each entry is added to a map once, compactions add none, and no key is
//! lost by tombstones, entries without numbers, flushes that crashed and were repeated, or maps that are damaged.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{FileId, KeyHash};
use sstfilter_map::{FileMap, FileWrites, MapBuilder, MapError, MapOptions, OutputWrites, WriteId, Writes};
use sstfilter_store::{FileFilters, FilterMetadata, FilterStore, FilterView, MapPolicy, MapReason, ViewEdit};

use crate::common::effort;
use crate::engine::AddNewest;

/// A key; the number of its flush, unless a compaction to the last level has removed it; a value or a tombstone.
type Entry = (u32, Option<WriteId>, Option<u32>);

struct Table {
    entries: Vec<Entry>,
    filters: FileFilters,
}

impl AsRef<FileFilters> for Table {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

/// A store of ratio 10, with four files at level 0. A compaction takes one file in turn.
struct Lsm {
    store: FilterStore,
    file_keys: usize,
    view: FilterView<Table>,
    memtable: BTreeMap<u32, Option<u32>>,
    /// For each level, the key after which the next file is taken.
    taken: [u32; 8],
    epoch: u32,
    flushes: u64,
    random: u64,
    policy: MapPolicy,
    /// The flush after which a file is ingested, and the epoch below which its entries carry numbers.
    ingestion: Option<(u64, u32)>,
    /// Entries that flushes wrote, that were added to leaf maps, that compactions wrote, and that merges wrote.
    flushed: u64,
    added: u64,
    compacted: u64,
    merged: u64,
    compactions: u64,
}

fn options() -> MapOptions {
    MapOptions::with_prefix_bits(44).unwrap().with_page_bytes(1 << 12).unwrap()
}

impl Lsm {
    fn new(store: FilterStore, file_keys: usize) -> Self {
        Self {
            view: FilterView::new(&store),
            store,
            file_keys,
            memtable: BTreeMap::new(),
            taken: [0; 8],
            epoch: 1,
            flushes: 0,
            random: 1,
            policy: MapPolicy::default(),
            ingestion: None,
            flushed: 0,
            added: 0,
            compacted: 0,
            merged: 0,
            compactions: 0,
        }
    }

    fn random(&mut self, end: u32) -> u32 {
        self.random += 1;
        (KeyHash::mix(self.random).get() >> 32) as u32 % end
    }

    fn hashes(&self, keys: impl Iterator<Item = u32>) -> Vec<KeyHash> {
        keys.map(|key| self.store.filters().hash(&key.to_be_bytes())).collect()
    }

    fn table(&self, entries: Vec<Entry>, writes: FileWrites) -> Arc<Table> {
        let mut builder = self.store.builder(FileId::random());
        entries.iter().for_each(|(key, ..)| builder.add_key(&key.to_be_bytes()));
        let (bytes, metadata) = builder.finish().seal();
        Arc::new(Table { entries, filters: self.store.open(metadata, bytes).with_writes(writes) })
    }

    fn load(&self, map: FileId, bytes: Vec<u8>) -> Arc<FileMap<Bytes>> {
        Arc::new(FileMap::load(bytes.into(), self.store.filters(), map).unwrap())
    }

    fn leaf(&self, writes: Writes, keys: impl Iterator<Item = u32>) -> Arc<FileMap<Bytes>> {
        let (map, mut bytes) = (FileId::random(), Vec::new());
        let mut builder = MapBuilder::new(self.store.filters(), options());
        builder.add_writes(writes, self.hashes(keys));
        builder.finish(map, &mut bytes).unwrap();
        self.load(map, bytes)
    }

    fn with_map(&self, new: Arc<FileMap<Bytes>>, replaced: &[FileId]) -> FilterView<Table> {
        let old = self.view.maps().filter(|map| !replaced.contains(&map.index().map_id())).cloned();
        self.view.with_maps(&old.chain([new]).collect::<Vec<_>>()).unwrap()
    }

    fn put(&mut self, key: u32, value: Option<u32>) {
        self.memtable.insert(key, value);
        if self.memtable.len() == self.file_keys {
            self.flush();
            while self.compact_one() {}
            self.write_maps();
        }
    }

    fn flush(&mut self) {
        self.flushes += 1;
        let mut number = WriteId::new(self.epoch, self.flushes).unwrap();
        if self.random(20) == 0 {
            // The writer crashed. Some of the keys in its log are lost, and the repeated flush has others.
            if self.random(2) == 0 {
                // Even its map is in the manifest.
                let keys: Vec<_> = self.memtable.keys().map(|key| key ^ 1).chain([0, u32::MAX]).collect();
                let covered = self.view.flush_covers(FileWrites::of_flush(Writes::of(number)));
                self.view = self.with_map(self.leaf(covered, keys.into_iter()), &[]);
            }
            self.epoch += 1;
            number = WriteId::new(self.epoch, self.flushes).unwrap();
        }
        let memtable = core::mem::take(&mut self.memtable);
        let entries: Vec<_> = memtable.iter().map(|(&key, &value)| (key, Some(number), value)).collect();
        self.join(entries, FileWrites::of_flush(Writes::of(number)));
    }

    /// Adds the file of a flush or of an ingestion, and its map.
    fn join(&mut self, entries: Vec<Entry>, writes: FileWrites) {
        let leaf = self.leaf(self.view.flush_covers(writes), entries.iter().map(|entry| entry.0));
        self.flushed += entries.len() as u64;
        self.added += leaf.index().entries();
        let edit = ViewEdit::new().add_newest(0, self.table(entries, writes));
        self.view = self.view.edited(edit).unwrap().with_flushed(writes.writes().last());
        self.view = self.with_map(leaf, &[]);
    }

    /// Ingests a file with one in ten of the written keys, whose entries carry numbers that another store gave them.
    fn ingest(&mut self, model: &mut BTreeMap<u32, Option<u32>>, end: u32) {
        let mut entries = Vec::new();
        for (&key, value) in model.iter_mut().step_by(10) {
            *value = Some(key);
            self.memtable.remove(&key);
            entries.push((key, WriteId::new(self.random(end), u64::from(self.random(10_000))), *value));
        }
        self.flushes += 1;
        self.join(entries, FileWrites::of_ingestion(WriteId::new(self.epoch, self.flushes).unwrap()));
    }

    fn files(&self, level: u32) -> Vec<Arc<Table>> {
        self.view.files(level).cloned().collect()
    }

    fn compact_one(&mut self) -> bool {
        let max = |level: u32| if level == 0 { 4 } else { 10_usize.pow(level) };
        let Some(level) = (0..6).find(|level| self.view.files(*level).count() > max(*level)) else { return false };
        let ends = |file: &Arc<Table>| (file.entries[0].0, file.entries.last().unwrap().0);
        let all = self.files(level);
        let taken: Vec<_> = if level == 0 {
            all
        } else {
            let next = all.iter().find(|file| ends(file).1 > self.taken[level as usize]).unwrap_or(&all[0]);
            self.taken[level as usize] = ends(next).1;
            vec![next.clone()]
        };
        let first = taken.iter().map(|file| ends(file).0).min().unwrap();
        let last = taken.iter().map(|file| ends(file).1).max().unwrap();
        let overlapped = self.files(level + 1).into_iter().filter(|file| ends(file).0 <= last && first <= ends(file).1);
        let below: Vec<_> = overlapped.collect();
        // The newest files come first, and their entries stay.
        let mut merged = BTreeMap::<u32, (&Entry, &Arc<Table>)>::new();
        for file in taken.iter().chain(&below) {
            file.entries.iter().for_each(|entry| _ = merged.entry(entry.0).or_insert((entry, file)));
        }
        let is_last = (level + 2..8).all(|level| self.view.files(level).count() == 0);
        let kept: Vec<_> = merged.into_values().filter(|(entry, _)| !is_last || entry.2.is_some()).collect();
        let mut edit = taken.iter().fold(ViewEdit::new(), |edit, file| edit.remove(level, file));
        edit = below.iter().fold(edit, |edit, file| edit.remove(level + 1, file));
        for part in kept.chunks(self.file_keys) {
            let mut writes = OutputWrites::default();
            for (entry, file) in part {
                writes.add(file.filters.writes(), entry.1);
            }
            let number = |number: Option<WriteId>| number.filter(|_| !is_last);
            let entries = part.iter().map(|(entry, _)| (entry.0, number(entry.1), entry.2)).collect();
            edit = edit.add(level + 1, self.table(entries, writes.finish()));
        }
        self.compacted += kept.len() as u64;
        self.compactions += 1;
        self.view = self.view.edited(edit).unwrap();
        true
    }

    fn write_maps(&mut self) {
        let mut written = 0;
        while let Some(reason) = self.view.needs_map(&self.policy) {
            written += 1;
            assert!(written < 10, "what was due is done: {reason:?}");
            let (map, mut bytes) = (FileId::random(), Vec::new());
            let hashes = |file: &Table| Ok(self.hashes(file.entries.iter().map(|entry| entry.0)));
            let (report, replaced) = self.view.write_map_for(reason, options(), map, &mut bytes, hashes).unwrap();
            self.merged += report.entries;
            self.view = self.with_map(self.load(map, bytes), &replaced);
        }
    }

    /// Returns the value of a key, and how many files were searched.
    fn get(&self, key: u32) -> (Option<u32>, u64) {
        if let Some(value) = self.memtable.get(&key) {
            return (*value, 1);
        }
        let (bytes, mut searched) = (key.to_be_bytes(), 0);
        let mut candidates = self.view.candidates(&bytes);
        while let Some(file) = candidates.next_file() {
            searched += 1;
            if let Ok(found) = file.entries.binary_search_by_key(&key, |entry| entry.0) {
                candidates.found();
                return (file.entries[found].2, searched);
            }
        }
        (None, searched)
    }

    fn get_many(&self, keys: &[u32]) -> Vec<Option<u32>> {
        let bytes: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(|key| &key[..]).collect();
        let (mut values, mut candidates) = (vec![None; keys.len()], self.view.candidates_of_each(&bytes));
        while let files @ [_, ..] = &candidates.next_files().to_vec()[..] {
            for &(position, file) in files {
                if let Ok(found) = file.entries.binary_search_by_key(&keys[position], |entry| entry.0) {
                    values[position] = file.entries[found].2;
                    candidates.found(position);
                }
            }
        }
        let newest = |(key, value): (&u32, Option<u32>)| self.memtable.get(key).copied().unwrap_or(value);
        keys.iter().zip(values).map(newest).collect()
    }
}

/// What a run of the store has measured.
#[allow(dead_code, reason = "printed")]
#[derive(Debug)]
struct Run {
    lookups: u64,
    compactions: u64,
    files_per_present_key: f64,
    files_per_absent_key: f64,
    maps: usize,
    /// Of all maps together.
    intervals: usize,
    /// Per flushed entry.
    added: f64,
    compacted: f64,
    merged: f64,
}

/// Writes `flushes` memtables of random keys below `keys`, one tombstone in ten, and looks up `lookups` keys after
/// each, one in eight of a batch.
fn run(mut lsm: Lsm, keys: u32, flushes: u64, lookups: u64) -> Run {
    let (mut model, mut value, mut looked_up) = (BTreeMap::new(), 0, 0);
    let (mut present, mut absent) = ((0_u64, 0_u64), (0_u64, 0_u64));
    while lsm.flushes < flushes {
        let before = lsm.flushes;
        while lsm.flushes == before {
            // Even keys are written, and odd ones never are.
            let key = lsm.random(keys) * 2;
            value += 1;
            let put = Some(value).filter(|_| lsm.random(10) > 0);
            lsm.put(key, put);
            model.insert(key, put);
        }
        if let Some((_, end)) = lsm.ingestion.filter(|(after, _)| *after == lsm.flushes) {
            lsm.ingest(&mut model, end);
        }
        for _ in 0..lookups {
            let key = lsm.random(keys * 2);
            let (found, searched) = lsm.get(key);
            let expected = model.get(&key).copied().flatten();
            assert_eq!(found, expected, "key {key} after flush {before}");
            match expected {
                Some(_) if !lsm.memtable.contains_key(&key) => present = (present.0 + 1, present.1 + searched),
                // Deleted keys are found, as tombstones.
                None if key % 2 == 1 => absent = (absent.0 + 1, absent.1 + searched),
                _ => {}
            }
        }
        let batch: Vec<_> = (0..lookups / 8).map(|_| lsm.random(keys * 2)).collect();
        let expected: Vec<_> = batch.iter().map(|key| model.get(key).copied().flatten()).collect();
        assert_eq!(lsm.get_many(&batch), expected);
        looked_up += lookups + lookups / 8;
    }
    let per = |entries: u64| entries as f64 / lsm.flushed as f64;
    Run {
        lookups: looked_up,
        compactions: lsm.compactions,
        files_per_present_key: present.1 as f64 / present.0 as f64,
        files_per_absent_key: absent.1 as f64 / absent.0 as f64,
        maps: lsm.view.maps().count(),
        intervals: lsm.view.maps().map(|map| map.index().writes().len()).sum(),
        added: per(lsm.added),
        compacted: per(lsm.compacted),
        merged: per(lsm.merged),
    }
}

fn without_filters() -> FilterStore {
    FilterStore::default().without_point_filters()
}

/// A tenth or more of all lookups in the long form.
fn few_lookups() -> u64 {
    if effort::is_long() { 400 } else { 40 }
}

// promise: file-maps
#[test]
fn each_entry_is_added_once_and_no_key_is_lost_by_a_levelled_store() {
    let (flushes, lookups) = match (effort::is_short(), effort::is_long()) {
        (true, _) => (300, 50),
        (_, false) => (1_000, 1_000),
        (_, true) => (4_000, 1_000),
    };
    let run = run(Lsm::new(without_filters(), 100), 30_000, flushes, lookups);
    println!("{run:?}");
    assert!(run.compactions >= flushes && run.lookups >= flushes * lookups, "{run:?}");
    assert!((run.added - 1.0).abs() < 1e-9, "{run:?}");
    assert!(run.files_per_present_key <= 1.05, "{run:?}");
    assert!(run.files_per_absent_key <= 0.05 && run.maps <= 40, "{run:?}");
    // Those below the floor are one. After few flushes, most are above it.
    assert!(effort::is_short() || run.intervals as u64 * 2 < flushes, "{run:?}");
}

// promise: file-maps
#[test]
fn an_ingested_file_loses_no_key_and_spoils_no_level() {
    let flushes = if effort::is_long() { 4_000 } else { 300 };
    let run = |ingestion| {
        let mut lsm = Lsm::new(without_filters(), 50);
        lsm.ingestion = ingestion;
        let found = run(lsm, 10_000, flushes, few_lookups());
        println!("{ingestion:?}: {found:?}");
        found
    };
    let without = run(None);
    // Numbers that are older than all, that are the store's own, and many that are still to come.
    for end in [1, 10, 1_000] {
        let found = run(Some((200, end)));
        assert!(found.files_per_present_key <= without.files_per_present_key + 0.05, "{found:?}");
        assert!(found.files_per_absent_key <= without.files_per_absent_key + 0.05, "{found:?}");
    }
}

fn id(number: u64) -> WriteId {
    WriteId::new(1, number).unwrap()
}

fn writes(first: u64, last: u64) -> Writes {
    Writes::new(id(first), id(last)).unwrap()
}

fn view_of(lsm: &Lsm, files: &[(u32, &[u32], Option<Writes>)]) -> FilterView<Table> {
    let add = |edit: ViewEdit<Table>, (level, keys, own): &(u32, &[u32], Option<Writes>)| {
        let entries = keys.iter().map(|key| (*key, None, Some(0))).collect();
        let mut table = lsm.table(entries, FileWrites::of_flush(own.unwrap_or(Writes::ALL)));
        if own.is_none() {
            let filters = lsm.store.open_without_description(..);
            table = Arc::new(Table { entries: table.entries.clone(), filters });
        }
        edit.add_newest(*level, table)
    };
    FilterView::new(&lsm.store).edited(files.iter().fold(ViewEdit::new(), add)).unwrap()
}

fn found(view: &FilterView<Table>, key: u32) -> usize {
    let bytes = key.to_be_bytes();
    let mut candidates = view.candidates(&bytes);
    core::iter::from_fn(|| candidates.next_file()).count()
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_covers_no_flush_that_is_still_to_come() {
    let lsm = Lsm::new(without_filters(), 10);
    let policy = MapPolicy::default().with_max_uncovered_files(0);
    // One file states all writes, also those to come.
    let files: [(u32, &[u32], _); 2] = [(0, &[1, 2, 9], Some(writes(1, 1))), (1, &[1, 3, 9], Some(Writes::ALL))];
    let hashes = |file: &Table| Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)));
    let (map, mut bytes) = (FileId::random(), Vec::new());
    // Which flushes have joined is not known, so a map of files is due, and one of writes impossible.
    let view = view_of(&lsm, &files);
    assert_eq!(view.needs_map(&policy), Some(MapReason::UncoveredFiles(2)));
    assert!(view.write_map_for(MapReason::UncoveredFiles(1), options(), map, &mut bytes, hashes).is_err());
    let view = view.with_flushed(id(1)).with_flushed(id(0));
    assert_eq!((view.flushed(), view.needs_map(&policy)), (Some(id(1)), Some(MapReason::UncoveredFiles(1))));
    view.write_map_for(MapReason::UncoveredFiles(1), options(), map, &mut bytes, hashes).unwrap();
    let view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    assert_eq!((found(&view, 2), found(&view, 3), found(&view, 4)), (2, 2, 1));
    // A flush with the smallest and the largest key, whose map is not there yet.
    let entries = [1, 4, 9].map(|key| (key, None, Some(0))).to_vec();
    let flushed = lsm.table(entries, FileWrites::of_flush(writes(2, 2)));
    let view = view.edited(ViewEdit::new().add_newest(0, flushed)).unwrap().with_flushed(id(2));
    assert_eq!((found(&view, 4), view.map_stats().dropped), (2, 0));
    assert_eq!(view.needs_map(&policy), Some(MapReason::UncoveredFiles(1)), "a file of all writes does not count");
}

// promise: file-maps
#[test]
fn only_damaged_and_unknown_maps_are_written_anew() {
    let lsm = Lsm::new(without_filters(), 10);
    let files: [(u32, &[u32], _); 2] = [(0, &[1, 2], Some(writes(2, 2))), (0, &[1, 3], Some(writes(1, 1)))];
    let view = view_of(&lsm, &files).with_flushed(id(2));
    let sound = lsm.leaf(writes(1, 1), [1, 3].into_iter());
    let map = FileId::random();
    let bytes = lsm.leaf(writes(2, 2), [1, 2].into_iter()).as_bytes().to_vec();
    let load = |bytes: Vec<u8>| Arc::new(FileMap::load_any(Bytes::from(bytes)).unwrap());
    let mut damaged = bytes.clone();
    damaged[50] ^= 1;
    let damaged = load(damaged);
    // A merge writes its page as unknown: its checksum holds.
    let mut unknown = Vec::new();
    let mut merge = sstfilter_map::MapMerge::new(options());
    merge.add_loaded(&damaged, |_| true).unwrap();
    merge.finish(FileId::random(), &mut unknown).unwrap();
    let unknown = load(unknown);
    assert!(!damaged.has_unknown_pages() && unknown.has_unknown_pages() && unknown.problems().next().is_none());
    for lost in [damaged, unknown] {
        let view = view.with_maps(&[sound.clone(), lost.clone()]).unwrap();
        assert_eq!(view.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
        let (mut bytes, mut read) = (Vec::new(), 0);
        let hashes = |file: &Table| {
            read += 1;
            Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)))
        };
        let written = view.write_map_for(MapReason::Damaged, options(), map, &mut bytes, hashes).unwrap();
        assert_eq!((written.1, read), (vec![lost.index().map_id()], 1), "only the file with its writes is read");
        let view = view.with_maps(&[sound.clone(), lsm.load(map, bytes)]).unwrap();
        assert_eq!((view.needs_map(&MapPolicy::default()), found(&view, 2), found(&view, 3)), (None, 1, 1));
    }
}

// promise: file-maps
#[test]
fn a_map_that_takes_the_place_of_another_must_have_the_known_keys_of_all_files() {
    let lsm = Lsm::new(without_filters(), 10);
    let view = view_of(&lsm, &[(0, &[1, 2], Some(writes(1, 1)))]).with_flushed(id(1));
    let [own, other] = [[1, 2], [1, 3]].map(|keys| lsm.leaf(writes(0, 1), keys.into_iter()));
    let view = view.with_maps(std::slice::from_ref(&own)).unwrap();
    assert!(matches!(view.with_maps(std::slice::from_ref(&other)), Err(MapError::KnownKeyAbsent { .. })));
    // Beside the map that was there, it excludes no file.
    assert_eq!(found(&view.with_maps(&[own, other]).unwrap(), 2), 1);
}

// promise: file-maps
#[test]
fn files_with_range_tombstones_or_without_writes_are_never_excluded() {
    let lsm = Lsm::new(without_filters(), 10);
    let mut builder = lsm.store.builder(FileId::random());
    builder.add_key(&5_u32.to_be_bytes());
    builder.add_range_tombstone(&1_u32.to_be_bytes(), &9_u32.to_be_bytes());
    let (bytes, metadata) = builder.finish().seal();
    let filters = lsm.store.open(metadata, bytes).with_writes(FileWrites::of_flush(writes(2, 2)));
    let deleting = Arc::new(Table { entries: vec![(5, None, Some(0))], filters });
    let files: [(u32, &[u32], _); 2] = [(0, &[1, 9], Some(writes(1, 1))), (1, &[1, 9], None)];
    let view = view_of(&lsm, &files).edited(ViewEdit::new().add_newest(0, deleting)).unwrap();
    let view = view.with_maps(&[lsm.leaf(writes(0, 9), [1, 5, 9].into_iter())]).unwrap();
    let bytes: Vec<_> = [3_u32, 9].iter().map(|key| key.to_be_bytes()).collect();
    assert_eq!([found(&view, 3), found(&view, 5), found(&view, 10)], [2, 3, 1]);
    assert_eq!(view.candidates_of_each(&[&bytes[0]]).next_files().len(), 1);
    // Nor is one without a description, which may have any range tombstones.
    let filters = lsm.store.open_without_description(..).with_writes(FileWrites::of_flush(writes(1, 1)));
    let unknown = Arc::new(Table { entries: Vec::new(), filters });
    assert_eq!(found(&view.edited(ViewEdit::new().add(2, unknown)).unwrap(), 3), 3);
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_has_the_keys_of_files_that_do_not_state_their_writes() {
    let lsm = Lsm::new(without_filters(), 10);
    let files: [(u32, &[u32], _); 2] = [(0, &[2, 4], Some(writes(5, 6))), (1, &[1, 3, 5], None)];
    let view = view_of(&lsm, &files).with_flushed(id(6));
    let (map, mut bytes) = (FileId::random(), Vec::new());
    let hashes = |file: &Table| Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)));
    view.write_map_for(MapReason::UncoveredFiles(1), options(), map, &mut bytes, hashes).unwrap();
    // A compaction finds out which writes they were.
    let view = view_of(&lsm, &[(0, &[2, 4], Some(writes(5, 6))), (1, &[1, 3, 5], Some(writes(5, 5)))]);
    let view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    // As one interval, the writes of both files are all that is known of a key.
    assert_eq!((view.uncovered_files().count(), found(&view, 3), found(&view, 7)), (0, 2, 0));
}

#[test]
fn a_map_is_not_written_anew_from_hashes_that_lack_a_known_key() {
    let lsm = Lsm::new(without_filters(), 10);
    let view = view_of(&lsm, &[(0, &[1, 2, 3], Some(writes(1, 1)))]).with_flushed(id(1));
    let write = |keys: &'static [u32]| {
        let (map, mut bytes) = (FileId::random(), Vec::new());
        let hashes = |_: &Table| Ok(lsm.hashes(keys.iter().copied()));
        view.write_map_for(MapReason::UncoveredFiles(1), options(), map, &mut bytes, hashes)
    };
    assert_eq!(write(&[1, 2, 3]).unwrap().0.entries, 3);
    let refused = write(&[1, 2]).unwrap_err().downcast::<MapError>().unwrap();
    assert!(matches!(refused, MapError::KnownKeyAbsent { .. }), "{refused}");
}

#[test]
fn a_number_that_two_flushes_have_is_found_by_the_smallest_and_largest_keys() {
    let lsm = Lsm::new(without_filters(), 10);
    // The map of a lost flush, whose number another one has got: nothing but the engine can prevent it.
    let lost = lsm.leaf(writes(0, 3), [1, 2].into_iter());
    let files: [(u32, &[u32], _); 1] = [(0, &[1, 2, 7], Some(writes(3, 3)))];
    let refused = view_of(&lsm, &files).with_maps(std::slice::from_ref(&lost)).unwrap_err();
    assert!(matches!(refused, MapError::KnownKeyAbsent { .. }), "{refused}");
    let view = FilterView::<Table>::new(&lsm.store).with_maps(&[lost]).unwrap();
    let added = view_of(&lsm, &files).files(0).next().unwrap().clone();
    let view = view.edited(ViewEdit::new().add_newest(0, added)).unwrap();
    assert_eq!((view.maps().count(), found(&view, 7)), (0, 1));
}

#[test]
fn a_view_has_maps_of_files_or_of_writes() {
    let lsm = Lsm::new(without_filters(), 10);
    let view = view_of(&lsm, &[(0, &[1, 2], Some(writes(1, 1)))]);
    let (map, mut bytes) = (FileId::random(), Vec::new());
    let hashes = |file: &Arc<Table>| Ok(Some(lsm.hashes(file.entries.iter().map(|entry| entry.0))));
    view.write_map(options(), map, &mut bytes, hashes).unwrap();
    let (of_files, of_writes) = (lsm.load(map, bytes), lsm.leaf(writes(1, 1), [1, 2].into_iter()));
    // Of both, those of the kind that serves the files: here of writes, which these files state.
    let both = [of_files.clone(), of_writes.clone()];
    let unstated = lsm.table(vec![(1, None, Some(0))], FileWrites::UNKNOWN);
    let unstated = FilterView::new(&lsm.store).edited(ViewEdit::new().add_newest(0, unstated)).unwrap();
    let (map, mut bytes) = (FileId::random(), Vec::new());
    unstated.write_map(options(), map, &mut bytes, hashes).unwrap();
    let view_of_files = unstated.with_maps(&[lsm.load(map, bytes), of_writes.clone()]).unwrap();
    let is_of_writes = |view: FilterView<Table>| view.maps().all(|map| !map.index().writes().is_empty());
    assert_eq!([view.with_maps(&both).unwrap(), view_of_files].map(is_of_writes), [true, false]);
    let view = view.with_maps(&[of_writes]).unwrap();
    assert_eq!((view.uncovered_files().count(), view.needs_map(&MapPolicy::default())), (0, None));
    assert!(view.write_map(options(), map, &mut Vec::new(), hashes).is_err());
    // One kind replaces the other.
    let view = view.with_maps(&[of_files]).unwrap();
    assert_eq!((view.maps().count(), view.uncovered_files().count(), found(&view, 3)), (1, 0, 0));
    let view = view.with_maps(&[]).unwrap();
    assert_eq!((view.maps().count(), view.uncovered_files().count()), (0, 1));
}

// promise: file-maps
#[test]
fn a_map_that_is_written_anew_leaves_out_a_flush_that_has_not_joined() {
    let lsm = Lsm::new(without_filters(), 10);
    let view = view_of(&lsm, &[(0, &[1, 9], Some(writes(1, 1)))]).with_flushed(id(1));
    // Its map came first, was merged with the older one, and then damaged.
    let flush = FileWrites::of_flush(writes(2, 2));
    let mut bytes =
        lsm.leaf(writes(0, 1).including(view.flush_covers(flush)), [1, 2, 9].into_iter()).as_bytes().to_vec();
    bytes[50] ^= 1;
    let damaged = Arc::new(FileMap::load_any(Bytes::from(bytes)).unwrap());
    let view = view.with_maps(&[damaged]).unwrap();
    assert_eq!(view.needs_map(&MapPolicy::default()), Some(MapReason::Damaged));
    let (map, mut bytes) = (FileId::random(), Vec::new());
    let hashes = |file: &Table| Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)));
    view.write_map_for(MapReason::Damaged, options(), map, &mut bytes, hashes).unwrap();
    // The known keys of the flush's file do not show that its other key is in no map.
    let flushed = lsm.table([1, 2, 9].map(|key| (key, None, Some(0))).to_vec(), flush);
    let view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    let view = view.edited(ViewEdit::new().add_newest(0, flushed)).unwrap().with_flushed(id(2));
    assert_eq!((found(&view, 2), view.map_stats().dropped), (1, 0));
}

#[test]
fn bounds_without_a_description_are_no_keys_that_a_new_map_must_have() {
    let lsm = Lsm::new(without_filters(), 10);
    let (bounds, writes) = ([1, 9].map(u32::to_be_bytes), FileWrites::of_earlier_file(id(5)));
    let filters = lsm.store.open_without_description(&bounds[0][..]..=&bounds[1][..]).with_writes(writes);
    let entries = vec![(4, None, Some(0))];
    let edit = ViewEdit::new().add(1, Arc::new(Table { entries, filters }));
    let view = view_of(&lsm, &[(2, &[1, 9], Some(self::writes(0, 5)))]).edited(edit).unwrap().with_flushed(id(5));
    let (map, mut bytes) = (FileId::random(), Vec::new());
    let hashes = |file: &Table| Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)));
    view.write_map_for(MapReason::UncoveredFiles(1), options(), map, &mut bytes, hashes).unwrap();
    let view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    assert_eq!((found(&view, 4), view.map_stats().dropped), (2, 0));
}

#[test]
fn the_map_of_a_flush_covers_the_numbers_before_it_only_if_no_file_has_them() {
    let lsm = Lsm::new(without_filters(), 10);
    let flush = FileWrites::of_flush(writes(5, 6));
    let empty = FilterView::<Table>::new(&lsm.store);
    assert_eq!(empty.flush_covers(flush), Writes::new(WriteId::MIN, id(6)).unwrap());
    let view = view_of(&lsm, &[(0, &[1, 9], None)]);
    assert_eq!(view.flush_covers(flush), writes(5, 6));
    assert_eq!(view.with_flushed(id(2)).flush_covers(flush), writes(3, 6));
    assert_eq!(view.with_flushed(id(8)).flush_covers(flush), writes(5, 6));
}

#[test]
fn files_of_level_0_alone_keep_their_writes_apart() {
    let lsm = Lsm::new(without_filters(), 10);
    let keys: Vec<_> = (1..=8).map(|key| [key, key + 100]).collect();
    let files: Vec<(u32, &[u32], _)> =
        (1..).zip(&keys).map(|(number, keys)| (0, &keys[..], Some(writes(number, number)))).collect();
    let maps: Vec<_> =
        (1..).zip(&keys).map(|(number, keys)| lsm.leaf(writes(number, number), keys.iter().copied())).collect();
    let view = view_of(&lsm, &files).with_flushed(id(8)).with_maps(&maps).unwrap();
    let (map, mut bytes) = (FileId::random(), Vec::new());
    view.write_map_for(MapReason::Tier(8), options(), map, &mut bytes, |_| unreachable!()).unwrap();
    let view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    assert_eq!([found(&view, 8), found(&view, 50)], [1, 0]);
}

#[test]
fn keys_of_files_that_do_not_state_their_writes_are_no_garbage() {
    let lsm = Lsm::new(without_filters(), 10);
    let unstated = lsm.table((3..9).map(|key| (key, None, Some(0))).collect(), FileWrites::UNKNOWN);
    let view = view_of(&lsm, &[(1, &[1, 2], Some(writes(1, 1)))]).edited(ViewEdit::new().add(1, unstated)).unwrap();
    let mut view = view.with_flushed(id(1));
    let policy = MapPolicy::default().with_max_uncovered_files(0);
    let (map, mut bytes) = (FileId::random(), Vec::new());
    let reason = view.needs_map(&policy).unwrap();
    let hashes = |file: &Table| Ok(lsm.hashes(file.entries.iter().map(|entry| entry.0)));
    view.write_map_for(reason, options(), map, &mut bytes, hashes).unwrap();
    view = view.with_maps(&[lsm.load(map, bytes)]).unwrap();
    assert_eq!(view.needs_map(&policy), None);
}

#[test]
fn forged_numbers_of_keys_do_not_overflow() {
    let lsm = Lsm::new(without_filters(), 10);
    let forged = |key: u32| {
        let mut builder = lsm.store.builder(FileId::random());
        builder.add_key(&key.to_be_bytes());
        let (bytes, metadata) = builder.finish().seal();
        let mut forged = metadata.encode();
        forged[32..40].fill(0xff);
        let end = forged.len() - 4;
        let checksum = crc32c::crc32c(&forged[..end]).to_le_bytes();
        forged[end..].copy_from_slice(&checksum);
        let metadata = FilterMetadata::decode(&forged).unwrap();
        assert_eq!(metadata.keys_added(), u64::MAX);
        let filters = lsm.store.open(metadata, bytes).with_writes(FileWrites::of_flush(writes(1, 1)));
        Arc::new(Table { entries: vec![(key, None, Some(0))], filters })
    };
    let edit = ViewEdit::new().add(1, forged(1)).add(1, forged(2));
    let view = FilterView::new(&lsm.store).edited(edit).unwrap().with_flushed(id(1));
    assert_eq!(view.needs_map(&MapPolicy::default()), None);
}

#[test]
fn lookups_count_what_maps_of_writes_did() {
    let lsm = Lsm::new(without_filters(), 10);
    let files: [(u32, &[u32], _); 3] =
        [(0, &[1, 9], Some(writes(3, 3))), (1, &[1, 9], Some(writes(2, 2))), (2, &[1, 5, 9], Some(writes(1, 1)))];
    let leaf = |number, keys: &[u32]| lsm.leaf(writes(number, number), keys.iter().copied());
    let view = view_of(&lsm, &files).with_maps(&[leaf(3, &[1, 9]), leaf(1, &[1, 5, 9])]).unwrap();
    // The file at level 1 is not covered, and in the way.
    assert_eq!([found(&view, 5), found(&view, 4)], [2, 1]);
    let keys = [1_u32, 4].map(u32::to_be_bytes);
    let mut batch = view.candidates_of_each(&[&keys[0], &keys[1]]);
    assert_eq!([batch.next_files().len(), batch.next_files().len(), batch.next_files().len()], [1, 2, 1]);
    assert!(batch.next_files().is_empty());
    let stats = view.map_stats();
    assert_eq!((stats.lookups, stats.unknown), (4, 0));
    assert_eq!((stats.candidates, stats.false_candidates, stats.false_reads), (3, 3, 4));
}
