//! What opening a table reads: footer, metaindex and properties, checked against each other.

use super::entry_block::EntryBlock;
use super::file::TableFile;
use super::footer::{FOOTER_BYTES, Footer};
use super::handle::{BlockHandle, name};
use super::layout::BlockHandles;
use super::{TableError, TableId, TableProperties};

/// What opening reads, the filter apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableParts {
    pub(crate) footer: Footer,
    pub(crate) handles: BlockHandles,
    pub(crate) properties: TableProperties,
}

impl TableParts {
    pub(crate) fn read(file: &TableFile) -> Result<Self, TableError> {
        let footer = read_footer(file)?;
        let block = |name, handle| read_entry_block(file, name, handle, &footer.table_id);
        let handles = BlockHandles::decode(&block(name::METAINDEX, footer.metaindex)?, footer.metaindex)?;
        let properties = block(name::PROPERTIES, handles.properties)?;
        let properties_at = properties.location().clone();
        let properties = TableProperties::decode(&properties)?;
        let is_placed = match handles.filter {
            None => properties.data_bytes == handles.properties.offset,
            Some(_) => properties.data_bytes <= handles.properties.offset,
        };
        if !is_placed {
            let got = format!("{} data bytes", properties.data_bytes);
            return Err(TableError::corrupt(properties_at, "data right up to the properties", got));
        }
        Ok(Self { footer, handles, properties })
    }
}

fn read_footer(file: &TableFile) -> Result<Footer, TableError> {
    let Some(offset) = file.length().checked_sub(FOOTER_BYTES as u64) else {
        let at = file.location(name::FOOTER, 0);
        return Err(TableError::Truncated { at, expected: FOOTER_BYTES as u64, got: file.length() });
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_into(&mut bytes, offset)?;
    let at = file.location(name::FOOTER, offset);
    let footer = Footer::decode(&bytes, file.length(), &at)?;
    if footer.metaindex.end() != Some(offset) {
        let got = format!("{:?}", footer.metaindex);
        return Err(TableError::corrupt(at, "a metaindex right before the footer", got));
    }
    Ok(footer)
}

pub(crate) fn read_entry_block(
    file: &TableFile,
    name: &'static str,
    handle: BlockHandle,
    table_id: &TableId,
) -> Result<EntryBlock, TableError> {
    EntryBlock::open(file.read_block(name, handle, table_id)?, file.location(name, handle.offset))
}
