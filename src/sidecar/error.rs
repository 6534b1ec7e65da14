//! Why a sidecar is not used.

use core::fmt;

use super::identity::TableIdentity;
use crate::error::BlockError;

/// Why the bytes of a sidecar are not used. To a read, all of them mean that the file's own filter answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SidecarError {
    /// Fewer bytes than a trailer, or than the tail that it names.
    TooShort {
        /// The least number of bytes expected.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// The last bytes are not those of a sidecar: half of one, or something else.
    Magic {
        /// The bytes at the position of the magic number.
        got: [u8; 8],
    },
    /// A sidecar of a version that this reader does not know: use a newer reader.
    Version {
        /// The newest version this reader knows.
        expected: u32,
        /// The sidecar's version.
        got: u32,
    },
    /// The trailer is damaged.
    TrailerChecksum {
        /// The checksum that the sidecar carries.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The names before the trailer are damaged.
    NamesChecksum {
        /// The checksum that the trailer carries.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The filter is damaged.
    FilterChecksum {
        /// The checksum that the trailer carries.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The sidecar is longer or shorter than its trailer says.
    Length {
        /// The whole file's bytes by its trailer.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// A field with a value that no writer writes.
    Field {
        /// The field.
        field: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: u64,
    },
    /// A sidecar of another table, or of an earlier table under the same name: make it again.
    OtherTable {
        /// The table that it was opened for.
        expected: TableIdentity,
        /// The table that it was made for.
        got: TableIdentity,
    },
    /// The filter in it is not used.
    Filter(BlockError),
}

impl From<BlockError> for SidecarError {
    fn from(error: BlockError) -> Self {
        Self::Filter(error)
    }
}

impl fmt::Display for SidecarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { expected, got } => {
                write!(f, "sidecar too short: expected at least {expected} bytes, got {got}")
            }
            Self::Magic { got } => write!(
                f,
                "not a sidecar: expected the magic number SSTFLTSC at its end, got \"{}\"; it may have been cut short",
                got.escape_ascii()
            ),
            Self::Version { expected, got } => {
                write!(f, "sidecar version: expected 1 to {expected}, got {got}; read it with a newer release")
            }
            Self::TrailerChecksum { expected, got } => {
                write!(f, "sidecar trailer is damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::NamesChecksum { expected, got } => {
                write!(f, "names of a sidecar are damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::FilterChecksum { expected, got } => {
                write!(f, "filter of a sidecar is damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::Length { expected, got } => {
                write!(f, "sidecar length: expected {expected} bytes by its trailer, got {got}")
            }
            Self::Field { field, expected, got } => write!(f, "sidecar field {field}: expected {expected}, got {got}"),
            Self::OtherTable { expected, got } => {
                write!(f, "sidecar of another or an earlier table: expected {expected}, got {got}; make it again")
            }
            Self::Filter(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SidecarError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Filter(error) => error.source(),
            _ => None,
        }
    }
}
