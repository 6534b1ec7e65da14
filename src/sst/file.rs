//! Reading blocks out of a source: bounds first, then bytes, then the bound checksum.
//!
//! A handle alone is no reason to take memory. Every kind of block but the filter has a maximum length, and a block of
//! more than [`WHOLE_BYTES`] gets memory only after its checksum has held, so a file that is mostly a hole is refused at
//! little cost. Rejected: bounds computed from the properties, because a filter may be of an engine's own kind and
//! size, and because whoever lies in a handle also lies in the properties.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::checksum::{BLOCK_TRAILER_BYTES, bind, bound_checksum};
use super::handle::{BlockHandle, most_contents_bytes};
use super::stats::ReadCounters;
use super::{Location, RandomAccess, TableError, TableId};
use crate::codec::{AlignedBuffer, checksum_append, read_u32};

/// Blocks up to here are read at once; larger ones twice, the first time in pieces. Filters of fewer than 50 million
/// keys at 10 bits stay below.
const WHOLE_BYTES: u64 = 64 << 20;

const PIECE_BYTES: usize = 1 << 20;

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
    /// and with the handle's. More than [`WHOLE_BYTES`] are allocated only once the checksum has held.
    pub(crate) fn read_block(
        &self,
        block: &'static str,
        handle: BlockHandle,
        table_id: &TableId,
    ) -> Result<Bytes, TableError> {
        let at = self.location(block, handle.offset);
        self.check_length(block, handle, &at)?;
        if handle.contents_bytes > WHOLE_BYTES {
            self.check_in_pieces(handle, table_id, &at)?;
        }
        let Some(mut buffer) = AlignedBuffer::zeroed(handle.bytes(), 0) else {
            return Err(io_error("reading", self.path.as_deref(), io::ErrorKind::OutOfMemory.into()));
        };
        self.read_into(buffer.as_mut_slice(), handle.offset)?;
        let bytes = buffer.freeze();
        let contents = bytes.slice(..bytes.len() - BLOCK_TRAILER_BYTES);
        let expected = read_u32(&bytes, contents.len()).unwrap_or_default();
        let got = bound_checksum(&contents, table_id, handle.offset);
        let expected = [expected, handle.checksum].into_iter().find(|&expected| expected != got);
        expected.map_or(Ok(contents), |expected| Err(TableError::Checksum { at, expected, got }))
    }

    /// Whether there can be a `block` as long as the handle says, in this file.
    fn check_length(&self, block: &str, handle: BlockHandle, at: &Location) -> Result<(), TableError> {
        if handle.end().is_none_or(|end| end > self.length) {
            let got = format_args!("{} bytes", handle.bytes()).to_string();
            let expected = format!("a block inside the {} bytes of the file", self.length);
            return Err(TableError::corrupt(at.clone(), expected, got));
        }
        let most = most_contents_bytes(block);
        if handle.contents_bytes > most {
            let expected = format!("contents of at most {most} bytes");
            return Err(TableError::corrupt(at.clone(), expected, handle.contents_bytes));
        }
        Ok(())
    }

    /// Compares the checksum of a block that lies inside the file, and keeps nothing of it.
    fn check_in_pieces(&self, handle: BlockHandle, table_id: &TableId, at: &Location) -> Result<(), TableError> {
        let end = handle.offset + handle.contents_bytes;
        let mut stored = [0; BLOCK_TRAILER_BYTES];
        self.read_into(&mut stored, end)?;
        let got = u32::from_le_bytes(stored);
        // First, because it spares reading a block of which nothing is there.
        if got != handle.checksum {
            return Err(TableError::Checksum { at: at.clone(), expected: handle.checksum, got });
        }
        let (mut seen, mut offset, mut piece) = (0, handle.offset, vec![0; PIECE_BYTES]);
        while offset < end {
            let length = usize::try_from(end - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            piece.truncate(length);
            self.read_into(&mut piece, offset)?;
            seen = checksum_append(seen, &piece);
            offset += length as u64;
        }
        let got = bind(seen, table_id, handle.offset);
        if got == handle.checksum {
            Ok(())
        } else {
            Err(TableError::Checksum { at: at.clone(), expected: handle.checksum, got })
        }
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

    /// The handle of what is at a place of the file, with the checksum that is right for the block at 6.
    fn handle(offset: u64, contents_bytes: u64) -> BlockHandle {
        BlockHandle { offset, contents_bytes, checksum: bound_checksum(b"contents", &ID, 6) }
    }

    #[test]
    fn a_block_is_read_whole_and_counted() {
        let file = file();
        assert_eq!(file.read_block("data", handle(6, 8), &ID).unwrap(), &b"contents"[..]);
        assert_eq!(file.counters.bytes_read.get(), 12);
    }

    #[test]
    fn another_table_and_another_place_are_damage() {
        let foreign = file().read_block("data", handle(6, 8), &TableId::from_bytes([4; 16]));
        assert!(matches!(foreign, Err(TableError::Checksum { .. })));
        let misplaced = file().read_block("data", handle(5, 8), &ID);
        assert!(matches!(misplaced, Err(TableError::Checksum { .. })));
    }

    #[test]
    fn contents_that_belong_to_table_and_place_but_are_not_those_of_the_handle_are_damage() {
        let sum = bound_checksum(b"contents", &ID, 6);
        let handle = |checksum| BlockHandle { offset: 6, contents_bytes: 8, checksum };
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
            let refused = file().read_block("data", handle(offset, contents_bytes), &ID);
            assert!(matches!(refused, Err(TableError::Corrupt { .. })), "{offset}");
        }
    }

    #[test]
    fn a_block_longer_than_any_of_its_name_is_refused() {
        let file = TableFile::new(Box::new(Hole(1 << 40)), None).unwrap();
        let most =
            [("metaindex", 4_096), ("properties", 134_283_264), ("data", 134_217_792), ("index", u32::MAX.into())];
        for (block, most) in most {
            let refused =
                |contents_bytes| file.read_block(block, handle(0, contents_bytes), &ID).unwrap_err().to_string();
            assert!(refused(most + 1).contains(&format!("at most {most} bytes, got {}", most + 1)), "{block}");
            assert!(refused(most).contains("checksum"), "{block}");
        }
    }

    /// Zeros.
    struct Hole(u64);

    impl RandomAccess for Hole {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0)
        }

        fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
            buf.fill(0);
            Ok(())
        }
    }

    #[test]
    fn a_block_that_is_checked_in_pieces_reads_back_and_each_byte_of_it_counts() {
        for length in [WHOLE_BYTES, WHOLE_BYTES + 1, WHOLE_BYTES + 2 * PIECE_BYTES as u64] {
            let mut bytes = vec![0x5a; usize::try_from(length).unwrap() + 6];
            let checksum = bound_checksum(&bytes[6..], &ID, 6);
            bytes.extend(checksum.to_le_bytes());
            let handle = BlockHandle { offset: 6, contents_bytes: length, checksum };
            let read = |bytes: &[u8]| {
                let file = TableFile::new(Box::new(Bytes::copy_from_slice(bytes)), None).unwrap();
                file.read_block("filter", handle, &ID)
            };
            assert_eq!(read(&bytes).unwrap(), &bytes[6..bytes.len() - 4]);
            for damaged in [6, 5 + PIECE_BYTES, 6 + PIECE_BYTES, bytes.len() - 5, bytes.len() - 1] {
                bytes[damaged] ^= 1;
                assert!(matches!(read(&bytes), Err(TableError::Checksum { .. })), "{length} bytes, byte {damaged}");
                bytes[damaged] ^= 1;
            }
        }
    }
}
