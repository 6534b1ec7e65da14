//! The log that a manifest is: records, cut into fragments where blocks of the file end (`db/log_format.h`).

use crate::error::{Error, Part};
use crate::format::checksum::masked;
use crate::format::cursor::Cursor;

/// A fragment of a record never crosses the end of a block.
pub(super) const BLOCK_BYTES: usize = 32 << 10;
/// Checksum, length, type.
const HEADER_BYTES: usize = 7;

/// A fragment of a record: all of it, or the part that fits in a block.
struct Fragment<'a> {
    offset: u64,
    kind: u8,
    bytes: &'a [u8],
}

/// Returns the error of a manifest that is wrong at `offset`.
pub(super) fn malformed(offset: u64, problem: String) -> Error {
    Error::malformed(Part::Manifest, offset, problem)
}

/// Calls `apply` with the offset and the bytes of each record. Fails if the file does not end with a whole one: it was
/// being written, or a length is damaged.
pub(super) fn for_each_record(
    bytes: &[u8],
    mut apply: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    const FULL: u8 = 1;
    const FIRST: u8 = 2;
    const MIDDLE: u8 = 3;
    const LAST: u8 = 4;
    let mut record: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(fragment) = next_fragment(bytes, &mut at)? {
        match (fragment.kind, &mut record) {
            (FULL, None) => apply(fragment.offset, fragment.bytes)?,
            (FIRST, None) => record = Some(fragment.bytes.to_vec()),
            (MIDDLE, Some(begun)) => begun.extend_from_slice(fragment.bytes),
            (LAST, Some(begun)) => {
                begun.extend_from_slice(fragment.bytes);
                apply(fragment.offset, begun)?;
                record = None;
            }
            (kind, _) => {
                let problem = format!("expected the next piece of a record, got one of type {kind}");
                return Err(malformed(fragment.offset, problem));
            }
        }
    }
    // Preallocated space that has not been written yet.
    let is_at_end = bytes.get(at..).is_none_or(|rest| rest.iter().all(|&byte| byte == 0));
    let cut = malformed(at as u64, "expected a whole record, got its beginning".into());
    if is_at_end && record.is_none() { Ok(()) } else { Err(cut) }
}

/// Reads the fragment at `at` and moves `at` behind it. Returns `None` at the end, and if the file ends within a
/// fragment, or has an empty one.
fn next_fragment<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<Fragment<'a>>, Error> {
    let left_in_block = BLOCK_BYTES - *at % BLOCK_BYTES;
    if left_in_block < HEADER_BYTES {
        *at += left_in_block;
    }
    let offset = *at as u64;
    let mut cursor = Cursor::new(bytes.get(*at..).unwrap_or_default());
    let (Some(stored), Some(&[low, high, kind])) = (cursor.u32(), cursor.take(3).and_then(<[u8]>::first_chunk)) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes([low, high]));
    if (stored, length, kind) == (0, 0, 0) {
        return Ok(None);
    }
    if HEADER_BYTES + length > BLOCK_BYTES - *at % BLOCK_BYTES {
        return Err(malformed(offset, format!("expected a piece that ends with its block, got {length} bytes")));
    }
    let Some(contents) = cursor.take(length) else { return Ok(None) };
    *at += HEADER_BYTES + length;
    let found = masked(crc32c::crc32c_append(crc32c::crc32c(&[kind]), contents));
    Error::check(Part::Manifest, offset, stored, found)?;
    Ok(Some(Fragment { offset, kind, bytes: contents }))
}
