//! Reading a table's filter after the table was opened: whole, or a partition of it.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::format::BlockHandle;
use super::io::TableFile;
use super::reader::Reader;
use super::table_partitions::TablePartitions;
use super::{TableError, TableId, TablePart};
use crate::block::FilterBlock;
use crate::budget::{FilterLayout, FilterSource};
use crate::error::BlockError;
use crate::hash::KeyHash;
use crate::sidecar::{Sidecar, SidecarError};

/// A table's filter in its file.
pub(crate) struct TableFilterSource {
    file: Arc<TableFile>,
    place: FilterPlace,
    /// Hashes that units must contain, because the table has their keys.
    known: Box<[(u32, KeyHash)]>,
}

/// Where the filter is, and what it is checked against.
pub(crate) enum FilterPlace {
    Partitions(TablePartitions),
    /// Boxed, so that it takes nothing where there are partitions.
    Whole(Box<WholeFilter>),
}

/// A filter in one block.
pub(crate) struct WholeFilter {
    file: WholeFile,
    reader: Arc<Reader>,
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
        match &self.file {
            WholeFile::Table { handle, table_id } => {
                let contents = file.read_contents(TablePart::Filter, *handle, table_id).map_err(reason)?;
                FilterBlock::load(contents, context)
            }
            WholeFile::Sidecar(sidecar) => {
                let (bytes, expected) = (sidecar.filter_bytes(), sidecar.filter_checksum());
                let filter = file.read_with_checksum(bytes, expected).map_err(reason)?;
                // Of a file that was opened again by its name: another sidecar may be there now.
                let damaged =
                    |got| BlockError::Unreadable { reason: SidecarError::FilterChecksum { expected, got }.to_string() };
                FilterBlock::load(filter.map_err(damaged)?, context.with_file_id(sidecar.table().file_id()))
            }
        }
    }
}

impl FilterPlace {
    pub(crate) fn whole(file: WholeFile, reader: &Arc<Reader>) -> Self {
        Self::Whole(Box::new(WholeFilter { file, reader: Arc::clone(reader) }))
    }

    pub(crate) fn layout(&self) -> FilterLayout {
        match self {
            Self::Whole(filter) => FilterLayout::Whole { bytes: filter.bytes() },
            Self::Partitions(partitions) => FilterLayout::Partitioned(Arc::clone(&partitions.index)),
        }
    }

    /// The unit that holds a key, and the key's hash in it.
    fn unit(&self, key: &[u8], hash: KeyHash) -> (u32, KeyHash) {
        match self {
            Self::Whole(_) => (0, hash),
            Self::Partitions(partitions) => {
                let place = partitions.index.place_of_hash(key, hash);
                (place.number, place.hash)
            }
        }
    }
}

impl TableFilterSource {
    /// The source of the filter at `place`, which holds the known keys of these hashes.
    pub(crate) fn new<'a>(
        file: Arc<TableFile>,
        place: FilterPlace,
        known: impl Iterator<Item = (&'a [u8], KeyHash)>,
    ) -> Self {
        let known = known.map(|(key, hash)| place.unit(key, hash)).collect();
        Self { file, place, known }
    }

    pub(crate) fn layout(&self) -> FilterLayout {
        self.place.layout()
    }

    /// Reads the units of the known keys, and compares. At least one must be readable: hashes that nothing confirms
    /// would find other keys absent in other units.
    pub(crate) fn check_known_keys(&self) -> Result<(), BlockError> {
        let mut units: Vec<u32> = self.known.iter().map(|&(unit, _)| unit).collect();
        units.dedup();
        let (mut is_confirmed, mut unreadable) = (false, None);
        for unit in units {
            match self.load(unit) {
                Ok(_) => is_confirmed = true,
                Err(reason @ BlockError::KnownKeyAbsent { .. }) => return Err(reason),
                Err(reason) => unreadable = Some(reason),
            }
        }
        unreadable.filter(|_| !is_confirmed).map_or(Ok(()), Err)
    }
}

impl FilterSource for TableFilterSource {
    fn load(&self, unit: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        let block = match &self.place {
            FilterPlace::Partitions(partitions) => partitions.read_block(&self.file, unit).map_err(reason)?,
            FilterPlace::Whole(filter) => filter.load(&self.file)?,
        };
        let lacks_known = self.known.iter().any(|&(other, hash)| other == unit && !block.may_contain_added(hash));
        if lacks_known { Err(BlockError::KnownKeyAbsent { hash: block.hash_identity() }) } else { Ok(block) }
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
