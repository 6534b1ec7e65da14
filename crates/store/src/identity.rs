//! What identifies a table.

use core::fmt;

use sstfilter::FileId;

/// What identifies one table of a store: a sidecar of any other is not used.
///
/// A table of the package `sstfilter-table` has its footer's checksum, which depends on every byte of the file. For
/// another engine's table, take what the engine keeps: its unique id, the length of its file, and a checksum that
/// covers the keys, such as the file checksum in the manifest, or the CRC32C of its last blocks where these name the
/// checksums of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TableIdentity {
    /// 16 bytes that no other table has.
    pub id: [u8; 16],
    /// Bytes of the whole table.
    pub bytes: u64,
    /// A checksum of the table.
    pub checksum: u32,
}

impl TableIdentity {
    /// The table of this id, length and checksum.
    #[must_use]
    pub const fn new(id: [u8; 16], bytes: u64, checksum: u32) -> Self {
        Self { id, bytes, checksum }
    }

    /// The id that the filter of the table's sidecar is bound to.
    #[must_use]
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
