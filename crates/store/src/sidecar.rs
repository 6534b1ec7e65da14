//! Encodes and checks a sidecar, a file of filters beside an existing table: filter bytes, their description without
//! its checksum, and an end of 60 bytes, whose last 40 are like those of blocks, partitioned filters and maps.
//!
//! ```text
//!  0   8  length of the filter bytes, with which the file begins
//!  8   8  length of the table
//! 16   4  checksum of the table
//! 20   8  fingerprint of the table's file id
//! trailer, 32 bytes:
//!   0   8  hash seed, or its fingerprint, or the engine's tag
//!   8   4  bytes of the description
//!  12   4  CRC32C of the description
//!  16   5  keys
//!  21   3  0
//!  24   1  0 (low 4 bits), hash id (high 4 bits)
//!  25   1  format version (low 4 bits), flags (high 4 bits): bit 4 is 1, the others are 0
//!  26   2  magic, the bytes "SC"
//!  28   4  CRC32C of the 56 bytes before, in every version
//! ```

use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes};
use crc32c::crc32c as checksum;
use sstfilter::internal::{CheckedTail, Ending, Fields, HeldParts};
use sstfilter::kind::MAX_KEYS;
use sstfilter::{BlockError, BlockIdentity};

use super::error::{FilterProblem, wrong_field};
use super::identity::TableIdentity;
use super::metadata::FilterMetadata;

const VERSION: u8 = 1;

/// The bytes `SC`.
const MAGIC: u16 = 0x4353;

/// Bytes before the file's fingerprint.
const PARAM_BYTES: usize = 20;

/// Bytes after the description.
const END_BYTES: usize = PARAM_BYTES + Ending::bytes_after_parts(true);

/// The maximum bytes of a description: far more than two long keys and three names take.
const MAX_METADATA_BYTES: u32 = 1 << 28;

/// Returns the bytes of a sidecar.
pub(super) fn seal(filters: &[u8], metadata: &FilterMetadata, table: &TableIdentity) -> Option<Bytes> {
    let description = metadata.encode_covered();
    let ending = Ending {
        length: u32::try_from(description.len()).ok().filter(|&bytes| bytes <= MAX_METADATA_BYTES)?,
        checksum: checksum(&description),
        keys: metadata.keys_added.min(MAX_KEYS),
        own: [0, 0, 0, metadata.hash.id.code() << 4],
        version: VERSION,
        magic: MAGIC,
    };
    let mut end = Vec::with_capacity(END_BYTES);
    end.put_u64_le(filters.len() as u64);
    end.put_u64_le(table.bytes);
    end.put_u32_le(table.checksum);
    ending.put(&mut end, identity(metadata), HeldParts::of_field(&[]));
    Some([filters, &description, &end].concat().into())
}

/// Returns the path of the sidecar of the table at `table`: `000007.sst.filter` for `000007.sst`.
#[must_use]
pub fn sidecar_path(table: &Path) -> PathBuf {
    let mut path = table.as_os_str().to_owned();
    path.push(".filter");
    path.into()
}

/// Returns what the end of a sidecar says of its description.
const fn identity(metadata: &FilterMetadata) -> BlockIdentity {
    BlockIdentity { hash: metadata.hash, file: Some(metadata.file) }
}

/// Reads the end of a sidecar, and the identity in it.
fn read_end(end: &[u8]) -> Result<(Fields<'_, END_BYTES>, BlockIdentity), FilterProblem> {
    let too_short = || wrong_field("length of a sidecar", "at least 60 bytes", &end.len());
    let (_, fields) = Fields::<END_BYTES>::at_end_of(end).ok_or_else(too_short)?;
    // The magic first: a file of another type is not damaged.
    let magic = fields.u16::<54>();
    if magic != MAGIC {
        return Err(wrong_field("magic bytes of a sidecar", "SC", &magic.to_le_bytes().escape_ascii()));
    }
    // The checksum before the version: a flipped bit is damage, and never a newer release.
    let (expected, got) = (fields.u32::<56>(), checksum(&fields.array::<0, 56>()));
    if expected != got {
        return Err(FilterProblem::Checksum { what: "sidecar", expected, got });
    }
    let (trailer, flags) = Ending::fields(end, (MAGIC, VERSION), |got| BlockError::Magic { got })?;
    BlockError::require(flags == Ending::BOUND, "flags of a sidecar", "1", flags >> 4)?;
    let identity = CheckedTail::read(end, trailer, PARAM_BYTES)?.identity(trailer.u8::<24>() >> 4)?;
    let reserved = u32::from_le_bytes(trailer.array::<21, 4>()) & 0x0fff_ffff;
    BlockError::require(reserved == 0, "reserved bits of a sidecar", "0", reserved)?;
    if trailer.u32::<8>() > MAX_METADATA_BYTES {
        return Err(wrong_field("bytes of the description in a sidecar", "at most 2^28", &trailer.u32::<8>()));
    }
    Ok((fields, identity))
}

fn tail_bytes(end: Fields<'_, END_BYTES>) -> u64 {
    u64::from(end.u32::<36>()) + END_BYTES as u64
}

impl FilterMetadata {
    /// Returns how many bytes at the end of a sidecar hold its description and the rest, from its last 60 bytes or
    /// more.
    ///
    /// # Errors
    ///
    /// [`FilterProblem`] if the bytes are not those of a sidecar, damaged, or of a newer version.
    pub fn sidecar_tail_bytes(end: &[u8]) -> Result<u64, FilterProblem> {
        read_end(end).map(|(end, _)| tail_bytes(end))
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
        let length = |expected, got| FilterProblem::Length { what: "sidecar", expected, got };
        let (end, own) = read_end(tail)?;
        let tail_bytes = tail_bytes(end);
        let start = usize::try_from(tail_bytes).ok().and_then(|bytes| tail.len().checked_sub(bytes));
        let description = start.and_then(|start| tail.get(start..tail.len() - END_BYTES));
        let description = description.ok_or_else(|| length(tail_bytes, tail.len() as u64))?;
        let (expected, got) = (end.u32::<40>(), checksum(description));
        if expected != got {
            return Err(FilterProblem::Checksum { what: "description of a sidecar", expected, got });
        }
        let metadata = Self::decode_covered(description)?;
        if identity(&metadata) != own {
            let expected = "the hash and the file of its description";
            return Err(wrong_field("end of a sidecar", expected, &own.hash));
        }
        // Two checks: the length of the filter bytes, and the sections, must both end where the file does.
        let filter_bytes = end.u64::<0>();
        let sections_end = metadata.sections.iter().map(|section| section.range().end).max().unwrap_or(0);
        for expected in [filter_bytes, sections_end.max(filter_bytes)].map(|bytes| bytes.saturating_add(tail_bytes)) {
            if expected != file_bytes {
                return Err(length(expected, file_bytes));
            }
        }
        let table = TableIdentity::new(metadata.file, end.u64::<8>(), end.u32::<16>());
        Ok((metadata, table))
    }
}
