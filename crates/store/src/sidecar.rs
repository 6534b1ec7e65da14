//! A sidecar, a file with other filters for an existing table: filter bytes, their description, and a trailer of 40
//! bytes. The id in the description, and length and checksum in the trailer, identify the table.
//!
//! ```text
//!  0   8  length of the filter bytes, with which the file begins
//!  8   8  length of the table
//! 16   4  checksum of the table
//! 20   4  length of the description
//! 24   4  format version
//! 28   8  magic, the bytes "SSTFLTSC"
//! 36   4  CRC32C of bytes 0 to 35
//! ```
//!
//! The checksum covers 36 bytes in every version, so the reader compares it before it believes the version: a flipped
//! bit is damage, never a newer release. The last two bytes of the magic are at the position where a filter block has
//! "SF", so one look at the end of a file tells them apart.

use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes};
use crc32c::crc32c as checksum;
use sstfilter::internal::Fields;

use super::error::FilterProblem;
use super::identity::TableIdentity;
use super::metadata::{FilterMetadata, refused};

const TRAILER_BYTES: usize = 40;
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"SSTFLTSC";
const WHAT: &str = "sidecar";

/// The maximum bytes of a description: far more than two long keys and three names take.
const MAX_METADATA_BYTES: u32 = 1 << 28;

/// Returns the bytes of a sidecar.
pub(super) fn seal(filters: &[u8], metadata: &FilterMetadata, table: &TableIdentity) -> Option<Bytes> {
    let metadata = metadata.encode();
    let metadata_bytes = u32::try_from(metadata.len()).ok().filter(|&bytes| bytes <= MAX_METADATA_BYTES)?;
    let mut trailer = Vec::with_capacity(TRAILER_BYTES);
    trailer.put_u64_le(filters.len() as u64);
    trailer.put_u64_le(table.bytes);
    trailer.put_u32_le(table.checksum);
    trailer.put_u32_le(metadata_bytes);
    trailer.put_u32_le(VERSION);
    trailer.put_slice(&MAGIC);
    trailer.put_u32_le(checksum(&trailer));
    Some([filters, &metadata, &trailer].concat().into())
}

/// Returns the path of the sidecar of the table at `table`: `000007.sst.filter` for `000007.sst`.
#[must_use]
pub fn sidecar_path(table: &Path) -> PathBuf {
    let mut path = table.as_os_str().to_owned();
    path.push(".filter");
    path.into()
}

struct Trailer {
    filter_bytes: u64,
    table_bytes: u64,
    table_checksum: u32,
    /// Bytes of the description and of the trailer.
    tail_bytes: u64,
}

fn length(expected: u64, got: u64) -> FilterProblem {
    FilterProblem::Length { what: WHAT, expected, got }
}

impl Trailer {
    fn decode(end: &[u8]) -> Result<Self, FilterProblem> {
        let too_short = || refused("length of a sidecar", "at least 40 bytes", &end.len());
        let (_, fields) = Fields::<TRAILER_BYTES>::at_end_of(end).ok_or_else(too_short)?;
        // The magic first: a file of another type is not damaged.
        let magic = fields.array::<28, 8>();
        if magic != MAGIC {
            return Err(refused("magic bytes of a sidecar", "SSTFLTSC", &magic.escape_ascii()));
        }
        let (expected, got) = (fields.u32::<36>(), checksum(&fields.array::<0, 36>()));
        if expected != got {
            return Err(FilterProblem::Checksum { what: WHAT, expected, got });
        }
        let (metadata_bytes, version) = (fields.u32::<20>(), fields.u32::<24>());
        if version != VERSION {
            return Err(FilterProblem::Version { what: WHAT, expected: VERSION, got: version });
        }
        if metadata_bytes > MAX_METADATA_BYTES {
            return Err(refused("bytes of the description in a sidecar", "at most 2^28", &metadata_bytes));
        }
        let (filter_bytes, table_bytes, table_checksum) = (fields.u64::<0>(), fields.u64::<8>(), fields.u32::<16>());
        let tail_bytes = u64::from(metadata_bytes) + TRAILER_BYTES as u64;
        Ok(Self { filter_bytes, table_bytes, table_checksum, tail_bytes })
    }
}

impl FilterMetadata {
    /// Returns how many bytes at the end of a sidecar hold its description and trailer, from its last 40 bytes or more.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the bytes are not those of a sidecar, damaged, or of a newer version.
    pub fn sidecar_tail_bytes(end: &[u8]) -> Result<u64, FilterProblem> {
        Ok(Trailer::decode(end)?.tail_bytes)
    }

    /// Decodes the description in a sidecar that was written for `table`. `tail` is the end of the sidecar, at least as
    /// long as [`sidecar_tail_bytes`](Self::sidecar_tail_bytes) says, and `file_bytes` its whole length. The filter
    /// bytes are at its beginning.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] for damage, a newer version, another length, or another table. The engine then opens the
    /// table's own filters.
    pub fn of_sidecar(tail: &[u8], file_bytes: u64, table: &TableIdentity) -> Result<Self, FilterProblem> {
        match Self::of_any_sidecar(tail, file_bytes)? {
            (metadata, got) if got == *table => Ok(metadata),
            (_, got) => Err(FilterProblem::OtherTable { expected: *table, got }),
        }
    }

    /// Decodes the description and the table of a sidecar of any table, for tools. To probe for keys of a table, use
    /// [`of_sidecar`](Self::of_sidecar).
    ///
    /// # Errors
    ///
    /// The errors of [`of_sidecar`](Self::of_sidecar), except for another table.
    pub fn of_any_sidecar(tail: &[u8], file_bytes: u64) -> Result<(Self, TableIdentity), FilterProblem> {
        let Trailer { filter_bytes, table_bytes, table_checksum, tail_bytes } = Trailer::decode(tail)?;
        let start = usize::try_from(tail_bytes).ok().and_then(|bytes| tail.len().checked_sub(bytes));
        let metadata = start.and_then(|start| tail.get(start..tail.len() - TRAILER_BYTES));
        let metadata = Self::decode(metadata.ok_or_else(|| length(tail_bytes, tail.len() as u64))?)?;
        // Two checks: the lengths in the trailer, and the sections, must both end where the file does.
        let end = metadata.sections.iter().map(|section| section.range().end).max().unwrap_or(0);
        for expected in [filter_bytes, end.max(filter_bytes)].map(|bytes| bytes.saturating_add(tail_bytes)) {
            if expected != file_bytes {
                return Err(length(expected, file_bytes));
            }
        }
        let table = TableIdentity::new(metadata.file, table_bytes, table_checksum);
        Ok((metadata, table))
    }
}
