//! Writes tables into any sink.

use std::io::Write;
use std::path::PathBuf;

use sstfilter::internal::Interruption;
use sstfilter::{BuildReport, FileId, KeyParts};
use sstfilter_store::FileFilterBuilder;

use super::block::{BlockBuilder, MAX_BLOCK_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use super::format::{
    BLOCK_TRAILER_BYTES, BlockHandle, BlockHandles, FILTER_ALIGNMENT, FOOTER_BYTES, Footer, bound_checksum,
    max_contents_bytes,
};
use super::io::io_error;
use super::{TableError, TableOptions, TablePart, TableProperties};

/// As in data blocks. An open table decodes its whole index, so restart points save no time here and only cost bytes.
const INDEX_RESTART_INTERVAL: u32 = 16;

/// Approximate bytes of the properties and metaindex blocks, without the keys and names in them.
const FIXED_BLOCKS_ESTIMATE: u64 = 420;

/// A summary of a written table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableSummary {
    /// The file; `None` if the table was written to the caller's sink.
    pub path: Option<PathBuf>,
    /// The table's id.
    pub table_id: [u8; 16],
    /// Bytes of the whole table.
    pub file_bytes: u64,
    /// The table's properties: counts of entries and data blocks, and the description of the filters.
    pub properties: TableProperties,
    /// Bytes of the index block, including its checksum.
    pub index_bytes: u64,
    /// Bytes of the filter, including the top index of a partitioned one; 0 without a filter.
    pub filter_bytes: u64,
    /// How the filter was built; `None` without a policy, or if the policy declined. The table does not record
    /// extractors that the report calls unstable, so that no reader probes for their parts. If no other part is left,
    /// it has no filter.
    pub filter: Option<BuildReport>,
    /// Bytes of the range filter; 0 without a range filter.
    pub range_filter_bytes: u64,
    /// How the range filter was built, or why not; `None` without a [policy](TableOptions::with_range_filter).
    pub range_filter: Option<BuildReport>,
}

/// Writes a table into any [`Write`]: `(add | delete)* finish`, keys strictly ascending.
///
/// Blocks are written as they fill up. Memory holds one data block, the index, and the filter builder's state. A
/// refused key or value ([`TableError::KeyOrder`], [`TableError::TooLong`]) leaves the builder as it was. A failed
/// write poisons it: every later call is [`TableError::Poisoned`].
///
/// A panic that the caller catches also poisons it, whether in the sink or in code from the options (key extractor,
/// user-defined hash, filter builder). It is then unknown how much of the entry was added, and a key in the data but
/// not in the filter would be lost to every reader.
///
/// ```
/// use bytes::Bytes;
/// use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions};
///
/// let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
/// builder.add(b"apple", b"red")?;
/// builder.delete(b"banana")?;
/// let (bytes, summary) = builder.finish()?;
/// assert_eq!((summary.properties.entries, summary.file_bytes), (2, bytes.len() as u64));
///
/// let table = Table::open_source(Bytes::from(bytes), &TableOptions::default())?;
/// assert_eq!(table.get(b"apple")?, Lookup::Found(Bytes::from_static(b"red")));
/// # Ok::<(), sstfilter_table::TableError>(())
/// ```
#[derive(Debug)]
pub struct TableBuilder<W> {
    pub(super) sink: Sink<W>,
    pub(super) data: BlockBuilder,
    index: BlockBuilder,
    pub(super) filters: FileFilterBuilder,
    properties: TableProperties,
    /// Detects a step that ended early, by a panic or an error.
    interruption: Interruption,
}

impl<W: Write> TableBuilder<W> {
    /// Begins a table at the sink's next byte.
    ///
    /// # Errors
    ///
    /// [`TableError::Extractors`] if the name of an extractor is not 1 to 255 bytes long, or if there are more than 63
    /// extractors for the point filter.
    pub fn new(sink: W, options: &TableOptions) -> Result<Self, TableError> {
        check_extractors(options)?;
        let table_id = options.table_id.unwrap_or_else(unique_id);
        Ok(Self {
            sink: Sink { writer: sink, path: None, position: 0, table_id },
            data: BlockBuilder::new(options.restart_interval),
            index: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            filters: options.store.builder(FileId::from(table_id)).with_context(&options.context),
            properties: TableProperties {
                block_bytes: options.block_bytes.into(),
                restart_interval: options.restart_interval.into(),
                level: options.context.level,
                filter_policy: options.policy_name.clone(),
                ..TableProperties::default()
            },
            interruption: Interruption::default(),
        })
    }

    /// Adds `key` with `value`.
    ///
    /// # Errors
    ///
    /// A key that does not sort after the last one, or a key or value beyond 64 MiB, is refused, and the builder can
    /// continue. A failed write poisons the builder.
    ///
    /// # Panics
    ///
    /// If the caller's code panics. The builder is then poisoned.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.add_entry(key, Some(value))
    }

    /// Adds a tombstone: `key` is deleted from this table and all older ones.
    ///
    /// # Errors
    ///
    /// The errors of [`add`](Self::add).
    pub fn delete(&mut self, key: &[u8]) -> Result<(), TableError> {
        self.add_entry(key, None)
    }

    /// Returns the number of entries added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// Returns the approximate bytes of the table if it were finished now, including filters.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        let trailer = BLOCK_TRAILER_BYTES as u64;
        let open_block = if self.data.is_empty() { 0 } else { self.data.bytes() + trailer + 32 };
        let filters = self.filters.estimated_bytes().saturating_add(FILTER_ALIGNMENT as u64 / 2);
        // The properties contain the first and the last key.
        let properties = FIXED_BLOCKS_ESTIMATE + 2 * self.data.last_key().len() as u64;
        let others = self.sink.position + open_block + properties + self.index.bytes();
        // Saturating, because a user-defined filter builder may claim any size.
        filters.saturating_add(others + FOOTER_BYTES as u64)
    }

    /// Writes the rest of the table and flushes the sink.
    ///
    /// # Errors
    ///
    /// [`TableError::Poisoned`] after a failed write or a panic; otherwise a failed write or flush, or
    /// [`TableError::BlockTooLarge`] if the keys do not fit the index, or the policy's name does not fit the
    /// properties. The sink then contains no valid table.
    pub fn finish(self) -> Result<(W, TableSummary), TableError> {
        self.finish_with(|_| ())
    }

    /// Like [`finish`](Self::finish), but with properties that a test changes.
    pub(super) fn finish_with(
        mut self,
        change: impl FnOnce(&mut TableProperties),
    ) -> Result<(W, TableSummary), TableError> {
        self.check_sound()?;
        self.write_data_block()?;
        // After the last data block, when all keys are known, and before the properties, which describe the filters.
        let built = self.filters.finish();
        let (filter, range_filter) = (built.point_report.clone(), built.range_report.clone());
        let (bytes, metadata) = built.seal();
        let [filter_bytes, range_filter_bytes] =
            [metadata.points(), metadata.ranges()].map(|section| section.map_or(0, |section| section.bytes));
        let missing = range_filter.as_ref().filter(|report| report.used.is_none());
        self.properties.range_filter_missing = missing.map(|report| report.reason.to_string());
        self.properties.filters = metadata.into();
        // Aligned, so that a mapped filter's lines are cache lines.
        if !bytes.is_empty() {
            self.sink.align()?;
            self.sink.write(&bytes)?;
        }
        change(&mut self.properties);
        let properties = self.sink.write_block(TablePart::Properties, &mut self.properties.encode())?;
        let index = self.sink.write_block(TablePart::Index, &mut self.index)?;
        self.sink.write_footer(BlockHandles { properties, index }.encode())?;
        let summary = TableSummary {
            path: self.sink.path,
            table_id: self.sink.table_id,
            file_bytes: self.sink.position,
            properties: self.properties,
            index_bytes: index.bytes(),
            filter_bytes,
            range_filter_bytes,
            filter,
            range_filter,
        };
        Ok((self.sink.writer, summary))
    }

    fn add_entry(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), TableError> {
        self.check_sound()?;
        self.check_entry(key, value)?;
        // If the step does not complete, every later call fails.
        self.interruption.enter();
        if !self.data.is_empty() && self.data.bytes_with(key, value) > self.properties.block_bytes {
            self.write_data_block()?;
        }
        self.data.add(key, value);
        self.filters.add_key(key);
        self.properties.count(key, value);
        self.interruption.leave();
        Ok(())
    }

    fn check_sound(&self) -> Result<(), TableError> {
        if self.interruption.has_happened() { Err(TableError::Poisoned) } else { Ok(()) }
    }

    fn check_entry(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), TableError> {
        let value = value.unwrap_or_default();
        for (what, bytes, max) in [("key", key, MAX_KEY_BYTES), ("value", value, MAX_VALUE_BYTES)] {
            let got = bytes.len() as u64;
            if got > max {
                return Err(TableError::TooLong { what, max, got });
            }
        }
        let previous = self.data.last_key();
        if self.properties.entries > 0 && key <= previous {
            return Err(TableError::KeyOrder { previous: previous.to_vec(), got: key.to_vec() });
        }
        Ok(())
    }

    /// Writes the open data block, if it has entries, and adds it to the index.
    fn write_data_block(&mut self) -> Result<(), TableError> {
        if self.data.is_empty() {
            return Ok(());
        }
        let handle = self.sink.write_block(TablePart::Data, &mut self.data)?;
        self.properties.data_blocks += 1;
        self.properties.data_bytes += handle.bytes();
        let encoded = handle.encode();
        let (key, value) = (self.data.last_key(), Some(&encoded[..]));
        let index_bytes = self.index.bytes_with(key, value);
        if index_bytes > MAX_BLOCK_BYTES {
            return Err(TableError::BlockTooLarge { block: TablePart::Index, max: MAX_BLOCK_BYTES, got: index_bytes });
        }
        self.index.add(key, value);
        self.data.reset();
        Ok(())
    }
}

/// Returns the id of a new table: two ids of files, because one has only 64 bits.
fn unique_id() -> [u8; 16] {
    let half = || u128::from(FileId::random().fingerprint());
    (half() << 64 | half()).to_le_bytes()
}

fn check_extractors(options: &TableOptions) -> Result<(), TableError> {
    let (extractors, of_ranges) = (options.store.filters().key_parts().extractors(), options.store.range_extractor());
    let got = extractors.len();
    if got > KeyParts::MAX_EXTRACTORS {
        return Err(TableError::Extractors { expected: "at most 63", got });
    }
    let mut name_bytes = extractors.chain(of_ranges).map(|extractor| extractor.name().len());
    match name_bytes.find(|bytes| !(1..=255).contains(bytes)) {
        Some(got) => Err(TableError::Extractors { expected: "names of 1 to 255 bytes", got }),
        None => Ok(()),
    }
}

/// The writer, with the number of bytes written to it.
#[derive(Debug)]
pub(super) struct Sink<W> {
    writer: W,
    /// The file's path, if the sink is a file.
    pub(super) path: Option<PathBuf>,
    position: u64,
    table_id: [u8; 16],
}

impl<W: Write> Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        self.writer.write_all(bytes).map_err(io_error("writing", self.path.as_deref()))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Seals `block`, and writes it and its checksum with one call.
    fn write_block(&mut self, part: TablePart, block: &mut BlockBuilder) -> Result<BlockHandle, TableError> {
        // The length of data and index blocks is limited as they grow, but that of a policy's name is not.
        let max = max_contents_bytes(part);
        if block.bytes() > max {
            return Err(TableError::BlockTooLarge { block: part, max, got: block.bytes() });
        }
        let contents = block.seal();
        let (offset, contents_bytes) = (self.position, contents.len() as u64);
        let handle = BlockHandle { offset, contents_bytes, checksum: bound_checksum(contents, &self.table_id, offset) };
        contents.extend_from_slice(&handle.checksum.to_le_bytes());
        self.write(contents)?;
        Ok(handle)
    }

    /// Writes zeros up to the next multiple of the filter alignment.
    fn align(&mut self) -> Result<(), TableError> {
        let missing = self.position.next_multiple_of(FILTER_ALIGNMENT as u64) - self.position;
        let zeros = [0; FILTER_ALIGNMENT];
        self.write(zeros.get(..usize::try_from(missing).unwrap_or(0)).unwrap_or_default())
    }

    fn write_footer(&mut self, mut metaindex: BlockBuilder) -> Result<(), TableError> {
        let handle = self.write_block(TablePart::Metaindex, &mut metaindex)?;
        self.write(&Footer { metaindex: handle, table_id: self.table_id }.encode())?;
        self.writer.flush().map_err(io_error("flushing", self.path.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use sstfilter::FalsePositiveRate;
    use sstfilter_range::RangePolicy;
    use sstfilter_store::PartitionOptions;

    use super::*;

    #[test]
    fn a_block_longer_than_readers_accept_is_not_written() {
        let mut sink = Sink { writer: Vec::new(), path: None, position: 0, table_id: [3; 16] };
        let max = max_contents_bytes(TablePart::Metaindex);
        // Three varints, here of one, one and two bytes, and a restart point.
        let block = |bytes: u64| {
            let mut block = BlockBuilder::new(1);
            block.add(b"", Some(&vec![0; usize::try_from(bytes - 4 - 8).unwrap()]));
            assert_eq!(block.bytes(), bytes);
            block
        };
        for longer in [1, 2] {
            match sink.write_block(TablePart::Metaindex, &mut block(max + longer)) {
                Err(TableError::BlockTooLarge { block: TablePart::Metaindex, max: allowed, got }) => {
                    assert_eq!((allowed, got), (max, max + longer));
                }
                other => panic!("{other:?}"),
            }
            assert!(sink.writer.is_empty());
        }
        let handle = sink.write_block(TablePart::Metaindex, &mut block(max)).unwrap();
        assert_eq!((handle.offset, handle.contents_bytes, sink.position), (0, max, max + BLOCK_TRAILER_BYTES as u64));
        assert_eq!(sink.writer.len() as u64, sink.position);
    }

    /// [`FIXED_BLOCKS_ESTIMATE`] includes names that these tables do not have, and two filters, each described in about
    /// 50 bytes. Up to 63 zeros precede a filter; the estimate includes 32.
    #[test]
    fn the_estimate_of_a_table_is_too_high_by_as_much_as_its_constants_say() {
        let ordered = RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT).unwrap();
        let (without, bloom) = (TableOptions::default().without_filter(), TableOptions::default());
        let partitioned = bloom.clone().with_partitioned_filter(PartitionOptions::default());
        let tables = [
            ("no filter", without.clone(), 155..=185),
            ("a filter", bloom.clone(), 60..=140),
            ("partitions", partitioned, 60..=140),
            ("a range filter", without.with_range_filter(ordered.clone()), 75..=155),
            ("both filters", bloom.with_range_filter(ordered), 10..=90),
        ];
        let every_count = |table| (0..3_000).step_by(97).map(move |count| (table, count));
        for ((what, options, expected), count) in tables.iter().flat_map(every_count) {
            let mut builder = TableBuilder::new(Vec::new(), options).unwrap();
            (0..count).for_each(|key| builder.add(format!("key{:06}", key * 7).as_bytes(), &[7; 20]).unwrap());
            let estimate = builder.estimated_bytes();
            let estimated_filters = builder.filters.estimated_bytes();
            let (bytes, summary) = builder.finish().unwrap();
            // The error in a filter's own estimate does not count.
            let filters = summary.filter_bytes + summary.range_filter_bytes;
            let excess = estimate + filters - (bytes.len() as u64 + estimated_filters);
            assert!(expected.contains(&excess), "{what}, {count} entries: {excess} bytes too many");
        }
    }
}
