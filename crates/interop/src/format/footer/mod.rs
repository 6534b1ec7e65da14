//! Footers: the fixed bytes at the end of a table, which identify its engine.

use core::ops::Range;

use crate::error::{Error, Part};
use crate::format::checksum::{ChecksumType, Checksums};
use crate::format::cursor::Cursor;
use crate::format::handle::{BlockHandle, TRAILER_BYTES};

pub(crate) mod pebble;

/// The engine whose format a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// RocksDB's block-based table.
    RocksDb,
    /// LevelDB's table.
    LevelDb,
    /// Pebble's table, in Pebble's own format. A table that Pebble wrote in another engine's format counts as that
    /// engine's.
    Pebble,
}

impl Engine {
    /// Returns the name, such as `RocksDB`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RocksDb => "RocksDB",
            Self::LevelDb => "LevelDB",
            Self::Pebble => "Pebble",
        }
    }
}

/// The length of the longest footer: Pebble's from version 7 on.
pub const MAX_FOOTER_BYTES: usize = 61;

/// `kBlockBasedTableMagicNumber` of RocksDB.
const ROCKSDB_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// `kTableMagicNumber` of LevelDB, which RocksDB's format version 0 shares.
const LEVELDB_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// The magic number of Pebble's own formats.
const PEBBLE_MAGIC: [u8; 8] = *b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3";

/// Two handles of at most 20 bytes, padded.
pub(crate) const HANDLES_BYTES: usize = 40;
const LEVELDB_FOOTER_BYTES: usize = HANDLES_BYTES + 8;
const ROCKSDB_FOOTER_BYTES: usize = 1 + HANDLES_BYTES + 4 + 8;
/// Replaces the handles from format version 6 on. Read as handles, both have size 0, which no older version writes.
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
/// The position of the footer's own checksum, from format version 6 on.
const FOOTER_CHECKSUM: Range<usize> = 5..9;
/// The newest format version whose rules are known (`kLatestBbtFormatVersion` of RocksDB 11.8).
const LATEST_FORMAT_VERSION: u32 = 7;

/// Recognizes a table's engine by its last bytes. Pass at least eight; no footer needs more than [`MAX_FOOTER_BYTES`].
///
/// RocksDB before version 2.6 and Pebble's oldest format share LevelDB's magic number.
/// [`ForeignTable::engine`](crate::ForeignTable::engine) distinguishes them.
///
/// ```
/// use sstfilter_interop::{Engine, recognize};
///
/// assert_eq!(recognize(b"... \x57\xfb\x80\x8b\x24\x75\x47\xdb"), Some(Engine::LevelDb));
/// assert_eq!(recognize(b"a text file"), None);
/// ```
#[must_use]
pub fn recognize(tail: &[u8]) -> Option<Engine> {
    let magic = tail.last_chunk::<8>()?;
    match u64::from_le_bytes(*magic) {
        ROCKSDB_MAGIC => Some(Engine::RocksDb),
        LEVELDB_MAGIC => Some(Engine::LevelDb),
        _ if *magic == PEBBLE_MAGIC => Some(Engine::Pebble),
        _ => None,
    }
}

/// A parsed footer.
#[derive(Clone, Debug)]
pub(crate) struct Footer {
    pub(crate) engine: Engine,
    /// 0 for LevelDB, which has no versions.
    pub(crate) format_version: u32,
    pub(crate) checksums: Checksums,
    pub(crate) metaindex: BlockHandle,
    /// `None` if the metaindex contains the handle.
    pub(crate) index: Option<BlockHandle>,
    /// Where the footer begins. All blocks end before it.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Whether padding is not zero. Neither the engines nor [`Footer::parse`] refuse it.
    pub(crate) padding_is_damaged: bool,
}

impl Footer {
    /// Parses the last bytes of a file of `file_bytes`: all of them, or the last [`MAX_FOOTER_BYTES`].
    pub(crate) fn parse(tail: &[u8], file_bytes: u64) -> Result<Self, Error> {
        match recognize(tail) {
            Some(Engine::RocksDb) => parse_rocksdb(footer_of::<ROCKSDB_FOOTER_BYTES>(tail)?, file_bytes),
            Some(Engine::LevelDb) => parse_leveldb(footer_of::<LEVELDB_FOOTER_BYTES>(tail)?, file_bytes),
            Some(Engine::Pebble) => pebble::parse(tail, file_bytes),
            None => Err(Error::NotATable { found: tail.get(tail.len().saturating_sub(8)..).unwrap_or(tail).to_vec() }),
        }
    }

    /// Parses the two handles of a footer that lies at `range` of the file, and whose checksums have no context.
    fn with_handles(
        engine: Engine,
        format_version: u32,
        kind: ChecksumType,
        handles: &[u8],
        range: Range<u64>,
    ) -> Result<Self, Error> {
        let mut cursor = Cursor::new(handles);
        let (Some(metaindex), Some(index)) = (BlockHandle::decode(&mut cursor), BlockHandle::decode(&mut cursor))
        else {
            return Err(malformed(range.start, "expected the handles of metaindex and index".into()));
        };
        let shortest: usize =
            [metaindex.offset, metaindex.size, index.offset, index.size].into_iter().map(shortest_varint_bytes).sum();
        // Reported by `verify` only, because the engines accept it.
        let is_longer = handles.len() - cursor.rest().len() != shortest;
        Ok(Self {
            engine,
            format_version,
            checksums: Checksums::without_context(kind),
            metaindex,
            index: Some(index),
            offset: range.start,
            bytes: range.end - range.start,
            padding_is_damaged: is_longer || cursor.rest().iter().any(|&byte| byte != 0),
        })
    }
}

fn footer_of<const BYTES: usize>(tail: &[u8]) -> Result<&[u8; BYTES], Error> {
    tail.last_chunk()
        .ok_or_else(|| malformed(0, format!("expected a footer of {BYTES} bytes, and the file has {}", tail.len())))
}

fn malformed(offset: u64, problem: String) -> Error {
    Error::malformed(Part::Footer, offset, problem)
}

fn unsupported(what: impl Into<String>) -> Error {
    Error::unsupported(Part::Footer, what)
}

fn parse_leveldb(footer: &[u8; LEVELDB_FOOTER_BYTES], file_bytes: u64) -> Result<Footer, Error> {
    let offset = file_bytes - LEVELDB_FOOTER_BYTES as u64;
    let (handles, _magic) = footer.split_at(HANDLES_BYTES);
    Footer::with_handles(Engine::LevelDb, 0, ChecksumType::Crc32c, handles, offset..file_bytes)
}

fn parse_rocksdb(footer: &[u8; ROCKSDB_FOOTER_BYTES], file_bytes: u64) -> Result<Footer, Error> {
    let offset = file_bytes - ROCKSDB_FOOTER_BYTES as u64;
    let mut cursor = Cursor::new(footer);
    let (Some(kind), Some(part2), Some(format_version)) = (cursor.byte(), cursor.take(HANDLES_BYTES), cursor.u32())
    else {
        return Err(malformed(offset, format!("expected {ROCKSDB_FOOTER_BYTES} bytes")));
    };
    // Format version 0 has LevelDB's footer, so 0 in this footer is damage.
    if format_version == 0 || format_version > LATEST_FORMAT_VERSION {
        return Err(unsupported(format!("format version {format_version}")));
    }
    let kind = ChecksumType::from_byte(kind).ok_or_else(|| unsupported(format!("checksum type {kind}")))?;
    if format_version >= 6 {
        return parse_checked(footer, part2, kind, format_version, offset);
    }
    Footer::with_handles(Engine::RocksDb, format_version, kind, part2, offset..file_bytes)
}

/// Parses format versions 6 and 7: the footer has a checksum, and the metaindex lies right before it and contains the
/// index's handle.
fn parse_checked(
    footer: &[u8; ROCKSDB_FOOTER_BYTES],
    part2: &[u8],
    kind: ChecksumType,
    format_version: u32,
    offset: u64,
) -> Result<Footer, Error> {
    let mut cursor = Cursor::new(part2);
    let fields = (cursor.take(4), cursor.u32(), cursor.u32(), cursor.u32());
    let (Some(magic), Some(stored), Some(base_context), Some(size)) = fields else {
        return Err(malformed(offset, format!("expected {ROCKSDB_FOOTER_BYTES} bytes")));
    };
    if magic != EXTENDED_MAGIC {
        let problem = format!("expected 3e 00 7a 00 in format version {format_version}, got {magic:02x?}");
        return Err(malformed(offset, problem));
    }
    let checksums = Checksums { kind, base_context };
    check(footer, checksums, offset, stored)?;
    Ok(Footer {
        engine: Engine::RocksDb,
        format_version,
        checksums,
        metaindex: metaindex_before(offset, size)?,
        index: None,
        offset,
        bytes: ROCKSDB_FOOTER_BYTES as u64,
        padding_is_damaged: reserved_is_damaged(cursor.rest())?,
    })
}

/// Checks the footer's checksum, which is stored in the footer.
fn check(footer: &[u8; ROCKSDB_FOOTER_BYTES], checksums: Checksums, offset: u64, stored: u32) -> Result<(), Error> {
    if checksums.base_context == 0 {
        return Err(malformed(offset, "expected a context of its checksums, got 0".into()));
    }
    let mut unsummed = *footer;
    // The checksum covers the whole footer, with zeros in place of the checksum itself.
    unsummed[FOOTER_CHECKSUM].fill(0);
    Error::check(Part::Footer, offset, stored, checksums.expected(&unsummed, offset))
}

fn metaindex_before(footer_offset: u64, size: u32) -> Result<BlockHandle, Error> {
    let size = u64::from(size);
    let offset = footer_offset
        .checked_sub(TRAILER_BYTES + size)
        .ok_or_else(|| malformed(footer_offset, format!("expected {size} bytes of metaindex before it")))?;
    Ok(BlockHandle { offset, size })
}

/// Returns whether reserved bytes are not zero. RocksDB reserves the last eight for "a future feature", refuses other
/// values there, and ignores the rest.
fn reserved_is_damaged(reserved: &[u8]) -> Result<bool, Error> {
    if reserved.last_chunk::<8>().is_some_and(|last| *last != [0; 8]) {
        return Err(unsupported("a later feature of format version 6"));
    }
    Ok(reserved.iter().any(|&byte| byte != 0))
}

/// Returns the shortest encoding's length. Writers use no longer one: a longer varint has a flipped "more follows" bit
/// in front of padding.
const fn shortest_varint_bytes(value: u64) -> usize {
    ((u64::BITS - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::{Engine, Footer, recognize, shortest_varint_bytes};
    use crate::error::Error;

    #[test]
    fn a_table_is_known_by_its_last_eight_bytes() {
        assert_eq!(recognize(&0x88e2_41b7_85f4_cff7_u64.to_le_bytes()), Some(Engine::RocksDb));
        assert_eq!(recognize(b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"), Some(Engine::Pebble));
        assert_eq!(recognize(b"seven b"), None);
        assert_eq!(recognize(b""), None);
    }

    #[test]
    fn a_file_that_is_only_a_magic_number_is_malformed() {
        let bytes = 0x88e2_41b7_85f4_cff7_u64.to_le_bytes();
        assert!(matches!(Footer::parse(&bytes, 8), Err(Error::Malformed { .. })));
    }

    #[test]
    fn lengths_of_varints() {
        assert_eq!([0, 127, 128, u64::MAX].map(shortest_varint_bytes), [1, 1, 2, 10]);
    }
}
