//! Reasons why a map, or a page of it, cannot be used.

use core::fmt;
use std::borrow::Cow;
use std::io;

use sstfilter::BlockError;

/// The reason why a map or one of its pages is not used. For lookups, every variant means "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// The end of the map has an error that filter blocks can have, too.
    Block(BlockError),
    /// A field has a value that no writer writes, or a map cannot have these numbers.
    Field {
        /// The field.
        field: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: u64,
    },
    /// The map, a page or a list has more or fewer bytes than the map says.
    Length {
        /// What has this length.
        what: &'static str,
        /// The bytes that it must have.
        expected: u64,
        /// The length found.
        got: u64,
    },
    /// A page or a list is damaged, or that of another map or place.
    Damaged {
        /// The page.
        page: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The map lacks a key of a file that it covers: it was built with another hash function of the same name, or not
    /// from all keys of the file.
    KnownKeyAbsent {
        /// The fingerprint of the file's id.
        fingerprint: u64,
    },
    /// A map has another number of entries of a file than another map or the file's description allows: one of them
    /// is of other contents with the same id.
    Contradiction {
        /// The fingerprint of the file's id.
        fingerprint: u64,
        /// The fingerprint of the map's id.
        map: u64,
        /// That of the other map; `None` for the file's description.
        other: Option<u64>,
        /// The entries by the other map, or the keys by the description.
        expected: u64,
        /// The entries by the map.
        got: u64,
    },
    /// One map would cover both files and writes.
    MixedCoverage,
    /// It is not the map or the table of covered files that belongs here: not one at all, one that is damaged, or one
    /// that does not go with the others.
    Mismatch {
        /// What differs.
        what: Cow<'static, str>,
        /// The expected value.
        expected: String,
        /// The value that was found.
        got: String,
    },
}

impl MapError {
    pub(crate) fn field(field: &'static str, expected: &'static str, got: impl Into<u64>) -> Self {
        Self::Field { field, expected, got: got.into() }
    }

    pub(crate) fn mismatch(what: impl Into<Cow<'static, str>>, expected: impl Into<String>, got: String) -> Self {
        Self::Mismatch { what: what.into(), expected: expected.into(), got }
    }

    /// The error for another magic number.
    pub(crate) fn magic(what: &'static str, expected: u16, got: u16) -> Self {
        Self::mismatch(what, format!("the magic number {expected:#06x} at its end"), format!("{got:#06x}"))
    }

    /// Fails unless the field has an expected value.
    pub(crate) fn require(holds: bool, field: &'static str, expected: &'static str, got: u64) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::field(field, expected, got)) }
    }
}

impl From<BlockError> for MapError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

impl From<MapError> for io::Error {
    fn from(error: MapError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(error) => write!(f, "file map: {error}"),
            Self::Mismatch { what, expected, got } => write!(f, "{what}: expected {expected}, got {got}"),
            Self::Field { field, expected, got } => {
                write!(f, "{field} of a file map: expected {expected}, got {}", number_text(*got))
            }
            Self::Length { what, expected, got } => write!(f, "{what}: expected {expected} bytes, got {got}"),
            Self::Damaged { page, what } => write!(f, "page {page} of a file map: {what}"),
            Self::KnownKeyAbsent { fingerprint } => write!(
                f,
                "file map: expected all keys of file {fingerprint:#018x}, got none for one of them: the map was built \
                 with another hash function, or not from all keys of the file and its writes"
            ),
            Self::Contradiction { fingerprint, map, other, expected, got } => {
                write!(f, "file {fingerprint:#018x}: expected {expected} entries, by ")?;
                match other {
                    Some(other) => write!(f, "map {other:#018x}")?,
                    None => f.write_str("its description at most")?,
                }
                write!(f, ", got {got} in map {map:#018x}: two files have this id, so no map covers it")
            }
            Self::MixedCoverage => f.write_str("file map: expected either files or writes that it covers, got both"),
        }
    }
}

/// Counts have fewer than 41 bits, ids and seeds almost always more.
fn number_text(number: u64) -> String {
    if number >> 40 == 0 { number.to_string() } else { format!("{number:#018x}") }
}

impl core::error::Error for MapError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The message is already that of the block.
        if let Self::Block(error) = self { error.source() } else { None }
    }
}
