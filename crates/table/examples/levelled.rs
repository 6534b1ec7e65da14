//! A levelled LSM engine on disk whose file maps name flushes: each entry is added to a map once, and compactions add
//! none. The program writes entries of 100 bytes, compares lookups with a `BTreeMap`, restarts the engine, and prints
//! what maps cost beside compactions: `cargo run --release -p sstfilter-table --example levelled -- 4000000`. Without a
//! number, it writes fewer entries.
//!
//! The example `engine` of `sstfilter-store` has filters, scans and a budget. Left out here: a log, durable writes, and
//! threads.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use sstfilter::{FalsePositiveRate, FileId, KeyHash};
use sstfilter_map::{FileMap, FileWrites, MapBuilder, MapOptions, OutputWrites, WriteId, Writes};
use sstfilter_store::{FileFilterBuilder, FileFilters, FilterMetadata, FilterStore, FilterView, MapPolicy, ViewEdit};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;
/// A key in 8 bytes, big-endian, and a value of 92.
type Entry = (Bytes, Bytes);
const VALUE_BYTES: usize = 92;
const TABLE_ENTRIES: usize = 10_000;
const RATIO: usize = 10;
const MAX_TABLES_AT_0: usize = 4;
const MAX_LEVEL: u32 = 7;

fn key_of(number: u64) -> Bytes {
    let mut key = Vec::new();
    key.put_u64(number); // Big-endian, in the order of numbers.
    key.into()
}

/// A stored value: the number of its flush, or 0; the value; 1 for a value and 0 for a tombstone.
fn stored(number: WriteId, value: Option<u64>) -> Bytes {
    let mut stored = Vec::with_capacity(VALUE_BYTES);
    stored.put_u64_le(number.get());
    stored.put_u64_le(value.unwrap_or(0));
    stored.push(value.is_some().into());
    stored.resize(VALUE_BYTES, 0);
    stored.into()
}

fn number_at(stored: &[u8], at: usize) -> u64 {
    (&stored[at..]).get_u64_le()
}

fn is_tombstone(stored: &[u8]) -> bool {
    stored[16] == 0
}

/// An open table, and what the view knows of it.
struct OpenTable {
    id: FileId,
    table: Table,
    filters: FileFilters,
}

impl AsRef<FileFilters> for OpenTable {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

impl OpenTable {
    fn path(directory: &Path, id: FileId) -> PathBuf {
        directory.join(format!("{:016x}.sst", id.fingerprint()))
    }

    fn open(directory: &Path, description: FilterMetadata, writes: FileWrites) -> Fallible<Arc<Self>> {
        let id = description.file_id();
        let table = Table::open(Self::path(directory, id), &options())?;
        let filters = table.store().open_without_source(description).with_writes(writes);
        Ok(Arc::new(Self { id, table, filters }))
    }

    /// The smallest and the largest key.
    fn bounds(&self) -> (&[u8], &[u8]) {
        self.filters.metadata().key_bounds().unwrap_or_default()
    }

    /// All entries, with the writes that the table states.
    fn entries(&self) -> impl Iterator<Item = Result<(Entry, FileWrites), TableError>> {
        let stated = self.filters.writes();
        let entry = move |entry: sstfilter_table::Entry| ((entry.key, entry.value.unwrap_or_default()), stated);
        self.table.iter().map(move |found| found.map(entry))
    }
}

/// Writes a table, and the description that the store needs of it. It has the bounds of the keys, and no filters: maps
/// take their place.
struct NewTable {
    table: TableBuilder<Vec<u8>>,
    description: FileFilterBuilder,
}

impl NewTable {
    fn new(store: &FilterStore) -> Result<Self, TableError> {
        let table = TableBuilder::new(Vec::new(), &options())?;
        Ok(Self { table, description: store.builder(FileId::random()) })
    }

    fn add(&mut self, (key, value): &Entry) -> Result<(), TableError> {
        self.description.add_key(key);
        self.table.add(key, value)
    }

    fn finish(self, directory: &Path, writes: FileWrites) -> Fallible<Arc<OpenTable>> {
        let (_, description) = self.description.finish().seal();
        fs::write(OpenTable::path(directory, description.file_id()), self.table.finish()?.0)?;
        OpenTable::open(directory, description, writes)
    }
}

/// Bytes in the manifest, which is text.
fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    let pairs = (0..text.len() / 2).map(|at| text.get(2 * at..2 * at + 2).unwrap_or_default());
    pairs.map(|pair| u8::from_str_radix(pair, 16)).collect()
}

fn options() -> TableOptions {
    TableOptions::default().without_filter().without_sidecars()
}

/// Bytes that were written, and processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    bytes: u64,
    time: Duration,
}

/// The time for which this thread has run; on other systems than Linux, the time of the clock.
fn processor_time() -> Duration {
    std::thread::yield_now(); // Linux adds the time since the last switch when a thread yields.
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok()).map(Duration::from_nanos);
    ns.unwrap_or_else(|| START.with(Instant::elapsed))
}

thread_local!(static START: Instant = Instant::now());

/// Adds a table. The age of a table at level 0 is the number of its flush, which the manifest has.
fn add(edit: ViewEdit<OpenTable>, level: u32, table: Arc<OpenTable>) -> ViewEdit<OpenTable> {
    match level {
        0 => edit.add_to_level_0(table.filters.writes().writes().last().get(), table),
        _ => edit.add(level, table),
    }
}

struct Engine {
    directory: PathBuf,
    store: FilterStore,
    options: MapOptions,
    memtable: BTreeMap<u64, Option<u64>>,
    view: FilterView<OpenTable>,
    /// One more each time the directory is opened, so that no flush gets the number of one that a crash has lost.
    epoch: u32,
    flushes: u64,
    /// For each level, the largest key of the table that was compacted last.
    compacted: [Vec<u8>; MAX_LEVEL as usize + 1],
    flushed_entries: u64,
    compaction: Cost,
    maps: Cost,
}

impl Engine {
    /// Replays the manifest: lines of edits, one write for each edit.
    fn open(directory: &Path, max_entries: u64) -> Fallible<Self> {
        let store = FilterStore::default().without_point_filters();
        let manifest = fs::read_to_string(directory.join("MANIFEST")).unwrap_or_default();
        let (mut epoch, mut flushed, mut tables, mut ids) = (1, None, BTreeMap::new(), Vec::new());
        for line in manifest.lines() {
            match *line.split(' ').collect::<Vec<_>>() {
                ["epoch", last] => epoch = last.parse::<u32>()? + 1,
                ["flushed", last] => flushed = Some(WriteId::from_stored(last.parse()?)),
                ["map", id] => ids.push(id),
                ["table", id, level, writes, description] => {
                    tables.insert(id, (level.parse()?, FileWrites::decode(&unhex(writes)?)?, description));
                }
                ["remove", id] => {
                    tables.remove(id);
                    ids.retain(|other| *other != id);
                }
                _ => return Err("a line of the manifest is damaged".into()),
            }
        }
        let mut edit = ViewEdit::new();
        for (level, writes, description) in tables.into_values() {
            let bytes = unhex(description)?;
            edit = add(edit, level, OpenTable::open(directory, FilterMetadata::decode(&bytes)?, writes)?);
        }
        let options = MapOptions::for_entries(max_entries, FalsePositiveRate::ONE_PERCENT)?;
        let (compaction, maps) = (Cost::default(), Cost::default());
        let (memtable, view) = (BTreeMap::new(), FilterView::new(&store).edited(edit)?);
        let view = flushed.map_or(view.clone(), |last| view.with_flushed(last));
        let (compacted, directory) = (Default::default(), directory.to_owned());
        let mut engine = Self {
            directory,
            store,
            options,
            memtable,
            view,
            epoch,
            flushes: 0,
            compacted,
            flushed_entries: 0,
            compaction,
            maps,
        };
        // A map that is missing or damaged leaves its tables uncovered. Then every one of them is searched.
        let ids = ids.iter().map(|id| id.parse().map(FileId::from_fingerprint)).collect::<Result<Vec<_>, _>>()?;
        let maps: Vec<_> = ids.iter().filter_map(|map| engine.open_map(*map)).collect();
        engine.view = engine.view.with_maps(&maps).unwrap_or(engine.view);
        engine.log(&format!("epoch {epoch}\n"))?;
        Ok(engine)
    }

    fn log(&self, lines: &str) -> io::Result<()> {
        let manifest = OpenOptions::new().create(true).append(true).open(self.directory.join("MANIFEST"));
        manifest?.write_all(lines.as_bytes())
    }

    fn put_or_delete(&mut self, key: u64, value: Option<u64>) -> Fallible<()> {
        self.memtable.insert(key, value);
        if self.memtable.len() == TABLE_ENTRIES {
            self.flush()?;
            while let Some(level) = (0..MAX_LEVEL).find(|level| self.is_full(*level)) {
                self.compact(level)?;
            }
        }
        Ok(())
    }

    fn hashes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<KeyHash> {
        keys.map(|key| self.store.filters().hash(key)).collect()
    }

    fn flush(&mut self) -> Fallible<()> {
        let number = self.next_number()?;
        let memtable = std::mem::take(&mut self.memtable);
        let entry = |(key, value): (u64, Option<u64>)| (key_of(key), stored(number, value));
        let entries: Vec<Entry> = memtable.into_iter().map(entry).collect();
        self.join(&entries, FileWrites::of_flush(Writes::of(number)))
    }

    /// Adds a table from elsewhere, whose entries are newer than all others. They keep what they carry, which may be
    /// numbers of another store.
    fn ingest(&mut self, entries: &[Entry]) -> Fallible<()> {
        if !self.memtable.is_empty() {
            self.flush()?;
        }
        let number = self.next_number()?;
        self.join(entries, FileWrites::of_ingestion(number))
    }

    fn next_number(&mut self) -> Fallible<WriteId> {
        self.flushes += 1;
        Ok(WriteId::new(self.epoch, self.flushes).ok_or("too many flushes")?)
    }

    /// Writes the table of a flush or an ingestion, and its map.
    fn join(&mut self, entries: &[Entry], writes: FileWrites) -> Fallible<()> {
        self.flushed_entries += entries.len() as u64;
        let mut builder = NewTable::new(&self.store)?;
        entries.iter().try_for_each(|entry| builder.add(entry))?;
        let table = builder.finish(&self.directory, writes)?;
        let begin = processor_time();
        // The map of the flush, before the table is in the view.
        let (map, mut bytes) = (FileId::random(), Vec::new());
        let mut builder = MapBuilder::new(self.store.filters(), self.options);
        builder.add_writes(self.view.flush_covers(writes), self.hashes(entries.iter().map(|(key, _)| &key[..])));
        builder.finish(map, &mut bytes)?;
        self.maps.time += processor_time().saturating_sub(begin);
        self.apply(&[], &[(0, table)], Some(writes.writes().last()))?;
        self.publish_map(map, bytes, &[])?;
        self.merge_maps()
    }

    fn map_path(&self, map: FileId) -> PathBuf {
        self.directory.join(format!("{:016x}.map", map.fingerprint()))
    }

    fn open_map(&self, map: FileId) -> Option<Arc<FileMap<Bytes>>> {
        let bytes = fs::read(self.map_path(map)).ok()?;
        FileMap::load(bytes.into(), self.store.filters(), map).ok().map(Arc::new)
    }

    fn publish_map(&mut self, map: FileId, bytes: Vec<u8>, replaced: &[FileId]) -> Fallible<()> {
        let begin = processor_time();
        self.maps.bytes += bytes.len() as u64;
        fs::write(self.map_path(map), &bytes)?;
        let new = Arc::new(FileMap::load(bytes.into(), self.store.filters(), map)?);
        let others = self.view.maps().filter(|old| !replaced.contains(&old.index().map_id())).cloned();
        self.view = self.view.with_maps(&others.chain([new]).collect::<Vec<_>>())?;
        let gone = replaced.iter().map(|old| format!("remove {}\n", old.fingerprint()));
        self.log(&gone.chain([format!("map {}\n", map.fingerprint())]).collect::<String>())?;
        replaced.iter().try_for_each(|old| fs::remove_file(self.map_path(*old)))?;
        self.maps.time += processor_time().saturating_sub(begin);
        Ok(())
    }

    /// Merges maps, or rebuilds them from keys. A larger engine does it in the background.
    fn merge_maps(&mut self) -> Fallible<()> {
        loop {
            let begin = processor_time();
            let Some(reason) = self.view.needs_map(&MapPolicy::default()) else {
                self.maps.time += processor_time().saturating_sub(begin);
                return Ok(());
            };
            let (map, mut bytes) = (FileId::random(), Vec::new());
            let mut write = self.view.write_map_for(reason, self.options)?;
            for table in write.files() {
                let hash = |found: Result<(Entry, _), _>| found.map(|((key, _), _)| self.store.filters().hash(&key));
                write.add(&table, table.entries().map(hash).collect::<Result<_, _>>()?)?;
            }
            let replaced = write.replaced().to_vec();
            write.finish(map, &mut bytes)?;
            self.maps.time += processor_time().saturating_sub(begin);
            self.publish_map(map, bytes, &replaced)?;
        }
    }

    /// Makes an edit durable, then its view current.
    fn apply(
        &mut self,
        old: &[(u32, Arc<OpenTable>)],
        new: &[(u32, Arc<OpenTable>)],
        flushed: Option<WriteId>,
    ) -> Fallible<()> {
        let edit = old.iter().fold(ViewEdit::new(), |edit, (level, table)| edit.remove(*level, table));
        let edit = new.iter().fold(edit, |edit, (level, table)| add(edit, *level, table.clone()));
        let view = self.view.edited(edit)?;
        let gone = old.iter().map(|(_, table)| format!("remove {}\n", table.id.fingerprint()));
        let added = new.iter().map(|(level, table)| {
            let (id, writes) = (table.id.fingerprint(), hex(&table.filters.writes().encode()));
            let description = hex(&table.filters.metadata().encode());
            format!("table {id} {level} {writes} {description}\n")
        });
        // With the table of the flush, so that no crash comes between.
        let last = flushed.iter().map(|last| format!("flushed {}\n", last.get()));
        self.log(&gone.chain(added).chain(last).collect::<String>())?;
        self.view = flushed.map_or(view.clone(), |last| view.with_flushed(last));
        Ok(old.iter().try_for_each(|(_, table)| fs::remove_file(OpenTable::path(&self.directory, table.id)))?)
    }

    fn is_full(&self, level: u32) -> bool {
        let max = if level == 0 { MAX_TABLES_AT_0 } else { RATIO.pow(level) };
        self.view.files(level).count() > max
    }

    /// Merges a table of a level, or all of level 0, with the tables of the next level that overlap it.
    fn compact(&mut self, level: u32) -> Fallible<()> {
        let all: Vec<_> = self.view.files(level).cloned().collect();
        let next = all.iter().find(|table| table.bounds().1 > &self.compacted[level as usize][..]).or(all.first());
        let taken = match next {
            // In turn, and without leaving a stretch of keys out: what stays behind would mix old writes with new ones.
            Some(next) if level > 0 => vec![next.clone()],
            _ => all,
        };
        let first = taken.iter().map(|table| table.bounds().0).min().unwrap_or_default();
        let last = taken.iter().map(|table| table.bounds().1).max().unwrap_or_default();
        self.compacted[level as usize] = last.to_vec();
        let is_met = |table: &&Arc<OpenTable>| table.bounds().1 >= first && table.bounds().0 <= last;
        let met: Vec<_> = self.view.files(level + 1).filter(is_met).cloned().collect();
        let is_last = (level + 2..=MAX_LEVEL).all(|level| self.view.files(level).next().is_none());

        let begin = processor_time();
        let new = self.merge_tables(&taken, &met, is_last)?;
        self.compaction.time += processor_time().saturating_sub(begin);
        self.compaction.bytes += new.iter().map(|table| table.table.file_bytes()).sum::<u64>();

        let at = |level: u32, tables: Vec<Arc<OpenTable>>| tables.into_iter().map(move |table| (level, table));
        let old: Vec<_> = at(level, taken).chain(at(level + 1, met)).collect();
        self.apply(&old, &at(level + 1, new).collect::<Vec<_>>(), None)
    }

    /// Merges tables, the newest first, with a run of older ones that do not overlap.
    fn merge_tables(
        &self,
        newer: &[Arc<OpenTable>],
        run: &[Arc<OpenTable>],
        is_last: bool,
    ) -> Fallible<Vec<Arc<OpenTable>>> {
        let sources = newer.iter().map(std::slice::from_ref).chain([run]);
        let mut sources: Vec<_> =
            sources.map(|tables| tables.iter().flat_map(|table| table.entries()).peekable()).collect();
        let (mut new, mut open) = (Vec::new(), None::<(NewTable, OutputWrites)>);
        while let Some((mut entry, stated)) = next_of(&mut sources)? {
            if is_last && is_tombstone(&entry.1) {
                continue; // It has nothing left to hide.
            }
            let number = WriteId::from_stored(number_at(&entry.1, 0));
            if is_last {
                // As engines do, because zeros take fewer bytes once they are compressed.
                entry.1 = [&[0; 8], &entry.1[8..]].concat().into();
            }
            let (mut builder, mut writes) = match open.take() {
                Some(open) => open,
                None => (NewTable::new(&self.store)?, OutputWrites::default()),
            };
            builder.add(&entry)?;
            writes.add(stated, Some(number));
            if builder.table.entries() == TABLE_ENTRIES as u64 {
                new.push(builder.finish(&self.directory, writes.finish())?);
            } else {
                open = Some((builder, writes));
            }
        }
        if let Some((builder, writes)) = open {
            new.push(builder.finish(&self.directory, writes.finish())?);
        }
        Ok(new)
    }

    /// Returns a key's value, and how many tables were searched.
    fn get(&self, view: &FilterView<OpenTable>, key: u64) -> Fallible<(Option<u64>, u32)> {
        if let Some(value) = self.memtable.get(&key) {
            return Ok((*value, 0));
        }
        let (key, mut searched) = (key_of(key), 0);
        let mut candidates = view.candidates(&key);
        while let Some(table) = candidates.next_file() {
            searched += 1;
            if let Lookup::Found(value) = table.table.get(&key)? {
                candidates.found();
                return Ok((Some(number_at(&value, 8)).filter(|_| !is_tombstone(&value)), searched));
            }
        }
        Ok((None, searched))
    }
}

/// Returns the next entry of sorted sources, the newest first, and skips older ones with its key.
fn next_of(
    sources: &mut [Peekable<impl Iterator<Item = Result<(Entry, FileWrites), TableError>>>],
) -> Result<Option<(Entry, FileWrites)>, TableError> {
    let mut newest: Option<(usize, Bytes)> = None;
    for (number, source) in sources.iter_mut().enumerate() {
        let key = match source.peek() {
            None => continue,
            Some(Ok(((key, _), _))) => key,
            Some(Err(_)) => return source.next().transpose(),
        };
        if newest.as_ref().is_none_or(|(_, least)| key < least) {
            newest = Some((number, key.clone()));
        }
    }
    let Some((number, key)) = newest else { return Ok(None) };
    let found = sources[number].next().transpose();
    for older in &mut sources[number + 1..] {
        older.next_if(|found| found.as_ref().is_ok_and(|((other, _), _)| *other == key));
    }
    found
}

fn random(state: &mut u64) -> u64 {
    *state += 1;
    KeyHash::mix(*state).get()
}

/// Compares lookups with the model. Returns how many tables were searched per present key and per absent one.
fn check(engine: &Engine, view: &FilterView<OpenTable>, model: &BTreeMap<u64, Option<u64>>) -> Fallible<[f64; 2]> {
    let (mut present, mut absent) = ((0, 0), (0, 0));
    for (&key, &value) in model.iter().step_by(model.len().div_ceil(5_000)) {
        let (found, searched) = engine.get(view, key)?;
        assert_eq!(found, value, "key {key}");
        if value.is_some() && !engine.memtable.contains_key(&key) {
            present = (present.0 + 1, present.1 + searched);
        }
        let (found, searched) = engine.get(view, key ^ 1)?;
        assert_eq!(found, None);
        absent = (absent.0 + 1, absent.1 + searched);
    }
    Ok([present, absent].map(|(lookups, searched)| f64::from(searched) / f64::from(lookups)))
}

fn main() -> Fallible<()> {
    let entries: u64 = std::env::args().nth(1).map_or(Ok(300_000), |entries| entries.parse())?;
    let (directory, mut model, mut state) = (tempfile::tempdir()?, BTreeMap::new(), 0);
    let mut engine = Engine::open(directory.path(), entries)?;
    for number in 0..entries {
        // As many keys as entries, all even, so that a third of all writes are updates; one in twenty is a tombstone.
        let key = (random(&mut state) % entries).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !1;
        let value = Some(number).filter(|number| number % 20 > 0);
        engine.put_or_delete(key, value)?;
        model.insert(key, value);
    }
    let [present, absent] = check(&engine, &engine.view, &model)?;
    let [present_without, absent_without] = check(&engine, &engine.view.with_maps(&[])?, &model)?;
    let (flushed, compaction, maps) = (engine.flushed_entries, engine.compaction, engine.maps);
    let per_entry = |cost: Cost| (cost.bytes as f64 / flushed as f64, cost.time.as_nanos() as f64 / flushed as f64);
    let ((compaction_bytes, compaction_ns), (map_bytes, map_ns)) = (per_entry(compaction), per_entry(maps));
    println!(
        "{} flushes, {flushed} entries of {} bytes, {} levels",
        engine.flushes,
        8 + VALUE_BYTES,
        engine.view.levels().count()
    );
    println!("per flushed entry: compactions wrote {compaction_bytes:.0} bytes in {compaction_ns:.0} ns");
    println!("                   maps took {map_bytes:.1} bytes and {map_ns:.0} ns of processor time");
    println!(
        "maps beside compactions: {:.2} % of the bytes, {:.2} % of the processor time",
        100.0 * map_bytes / compaction_bytes,
        100.0 * map_ns / compaction_ns
    );
    println!("tables searched per present key: {present:.3}, without maps {present_without:.2}");
    println!("tables searched per absent key: {absent:.3}, without maps {absent_without:.2}");
    println!("{} maps, {:?}", engine.view.maps().count(), engine.view.map_stats());

    // Every tenth key, from another store of the same number of flushes, which has numbered them in the same way.
    let flushes = engine.flushes;
    let foreign =
        |key: &u64| stored(WriteId::from_stored(1 << 40 | (KeyHash::mix(*key).get() % flushes + 1)), Some(*key));
    let keys: Vec<u64> = model.keys().copied().step_by(10).take(TABLE_ENTRIES).collect();
    engine.ingest(&keys.iter().map(|key| (key_of(*key), foreign(key))).collect::<Vec<_>>())?;
    model.extend(keys.iter().map(|key| (*key, Some(*key))));
    check(&engine, &engine.view, &model)?;

    // A restart. There is no log, so the memtable is carried over. The new epoch numbers flushes that follow.
    engine = Engine { memtable: engine.memtable, ..Engine::open(directory.path(), entries)? };
    assert_eq!(engine.view.uncovered_files().count(), 0);
    for (number, ingested) in (0..entries).zip(keys.iter().cycle()) {
        // Between the keys that were ingested, and before them.
        let key = if number % 2 == 0 { number } else { ingested ^ 2 };
        engine.put_or_delete(key, Some(number))?;
        model.insert(key, Some(number));
    }
    let [present, absent] = check(&engine, &engine.view, &model)?;
    println!("after an ingestion and a restart: {present:.3} tables per present key, {absent:.3} per absent key");
    Ok(())
}
