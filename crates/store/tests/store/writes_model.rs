//! Random stores with maps of writes, compared with a map of keys. Flushes, ingested and restored files, files of
//! before, compactions of any shape, damaged and rebuilt maps, and restarts: no key is lost, whatever numbers entries
//! carry. Without faults, nearly every key is found in the first file that is searched.
//!
//! A failure prints the seed of its world and the step.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::FileId;
use sstfilter_map::{FileMap, FileWrites, MapBuilder, MapOptions, OutputWrites, WriteId, Writes};
use sstfilter_store::{FileFilters, FilterMetadata, FilterStore, FilterView, MapPolicy, MapReason, ViewEdit};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::AddNewest;

/// A key, the number that the entry carries, and a value or a tombstone.
type Entry = (u32, Option<WriteId>, Option<u32>);
type Map = Arc<FileMap<Bytes>>;

/// Even keys are written; odd ones never are.
const KEYS: u32 = 128;
const LEVELS: u32 = 4;

struct File {
    entries: Vec<Entry>,
    metadata: FilterMetadata,
    filters: FileFilters,
}

impl AsRef<FileFilters> for File {
    fn as_ref(&self) -> &FileFilters {
        &self.filters
    }
}

impl File {
    fn new(store: &FilterStore, entries: Vec<Entry>, writes: FileWrites) -> Arc<Self> {
        let mut builder = store.builder(FileId::random());
        entries.iter().for_each(|(key, ..)| builder.add_key(&key.to_be_bytes()));
        Self::open(store, entries, builder.finish().seal().1, writes)
    }

    fn open(store: &FilterStore, entries: Vec<Entry>, metadata: FilterMetadata, writes: FileWrites) -> Arc<Self> {
        let filters = store.open_without_source(metadata.clone()).with_writes(writes);
        Arc::new(Self { entries, metadata, filters })
    }

    fn ends(&self) -> (u32, u32) {
        (self.entries[0].0, self.entries.last().unwrap().0)
    }
}

/// A store without faults: every flush has its map, and maps are written when they are due.
#[derive(Clone, Copy, Debug)]
struct Sound {
    /// Whether files of another store are ingested now and then.
    ingests: bool,
    /// Whether entries carry numbers.
    has_numbers: bool,
}

struct World {
    random: Random,
    sound: Option<Sound>,
    store: FilterStore,
    view: FilterView<File>,
    model: BTreeMap<u32, Option<u32>>,
    /// The last number given.
    last: (u32, u64),
    values: u32,
    /// Maps that are published later.
    late: Vec<Map>,
    /// The entries of files that have left.
    gone: Vec<Vec<Entry>>,
    flushes: usize,
}

fn options() -> MapOptions {
    MapOptions::with_prefix_bits(40).unwrap().with_page_bytes(1 << 10).unwrap()
}

impl World {
    /// A store with a few files that it had before it had maps.
    fn new(seed: u64, sound: Option<Sound>) -> Self {
        let store = FilterStore::default().without_point_filters();
        let mut world = Self {
            random: Random::new(seed),
            sound,
            view: FilterView::new(&store),
            store,
            model: BTreeMap::new(),
            last: (0, 20),
            values: 0,
            late: Vec::new(),
            gone: Vec::new(),
            flushes: 0,
        };
        let last = world.id(0);
        let earlier_files = if sound.is_some() { 0 } else { world.random.below(4) };
        for _ in 0..earlier_files {
            let is_unknown = world.random.one_in(4);
            let writes = if is_unknown { FileWrites::UNKNOWN } else { FileWrites::of_earlier_file(last) };
            let entries = world.foreign_entries();
            world.add(0, &[], vec![File::new(&world.store, entries, writes)]);
        }
        if world.is_faulty(2) {
            world.view = world.view.with_flushed(last);
        }
        world
    }

    /// Returns whether a fault happens that one time in so many does.
    fn is_faulty(&mut self, one_in: usize) -> bool {
        self.sound.is_none() && self.random.one_in(one_in)
    }

    /// The number `ahead` of the last one given, or behind it.
    fn id(&self, ahead: i64) -> WriteId {
        WriteId::new(self.last.0, self.last.1.saturating_add_signed(ahead)).unwrap()
    }

    fn below(&mut self, end: u32) -> u32 {
        (0..end).nth(self.random.below(end as usize)).unwrap()
    }

    /// Values and tombstones of a few keys, without numbers.
    fn entries(&mut self) -> Vec<Entry> {
        let mut entries = BTreeMap::new();
        for _ in 0..=self.random.below(10) {
            self.values += 1;
            let value = Some(self.values).filter(|_| !self.random.one_in(5));
            entries.insert(self.below(KEYS) & !1, value);
        }
        self.model.extend(&entries);
        entries.into_iter().map(|(key, value)| (key, None, value)).collect()
    }

    /// Those that another store wrote, with any numbers.
    fn foreign_entries(&mut self) -> Vec<Entry> {
        let mut entries = self.entries();
        for (_, number, _) in &mut entries {
            let near = i64::from(self.below(60)) - 40;
            *number = match self.random.below(4) {
                0 => None,
                1 => WriteId::new(self.below(3), u64::from(self.below(100))),
                _ => Some(self.id(near)),
            };
        }
        entries
    }

    fn map(&mut self, covered: Writes, keys: impl Iterator<Item = u32>) -> Map {
        let (map, mut bytes) = (FileId::random(), Vec::new());
        let mut builder = MapBuilder::new(self.store.filters(), options());
        builder.add_writes(covered, keys.map(|key| self.store.filters().hash(&key.to_be_bytes())).collect());
        builder.finish(map, &mut bytes).unwrap();
        self.load(bytes)
    }

    /// Loads a map; one in eight is damaged.
    fn load(&mut self, mut bytes: Vec<u8>) -> Map {
        bytes[50] ^= u8::from(self.is_faulty(8));
        Arc::new(FileMap::load_any(Bytes::from(bytes)).unwrap())
    }

    fn publish(&mut self, new: Option<Map>, replaced: &[FileId]) {
        let old = self.view.maps().filter(|map| !replaced.contains(&map.index().map_id())).cloned();
        self.view = self.view.with_maps(&old.chain(new).collect::<Vec<_>>()).unwrap();
    }

    fn add(&mut self, level: u32, old: &[(u32, Arc<File>)], new: Vec<Arc<File>>) {
        let edit = old.iter().fold(ViewEdit::new(), |edit, (level, file)| edit.remove(*level, file));
        let edit = new.into_iter().fold(edit, |edit, file| edit.add_newest(level, file));
        self.view = self.view.edited(edit).unwrap();
        self.gone.extend(old.iter().map(|(_, file)| file.entries.clone()));
    }

    /// Takes one or more new numbers, as the writes of a file.
    fn new_writes(&mut self) -> Writes {
        self.last.1 += 1 + self.random.below(3) as u64;
        let first = self.id(0);
        self.last.1 += self.random.below(3) as u64;
        Writes::new(first, self.id(0)).unwrap()
    }

    fn flush(&mut self) {
        self.flushes += 1;
        if self.is_faulty(8) {
            // A crash loses a flush, but not its map. It is repeated with other keys.
            let writes = self.new_writes();
            let covered = self.view.flush_covers(FileWrites::of_flush(writes));
            let map = self.map(covered, [1, 5].into_iter());
            self.publish(Some(map), &[]);
            self.last.0 += 1;
        }
        let (mut entries, writes) = (self.entries(), self.new_writes());
        let counters = writes.first().get()..=writes.last().get();
        if !self.is_faulty(6) && self.sound.is_none_or(|sound| sound.has_numbers) {
            for (_, number, _) in &mut entries {
                let numbers: Vec<_> = counters.clone().map(WriteId::from_stored).collect();
                *number = Some(*self.random.pick(&numbers));
            }
        }
        self.join(entries, FileWrites::of_flush(writes));
    }

    fn ingest(&mut self) {
        let entries = if self.random.one_in(2) || self.gone.is_empty() {
            self.foreign_entries()
        } else {
            let restored = self.random.pick(&self.gone).clone();
            self.model.extend(restored.iter().map(|(key, _, value)| (*key, *value)));
            restored
        };
        let number = self.new_writes().last();
        self.join(entries, FileWrites::of_ingestion(number));
    }

    /// Adds the file of a flush or an ingestion. Its map comes before, with it, later, or never.
    fn join(&mut self, entries: Vec<Entry>, writes: FileWrites) {
        let covered = self.view.flush_covers(writes);
        let map = self.map(covered, entries.iter().map(|entry| entry.0));
        let when = if self.sound.is_some() { 5 } else { self.random.below(6) };
        if when == 0 {
            self.publish(Some(map.clone()), &[]);
        }
        self.add(0, &[], vec![File::new(&self.store, entries, writes)]);
        self.view = self.view.with_flushed(writes.writes().last());
        match when {
            0 | 1 => {}
            2 => self.late.push(map),
            _ => self.publish(Some(map), &[]),
        }
    }

    /// Rewrites files of a level, into the next one or into the same, with other ends.
    fn compact(&mut self) {
        let level = self.below(LEVELS);
        let mut taken: Vec<_> = self.view.files(level).cloned().collect();
        let Some(most) = taken.len().checked_sub(1) else { return };
        // Of level 0, the oldest ones.
        let (first, count) = (self.random.below(most + 1), self.random.below(most + 1) + 1);
        taken.drain(..first);
        if level > 0 {
            taken.truncate(count);
        }
        let target = if level > 0 && (level + 1 == LEVELS || self.random.one_in(3)) { level } else { level + 1 };
        let least = taken.iter().map(|file| file.ends().0).min().unwrap();
        let greatest = taken.iter().map(|file| file.ends().1).max().unwrap();
        let mut inputs: Vec<_> = taken.into_iter().map(|file| (level, file)).collect();
        if target > level {
            let overlaps = |file: &&Arc<File>| file.ends().0 <= greatest && least <= file.ends().1;
            inputs.extend(self.view.files(target).filter(overlaps).map(|file| (target, file.clone())));
        }
        let mut merged = BTreeMap::new();
        for (_, file) in &inputs {
            file.entries.iter().for_each(|entry| _ = merged.entry(entry.0).or_insert((*entry, file.filters.writes())));
        }
        let is_last = (target + 1..LEVELS).all(|level| self.view.files(level).next().is_none());
        let mut kept: Vec<_> = merged.into_values().filter(|(entry, _)| !is_last || entry.2.is_some()).collect();
        let (forgets, mut new) = (if self.sound.is_some() { 7 } else { self.random.below(8) }, Vec::new());
        while !kept.is_empty() {
            let mut writes = OutputWrites::default();
            let mut entries = Vec::new();
            for (entry, input) in kept.drain(..kept.len().min(1 + self.random.below(12))) {
                // Numbers are kept, removed or set to zero, of some entries or of all, or this compaction does not know
                // them.
                writes.add(input, entry.1.filter(|_| forgets < 6));
                let is_kept = match forgets {
                    0 | 2 | 6 => false,
                    1 | 3 => self.random.one_in(2),
                    _ => true,
                };
                let zero = WriteId::new(self.below(3), 0).filter(|_| forgets < 2);
                entries.push((entry.0, entry.1.filter(|_| is_kept).or(zero), entry.2));
            }
            new.push(File::new(&self.store, entries, writes.finish()));
        }
        self.add(target, &inputs, new);
    }

    fn due_map(&self) -> Option<MapReason> {
        self.view.needs_map(&MapPolicy::default().with_max_uncovered_files(3).with_fan_in(3))
    }

    /// Merges or rebuilds maps, whether that is due or not. The result may be published after other edits.
    fn write_map(&mut self) {
        let due = self.due_map();
        let maps = self.view.maps().count();
        let reason = due.unwrap_or(match self.random.below(4) {
            0 => MapReason::Damaged,
            1 => MapReason::Garbage(1),
            2 => MapReason::UncoveredFiles(1),
            _ => MapReason::Tier(1 + self.random.below(maps + 1)),
        });
        let hash = |entry: &Entry| self.store.filters().hash(&entry.0.to_be_bytes());
        let (mut bytes, mut replaced) = (Vec::new(), Vec::new());
        let mut write = || {
            let mut write = self.view.write_map_for(reason, options())?;
            write.files().iter().try_for_each(|file| write.add(file, file.entries.iter().map(hash).collect()))?;
            replaced = write.replaced().to_vec();
            write.finish(FileId::random(), &mut bytes)
        };
        if let Err(error) = write() {
            // A restart may have forgotten which flushes have joined.
            assert!(due.is_none() || self.view.flushed().is_none(), "{reason:?} is due: {error}");
            return;
        }
        if self.is_faulty(4) {
            self.compact();
            self.flush();
        }
        let map = self.load(bytes);
        self.publish(Some(map), &replaced);
    }

    /// Opens the store again, from what a manifest has. Some maps are missing; so may be the last number flushed.
    fn restart(&mut self) {
        let mut edit = ViewEdit::new();
        for level in 0..LEVELS {
            let files: Vec<_> = self.view.files(level).collect();
            for file in files.into_iter().rev() {
                let writes = FileWrites::decode(&file.filters.writes().encode()).unwrap();
                edit = edit
                    .add_newest(level, File::open(&self.store, file.entries.clone(), file.metadata.clone(), writes));
            }
        }
        let mut view = FilterView::new(&self.store).edited(edit).unwrap();
        if let Some(last) = self.view.flushed().filter(|_| !self.random.one_in(4)) {
            view = view.with_flushed(last);
        }
        let maps: Vec<_> = self.view.maps().filter(|_| !self.random.one_in(4)).cloned().collect();
        self.view = view.with_maps(&maps).unwrap();
        self.late.clear();
        self.last.0 += 1;
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => self.flush(),
            6..8 => self.ingest(),
            8..14 => self.compact(),
            14..17 => self.write_map(),
            17 | 18 => {
                let late = self.late.pop();
                self.publish(late, &[]);
            }
            _ => self.restart(),
        }
    }

    fn sound_step(&mut self, sound: Sound) {
        match self.random.below(20) {
            0 if sound.ingests => self.ingest(),
            0..8 => self.flush(),
            _ => self.compact(),
        }
        let mut written = 0;
        while let Some(reason) = self.due_map() {
            written += 1;
            assert!(written < 10, "what was due is done: {reason:?}");
            self.write_map();
        }
    }

    /// Looks up all keys. Returns how many files were searched, and how many have the key within their bounds.
    fn check(&self) -> [usize; 2] {
        let mut searched = [0; 2];
        for key in 0..KEYS {
            let bytes = key.to_be_bytes();
            let (mut candidates, mut found) = (self.view.candidates(&bytes), None);
            while let Some(file) = candidates.next_file() {
                searched[0] += 1;
                if let Ok(place) = file.entries.binary_search_by_key(&key, |entry| entry.0) {
                    found = file.entries[place].2;
                    candidates.found();
                    break;
                }
            }
            assert_eq!(found, self.model.get(&key).copied().flatten(), "key {key}");
            let files = (0..LEVELS).flat_map(|level| self.view.files(level));
            searched[1] += files.filter(|file| file.ends().0 <= key && key <= file.ends().1).count();
        }
        self.check_batch();
        assert_eq!(self.view.map_stats().dropped, 0);
        searched
    }

    /// Looks up all keys together.
    fn check_batch(&self) {
        let keys: Vec<_> = (0..KEYS).map(u32::to_be_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let (mut batch, mut found) = (self.view.candidates_of_each(&keys), vec![None; keys.len()]);
        loop {
            let files = batch.next_files().to_vec();
            if files.is_empty() {
                break;
            }
            for (position, file) in files {
                let key = u32::try_from(position).unwrap();
                if let Ok(place) = file.entries.binary_search_by_key(&key, |entry| entry.0) {
                    found[position] = file.entries[place].2;
                    batch.found(position);
                }
            }
        }
        let expected: Vec<_> = (0..KEYS).map(|key| self.model.get(&key).copied().flatten()).collect();
        assert_eq!(found, expected, "a batch");
    }
}

// promise: file-maps
#[test]
fn no_key_of_a_random_store_is_lost_whatever_numbers_its_entries_carry() {
    let (worlds, steps) = match (effort::is_short(), effort::is_long()) {
        (true, _) => (20, 60),
        (_, false) => (200, 100),
        (_, true) => (effort::of_minutes(10_000, 400, 200), 200),
    };
    let mut searched = [0; 2];
    for seed in 0..worlds {
        let mut world = World::new(seed, None);
        for step in 0..steps {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                world.step();
                world.check()
            }));
            let of_step = result.unwrap_or_else(|_| panic!("seed {seed}, step {step}"));
            searched = core::array::from_fn(|at| searched[at] + of_step[at]);
        }
    }
    println!("files searched, and files by bounds alone: {searched:?}");
    // Most maps are missing or damaged now and then, so this only shows that maps are used.
    assert!(searched[0] * 2 < searched[1], "{searched:?}");
}

/// Merges coalesce the writes that all files above the last level have passed, so the number of maps and of their
/// intervals of writes stays small.
// promise: file-maps
#[test]
fn in_a_store_without_faults_few_files_are_searched_for_a_key_and_maps_are_few() {
    let (worlds, steps) = if effort::is_long() { (40, 1_000) } else { (4, 500) };
    for (ingests, has_numbers) in [(false, true), (true, true), (false, false)] {
        let sound = Sound { ingests, has_numbers };
        let (mut searched, mut written, mut maps, mut intervals, mut flushes) = (0, 0, 0, 0, 0);
        for seed in 0..worlds {
            let mut world = World::new(seed, Some(sound));
            for _ in 0..steps {
                world.sound_step(sound);
                searched += world.check()[0];
                written += world.model.len();
                maps = maps.max(world.view.maps().count());
            }
            intervals += world.view.maps().map(|map| map.index().writes().len()).sum::<usize>();
            flushes += world.flushes;
        }
        let files = searched as f64 / written as f64;
        println!("{sound:?}: {files:.3} files for each written key, {maps} maps, {intervals} intervals of {flushes}");
        assert!(files < 1.1, "{sound:?}: {files}");
        assert!(maps <= 20 && intervals * 2 < flushes, "{sound:?}: {maps} maps, {intervals} intervals of {flushes}");
    }
}
