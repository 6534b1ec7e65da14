//! A table's range filter, and what scans do with it.

use std::sync::Arc;

use bytes::Bytes;

use super::format::BlockHandle;
use super::io::TableFile;
use super::key_bounds::KeyBounds;
use super::reader::Reader;
use super::table_parts::TableParts;
use super::{FilterVerdict, ReadOptions, Table, TableError, TableIter, TablePart, TableProperties};
use crate::block::Probe;
use crate::error::BlockError;
use crate::hash::HashId;
use crate::range::{KeyRange, NextKey, RangeContext, RangeFilter, RangeInfo, RangeMap, RangeReader};
use crate::stats::FilterStats;

/// The range filter of an open table, or why it is not used.
#[derive(Debug)]
pub(crate) struct TableRangeFilter {
    reader: RangeReader<Bytes>,
    /// Boxed, because hardly any table has one.
    problem: Option<Box<TableError>>,
    /// Whether the filter lacks a key of its table, and the reader's hash function or extractor is to blame, which is then
    /// not what its identity or name says. Filters of other tables may hold their known keys by chance.
    pub(crate) contradicts_reader: bool,
}

/// Whether range filters are probed by a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeFilters {
    Probed,
    /// No filter is used, because what makes probes is not what its identity says.
    NotProbed,
}

impl TableRangeFilter {
    /// Reads and verifies the range filter, if there is one. Whatever is wrong with it makes an unusable filter.
    pub(crate) fn open(file: &TableFile, parts: &TableParts, reader: &Reader, options: &ReadOptions) -> Option<Self> {
        let handle = parts.properties.range_handle().filter(|_| !options.ignores_filters)?;
        let refused = |source| refused(file, handle, source);
        let block = check_extractor(&parts.properties, reader)
            .map_err(refused)
            .and_then(|()| parts.read_range_filter(file, handle));
        let block = match block {
            Ok(block) => block,
            Err(problem) => return Some(Self::unusable(problem)),
        };
        let known: Vec<&[u8]> = known_keys(&parts.properties).collect();
        let context = context(reader).with_known_keys(&known);
        let reader = RangeReader::load(block.clone(), &context);
        let source = reader.filter().err().cloned();
        let contradicts_reader = source.as_ref().is_some_and(|source| is_reader_to_blame(source, &block));
        Some(Self { reader, problem: source.map(|source| Box::new(refused(source))), contradicts_reader })
    }

    fn unusable(problem: TableError) -> Self {
        let why = match &problem {
            TableError::Filter { source, .. } => source.clone(),
            other => BlockError::Unreadable { reason: other.to_string() },
        };
        Self { reader: RangeReader::unusable(why), problem: Some(Box::new(problem)), contradicts_reader: false }
    }

    /// The filter, no longer used for this reason.
    pub(crate) fn disable(&mut self, file: &TableFile, handle: BlockHandle, source: BlockError) {
        if self.problem.is_none() {
            *self = Self::unusable(refused(file, handle, source));
        }
    }

    /// Why the filter is not used, if a wrong reader is the reason.
    pub(crate) fn foreign_problem(&self) -> Option<&TableError> {
        self.problem.as_deref().filter(|problem| match problem.filter_reason() {
            Some(BlockError::KnownKeyAbsent { .. }) => self.contradicts_reader,
            _ => problem.is_foreign_filter(),
        })
    }

    /// Why the filter is not used, by value.
    pub(crate) fn into_problem(self) -> Option<TableError> {
        self.problem.map(|problem| *problem)
    }

    pub(crate) fn stats(&self) -> FilterStats {
        self.reader.stats()
    }
}

impl Table {
    /// The range filter; `None` when the table has none, or was opened without filters. It is in memory as long as the table
    /// is open: neither a [budget](ReadOptions::with_filter_budget) nor a sidecar covers it yet.
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
        self.range_filter.as_ref().map(|filter| &filter.reader)
    }

    /// Why the range filter is not used, if it is not although there is one. Scans read the table without it.
    #[must_use]
    pub fn range_filter_problem(&self) -> Option<&TableError> {
        self.range_filter.as_ref()?.problem.as_deref()
    }

    /// Whether the table may hold a key in `range`, by its smallest and largest key and its range filter alone: `false` only
    /// if it holds none. Nothing is read, and nothing counted.
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

    /// The entries whose keys are in `range`, in key order, tombstones included. If the range filter has "absent" for it,
    /// nothing is read.
    ///
    /// The filter is probed, and its answer counted, where the table's smallest and largest key leave the question open:
    /// neither is in the range, and it lies between them.
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

    /// The walk of a range, and a lower bound of its first key; `None` if the table has no key in the range. Nothing is read
    /// yet.
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

    /// The range filter, read again, or the verdict on one that cannot be probed.
    pub(crate) fn verified_range_filter(
        &self,
        parts: &TableParts,
    ) -> Result<Result<RangeFilter<Bytes>, FilterVerdict>, TableError> {
        let Some(handle) = parts.properties.range_handle() else { return Ok(Err(FilterVerdict::None)) };
        let block = parts.read_range_filter(&self.file, handle)?;
        self.check_zeros(TablePart::Padding, parts.before_range_filter().unwrap_or(handle.offset), handle.offset)?;
        let loaded = check_extractor(&parts.properties, &self.reader).and_then(|()| {
            let filter = RangeFilter::load(block.clone(), &context(&self.reader))?;
            let lacks_known = known_keys(&parts.properties).any(|key| !filter.may_hold(key..=key));
            let absent = BlockError::KnownKeyAbsent { hash: filter.info().hash };
            if lacks_known && is_reader_to_blame(&absent, &block) { Err(absent) } else { Ok(filter) }
        });
        let source = match loaded {
            Ok(filter) => {
                let (expected, got) = (parts.properties.entries, filter.info().keys);
                if expected != got {
                    let at = self.file.location(TablePart::RangeFilter, handle.offset);
                    return Err(TableError::corrupt(at, format!("the {expected} keys of the table"), got));
                }
                return Ok(Ok(filter));
            }
            Err(source) => source,
        };
        match &source {
            BlockError::HashMismatch { .. }
            | BlockError::ExtractorMismatch { .. }
            | BlockError::RangeExtractor { .. }
            | BlockError::KnownKeyAbsent { .. }
            | BlockError::UnknownKind { .. }
            | BlockError::Version { .. } => Ok(Err(FilterVerdict::NotProbed { reason: source.to_string() })),
            _ => Err(refused(&self.file, handle, source)),
        }
    }
}

/// The smallest and the largest key, which a range filter must hold.
fn known_keys(properties: &TableProperties) -> impl Iterator<Item = &[u8]> {
    [&properties.smallest_key, &properties.largest_key].into_iter().flatten().map(AsRef::as_ref)
}

/// By name, which the block has only a checksum of.
fn check_extractor(properties: &TableProperties, reader: &Reader) -> Result<(), BlockError> {
    let Some(held) = properties.range_filter.as_ref().and_then(|range| range.extractor.as_deref()) else {
        return Ok(());
    };
    let own = reader.range_extractor.as_ref().map(|extractor| extractor.name());
    if own == Some(held) {
        return Ok(());
    }
    let expected = own.map_or_else(|| "none".to_owned(), |name| format!("'{name}'"));
    Err(BlockError::ExtractorMismatch { expected, got: format!("'{held}'") })
}

fn context(reader: &Reader) -> RangeContext<'static> {
    let context = RangeContext::new(&reader.hasher);
    match &reader.range_extractor {
        Some(extractor) => context.with_extractor(Arc::clone(extractor)),
        None => context,
    }
}

/// Whether a filter is refused because the reader is not what its identity or name says. Ordered codes need neither; with
/// a public seed and no extractor, equal identities are equal codes: then the filter itself is wrong.
fn is_reader_to_blame(source: &BlockError, block: &[u8]) -> bool {
    let is_absent = matches!(source, BlockError::KnownKeyAbsent { .. });
    is_absent
        && RangeInfo::of_block(block).is_ok_and(|info| match info.map {
            RangeMap::Hashed { extractor_checksum, .. } => extractor_checksum.is_some() || info.hash.id != HashId::Xxh3,
            RangeMap::Ordered { .. } => false,
        })
}

/// A filter that is not used for this reason.
fn refused(file: &TableFile, handle: BlockHandle, source: BlockError) -> TableError {
    TableError::Filter { at: file.location(TablePart::RangeFilter, handle.offset), source }
}
