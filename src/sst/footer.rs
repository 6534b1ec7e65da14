//! The last 64 bytes of a table.
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
//! Magic, checksum and version keep their places in every version.

use super::handle::BlockHandle;
use super::{Location, TableError, TableId};
use crate::codec::{checksum, put_u32, put_u64, read_u32, read_u64};

/// Bytes of a footer.
pub(crate) const FOOTER_BYTES: usize = 64;

/// The format version of tables.
pub(crate) const TABLE_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SSTFLTR\x1a";
const CHECKSUM_AT: usize = 52;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) metaindex: BlockHandle,
    pub(crate) file_bytes: u64,
    pub(crate) table_id: TableId,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        put_u64(&mut out, self.metaindex.offset);
        put_u64(&mut out, self.metaindex.contents_bytes);
        put_u64(&mut out, self.file_bytes);
        out.extend_from_slice(self.table_id.as_bytes());
        put_u32(&mut out, TABLE_VERSION);
        put_u32(&mut out, self.metaindex.checksum);
        put_u32(&mut out, 0);
        let sum = checksum(&out);
        put_u32(&mut out, sum);
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Reads the footer `at` the end of a file of `file_bytes`, and checks every byte of it.
    pub(crate) fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64, at: &Location) -> Result<Self, TableError> {
        let (fields, magic) = bytes.split_last_chunk::<8>().unwrap_or((&[], &[0; 8]));
        if *magic != MAGIC {
            return Err(TableError::NotATable { at: at.clone(), got: *magic });
        }
        let stored = read_u32(fields, CHECKSUM_AT).unwrap_or_default();
        let computed = checksum(fields.get(..CHECKSUM_AT).unwrap_or_default());
        if stored != computed {
            return Err(TableError::Checksum { at: at.clone(), expected: stored, got: computed });
        }
        let number = |offset: usize| read_u64(fields, offset).unwrap_or_default();
        let word = |offset: usize| read_u32(fields, offset).unwrap_or_default();
        if word(40) != TABLE_VERSION {
            return Err(TableError::Version { at: at.clone(), expected: TABLE_VERSION, got: word(40) });
        }
        if word(48) != 0 {
            return Err(TableError::corrupt(at.clone(), "reserved bytes of zero", format!("{:#x}", word(48))));
        }
        if number(16) != file_bytes {
            return Err(TableError::FileLength { at: at.clone(), expected: number(16), got: file_bytes });
        }
        let table_id = fields.get(24..40).and_then(|id| id.first_chunk()).copied().unwrap_or_default();
        Ok(Self {
            metaindex: BlockHandle { offset: number(0), contents_bytes: number(8), checksum: word(44) },
            file_bytes,
            table_id: TableId::from_bytes(table_id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Location {
        Location::new(None, "footer", 936)
    }

    fn example() -> Footer {
        Footer {
            metaindex: BlockHandle { offset: 800, contents_bytes: 132, checksum: 0xfeed },
            file_bytes: 1_000,
            table_id: TableId::from_bytes([7; 16]),
        }
    }

    fn encoded() -> [u8; FOOTER_BYTES] {
        example().encode().try_into().unwrap()
    }

    /// The footer with `bytes` at `offset`, under a checksum that holds.
    fn resealed(offset: usize, bytes: &[u8]) -> Result<Footer, TableError> {
        let mut footer = encoded();
        footer[offset..offset + bytes.len()].copy_from_slice(bytes);
        let sum = checksum(&footer[..CHECKSUM_AT]);
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

    #[test]
    fn each_kind_of_damage_has_its_name() {
        for version in [0, 2, 9] {
            let refused = resealed(40, &[version]);
            assert!(matches!(refused, Err(TableError::Version { expected: 1, got, .. }) if got == version.into()));
        }
        assert!(matches!(resealed(51, &[1]), Err(TableError::Corrupt { .. })));
        assert!(matches!(resealed(56, b"ELF"), Err(TableError::NotATable { .. })));
        let longer = Footer::decode(&encoded(), 1_001, &at());
        assert!(matches!(longer, Err(TableError::FileLength { expected: 1_000, got: 1_001, .. })));
    }
}
