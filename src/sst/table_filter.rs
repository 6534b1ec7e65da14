//! A table's filter, as its readers may use it: never in the way of a read.

use std::sync::Arc;

use bytes::Bytes;

use super::file::TableFile;
use super::handle::{BlockHandle, name};
use super::parts::TableParts;
use super::reader::prepare;
use super::{Location, TableError, TableProperties};
use crate::block::{GuardedFilter, LoadContext};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyExtractor, KeyHash, KeyHasher};

/// Who asks: the hash and the extractor that make a probe out of a key.
#[derive(Clone, Debug)]
pub(crate) struct FilterReader {
    pub(crate) hasher: KeyHasher,
    pub(crate) extractor: Option<Arc<dyn KeyExtractor>>,
}

impl FilterReader {
    fn extractor_name(&self) -> Option<&str> {
        self.extractor.as_ref().map(|extractor| extractor.name())
    }

    /// Whether the other is known to make the same probes; equal names do not prove it.
    pub(crate) fn asks_like(&self, other: &Self) -> bool {
        let is_same_extractor = match (&self.extractor, &other.extractor) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same_extractor && self.hasher.hashes_like(&other.hasher)
    }
}

/// The block as it was read, and the guard that answers from it.
#[derive(Debug)]
pub(crate) struct TableFilter {
    /// `None` when the block could not be read or is damaged.
    block: Option<Bytes>,
    at: Location,
    pub(crate) guarded: GuardedFilter<Bytes>,
    pub(crate) problem: Option<TableError>,
}

impl TableFilter {
    /// Reads the filter block. Whatever is wrong with it makes an unusable filter.
    pub(crate) fn read(file: &TableFile, handle: BlockHandle, parts: &TableParts, reader: &FilterReader) -> Self {
        let at = file.location(name::FILTER, handle.offset);
        let handles = &parts.handles;
        let read = handles
            .check_filter_place(handle, parts.properties.data_bytes, file)
            .and_then(|()| file.read_block(name::FILTER, handle, &parts.footer.table_id));
        match read {
            Ok(block) => {
                let (guarded, problem) = guard(&block, &at, reader, &parts.properties);
                Self { block: Some(block), at, guarded, problem }
            }
            Err(error) => {
                let guarded = GuardedFilter::unusable(BlockError::Unreadable { reason: error.to_string() });
                Self { block: None, at, guarded, problem: Some(error) }
            }
        }
    }

    /// Makes the filter answer another `reader`. Its counters begin again.
    pub(crate) fn rebind(&mut self, reader: &FilterReader, properties: &TableProperties) {
        if let Some(block) = &self.block {
            (self.guarded, self.problem) = guard(block, &self.at, reader, properties);
        }
    }
}

impl TableFilter {
    /// Whether the filter denied a key of its own table, though its hash has the reader's identity.
    pub(crate) fn has_denied_its_own(&self) -> bool {
        matches!(self.problem, Some(TableError::Filter { source: BlockError::DeniesOwnKey { .. }, .. }))
    }

    /// Makes a filter unusable whose hash has the identity of one that proved to be another.
    pub(crate) fn distrust(&mut self, hash: HashIdentity) {
        if self.guarded.block().is_ok() {
            let source = BlockError::DeniesOwnKey { hash };
            self.guarded = GuardedFilter::unusable(source.clone());
            self.problem = Some(TableError::Filter { at: self.at.clone(), source });
        }
    }
}

/// The filter in `block`, if it was built for the hash and extractor of `reader`; otherwise one that is
/// unusable, and why.
fn guard(
    block: &Bytes,
    at: &Location,
    reader: &FilterReader,
    properties: &TableProperties,
) -> (GuardedFilter<Bytes>, Option<TableError>) {
    let (expected, got) = (reader.extractor_name(), properties.key_extractor.as_deref());
    if expected != got {
        let problem = TableError::Extractor { expected: expected.map(str::to_owned), got: got.map(str::to_owned) };
        let name = |extractor: Option<&str>| extractor.unwrap_or_default().to_owned();
        let reason = BlockError::ExtractorMismatch { expected: name(expected), got: name(got) };
        return (GuardedFilter::unusable(reason), Some(problem));
    }
    let known = known_keys(reader, properties);
    let guarded = GuardedFilter::load(block.clone(), LoadContext::new(&reader.hasher).with_known_keys(&known));
    let problem = guarded.block().err().map(|source| TableError::Filter { at: at.clone(), source: source.clone() });
    (guarded, problem)
}

/// The hashes of the first and the last key of a table, which its filter must contain. Equal identities do not prove that
/// hashes are equal: secret seeds may share a fingerprint, and an engine may have changed its function but not the tag.
pub(crate) fn known_keys(reader: &FilterReader, properties: &TableProperties) -> Vec<KeyHash> {
    let bounds = [&properties.smallest_key, &properties.largest_key];
    let extractor = reader.extractor.as_deref();
    bounds.into_iter().flatten().filter_map(|key| prepare(&reader.hasher, extractor, key)).collect()
}
