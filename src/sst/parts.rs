//! What opening a table reads besides the filters.

use super::TableProperties;
use super::error::{TableError, TablePart};
use super::format::{BlockHandles, FOOTER_BYTES, Footer, aligned};
use super::io::TableFile;
use crate::store::TableIdentity;

/// The footer, the handles and the properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableParts {
    pub(super) footer: Footer,
    pub(super) handles: BlockHandles,
    pub(super) properties: TableProperties,
}

impl TableParts {
    pub(super) fn read(file: &TableFile) -> Result<Self, TableError> {
        let footer = read_footer(file)?;
        let block = |part, handle| file.read_block(part, handle, &footer.table_id);
        let handles = BlockHandles::decode(&block(TablePart::Metaindex, footer.metaindex)?, footer.metaindex)?;
        let block = block(TablePart::Properties, handles.properties)?;
        let properties = TableProperties::decode(&block)?;
        let end = handles.properties.offset;
        // Filters that are not where they should be are no error: reads do without them.
        let is_placed = match properties.filters.sections() {
            [] => properties.data_bytes == end,
            _ => properties.data_bytes <= end,
        };
        if !is_placed {
            let got = format_args!("{} data bytes", properties.data_bytes);
            return Err(block.corrupt("data right up to the filters or the properties", got));
        }
        Ok(Self { footer, handles, properties })
    }

    /// What identifies the table to its sidecar.
    pub(super) fn identity(&self) -> TableIdentity {
        let Footer { metaindex, table_id } = self.footer;
        let bytes = metaindex.offset + metaindex.bytes() + FOOTER_BYTES as u64;
        TableIdentity::new(table_id, bytes, self.footer.checksum())
    }

    /// The first byte of the filters.
    pub(super) fn filters_at(&self) -> u64 {
        aligned(self.properties.data_bytes).unwrap_or(u64::MAX)
    }
}

fn read_footer(file: &TableFile) -> Result<Footer, TableError> {
    let Some(offset) = file.length.checked_sub(FOOTER_BYTES as u64) else {
        let at = file.location(TablePart::Footer, 0);
        return Err(TableError::FileLength { at, expected: FOOTER_BYTES as u64, got: file.length });
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_into(&mut bytes, offset)?;
    Footer::decode(&bytes, file.length, &file.location(TablePart::Footer, offset))
}
