//! Checksums bound to a table and a place.

use super::TableId;
use crate::codec::{checksum, checksum_append};

/// Bytes of the trailer behind the contents of every block: the bound checksum.
pub(crate) const BLOCK_TRAILER_BYTES: usize = 4;

/// CRC32C of `contents`, the table's id and the block's `offset`: right contents in a wrong table or a
/// wrong place have a wrong checksum.
pub(crate) fn bound_checksum(contents: &[u8], table_id: &TableId, offset: u64) -> u32 {
    bind(checksum(contents), table_id, offset)
}

/// The bound checksum of contents whose CRC32C is `seen`.
pub(crate) fn bind(seen: u32, table_id: &TableId, offset: u64) -> u32 {
    checksum_append(checksum_append(seen, table_id.as_bytes()), &offset.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_table_and_place_all_matter() {
        let (one, other) = (TableId::from_bytes([1; 16]), TableId::from_bytes([2; 16]));
        let sum = bound_checksum(b"contents", &one, 64);
        assert_eq!(sum, bound_checksum(b"contents", &one, 64));
        assert_ne!(sum, bound_checksum(b"contenta", &one, 64));
        assert_ne!(sum, bound_checksum(b"contents", &other, 64));
        assert_ne!(sum, bound_checksum(b"contents", &one, 128));
    }
}
