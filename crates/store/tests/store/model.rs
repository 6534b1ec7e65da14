//! Random operations, compared with sets of keys. The model knows which files contain a key; no lookup may miss one,
//! whatever is loaded, damaged, edited, shrunk or dropped at the same time.
//!
//! A failure prints the seed of its world and the number of the operation; the same seed repeats it.

use core::ops::Bound;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use sstfilter::{
    AutoPolicy, DelimitedPrefix, FalsePositiveRate, FileId, FilterPolicy, Filters, FixedPolicy, FixedPrefix, KeyHash,
    KeyHasher, KeyParts, KeyRange, SecretSeed,
};
use sstfilter_map::{FileMap, MapOptions};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{
    FilterBudget, FilterMetadata, FilterProblem, FilterSource, FilterStore, FilterView, PageRead, PartitionCut,
    PartitionOptions, PendingRead, TableIdentity, ViewEdit, ViewError,
};

use crate::common::effort;
use crate::common::random::Random;
use crate::engine::{Disk, File, Key, Mode, build_with, with_key_parts};
use crate::maps::{Map, finish};
use crate::paged::{bytes_of, paged};

/// Levels 1 to 3 are sorted.
const LEVELS: u32 = 4;

/// The files at one time, in the view and in the model.
struct Snapshot {
    view: FilterView<File>,
    /// At level 0 the newest first, at the others in any order.
    levels: BTreeMap<u32, Vec<Arc<File>>>,
    /// The maps that may be read by page.
    stored: Vec<Map>,
}

/// What is done with the files of a snapshot.
impl Snapshot {
    fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.levels.values().flatten()
    }

    /// The order in which a lookup comes to each file.
    fn ranks(&self) -> HashMap<*const File, (u32, usize)> {
        let of_level = |(&level, files): (&u32, &Vec<Arc<File>>)| {
            let rank = move |(index, file): (usize, &Arc<File>)| {
                (Arc::as_ptr(file), (level, if level == 0 { index } else { 0 }))
            };
            files.iter().enumerate().map(rank).collect::<Vec<_>>()
        };
        self.levels.iter().flat_map(of_level).collect()
    }

    /// Checks that `given` has every file that is needed, as far as the lookup went, in order and once.
    fn check(&self, given: &[Arc<File>], is_whole: bool, is_needed: impl Fn(&File) -> bool, what: &str) {
        let ranks = self.ranks();
        let given_ranks: Vec<_> = given.iter().map(|file| ranks[&Arc::as_ptr(file)]).collect();
        assert!(given_ranks.is_sorted(), "{what}: not the newest first: {given_ranks:?}");
        let distinct: BTreeSet<_> = given.iter().map(Arc::as_ptr).collect();
        assert_eq!(distinct.len(), given.len(), "{what}: a file was given twice");
        let end = if is_whole { None } else { given_ranks.last() };
        for file in self.files().filter(|file| is_needed(file)) {
            let is_behind = end.is_some_and(|end| ranks[&Arc::as_ptr(file)] >= *end);
            assert!(
                is_behind || distinct.contains(&Arc::as_ptr(file)),
                "{what}: a file that has it is missing: {:?}, {:?}",
                file.filters.metadata(),
                file.filters.problem()
            );
        }
    }

    /// Looks up a key: to the end, until it is found, or abandoned after some files.
    fn look_up(&self, random: &mut Random, key: &[u8]) {
        let (to_end, gives_up) = (random.one_in(2), random.one_in(20));
        let (mut given, mut is_whole) = (Vec::new(), true);
        let mut candidates = self.view.candidates(key);
        if self.view.paged_maps().next().is_some() {
            (0..random.below(4)).for_each(|_| self.read_pages(random, candidates.reads().pages));
        }
        while let Some(file) = candidates.next_file() {
            file.given.fetch_add(1, Ordering::Relaxed);
            given.push(file.clone());
            if gives_up && random.one_in(2) {
                is_whole = false;
                break;
            }
            if file.has(key) && !to_end {
                candidates.found();
                is_whole = false;
                break;
            }
        }
        self.check(&given, is_whole, |file| file.is_needed(key), &format!("key {:?}", key.escape_ascii().to_string()));
    }

    /// Reads pages of maps, wrongly or not at all.
    fn read_pages(&self, random: &mut Random, pages: Vec<PageRead>) {
        for page in pages {
            let bytes = bytes_of(&self.stored, &page);
            let other = random.pick(&self.stored).as_bytes();
            match random.below(12) {
                0 => drop(page),
                1 => page.complete(Err("the disk is away")),
                2 => page.complete(Ok::<_, &str>(bytes.iter().rev().copied().collect())),
                3 => page.complete(Ok::<_, &str>(other.iter().copied().take(bytes.len()).collect())),
                _ => page.complete(Ok::<_, &str>(bytes)),
            }
        }
    }

    fn look_up_each(&self, random: &mut Random, keys: &[&[u8]]) {
        let mut given = vec![Vec::new(); keys.len()];
        let (mut is_whole, gives_up) = (vec![true; keys.len()], random.one_in(10));
        let mut batch = self.view.candidates_of_each(keys);
        loop {
            let files: Vec<(usize, Arc<File>)> =
                batch.next_files().iter().map(|(position, file)| (*position, Arc::clone(file))).collect();
            if files.is_empty() {
                break;
            }
            for (position, file) in files {
                assert!(is_whole[position], "it has ended");
                file.given.fetch_add(1, Ordering::Relaxed);
                let ends = if random.one_in(50) {
                    batch.failed(position);
                    true
                } else if file.has(keys[position]) && !random.one_in(5) {
                    batch.found(position);
                    true
                } else {
                    false
                };
                is_whole[position] &= !ends;
                given[position].push(file);
            }
            if gives_up && random.one_in(2) {
                is_whole.fill(false);
                break;
            }
        }
        drop(batch);
        for ((key, given), is_whole) in keys.iter().zip(&given).zip(is_whole) {
            let what = format!("key {:?} of {}", key.escape_ascii().to_string(), keys.len());
            if is_whole || !given.is_empty() {
                self.check(given, is_whole, |file| file.is_needed(key), &what);
            }
        }
    }

    fn scan(&self, random: &mut Random, range: KeyRange<'_>, prefix: Option<&[u8]>) {
        let candidates = match prefix {
            Some(prefix) => self.view.candidates_by_prefix(prefix),
            None => self.view.candidates_in_range(range),
        };
        let mut given = Vec::new();
        for candidate in candidates {
            let first = candidate.file.first_in(range);
            assert!(first.is_none_or(|key| candidate.lower_bound <= *key), "{range:?}: {candidate:?} of {first:?}");
            if random.one_in(2) {
                candidate.record(first.is_some());
            }
            given.push(candidate.file.clone());
        }
        self.check(&given, true, |file| file.is_needed_in(range), &format!("{range:?} {prefix:?}"));
    }

    /// Probes file by file, like an engine without a view.
    fn probe_each(&self, key: &[u8], range: KeyRange<'_>, prefix: &[u8]) {
        let end = KeyRange::prefix_upper_bound(prefix);
        let of_prefix = KeyRange { lower: Bound::Included(prefix), upper: end.as_ref().map(Vec::as_slice) };
        for file in self.files() {
            assert!(!file.is_needed(key) || !file.filters.probe(key).is_absent());
            assert!(!file.is_needed_in(range) || file.filters.may_contain_range(range));
            assert!(!file.is_needed_in(of_prefix) || file.filters.may_contain_prefix(prefix));
        }
    }
}

/// Looks up, and returns whether the disk panicked.
fn panics_of_the_disk(look_up: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(look_up)) {
        Ok(()) => false,
        Err(panic) if panic.downcast_ref() == Some(&"the disk panics") => true,
        Err(panic) => resume_unwind(panic),
    }
}

/// The shared state of the files of one world.
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct World {
    random: Random,
    universe: Arc<Vec<Key>>,
    /// The store that opens the files and makes the views.
    reader: FilterStore,
    /// The stores that built the files: with the same hash, and other parts, policies, partitions and range filters.
    writers: Vec<FilterStore>,
    /// A store with another hash.
    foreign: FilterStore,
    is_async: bool,
    has_failures: bool,
    has_many_files: bool,
    has_maps: bool,
    /// Maps that were written so far, also damaged ones and those of earlier views.
    maps: Vec<Map>,
    largest_filter: u64,
    now: Arc<Snapshot>,
    old: Vec<Arc<Snapshot>>,
    /// Pending reads of the engine, with the filter bytes of their files.
    pending: Vec<(Bytes, PendingRead)>,
    has_panicked: bool,
}

/// Returns keys of six tenants: some without a delimiter, some too short for any part, some that differ only in zeros.
/// Most begin with `prefix`.
fn universe(prefix: &[u8]) -> Vec<Key> {
    let prefixed = |key: Key| [prefix, &key].concat();
    let tenants =
        (0..6).flat_map(|tenant| (0..450).map(move |number| format!("t{tenant}:{:04}", number * 3).into_bytes()));
    let plain = (0..60).map(|number| format!("zone{number}").into_bytes());
    let odd =
        [&b""[..], b"\0", b"\0\0", b"a", b"t", b"t1", b"t1:", b"t1:0003\0", b"t1:0003\0\0", b"\xff", b"\xff\xff\xff"];
    let long = (0..40).map(|number| [&[b'q'; 30][..], &[number, 0]].concat());
    let all: BTreeSet<Key> =
        tenants.chain(plain).map(prefixed).chain(odd.map(<[u8]>::to_vec)).chain(long.map(prefixed)).collect();
    all.into_iter().collect()
}

/// Returns ids of one tenant, dense enough for exact range filters, and a few keys of other forms.
fn ids() -> Vec<Key> {
    let ids = (0..3_000_u16).map(|id| [b"t1:", &id.to_be_bytes()[..]].concat());
    let odd = [&b""[..], b"t1", b"t1:\0", b"t1:\0\x09\0", b"t0:\0\x09", b"t2:\0\x09"];
    ids.chain(odd.map(<[u8]>::to_vec)).collect::<BTreeSet<Key>>().into_iter().collect()
}

fn fpr(rate: f64) -> FalsePositiveRate {
    FalsePositiveRate::new(rate).unwrap()
}

fn parts(random: &mut Random) -> KeyParts {
    let (fixed, delimited) = (Arc::new(FixedPrefix::new(3)), Arc::new(DelimitedPrefix::new(b':')));
    match random.below(6) {
        0 | 1 => KeyParts::whole_keys(),
        2 => KeyParts::whole_keys().with_extractor(fixed),
        3 => KeyParts::extracted(delimited),
        4 => KeyParts::extracted(fixed).with_extractor(delimited),
        _ => KeyParts::whole_keys().with_extractor(delimited).with_extractor(fixed),
    }
}

fn range_policy(random: &mut Random) -> RangePolicy {
    let units = RangeUnits::integer(8).unwrap();
    match random.below(4) {
        0 => RangePolicy::ordered(fpr(0.02)).unwrap(),
        1 => RangePolicy::hashed(units, 16, fpr(0.05)).unwrap(),
        2 => RangePolicy::hashed(units.with_prefix(Arc::new(FixedPrefix::new(3))), 16, fpr(0.05)).unwrap(),
        _ => RangePolicy::hashed(units.with_prefix(Arc::new(DelimitedPrefix::new(b':'))), 16, fpr(0.05)).unwrap(),
    }
}

fn policy(random: &mut Random) -> Arc<dyn FilterPolicy> {
    match random.below(5) {
        0 => Arc::new(AutoPolicy::default()),
        1 => Arc::new(FixedPolicy::default()),
        // Twice the bits, and twice the partitions.
        2 => Arc::new(FixedPolicy::ribbon(fpr(1e-6)).unwrap().with_min_keys(0)),
        3 => Arc::new(FixedPolicy::ribbon(fpr(0.01)).unwrap().with_min_keys(0)),
        _ => Arc::new(FixedPolicy::ribbon(fpr(0.3)).unwrap().with_min_keys(0)),
    }
}

fn hasher(random: &mut Random) -> KeyHasher {
    match random.below(3) {
        0 => KeyHasher::default(),
        1 => KeyHasher::with_secret_seed(SecretSeed::from_bytes(random.next().to_le_bytes())),
        _ => {
            let inner = KeyHasher::default();
            KeyHasher::custom(77, move |key| KeyHash::mix(inner.hash(key).get() ^ 1))
        }
    }
}

impl World {
    fn new(seed: u64, universe: &Arc<Vec<Key>>) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let base = FilterStore::new(Filters::default().with_hasher(hasher(random)));
        let mut writer = || {
            let store = with_key_parts(base.clone(), parts(random)).with_policy(policy(random));
            let store = match random.below(3) {
                0 => store.with_partitions(PartitionOptions::new(PartitionCut::KeyRange, 1 << 10).unwrap()),
                1 => store.with_partitions(PartitionOptions::new(PartitionCut::HashRange, 1 << 10).unwrap()),
                _ => store,
            };
            let store = if random.one_in(2) { store.with_range_filters(range_policy(random)) } else { store };
            if random.one_in(8) { store.without_point_filters() } else { store }
        };
        let writers = (0..4).map(|_| writer()).collect();
        let mut reader = with_key_parts(base, parts(random)).with_range_filters(range_policy(random));
        if random.one_in(2) {
            let bytes = *random.pick(&[0, 700, 6_000, 60_000, 1 << 30]);
            let probes = *random.pick(&[64, 300, 2_000]);
            reader = reader.with_budget(FilterBudget::new(bytes).with_probes_per_plan(probes));
        }
        let foreign = FilterStore::new(
            Filters::default().with_hasher(KeyHasher::with_secret_seed(SecretSeed::from_bytes([9; 8]))),
        );
        let now = Arc::new(Snapshot { view: FilterView::new(&reader), levels: BTreeMap::new(), stored: Vec::new() });
        Self {
            universe: universe.clone(),
            reader,
            writers,
            foreign,
            is_async: random.one_in(3),
            has_failures: random.one_in(3),
            has_many_files: random.one_in(3),
            has_maps: random.one_in(2),
            maps: Vec::new(),
            largest_filter: 0,
            now,
            old: Vec::new(),
            pending: Vec::new(),
            has_panicked: false,
            random: random.clone(),
        }
    }

    /// Returns a snapshot for a lookup: usually the newest.
    fn snapshot(&mut self) -> Arc<Snapshot> {
        if !self.old.is_empty() && self.random.one_in(6) {
            self.random.pick(&self.old).clone()
        } else {
            self.now.clone()
        }
    }

    /// Returns some keys of a part of the universe.
    fn keys(&mut self) -> BTreeSet<Key> {
        let random = &mut self.random;
        let width = match random.below(if self.has_many_files { 12 } else { 16 }) {
            0 => 1,
            1..=8 => 1 + random.below(30),
            9..=11 => 1 + random.below(200),
            _ => 1 + random.below(self.universe.len()),
        };
        let from = random.below(self.universe.len() + 1 - width);
        let density = 1 + random.below(3);
        let keys = self.universe[from..from + width].iter();
        keys.filter(|_| density == 1 || random.one_in(density)).cloned().collect()
    }

    fn tombstone(&mut self) -> Option<(Key, Key)> {
        let mut ends = [(); 2].map(|()| self.random.pick(&self.universe).clone());
        ends.sort();
        let [start, end] = ends;
        (self.random.one_in(12) && start < end).then_some((start, end))
    }

    fn new_file(&mut self) -> Arc<File> {
        let keys = self.keys();
        self.file_of(keys)
    }

    fn file_of(&mut self, keys: BTreeSet<Key>) -> Arc<File> {
        if self.random.one_in(12) {
            return self.unfiltered(keys);
        }
        let is_foreign = self.random.one_in(15);
        let writer = if is_foreign { self.foreign.clone() } else { self.random.pick(&self.writers).clone() };
        let opener = if is_foreign { self.foreign.clone() } else { self.reader.clone() };
        let tombstone = self.tombstone();
        let is_sidecar = self.random.one_in(10);
        let (bytes, metadata) = if is_sidecar {
            Self::sidecar(&writer, &keys, tombstone.as_ref())
        } else {
            build_with(&writer, &keys, tombstone.as_ref())
        };
        let metadata = FilterMetadata::decode(&metadata.encode()).unwrap();
        let sizes = metadata.sections().iter().map(|section| section.bytes);
        self.largest_filter = self.largest_filter.max(sizes.max().unwrap_or(0));
        // Occasionally the bytes of another file.
        let bytes =
            if self.has_failures && self.random.one_in(15) { build_with(&writer, &self.keys(), None).0 } else { bytes };
        let disk = Disk::new(bytes);
        if self.has_failures && self.random.one_in(6) {
            disk.set(*self.random.pick(&[Mode::Fails, Mode::Damaged, Mode::Short]));
        }
        let is_to_be_read = self.is_async && !self.random.one_in(4);
        let filters =
            if is_to_be_read { opener.open_without_source(metadata) } else { opener.open(metadata, disk.clone()) };
        Arc::new(File { tombstone, ..File::new(keys, disk, filters) })
    }

    /// Returns the filters of a sidecar, which is refused for any other table.
    fn sidecar(writer: &FilterStore, keys: &BTreeSet<Key>, tombstone: Option<&(Key, Key)>) -> (Bytes, FilterMetadata) {
        let id = FileId::random();
        let (table, later) = (TableIdentity::new(id, 4_096, 7), TableIdentity::new(id, 4_096, 8));
        let mut builder = writer.sidecar_builder(&table);
        keys.iter().for_each(|key| builder.add_key(key));
        if let Some((start, end)) = tombstone {
            builder.add_range_tombstone(start, end);
        }
        let built = builder.finish();
        let described = built.metadata().clone();
        let Some(sidecar) = built.clone().seal_sidecar() else { return built.seal() };
        let length = sidecar.len() as u64;
        let tail_bytes = usize::try_from(FilterMetadata::sidecar_tail_bytes(&sidecar[sidecar.len() - 60..]).unwrap());
        let tail = &sidecar[sidecar.len() - tail_bytes.unwrap()..];
        let stale = FilterMetadata::of_sidecar(tail, length, &later);
        assert!(matches!(stale, Err(FilterProblem::OtherTable { .. })), "{stale:?}");
        let metadata = FilterMetadata::of_sidecar(tail, length, &table).unwrap();
        assert_eq!(metadata, described);
        (sidecar, metadata)
    }

    fn unfiltered(&mut self, keys: BTreeSet<Key>) -> Arc<File> {
        let (filters, tombstone) = match (keys.first(), keys.last(), self.random.below(3)) {
            (Some(first), Some(last), 0) => (self.reader.open_without_description(&first[..]..=&last[..]), None),
            (Some(first), Some(last), 1) => {
                let end = [&last[..], b"\0"].concat();
                // It may delete all of them.
                (self.reader.open_without_description(&first[..]..&end[..]), Some((first.clone(), end)))
            }
            _ => (self.reader.open_without_description(..), None),
        };
        Arc::new(File { tombstone, ..File::new(keys, Disk::new(Bytes::new()), filters) })
    }

    /// Applies an edit to the view; `levels` are the files after it. An edit may be refused only for an overlap.
    fn apply(&mut self, edit: ViewEdit<File>, levels: BTreeMap<u32, Vec<Arc<File>>>) {
        let overlap = levels.iter().find(|(level, files)| **level != 0 && overlaps(files));
        match (self.now.view.edited(edit), overlap) {
            (Ok(view), None) => {
                let stored = self.now.stored.clone();
                let before = core::mem::replace(&mut self.now, Arc::new(Snapshot { view, levels, stored }));
                if self.random.one_in(4) {
                    self.old.push(before);
                }
                if self.old.len() > 3 {
                    let which = self.random.below(self.old.len());
                    self.old.swap_remove(which);
                }
                self.check_files();
            }
            (Err(ViewError::Overlap { level, .. }), Some((expected, _))) => assert_eq!(level, *expected),
            (view, overlap) => panic!("overlap {overlap:?}, got {:?}", view.map(|view| format!("{view:?}"))),
        }
    }

    /// Checks that the view has the right files, and those of level 0 in order.
    fn check_files(&self) {
        for level in 0..LEVELS {
            let expected = self.now.levels.get(&level).map_or(&[][..], Vec::as_slice);
            let mut expected: Vec<_> = expected.iter().map(Arc::as_ptr).collect();
            let mut got: Vec<_> = self.now.view.files(level).map(Arc::as_ptr).collect();
            if level > 0 {
                expected.sort_unstable();
                got.sort_unstable();
            }
            assert_eq!(got, expected, "level {level}");
        }
    }

    fn add_several(&mut self, mut edit: ViewEdit<File>, level: u32, files: &mut Vec<Arc<File>>) -> ViewEdit<File> {
        let count = 1 + self.random.below(if self.has_many_files { 90 } else { 4 });
        let mut added = Vec::new();
        for _ in 0..count {
            let file = self.new_file();
            if level > 0 && overlaps(&[&files[..], std::slice::from_ref(&file)].concat()) && !self.random.one_in(200) {
                continue;
            }
            files.insert(0, file.clone());
            added.push((self.now.view.next_age() + added.len() as u64, file));
        }
        // In any order: ages decide.
        while !added.is_empty() {
            let (age, file) = added.swap_remove(self.random.below(added.len()));
            edit = if level == 0 { edit.add_to_level_0(age, file) } else { edit.add(level, file) };
        }
        edit
    }

    /// Opens the same file again with a new source.
    fn reopen(&mut self, edit: ViewEdit<File>, level: u32, files: &mut [Arc<File>]) -> ViewEdit<File> {
        let at = self.random.below(files.len());
        let before = files[at].clone();
        before.disk.set(Mode::Sound);
        let filters = self.reader.open(before.filters.metadata().clone(), before.disk.clone());
        if before.filters.metadata().hash_identity() != self.reader.filters().hasher().identity() {
            return edit;
        }
        let again = File {
            tombstone: before.tombstone.clone(),
            ..File::new(before.keys.clone(), before.disk.clone(), filters)
        };
        files[at] = Arc::new(again);
        edit.replace(level, &before, files[at].clone())
    }

    /// Compacts: files that overlap a new one make room for it.
    fn compact(&mut self, mut edit: ViewEdit<File>, levels: &mut BTreeMap<u32, Vec<Arc<File>>>) -> ViewEdit<File> {
        let keys = self.keys();
        let to = 1 + u32::try_from(self.random.below(LEVELS as usize - 1)).unwrap();
        let file = self.file_of(keys);
        let files = levels.entry(to).or_default();
        files.retain(|other| {
            let stays = !overlaps(&[other.clone(), file.clone()]);
            if !stays {
                edit = core::mem::take(&mut edit).remove(to, other);
            }
            stays
        });
        files.push(file.clone());
        edit.add(to, file)
    }

    fn edit(&mut self) {
        let mut levels = self.now.levels.clone();
        let mut edit = ViewEdit::new();
        let level = u32::try_from(self.random.below(LEVELS as usize)).unwrap();
        let files = levels.entry(level).or_default();
        let limit = if self.has_many_files { 160 } else { 12 };
        match self.random.below(8) {
            0 | 1 => edit = self.add_several(edit, level, files),
            2 if !files.is_empty() => {
                let file = files.remove(self.random.below(files.len()));
                edit = edit.remove(level, &file);
            }
            3 if !files.is_empty() => {
                let at = self.random.below(files.len());
                let by = self.new_file();
                let files = levels.entry(level).or_default();
                edit = edit.replace(level, &files[at], by.clone());
                files[at] = by;
            }
            // A file moves to another level.
            4 if !files.is_empty() => {
                let file = files.remove(self.random.below(files.len()));
                let to = u32::try_from(self.random.below(LEVELS as usize)).unwrap();
                edit = edit.remove(level, &file);
                edit = match to {
                    0 => edit.add_to_level_0(self.now.view.next_age(), file.clone()),
                    _ => edit.add(to, file.clone()),
                };
                levels.entry(to).or_default().insert(0, file);
            }
            5 if !files.is_empty() => edit = self.reopen(edit, level, files),
            _ => edit = self.compact(edit, &mut levels),
        }
        let too_many: Vec<(u32, Arc<File>)> = levels
            .iter()
            .flat_map(|(&level, files)| files.iter().skip(limit).map(move |file| (level, file.clone())))
            .collect();
        self.apply(edit, levels);
        if self.random.one_in(3) && !too_many.is_empty() {
            let mut levels = self.now.levels.clone();
            let mut edit = ViewEdit::new();
            for (level, file) in too_many {
                let files = levels.entry(level).or_default();
                if let Some(at) = files.iter().position(|other| Arc::ptr_eq(other, &file)) {
                    files.remove(at);
                    edit = edit.remove(level, &file);
                }
            }
            self.apply(edit, levels);
        }
    }

    /// Returns a key that some file may have, or a neighbour of one.
    fn key(&mut self) -> Key {
        let mut key = self.random.pick(&self.universe).clone();
        match self.random.below(6) {
            0 => key.push(0),
            1 => {
                key.pop();
            }
            2 => {
                if let Some(last) = key.last_mut() {
                    *last = last.wrapping_add(1);
                }
            }
            _ => {}
        }
        key
    }

    fn prefix(&mut self) -> Key {
        let mut key = self.key();
        let length = self.random.below(key.len() + 1);
        key.truncate(if self.random.one_in(2) { length.min(3) } else { length });
        key
    }

    fn range_ends(&mut self) -> (Bound<Key>, Bound<Key>) {
        let (lower, mut upper) = (self.key(), self.key());
        if self.random.one_in(2) {
            upper.clone_from(&lower);
            upper.push(u8::try_from(self.random.below(256)).unwrap());
        }
        let (lower, upper) = if lower <= upper || self.random.one_in(20) { (lower, upper) } else { (upper, lower) };
        let mut end = |key: Key| match self.random.below(9) {
            0 => Bound::Unbounded,
            1..=4 => Bound::Included(key),
            _ => Bound::Excluded(key),
        };
        (end(lower), end(upper))
    }

    /// Collects the reads of a lookup, and performs them, late, wrongly or not at all.
    fn read(&mut self) {
        let snapshot = self.snapshot();
        let (key, prefix, (lower, upper)) = (self.key(), self.prefix(), self.range_ends());
        let range: KeyRange<'_> = (lower.as_ref(), upper.as_ref()).into();
        let keys = [self.key(), self.key(), key.clone()];
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let reads = match self.random.below(4) {
            0 => snapshot.view.candidates(&key).reads(),
            1 => snapshot.view.candidates_of_each(&keys).reads(),
            2 => snapshot.view.candidates_by_prefix(&prefix).reads(),
            _ => snapshot.view.candidates_in_range(range).reads(),
        };
        let reads: Vec<_> = reads.pending.into_iter().map(|(file, read)| (file.disk.bytes().clone(), read)).collect();
        for (bytes, read) in reads {
            match self.random.below(8) {
                0 if self.pending.len() < 20 => self.pending.push((bytes, read)),
                1 => drop(read),
                _ => self.complete(&bytes, read),
            }
        }
    }

    fn complete(&mut self, bytes: &Bytes, read: PendingRead) {
        let wanted = bytes.read(read.range());
        let kind = if self.has_failures { self.random.below(16) } else { usize::MAX };
        match (kind, wanted) {
            (0, _) => read.complete(Err::<Bytes, _>("the disk is away")),
            (1, Ok(wanted)) => {
                let mut damaged = wanted.to_vec();
                if !damaged.is_empty() {
                    let at = self.random.below(damaged.len());
                    damaged[at] ^= 1 << self.random.below(8);
                }
                read.complete(Ok::<_, &str>(damaged.into()));
            }
            (2, Ok(wanted)) => read.complete(Ok::<_, &str>(wanted.slice(..wanted.len() / 2))),
            (3, Ok(wanted)) => read.complete(Ok::<_, &str>([&wanted[..], b"more"].concat().into())),
            (_, wanted) => read.complete(wanted),
        }
    }

    fn change_disk(&mut self) {
        let files: Vec<Arc<File>> = self.now.files().cloned().collect();
        if files.is_empty() || !self.has_failures {
            return;
        }
        let mode = if self.random.one_in(2) { Mode::Sound } else { *self.random.pick(&Mode::ALL) };
        self.random.pick(&files).disk.set(mode);
    }

    fn change_budget(&mut self) {
        let Some(budget) = self.reader.budget().cloned() else { return };
        if self.random.one_in(3) {
            budget.set_bytes(*self.random.pick(&[0, 500, 5_000, 20_000, 100_000, 1 << 30]));
        } else {
            budget.rebalance();
        }
    }

    /// Writes a map of some of the files, from the maps of the view or from keys, and gives the view one or two of all
    /// maps so far, or none, and others to be read by page.
    fn change_maps(&mut self) {
        let options = MapOptions::with_prefix_bits(26).unwrap().with_page_bytes(1 << 10).unwrap();
        let (random, filters) = (&mut self.random, self.reader.filters().clone());
        let map = FileId::random();
        let old = if random.one_in(3) { self.now.view.clone() } else { self.now.view.with_maps(&[]).unwrap() };
        let hashes = |file: &File| file.keys.iter().map(|key| filters.hash(key)).collect();
        let of_most = |file: &File| (!random.one_in(5)).then(|| hashes(file));
        if let Ok(mut bytes) = finish(old.write_map(options).unwrap(), map, of_most) {
            if random.one_in(4) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1;
            }
            self.maps.extend(FileMap::load(bytes.into(), &filters, map).map(Arc::new));
        }
        let mut maps: Vec<_> = (0..random.below(3)).filter_map(|_| self.maps.last().cloned()).collect();
        if let [first, ..] = &mut maps[..] {
            *first = random.pick(&self.maps).clone();
        }
        let by_page: Vec<_> = self.maps.iter().rev().take(4).filter(|_| random.one_in(4)).cloned().collect();
        let Snapshot { view, levels, .. } = &*self.now;
        let view = paged(&view.with_maps(&maps).unwrap(), &by_page).unwrap();
        self.now = Arc::new(Snapshot { view, levels: levels.clone(), stored: self.maps.clone() });
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..2 => self.edit(),
            9..11 if self.has_maps => self.change_maps(),
            2..4 => self.change_budget(),
            4..5 => self.change_disk(),
            5..7 if self.is_async => self.read(),
            7..9 if !self.pending.is_empty() => {
                let which = self.random.below(self.pending.len());
                let (bytes, read) = self.pending.swap_remove(which);
                self.complete(&bytes, read);
            }
            _ => {
                let snapshot = self.snapshot();
                let (which, key) = (self.random.below(100), self.key());
                let prefix = if which < 25 { self.prefix() } else { Key::new() };
                let (lower, upper) = if which < 25 { self.range_ends() } else { (Bound::Unbounded, Bound::Unbounded) };
                let range: KeyRange<'_> = (lower.as_ref(), upper.as_ref()).into();
                let keys: Vec<Key> = (0..if which == 99 { 40 } else { 3 }).map(|_| self.key()).collect();
                let mut random = self.random.clone();
                self.random.next();
                self.has_panicked |= panics_of_the_disk(|| match which {
                    0..1 => snapshot.probe_each(&key, range, &prefix),
                    1..10 => snapshot.scan(&mut random, range, None),
                    10..20 => {
                        let end = KeyRange::prefix_upper_bound(&prefix);
                        let range =
                            KeyRange { lower: Bound::Included(&prefix[..]), upper: end.as_ref().map(Vec::as_slice) };
                        snapshot.scan(&mut random, range, Some(&prefix));
                    }
                    95.. => {
                        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                        snapshot.look_up_each(&mut random, &keys);
                    }
                    _ => snapshot.look_up(&mut random, &key),
                });
            }
        }
        if let Some(budget) = self.reader.budget().filter(|_| self.pending.is_empty()) {
            let stats = budget.stats();
            assert!(stats.used_bytes <= stats.limit_bytes.saturating_add(self.largest_filter), "{stats:?}");
        }
    }

    /// Checks that the counts of the files match what happened to them.
    fn check_counts(&self) {
        for file in self.now.files() {
            let stats = file.filters.stats();
            let given = file.given.load(Ordering::Relaxed);
            if !self.has_panicked {
                assert_eq!(stats.searched, given, "{file:?}");
                for stats in [stats.filter, stats.ranges] {
                    assert!(stats.is_consistent(), "{file:?}");
                }
            }
            assert!(stats.filter.negatives < 1 << 40, "{file:?}");
        }
    }

    fn finish(mut self) {
        assert!(self.reader.problem().is_none(), "{:?}", self.reader.problem());
        self.check_counts();
        let budget = self.reader.budget().cloned();
        self.pending.clear();
        self.old.clear();
        drop(self);
        if let Some(stats) = budget.map(|budget| budget.stats()) {
            assert_eq!((stats.used_bytes, stats.partitions), (0, 0), "all files are dropped");
        }
    }
}

/// Returns the smallest key that a file has or deletes, and the end of these keys; `None` if they are not known.
fn span(file: &Arc<File>) -> Option<(Key, Key)> {
    let keys = file.filters.metadata().key_bounds();
    let keys = keys.map(|(smallest, largest)| (smallest.to_vec(), [largest, b"\0"].concat()));
    match (keys, file.tombstone.clone()) {
        (Some(keys), Some(deleted)) => Some((keys.0.min(deleted.0), keys.1.max(deleted.1))),
        (None, deleted) => deleted,
        (keys, None) => keys,
    }
}

/// Returns whether two files of a sorted level overlap.
fn overlaps(files: &[Arc<File>]) -> bool {
    let mut spans: Vec<_> = files.iter().filter_map(span).collect();
    spans.sort_unstable();
    spans.windows(2).any(|pair| pair[0].1 > pair[1].0)
}

/// Reports where a failure happened.
struct Place {
    seed: u64,
    operation: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the world of seed {}, operation {}", self.seed, self.operation);
        }
    }
}

fn run(seed: u64, operations: usize, universe: &Arc<Vec<Key>>) {
    let mut place = Place { seed, operation: 0 };
    let mut world = World::new(seed, universe);
    (0..3).for_each(|_| world.edit());
    for operation in 0..operations {
        place.operation = operation;
        world.step();
    }
    place.operation = operations;
    world.finish();
}

// promise: no-false-negatives
#[test]
fn no_lookup_misses_a_file_that_has_what_it_looks_for() {
    let universes = [universe(b""), universe(b"all begin with this"), ids()].map(Arc::new);
    let worlds = effort::of_minutes(1_000, 300, 100 / effort::strides(3, 4) as u64);
    for seed in 0..worlds {
        run(seed, 1_000, &universes[(seed % 3) as usize]);
    }
}

/// Ends the other threads when one fails: they must not wait for it.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thread edits and reads; the others look up in the newest view, or in one that they keep.
// promise: no-false-negatives
#[test]
fn no_lookup_misses_a_file_while_others_edit_load_and_plan() {
    let universes = [universe(b""), universe(b"all begin with this"), ids()].map(Arc::new);
    let worlds = effort::of_minutes(200, 60, 8 / effort::stride(4) as u64);
    let steps = if effort::is_long() { 400 } else { 150 };
    for seed in 0..worlds {
        let mut place = Place { seed: seed + 1_000_000, operation: 0 };
        let mut world = World::new(place.seed, &universes[(seed % 3) as usize]);
        (0..3).for_each(|_| world.edit());
        let newest = Mutex::new(world.now.clone());
        let (is_done, universe) = (AtomicBool::new(false), world.universe.clone());
        thread::scope(|scope| {
            for thread in 0..3 {
                let (newest, is_done, universe) = (&newest, &is_done, &universe);
                scope.spawn(move || {
                    let mut random = Random::new(seed << 8 | thread);
                    let mut snapshot = newest.lock().unwrap().clone();
                    while !is_done.load(Ordering::Relaxed) {
                        if random.one_in(50) {
                            snapshot = newest.lock().unwrap().clone();
                        }
                        let key = random.pick(universe).clone();
                        let end = [&key[..], b"7"].concat();
                        panics_of_the_disk(|| match random.below(12) {
                            0 => snapshot.scan(&mut random, (&key[..]..&end[..]).into(), None),
                            1 => {
                                let keys: Vec<&[u8]> = (0..9).map(|_| &random.pick(universe)[..]).collect();
                                snapshot.look_up_each(&mut random, &keys);
                            }
                            _ => snapshot.look_up(&mut random, &key),
                        });
                    }
                });
            }
            let _done = Done(&is_done);
            for operation in 0..steps {
                place.operation = operation;
                match operation % 5 {
                    0 => world.edit(),
                    1 => world.change_budget(),
                    2 => world.change_disk(),
                    3 if world.has_maps => world.change_maps(),
                    _ => world.read(),
                }
                while world.pending.len() > 5 {
                    let (bytes, read) = world.pending.swap_remove(0);
                    world.complete(&bytes, read);
                }
                *newest.lock().unwrap() = world.now.clone();
            }
        });
        drop(newest);
        // The threads have caught panics of their own.
        world.has_panicked |= world.has_failures;
        world.finish();
    }
}
