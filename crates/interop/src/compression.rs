//! Codecs of data and index blocks. Filters are never compressed.

use crate::format::cursor::Cursor;
use crate::minlz;

/// The maximum length of a decompressed block. Data blocks have kilobytes; an unpartitioned index can have megabytes.
#[cfg(any(feature = "snappy", feature = "lz4", feature = "zlib", feature = "zstd"))]
pub(crate) const MAX_DECOMPRESSED_BYTES: usize = 64 << 20;

/// The engine's numbering of codecs. It also decides whether the length of the contents precedes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// 1 Snappy, 2 Zstandard; no length (`include/leveldb/options.h`).
    LevelDb,
    /// `CompressionType` of `include/rocksdb/compression_type.h`. From format version 2 on, all codecs except Snappy
    /// have the length of the contents in front, as a varint.
    RocksDb {
        /// The table's format version.
        format_version: u32,
    },
    /// RocksDB's numbers, with a length in front of Zstandard, and 8 for `MinLZ` (`CompressionIndicator` of
    /// `sstable/block/compression.go`).
    Pebble,
}

/// The reason why a block could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undecoded {
    /// The codec is unknown, or not compiled in.
    Unsupported(String),
    /// The bytes violate their codec, or the contents exceed the limit.
    Malformed(String),
}

/// Returns whether one of RocksDB's codecs uses the table's dictionary. Snappy has no dictionaries, and code 0 stores
/// the contents as they are.
pub(crate) const fn uses_dictionary(codec: u8) -> bool {
    !matches!(codec, 0 | 1)
}

/// Decompresses a block. `codec` must not be 0.
pub(crate) fn decompress(codec: u8, stored: &[u8], numbering: Numbering) -> Result<Vec<u8>, Undecoded> {
    match (numbering, codec) {
        (_, 1) => snappy(stored),
        (Numbering::LevelDb, 2) => zstd(stored),
        (Numbering::LevelDb, _) => Err(unsupported(format!("compression type {codec}"))),
        (Numbering::RocksDb { format_version: 0 | 1 }, _) => {
            Err(unsupported(format!("{} as of format version 1", rocksdb_name(codec))))
        }
        (Numbering::Pebble, 8) => minlz::decompress(stored).map_err(Undecoded::Malformed),
        (Numbering::RocksDb { .. }, 2) => zlib_with_length(stored),
        (Numbering::RocksDb { .. }, 4 | 5) => lz4_with_length(stored),
        (Numbering::RocksDb { .. }, 7 | 0x40) | (Numbering::Pebble, 7) => zstd_with_length(stored),
        (Numbering::RocksDb { .. } | Numbering::Pebble, _) => Err(unsupported(rocksdb_name(codec))),
    }
}

/// Names one of RocksDB's codecs.
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

fn malformed(problem: impl core::fmt::Display) -> Undecoded {
    Undecoded::Malformed(problem.to_string())
}

#[cfg(not(all(feature = "snappy", feature = "lz4", feature = "zlib", feature = "zstd")))]
fn not_compiled(codec: &str) -> Undecoded {
    Undecoded::Unsupported(format!("compression by {codec} (a build without that feature)"))
}

/// Returns a claimed size if the codec can produce it from `stored` bytes and it is within [`MAX_DECOMPRESSED_BYTES`].
#[cfg(any(feature = "snappy", feature = "lz4", feature = "zlib"))]
fn believable(claimed: usize, stored: usize, max_per_byte: usize) -> Result<usize, Undecoded> {
    let limit = stored.saturating_mul(max_per_byte).min(MAX_DECOMPRESSED_BYTES);
    if claimed > limit {
        return Err(malformed(format_args!("expected at most {limit} bytes from {stored}, got a claim of {claimed}")));
    }
    Ok(claimed)
}

/// Splits a block into the length of its contents, a varint, and the compressed bytes.
fn length_and_rest(stored: &[u8]) -> Result<(usize, &[u8]), Undecoded> {
    let mut cursor = Cursor::new(stored);
    let claimed = cursor.varint32().ok_or_else(|| malformed("expected the length of the contents"))?;
    Ok((claimed as usize, cursor.rest()))
}

/// Returns contents that have the claimed length.
fn of_length(claimed: usize, contents: Vec<u8>) -> Result<Vec<u8>, Undecoded> {
    if contents.len() != claimed {
        return Err(malformed(format_args!("expected {claimed} bytes, got {}", contents.len())));
    }
    Ok(contents)
}

#[cfg(feature = "snappy")]
fn snappy(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    // The densest Snappy element is a copy: three bytes for up to 64. No input expands more than 64 times.
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
    let (claimed, compressed) = length_and_rest(stored)?;
    // In LZ4, each byte of 255 adds 255 to the length of a match; 20 covers the token before.
    believable(claimed, compressed.len() + 20, 255)?;
    of_length(claimed, lz4_flex::block::decompress(compressed, claimed).map_err(malformed)?)
}

#[cfg(not(feature = "lz4"))]
fn lz4_with_length(_stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    Err(not_compiled("LZ4"))
}

/// Decompresses deflated bytes without zlib's header and checksum, as RocksDB writes them (`window_bits` is negative).
#[cfg(feature = "zlib")]
fn zlib_with_length(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let (claimed, compressed) = length_and_rest(stored)?;
    // The densest element of Deflate has two bits and copies 258 bytes.
    believable(claimed, compressed.len(), 1032)?;
    // One byte more, so that a longer text shows.
    let contents = miniz_oxide::inflate::decompress_to_vec_with_limit(compressed, claimed + 1).map_err(malformed)?;
    of_length(claimed, contents)
}

#[cfg(not(feature = "zlib"))]
fn zlib_with_length(_stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    Err(not_compiled("zlib"))
}

fn zstd_with_length(stored: &[u8]) -> Result<Vec<u8>, Undecoded> {
    let (claimed, compressed) = length_and_rest(stored)?;
    of_length(claimed, zstd(compressed)?)
}

/// Decompresses a frame. Zstandard can expand any input a thousandfold, so the buffer grows as contents arrive and
/// trusts no claimed length.
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
    #[cfg(feature = "zstd")]
    use super::MAX_DECOMPRESSED_BYTES;
    use super::{Numbering, Undecoded, decompress};

    const ROCKSDB: Numbering = Numbering::RocksDb { format_version: 5 };

    #[test]
    fn codecs_that_are_not_known_say_so() {
        for codec in [3, 6, 8, 0x80, 0xff] {
            assert!(matches!(decompress(codec, b"xx", ROCKSDB), Err(Undecoded::Unsupported(_))), "{codec}");
        }
        assert!(matches!(decompress(7, b"xx", Numbering::LevelDb), Err(Undecoded::Unsupported(_))));
    }

    /// A page that promises a codec, or leaves out a refused one, misleads whoever has such a database.
    #[cfg(all(feature = "snappy", feature = "lz4", feature = "zlib", feature = "zstd"))]
    #[test]
    fn the_page_names_the_codecs_that_are_refused_and_those_that_are_read() {
        let is_refused = |codec| matches!(decompress(codec, b"xx", ROCKSDB), Err(Undecoded::Unsupported(_)));
        let page = include_str!("../README.md");
        let list = |start: &str| {
            let (_, list) = page.split_once(start).expect("a list");
            list.split('.').next().unwrap_or_default().to_owned()
        };
        let (read, refused) = (list("Codecs that are read:"), list("Codecs that are refused:"));
        let names = ["Snappy", "zlib", "bzip2", "LZ4", "LZ4", "Xpress", "Zstandard"];
        for (codec, name) in (1..).zip(names) {
            assert_eq!(refused.contains(name), is_refused(codec), "{name} is among the refused codecs");
            assert_eq!(read.contains(name), !is_refused(codec), "{name} is among the codecs that are read");
        }
        // All other numbers have no names.
        assert!((8..=255).all(|codec| codec == 0x40 || is_refused(codec)));
    }

    #[test]
    fn codecs_of_rocksdb_are_called_by_their_names() {
        let name = |codec, format_version| match decompress(codec, b"xx", Numbering::RocksDb { format_version }) {
            Err(Undecoded::Unsupported(name)) => name,
            other => panic!("{codec}: {other:?}"),
        };
        let names =
            [(2, "zlib"), (3, "bzip2"), (4, "LZ4"), (5, "LZ4"), (6, "Xpress"), (7, "Zstandard"), (0x40, "Zstandard")];
        for (codec, expected) in names {
            assert_eq!(name(codec, 1), format!("compression by {expected} as of format version 1"));
        }
        assert_eq!(name(6, 2), "compression by Xpress");
        assert_eq!(name(0x80, 2), "compression type 0x80");
    }

    /// A build without codecs is tested by `cargo test -p sstfilter-interop --lib --no-default-features`.
    #[cfg(not(any(feature = "snappy", feature = "lz4", feature = "zlib", feature = "zstd")))]
    #[test]
    fn codecs_that_are_left_out_of_a_build_say_so() {
        let codecs = [
            (1, ROCKSDB, "Snappy"),
            (2, ROCKSDB, "zlib"),
            (4, ROCKSDB, "LZ4"),
            (7, ROCKSDB, "Zstandard"),
            (7, Numbering::Pebble, "Zstandard"),
            (2, Numbering::LevelDb, "Zstandard"),
        ];
        for (codec, numbering, name) in codecs {
            let expected = format!("compression by {name} (a build without that feature)");
            assert_eq!(decompress(codec, b"xx", numbering), Err(Undecoded::Unsupported(expected)));
        }
    }

    /// Builds a frame of `blocks` blocks that each repeat a byte 131,072 times, and a last block that repeats it `more`
    /// times.
    #[cfg(feature = "zstd")]
    fn zstd_frame(blocks: usize, more: u32) -> Vec<u8> {
        // No length and no checksum; a window of 128 KiB, which is also the maximum size of a block.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        let repeated = |length: u32, is_last: bool| {
            let [low, middle, high, _] = (length << 3 | 1 << 1 | u32::from(is_last)).to_le_bytes();
            [low, middle, high, b'a']
        };
        (0..blocks).for_each(|_| frame.extend(repeated(128 << 10, false)));
        frame.extend(repeated(more, true));
        frame
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn what_zstd_expands_to_more_than_64_mib_is_malformed() {
        let contents = decompress(2, &zstd_frame(511, 128 << 10), Numbering::LevelDb).expect("64 MiB");
        assert!(contents.len() == MAX_DECOMPRESSED_BYTES && contents.iter().all(|&byte| byte == b'a'));
        let problem = "expected at most 67108864 bytes".to_owned();
        let refused = decompress(2, &zstd_frame(512, 1), Numbering::LevelDb);
        assert!(refused == Err(Undecoded::Malformed(problem)), "{:?}", refused.map(|contents| contents.len()));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_length_that_zstd_does_not_have_is_malformed() {
        let with_length = |length: u8| [&[length], &zstd_frame(0, 100)[..]].concat();
        for numbering in [ROCKSDB, Numbering::Pebble] {
            assert_eq!(decompress(7, &with_length(100), numbering), Ok(vec![b'a'; 100]));
            for (length, expected) in [(99, "expected 99 bytes, got 100"), (101, "expected 101 bytes, got 100")] {
                let refused = decompress(7, &with_length(length), numbering);
                assert_eq!(refused, Err(Undecoded::Malformed(expected.into())));
            }
        }
    }

    #[cfg(feature = "zlib")]
    #[test]
    fn a_length_that_zlib_does_not_have_is_malformed() {
        // What zlib makes of 259 times 'a'.
        let deflated = [0x4b, 0x4c, 0x1c, 0xf1, 0x00, 0x00];
        let inflated = |length: &[u8], stored: &[u8]| decompress(2, &[length, stored].concat(), ROCKSDB);
        assert_eq!(inflated(&[0x83, 0x02], &deflated), Ok(vec![b'a'; 259]));
        for length in [&[0x82, 0x02][..], &[0x84, 0x02], &[0], &[0x80, 0x80, 0x80, 0x80, 0x01]] {
            let refused = inflated(length, &deflated);
            assert!(matches!(refused, Err(Undecoded::Malformed(_))), "{length:?}: {refused:?}");
        }
        for end in 0..deflated.len() {
            let refused = inflated(&[0x83, 0x02], &deflated[..end]);
            assert!(matches!(refused, Err(Undecoded::Malformed(_))), "{end} bytes: {refused:?}");
        }
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
