//! The layout of a table: where its parts are and how to read them, for all engines.

use sstfilter::RandomAccess;

use crate::error::{Error, Part};
use crate::filter::Filter;
use crate::format::footer::{Engine, Footer};
use crate::format::handle::BlockHandle;
use crate::format::properties::Properties;
use crate::format::row_block::{RowBlock, Values};
use crate::table::file::TableFile;
use crate::table::partitions::Separators;
use crate::table::rules::KeyRules;

/// A block that the metaindex names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedBlock {
    pub(crate) name: Vec<u8>,
    pub(crate) handle: BlockHandle,
}

/// The location of a table's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterLocation {
    /// One block.
    Full(BlockHandle, FullFilter),
    /// A block per partition, with an index of partitions.
    Partitioned(BlockHandle, Separators),
    /// LevelDB's block with a filter per 2 KiB of the file.
    PerDataBlock(BlockHandle, IndexLocation, TailBytes),
}

impl FilterLocation {
    /// Returns the handle of the block that the metaindex names.
    pub(crate) const fn handle(self) -> BlockHandle {
        match self {
            Self::Full(handle, _) | Self::Partitioned(handle, _) | Self::PerDataBlock(handle, ..) => handle,
        }
    }
}

/// How the hash of a LevelDB filter reads a key's last `len % 4` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailBytes {
    Unsigned,
    /// LevelDB before 1.18 read them as `char`, which is signed on some machines. The file does not say.
    OfEitherSign,
}

/// The decoding of a full filter's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullFilter {
    /// The trailer decides the kind.
    RocksDb,
    PebbleBloom,
    PebbleFuse,
}

impl FullFilter {
    pub(crate) fn read<R: RandomAccess>(
        self,
        file: &TableFile<R>,
        handle: BlockHandle,
    ) -> Result<Filter<Vec<u8>>, Error> {
        let bytes = file.plain(handle, Part::Filter)?;
        let opened = match self {
            Self::RocksDb => Filter::rocksdb(bytes),
            Self::PebbleBloom => Filter::pebble_bloom(bytes),
            Self::PebbleFuse => Filter::pebble_fuse(bytes),
        };
        opened.map_err(|error| error.at(Part::Filter, handle.offset))
    }
}

/// The location of the data blocks' index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexLocation {
    pub(crate) handle: BlockHandle,
    /// Whether its entries lead to further index blocks.
    pub(crate) two_levels: bool,
    pub(crate) values: Values,
}

/// The decoding of data blocks' keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataLocation {
    pub(crate) index: IndexLocation,
    /// Bytes behind each user key, including the timestamp.
    pub(crate) suffix_bytes: usize,
    /// The highest type of an entry, which is the eighth byte from the end of its key.
    pub(crate) max_type: u8,
    /// Whether data blocks may be compressed with a dictionary.
    pub(crate) has_dictionary: bool,
}

/// A table's parts. Each has its own error, so that a damaged or unknown part does not hide the others.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) engine: Engine,
    pub(crate) metaindex: Vec<NamedBlock>,
    pub(crate) properties: Result<Properties, Error>,
    pub(crate) filter: Result<FilterLocation, Error>,
    /// The filter of a policy that is not known by its name: used if it is positive for all stored keys.
    pub(crate) unconfirmed: Option<FilterLocation>,
    pub(crate) rules: Result<KeyRules, Error>,
    pub(crate) data: Result<DataLocation, Error>,
    pub(crate) has_range_tombstones: bool,
}

impl Layout {
    /// Returns the handle of the block with this name.
    pub(crate) fn named(metaindex: &[NamedBlock], name: &[u8]) -> Option<BlockHandle> {
        metaindex.iter().find(|block| block.name == name).map(|block| block.handle)
    }
}

/// Reads a metaindex that is a row block.
pub(crate) fn read_metaindex<R: RandomAccess>(file: &TableFile<R>, footer: &Footer) -> Result<Vec<NamedBlock>, Error> {
    let contents = match footer.engine {
        // LevelDB compresses it if that saves an eighth; RocksDB never does.
        Engine::LevelDb => file.decompressed(footer.metaindex, Part::Metaindex)?,
        _ => file.plain(footer.metaindex, Part::Metaindex)?,
    };
    named_blocks(&contents).map_err(|problem| Error::malformed(Part::Metaindex, footer.metaindex.offset, problem))
}

fn named_blocks(contents: &[u8]) -> Result<Vec<NamedBlock>, String> {
    let mut entries = RowBlock::parse(contents)?.entries(Values::Sized);
    let mut blocks = Vec::new();
    while let Some(entry) = entries.next() {
        let (name, value) = entry?;
        let handle = value.handle().ok_or_else(|| format!("expected a handle of \"{}\"", name.escape_ascii()))?;
        blocks.push(NamedBlock { name: name.to_vec(), handle });
    }
    Ok(blocks)
}
