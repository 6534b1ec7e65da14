//! Tables in Pebble's own formats, read like Pebble's `sstable/reader.go`.

use sstfilter::RandomAccess;

use super::file::TableFile;
use super::layout::{DataLocation, FilterLocation, FullFilter, IndexLocation, Layout, NamedBlock};
use super::partitions::{INTERNAL_SUFFIX_BYTES, in_file_order};
use super::rocksdb::{PROPERTIES_BLOCK, RANGE_TOMBSTONE_BLOCKS};
use super::rules::KeyRules;
use crate::error::{Error, Part};
use crate::format::columnar;
use crate::format::cursor::Cursor;
use crate::format::footer::{Engine, Footer};
use crate::format::handle::{BlockHandle, TRAILER_BYTES};
use crate::format::properties::Properties;
use crate::format::row_block::Values;

/// The first version with columnar data, index and range blocks.
const COLUMNS_VERSION: u32 = 5;
/// The first version with a columnar metaindex.
const COLUMNAR_METAINDEX_VERSION: u32 = 6;
/// The first version with columnar properties, which may be compressed.
const COLUMNAR_PROPERTIES_VERSION: u32 = 7;

const FULL: &[u8] = b"fullfilter.";
const PARTITIONED: &[u8] = b"partitionedfilter.";
/// Filter families, the part of a filter's name behind [`FULL`].
const BLOOM: &[u8] = b"rocksdb.BuiltinBloomFilter";
const BINARY_FUSE: &[u8] = b"binaryfuse";

/// The property that only columnar tables have: the schema of their key columns.
const COLUMN_SCHEMA: &str = "pebble.colblk.schema";

/// The only block whose handle is followed by more: the widths of handles in value blocks.
const VALUE_INDEX_BLOCK: &[u8] = b"pebble.value_index";

/// The index type of an index in two levels.
const TWO_LEVELS: u32 = 2;

/// Reads the metaindex, which is never compressed.
pub(crate) fn read_metaindex<R: RandomAccess>(file: &TableFile<R>, footer: &Footer) -> Result<Vec<NamedBlock>, Error> {
    let handle = footer.metaindex;
    let contents = file.plain(handle, Part::Metaindex)?;
    // Names must ascend in a block of rows as well, so that no block has two handles.
    let blocks = if footer.format_version >= COLUMNAR_METAINDEX_VERSION {
        parse_columns(&contents)
    } else {
        Properties::parse(&contents)
    };
    blocks
        .and_then(|blocks| blocks.pairs().map(named_block).collect())
        .map_err(|problem| Error::malformed(Part::Metaindex, handle.offset, problem))
}

/// Parses a columnar block of names and values.
fn parse_columns(contents: &[u8]) -> Result<Properties, String> {
    let pairs = columnar::names_and_values(contents)?;
    Ok(Properties::from_pairs(pairs.into_iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()))
}

fn named_block((name, value): (&[u8], &[u8])) -> Result<NamedBlock, String> {
    let mut cursor = Cursor::new(value);
    match BlockHandle::decode(&mut cursor) {
        Some(handle) if cursor.rest().is_empty() || name == VALUE_INDEX_BLOCK => {
            Ok(NamedBlock { name: name.to_vec(), handle })
        }
        _ => Err(format!("expected a handle of \"{}\"", name.escape_ascii())),
    }
}

pub(crate) fn layout<R: RandomAccess>(file: &TableFile<R>, footer: &Footer, metaindex: Vec<NamedBlock>) -> Layout {
    let properties = read_properties(file, footer, &metaindex);
    let rules = properties
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|properties| KeyRules::of_table(Engine::Pebble, properties, true, None));
    let data = properties.as_ref().map_err(Clone::clone).and_then(|properties| data_place(properties, footer));
    let filter = filter_place(&metaindex);
    let has_range_tombstones = RANGE_TOMBSTONE_BLOCKS.iter().any(|name| Layout::named(&metaindex, name).is_some());
    let unconfirmed = None;
    Layout { engine: Engine::Pebble, metaindex, properties, filter, unconfirmed, rules, data, has_range_tombstones }
}

fn read_properties<R: RandomAccess>(
    file: &TableFile<R>,
    footer: &Footer,
    metaindex: &[NamedBlock],
) -> Result<Properties, Error> {
    let part = Part::Properties;
    let Some(handle) = Layout::named(metaindex, PROPERTIES_BLOCK) else {
        let problem = "expected a block of properties, got none";
        return Err(Error::malformed(Part::Metaindex, footer.metaindex.offset, problem));
    };
    let read = if footer.format_version >= COLUMNAR_PROPERTIES_VERSION {
        parse_columns(&file.decompressed(handle, part)?)
    } else {
        Properties::parse(&file.plain(handle, part)?)
    };
    read.map_err(|problem| Error::malformed(part, handle.offset, problem))
}

/// Finds the filter. A table has at most one filter block, of one family.
fn filter_place(metaindex: &[NamedBlock]) -> Result<FilterLocation, Error> {
    let unsupported = |what: String| Err(Error::unsupported(Part::Metaindex, what));
    let mut filters =
        metaindex.iter().filter(|block| block.name.starts_with(FULL) || block.name.starts_with(PARTITIONED));
    let Some(NamedBlock { name, handle }) = filters.next() else { return Err(Error::NoFilter) };
    if filters.next().is_some() {
        return unsupported("a table with several filters".into());
    }
    match name.strip_prefix(FULL) {
        Some(BLOOM) => Ok(FilterLocation::Full(*handle, FullFilter::PebbleBloom)),
        Some(BINARY_FUSE) => Ok(FilterLocation::Full(*handle, FullFilter::PebbleFuse)),
        Some(family) => unsupported(format!("a filter of the family \"{}\"", family.escape_ascii())),
        None => unsupported(format!("the filter \"{}\"", name.escape_ascii())),
    }
}

/// Locates the data blocks. Row blocks have LevelDB's format; an index has block properties behind the handles.
fn data_place(properties: &Properties, footer: &Footer) -> Result<DataLocation, Error> {
    if footer.format_version >= COLUMNS_VERSION {
        let what = format!("the format of blocks of columns, which versions from {COLUMNS_VERSION} on have,");
        return Err(Error::unsupported(Part::Data, what));
    }
    let two_levels = match properties.index_type() {
        Some(0) => false,
        Some(TWO_LEVELS) => true,
        other => return Err(Error::unsupported(Part::Index, format!("index type {other:?}"))),
    };
    let handle = footer.index.ok_or_else(|| Error::unsupported(Part::Index, "a footer without its handle"))?;
    let index = IndexLocation { handle, two_levels, values: Values::Sized };
    // LevelDB's limit on types does not apply to Pebble.
    Ok(DataLocation { index, suffix_bytes: INTERNAL_SUFFIX_BYTES, max_type: u8::MAX, has_dictionary: false })
}

/// Returns a contradiction between the properties and the version in a footer without a checksum. Versions 1 to 4
/// differ only in data blocks, so they cannot contradict each other.
pub(crate) fn contradiction(footer: &Footer, properties: &Properties) -> Option<String> {
    let (version, has_columns) = (footer.format_version, properties.raw(COLUMN_SCHEMA).is_some());
    if has_columns == (version >= COLUMNS_VERSION) {
        return None;
    }
    let expected =
        if has_columns { "5 or later, as its blocks are columns" } else { "4 or earlier, as its blocks are rows" };
    Some(format!("expected version {expected}, got {version}"))
}

/// Lists the index and data blocks of a table with a columnar index, in file order. Index blocks are read and carry
/// their errors; data blocks are not read. Returns nothing for a table of row blocks.
pub(crate) fn blocks_of_columns<R: RandomAccess>(
    file: &TableFile<R>,
    footer: &Footer,
    properties: &Properties,
) -> Vec<IndexedBlock> {
    let mut blocks = Vec::new();
    let Some(index) =
        footer.index.filter(|_| footer.engine == Engine::Pebble && footer.format_version >= COLUMNS_VERSION)
    else {
        return blocks;
    };
    let top = open_index(file, index, None, &mut blocks);
    if properties.index_type() == Some(TWO_LEVELS) {
        let mut last_data = None;
        for handle in top {
            let data = open_index(file, handle, last_data, &mut blocks);
            last_data = data.last().copied().or(last_data);
            blocks.extend(data.into_iter().map(IndexedBlock::data));
        }
    } else {
        blocks.extend(top.into_iter().map(IndexedBlock::data));
    }
    // Index blocks were pushed before the data blocks that they lead to, which lie before them in the file.
    blocks.sort_by_key(|block| block.handle);
    blocks
}

/// A columnar index block, or a block that it leads to.
#[derive(Debug)]
pub(crate) struct IndexedBlock {
    pub(crate) part: Part,
    pub(crate) handle: BlockHandle,
    pub(crate) result: Result<(), Error>,
}

impl IndexedBlock {
    const fn data(handle: BlockHandle) -> Self {
        Self { part: Part::Data, handle, result: Ok(()) }
    }
}

/// Reads an index block and returns the handles in it. They must ascend in the file behind `last`, so that several
/// forged indexes together cannot name more blocks than the file has room for.
fn open_index<R: RandomAccess>(
    file: &TableFile<R>,
    handle: BlockHandle,
    mut last: Option<BlockHandle>,
    blocks: &mut Vec<IndexedBlock>,
) -> Vec<BlockHandle> {
    let malformed = |problem| Error::malformed(Part::Index, handle.offset, problem);
    // A block takes at least its trailer.
    let max_blocks = usize::try_from(file.blocks_end / TRAILER_BYTES).unwrap_or(usize::MAX);
    let read = file.decompressed(handle, Part::Index).and_then(|contents| {
        let handles = columnar::index_handles(&contents, max_blocks).map_err(malformed)?;
        for &next in &handles {
            in_file_order(last, next).map_err(malformed)?;
            last = Some(next);
        }
        Ok(handles)
    });
    let (handles, result) = match read {
        Ok(handles) => (handles, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    blocks.push(IndexedBlock { part: Part::Index, handle, result });
    handles
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::compression::Numbering;
    use crate::format::checksum::{ChecksumType, Checksums};

    /// Opens a columnar index of `rows` adjacent empty blocks, in a file whose blocks end at `blocks_end`.
    fn opened(rows: u16, blocks_end: usize) -> (Vec<BlockHandle>, Result<(), Error>) {
        let [low, high] = rows.to_le_bytes();
        // Four columns begin at 27. Empty separators and properties and sizes of zero take one byte each; offsets have
        // two bytes each, aligned.
        let sizes = 30 + 2 * usize::from(rows);
        let begins = [27, 28, sizes, sizes + 1];
        let mut file = vec![1, 4, 0, low, high, 0, 0];
        for (kind, begin) in [3, 2, 2, 3].into_iter().zip(begins) {
            file.push(kind);
            file.extend(u32::try_from(begin).expect("small").to_le_bytes());
        }
        file.extend([0, 2]);
        file.resize(30, 0);
        (0..rows).for_each(|row| file.extend((row * 5).to_le_bytes()));
        file.extend([0, 0, 0]);
        let handle = BlockHandle { offset: 0, size: file.len() as u64 };
        // No compression, and no checksum.
        file.resize(blocks_end, 0);
        let checksums = Checksums::without_context(ChecksumType::None);
        let blocks_end = file.len() as u64;
        let file = TableFile { reader: Bytes::from(file), checksums, numbering: Numbering::Pebble, blocks_end };
        let mut blocks = Vec::new();
        let handles = open_index(&file, handle, None, &mut blocks);
        assert_eq!(blocks.iter().map(|block| (block.part, block.handle)).collect::<Vec<_>>(), [(Part::Index, handle)]);
        (handles, blocks.remove(0).result)
    }

    #[test]
    fn an_index_leads_to_no_more_blocks_than_the_file_has_room_for_trailers() {
        let (handles, result) = opened(100, 500);
        assert_eq!((handles.len(), result), (100, Ok(())));
        assert_eq!(handles.last(), Some(&BlockHandle { offset: 495, size: 0 }));
        let (handles, result) = opened(100, 499);
        assert!(handles.is_empty());
        assert!(result.expect_err("a block too many").to_string().contains("at most 99 rows, got 100"));
    }
}
