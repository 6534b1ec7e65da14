//! The fixed parts of a table file: footer, metaindex, handles, checksums and ids.
//!
//! The footer is the last 64 bytes:
//!
//! ```text
//!  0   8  offset of the metaindex block
//!  8   8  length of its contents
//! 16   8  length of the file
//! 24  16  table id
//! 40   4  format version
//! 44   4  checksum of the metaindex block
//! 48   4  reserved, zero
//! 52   4  CRC32C of bytes 0 to 51
//! 56   8  magic, the bytes "SSTFLTR" and 0x1a
//! ```
//!
//! Magic, checksum and version keep their offsets in every version.

use core::ops::Range;

use bytes::BufMut;
use crc32c::{crc32c, crc32c_append};
use sstfilter::internal::Fields;
use sstfilter::internal::varint::{put_varint, take_varint};

use super::block::{Block, BlockBuilder, MAX_BLOCK_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES, read_u32};
use super::error::{TableError, TableLocation, TablePart, shown};

/// Bytes of the trailer after the contents of every block: the bound checksum.
pub(crate) const BLOCK_TRAILER_BYTES: usize = 4;

/// Returns the CRC32C of `contents`, the table's id and the block's `offset`.
///
/// A checksum over only the contents would also match in another file. Storage does return blocks of other files: after
/// a misdirected write, from a reused disk page, or in a backup of the wrong file. The filter of another table would
/// then answer "absent" for existing keys. With the id and the offset in the checksum, the block counts as damaged. The
/// id and the offset come last, so that a large block can be summed piece by piece and bound afterwards.
pub(crate) fn bound_checksum(contents: &[u8], table_id: &[u8; 16], offset: u64) -> u32 {
    bind(crc32c(contents), table_id, offset)
}

/// Returns the bound checksum of contents whose CRC32C is `seen`.
pub(crate) fn bind(seen: u32, table_id: &[u8; 16], offset: u64) -> u32 {
    crc32c_append(crc32c_append(seen, table_id), &offset.to_le_bytes())
}

/// Returns the maximum bytes of the contents of this part, which no handle may exceed.
pub(crate) fn max_contents_bytes(part: TablePart) -> u64 {
    match part {
        // Two short names, each with a handle, take at most 70.
        TablePart::Metaindex => 4 << 10,
        // Mostly keys: the smallest, the largest, and one for each extractor whose domain contains neither.
        TablePart::Properties => 66 * MAX_KEY_BYTES,
        // One entry of maximum length, which exceeds every allowed `block_bytes`.
        TablePart::Data => MAX_KEY_BYTES + MAX_VALUE_BYTES + 64,
        TablePart::Index => MAX_BLOCK_BYTES,
        // Not blocks of entries.
        _ => 0,
    }
}

/// Returns an error unless the checksum of the bytes found `at` a location is the expected one.
pub(crate) fn compare_checksums(expected: u32, got: u32, at: &TableLocation) -> Result<(), TableError> {
    if expected == got { Ok(()) } else { Err(TableError::Checksum { at: at.clone(), expected, got }) }
}

/// A block's offset in the file, the length of its contents without the trailer, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) contents_bytes: u64,
    /// The block's bound checksum, so that an older block at the same offset counts as damage.
    pub(crate) checksum: u32,
}

impl BlockHandle {
    /// Returns the bytes of contents and trailer.
    pub(crate) fn bytes(&self) -> u64 {
        self.contents_bytes.saturating_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// Returns the range of contents and trailer, for a block inside the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes())
    }

    /// Returns the offset after the block; `None` if no file can be that long.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.contents_bytes)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// Encodes two varints and the checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        put_varint(&mut out, self.offset);
        put_varint(&mut out, self.contents_bytes);
        out.put_u32_le(self.checksum);
        out
    }

    /// Decodes the handle that fills `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, bytes) = take_varint(bytes)?;
        let (contents_bytes, checksum) = take_varint(bytes)?;
        Some(Self { offset, contents_bytes, checksum: u32::from_le_bytes(checksum.try_into().ok()?) })
    }
}

/// Bytes of a footer.
pub(crate) const FOOTER_BYTES: usize = 64;

/// The format version of tables.
pub(crate) const TABLE_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SSTFLTR\x1a";
const CHECKSUM_AT: usize = 52;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Directly before the footer, so the length of the file follows from it.
    pub(crate) metaindex: BlockHandle,
    pub(crate) table_id: [u8; 16],
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.put_u64_le(self.metaindex.offset);
        out.put_u64_le(self.metaindex.contents_bytes);
        out.put_u64_le(self.metaindex.offset + self.metaindex.bytes() + FOOTER_BYTES as u64);
        out.extend_from_slice(&self.table_id);
        out.put_u32_le(TABLE_VERSION);
        out.put_u32_le(self.metaindex.checksum);
        out.put_u32_le(0);
        let sum = crc32c(&out);
        out.put_u32_le(sum);
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Returns the footer's own checksum. It covers the metaindex's checksum, which covers those of all other blocks.
    pub(crate) fn checksum(&self) -> u32 {
        read_u32(&self.encode(), CHECKSUM_AT).unwrap_or_default()
    }

    /// Decodes the footer `at` the end of a file of `file_bytes`, and checks every byte of it.
    pub(crate) fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64, at: &TableLocation) -> Result<Self, TableError> {
        let footer = Fields::of(bytes);
        // The magic first, so that another file is not called damaged; then the checksum, before any field is trusted.
        let magic = footer.array::<56, 8>();
        if magic != MAGIC {
            return Err(TableError::NotATable { at: at.clone(), got: magic });
        }
        compare_checksums(footer.u32::<CHECKSUM_AT>(), crc32c(&footer.array::<0, CHECKSUM_AT>()), at)?;
        let (version, reserved, length) = (footer.u32::<40>(), footer.u32::<48>(), footer.u64::<16>());
        if version != TABLE_VERSION {
            return Err(TableError::Version { at: at.clone(), expected: TABLE_VERSION, got: version });
        }
        if reserved != 0 {
            return Err(TableError::corrupt(at.clone(), "reserved bytes of zero", format!("{reserved:#x}")));
        }
        // A file with extra bytes in front, or without its first ones, also ends with a valid footer.
        if length != file_bytes {
            return Err(TableError::FileLength { at: at.clone(), expected: length, got: file_bytes });
        }
        let (offset, contents_bytes, checksum) = (footer.u64::<0>(), footer.u64::<8>(), footer.u32::<44>());
        let metaindex = BlockHandle { offset, contents_bytes, checksum };
        if metaindex.end() != Some(at.offset) {
            let got = format_args!("{metaindex:?}");
            return Err(TableError::corrupt(at.clone(), "a metaindex right before the footer", got));
        }
        Ok(Self { metaindex, table_id: footer.array::<24, 16>() })
    }
}

/// The filter begins at a multiple of this: a cache line.
pub(crate) const FILTER_ALIGNMENT: usize = 64;

/// The contents of the metaindex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandles {
    pub(crate) properties: BlockHandle,
    pub(crate) index: BlockHandle,
}

impl BlockHandles {
    pub(crate) fn encode(&self) -> BlockBuilder {
        let mut block = BlockBuilder::new(1);
        for (part, handle) in [(TablePart::Index, self.index), (TablePart::Properties, self.properties)] {
            block.add(part.name().as_bytes(), Some(&handle.encode()));
        }
        block
    }

    /// Decodes a metaindex block. Properties, index and metaindex must be contiguous up to the footer.
    pub(crate) fn decode(block: &Block, metaindex: BlockHandle) -> Result<Self, TableError> {
        let handle = |name| {
            let value = block.value_of(name)?.ok_or_else(|| block.corrupt(name, "none"))?;
            BlockHandle::decode(&value).ok_or_else(|| block.corrupt(format!("a handle of {name}"), shown(&value)))
        };
        let (properties, index) = (handle("properties")?, handle("index")?);
        let (names, last) = block.check_entries()?;
        if names != 2 {
            return Err(
                block.corrupt("only index and properties", format_args!("{names} names up to {}", shown(&last)))
            );
        }
        if properties.end() != Some(index.offset) || index.end() != Some(metaindex.offset) {
            let expected = format!("properties and index end to end before offset {}", metaindex.offset);
            return Err(block.corrupt(expected, format_args!("{properties:?}, {index:?}")));
        }
        Ok(Self { properties, index })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn contents_table_and_place_all_matter() {
        let (one, other) = ([1; 16], [2; 16]);
        let sum = bound_checksum(b"contents", &one, 64);
        assert_eq!(sum, bound_checksum(b"contents", &one, 64));
        assert_ne!(sum, bound_checksum(b"contenta", &one, 64));
        assert_ne!(sum, bound_checksum(b"contents", &other, 64));
        assert_ne!(sum, bound_checksum(b"contents", &one, 128));
    }

    #[test]
    fn handles_round_trip_and_their_ends_do_not_overflow() {
        for checksum in [0, u32::MAX - 1] {
            let handle = BlockHandle { offset: 300, contents_bytes: 70_000, checksum };
            assert_eq!(BlockHandle::decode(&handle.encode()), Some(handle));
            assert_eq!(handle.end(), Some(70_304));
            let huge = BlockHandle { offset: 300, contents_bytes: u64::MAX, checksum };
            assert_eq!(BlockHandle::decode(&huge.encode()), Some(huge));
            assert_eq!((huge.end(), huge.bytes()), (None, u64::MAX));
        }
    }

    #[test]
    fn bytes_that_are_missing_from_a_handle_or_stand_behind_it_are_refused() {
        for bytes in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(BlockHandle::decode(bytes), None, "{bytes:?}");
        }
    }

    fn at() -> TableLocation {
        TableLocation { path: None, part: TablePart::Footer, offset: 936 }
    }

    fn example() -> Footer {
        Footer { metaindex: BlockHandle { offset: 800, contents_bytes: 132, checksum: 0xfeed }, table_id: [7; 16] }
    }

    fn encoded() -> [u8; FOOTER_BYTES] {
        example().encode().try_into().unwrap()
    }

    /// Decodes the footer with `bytes` at `offset`, under a valid checksum.
    fn resealed(offset: usize, bytes: &[u8]) -> Result<Footer, TableError> {
        let mut footer = encoded();
        footer[offset..offset + bytes.len()].copy_from_slice(bytes);
        let sum = crc32c(&footer[..CHECKSUM_AT]);
        footer[CHECKSUM_AT..56].copy_from_slice(&sum.to_le_bytes());
        Footer::decode(&footer, 1_000, &at())
    }

    #[test]
    fn a_footer_reads_back_as_written_and_fills_its_64_bytes() {
        assert_eq!(Footer::decode(&encoded(), 1_000, &at()).unwrap(), example());
        assert_eq!(encoded()[40..52], [1, 0, 0, 0, 0xed, 0xfe, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for bit in 0..FOOTER_BYTES * 8 {
            let mut footer = encoded();
            footer[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&footer, 1_000, &at()).is_err(), "bit {bit}");
        }
    }

    // promise: stays-readable
    #[test]
    fn each_kind_of_damage_has_its_name() {
        for version in [0, 2, 9] {
            let refused = resealed(40, &[version]);
            assert!(matches!(refused, Err(TableError::Version { expected: 1, got, .. }) if got == u32::from(version)));
        }
        assert!(matches!(resealed(51, &[1]), Err(TableError::Corrupt { .. })));
        assert!(matches!(resealed(56, b"ELF"), Err(TableError::NotATable { .. })));
        let longer = Footer::decode(&encoded(), 1_001, &at());
        assert!(matches!(longer, Err(TableError::FileLength { expected: 1_000, got: 1_001, .. })));
    }

    const PROPERTIES: BlockHandle = BlockHandle { offset: 200, contents_bytes: 96, checksum: 1 };
    const INDEX: BlockHandle = BlockHandle { offset: 300, contents_bytes: 46, checksum: 2 };
    const METAINDEX: BlockHandle = BlockHandle { offset: 350, contents_bytes: 60, checksum: 3 };

    fn handles() -> BlockHandles {
        BlockHandles { properties: PROPERTIES, index: INDEX }
    }

    fn decoded(handles: &BlockHandles) -> Result<BlockHandles, TableError> {
        let contents = Bytes::from(handles.encode().seal().clone());
        BlockHandles::decode(
            &Block::open(contents, TableLocation { path: None, part: TablePart::Metaindex, offset: 350 })?,
            METAINDEX,
        )
    }

    #[test]
    fn a_metaindex_reads_back_as_written() {
        assert_eq!(decoded(&handles()).unwrap(), handles());
    }

    #[test]
    fn a_metaindex_names_index_and_properties_and_nothing_else() {
        for (names, got) in [
            (&["filter", "index", "properties"][..], "only index and properties, got 3 names"),
            (&["index"], "properties, got none"),
            (&["properties"], "index, got none"),
        ] {
            let mut block = BlockBuilder::new(1);
            names.iter().for_each(|name| block.add(name.as_bytes(), Some(&INDEX.encode())));
            let at = TableLocation { path: None, part: TablePart::Metaindex, offset: 350 };
            let block = Block::open(Bytes::from(block.seal().clone()), at).unwrap();
            let refused = BlockHandles::decode(&block, METAINDEX).unwrap_err().to_string();
            assert!(refused.contains(got), "{refused}");
        }
    }

    #[test]
    fn blocks_that_do_not_lie_end_to_end_are_refused() {
        for lying in [
            BlockHandles { properties: BlockHandle { offset: 201, ..PROPERTIES }, ..handles() },
            BlockHandles { index: BlockHandle { contents_bytes: 47, ..INDEX }, ..handles() },
            BlockHandles { index: BlockHandle { contents_bytes: u64::MAX, ..INDEX }, ..handles() },
        ] {
            assert!(matches!(decoded(&lying), Err(TableError::Corrupt { .. })), "{lying:?}");
        }
    }
}
