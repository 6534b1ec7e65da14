//! What opening a table reads besides the filter.

use bytes::Bytes;

use super::format::{BlockHandle, BlockHandles, FOOTER_BYTES, FilterHandle, Footer, aligned};
use super::io::TableFile;
use super::{TableError, TablePart, TableProperties};
use crate::block::trailer::MAX_TAIL_BYTES;
use crate::sidecar::TableIdentity;

/// Footer, metaindex and properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableParts {
    pub(crate) footer: Footer,
    pub(crate) handles: BlockHandles,
    pub(crate) properties: TableProperties,
}

impl TableParts {
    pub(crate) fn read(file: &TableFile) -> Result<Self, TableError> {
        let footer = read_footer(file)?;
        let block = |part, handle| file.read_block(part, handle, &footer.table_id);
        let mut handles = BlockHandles::decode(&block(TablePart::Metaindex, footer.metaindex)?, footer.metaindex)?;
        let block = block(TablePart::Properties, handles.properties)?;
        let properties = TableProperties::decode(&block)?;
        let is_placed = match handles.filter {
            None => properties.data_bytes == handles.properties.offset,
            Some(_) => properties.data_bytes <= handles.properties.offset,
        };
        // A range filter alone is named there, too, where readers without range filters find a filter of an unknown
        // kind.
        handles.filter = handles.filter.filter(|filter| Some(filter.block()) != properties.range_handle());
        if !is_placed {
            let got = format_args!("{} data bytes", properties.data_bytes);
            return Err(block.corrupt("data right up to the properties", got));
        }
        Ok(Self { footer, handles, properties })
    }

    /// What identifies the table to its sidecar.
    pub(crate) fn identity(&self) -> TableIdentity {
        let Footer { metaindex, table_id } = self.footer;
        let bytes = metaindex.offset + metaindex.bytes() + FOOTER_BYTES as u64;
        TableIdentity::new(*table_id.as_bytes(), bytes, self.footer.checksum())
    }

    /// Reads the range filter's block, which must lie where writers put it: aligned, behind the filter or the data, and
    /// right before the properties.
    pub(crate) fn read_range_filter(&self, file: &TableFile, handle: BlockHandle) -> Result<Bytes, TableError> {
        let (before, end) = (self.before_range_filter(), self.handles.properties.offset);
        if before.and_then(aligned) != Some(handle.offset) || handle.end() != Some(end) {
            let at = file.location(TablePart::RangeFilter, handle.offset);
            let expected = format!("a block between the filters and data (up to {before:?}) and offset {end}");
            return Err(TableError::corrupt(at, expected, format_args!("{} bytes", handle.bytes())));
        }
        file.read_contents(TablePart::RangeFilter, handle, &self.footer.table_id)
    }

    /// Where the zeros before a range filter begin; `None` when no file is that long.
    pub(crate) fn before_range_filter(&self) -> Option<u64> {
        self.handles.filter.map_or(Some(self.properties.data_bytes), |filter| filter.block().end())
    }

    /// Reads the block that the filter's handle names, which must lie where writers put it: behind the data, right
    /// before the range filter or the properties, and aligned if it is the whole filter. Partitions are between the
    /// data and the block.
    pub(crate) fn read_filter(&self, file: &TableFile, filter: FilterHandle) -> Result<Bytes, TableError> {
        self.check_place(file, filter)?;
        file.read_contents(filter.part(), filter.block(), &self.footer.table_id)
    }

    /// Reads the end of a filter block, which says what the filter is. Its checksum is not compared: all of the block
    /// is when it is loaded.
    pub(crate) fn read_filter_end(&self, file: &TableFile, handle: BlockHandle) -> Result<Bytes, TableError> {
        self.check_place(file, FilterHandle::Whole(handle))?;
        let bytes = handle.contents_bytes.min(MAX_TAIL_BYTES as u64);
        file.read_bytes(handle.offset + handle.contents_bytes - bytes, bytes)
    }

    fn check_place(&self, file: &TableFile, filter: FilterHandle) -> Result<(), TableError> {
        let (handle, data_bytes) = (filter.block(), self.properties.data_bytes);
        let range_filter = self.properties.range_handle();
        let end = range_filter.map_or(self.handles.properties.offset, |range_filter| range_filter.offset);
        let is_behind_data = aligned(data_bytes).is_some_and(|start| match filter {
            FilterHandle::Whole(_) => start == handle.offset,
            FilterHandle::Partitioned(_) => start <= handle.offset,
        });
        let is_last = range_filter.is_none();
        let is_before_end = Some(end) == if is_last { handle.end() } else { handle.end().and_then(aligned) };
        if !is_behind_data || !is_before_end {
            let at = file.location(filter.part(), handle.offset);
            let expected = format!("a block between the data ({data_bytes} bytes) and offset {end}");
            return Err(TableError::corrupt(at, expected, format_args!("{} bytes", handle.bytes())));
        }
        Ok(())
    }
}

fn read_footer(file: &TableFile) -> Result<Footer, TableError> {
    let Some(offset) = file.length.checked_sub(FOOTER_BYTES as u64) else {
        let at = file.location(TablePart::Footer, 0);
        return Err(TableError::Truncated { at, expected: FOOTER_BYTES as u64, got: file.length });
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_into(&mut bytes, offset)?;
    Footer::decode(&bytes, file.length, &file.location(TablePart::Footer, offset))
}
