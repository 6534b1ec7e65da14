//! The range filter of an open table: loading it, and what is wrong with one that is not used.

use std::sync::Arc;

use bytes::Bytes;

use super::format::BlockHandle;
use super::io::TableFile;
use super::table_parts::TableParts;
use super::{ReadOptions, TableError, TablePart, TableProperties};
use crate::error::BlockError;
use crate::hash::HashId;
use crate::range::{RangeContext, RangeInfo, RangeMap, RangeReader};
use crate::stats::FilterStats;
use crate::store::reader::Reader;

/// The range filter of an open table, or why it is not used.
#[derive(Debug)]
pub(crate) struct TableRangeFilter {
    pub(crate) reader: RangeReader<Bytes>,
    /// Boxed, because hardly any table has one.
    pub(crate) problem: Option<Box<TableError>>,
    /// Whether the filter lacks a key of its table, and the reader's hash function or extractor is to blame, which is
    /// then not what its identity or name says. Filters of other tables may hold their known keys by chance.
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
        let known: Vec<&[u8]> = parts.properties.bounds().collect();
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

/// By name, which the block has only a checksum of.
pub(crate) fn check_extractor(properties: &TableProperties, reader: &Reader) -> Result<(), BlockError> {
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

pub(crate) fn context(reader: &Reader) -> RangeContext<'static> {
    let context = RangeContext::new(&reader.hasher);
    match &reader.range_extractor {
        Some(extractor) => context.with_extractor(Arc::clone(extractor)),
        None => context,
    }
}

/// Whether a filter is refused because the reader is not what its identity or name says. Ordered codes need neither;
/// with a public seed and no extractor, equal identities are equal codes: then the filter itself is wrong.
pub(crate) fn is_reader_to_blame(source: &BlockError, block: &[u8]) -> bool {
    let is_absent = matches!(source, BlockError::KnownKeyAbsent { .. });
    is_absent
        && RangeInfo::of_block(block).is_ok_and(|info| match info.map {
            RangeMap::Hashed { extractor_checksum, .. } => extractor_checksum.is_some() || info.hash.id != HashId::Xxh3,
            RangeMap::Ordered { .. } => false,
        })
}

/// A filter that is not used for this reason.
pub(crate) fn refused(file: &TableFile, handle: BlockHandle, source: BlockError) -> TableError {
    TableError::Filter { at: file.location(TablePart::RangeFilter, handle.offset), source }
}
