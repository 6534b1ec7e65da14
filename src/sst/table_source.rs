//! Reading a table's filter after the table was opened: whole, or a partition of it.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::format::BlockHandle;
use super::io::TableFile;
use super::table_partitions::TablePartitions;
use super::{TableError, TableId, TablePart};
use crate::block::FilterBlock;
use crate::budget::{FilterLayout, FilterSource};
use crate::error::BlockError;
use crate::hash::KeyHash;
use crate::sidecar::{Sidecar, SidecarError};
use crate::store::reader::Reader;

/// A table's filter in its file.
pub(crate) struct TableFilterSource {
    file: Arc<TableFile>,
    place: FilterPlace,
}

/// Where the filter is, and what it is checked against.
pub(crate) enum FilterPlace {
    /// Their index has the known keys.
    Partitions(TablePartitions),
    /// Boxed, so that it takes nothing where there are partitions.
    Whole(Box<WholeFilter>),
}

/// A filter in one block.
pub(crate) struct WholeFilter {
    file: WholeFile,
    reader: Arc<Reader>,
    /// Hashes that it must contain, because the table has their keys.
    known: Box<[KeyHash]>,
}

/// The file that a whole filter is in.
pub(crate) enum WholeFile {
    Table {
        handle: BlockHandle,
        table_id: TableId,
    },
    /// It fills the first bytes.
    Sidecar(Box<Sidecar>),
}

impl WholeFilter {
    fn bytes(&self) -> u64 {
        match &self.file {
            WholeFile::Table { handle, .. } => handle.contents_bytes,
            WholeFile::Sidecar(sidecar) => sidecar.filter_bytes(),
        }
    }

    fn load(&self, file: &TableFile) -> Result<FilterBlock<Bytes>, BlockError> {
        let context = self.reader.load_context();
        let block = match &self.file {
            WholeFile::Table { handle, table_id } => {
                let contents = file.read_contents(TablePart::Filter, *handle, table_id).map_err(reason)?;
                FilterBlock::load(contents, context)?
            }
            WholeFile::Sidecar(sidecar) => {
                let (bytes, expected) = (sidecar.filter_bytes(), sidecar.filter_checksum());
                let filter = file.read_with_checksum(bytes, expected).map_err(reason)?;
                // Of a file that was opened again by its name: another sidecar may be there now.
                let damaged =
                    |got| BlockError::Unreadable { reason: SidecarError::FilterChecksum { expected, got }.to_string() };
                FilterBlock::load(filter.map_err(damaged)?, context.with_file_id(sidecar.table().file_id()))?
            }
        };
        let holds_known = self.known.iter().all(|&hash| block.may_contain_added(hash));
        if holds_known { Ok(block) } else { Err(BlockError::KnownKeyAbsent { hash: block.hash_identity() }) }
    }
}

impl FilterPlace {
    /// A whole filter, which must contain `known`.
    pub(crate) fn whole(file: WholeFile, reader: &Arc<Reader>, known: impl Iterator<Item = KeyHash>) -> Self {
        Self::Whole(Box::new(WholeFilter { file, reader: Arc::clone(reader), known: known.collect() }))
    }

    pub(crate) fn layout(&self) -> FilterLayout {
        match self {
            Self::Whole(filter) => FilterLayout::Whole { bytes: filter.bytes() },
            Self::Partitions(partitions) => FilterLayout::Partitioned(Arc::clone(&partitions.index)),
        }
    }
}

impl TableFilterSource {
    pub(crate) const fn new(file: Arc<TableFile>, place: FilterPlace) -> Self {
        Self { file, place }
    }

    pub(crate) fn layout(&self) -> FilterLayout {
        self.place.layout()
    }

    /// Reads what must hold known keys, and looks whether it does.
    pub(crate) fn check_known_keys(&self) -> Result<(), BlockError> {
        match &self.place {
            FilterPlace::Partitions(partitions) => {
                partitions.index.check_known_keys(|number| self.load(number).map(FilterBlock::into_inner))
            }
            FilterPlace::Whole(filter) if filter.known.is_empty() => Ok(()),
            FilterPlace::Whole(filter) => filter.load(&self.file).map(drop),
        }
    }
}

impl FilterSource for TableFilterSource {
    fn load(&self, unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        match &self.place {
            FilterPlace::Partitions(partitions) => partitions.read_block(&self.file, unit).map_err(reason),
            FilterPlace::Whole(filter) => filter.load(&self.file),
        }
    }
}

/// Why a filter is not used, as the filter itself says it.
pub(crate) fn reason(problem: TableError) -> BlockError {
    match problem {
        TableError::Filter { source, .. } => source,
        other => BlockError::Unreadable { reason: other.to_string() },
    }
}

impl fmt::Debug for TableFilterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFilterSource").field("path", &self.file.path()).finish_non_exhaustive()
    }
}
