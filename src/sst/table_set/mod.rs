//! Many tables, one key.
//!
//! A lookup takes the tables in groups of 64. For a group it computes which tables have the key in their
//! range, and which of those have a filter that does not deny it, each as the bits of one word and without
//! touching a table; then it searches the tables that are left, from the newest to the oldest. What was
//! skipped is counted for the whole group at once.

mod batch;
mod ranges;

use core::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use self::batch::{Sought, positions, probe_group, sought};
use self::ranges::KeyRanges;
use super::reader::{prefix_hash, prepare, range_meets_prefix};
use super::stats::Counter;
use super::{Lookup, ReadOptions, Table, TableError, TableSetStats, TableStats};
use crate::block::{Distance, FilterGroup, GROUP, GuardedFilter, HitMatrix, PreparedKey, bits_of, first_bits};
use crate::hash::{HashId, KeyExtractor, KeyHasher};
use crate::stats::{Ledger, SkipShare, SkipTally, Skips};

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
pub struct TableSet {
    tables: Vec<Table>,
    hasher: KeyHasher,
    ranges: KeyRanges,
    /// The filters that can be asked, at the places of their tables.
    filters: Vec<FilterGroup<Bytes>>,
    distance: Distance,
    skips: Arc<SkipTally>,
    touched: Counter,
}

impl TableSet {
    /// The set of `tables`, the newest first.
    ///
    /// From now on all of them are asked with `hasher` and with the extractor that the newest was opened
    /// with. Filters that were loaded for others are loaded again, and their counters begin again.
    /// If one of them denies a key of its own table, the hasher or the extractor is another one than its identity or name
    /// says, and no filter of that identity is used.
    ///
    /// This cannot fail, so that [`ReadOptions::with_strict_hash`] has no say in it: either [`open`](Self::open) the
    /// set, or look at [`Table::filter_problem`] of its tables.
    #[must_use]
    pub fn new(mut tables: Vec<Table>, hasher: KeyHasher) -> Self {
        let extractor = tables.first().and_then(Table::extractor).cloned();
        let skips = Arc::new(SkipTally::new(tables.len().div_ceil(GROUP)));
        tables.iter_mut().for_each(|table| table.rebind(&hasher, extractor.as_ref()));
        // With a public seed and whole keys, equal identities are equal hashes: the filter is wrong, not its reader.
        let may_be_the_reader = hasher.identity().id != HashId::Xxh3 || extractor.is_some();
        if may_be_the_reader && tables.iter().any(Table::filter_has_denied_its_own) {
            tables.iter_mut().for_each(Table::distrust_filter);
        }
        let mut filters = Vec::new();
        for (position, table) in tables.iter_mut().enumerate() {
            table.join(SkipShare::new(&skips, position));
            let block = table.filter().map(GuardedFilter::block).and_then(Result::ok);
            FilterGroup::push_to(&mut filters, block.cloned());
        }
        let (ranges, distance) = (KeyRanges::new(&tables), Distance::of(&filters));
        Self { tables, hasher, ranges, filters, distance, skips, touched: Counter::default() }
    }

    /// Opens the tables at `paths`, the newest first. Without a hasher in `options`, the set takes the
    /// one that the newest table describes.
    ///
    /// # Errors
    ///
    /// Those of [`Table::open`], for the first table that fails. With [`ReadOptions::with_strict_hash`] also a filter
    /// that does not answer to the set's hasher.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, options: &ReadOptions) -> Result<Self, TableError> {
        let tables: Vec<Table> =
            paths.into_iter().map(|path| Table::open(path, options)).collect::<Result<_, TableError>>()?;
        let newest = tables.first().map(|table| table.hasher().clone());
        let mut set = Self::new(tables, options.hasher.clone().or(newest).unwrap_or_default());
        set.tables = set.tables.into_iter().map(|table| table.accept_filter(options)).collect::<Result<_, _>>()?;
        Ok(set)
    }

    /// The newest value of `key`; `None` when no table has it, or the newest entry is a tombstone.
    ///
    /// # Errors
    ///
    /// Damage or a failed read in a table that might hold the key: older tables are then not asked, for
    /// their answer might be outdated.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, TableError> {
        let mut ledger = self.skips.ledger(1);
        let number = self.ranges.number_of(key);
        let mut probe = None;
        for group in 0..self.filters.len() {
            let in_range = self.in_range(group, key, number);
            if in_range != 0 && probe.is_none() {
                probe = Some(self.probe_of(key));
            }
            let mut probe = probe.as_mut().and_then(Option::as_mut);
            let candidates = self.candidates_in(group, in_range, probe.as_deref_mut());
            match self.search(group, key, probe.as_deref(), Found { in_range, candidates }, &mut ledger)? {
                Lookup::Found(value) => return Ok(Some(value)),
                Lookup::Deleted => return Ok(None),
                Lookup::Absent => {}
            }
        }
        Ok(None)
    }

    /// The newest value of each of `keys`, in their order; see [`get`](Self::get). While the filters are
    /// asked for one key, their lines for a later one are fetched: in batches of 32 keys or more, lookups
    /// of absent keys take less time than one by one.
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
        let mut ledger = self.skips.ledger(keys.len() as u64);
        let mut results: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        let mut open = sought(self, keys);
        for group in 0..self.filters.len() {
            probe_group(self, group, &mut open);
            open.retain(|key| {
                let lookup = self.search(group, key.key, key.probe.as_ref(), key.found(), &mut ledger);
                let is_open = matches!(lookup, Ok(Lookup::Absent));
                if let Some(result) = results.get_mut(key.slot) {
                    *result = lookup.map(value_of);
                }
                is_open
            });
        }
        results
    }

    /// The positions of the tables that may hold `key`, by their ranges and filters alone: those that a lookup of
    /// it may have to search. Nothing is read, and nothing counted.
    ///
    /// This is for a whole key. Tables that hold only longer keys, of which it is a prefix, may be left out:
    /// [`candidates_for_prefix`](Self::candidates_for_prefix) finds those.
    #[must_use]
    pub fn candidates_for_key(&self, key: &[u8]) -> Vec<usize> {
        let number = self.ranges.number_of(key);
        let mut probe = number.and_then(|_| self.probe_of(key));
        let groups = 0..self.filters.len();
        let candidates =
            groups.map(|group| (group, self.candidates_in(group, self.in_range(group, key, number), probe.as_mut())));
        candidates.flat_map(|(group, bits)| positions(group, bits)).collect()
    }

    /// The positions of the tables that may hold a key that begins with `prefix`, by their ranges and filters alone:
    /// those that a scan of the prefix has to walk. Nothing is read, and nothing counted. Every table that has
    /// entries is one for the empty prefix.
    ///
    /// Filters are probed only where they hold parts of keys, and the extractor has one part for all keys with the
    /// prefix: see [`Table::may_contain_prefix`]. [`KeyExtractor`](crate::KeyExtractor) has an example of a
    /// prefix scan.
    #[must_use]
    pub fn candidates_for_prefix(&self, prefix: &[u8]) -> Vec<usize> {
        let mut probe = prefix_hash(&self.hasher, self.extractor(), prefix).map(PreparedKey::new);
        let candidates = (0..self.filters.len()).map(|group| {
            let in_range =
                self.tables_where(group, first_bits(GROUP), |table| range_meets_prefix(table.properties(), prefix));
            (group, self.candidates_in(group, in_range, probe.as_mut()))
        });
        candidates.flat_map(|(group, bits)| positions(group, bits)).collect()
    }

    /// The [`candidates_for_key`](Self::candidates_for_key) of many keys: row `i` of `hits` has a bit for each table
    /// that may hold key `i`. Nothing is read from tables, and nothing counted.
    ///
    /// ```
    /// use sstfilter::{HitMatrix, KeyHasher, ReadOptions, Table, TableBuilder, TableOptions, TableSet};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// builder.add(b"apple", b"1")?;
    /// builder.add(b"plum", b"2")?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let set = TableSet::new(vec![table], KeyHasher::default());
    ///
    /// let mut hits = HitMatrix::default();
    /// set.candidates_for_keys(&[b"apple", b"banana", b"zucchini"], &mut hits);
    /// assert!(hits.may_contain(0, 0), "it is there");
    /// assert!(!hits.may_contain(1, 0), "denied by the filter");
    /// assert!(!hits.may_contain(2, 0), "out of range");
    /// # Ok::<(), sstfilter::TableError>(())
    /// ```
    pub fn candidates_for_keys(&self, keys: &[&[u8]], hits: &mut HitMatrix) {
        hits.reset(keys.len(), self.tables.len());
        let mut keys = sought(self, keys);
        for group in 0..self.filters.len() {
            probe_group(self, group, &mut keys);
            for (row, key) in hits.rows_mut().zip(&keys) {
                row.iter_mut().skip(group).take(1).for_each(|word| *word = key.candidates);
            }
        }
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
        TableSetStats::new(&self.skips, self.touched.get(), sum)
    }

    /// What filters are asked with; `None` when the key is outside the extractor's domain.
    fn probe_of(&self, key: &[u8]) -> Option<PreparedKey> {
        prepare(&self.hasher, self.extractor(), key).map(PreparedKey::new)
    }

    /// The extractor of all tables.
    fn extractor(&self) -> Option<&dyn KeyExtractor> {
        self.tables.first().and_then(Table::extractor).map(AsRef::as_ref)
    }

    /// The tables of a group that have `key`, which is compared by `number`, in their range.
    #[inline]
    fn in_range(&self, group: usize, key: &[u8], number: Option<u64>) -> u64 {
        let Some(number) = number else { return 0 };
        let within = self.ranges.within(group, number);
        let undecided = within.inside & !within.strictly_inside;
        if undecided == 0 { within.inside } else { within.strictly_inside | self.compared(group, key, undecided) }
    }

    /// Those of the tables at `which` that have `key` in their range, by comparing it with their keys.
    #[cold]
    fn compared(&self, group: usize, key: &[u8], which: u64) -> u64 {
        self.tables_where(group, which, |table| table.properties().range_holds(key))
    }

    /// Those of a group's tables at `which` of which `holds` is true.
    fn tables_where(&self, group: usize, which: u64, holds: impl Fn(&Table) -> bool) -> u64 {
        let bits = bits_of(which).filter(|bit| self.tables.get(group * GROUP + bit).is_some_and(&holds));
        bits.fold(0, |bits, bit| bits | 1 << bit)
    }

    /// Those of the tables at `in_range` whose filters do not deny the key.
    #[inline]
    fn candidates_in(&self, group: usize, in_range: u64, probe: Option<&mut PreparedKey>) -> u64 {
        let (Some(filters), Some(probe)) = (self.filters.get(group), probe) else { return in_range };
        if self.distance == Distance::Far {
            filters.fetch(probe.hash(), in_range);
        }
        filters.probe(probe, in_range)
    }

    /// Searches the candidates of a group from the newest to the oldest, until one has an entry or is
    /// damaged, and counts what was skipped up to there.
    fn search(
        &self,
        group: usize,
        key: &[u8],
        probe: Option<&PreparedKey>,
        found: Found,
        ledger: &mut Ledger<'_>,
    ) -> Result<Lookup, TableError> {
        let tables = self.tables.get(group * GROUP..).unwrap_or_default();
        let mut considered = first_bits(tables.len());
        let mut result = Ok(Lookup::Absent);
        for bit in bits_of(found.candidates) {
            let Some(table) = tables.get(bit) else { break };
            self.touched.add(1);
            result = table.visit_candidate(key, probe.map(PreparedKey::hash));
            if !matches!(result, Ok(Lookup::Absent)) {
                considered = first_bits(bit + 1);
                break;
            }
        }
        let by_range = !found.in_range & considered;
        let by_filter = found.in_range & !found.candidates & considered;
        ledger.add(group, Skips { by_range, by_filter });
        result
    }
}

/// What is known of a key in a group of tables before one is searched.
#[derive(Clone, Copy)]
struct Found {
    /// Tables that have the key in their range.
    in_range: u64,
    /// Those of them that may hold it.
    candidates: u64,
}

impl Sought<'_> {
    fn found(&self) -> Found {
        Found { in_range: self.in_range, candidates: self.candidates }
    }
}

impl fmt::Debug for TableSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSet")
            .field("tables", &self.tables)
            .field("hasher", &self.hasher)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

fn value_of(lookup: Lookup) -> Option<Bytes> {
    match lookup {
        Lookup::Found(value) => Some(value),
        Lookup::Deleted | Lookup::Absent => None,
    }
}
