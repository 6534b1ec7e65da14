//! Reads and checks the blocks of a file.

use std::io;

use sstfilter::RandomAccess;

use crate::compression::{self, Numbering, Undecoded};
use crate::error::{Error, Part};
use crate::format::checksum::Checksums;
use crate::format::handle::{BlockHandle, TRAILER_BYTES};

/// A file whose footer has been read.
#[derive(Debug)]
pub(crate) struct TableFile<R> {
    pub(crate) reader: R,
    pub(crate) checksums: Checksums,
    pub(crate) numbering: Numbering,
    /// The offset of the footer. Blocks end before it, so no length from the file can allocate more than the file has.
    pub(crate) blocks_end: u64,
}

/// A stored block whose checksum has not been compared yet.
pub(crate) struct StoredBlock {
    /// Contents, compression type and checksum.
    bytes: Vec<u8>,
    part: Part,
    offset: u64,
}

impl<R: RandomAccess> TableFile<R> {
    /// Reads and checks a block that is never compressed.
    pub(crate) fn plain(&self, handle: BlockHandle, part: Part) -> Result<Vec<u8>, Error> {
        self.checked(handle, part)?.plain()
    }

    /// Reads and checks a block that may be compressed.
    pub(crate) fn decompressed(&self, handle: BlockHandle, part: Part) -> Result<Vec<u8>, Error> {
        self.checked(handle, part)?.decompressed(self.numbering)
    }

    /// Reads a block and compares its checksum.
    pub(crate) fn checked(&self, handle: BlockHandle, part: Part) -> Result<StoredBlock, Error> {
        self.stored(handle, part)?.checked(self.checksums)
    }

    /// Reads a block with its trailer, in one read.
    pub(crate) fn stored(&self, handle: BlockHandle, part: Part) -> Result<StoredBlock, Error> {
        let offset = handle.offset;
        // Before anything is allocated: a forged handle can claim any size.
        if handle.end().is_none_or(|end| end > self.blocks_end) {
            let (end, size) = (self.blocks_end, handle.size);
            let problem = format!("expected it to end before {end}, got {size} bytes and a trailer");
            return Err(Error::malformed(part, offset, problem));
        }
        // Compared before the allocation, which takes its size from the handle.
        if handle.size > max_stored_bytes(part) {
            let what = format!("a block of {} bytes, more than {},", handle.size, max_stored_bytes(part));
            return Err(Error::unsupported(part, what));
        }
        let mut bytes = zeros(handle.size + TRAILER_BYTES, part)?;
        self.read(&mut bytes, offset, part)?;
        Ok(StoredBlock { bytes, part, offset })
    }

    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64, part: Part) -> Result<(), Error> {
        self.reader.read_exact_at(buffer, offset).map_err(|error| io_error(part, &error))
    }
}

impl StoredBlock {
    /// Returns the block if its checksum holds.
    pub(crate) fn checked(self, checksums: Checksums) -> Result<Self, Error> {
        let (summed, stored) = self.summed();
        Error::check(self.part, self.offset, stored, checksums.expected(summed, self.offset))?;
        Ok(self)
    }

    /// Returns the contents with the compression type, and the checksum.
    fn summed(&self) -> (&[u8], u32) {
        match self.bytes.split_last_chunk() {
            Some((summed, stored)) => (summed, u32::from_le_bytes(*stored)),
            None => (&self.bytes, 0),
        }
    }

    /// Returns contents, compression type and checksum.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn contents_mut(&mut self) -> &mut [u8] {
        let end = self.bytes.len().saturating_sub(TRAILER_BYTES_IN_MEMORY);
        self.bytes.get_mut(..end).unwrap_or_default()
    }

    pub(crate) fn compression(&self) -> u8 {
        self.summed().0.last().copied().unwrap_or_default()
    }

    pub(crate) fn plain(mut self) -> Result<Vec<u8>, Error> {
        match self.compression() {
            0 => {
                self.bytes.truncate(self.bytes.len().saturating_sub(TRAILER_BYTES_IN_MEMORY));
                Ok(self.bytes)
            }
            codec => Err(Error::unsupported(self.part, format!("compression type {codec}, where there is none,"))),
        }
    }

    pub(crate) fn decompressed(mut self, numbering: Numbering) -> Result<Vec<u8>, Error> {
        let codec = self.compression();
        if codec == 0 {
            return self.plain();
        }
        compression::decompress(codec, self.contents_mut(), numbering).map_err(|why| match why {
            Undecoded::Unsupported(what) => Error::unsupported(self.part, what),
            Undecoded::Malformed(problem) => Error::malformed(self.part, self.offset, problem),
        })
    }
}

/// Returns the maximum length of a part's blocks. The file's length is no limit: a sparse file of a few kilobytes can
/// have blocks of any length.
const fn max_stored_bytes(part: Part) -> u64 {
    match part {
        // Names and short values, a few kilobytes in practice.
        Part::Metaindex | Part::Properties => 64 << 20,
        // RocksDB's own limit for a filter.
        Part::Filter | Part::Partition => u32::MAX as u64,
        // A single entry of a data block can be of any length.
        _ => 1 << 30,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "five")]
const TRAILER_BYTES_IN_MEMORY: usize = TRAILER_BYTES as usize;

/// Allocates a buffer for bytes of the file. Returns an error, instead of aborting, if memory is short.
pub(crate) fn zeros(bytes: u64, part: Part) -> Result<Vec<u8>, Error> {
    let mut buffer = Vec::new();
    let length = usize::try_from(bytes).ok().filter(|&length| buffer.try_reserve_exact(length).is_ok());
    let Some(length) = length else {
        let error = io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {bytes} bytes"));
        return Err(io_error(part, &error));
    };
    buffer.resize(length, 0);
    Ok(buffer)
}

pub(crate) fn io_error(part: Part, error: &io::Error) -> Error {
    Error::Io { part, kind: error.kind(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    //! A flipped bit that no checksum shows turns a stored key into a false negative.

    use std::path::Path;

    use bytes::Bytes;

    use crate::error::Part;
    use crate::{ChecksumType, ForeignTable};

    fn fixtures() -> Vec<Bytes> {
        let folders = ["rocksdb", "leveldb", "pebble"].map(|engine| Path::new("fixtures").join(engine));
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder"));
        let paths = files.map(|file| file.expect("a file").path());
        let tables = paths.filter(|path| path.extension().is_some_and(|extension| extension != "positives"));
        tables.filter_map(|path| std::fs::read(path).ok().map(Bytes::from)).collect()
    }

    /// Whether a part decides an answer: all but data blocks, their index, and the footer, whose checksum has another
    /// form.
    fn decides(part: Part) -> bool {
        !matches!(part, Part::Footer | Part::Data | Part::Index)
    }

    /// Flips each bit of each such block and compares the checksum.
    fn flip_all_bits(bytes: &Bytes) -> u64 {
        let Ok(table) = ForeignTable::open(bytes.clone()) else { return 0 };
        if table.checksum_type() == ChecksumType::None {
            return 0;
        }
        let mut flipped = 0;
        for block in table.verify().blocks.iter().filter(|block| decides(block.part)) {
            let size = block.bytes - super::TRAILER_BYTES;
            let handle = crate::BlockHandle { offset: block.offset, size };
            let mut stored = table.file.stored(handle, block.part).expect("a block");
            for bit in 0..8 * stored.bytes.len() {
                stored.bytes[bit / 8] ^= 1 << (bit % 8);
                let (summed, sum) = stored.summed();
                let found = table.file.checksums.expected(summed, block.offset);
                assert_ne!(found, sum, "{} at {}: bit {bit}", block.part, block.offset);
                stored.bytes[bit / 8] ^= 1 << (bit % 8);
                flipped += 1;
            }
        }
        flipped
    }

    // promise: other-engines
    #[test]
    fn every_flipped_bit_of_what_decides_an_answer_fails_its_checksum() {
        let tables = fixtures();
        let (first, second) = tables.split_at(tables.len() / 2);
        let flipped: u64 = std::thread::scope(|scope| {
            let halves = [first, second].map(|half| scope.spawn(|| half.iter().map(flip_all_bits).sum::<u64>()));
            halves.into_iter().map(|half| half.join().expect("no failure")).sum()
        });
        assert!(flipped > 5_000_000, "{flipped} bits");
    }
}
