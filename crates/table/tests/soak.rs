//! A store that is read while its tables are replaced, for any length of time. The failures guarded against: an answer
//! from another version than the one being read, a reader that fails when its files are removed, counts that miss a
//! lookup, and memory or descriptors that a replacement does not release.
//!
//! `cargo test --test soak -- --nocapture` takes two seconds, and longer where the disk or the machine is
//! slow; `SSTFILTER_SOAK_SECONDS=3600` an hour, with a line a minute. Every thread rests three times as long as it used
//! a core, so that four threads take one core. This is a separate program, because it counts the memory and the open
//! files of its process.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use std::{fs, thread};

use bytes::Bytes;
use common::policies::every_policy;
use common::random::Random;
use sstfilter::{FilterPolicy, KeyHasher};
use sstfilter_store::FileStats;
use sstfilter_table::{Table, TableOptions, TableSet, TableSnapshot, TableWriter};

const KEYS: usize = 4_000;
const READERS: u64 = 3;
/// Maximum number of replaced versions that readers hold: each holds the one that it reads, and for a moment the one
/// that it compares it with.
const HELD: u64 = 2 * READERS;
/// At this many tables, the next replacement is a compaction.
const MAX_TABLES: usize = 10;
/// Minimum time of a replacement: files are synced, and the disk may have other users.
const PACE: Duration = Duration::from_millis(20);

fn key(number: usize) -> Vec<u8> {
    format!("account/{:02}/{number:05}", number % 7).into_bytes()
}

/// Returns the value that write `stamp` gave to the key: 12 to 139 bytes, which no other write uses.
fn value(number: usize, stamp: u32) -> Vec<u8> {
    let mut value = [(number as u64).to_le_bytes().as_slice(), &stamp.to_le_bytes()].concat();
    value.resize(12 + (number * 31 + stamp as usize * 17) % 128, b'.');
    value
}

/// The number of each key, and the write that its value is from; `None` if it has no value.
type Model = BTreeMap<Vec<u8>, (usize, Option<u32>)>;

/// A state of the store, which lives until its last reader is done.
struct Version {
    number: u64,
    set: Arc<TableSnapshot>,
    model: Arc<Model>,
    /// Number of lookups made.
    asked: AtomicU64,
}

impl Version {
    fn expected(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (number, stamp) = self.model.get(key)?;
        stamp.map(|stamp| value(*number, stamp))
    }

    fn assert_value(&self, key: &[u8], got: Option<&Bytes>) {
        let expected = self.expected(key);
        let shown = String::from_utf8_lossy(key);
        assert_eq!(got.map(AsRef::as_ref), expected.as_deref(), "{shown} of version {}", self.number);
    }

    fn get(&self, random: &mut Random) -> u64 {
        let key = any_key(random);
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.assert_value(&key, self.set.get(&key).unwrap().as_ref());
        1
    }

    fn multi_get(&self, random: &mut Random) -> u64 {
        let keys: Vec<Vec<u8>> = (0..=random.below(64)).map(|_| any_key(random)).collect();
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.asked.fetch_add(refs.len() as u64, Ordering::Relaxed);
        for (key, got) in refs.iter().zip(self.set.multi_get(&refs)) {
            self.assert_value(key, got.unwrap().as_ref());
        }
        refs.len() as u64
    }

    /// Scans a range that may begin or end anywhere.
    fn scan(&self, random: &mut Random) {
        let (from, to) = (any_key(random), any_key(random));
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        let scanned = self.set.range(&from[..]..&to[..]).map(Result::unwrap).take(200);
        let expected = self.model.range(from.clone()..to.clone());
        let expected = expected
            .filter_map(|(key, _)| Some((Bytes::from(key.clone()), Bytes::from(self.expected(key)?))))
            .take(200);
        assert!(scanned.eq(expected), "version {}: {}", self.number, from.escape_ascii());
    }

    /// Asserts that everything was counted exactly once. Call it when the version has no more readers.
    fn assert_counted(&self) {
        let stats = self.set.stats();
        assert_eq!(self.set.view().lookups(), self.asked.load(Ordering::Relaxed), "version {}", self.number);
        let tables = self.set.all_tables().map(|table| table.stats().filters);
        let tables = tables.fold(FileStats::default(), |sum, stats| sum.merged(&stats));
        assert_eq!((stats.filters.skipped_by_bounds, stats.filters.filter.unusable), (tables.skipped_by_bounds, 0));
        assert_eq!(stats.filters.filter.negatives, tables.filter.negatives);
        let outcomes = tables.filter.true_positives + tables.filter.false_positives;
        assert_eq!(tables.filter.positives, outcomes, "version {}", self.number);
        assert!(self.set.tables(0).all(|table| table.filter_problem().is_none()));
    }
}

/// Returns a random key of the store, or one that it never contains.
fn any_key(random: &mut Random) -> Vec<u8> {
    let mut key = key(random.below(KEYS));
    if random.one_in(4) {
        // No written key ends so, but it sorts between two that are written.
        key.push(b'!');
    }
    key
}

/// A period of work of one thread.
struct Work {
    begun: Instant,
    cpu_ns: Option<u64>,
}

impl Work {
    fn begin() -> Self {
        Self { begun: Instant::now(), cpu_ns: cpu_ns() }
    }

    /// Sleeps for three times the CPU time of the work (or three times its duration, if the system does not report CPU
    /// time), and at least for `pace`.
    fn rest(&self, pace: Duration) {
        // CPU time, not elapsed time: a waiting thread would otherwise rest for too long.
        let had = self.cpu_ns.zip(cpu_ns()).map(|(before, after)| Duration::from_nanos(after - before));
        thread::sleep((had.unwrap_or(self.begun.elapsed()) * 3).max(pace));
    }
}

/// Returns the CPU time of this thread so far.
fn cpu_ns() -> Option<u64> {
    // Only on Linux; the first field is the time on a CPU in nanoseconds.
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

struct Store {
    current: RwLock<Arc<Version>>,
    is_over: AtomicBool,
    lookups: AtomicU64,
    /// Number of lookups in versions that had already been replaced.
    outdated: AtomicU64,
    replacements: AtomicU64,
}

impl Store {
    fn new(first: Version) -> Self {
        Self {
            current: RwLock::new(Arc::new(first)),
            is_over: AtomicBool::new(false),
            lookups: AtomicU64::new(0),
            outdated: AtomicU64::new(0),
            replacements: AtomicU64::new(0),
        }
    }

    fn current(&self) -> Arc<Version> {
        self.current.read().unwrap().clone()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the number of lookups, of lookups in replaced versions, and of replacements.
    fn counts(&self) -> [u64; 3] {
        [&self.lookups, &self.outdated, &self.replacements].map(|count| count.load(Ordering::Relaxed))
    }

    fn has_done_enough(&self) -> bool {
        self.counts().iter().all(|&count| count >= 12)
    }

    /// Reads until the end, each version in several bursts: by the last one, it has often been replaced.
    fn read(&self, mut random: Random) {
        while !self.is_over() {
            let version = self.current();
            for _ in 0..=random.below(4) {
                let work = Work::begin();
                // Checked before the burst, so that all of its lookups are in a replaced version.
                let is_outdated = self.current().number != version.number;
                let lookups = burst(&version, &mut random);
                self.lookups.fetch_add(lookups, Ordering::Relaxed);
                self.outdated.fetch_add(if is_outdated { lookups } else { 0 }, Ordering::Relaxed);
                work.rest(Duration::ZERO);
            }
        }
    }
}

/// Reads for some milliseconds, and returns the number of lookups.
fn burst(version: &Version, random: &mut Random) -> u64 {
    let mut lookups = 0;
    for _ in 0..200 {
        match random.below(100) {
            // Mostly lookups, as in a store; scans take much longer.
            0..60 => lookups += version.get(random),
            60..96 => lookups += version.multi_get(random),
            _ => version.scan(random),
        }
    }
    if random.one_in(50) {
        let tables: Vec<&Arc<Table>> = version.set.tables(0).collect();
        random.pick(&tables).verify().unwrap();
    }
    lookups
}

/// The writer: its next numbers, and the versions and files to clean up.
struct Writer {
    directory: PathBuf,
    random: Random,
    policies: Vec<Option<Arc<dyn FilterPolicy>>>,
    model: Model,
    /// Numbers of the files in use, newest first.
    files: Vec<u64>,
    written: u64,
    published: u64,
    /// Replaced versions that may still be read.
    retired: Vec<Arc<Version>>,
}

/// Entries of a new table: the value, or `None` for a tombstone.
type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Writer {
    fn new(directory: &Path) -> Self {
        let model = (0..KEYS).map(|number| (key(number), (number, None))).collect();
        Self {
            directory: directory.to_path_buf(),
            random: Random::new(1),
            policies: every_policy(),
            model,
            files: vec![],
            written: 0,
            published: 0,
            retired: vec![],
        }
    }

    fn path(&self, file: u64) -> PathBuf {
        self.directory.join(format!("{file:08}.sst"))
    }

    /// Writes a table with the next policy, and returns its number.
    fn write(&mut self, entries: &Entries) -> u64 {
        self.written += 1;
        let mut id = [0; 16];
        // Ids never repeat, as the options require.
        id[..8].copy_from_slice(&self.written.to_le_bytes());
        let options = TableOptions::default().with_table_id(id).with_block_bytes(1_024).unwrap();
        // By turns, so that every run uses every policy.
        let turn = usize::try_from(self.written).unwrap() % self.policies.len();
        let options = match &self.policies[turn] {
            Some(policy) => options.with_policy(policy.clone()),
            None => options.without_filter(),
        };
        let mut writer = TableWriter::create(self.path(self.written), &options).unwrap();
        for (key, value) in entries {
            match value {
                Some(value) => writer.add(key, value).unwrap(),
                None => writer.delete(key).unwrap(),
            }
        }
        writer.finish().unwrap();
        self.written
    }

    /// Writes `count` keys, a fifth of them deleted, to a new table on top.
    fn flush(&mut self, count: usize) {
        let stamp = u32::try_from(self.written).unwrap() + 1;
        let numbers: BTreeSet<usize> = (0..count).map(|_| self.random.below(KEYS)).collect();
        let mut entries = Entries::new();
        for number in numbers {
            // A fifth are tombstones.
            let stamp = (!self.random.one_in(5)).then_some(stamp);
            self.model.insert(key(number), (number, stamp));
            entries.insert(key(number), stamp.map(|stamp| value(number, stamp)));
        }
        let file = self.write(&entries);
        self.files.insert(0, file);
    }

    /// Merges some neighbouring tables of `version` into one. Returns the files that it replaces.
    fn compact(&mut self, version: &Version) -> Vec<u64> {
        let tables: Vec<&Arc<Table>> = version.set.tables(0).collect();
        let first = self.random.below(tables.len() - 1);
        let end = first + 2 + self.random.below(tables.len() - first - 1);
        let mut merged = Entries::new();
        for table in tables[first..end].iter().rev() {
            merged.extend(table.iter().map(Result::unwrap).map(|entry| (entry.key.into(), entry.value.map(Vec::from))));
        }
        if end == tables.len() {
            merged.retain(|_, value| value.is_some());
        }
        let file = self.write(&merged);
        self.files.splice(first..end, [file]).collect()
    }

    /// Opens the tables in use; every other version caches blocks.
    fn open(&mut self) -> Version {
        self.published += 1;
        let options = TableOptions::default().with_hasher(KeyHasher::default());
        let options = if self.published.is_multiple_of(2) { options.with_block_cache(1 << 30) } else { options };
        let set = TableSet::open((0..).zip(self.files.iter().rev().map(|&file| self.path(file))), &options).unwrap();
        Version {
            number: self.published,
            set: set.snapshot(),
            model: Arc::new(self.model.clone()),
            asked: AtomicU64::new(0),
        }
    }

    fn replace(&mut self, store: &Store) {
        let before = store.current();
        let removed = if self.files.len() >= MAX_TABLES || (self.files.len() > 3 && self.random.one_in(4)) {
            self.compact(&before)
        } else {
            let count = 1 + self.random.below(400);
            self.flush(count);
            vec![]
        };
        drop(before);
        let version = Arc::new(self.open());
        self.retired.push(std::mem::replace(&mut *store.current.write().unwrap(), version));
        removed.iter().for_each(|&file| fs::remove_file(self.path(file)).unwrap());
        self.drop_unread();
        store.replacements.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_unread(&mut self) {
        self.retired.retain_mut(|version| {
            let Some(unread) = Arc::get_mut(version) else { return true };
            unread.assert_counted();
            false
        });
        assert!(self.retired.len() as u64 <= HELD, "{} replaced versions are held", self.retired.len());
    }

    fn run(&mut self, store: &Store) {
        while !store.is_over() {
            let work = Work::begin();
            self.replace(store);
            work.rest(PACE);
        }
    }
}

/// Returns the bytes of memory and the open descriptors of this process; `None` if the system does not report them.
fn resources() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kibibytes << 10, fs::read_dir("/proc/self/fd").ok()?.count() as u64))
}

/// Maximum use in two periods, the second of which must not use more. `None` if nothing was measured, as may happen on
/// a busy machine.
#[derive(Default)]
struct Usage {
    early: Option<(u64, u64)>,
    late: Option<(u64, u64)>,
}

impl Usage {
    fn assert_flat(&self) {
        let Some((late_bytes, late_open)) = self.late else { return println!("soak: memory was not looked at") };
        println!("soak: at most {late_bytes} bytes and {late_open} descriptors late; early {:?}", self.early);
        if let Some((early_bytes, _)) = self.early {
            let allowed = early_bytes + early_bytes / 10 + (4 << 20);
            assert!(late_bytes <= allowed, "memory: {late_bytes} bytes where {early_bytes} were enough");
        }
        // The versions that readers hold, the current one, and one that is being opened or was just replaced.
        let allowed = (HELD + 2) * MAX_TABLES as u64 + 16;
        assert!(late_open <= allowed, "{late_open} descriptors, expected at most {allowed}");
    }
}

/// Returns how long to run at least, and at most if too little has happened by then.
fn lengths() -> [Duration; 2] {
    match std::env::var("SSTFILTER_SOAK_SECONDS") {
        Ok(seconds) => [Duration::from_secs(seconds.parse().unwrap()); 2],
        Err(_) => [2, 60].map(Duration::from_secs),
    }
}

/// Monitors a run from beginning to end.
fn watch(store: &Store, [least, most]: [Duration; 2]) -> Usage {
    let warm = (least / 4).min(Duration::from_secs(60));
    let late = (least / 2).min(Duration::from_secs(300));
    let step = (least / 100).min(Duration::from_millis(500));
    let is_over = |elapsed| elapsed >= most || (elapsed >= least && store.has_done_enough());
    let (begun, mut minutes, mut usage) = (Instant::now(), 0, Usage::default());
    while !is_over(begun.elapsed()) && !store.is_over() {
        thread::sleep(step);
        let Some((bytes, open)) = resources() else { continue };
        let elapsed = begun.elapsed();
        if elapsed > warm {
            let span = if elapsed < late { &mut usage.early } else { &mut usage.late };
            let (max_bytes, max_open) = span.unwrap_or_default();
            *span = Some((max_bytes.max(bytes), max_open.max(open)));
        }
        if elapsed.as_secs() / 60 > minutes {
            minutes = elapsed.as_secs() / 60;
            println!("soak: minute {minutes}: {}, {bytes} bytes, {open} descriptors", progress(store));
        }
    }
    store.is_over.store(true, Ordering::Relaxed);
    usage
}

fn progress(store: &Store) -> String {
    let [lookups, outdated, replacements] = store.counts();
    format!("{lookups} lookups, {outdated} of them in replaced versions, {replacements} replacements")
}

/// Ends the run when a thread ends, also by a panic: the others would continue for hours.
struct EndsTheRun<'a>(&'a Store);

impl Drop for EndsTheRun<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

// promise: bounded-memory
#[test]
fn readers_get_the_answers_of_their_version_while_tables_are_replaced_and_nothing_grows() {
    let before = resources();
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path());
    writer.flush(KEYS);
    let store = Store::new(writer.open());
    let usage = thread::scope(|scope| {
        for reader in 0..READERS {
            let store = &store;
            scope.spawn(move || {
                let _end = EndsTheRun(store);
                store.read(Random::new(100 + reader));
            });
        }
        scope.spawn(|| {
            let _end = EndsTheRun(&store);
            writer.run(&store);
        });
        watch(&store, lengths())
    });
    println!("soak: {}", progress(&store));
    assert!(store.has_done_enough(), "too little happened: {}", progress(&store));
    writer.drop_unread();
    assert!(writer.retired.is_empty());
    store.current().assert_counted();
    let files: BTreeSet<PathBuf> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files, writer.files.iter().map(|&file| writer.path(file)).collect(), "files that nobody removed");
    drop((store, writer));
    if let Some((before, after)) = before.zip(resources()) {
        usage.assert_flat();
        assert_eq!(after.1, before.1, "descriptors that nobody closed");
    }
}
