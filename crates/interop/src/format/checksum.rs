//! The checksums behind blocks and in footers.

use xxhash_rust::{xxh3, xxh32, xxh64};

/// The checksum of a table's blocks: the first byte of RocksDB's footer (`ChecksumType` in `include/rocksdb/table.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChecksumType {
    /// Type 0: no checksum; from format version 6 on, only the offset of a block is checked.
    None,
    /// Type 1: CRC32C, masked. LevelDB has no other.
    Crc32c,
    /// Type 2.
    XxHash32,
    /// Type 3: the lower half of the 64-bit hash.
    XxHash64,
    /// Type 4, RocksDB's default: the lower half of XXH3's 64 bits, with the last byte mixed in separately.
    Xxh3,
}

impl ChecksumType {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::None,
            1 => Self::Crc32c,
            2 => Self::XxHash32,
            3 => Self::XxHash64,
            4 => Self::Xxh3,
            _ => return None,
        })
    }

    /// Returns the name for use in a sentence, such as `CRC32C`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no checksum",
            Self::Crc32c => "CRC32C",
            Self::XxHash32 => "xxHash32",
            Self::XxHash64 => "xxHash64",
            Self::Xxh3 => "XXH3",
        }
    }

    /// Returns the checksum of bytes that end in a block's compression type, or of a whole footer.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is stored")]
    pub(crate) fn sum(self, bytes: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => masked(crc32c::crc32c(bytes)),
            Self::XxHash32 => xxh32::xxh32(bytes, 0),
            Self::XxHash64 => xxh64::xxh64(bytes, 0) as u32,
            Self::Xxh3 => xxh3_with_last_byte(bytes),
        }
    }
}

/// Masks a CRC32C as LevelDB stores it: a CRC of bytes that contain their own CRC would be weak (`util/crc32c.h`).
pub(crate) const fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Mixes the last byte in by a product, like RocksDB, which thus avoids a streaming XXH3 (`ModifyChecksumForLastByte`
/// in `table/format.cc`).
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is stored")]
fn xxh3_with_last_byte(bytes: &[u8]) -> u32 {
    match bytes.split_last() {
        Some((last, front)) => xxh3::xxh3_64(front) as u32 ^ u32::from(*last).wrapping_mul(0x6b90_83d9),
        None => 0,
    }
}

/// The parameters of all checksums in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    pub(crate) kind: ChecksumType,
    /// From format version 6 on, each checksum depends on this number of the file and on the block's offset. 0: none.
    pub(crate) base_context: u32,
}

impl Checksums {
    pub(crate) const fn without_context(kind: ChecksumType) -> Self {
        Self { kind, base_context: 0 }
    }

    /// Returns the checksum to expect for `bytes`, which end in the compression type and begin at `offset`.
    pub(crate) fn expected(self, bytes: &[u8], offset: u64) -> u32 {
        self.kind.sum(bytes).wrapping_add(self.context(offset))
    }

    /// Computes `ChecksumModifierForContext` of `table/format.h`, by which a block at the wrong offset fails its check.
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the offset are added")]
    pub(crate) const fn context(self, offset: u64) -> u32 {
        if self.base_context == 0 {
            return 0;
        }
        self.base_context ^ (offset as u32).wrapping_add((offset >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChecksumType, Checksums};

    // Other tests compare whole blocks with those of the engines; these are the vectors published with each function.
    #[test]
    fn sums_are_those_of_the_functions_they_are_named_for() {
        assert_eq!(ChecksumType::Crc32c.sum(b"123456789"), super::masked(0xe306_9283));
        assert_eq!(ChecksumType::XxHash32.sum(b""), 0x02cc_5d05);
        assert_eq!(ChecksumType::XxHash64.sum(b""), 0x51d8_e999);
        assert_eq!(ChecksumType::Xxh3.sum(&[0]), 0x38d3_94c2);
    }

    #[test]
    fn the_place_of_a_block_is_part_of_its_checksum() {
        let sums = Checksums { kind: ChecksumType::None, base_context: 0x1234 };
        assert_ne!(sums.expected(b"", 0), sums.expected(b"", 1));
        assert_ne!(sums.expected(b"", 0), sums.expected(b"", 1 << 32));
        assert_eq!(Checksums::without_context(ChecksumType::None).expected(b"", 7), 0);
    }
}
