//! Why an edit cannot be applied.

use core::fmt;

use crate::sst::TableId;

/// Why a [`VersionEdit`](super::VersionEdit) was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionError {
    /// The edit removes or replaces a table that is not at this level, or does so twice.
    NotAtLevel {
        /// The level.
        level: u32,
        /// The table.
        table: TableId,
    },
    /// The edit adds a table whose id another table has, in the version or in the edit itself.
    DuplicateId {
        /// The level of that other table.
        level: u32,
        /// The id of both.
        table: TableId,
    },
    /// Two tables of a level other than 0 would have a key in common, or one would lie inside the range of the other.
    Overlap {
        /// The level.
        level: u32,
        /// The two, by their smallest keys.
        tables: [TableId; 2],
    },
    /// The edit adds a table that was opened for another hash or other extractors than the tables of the version.
    MixedReaders {
        /// The table.
        table: TableId,
    },
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAtLevel { level, table } => {
                write!(f, "edit: expected table {table} at level {level}, got none, or one that is removed already")
            }
            Self::DuplicateId { level, table } => {
                write!(
                    f,
                    "edit: expected a table of a new id, got {table}, which is at level {level}; remove that first"
                )
            }
            Self::Overlap { level, tables: [left, right] } => {
                write!(f, "edit: expected tables of level {level} not to overlap, got {left} and {right}, which do")
            }
            Self::MixedReaders { table } => write!(
                f,
                "edit: expected the hasher and the extractors of the version's tables, got others for table {table}; open \
                 all of them with the same options"
            ),
        }
    }
}

impl core::error::Error for VersionError {}
