//! The identity of a table.

use core::fmt;

use sstfilter::FileId;

/// The identity of one table of a store; a sidecar of another table is not used.
///
/// The package `sstfilter-table` takes the checksum from a table's footer, which depends on every byte of the file. For
/// the tables of another engine, take the unique id, the length of the file, and a checksum that covers the keys, such
/// as the file checksum in the manifest, or the CRC32C of the last blocks if these contain the checksums of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TableIdentity {
    /// The unique id of the table.
    pub id: [u8; 16],
    /// Length of the whole table in bytes.
    pub bytes: u64,
    /// A checksum of the table.
    pub checksum: u32,
}

impl TableIdentity {
    /// Returns the identity with this id, length and checksum.
    #[must_use]
    pub const fn new(id: [u8; 16], bytes: u64, checksum: u32) -> Self {
        Self { id, bytes, checksum }
    }

    /// Returns the id that the filter of the table's sidecar is bound to.
    pub fn file_id(&self) -> FileId {
        self.id.into()
    }
}

impl fmt::Display for TableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("table ")?;
        self.id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, " of {} bytes and checksum {:#010x}", self.bytes, self.checksum)
    }
}
