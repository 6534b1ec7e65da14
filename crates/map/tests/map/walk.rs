//! Random walks of a store beside its keys. Files and maps are added, merged, dropped, damaged and replaced, while
//! snapshots are held. After each step, every key is looked for in all ways. The failures guarded against: a lookup
//! misses a file that a map covers twice, that took the name of another, or whose page was damaged before a merge.
//!
//! `SSTFILTER_LONG=1` checks 2 * 10^8 answers, `SSTFILTER_LONG=2` 10^9.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{FileMap, LocalId, MapAnswer, MapBuilder, MapMerge, MapOptions, MapSet};

use crate::effort;
use crate::forge::Random;
use crate::support::{add, bytes_of, candidates_by_reads, file, mix, probe};

type Map = Arc<FileMap<Arc<[u8]>>>;

/// A file: its id, and the hashes of its keys, ascending.
#[derive(Clone)]
struct File {
    id: FileId,
    hashes: Arc<[KeyHash]>,
}

/// A map, and what is known of it.
#[derive(Clone)]
struct Stored {
    map: Map,
    /// Whether each page and list is sound and known.
    is_whole: bool,
    /// The files that it covers.
    owners: Arc<Owners>,
}

/// The distinct keys of some files, ascending.
#[derive(Default)]
struct Owners {
    hashes: Vec<KeyHash>,
    /// For each key, where its files end in `positions`.
    ends: Vec<usize>,
    /// Positions of the files that have a key, ascending, key after key.
    positions: Vec<usize>,
}

impl Owners {
    /// Hashes with the same `key` are the same key.
    fn of<'a>(files: impl Iterator<Item = &'a File>, key: impl Fn(KeyHash) -> u64) -> Self {
        let mut pairs = Vec::new();
        for (position, file) in files.enumerate() {
            pairs.extend(file.hashes.iter().map(|&hash| (key(hash), position, hash)));
        }
        pairs.sort_unstable();
        let mut own = Self::default();
        for of_key in pairs.chunk_by(|one, two| one.0 == two.0) {
            own.hashes.extend(of_key.first().map(|first| first.2));
            own.positions.extend(of_key.chunk_by(|one, two| one.1 == two.1).map(|of_file| of_file[0].1));
            own.ends.push(own.positions.len());
        }
        own
    }

    /// The positions of the files that have key `number`.
    fn of_key(&self, number: usize) -> &[usize] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.positions[start..self.ends[number]]
    }
}

/// The files and maps of one moment, with the answers that they must give.
struct Snapshot {
    set: MapSet<Arc<[u8]>>,
    maps: Vec<Stored>,
    owners: Owners,
}

/// What happened, and how often, so that the test notices if it stops testing something.
type Counts = BTreeMap<&'static str, u64>;

const ANSWERS: &str = "answers";
const MERGES: &str = "merges";
const UNKNOWN: &str = "merges that made pages unknown";
const OUTGROWN: &str = "maps with outgrown pages";
const LISTS: &str = "maps with lists";
const DAMAGED: &str = "maps with a damaged page";
const LOST: &str = "maps that damage made unusable";
const HELD: &str = "checks of a snapshot that is older than the store";
const OLD: &str = "maps that are there again";
const ALL: [&str; 9] = [ANSWERS, MERGES, UNKNOWN, OUTGROWN, LISTS, DAMAGED, LOST, HELD, OLD];

struct Store {
    random: Random,
    options: MapOptions,
    /// Files by name. The name of a file that was dropped is given to another.
    files: BTreeMap<usize, File>,
    /// Every file that there was, by fingerprint: maps may cover it still.
    all: BTreeMap<u64, File>,
    maps: Vec<Stored>,
    /// Maps that were replaced.
    old: Vec<Stored>,
    snapshots: Vec<Snapshot>,
    counts: Counts,
}

/// Keys of a file at most.
const KEYS: usize = 400;

/// Names of files.
const NAMES: usize = 100;

impl Store {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed << 32);
        let page_bytes = 1 << random.pick(&[10, 10, 10, 11, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        let options = MapOptions::with_prefix_bits(random.pick(&[8, 12, 18, 24, 24, 32, 40, 48])).unwrap();
        let options = options.with_page_bytes(page_bytes).unwrap().with_threads(1 + random.below(3));
        let options = options.with_files_per_key(1 + random.below(3) as u32);
        let (files, all, maps) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { random, options, files, all, maps, old: Vec::new(), snapshots: Vec::new(), counts: Counts::default() }
    }

    fn count(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    /// A hash: random, common to many files, next to the prefix of another, at an end, or at the border of a page.
    fn hash(&mut self) -> KeyHash {
        let (random, few) = (self.random.next(), self.random.below(40) as u64);
        let prefix_shift = 64 - self.options.prefix_bits();
        let number = match self.random.below(20) {
            0..=4 => mix(few),
            5 => mix(few) ^ 1 << self.random.below(64),
            // The same prefix, other bits below it.
            6 => (mix(few) >> prefix_shift << prefix_shift) | random >> self.options.prefix_bits(),
            7 => self.random.pick(&[0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1]),
            8 => {
                let pages = self.maps.first().map_or(1, |stored| stored.map.index().pages());
                let border = ((u128::from(random % pages) << 64) / u128::from(pages)) as u64;
                border.wrapping_add(self.random.pick(&[0, 1 << prefix_shift, u64::MAX, 1]))
            }
            // Side by side, until a page outgrows its bytes.
            9 if self.options.prefix_bits() > 20 => few << prefix_shift,
            _ => random,
        };
        KeyHash::from_well_mixed(number)
    }

    fn add_file(&mut self, name: usize) {
        let most = self.random.pick(&[0, 1, 2, 30, KEYS, KEYS]);
        let count = self.random.below(most + 1);
        let mut hashes: Vec<_> = (0..count).map(|_| self.hash()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let own = File { id: file(self.random.next()), hashes: hashes.into() };
        self.all.insert(own.id.fingerprint(), own.clone());
        self.files.insert(name, own);
    }

    /// The bytes of a map of these files, built from their keys.
    fn build(&self, id: FileId, files: &BTreeSet<u64>, filters: &Filters) -> Vec<u8> {
        let mut builder = MapBuilder::new(filters, self.options);
        for fingerprint in files {
            let own = &self.all[fingerprint];
            // In descending order, which the builder must notice.
            builder.add_file(own.id, own.hashes.iter().rev().copied().collect());
        }
        let mut bytes = Vec::new();
        builder.finish(id, &mut bytes).unwrap();
        bytes
    }

    fn put(&mut self, id: FileId, bytes: Vec<u8>) {
        let Ok(map) = FileMap::load(Arc::from(bytes), &Filters::default(), id) else {
            self.count(LOST, 1);
            return;
        };
        self.count(DAMAGED, u64::from(map.problems().next().is_some()));
        // Only damage makes a page unknown.
        let is_whole = map.problems().next().is_none() && (0..map.index().pages()).all(|page| is_known(&map, page));
        let covered = map.index().files().iter().map(|covered| &self.all[&covered.file.fingerprint()]);
        let shift = 64 - map.index().prefix_bits();
        let owners = Arc::new(Owners::of(covered, |hash| hash.get() >> shift));
        self.maps.push(Stored { map: Arc::new(map), is_whole, owners });
    }

    fn build_map(&mut self) {
        let one_in = 1 + self.random.below(3);
        let files: BTreeSet<u64> = self.files.values().map(|file| file.id.fingerprint()).collect();
        let files: BTreeSet<u64> = files.into_iter().filter(|_| self.random.one_in(one_in)).collect();
        if files.is_empty() {
            return;
        }
        let id = file(self.random.next());
        let bytes = self.build(id, &files, &Filters::default());
        // A map of another hash, of the same files and with the same id, is refused.
        let other = Filters::default().with_hasher(KeyHasher::with_seed(1));
        let foreign = self.build(id, &files, &other);
        assert!(FileMap::load(foreign.as_slice(), &Filters::default(), id).is_err());
        self.put(id, bytes);
    }

    /// Merges some maps and drops files that are gone, or all of one map, or some.
    fn merge_maps(&mut self) {
        let count = 1 + self.random.below(self.maps.len().clamp(1, 4));
        let inputs: Vec<Stored> = self.maps.drain(..count.min(self.maps.len())).collect();
        let live: BTreeSet<u64> = self.files.values().map(|file| file.id.fingerprint()).collect();
        let how = self.random.below(3);
        let mut kept = BTreeSet::new();
        let mut merging = MapMerge::new(self.options);
        for input in &inputs {
            add(&mut merging, input.map.as_bytes(), |file| {
                let is_kept = match how {
                    0 => true,
                    1 => live.contains(&file.fingerprint()),
                    _ => self.random.below(4) > 0,
                };
                if is_kept {
                    kept.insert(file.fingerprint());
                }
                is_kept
            });
        }
        let (id, mut merged) = (file(self.random.next()), Vec::new());
        let report = merging.finish(id, &mut merged);
        if kept.is_empty() {
            assert!(report.is_err());
        } else {
            let report = report.unwrap();
            self.count(MERGES, 1);
            self.count(UNKNOWN, u64::from(report.unknown_pages > 0));
            self.count(OUTGROWN, u64::from(report.outgrown_pages > 0));
            self.count(LISTS, u64::from(report.lists > 0));
            let is_whole = inputs.iter().all(|input| input.is_whole);
            if is_whole {
                assert_eq!(report.unknown_pages, 0);
            }
            if report.unknown_pages == 0 {
                assert!(merged == self.build(id, &kept, &Filters::default()), "a merge differs from a build");
            }
            let before = self.maps.len();
            self.put(id, merged);
            assert!(self.maps[before].map.problems().next().is_none());
        }
        self.old.extend(inputs);
    }

    fn damage(&mut self) {
        if self.maps.is_empty() {
            return;
        }
        let at = self.random.below(self.maps.len());
        let Stored { map, .. } = self.maps.remove(at);
        let (id, mut bytes) = (map.index().map_id(), map.as_bytes().to_vec());
        let at = self.random.below(bytes.len());
        if self.random.one_in(4) {
            // A page was written to the place of another, or not at all.
            let page_bytes = map.index().page_range(0).end as usize;
            let other = self.random.below(map.index().pages() as usize) * page_bytes;
            bytes.copy_within(0..page_bytes, other);
        } else {
            bytes[at] ^= 1 << self.random.below(8);
        }
        self.put(id, bytes);
    }

    fn step(&mut self) {
        let name = self.random.below(NAMES);
        match self.random.below(12) {
            0..=3 => (0..8).for_each(|other| self.add_file((name + other) % NAMES)),
            4 => drop(self.files.remove(&name)),
            5 => self.add_file(name),
            6 => self.build_map(),
            7 | 8 => self.merge_maps(),
            9 => self.damage(),
            10 if self.maps.len() > 4 || self.random.one_in(3) => {
                self.maps.pop().into_iter().for_each(|map| self.old.push(map));
            }
            // An old map is there again, perhaps before the one that replaced it.
            10 if !self.old.is_empty() => {
                let old = self.random.below(self.old.len());
                let at = self.random.below(self.maps.len() + 1);
                self.maps.insert(at, self.old.swap_remove(old));
                self.count(OLD, 1);
            }
            _ => self.take_snapshot(),
        }
        self.old.truncate(6);
        self.check(&self.snapshot());
        let snapshots = core::mem::take(&mut self.snapshots);
        if let Some(snapshot) = snapshots.first() {
            self.check_set(snapshot);
            self.count(HELD, 1);
        }
        self.snapshots = snapshots;
    }

    fn snapshot(&self) -> Snapshot {
        // In an order of their own, sometimes with one that comes twice.
        let mut files: Vec<File> = self.files.values().cloned().collect();
        files.sort_by_key(|file| mix(file.id.fingerprint() ^ self.random.0));
        if files.len() % 5 == 1 {
            files.extend(files.first().cloned());
        }
        let maps: Vec<Map> = self.maps.iter().map(|stored| stored.map.clone()).collect();
        let ids: Vec<FileId> = files.iter().map(|file| file.id).collect();
        Snapshot {
            set: MapSet::new(&maps, &ids),
            maps: self.maps.clone(),
            owners: Owners::of(files.iter(), KeyHash::get),
        }
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() == 3 || self.random.one_in(3) {
            self.snapshots.pop();
        }
        let snapshot = self.snapshot();
        self.snapshots.push(snapshot);
    }
}

/// Whether no answer of a page is that of unknown entries.
fn is_known(map: &FileMap<Arc<[u8]>>, page: u64) -> bool {
    let first = ((u128::from(page) << 64).div_ceil(u128::from(map.index().pages()))) as u64;
    let bits = map.index().prefix_bits();
    // The first prefix of the page, if there is one.
    let hash =
        KeyHash::from_well_mixed(first.div_ceil(1 << (64 - bits)).checked_shl(64 - u32::from(bits)).unwrap_or(0));
    map.index().page_of(hash) != page || !matches!(map.candidates(hash), MapAnswer::All)
}

impl Store {
    fn check(&mut self, now: &Snapshot) {
        self.check_set(now);
        for stored in &now.maps {
            self.check_map(stored);
        }
    }

    /// Looks for every key through the set of the snapshot.
    fn check_set(&mut self, snapshot: &Snapshot) {
        let mut matches = Vec::new();
        for (number, &hash) in snapshot.owners.hashes.iter().enumerate() {
            snapshot.set.matches(hash, &mut matches);
            let (owners, mut found) = (snapshot.owners.of_key(number), matches.iter());
            assert!(
                owners.iter().all(|owner| found.any(|position| position == owner)),
                "{hash:?} of {owners:?} is lost"
            );
            assert!(matches.is_sorted_by(|one, two| one < two));
        }
        self.count(ANSWERS, snapshot.owners.positions.len() as u64);
    }

    /// Looks for every key of the files that a map covers, one by one, in a batch, and part by part. The candidates of
    /// a map that is whole are exactly the files that have the prefix.
    fn check_map(&mut self, Stored { map, is_whole, owners }: &Stored) {
        let index = map.index();
        let mut parts = vec![None; index.pages() as usize];
        let is_right = |number: usize, found: MapAnswer<'_>| {
            let mut owners = owners.of_key(number).iter().copied();
            match found {
                MapAnswer::Only(ids) if *is_whole => ids.map(LocalId::index).eq(owners),
                MapAnswer::Only(mut ids) => owners.all(|owner| ids.any(|id| id.index() == owner)),
                MapAnswer::All => !is_whole,
            }
        };
        let mut visited = 0;
        map.candidates_each(&owners.hashes, |number, found| {
            assert!(is_right(number, found), "{:?} in a batch", owners.hashes[number]);
            visited += 1;
        });
        assert_eq!(visited, owners.hashes.len());
        for (number, &hash) in owners.hashes.iter().enumerate() {
            assert!(is_right(number, map.candidates(hash)), "{hash:?}: {:?}", map.candidates(hash));
            let part = parts[index.page_of(hash) as usize].get_or_insert_with(|| {
                let read = index.read_for(hash);
                index.open(&read, bytes_of(&read, map.as_bytes())).ok()
            });
            let owners = owners.of_key(number);
            match probe(index, part.as_ref(), hash)
                .unwrap_or_else(|_| candidates_by_reads(index, map.as_bytes(), hash).0)
            {
                Some(ids) if *is_whole => assert!(owners == ids, "{hash:?} part by part"),
                Some(ids) => assert!(owners.iter().all(|owner| ids.contains(owner)), "{hash:?}"),
                None => assert!(!is_whole, "{hash:?}"),
            }
        }
        self.count(ANSWERS, 3 * owners.positions.len() as u64);
    }
}

fn walk(seed: u64, steps: usize) -> Counts {
    let mut store = Store::new(seed);
    (0..NAMES / 2).for_each(|name| store.add_file(name));
    (0..steps).for_each(|_| store.step());
    store.counts
}

// promise: no-false-negatives
#[test]
fn no_key_is_lost_in_random_walks_of_a_store() {
    let is_longest = effort::is_longest();
    let (walks, steps) = match () {
        () if is_longest => (2_200, 40),
        () if effort::is_short() => (8, 12),
        () => (effort::of_minutes(400, 100, 32), 40),
    };
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Counts::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= walks {
                break;
            }
            let own = walk(seed, steps);
            own.into_iter().for_each(|(what, count)| *sum.lock().unwrap().entry(what).or_default() += count);
        }
    };
    thread::scope(|scope| {
        // WASI has no threads.
        if is_longest || effort::is_long() {
            scope.spawn(work);
        }
        work();
    });
    let sum = sum.into_inner().unwrap();
    println!("{walks} walks: {sum:?}");
    let missing: Vec<_> = ALL.iter().filter(|what| sum.get(*what).is_none_or(|&count| count == 0)).collect();
    assert!(missing.is_empty() || effort::is_short(), "{missing:?}");
}
