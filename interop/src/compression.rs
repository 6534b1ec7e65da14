//! Codecs of data and index blocks. Filters are never compressed.

#[cfg(any(feature = "lz4", feature = "zstd"))]
use crate::format::cursor::Cursor;
use crate::minlz;

/// A decompressed block is at most this long. Blocks have kilobytes; an index that is one block has megabytes.
#[cfg(any(feature = "snappy", feature = "lz4", feature = "zstd"))]
pub(crate) const MAX_DECOMPRESSED_BYTES: usize = 64 << 20;

/// How an engine numbers codecs, and whether it puts the length of the contents in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// 1 Snappy, 2 Zstandard; no length (`include/leveldb/options.h`).
    LevelDb,
    /// `CompressionType` of `include/rocksdb/compression_type.h`. From format version 2 on, a varint in front of all
    /// codecs but Snappy says how long the contents are.
    RocksDb {
        /// Of the table.
        format_version: u32,
    },
    /// RocksDB's, with a length in front of Zstandard, and 8 for `MinLZ` (`CompressionIndicator` of
    /// `sstable/block/compression.go`).
    Pebble,
}

/// Why a block could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undecoded {
    /// A codec that is not known, or not compiled in.
    Unsupported(String),
    /// The bytes are not of their codec, or longer than is allowed.
    Malformed(String),
}

/// The contents of a block. `codec` is not 0.
pub(crate) fn decompress(codec: u8, stored: &[u8], numbering: Numbering) -> Result<Vec<u8>, Undecoded> {
    match (numbering, codec) {
        (_, 1) => snappy(stored),
        (Numbering::LevelDb, 2) => zstd(stored),
        (Numbering::LevelDb, _) => Err(unsupported(format!("compression type {codec}"))),
        (Numbering::RocksDb { format_version: 0 | 1 }, _) => {
            Err(unsupported(format!("{} as of format version 1", rocksdb_name(codec))))
        }
        (Numbering::Pebble, 8) => minlz::decompress(stored).map_err(Undecoded::Malformed),
        (Numbering::RocksDb { .. }, 4 | 5) => lz4_with_length(stored),
        (Numbering::RocksDb { .. }, 7 | 0x40) | (Numbering::Pebble, 7) => zstd_with_length(stored),
        (Numbering::RocksDb { .. } | Numbering::Pebble, _) => Err(unsupported(rocksdb_name(codec))),
    }
}

/// The name of one of RocksDB's codecs.
fn rocksdb_name(codec: u8) -> String {
    match codec {
        2 => "compression by zlib".into(),
        3 => "compression by bzip2".into(),
        4 | 5 => "compression by LZ4".into(),
        6 => "compression by Xpress".into(),
        7 | 0x40 => "compression by Zstandard".into(),
        _ => format!("compression type {codec:#04x}"),
    }
}

fn unsupported(what: String) -> Undecoded {
    Undecoded::Unsupported(what)
}

#[cfg(any(feature = "snappy", feature = "lz4", feature = "zstd"))]
fn malformed(problem: impl core::fmt::Display) -> Undecoded {
    Undecoded::Malformed(problem.to_string())
}

#[cfg(not(all(feature = "snappy", feature = "lz4", feature = "zstd")))]
fn not_compiled(codec: &str) -> Undecoded {
    Undecoded::Unsupported(format!("compression by {codec} (a build without that feature)"))
}

/// A claimed size, if the codec can make it of `stored` bytes and it is within [`MAX_DECOMPRESSED_BYTES`].
#[cfg(any(feature = "snappy", feature = "lz4"))]
fn believable(claimed: usize, stored: usize, most_per_byte: usize) -> Result<usize, Undecoded> {
    let limit = stored.saturating_mul(most_per_byte).min(MAX_DECOMPRESSED_BYTES);
    if claimed > limit {
        return Err(malformed(format_args!("expected at most {limit} bytes from {stored}, got a claim of {claimed}")));
    }
    Ok(claimed)
}

#[cfg(feature = "snappy")]
fn snappy(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    // A copy of up to 64 bytes takes three bytes; 64 is above any mixture.
    let claimed = snap::raw::decompress_len(stored).map_err(malformed)?;
    believable(claimed, stored.len(), 64)?;
    snap::raw::Decoder::new().decompress_vec(stored).map_err(malformed)
}

#[cfg(not(feature = "snappy"))]
fn snappy(_stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    Err(not_compiled("Snappy"))
}

#[cfg(feature = "lz4")]
fn lz4_with_length(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let mut cursor = Cursor::new(stored);
    let claimed = cursor.varint32().ok_or_else(|| malformed("expected the length of the contents"))? as usize;
    // A byte of 255 adds as many to the length of a match; 20 are for the token before.
    believable(claimed, cursor.rest().len() + 20, 255)?;
    let contents = lz4_flex::block::decompress(cursor.rest(), claimed).map_err(malformed)?;
    if contents.len() != claimed {
        return Err(malformed(format_args!("expected {claimed} bytes, got {}", contents.len())));
    }
    Ok(contents)
}

#[cfg(not(feature = "lz4"))]
fn lz4_with_length(_stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    Err(not_compiled("LZ4"))
}

#[cfg(feature = "zstd")]
fn zstd_with_length(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let mut cursor = Cursor::new(stored);
    let claimed = cursor.varint32().ok_or_else(|| malformed("expected the length of the contents"))? as usize;
    let contents = zstd(cursor.rest())?;
    if contents.len() != claimed {
        return Err(malformed(format_args!("expected {claimed} bytes, got {}", contents.len())));
    }
    Ok(contents)
}

#[cfg(not(feature = "zstd"))]
fn zstd_with_length(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    zstd(stored)
}

/// Any input may expand a thousandfold here, so the contents grow as they come instead of being reserved.
#[cfg(feature = "zstd")]
fn zstd(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    use std::io::Read;

    let decoder = ruzstd::decoding::StreamingDecoder::new(stored).map_err(malformed)?;
    let mut contents = Vec::new();
    decoder.take(MAX_DECOMPRESSED_BYTES as u64 + 1).read_to_end(&mut contents).map_err(malformed)?;
    if contents.len() > MAX_DECOMPRESSED_BYTES {
        return Err(malformed(format_args!("expected at most {MAX_DECOMPRESSED_BYTES} bytes")));
    }
    Ok(contents)
}

#[cfg(not(feature = "zstd"))]
fn zstd(_stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    Err(not_compiled("Zstandard"))
}

#[cfg(test)]
mod tests {
    use super::{Numbering, Undecoded, decompress};

    const ROCKSDB: Numbering = Numbering::RocksDb { format_version: 5 };

    #[test]
    fn codecs_that_are_not_known_say_so() {
        for codec in [2, 3, 6, 8, 0x80, 0xff] {
            assert!(matches!(decompress(codec, b"xx", ROCKSDB), Err(Undecoded::Unsupported(_))), "{codec}");
        }
        assert!(matches!(decompress(7, b"xx", Numbering::LevelDb), Err(Undecoded::Unsupported(_))));
    }

    #[cfg(feature = "lz4")]
    #[test]
    fn a_length_that_lz4_cannot_reach_is_malformed() {
        // A claim of 2^28 bytes in front of one literal.
        let stored = [0x80, 0x80, 0x80, 0x80, 0x01, 0x10, b'a'];
        assert!(matches!(decompress(4, &stored, ROCKSDB), Err(Undecoded::Malformed(_))));
        assert_eq!(decompress(4, &[1, 0x10, b'a'], ROCKSDB), Ok(b"a".to_vec()));
    }

    #[cfg(feature = "snappy")]
    #[test]
    fn a_length_that_snappy_cannot_reach_is_malformed() {
        let stored = [0x80, 0x80, 0x80, 0x80, 0x01, 0x00, b'a'];
        assert!(matches!(decompress(1, &stored, ROCKSDB), Err(Undecoded::Malformed(_))));
        assert_eq!(decompress(1, &[1, 0x00, b'a'], Numbering::LevelDb), Ok(b"a".to_vec()));
    }
}
