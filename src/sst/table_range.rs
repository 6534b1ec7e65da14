//! Scans of one table, and what its range filter saves them.

use bytes::Bytes;

use super::key_bounds::KeyBounds;
use super::range_filter::RangeFilters;
use super::{Table, TableError, TableIter};
use crate::block::Probe;
use crate::range::{KeyRange, NextKey, RangeReader};

impl Table {
    /// The range filter; `None` when the table has none, or was opened without filters. It is in memory as long as the
    /// table is open: neither a [budget](super::ReadOptions::with_filter_budget) nor a sidecar covers it yet.
    ///
    /// ```
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter::range::RangePolicy;
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
    /// (0..1_000_u32).try_for_each(|key| builder.add(&(key * 1_000).to_be_bytes(), b"value"))?;
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// let filter = table.range_filter().expect("written with the table");
    /// assert_eq!(table.range(&5_100_u32.to_be_bytes()..&5_900_u32.to_be_bytes()).count(), 0);
    /// assert_eq!((filter.stats().negatives, table.stats().data_block_reads), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn range_filter(&self) -> Option<&RangeReader<Bytes>> {
        self.own_range_filter().map(|filter| &filter.reader)
    }

    /// Why the range filter is not used, if it is not although there is one. Scans read the table without it.
    #[must_use]
    pub fn range_filter_problem(&self) -> Option<&TableError> {
        self.own_range_filter()?.problem.as_deref()
    }

    /// Whether the table may hold a key in `range`, by its smallest and largest key and its range filter alone: `false`
    /// only if it holds none. Nothing is read, and nothing counted.
    ///
    /// ```
    /// use sstfilter::FalsePositiveRate;
    /// use sstfilter::range::RangePolicy;
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let policy = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?;
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_range_filter(policy))?;
    /// for key in [&b"apple"[..], b"cherry", b"plum"] {
    ///     builder.add(key, b"value")?;
    /// }
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    ///
    /// assert!(table.may_hold(&b"banana"[..]..&b"date"[..]));
    /// assert!(!table.may_hold(&b"quince"[..]..), "above the largest key");
    /// assert!(!table.may_hold(&b"fig"[..]..&b"grape"[..]), "by the filter");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn may_hold<'a>(&self, range: impl Into<KeyRange<'a>>) -> bool {
        let (range, properties) = (range.into(), self.properties());
        properties.overlaps(range) && (properties.has_end_in(range) || self.filter_may_hold(range))
    }

    /// Whether the range filter may hold a key in `range`; `true` without one. Not counted.
    pub(crate) fn filter_may_hold(&self, range: KeyRange<'_>) -> bool {
        let filter = self.range_filter().and_then(|reader| reader.filter().ok());
        filter.is_none_or(|filter| filter.may_hold(range))
    }

    /// The entries whose keys are in `range`, in key order, tombstones included. If the range filter has "absent" for
    /// it, nothing is read.
    ///
    /// The filter is probed, and its answer counted, where the table's smallest and largest key leave the question
    /// open: neither is in the range, and it lies between them.
    ///
    /// ```
    /// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions};
    ///
    /// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
    /// for key in [b"a", b"c", b"e"] {
    ///     builder.add(key, b"")?;
    /// }
    /// let table = Table::open_source(bytes::Bytes::from(builder.finish()?.0), &ReadOptions::default())?;
    /// let keys: Result<Vec<_>, _> = table.range(b"b"..=b"e").map(|entry| Ok(entry?.key)).collect();
    /// assert_eq!(keys?, [&b"c"[..], b"e"]);
    /// assert_eq!(table.range(b"f"..).count(), 0);
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    pub fn range<'a>(&self, range: impl Into<KeyRange<'a>>) -> TableIter<'_> {
        let bounds = KeyBounds::new(range.into());
        self.begin_scan(&bounds, RangeFilters::Probed).map_or_else(|| self.iter_nothing(), |(walk, _)| walk)
    }

    /// The walk of a range, and a lower bound of its first key; `None` if the table has no key in the range. Nothing is
    /// read yet.
    pub(crate) fn begin_scan(&self, bounds: &KeyBounds, filters: RangeFilters) -> Option<(TableIter<'_>, Bytes)> {
        let (range, start, properties) = (bounds.range(), bounds.start(), self.properties());
        if !properties.overlaps(range) {
            return None;
        }
        let smallest = properties.smallest_key.as_deref().filter(|smallest| *smallest >= start);
        if let Some(smallest) = smallest {
            // It is in the range: there is nothing to learn from the filter.
            return Some((self.iter_within(bounds, None), Bytes::copy_from_slice(smallest)));
        }
        let Some(filter) = self.range_filter().filter(|_| filters == RangeFilters::Probed) else {
            return Some((self.iter_within(bounds, None), start.clone()));
        };
        let mut probed = None;
        if !properties.has_end_in(range) {
            match filter.probe(range) {
                Probe::Absent => return None,
                Probe::MaybePresent => probed = Some(filter),
                Probe::Unusable(_) => {}
            }
        }
        match filter.first_at_least(start) {
            NextKey::AtLeast(key) if !bounds.end_before(&key) => Some((self.iter_within(bounds, probed), key.into())),
            NextKey::AtLeast(_) | NextKey::None => None,
        }
    }
}
