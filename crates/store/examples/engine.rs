//! An LSM engine in one file, to start from: its own tables, and the store layer, which says which of them to read.
//!
//! All filters share a budget that is too small for them. The program compares every answer with a `BTreeMap`, restarts
//! the engine, and prints what the filters saved: `cargo run --release --example engine`.
//!
//! Left out: a log, durable writes, checksums of data, the deletion of old files, and threads. With threads, a lookup
//! clones the `Arc` of the current version (memtables and view together) and then holds no lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use sstfilter::{
    BuildPurpose, FalsePositiveRate, FileId, Filters, FixedPolicy, FixedPrefix, KeyHasher, KeyParts, KeyRange,
};
use sstfilter_map::{FileMap, MapOptions};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FileFilterBuilder, FileFilters, FilterBudget, FilterMetadata, FilterSource, FilterStore, FilterView, PartitionCut,
    PartitionOptions, ScanCandidate, ScanCandidates, TableIdentity, ViewEdit, sidecar_path,
};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;
/// A key and its value, or a tombstone.
type Entry = (Bytes, Option<u64>);
type Entries<'a> = Box<dyn Iterator<Item = io::Result<Entry>> + 'a>;
type Found = io::Result<(Bytes, u64)>;
const KEY_BYTES: usize = 12; // A sensor in 4 bytes and a time in 8, both big-endian. Values have 8 bytes.
const ENTRY_BYTES: u64 = 20;
const BLOCK_ENTRIES: usize = 64;
const TABLE_ENTRIES: usize = 8_000;
const MAX_TABLES_PER_LEVEL: usize = 4;
const LAST_LEVEL: u32 = 2;

/// The bytes of a file from `start` on. Lookups read filters from here: the store says which bytes, and verifies them.
#[derive(Clone)]
struct FileBytes {
    path: PathBuf,
    start: u64,
}

impl FilterSource for FileBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let (mut file, mut bytes) = (File::open(&self.path)?, Vec::new());
        file.seek(SeekFrom::Start(self.start + range.start))?;
        file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// An open table: sorted entries, the first key of each block of them, filter bytes at a multiple of 64, their
/// description, and a footer.
struct Table {
    id: u64, // The filters are bound to it. It is drawn at random, so it also names the file.
    identity: TableIdentity,
    file: FileBytes,
    entries: u64,
    index: Vec<Bytes>,
    filters: FileFilters,
    filter_bytes: FileBytes, // In this file, or in a sidecar.
}

impl AsRef<FileFilters> for Table {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

impl Table {
    fn path(directory: &Path, id: u64) -> PathBuf {
        directory.join(format!("{id:016x}.table"))
    }

    fn write(directory: &Path, entries: &[Entry], mut filters: FileFilterBuilder) -> io::Result<u64> {
        let (id, mut file) = (filters.file_id().fingerprint(), Vec::new());
        for (key, value) in entries {
            // Tombstones too: a lookup that skips one finds the deleted value in an older table.
            filters.add_key(key);
            file.put_slice(key);
            file.put_u64(value.map_or(0, |value| value + 1));
        }
        entries.iter().step_by(BLOCK_ENTRIES).for_each(|(key, _)| file.put_slice(key));
        let checksum = crc32c::crc32c(&file);
        let (filter_bytes, metadata) = filters.finish().seal();
        file.resize(file.len().next_multiple_of(64), 0);
        file.put_slice(&filter_bytes);
        let metadata_at = file.len() as u64;
        file.put_slice(&metadata.encode());
        [entries.len() as u64, metadata_at, checksum.into()].into_iter().for_each(|field| file.put_u64(field));
        fs::write(Self::path(directory, id), file).map(|()| id)
    }

    fn open(directory: &Path, id: u64, store: &FilterStore) -> io::Result<Self> {
        let file = FileBytes { path: Self::path(directory, id), start: 0 };
        let bytes = fs::metadata(&file.path)?.len();
        let footer_at = bytes.checked_sub(3 * 8).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut footer = file.read(footer_at..bytes)?;
        let [entries, metadata_at, checksum] = std::array::from_fn(|_| footer.get_u64());
        let (index_at, blocks) = (entries * ENTRY_BYTES, entries.div_ceil(BLOCK_ENTRIES as u64));
        let mut index = file.read(index_at..index_at + blocks * KEY_BYTES as u64)?;
        let filters_at = (index_at + index.len() as u64).next_multiple_of(64);
        let index = (0..blocks).map(|_| index.split_to(KEY_BYTES)).collect();
        let checksum = u32::try_from(checksum).unwrap_or(0);
        let identity = TableIdentity::new(FileId::from_fingerprint(id), bytes, checksum);
        let (encoded, own) = (file.read(metadata_at..footer_at)?, FileBytes { start: filters_at, ..file.clone() });
        let sidecar = FileBytes { path: sidecar_path(&file.path), start: 0 };
        let tail = fs::read(&sidecar.path).unwrap_or_default();
        // A sidecar that is damaged, or belongs to another table, is ignored.
        let newer = FilterMetadata::of_sidecar(&tail, tail.len() as u64, &identity).map(|newer| (newer, sidecar));
        let described = newer.or_else(|_| FilterMetadata::decode(&encoded).map(|metadata| (metadata, own.clone())));
        let (filters, filter_bytes) = match described {
            Ok((metadata, bytes)) => (store.open(metadata, bytes.clone()), bytes),
            Err(_) => (store.open_without_description(..), own), // A candidate for every key, so no key is lost.
        };
        Ok(Self { id, identity, file, entries, index, filters, filter_bytes })
    }

    /// Returns the entries from `start` on. Nothing is read before the first is taken.
    fn entries_from(&self, start: Bytes) -> Entries<'_> {
        let block = self.index.partition_point(|key| *key <= start).saturating_sub(1);
        let blocks = ((block * BLOCK_ENTRIES) as u64..self.entries).step_by(BLOCK_ENTRIES);
        let entries = blocks.flat_map(|first| {
            let end = self.entries.min(first + BLOCK_ENTRIES as u64);
            match self.file.read(first * ENTRY_BYTES..end * ENTRY_BYTES) {
                Ok(mut bytes) => {
                    (first..end).map(|_| Ok((bytes.split_to(KEY_BYTES), bytes.get_u64().checked_sub(1)))).collect()
                }
                Err(error) => vec![Err(error)],
            }
        });
        Box::new(entries.skip_while(move |entry| entry.as_ref().is_ok_and(|(key, _)| *key < start)))
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Entry>> {
        let first = self.entries_from(Bytes::copy_from_slice(key)).next().transpose()?;
        Ok(first.filter(|(other, _)| other == key))
    }
}

/// Entries in order, for a merge.
struct Source<'a> {
    /// The next key, or a lower bound of it until something was read. `None` at the end.
    position: Option<Bytes>,
    next: Option<Entry>,
    entries: Entries<'a>,
    candidate: Option<ScanCandidate<'a, Table>>,
}

/// Merges sources, the newest first; the newest of several entries with one key remains. A source is not read before
/// the merge reaches its lower bound.
fn merge<'a>(mut sources: Vec<Source<'a>>, range: KeyRange<'a>) -> impl Iterator<Item = io::Result<Entry>> {
    let mut last = None;
    let mut next = move || {
        let by_position = |left: &&mut Source<'_>, right: &&mut Source<'_>| left.position.cmp(&right.position);
        while let Some(source) = sources.iter_mut().filter(|source| source.position.is_some()).min_by(by_position) {
            let entry = source.next.take();
            source.next = source.entries.next().transpose()?;
            source.position = source.next.as_ref().map(|(key, _)| key.clone());
            if let Some(candidate) = source.candidate.take() {
                // The first entry shows whether the range filter was right.
                candidate.record(source.position.as_ref().is_some_and(|key| range.contains(key)));
            }
            if let Some((key, value)) = entry.filter(|(key, _)| last.as_ref() != Some(key)) {
                last = Some(key.clone());
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    };
    let is_inside = move |entry: &io::Result<Entry>| entry.as_ref().map_or(true, |(key, _)| range.contains(key));
    std::iter::from_fn(move || next().transpose()).take_while(is_inside)
}

/// Returns all tables with their levels.
fn tables(view: &FilterView<Table>) -> impl Iterator<Item = (u32, &Arc<Table>)> {
    view.levels().flat_map(|level| view.files(level).map(move |table| (level, table)))
}

struct Engine {
    directory: PathBuf,
    store: FilterStore,
    memtable: BTreeMap<Bytes, Option<u64>>,
    view: FilterView<Table>,
}

impl Engine {
    fn open(directory: &Path, store: &FilterStore) -> Fallible<Self> {
        let manifest = fs::read_to_string(directory.join("MANIFEST")).unwrap_or_default();
        let (mut edit, mut maps) = (ViewEdit::new(), Vec::new());
        for line in manifest.lines() {
            let open =
                |id: &str| Ok::<_, Box<dyn std::error::Error>>(Table::open(directory, id.parse()?, store)?.into());
            edit = match *line.split(' ').collect::<Vec<_>>() {
                ["0", age, id] => edit.add_to_level_0(age.parse()?, open(id)?),
                ["map", id] => {
                    maps.extend(Self::open_map(directory, FileId::from_fingerprint(id.parse()?), store));
                    edit
                }
                [level, id] => edit.add(level.parse()?, open(id)?),
                _ => return Err("a line of the manifest is damaged".into()),
            };
        }
        let view = FilterView::new(store).edited(edit)?;
        // A map that is refused leaves the tables to their filters.
        let view = view.with_maps(&maps).unwrap_or(view);
        Ok(Self { directory: directory.into(), store: store.clone(), memtable: BTreeMap::new(), view })
    }

    /// Makes an edit durable, then its view current.
    fn apply(&mut self, edit: ViewEdit<Table>) -> Fallible<()> {
        self.publish(self.view.edited(edit)?)
    }

    fn publish(&mut self, view: FilterView<Table>) -> Fallible<()> {
        let level_0 = view.level_0().map(|(age, table)| format!("0 {age} {}\n", table.id));
        let others = tables(&view).filter(|(level, _)| *level > 0);
        let tables = level_0.chain(others.map(|(level, table)| format!("{level} {}\n", table.id)));
        let maps = view.maps().map(|map| format!("map {}\n", map.index().map_id().fingerprint()));
        fs::write(self.directory.join("MANIFEST"), tables.chain(maps).collect::<String>())?;
        self.view = view;
        Ok(())
    }

    fn map_path(directory: &Path, map: FileId) -> PathBuf {
        directory.join(format!("{:016x}.map", map.fingerprint()))
    }

    fn open_map(directory: &Path, map: FileId, store: &FilterStore) -> Option<Arc<FileMap<Bytes>>> {
        let bytes = fs::read(Self::map_path(directory, map)).ok()?;
        FileMap::load(bytes.into(), store.filters(), map).ok().map(Arc::new)
    }

    /// Writes a file map of all tables: lookups then probe it instead of a filter per table. Tables that come later are
    /// judged by their filters until this is called again. It reads their keys only; the others are in the map before.
    fn write_map(&mut self) -> Fallible<()> {
        let (map, mut bytes) = (FileId::random(), Vec::new());
        let options = MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT)?;
        let mut write = self.view.write_map(options)?;
        for table in write.files() {
            let hash = |entry: io::Result<Entry>| Ok(self.store.filters().hash(&entry?.0));
            write.add(&table, table.entries_from(Bytes::new()).map(hash).collect::<io::Result<_>>()?)?;
        }
        write.finish(map, &mut bytes)?;
        fs::write(Self::map_path(&self.directory, map), bytes)?;
        let old: Vec<_> = self.view.maps().map(|map| Self::map_path(&self.directory, map.index().map_id())).collect();
        let map = Self::open_map(&self.directory, map, &self.store).ok_or("the map was just written")?;
        self.publish(self.view.with_maps(&[map])?)?;
        Ok(old.into_iter().try_for_each(fs::remove_file)?)
    }

    fn put_or_delete(&mut self, key: Bytes, value: Option<u64>) -> Fallible<()> {
        self.memtable.insert(key, value);
        if self.memtable.len() == TABLE_ENTRIES / 4 {
            let entries: Vec<Entry> = std::mem::take(&mut self.memtable).into_iter().collect();
            let table = self.write_table(0, &entries)?;
            self.apply(ViewEdit::new().add_to_level_0(self.view.next_age(), table))?;
        }
        let is_full = |level: &u32| self.view.files(*level).count() > MAX_TABLES_PER_LEVEL;
        (0..LAST_LEVEL).find(is_full).map_or(Ok(()), |level| self.compact(level))
    }

    /// Merges a level into the next one. A larger engine would merge some of its tables, and those that they overlap.
    fn compact(&mut self, level: u32) -> Fallible<()> {
        let (view, mut edit, mut sources) = (self.view.clone(), ViewEdit::new(), Vec::new());
        for (at, table) in tables(&view).filter(|(at, _)| (level..=level + 1).contains(at)) {
            let (position, entries) = (Some(Bytes::new()), table.entries_from(Bytes::new()));
            sources.push(Source { position, next: None, entries, candidate: None });
            edit = edit.remove(at, table);
        }
        let mut entries = merge(sources, (..).into()).collect::<io::Result<Vec<_>>>()?;
        // No level is older than the last one, so tombstones have nothing to hide there.
        entries.retain(|(_, value)| value.is_some() || level + 1 < LAST_LEVEL);
        for entries in entries.chunks(TABLE_ENTRIES) {
            edit = edit.add(level + 1, self.write_table(level + 1, entries)?);
        }
        self.apply(edit)
    }

    fn write_table(&self, level: u32, entries: &[Entry]) -> Fallible<Arc<Table>> {
        let mut store = self.store.clone();
        if level == LAST_LEVEL {
            // These are the largest filters, so a lookup reads only one partition of them.
            store = store.with_partitions(PartitionOptions::new(PartitionCut::KeyRange, 2 << 10)?);
        }
        let purpose = if level == 0 { BuildPurpose::Flush } else { BuildPurpose::Compaction };
        let filters = store.builder(FileId::random()).with_purpose(purpose).with_level(level);
        let id = Table::write(&self.directory, entries, filters)?;
        Ok(Arc::new(Table::open(&self.directory, id, &self.store)?))
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<u64>> {
        if let Some(value) = self.memtable.get(key) {
            return Ok(*value);
        }
        let mut candidates = self.view.candidates(key);
        while let Some(table) = candidates.next_file() {
            if let Some((_, value)) = table.get(key)? {
                candidates.found(); // A tombstone ends the lookup as well.
                return Ok(value);
            }
        }
        Ok(None)
    }

    fn get_many(&self, keys: &[&[u8]]) -> io::Result<Vec<Option<u64>>> {
        let mut values = vec![None; keys.len()];
        let mut candidates = self.view.candidates_of_each(keys);
        while let tables @ [_, ..] = &*candidates.next_files().to_vec() {
            for &(position, table) in tables {
                if let Some((_, value)) = table.get(keys[position])? {
                    values[position] = value;
                    candidates.found(position);
                }
            }
        }
        let newest = |(key, value): (&&[u8], _)| self.memtable.get(*key).map_or(value, |newer| *newer);
        Ok(keys.iter().zip(values).map(newest).collect())
    }

    fn scan<'a>(&'a self, range: KeyRange<'a>) -> impl Iterator<Item = Found> {
        self.entries_of(self.view.candidates_in_range(range), range)
    }

    fn scan_prefix(&self, prefix: &[u8]) -> io::Result<Vec<(Bytes, u64)>> {
        let end = KeyRange::prefix_upper_bound(prefix);
        let range = KeyRange { lower: Bound::Included(prefix), upper: end.as_ref().map(Vec::as_slice) };
        self.entries_of(self.view.candidates_by_prefix(prefix), range).collect()
    }

    fn entries_of<'a>(&'a self, tables: ScanCandidates<'a, Table>, range: KeyRange<'a>) -> impl Iterator<Item = Found> {
        let newest = self.memtable.iter().filter(move |(key, _)| range.contains(key));
        let entries: Entries<'a> = Box::new(newest.map(|(key, value)| Ok((key.clone(), *value))));
        let mut sources = vec![Source { position: Some(Bytes::new()), next: None, entries, candidate: None }];
        sources.extend(tables.map(|table| {
            let entries = table.file.entries_from(table.lower_bound.clone());
            Source { position: Some(table.lower_bound.clone()), next: None, entries, candidate: Some(table) }
        }));
        merge(sources, range).filter_map(|entry| entry.map(|(key, value)| Some((key, value?))).transpose())
    }

    /// Gives a table another filter without rewriting the table, for instance a better one if it has many lookups.
    fn rebuild_filter(&mut self, level: u32, old: &Arc<Table>, policy: FixedPolicy) -> Fallible<()> {
        let store = self.store.clone().with_policy(Arc::new(policy));
        let mut builder = store.sidecar_builder(&old.identity).with_level(level);
        old.entries_from(Bytes::new()).try_for_each(|entry| entry.map(|(key, _)| builder.add_key(&key)))?;
        let sidecar = builder.finish().seal_sidecar().ok_or("the policy wants no filter")?;
        fs::write(sidecar_path(&old.file.path), sidecar)?;
        self.apply(ViewEdit::new().replace(level, old, Arc::new(Table::open(&self.directory, old.id, &self.store)?)))
    }
}

fn key(sensor: u64, time: u64) -> Bytes {
    (u128::from(sensor) << 64 | u128::from(time)).to_le_bytes().into_iter().rev().skip(4).collect()
}

fn random(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) % end
}

/// Compares answers with the model. Sensors are even and times are multiples of 512, so most keys and ranges are
/// absent.
fn check(engine: &Engine, model: &BTreeMap<Bytes, u64>, state: &mut u64) -> Fallible<()> {
    for sensor in (0..64).cycle().take(400) {
        let keys: Vec<_> = (0..32).map(|_| key(sensor, random(state, 2_000) * 512 + random(state, 2))).collect();
        let values: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
        assert_eq!(engine.get_many(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>())?, values);
        assert_eq!(keys.iter().map(|key| engine.get(key)).collect::<io::Result<Vec<_>>>()?, values);
        let expected = |range| model.range::<Bytes, Range<Bytes>>(range).map(|(key, value)| (key.clone(), *value));
        for start in keys {
            for end in [Bytes::from([&start[..11], b"\xff"].concat()), key(64, 0)] {
                let found = engine.scan((&start..&end).into()).take(5).collect::<io::Result<Vec<_>>>()?;
                assert!(found.into_iter().eq(expected(start.clone()..end).take(5)));
            }
        }
        let keys = key(sensor, 0)..key(sensor + 1, 0);
        assert!(engine.scan_prefix(&keys.start[..4])?.into_iter().eq(expected(keys.clone())));
    }
    Ok(())
}

fn main() -> Fallible<()> {
    let (sensor, rate) = (Arc::new(FixedPrefix::new(4)), FalsePositiveRate::new(0.01)?);
    let store = FilterStore::new(
        Filters::default()
            .with_hasher(KeyHasher::default())
            .with_key_parts(KeyParts::whole_keys().with_extractor(sensor.clone())),
    )
    .with_range_filters(RangePolicy::hashed(RangeUnits::integer(8)?.with_prefix(sensor), 256, rate)?)
    .with_budget(FilterBudget::new(160 << 10));
    let (directory, mut model, mut state) = (tempfile::tempdir()?, BTreeMap::new(), 1);
    let mut engine = Engine::open(directory.path(), &store)?;
    for _ in 0..100_000 {
        let key = key(random(&mut state, 32) * 2, random(&mut state, 2_000) * 512);
        let value = Some(random(&mut state, 1_000)).filter(|value| *value >= 100);
        engine.put_or_delete(key.clone(), value)?;
        model.remove(&key);
        model.extend(value.map(|value| (key, value)));
    }
    check(&engine, &model, &mut state)?;
    let table = engine.view.files(1).next().cloned().ok_or("level 1 is empty")?;
    engine.rebuild_filter(1, &table, FixedPolicy::ribbon(FalsePositiveRate::new(0.001)?)?)?;
    // A restart. There is no log, so the memtable is carried over.
    engine = Engine { memtable: engine.memtable, ..Engine::open(directory.path(), &store)? };
    assert!(engine.view.files(1).any(|table| table.filter_bytes.path == sidecar_path(&table.file.path)));
    check(&engine, &model, &mut state)?;
    engine.write_map()?;
    // Another restart, for which the map was stored.
    engine = Engine { memtable: engine.memtable, ..Engine::open(directory.path(), &store)? };
    assert_eq!(engine.view.uncovered_files().count(), 0);
    check(&engine, &model, &mut state)?;
    println!("{:?}", engine.view.map_stats());
    for level in engine.view.levels() {
        let stats = engine.view.level_stats(level);
        let held: u64 = engine.view.files(level).map(|table| table.filters.residency().bytes).sum();
        println!("level {level}: {held} bytes of filters in memory");
        for (what, filters) in [("lookups", stats.filter), ("scans", stats.ranges)] {
            let (fpr, skipped) = (filters.observed_fpr().unwrap_or(0.0) * 100.0, filters.negatives);
            let searched = filters.positives + filters.not_loaded;
            println!("  {what} skipped {skipped} tables and searched {searched}, {fpr:.2} % false positives");
        }
    }
    Ok(())
}
