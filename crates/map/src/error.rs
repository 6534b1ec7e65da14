//! Reasons why a map, or a page of it, cannot be used.

use core::fmt;
use std::io;

use sstfilter::BlockError;

use crate::slice::{SLICE_MAGIC, Slice};

/// The reason why a map or one of its pages is not used. For lookups, every variant means "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// The end of the map has an error that filter blocks can have, too.
    Block(BlockError),
    /// The bytes do not end like a map.
    NotAMap {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// The table of covered files is damaged.
    CoverageChecksum {
        /// The checksum in the trailer.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
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
    /// The pages have more or fewer entries of a file than the table of covered files says.
    Entries {
        /// The fingerprint of the file's id.
        fingerprint: u64,
        /// Its entries by the table of covered files.
        expected: u64,
        /// Its entries in the pages.
        got: u64,
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
    /// A file was added twice.
    DuplicateFile {
        /// The fingerprint of its id.
        fingerprint: u64,
    },
    /// Maps keep different numbers of bits of a hash, so that they cannot be merged.
    PrefixBits {
        /// The bits that the merge keeps.
        expected: u8,
        /// The bits that the map keeps.
        got: u8,
    },
    /// The bytes do not end like a slice of a map.
    NotASlice {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// A slice is missing, comes twice, or comes out of order.
    OtherSlice {
        /// The slice that is next; `None` after the last one.
        expected: Option<Slice>,
        /// The slice found; `None` if there are no more.
        got: Option<Slice>,
    },
    /// A slice is one of another map than the first slice, or of other files or options.
    OtherMap {
        /// The slice.
        slice: Slice,
        /// The field that differs.
        field: &'static str,
        /// Its value in the first slice.
        expected: u64,
        /// Its value in this one.
        got: u64,
    },
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
            Self::NotAMap { got: SLICE_MAGIC } => {
                write!(f, "a slice of a file map, expected a whole one: join all of its slices")
            }
            Self::NotAMap { got } => {
                write!(f, "not a file map: expected the magic number 0x4d53 at its end, got {got:#06x}")
            }
            Self::CoverageChecksum { expected, got } => {
                write!(f, "covered files of a map: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::Field { field, expected, got } => write!(f, "{field} of a file map: expected {expected}, got {got}"),
            Self::Length { what, expected, got } => write!(f, "{what}: expected {expected} bytes, got {got}"),
            Self::Damaged { page, what } => write!(f, "page {page} of a file map: {what}"),
            Self::KnownKeyAbsent { fingerprint } => write!(
                f,
                "file map: expected all keys of file {fingerprint:#018x}, got none for one of them: the map was built \
                 with another hash function, or not from all keys of the file and its writes"
            ),
            Self::Entries { fingerprint, expected, got } => {
                write!(f, "file {fingerprint:#018x} of a map: expected {expected} entries in its pages, got {got}")
            }
            Self::Contradiction { fingerprint, map, other, expected, got } => {
                write!(f, "file {fingerprint:#018x}: expected {expected} entries, by ")?;
                match other {
                    Some(other) => write!(f, "map {other:#018x}")?,
                    None => f.write_str("its description at most")?,
                }
                write!(f, ", got {got} in map {map:#018x}: two files have this id, so no map covers it")
            }
            Self::MixedCoverage => f.write_str("file map: expected either files or writes that it covers, got both"),
            Self::DuplicateFile { fingerprint } => {
                write!(f, "file {fingerprint:#018x} was added twice: a map covers each file once")
            }
            Self::PrefixBits { expected, got } => write!(
                f,
                "file map: expected one that keeps {expected} bits of a hash, as the merge does, got one that keeps \
                 {got}: build it again with {expected} bits"
            ),
            Self::NotASlice { got } => {
                let expected = SLICE_MAGIC;
                write!(
                    f,
                    "not a slice of a file map: expected the magic number {expected:#06x} at its end, got {got:#06x}"
                )
            }
            Self::OtherSlice { expected, got } => {
                write!(f, "slices of a file map: expected {}, got {}", slice_text(*expected), slice_text(*got))
            }
            Self::OtherMap { slice, field, expected, got } => write!(
                f,
                "slice {slice} of a file map: expected one of the map of the first slice, got other files or options: \
                 {field}: expected {}, got {}",
                number_text(*expected),
                number_text(*got)
            ),
        }
    }
}

fn slice_text(slice: Option<Slice>) -> String {
    slice.map_or_else(|| "no more".to_owned(), |slice| format!("slice {slice}"))
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
