//! The parts that opening a table reads: footer, handles, properties, and the filters, from the table or from its
//! sidecar.

use core::ops::Range;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::{
    FileFilters, FilterMetadata, FilterPart, FilterProblem, FilterSource, FilterStore, TableIdentity, sidecar_path,
};

use super::error::{TableError, TableLocation, TablePart};
use super::format::{BlockHandles, FILTER_ALIGNMENT, FOOTER_BYTES, Footer, compare_checksums};
use super::io::{TableFile, WHOLE_BYTES, io_error};
use super::{FileSystem, TableProperties};

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
        // Misplaced filters are not an error: reads do without them.
        let has_filters = !properties.filters.sections().is_empty();
        if properties.data_bytes > end || (properties.data_bytes < end && !has_filters) {
            let got = format_args!("{} data bytes", properties.data_bytes);
            return Err(block.corrupt("data right up to the filters or the properties", got));
        }
        Ok(Self { footer, handles, properties })
    }

    /// Returns the identity that binds a sidecar to the table.
    pub(super) fn identity(&self) -> TableIdentity {
        let Footer { metaindex, table_id } = self.footer;
        TableIdentity::new(table_id.into(), metaindex.range().end + FOOTER_BYTES as u64, self.footer.checksum())
    }

    /// Returns the offset of the filters.
    pub(super) fn filters_at(&self) -> u64 {
        self.properties.data_bytes.checked_next_multiple_of(FILTER_ALIGNMENT as u64).unwrap_or(u64::MAX)
    }

    /// Returns the table's own filters, in its `file`.
    pub(super) fn filter_bytes(&self, file: &Arc<TableFile>) -> FilterBytes {
        FilterBytes { file: file.clone(), start: self.filters_at(), metadata: self.properties.filters.clone() }
    }

    /// Returns the parts of the table in file order, end to end, without empty ones.
    pub(super) fn layout(&self) -> Vec<(TablePart, Range<u64>)> {
        let mut parts: Vec<(TablePart, Range<u64>)> = Vec::new();
        let mut push = |part, end| {
            let start = parts.last().map_or(0, |(_, last)| last.end);
            if start < end {
                parts.push((part, start..end));
            }
        };
        push(TablePart::Data, self.properties.data_bytes);
        for section in self.properties.filters.sections() {
            let index = section.index_range();
            let [start, index, end] =
                [section.offset, index.start, index.end].map(|offset| self.filters_at().saturating_add(offset));
            push(TablePart::Padding, start);
            push(part_of(section.part), index);
            push(TablePart::FilterIndex, end);
        }
        push(TablePart::Padding, self.handles.properties.offset);
        push(TablePart::Properties, self.handles.index.offset);
        push(TablePart::Index, self.footer.metaindex.offset);
        let end = self.footer.metaindex.range().end;
        push(TablePart::Metaindex, end);
        push(TablePart::Footer, end + FOOTER_BYTES as u64);
        parts
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

/// Returns the part of a table for a section of its filters.
pub(super) const fn part_of(section: FilterPart) -> TablePart {
    match section {
        FilterPart::Ranges => TablePart::RangeFilter,
        // Point filters, in one block or in partitions.
        _ => TablePart::Filter,
    }
}

/// The filter bytes in a file.
#[derive(Clone)]
pub(super) struct FilterBytes {
    pub(super) file: Arc<TableFile>,
    /// Offset of the first filter byte in the file.
    start: u64,
    pub(super) metadata: Arc<FilterMetadata>,
}

impl FilterBytes {
    pub(super) fn open(&self, store: &FilterStore) -> FileFilters {
        store.open(self.metadata.clone(), self.clone())
    }

    /// Returns the location of an offset into the filter bytes.
    pub(super) fn location(&self, part: TablePart, offset: u64) -> TableLocation {
        self.file.location(part, self.start.saturating_add(offset))
    }

    /// Returns the error that the point or range filter is not used.
    pub(super) fn refused(&self, part: TablePart, source: FilterProblem) -> TableError {
        let section = self.metadata.sections().iter().find(|section| part_of(section.part) == part);
        TableError::Filter { at: self.location(part, section.map_or(0, |section| section.offset)), source }
    }

    /// Reads the bytes in `range` into a buffer aligned to a cache line. A description alone does not justify an
    /// allocation: more than [`WHOLE_BYTES`] are allocated only after their checksum has matched.
    pub(super) fn read_range(&self, range: Range<u64>) -> Result<Bytes, TableError> {
        let (at, length) = (self.location(TablePart::Filter, range.start), range.end.saturating_sub(range.start));
        // Before any memory is allocated: a description may claim any length.
        self.file.check_inside(&at, length)?;
        if length > WHOLE_BYTES {
            // A filter in one block: the recorded checksum covers all but its last four bytes.
            // Only whole filters can be larger than a partition, and their checksums are in the description.
            let mut whole = self.metadata.sections().iter().filter(|section| section.index_bytes == 0);
            let section = whole.find(|section| section.range() == range).ok_or_else(|| {
                TableError::corrupt(at.clone(), "a partition of at most 64 MiB", format_args!("{length} bytes"))
            })?;
            let got = self.file.checksum_in_pieces(at.offset..at.offset + length - 4)?;
            compare_checksums(section.checksum, got, &at)?;
        }
        self.file.read_bytes(at.offset, length)
    }
}

impl FilterSource for FilterBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.read_range(range).map_err(|error| match error {
            TableError::Io { source, .. } => source,
            // A `FilterSource` returns only I/O errors.
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        })
    }
}

/// Bytes of a sidecar's end that are read at once: a trailer, and a longer description than most have.
const END_BYTES: u64 = 512;

/// Finds the filters in the sidecar of a table; `None` if there is no sidecar. Costs one attempt to open a file.
pub(super) fn find_sidecar(
    table: &Path,
    files: &dyn FileSystem,
    parts: &TableParts,
) -> Option<Result<FilterBytes, TableError>> {
    let path = sidecar_path(table);
    match files.open(&path) {
        Err(error) if is_missing(&error) => None,
        Err(error) => Some(Err(io_error("opening", Some(&path))(error))),
        Ok(source) => Some(TableFile::new(source, Some(path.into())).and_then(|file| read_sidecar(file, parts))),
    }
}

/// Whether the error means that there is no sidecar. If the table's name has the maximum length, the sidecar's name is
/// too long, so there cannot be one.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// Reads a sidecar's description of its filters.
///
/// It must have the table's smallest and largest key. It records the hash and the parts of these two, and those of
/// other keys would look like a changed hash function or extractor.
fn read_sidecar(file: TableFile, parts: &TableParts) -> Result<FilterBytes, TableError> {
    let refused = |source| TableError::Filter { at: file.location(TablePart::Filter, 0), source };
    let mut tail = read_end(&file, END_BYTES)?;
    // One read is enough for usual descriptions; long keys make them longer.
    let tail_bytes = FilterMetadata::sidecar_tail_bytes(&tail).map_err(refused)?;
    if tail_bytes > tail.len() as u64 {
        tail = read_end(&file, tail_bytes)?;
    }
    let metadata = FilterMetadata::of_sidecar(&tail, file.length, &parts.identity()).map_err(refused)?;
    if metadata.key_bounds() != parts.properties.filters.key_bounds() {
        let (what, expected) = ("filters of a sidecar", "all keys from the table's smallest to its largest");
        return Err(refused(FilterProblem::Field { what, expected, got: metadata.keys_added().to_string() }));
    }
    Ok(FilterBytes { file: file.into(), start: 0, metadata: metadata.into() })
}

/// Reads the last `max` bytes of a file, or all of it.
fn read_end(file: &TableFile, max: u64) -> Result<Bytes, TableError> {
    let bytes = max.min(file.length);
    file.read_bytes(file.length - bytes, bytes)
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;
    use crate::format::BlockHandle;
    use crate::properties::{metadata_between, with_sections};

    /// Returns the layout of a table with `data_bytes` bytes of data. A section has a range and the length of its top
    /// index.
    fn layout(data_bytes: u64, sections: &[(FilterPart, Range<u64>, u32)]) -> Vec<(&'static str, u64, u64)> {
        let section = |(part, place, index_bytes): &(FilterPart, Range<u64>, u32)| {
            let mut bytes = vec![*part as u8 + 1, 1, 0, 0];
            bytes.put_u32_le(*index_bytes);
            bytes.put_u64_le(place.start);
            bytes.put_u64_le(place.end - place.start);
            bytes.put_u32_le(0);
            bytes
        };
        let filters =
            with_sections(&metadata_between(b"a", b"z"), &sections.iter().flat_map(section).collect::<Vec<_>>());
        let properties = TableProperties {
            entries: 10,
            tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            data_blocks: 1,
            data_bytes,
            block_bytes: 4_096,
            restart_interval: 16,
            level: None,
            filter_policy: None,
            range_filter_missing: None,
            filters: filters.into(),
        };
        let handle = |offset, contents_bytes| BlockHandle { offset, contents_bytes, checksum: 0 };
        let footer = Footer { metaindex: handle(350, 60), table_id: [0; 16] };
        let handles = BlockHandles { properties: handle(200, 96), index: handle(300, 46) };
        let parts = TableParts { footer, handles, properties }.layout();
        parts.iter().map(|(part, range)| (part.name(), range.start, range.end - range.start)).collect()
    }

    #[test]
    fn parts_lie_end_to_end_in_the_layout_and_those_of_no_bytes_are_left_out() {
        use FilterPart::{PartitionedPoints, Points, Ranges};
        let end = [("properties", 200, 100), ("index", 300, 50), ("metaindex", 350, 64), ("footer", 414, 64)];
        let with_end = |parts: &[(&'static str, u64, u64)]| [parts, &end].concat();
        assert_eq!(layout(200, &[]), with_end(&[("data", 0, 200)]));
        assert_eq!(layout(128, &[(Points, 0..72, 0)]), with_end(&[("data", 0, 128), ("filter", 128, 72)]));
        let padded = [("data", 0, 100), ("padding", 100, 28), ("filter", 128, 72)];
        assert_eq!(layout(100, &[(Points, 0..72, 0)]), with_end(&padded));
        let partitioned = [("data", 0, 60), ("padding", 60, 4), ("filter", 64, 64), ("filter-index", 128, 72)];
        assert_eq!(layout(60, &[(PartitionedPoints, 0..136, 72)]), with_end(&partitioned));
        let both = [("data", 0, 64), ("filter", 64, 40), ("padding", 104, 24), ("range-filter", 128, 72)];
        assert_eq!(layout(64, &[(Points, 0..40, 0), (Ranges, 64..136, 0)]), with_end(&both));
    }
}
