//! A table's filter, read again to be verified: all of its bytes, in memory at once.

use bytes::Bytes;

use super::filter_in_memory::FilterInMemory;
use super::format::{BlockHandle, FilterHandle};
use super::range_filter::{check_extractor, context, is_reader_to_blame, refused};
use super::table_partitions::TablePartitions;
use super::table_parts::TableParts;
use super::{Table, TableError, TableLocation, TablePart};
use crate::block::{FilterBlock, LoadContext};
use crate::codec::LINE_BYTES;
use crate::error::BlockError;
use crate::hash::{HashId, KeyHash};
use crate::range::RangeFilter;
use crate::sidecar::SidecarError;
use crate::store::reader::SharedParts;

/// What came of probing the filter for every key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterVerdict {
    /// There is none.
    None,
    /// It contains every key that it was probed for.
    ContainsAll {
        /// Keys probed for, each for all of its parts: all but those outside the domains of all extractors.
        keys: u64,
    },
    /// Its checksums hold, but it could not be probed.
    NotProbed {
        /// Why not, in words.
        reason: String,
    },
    /// It is damaged, or lacks a key: the damage says which.
    Damaged,
}

/// A filter of which every byte has been checked, and what of each key it must contain.
pub(crate) struct VerifiedFilter {
    pub(crate) at: TableLocation,
    pub(crate) shared: SharedParts,
    pub(crate) filter: FilterInMemory,
}

impl VerifiedFilter {
    pub(crate) fn may_contain(&self, key: &[u8], hash: KeyHash) -> bool {
        self.filter.may_contain(key, hash)
    }
}

impl Table {
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
            let lacks_known = parts.properties.bounds().any(|key| !filter.may_hold(key..=key));
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

    /// The filter, read again, or the verdict on one that cannot be probed. Partitions that are damaged are left out of
    /// it.
    pub(crate) fn verified_filter(
        &self,
        parts: &TableParts,
        damage: &mut Vec<TableError>,
    ) -> Result<VerifiedFilter, FilterVerdict> {
        let filter = parts.handles.filter.ok_or(FilterVerdict::None)?;
        let start = filter.start(parts.properties.data_bytes);
        let verified = match filter {
            FilterHandle::Whole(handle) => self.verified_block(parts, handle),
            FilterHandle::Partitioned(handle) => self.verified_partitions(parts, handle, damage),
        };
        damage.extend(self.check_zeros(TablePart::Padding, parts.properties.data_bytes, start).err());
        match verified.and_then(|verified| self.checked_for_reader(verified, filter)) {
            Ok((filter, shared)) => {
                Ok(VerifiedFilter { at: self.file.location(TablePart::Filter, start), shared, filter })
            }
            Err(error) => Err(not_probed(&error).unwrap_or_else(|| {
                damage.push(error);
                FilterVerdict::Damaged
            })),
        }
    }

    /// The sidecar's filter, read again, or the verdict on one that cannot be probed.
    pub(crate) fn verified_sidecar(&self) -> Result<Result<VerifiedFilter, FilterVerdict>, TableError> {
        let Some(sidecar) = self.own_sidecar() else { return Ok(Err(FilterVerdict::None)) };
        let problem = match sidecar.read_again(&self.parts, &self.reader) {
            Ok(None) => return Ok(Err(FilterVerdict::None)),
            Ok(Some((filter, shared))) => {
                return Ok(Ok(VerifiedFilter { at: sidecar.location(), shared, filter }));
            }
            Err(problem) => problem,
        };
        match &problem {
            TableError::Sidecar { source, .. } if problem.is_foreign_filter() || is_unknown_sidecar(source) => {
                Ok(Err(FilterVerdict::NotProbed { reason: source.to_string() }))
            }
            _ => Err(problem),
        }
    }

    fn verified_block(&self, parts: &TableParts, handle: BlockHandle) -> Result<FilterInMemory, TableError> {
        let contents = parts.read_filter(&self.file, FilterHandle::Whole(handle))?;
        let block = FilterBlock::open_unverified_with_kinds(contents, &self.reader.kinds);
        let verified = block.and_then(|block| block.verify().map(|()| block));
        let block = verified.map_err(|source| self.refused(TablePart::Filter, handle.offset, source))?;
        Ok(FilterInMemory::Whole(Box::new(block)))
    }

    /// Reads all partitions, and the zeros between them.
    fn verified_partitions(
        &self,
        parts: &TableParts,
        handle: BlockHandle,
        damage: &mut Vec<TableError>,
    ) -> Result<FilterInMemory, TableError> {
        // By the hash and the parts of its writer: whether they are the reader's is a question of its own.
        let context =
            LoadContext::from(parts.properties.writer.hash).with_any_key_parts().with_kinds(&self.reader.kinds);
        let partitions = TablePartitions::read(&self.file, parts, handle, context)?;
        let mut blocks = Vec::new();
        let mut end = 0;
        for entry in partitions.index.entries() {
            let start = partitions.location(&self.file, end).offset;
            let next = partitions.location(&self.file, entry.offset).offset;
            damage.extend(self.check_zeros(TablePart::Filter, start, next).err());
            let block = (entry.block_bytes > 0).then(|| partitions.read_block(&self.file, entry.number)).transpose();
            blocks.push(match block {
                Err(error) if not_probed(&error).is_none() => {
                    damage.push(error);
                    None
                }
                block => block?,
            });
            damage.extend(partitions.check_aux(&self.file, entry.number).err());
            end = entry.offset + u64::from(entry.block_bytes) + u64::from(entry.aux_bytes);
        }
        Ok(FilterInMemory::Partitioned { partitions, blocks })
    }

    /// The filter, if it was built from what this table's keys are hashed to.
    fn checked_for_reader(
        &self,
        verified: FilterInMemory,
        filter: FilterHandle,
    ) -> Result<(FilterInMemory, SharedParts), TableError> {
        let refused = |source| self.refused(filter.part(), filter.block().offset, source);
        let (expected, got) = (self.hash_identity(), verified.hash_identity());
        if expected != got {
            return Err(refused(BlockError::HashMismatch { expected, got }));
        }
        let shared = self.reader.parts_shared_with(&self.properties().writer.key_parts).map_err(refused)?;
        // With a public seed, equal identities are equal hashes: a missing key is then the filter's fault.
        let mut known = self.reader.known_hashes(shared, self.properties().bounds());
        if expected.id != HashId::Xxh3 && known.any(|(key, hash)| !verified.may_contain(key, hash)) {
            return Err(refused(BlockError::KnownKeyAbsent { hash: expected }));
        }
        Ok((verified, shared))
    }

    /// The bytes from `start` to `end`, less than an alignment, are zeros.
    pub(super) fn check_zeros(&self, part: TablePart, start: u64, end: u64) -> Result<(), TableError> {
        if start >= end {
            return Ok(());
        }
        let mut zeros = [0; LINE_BYTES];
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let zeros = zeros.get_mut(..length).unwrap_or_default();
        self.file.read_into(zeros, start)?;
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(TableError::corrupt(self.file.location(part, start), "zeros", format!("{zeros:?}")));
        }
        Ok(())
    }

    fn refused(&self, part: TablePart, offset: u64, source: BlockError) -> TableError {
        TableError::Filter { at: self.file.location(part, offset), source }
    }
}

/// The verdict on a filter that is not damaged, although it cannot be probed.
fn not_probed(error: &TableError) -> Option<FilterVerdict> {
    match error {
        TableError::Filter { source, .. } if is_unknown(source) || error.is_foreign_filter() => {
            Some(FilterVerdict::NotProbed { reason: source.to_string() })
        }
        _ => None,
    }
}

fn is_unknown_sidecar(error: &SidecarError) -> bool {
    match error {
        SidecarError::Version { .. } => true,
        SidecarError::Filter(error) => is_unknown(error),
        _ => false,
    }
}

/// Whether a later release, or a reader with more kinds, may know what this one does not.
fn is_unknown(error: &BlockError) -> bool {
    matches!(error, BlockError::UnknownKind { .. } | BlockError::UnknownHash { .. } | BlockError::Version { .. })
}
