//! Where everything lies in a table: the metaindex, checked.

use super::TableError;
use super::entry_block::{EntryBlock, EntryBlockBuilder, EntryValue};
use super::file::TableFile;
use super::footer::{FOOTER_BYTES, Footer};
use super::handle::{BlockHandle, name};

/// The filter begins at a multiple of this.
pub(crate) const FILTER_ALIGNMENT: usize = 64;

/// One part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayoutRegion {
    /// `data`, `padding`, `filter`, `properties`, `index`, `metaindex` or `footer`.
    pub name: &'static str,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, checksums included.
    pub bytes: u64,
}

/// The parts of a table in their order, end to end; those of no bytes are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableLayout {
    /// The parts.
    pub regions: Vec<LayoutRegion>,
}

impl TableLayout {
    /// The part of this name, if the table has it.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<&LayoutRegion> {
        self.regions.iter().find(|region| region.name == name)
    }

    pub(crate) fn new(handles: &BlockHandles, footer: &Footer, data_bytes: u64) -> Self {
        let region = |name, offset, bytes| LayoutRegion { name, offset, bytes };
        let block = |name, handle: BlockHandle| region(name, handle.offset, handle.bytes());
        let padding_end = handles.filter.map_or(handles.properties.offset, |filter| filter.offset);
        let mut regions = vec![
            region(name::DATA, 0, data_bytes),
            region(name::PADDING, data_bytes, padding_end.saturating_sub(data_bytes)),
        ];
        regions.extend(handles.filter.map(|filter| block(name::FILTER, filter)));
        regions.push(block(name::PROPERTIES, handles.properties));
        regions.push(block(name::INDEX, handles.index));
        regions.push(block(name::METAINDEX, footer.metaindex));
        regions.push(region(name::FOOTER, footer.file_bytes - FOOTER_BYTES as u64, FOOTER_BYTES as u64));
        regions.retain(|region| region.bytes > 0);
        Self { regions }
    }
}

/// What the metaindex says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandles {
    pub(crate) filter: Option<BlockHandle>,
    pub(crate) properties: BlockHandle,
    pub(crate) index: BlockHandle,
}

impl BlockHandles {
    pub(crate) fn encode(&self) -> EntryBlockBuilder {
        let mut block = EntryBlockBuilder::new(1);
        let handles =
            [(name::FILTER, self.filter), (name::INDEX, Some(self.index)), (name::PROPERTIES, Some(self.properties))];
        for (name, handle) in handles {
            if let Some(handle) = handle {
                block.add(name.as_bytes(), EntryValue::Bytes(&handle.encode()));
            }
        }
        block
    }

    /// Reads a metaindex block. Properties, index and metaindex must lie end to end before the footer;
    /// the filter's place is the filter's own affair.
    pub(crate) fn decode(block: &EntryBlock, metaindex: BlockHandle) -> Result<Self, TableError> {
        let (mut filter, mut properties, mut index) = (None, None, None);
        let mut cursor = block.cursor();
        while cursor.advance()? {
            let slot = match cursor.key() {
                b"filter" => &mut filter,
                b"index" => &mut index,
                b"properties" => &mut properties,
                other => return Err(block.corrupt("filter, index or properties", super::error::shown(other))),
            };
            let handle = BlockHandle::decode(cursor.value().bytes());
            *slot = Some(handle.ok_or_else(|| block.corrupt("a handle", format_args!("{:?}", cursor.value())))?);
        }
        let missing = |name: &'static str| block.corrupt(name, "none");
        let properties = properties.ok_or_else(|| missing(name::PROPERTIES))?;
        let index = index.ok_or_else(|| missing(name::INDEX))?;
        if properties.end() != Some(index.offset) || index.end() != Some(metaindex.offset) {
            let expected = format!("properties and index end to end before offset {}", metaindex.offset);
            return Err(block.corrupt(&expected, format_args!("{properties:?}, {index:?}")));
        }
        Ok(Self { filter, properties, index })
    }

    /// Whether the filter lies where writers put it: behind the data, aligned, right before the properties.
    pub(crate) fn check_filter_place(
        &self,
        filter: BlockHandle,
        data_bytes: u64,
        file: &TableFile,
    ) -> Result<(), TableError> {
        let expected_offset = data_bytes.checked_next_multiple_of(FILTER_ALIGNMENT as u64);
        if expected_offset == Some(filter.offset) && filter.end() == Some(self.properties.offset) {
            return Ok(());
        }
        let at = file.location(name::FILTER, filter.offset);
        let expected = format!("a block between the data ({data_bytes} bytes) and offset {}", self.properties.offset);
        Err(TableError::corrupt(at, expected, format_args!("{} bytes", filter.bytes())))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sst::{Location, TableId};

    const PROPERTIES: BlockHandle = BlockHandle { offset: 200, contents_bytes: 96, checksum: 1 };
    const INDEX: BlockHandle = BlockHandle { offset: 300, contents_bytes: 46, checksum: 2 };
    const METAINDEX: BlockHandle = BlockHandle { offset: 350, contents_bytes: 60, checksum: 3 };

    fn example() -> BlockHandles {
        let filter = Some(BlockHandle { offset: 128, contents_bytes: 68, checksum: 4 });
        BlockHandles { filter, properties: PROPERTIES, index: INDEX }
    }

    fn decoded(handles: &BlockHandles) -> Result<BlockHandles, TableError> {
        let contents = Bytes::from(handles.encode().seal().clone());
        BlockHandles::decode(&EntryBlock::open(contents, Location::new(None, "metaindex", 350))?, METAINDEX)
    }

    #[test]
    fn a_metaindex_reads_back_as_written() {
        assert_eq!(decoded(&example()).unwrap(), example());
        let unfiltered = BlockHandles { filter: None, ..example() };
        assert_eq!(decoded(&unfiltered).unwrap(), unfiltered);
    }

    #[test]
    fn blocks_that_do_not_lie_end_to_end_are_refused() {
        for handles in [
            BlockHandles { properties: BlockHandle { offset: 201, ..PROPERTIES }, ..example() },
            BlockHandles { index: BlockHandle { contents_bytes: 47, ..INDEX }, ..example() },
            BlockHandles { index: BlockHandle { contents_bytes: u64::MAX, ..INDEX }, ..example() },
        ] {
            assert!(matches!(decoded(&handles), Err(TableError::Corrupt { .. })), "{handles:?}");
        }
    }

    #[test]
    fn parts_of_no_bytes_are_left_out_of_the_layout() {
        let footer = Footer { metaindex: METAINDEX, file_bytes: 478, table_id: TableId::from_bytes([0; 16]) };
        let layout = TableLayout::new(&example(), &footer, 128);
        let names: Vec<&str> = layout.regions.iter().map(|region| region.name).collect();
        assert_eq!(names, ["data", "filter", "properties", "index", "metaindex", "footer"]);
        assert_eq!(layout.region("filter").unwrap().bytes, 72);
        let padded = TableLayout::new(&example(), &footer, 100);
        assert_eq!(padded.region("padding").unwrap().bytes, 28);
    }
}
