//! What binds a sidecar to one table: the table's id, length and checksum.

use core::fmt;

use sstfilter::FileId;

/// The identity of one table of a store; a sidecar of another table is not used.
///
/// The package `sstfilter-table` takes the checksum from a table's footer, which depends on every byte of the file. For
/// the tables of another engine, take an id that no other table has, the length of the file, and a checksum that covers
/// the keys, such as the file checksum in the manifest, or the CRC32C of the last blocks if these contain the checksums
/// of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TableIdentity {
    /// The id of the table's file: that of its own description, if it has one
    /// ([`FilterMetadata::file_id`](super::FilterMetadata::file_id)). The filters of the sidecar are bound to it.
    pub file: FileId,
    /// Length of the whole table in bytes.
    pub bytes: u64,
    /// A checksum of the table.
    pub checksum: u32,
}

impl TableIdentity {
    /// Returns the identity with this id, length and checksum.
    #[must_use]
    pub const fn new(file: FileId, bytes: u64, checksum: u32) -> Self {
        Self { file, bytes, checksum }
    }
}

impl fmt::Display for TableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, bytes, checksum } = self;
        write!(f, "table {:016x} of {bytes} bytes and checksum {checksum:#010x}", file.fingerprint())
    }
}
