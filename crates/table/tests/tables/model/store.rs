//! The store: a memtable, tables from newest to oldest, and the map to compare with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::{FilterBudget, FilterPart};
use sstfilter_table::{FilterVerdict, Lookup, Table, TableError, TableOptions, TableSet};

use super::counts::Counts;
use super::tables::{File, Probing};
use crate::Entries;
use crate::common::random::Random;

/// With this many tables, a compaction precedes a flush.
const MAX_TABLES: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Style {
    /// `user/00042`, and few of them.
    Numbered,
    /// Up to five bytes of a few values, including the empty key.
    Short,
    /// A long common prefix, and a delimiter in some.
    Prefixed,
}

pub(crate) struct Store {
    style: Style,
    /// Approximate number of keys.
    keys: usize,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    memtable: Entries,
    /// Newest first, as in the set.
    files: Vec<File>,
    set: TableSet,
    probing: Probing,
    directory: Option<tempfile::TempDir>,
    written: u64,
    counts: Counts,
}

impl Store {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x5708_e000);
        let probing = Probing::any(random);
        Self {
            style: *random.pick(&[Style::Numbered, Style::Short, Style::Prefixed]),
            // With few keys, versions and tombstones collide; with many, tables have several blocks.
            keys: *random.pick(&[3, 30, 300]),
            model: BTreeMap::new(),
            memtable: Entries::new(),
            files: vec![],
            set: TableSet::new([]).unwrap(),
            probing,
            // Seldom, because files are much slower than memory.
            directory: random.one_in(100).then(|| tempfile::tempdir().unwrap()),
            written: 0,
            counts: Counts::default(),
        }
    }

    /// Returns a key that the store may contain, or one close to such a key.
    fn any_key(&self, random: &mut Random) -> Vec<u8> {
        let number = random.below(self.keys);
        let mut key = match self.style {
            Style::Numbered => format!("user/{number:05}").into_bytes(),
            Style::Short => (0..number % 6).map(|at| *b"\0/a\xff".iter().cycle().nth(number >> at).unwrap()).collect(),
            Style::Prefixed => format!("a common beginning{}{number:x}", ["", "/", "/t/"][number % 3]).into_bytes(),
        };
        // Keys just outside of those that the store writes.
        match random.below(16) {
            0 => key.push(0),
            1 => drop(key.pop()),
            2 => key.truncate(2),
            _ => {}
        }
        key
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match &value {
            Some(value) => self.model.insert(key.clone(), value.clone()),
            None => self.model.remove(&key),
        };
        self.memtable.insert(key, value);
    }

    pub(crate) fn write(&mut self, random: &mut Random) {
        for _ in 0..=random.below(self.keys.min(40)) {
            let (key, size) = (self.any_key(random), *random.pick(&[0, 3, 20, 90]));
            let value = (0..size).map(|_| random.next().to_le_bytes()[0]).collect();
            self.put(key, Some(value));
        }
    }

    pub(crate) fn delete(&mut self, random: &mut Random) {
        for _ in 0..=random.below(8) {
            let key = self.any_key(random);
            self.put(key, None);
            self.counts.add("deletes", 1);
        }
    }

    pub(crate) fn flush(&mut self, random: &mut Random) {
        if self.files.len() >= MAX_TABLES {
            self.compact(random);
        }
        let entries = std::mem::take(&mut self.memtable);
        self.counts.add("flushes", 1);
        self.replace(0..0, entries, random);
    }

    /// Merges neighbouring tables from what they return.
    pub(crate) fn compact(&mut self, random: &mut Random) {
        if self.files.is_empty() {
            return;
        }
        let first = random.below(self.files.len());
        let end = first + 1 + random.below(self.files.len() - first);
        let mut merged = Entries::new();
        for table in self.tables()[first..end].iter().rev() {
            merged.extend(read_all(table.iter()));
        }
        let before = merged.len();
        if end == self.files.len() {
            merged.retain(|_, value| value.is_some());
        } else {
            let kept = merged.values().filter(|value| value.is_none()).count();
            self.counts.add("compactions that kept tombstones", u64::from(kept > 0));
        }
        self.counts.add("tombstones dropped", (before - merged.len()) as u64);
        self.counts.add("compactions", 1);
        self.replace(first..end, merged, random);
    }

    /// Writes a table of `entries` that replaces others, and reopens the set.
    fn replace(&mut self, place: std::ops::Range<usize>, entries: Entries, random: &mut Random) {
        self.counts.add("empty tables", u64::from(entries.is_empty()));
        self.written += 1;
        let directory = self.directory.as_ref().map(tempfile::TempDir::path);
        let file = File::write(entries, &self.probing, self.written, directory, random, &mut self.counts);
        let replaced: Vec<File> = self.files.splice(place, [file]).collect();
        self.open(random);
        replaced.into_iter().for_each(File::remove);
    }

    pub(crate) fn reopen(&mut self, random: &mut Random) {
        if random.one_in(3) {
            self.probing = Probing::any(random);
        }
        self.counts.add("reopenings", 1);
        self.open(random);
    }

    /// Opens all tables with the store's hash and key parts.
    fn open(&mut self, random: &mut Random) {
        self.count_stats();
        let is_keeping = random.one_in(2);
        let is_ignoring = random.one_in(12);
        let budget = random.one_in(2).then(|| *random.pick(&[0, 1, 300, 3_000, u64::MAX]));
        // A plan every few probes, so that filters are loaded, shrunk and evicted in the middle of a sequence.
        let budget = budget.map(|bytes| FilterBudget::new(bytes).with_probes_per_plan(8));
        let mut options = TableOptions::default().with_key_parts(self.probing.parts.clone());
        options = options.with_hasher(self.probing.hasher.clone());
        if is_keeping {
            options = options.with_block_cache(1 << 30);
        }
        // Tables with the same options are probed together.
        let budgeted = budget.map(|budget| options.clone().with_filter_budget(budget));
        let mut options = || {
            let options = budgeted.as_ref().filter(|_| random.one_in(2)).unwrap_or(&options).clone();
            if is_ignoring && random.one_in(2) { options.without_filter() } else { options }
        };
        let tables: Vec<Table> = self.files.iter().map(|file| file.open(&options())).collect();
        self.set = crate::set_of(tables);
        self.check_filters();
    }

    /// The newest first.
    fn tables(&self) -> Vec<Arc<Table>> {
        crate::tables_of(&self.set)
    }

    /// Checks that a filter is probed exactly if its table was written with the store's current hash and a common key
    /// part.
    fn check_filters(&mut self) {
        for (file, table) in self.files.iter().zip(self.tables()) {
            let has_other_hash = file.probing.hasher.identity() != self.probing.hasher.identity();
            let shares_parts = file.probing.shares_parts(&self.probing, file.entries.keys());
            let has_other_parts = !file.probing.has_same_parts(&self.probing);
            self.counts.add("hashes that differ", u64::from(has_other_hash));
            self.counts.add("extractors that differ", u64::from(!shares_parts));
            self.counts.add("extractors, some shared", u64::from(has_other_parts && shares_parts));
            let (filters, problem) = (table.filters(), table.filter_problem());
            match filters.metadata().sections() {
                [] => {
                    assert!(problem.is_none());
                    self.counts.add("filters ignored", u64::from(!table.properties().filters.sections().is_empty()));
                }
                [section] => {
                    let is_used = !has_other_hash && shares_parts;
                    assert_eq!(problem.is_none(), is_used, "{problem:?}");
                    let is_whole = section.part == FilterPart::Points;
                    let is_budgeted = is_used && table.store().budget().is_some();
                    assert_eq!(filters.block().is_some(), is_used && is_whole && !is_budgeted);
                    self.counts.add("partitions", u64::from(filters.residency().partitions) * u64::from(!is_whole));
                    self.counts.add("filters under a budget", u64::from(is_budgeted));
                }
                sections => panic!("{sections:?}"),
            }
        }
    }

    /// Returns the newest entry in the tables.
    fn stored(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.files.iter().find_map(|file| file.entries.get(key))
    }

    /// Compares the set's answer for a key with the tables, and with the map unless a newer write hides it.
    fn check(&mut self, key: &[u8], got: Result<Option<Bytes>, TableError>) {
        let got = got.unwrap();
        let stored = self.stored(key);
        let is_tombstone = matches!(stored, Some(None));
        let expected = stored.and_then(Option::as_deref);
        assert_eq!(got.as_deref(), expected, "{}", key.escape_ascii());
        let seen = self.memtable.get(key).map_or(got.as_deref(), Option::as_deref);
        assert_eq!(seen, self.model.get(key).map(Vec::as_slice), "{}", key.escape_ascii());
        let holders = self.files.iter().filter(|file| file.entries.contains_key(key)).count();
        self.counts.add("hidden values", u64::from(holders > 1));
        self.counts.add("tombstone hits", u64::from(is_tombstone));
        self.counts.add("keys outside the domain", u64::from(self.probing.is_outside(key)));
    }

    pub(crate) fn get(&mut self, random: &mut Random) {
        for _ in 0..20 {
            let key = self.any_key(random);
            let got = self.set.get(&key);
            self.check(&key, got);
            self.counts.add("point reads", 1);
        }
    }

    pub(crate) fn multi_get(&mut self, random: &mut Random) {
        let keys: Vec<Vec<u8>> = (0..random.below(80)).map(|_| self.any_key(random)).collect();
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let got = self.set.multi_get(&refs);
        assert_eq!(got.len(), keys.len());
        keys.iter().zip(got).for_each(|(key, got)| self.check(key, got));
        self.counts.add("batch reads", 1);
    }

    pub(crate) fn ask_one_table(&mut self, random: &mut Random) {
        if self.files.is_empty() {
            return;
        }
        let position = random.below(self.files.len());
        let (file, table) = (&self.files[position], &self.tables()[position]);
        let unfiltered = file.open(&TableOptions::default().without_filter());
        for _ in 0..10 {
            let key = self.any_key(random);
            let expected = match file.entries.get(&key) {
                None => Lookup::Absent,
                Some(None) => Lookup::Deleted,
                Some(Some(value)) => Lookup::Found(value.clone().into()),
            };
            assert_eq!(table.get(&key).unwrap(), expected, "{}", key.escape_ascii());
            assert_eq!(unfiltered.get(&key).unwrap(), expected);
            assert!(table.may_contain_key(&key) || expected == Lookup::Absent);
        }
    }

    /// Walks every table from some key on, and all tables together.
    pub(crate) fn walk(&mut self, random: &mut Random) {
        let from = if random.one_in(4) { vec![] } else { self.any_key(random) };
        let mut newest = self.memtable.range(from.clone()..).map(|(key, value)| (key.clone(), value.clone())).collect();
        for (file, table) in self.files.iter().zip(self.tables()) {
            let walked: Entries = read_all(table.range(from.as_slice()..)).collect();
            assert!(walked.iter().eq(file.entries.range(from.clone()..)), "from {}", from.escape_ascii());
            if from.is_empty() {
                assert!(read_all(table.iter()).eq(walked.clone()));
            }
            self.counts.add("walked entries", walked.len() as u64);
            let mut merged = walked;
            merged.append(&mut newest);
            newest = merged;
        }
        newest.retain(|_, value| value.is_some());
        let expected = self.model.range(from..).map(|(key, value)| (key, Some(value)));
        assert!(newest.iter().map(|(key, value)| (key, value.as_ref())).eq(expected));
    }

    pub(crate) fn scan_prefix(&mut self, random: &mut Random) {
        for _ in 0..20 {
            let mut prefix = self.any_key(random);
            prefix.truncate(random.below(prefix.len() + 1));
            let mut stored = Entries::new();
            for (file, table) in self.files.iter().zip(self.tables()).rev() {
                let with_prefix = file.entries.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
                let mut with_prefix = with_prefix.map(|(key, value)| (key.clone(), value.clone())).peekable();
                let may_contain = table.filters().may_contain_prefix(&prefix);
                assert!(may_contain || with_prefix.peek().is_none(), "{}", prefix.escape_ascii());
                self.counts.add("tables skipped for a prefix", u64::from(!may_contain));
                stored.extend(with_prefix);
            }
            stored.retain(|_, value| value.is_some());
            let tables = self.set.snapshot();
            let scanned: Vec<_> = tables.scan_prefix(&prefix).map(Result::unwrap).collect();
            let live = stored.into_iter().map(|(key, value)| (key.into(), value.unwrap().into()));
            assert!(scanned.iter().cloned().eq(live), "{}", prefix.escape_ascii());
            self.counts.add("entries scanned by prefix", scanned.len() as u64);
            self.counts.add("prefixes queried", 1);
        }
    }

    pub(crate) fn verify(&mut self, _: &mut Random) {
        for (file, table) in self.files.iter().zip(self.tables()) {
            let report = table.verify().unwrap();
            assert_eq!(report.entries, file.entries.len() as u64);
            let is_probed = matches!(report.filter, FilterVerdict::ContainsAll { .. });
            let has_filter = !table.filters().metadata().sections().is_empty();
            assert!(!has_filter || table.filter_problem().is_none() == is_probed, "{:?}", report.filter);
        }
    }

    /// Adds the set's counts so far.
    fn count_stats(&mut self) {
        let stats = self.set.stats();
        self.counts.add("range skips", stats.filters.skipped_by_bounds);
        self.counts.add("block cache hits", stats.block_cache_hits);
        let filter = stats.filters.filter;
        self.counts.add("negatives", filter.negatives);
        self.counts.add("true positives", filter.true_positives);
        self.counts.add("false positives", filter.false_positives);
        self.counts.add("unusable filters probed", filter.unusable);
        self.counts.add("probes of filters that were not loaded", filter.not_loaded);
    }

    /// Reads everything that is or should be in the store again, and returns the counts.
    pub(crate) fn finish(mut self) -> Counts {
        let stored = self.files.iter().flat_map(|file| file.entries.keys());
        let keys: BTreeSet<Vec<u8>> = stored.chain(self.model.keys()).cloned().collect();
        for key in &keys {
            let got = self.set.get(key);
            self.check(key, got);
        }
        self.count_stats();
        self.counts
    }
}

fn read_all(entries: sstfilter_table::TableIter<'_>) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    entries.map(Result::unwrap).map(|entry| (entry.key.into(), entry.value.map(Vec::from)))
}
