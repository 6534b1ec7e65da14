//! Many tables, one key.

use std::path::Path;

use bytes::Bytes;

use super::reader::{Visit, prepare};
use super::stats::SetCounters;
use super::{Lookup, ReadOptions, Table, TableError, TableSetStats, TableStats};
use crate::block::{HitBitmap, PreparedKey};
use crate::hash::{KeyHash, KeyHasher};

/// Tables from the newest to the oldest, read as one store.
///
/// A lookup hashes its key once and asks one table after the other, by range and filter, until the
/// newest one that has an entry for the key; a tombstone is an entry. A table whose filter was built
/// with another hash than the set's is searched without it.
///
/// ```
/// use bytes::Bytes;
/// use sstfilter::{KeyHasher, ReadOptions, Table, TableBuilder, TableOptions, TableSet};
///
/// let table = |entries: &[(&[u8], Option<&[u8]>)]| -> Result<Table, sstfilter::TableError> {
///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
///     for (key, value) in entries {
///         match value {
///             Some(value) => builder.add(key, value)?,
///             None => builder.delete(key)?,
///         }
///     }
///     Table::open_source(Bytes::from(builder.finish()?.0), &ReadOptions::default())
/// };
/// let old = table(&[(b"a", Some(b"1")), (b"b", Some(b"2")), (b"c", Some(b"3"))])?;
/// let new = table(&[(b"a", Some(b"4")), (b"b", None)])?;
///
/// let set = TableSet::new(vec![new, old], KeyHasher::default());
/// assert_eq!(set.get(b"a")?, Some(Bytes::from_static(b"4")));
/// assert_eq!(set.get(b"b")?, None);
/// assert_eq!(set.get(b"c")?, Some(Bytes::from_static(b"3")));
/// # Ok::<(), sstfilter::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableSet {
    tables: Vec<Table>,
    hasher: KeyHasher,
    counters: SetCounters,
}

impl TableSet {
    /// The set of `tables`, the newest first.
    ///
    /// From now on all of them are asked with `hasher` and with the extractor that the newest was opened
    /// with. Filters that were bound to others are bound anew, and their counters begin again.
    #[must_use]
    pub fn new(mut tables: Vec<Table>, hasher: KeyHasher) -> Self {
        let extractor = tables.first().and_then(Table::extractor).cloned();
        for table in &mut tables {
            table.rebind(&hasher, extractor.as_ref());
        }
        Self { tables, hasher, counters: SetCounters::default() }
    }

    /// Opens the tables at `paths`, the newest first. Without a hasher in `options`, the set takes the
    /// one that the newest table describes.
    ///
    /// # Errors
    ///
    /// Those of [`Table::open`], for the first table that fails.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, options: &ReadOptions) -> Result<Self, TableError> {
        let tables: Vec<Table> =
            paths.into_iter().map(|path| Table::open(path, options)).collect::<Result<_, TableError>>()?;
        let newest = tables.first().map(|table| table.hasher().clone());
        Ok(Self::new(tables, options.hasher.clone().or(newest).unwrap_or_default()))
    }

    /// The newest value of `key`; `None` when no table has it, or the newest entry is a tombstone.
    ///
    /// # Errors
    ///
    /// Damage or a failed read in a table that might hold the key: older tables are then not asked, for
    /// their answer might be outdated.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        self.counters.lookups.add(1);
        let mut prepared = self.hash(key).map(PreparedKey::new);
        for table in &self.tables {
            match self.counted(table.visit(key, prepared.as_mut()))? {
                Lookup::Found(value) => return Ok(Some(value)),
                Lookup::Deleted => return Ok(None),
                Lookup::Absent => {}
            }
        }
        Ok(None)
    }

    /// The newest value of each of `keys`, in their order; see [`get`](Self::get). Each table's filter is
    /// asked for all keys still sought at once, which is faster than one by one.
    ///
    /// ```
    /// use sstfilter::{KeyHasher, TableSet};
    ///
    /// let empty = TableSet::new(Vec::new(), KeyHasher::default());
    /// let values = empty.multi_get(&[b"a", b"b"]);
    /// assert!(values.iter().all(|value| matches!(value, Ok(None))));
    /// ```
    #[must_use]
    pub fn multi_get(&self, keys: &[&[u8]]) -> Vec<Result<Option<Bytes>, TableError>> {
        self.counters.lookups.add(keys.len() as u64);
        let mut results: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        let mut sought: Vec<Sought<'_>> = (0..).zip(keys).map(|(slot, key)| self.sought(slot, key)).collect();
        let mut batch = Batch::default();
        for table in &self.tables {
            batch.ask(table, &sought);
            let mut hits = batch.answers();
            sought.retain(|key| {
                let lookup = self.counted(visit_with(table, key.key, hits.next_answer(table, key)));
                let is_open = matches!(lookup, Ok(Lookup::Absent));
                if let Some(result) = results.get_mut(key.slot) {
                    *result = lookup.map(value_of);
                }
                is_open
            });
        }
        results
    }

    /// The positions of the tables that a lookup of `key` may have to search, by their ranges and filters
    /// alone. Nothing is read, and nothing counted.
    #[must_use]
    pub fn candidates(&self, key: &[u8]) -> Vec<usize> {
        let mut prepared = self.hash(key).map(PreparedKey::new);
        let mut may_hold = |table: &Table| {
            let block = table.filter().and_then(|filter| filter.block().ok());
            let denied = prepared.as_mut().zip(block).is_some_and(|(hash, block)| !block.may_contain_prepared(hash));
            table.properties().range_holds(key) && !denied
        };
        (0..).zip(&self.tables).filter_map(|(position, table)| may_hold(table).then_some(position)).collect()
    }

    /// The tables, the newest first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// What was asked so far, and what was skipped.
    #[must_use]
    pub fn stats(&self) -> TableSetStats {
        let sum = self.tables.iter().fold(TableStats::default(), |sum, table| sum.merged(&table.stats()));
        self.counters.snapshot(sum)
    }

    fn hash(&self, key: &[u8]) -> Option<KeyHash> {
        let extractor = self.tables.first().and_then(Table::extractor);
        prepare(&self.hasher, extractor.map(AsRef::as_ref), key)
    }

    fn sought<'key>(&self, slot: usize, key: &'key [u8]) -> Sought<'key> {
        Sought { slot, key, hash: self.hash(key) }
    }

    /// Counts how a table was left, and takes what it said.
    fn counted(&self, visit: Result<Visit, TableError>) -> Result<Lookup, TableError> {
        let (counter, lookup) = match visit {
            Ok(Visit::SkippedByRange) => (&self.counters.skipped_by_range, Ok(Lookup::Absent)),
            Ok(Visit::SkippedByFilter) => (&self.counters.skipped_by_filter, Ok(Lookup::Absent)),
            Ok(Visit::Touched(lookup)) => (&self.counters.touched, Ok(lookup)),
            Err(error) => (&self.counters.touched, Err(error)),
        };
        counter.add(1);
        lookup
    }
}

fn value_of(lookup: Lookup) -> Option<Bytes> {
    match lookup {
        Lookup::Found(value) => Some(value),
        Lookup::Deleted | Lookup::Absent => None,
    }
}

/// A key of a batch that no table has answered yet.
struct Sought<'key> {
    slot: usize,
    key: &'key [u8],
    hash: Option<KeyHash>,
}

impl Sought<'_> {
    fn is_asked_of(&self, table: &Table) -> bool {
        self.hash.is_some() && table.properties().range_holds(self.key)
    }
}

/// The probes of one table for all keys that are in its range, and their answers.
#[derive(Default)]
struct Batch {
    hashes: Vec<KeyHash>,
    hits: HitBitmap,
}

impl Batch {
    fn ask(&mut self, table: &Table, sought: &[Sought<'_>]) {
        self.hashes.clear();
        self.hashes.extend(sought.iter().filter(|key| key.is_asked_of(table)).filter_map(|key| key.hash));
        if let Some(filter) = table.filter() {
            filter.probe_batch(&self.hashes, &mut self.hits);
        }
    }

    fn answers(&self) -> Answers<'_> {
        Answers { hits: &self.hits, next: 0 }
    }
}

/// What is known of a key before a table is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    OutOfRange,
    Denied,
    LetThrough,
    NotAsked,
}

/// The answers of a batch, taken in the order of its keys.
struct Answers<'a> {
    hits: &'a HitBitmap,
    next: usize,
}

impl Answers<'_> {
    fn next_answer(&mut self, table: &Table, key: &Sought<'_>) -> Answer {
        if !table.holds_in_range(key.key) {
            return Answer::OutOfRange;
        }
        let Some(filter) = table.filter().filter(|_| key.hash.is_some()) else { return Answer::NotAsked };
        let is_hit = self.hits.may_contain(self.next);
        self.next += 1;
        match (filter.block(), is_hit) {
            (Err(_), _) => Answer::NotAsked,
            (Ok(_), true) => Answer::LetThrough,
            (Ok(_), false) => Answer::Denied,
        }
    }
}

fn visit_with(table: &Table, key: &[u8], answer: Answer) -> Result<Visit, TableError> {
    match answer {
        Answer::OutOfRange => Ok(Visit::SkippedByRange),
        Answer::Denied => Ok(Visit::SkippedByFilter),
        Answer::LetThrough => table.search_after_positive(key).map(Visit::Touched),
        Answer::NotAsked => table.search(key).map(Visit::Touched),
    }
}
