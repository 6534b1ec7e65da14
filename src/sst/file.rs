//! Reading blocks out of a source: bounds first, then bytes, then the bound checksum.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::checksum::{BLOCK_TRAILER_BYTES, bound_checksum};
use super::handle::BlockHandle;
use super::stats::ReadCounters;
use super::{Location, RandomAccess, TableError, TableId};
use crate::codec::{AlignedBuffer, read_u32};

/// A source of known length, with the name it was opened by, and counters.
pub(crate) struct TableFile {
    source: Box<dyn RandomAccess>,
    path: Option<Arc<Path>>,
    length: u64,
    pub(crate) counters: ReadCounters,
}

impl TableFile {
    pub(crate) fn new(source: Box<dyn RandomAccess>, path: Option<Arc<Path>>) -> Result<Self, TableError> {
        let length = source.len();
        let length = length.map_err(|error| io_error("reading the length of", path.as_deref(), error))?;
        Ok(Self { source, path, length, counters: ReadCounters::default() })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn location(&self, block: &'static str, offset: u64) -> Location {
        Location::new(self.path.clone(), block, offset)
    }

    /// Fills `buf` from byte `offset` on.
    pub(crate) fn read_into(&self, buf: &mut [u8], offset: u64) -> Result<(), TableError> {
        let read = self.source.read_exact_at(buf, offset);
        read.map_err(|error| io_error("reading", self.path.as_deref(), error))?;
        self.counters.bytes_read.add(buf.len() as u64);
        Ok(())
    }

    /// The contents of a block, on a cache-line boundary, once its checksum has been compared with the one behind it
    /// and with the handle's. Nothing is allocated that the file has no bytes for.
    pub(crate) fn read_block(
        &self,
        block: &'static str,
        handle: BlockHandle,
        table_id: &TableId,
    ) -> Result<Bytes, TableError> {
        let at = self.location(block, handle.offset);
        if handle.end().is_none_or(|end| end > self.length) {
            let got = format_args!("{} bytes", handle.bytes()).to_string();
            return Err(TableError::corrupt(at, format!("a block inside the {} bytes of the file", self.length), got));
        }
        let Some(mut buffer) = AlignedBuffer::zeroed(handle.bytes(), 0) else {
            return Err(io_error("reading", self.path.as_deref(), io::ErrorKind::OutOfMemory.into()));
        };
        self.read_into(buffer.as_mut_slice(), handle.offset)?;
        let bytes = buffer.freeze();
        let contents = bytes.slice(..bytes.len() - BLOCK_TRAILER_BYTES);
        let expected = read_u32(&bytes, contents.len()).unwrap_or_default();
        let got = bound_checksum(&contents, table_id, handle.offset);
        let expected = [Some(expected), handle.checksum].into_iter().flatten().find(|&expected| expected != got);
        expected.map_or(Ok(contents), |expected| Err(TableError::Checksum { at, expected, got }))
    }
}

pub(crate) fn io_error(context: &'static str, path: Option<&Path>, source: io::Error) -> TableError {
    TableError::Io { context, path: path.map(Path::to_path_buf), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TableId = TableId::from_bytes([3; 16]);

    fn file() -> TableFile {
        let mut bytes = b"......contents".to_vec();
        bytes.extend(bound_checksum(b"contents", &ID, 6).to_le_bytes());
        TableFile::new(Box::new(Bytes::from(bytes)), None).unwrap()
    }

    #[test]
    fn a_block_is_read_whole_and_counted() {
        let file = file();
        let handle = BlockHandle { offset: 6, contents_bytes: 8, checksum: None };
        assert_eq!(file.read_block("data", handle, &ID).unwrap(), &b"contents"[..]);
        assert_eq!(file.counters.bytes_read.get(), 12);
    }

    #[test]
    fn another_table_and_another_place_are_damage() {
        let handle = BlockHandle { offset: 6, contents_bytes: 8, checksum: None };
        let foreign = file().read_block("data", handle, &TableId::from_bytes([4; 16]));
        assert!(matches!(foreign, Err(TableError::Checksum { .. })));
        let misplaced = file().read_block("data", BlockHandle { offset: 5, contents_bytes: 8, checksum: None }, &ID);
        assert!(matches!(misplaced, Err(TableError::Checksum { .. })));
    }

    #[test]
    fn contents_that_belong_to_table_and_place_but_are_not_those_of_the_handle_are_damage() {
        let sum = bound_checksum(b"contents", &ID, 6);
        let handle = |checksum| BlockHandle { offset: 6, contents_bytes: 8, checksum: Some(checksum) };
        assert_eq!(file().read_block("data", handle(sum), &ID).unwrap(), &b"contents"[..]);
        let newer = bound_checksum(b"newer...", &ID, 6);
        match file().read_block("data", handle(newer), &ID) {
            Err(TableError::Checksum { expected, got, .. }) => assert_eq!((expected, got), (newer, sum)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_handle_beyond_the_file_is_refused_before_any_memory_is_asked_for() {
        for (offset, contents_bytes) in [(6, 9), (0, u64::MAX), (u64::MAX, 1), (1 << 40, 1 << 40)] {
            let refused = file().read_block("data", BlockHandle { offset, contents_bytes, checksum: None }, &ID);
            assert!(matches!(refused, Err(TableError::Corrupt { .. })), "{offset}");
        }
    }
}
