//! The key range that a filter was built for, stored in front of its block.
//!
//! SlateDB decodes a filter without saying which SST it belongs to. It probes the filters of an SST only for keys in that
//! SST's range, so a probe outside the stored range shows that the bytes are another SST's: the answer is then "may match".
//!
//! | offset | bytes | |
//! |--:|--:|---|
//! | 0 | 1 | version of this header, 1 |
//! | 1 | 1 | `a`, 0 to 64 |
//! | 2 | 1 | `b`, 0 to 64 |
//! | 3 | `a` | the first key, cut after 64 bytes |
//! | 3 + `a` | `b` | the last key, cut after 64 bytes |
//! | 3 + `a` + `b` | 4 | CRC32C of everything before it, little-endian |
//!
//! The filter block follows.

use bytes::{BufMut, Bytes};
use slatedb::FilterTarget;

const VERSION: u8 = 1;
/// Bytes kept of a bound. Long keys share long prefixes, but SSTs seldom hold only keys that agree in 64 bytes.
const MAX_BOUND_BYTES: usize = 64;
const FIXED_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;

/// Bounds of the keys of one SST, both inclusive, and both cut: cutting widens the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterRange {
    first: Bytes,
    last: Bytes,
}

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeError {
    Damaged,
    Version(u8),
}

fn cut(key: &[u8]) -> &[u8] {
    key.get(..MAX_BOUND_BYTES).unwrap_or(key)
}

impl FilterRange {
    pub(crate) fn new(first: &[u8], last: &[u8]) -> Self {
        Self { first: Bytes::copy_from_slice(cut(first)), last: Bytes::copy_from_slice(cut(last)) }
    }

    /// Whether an SST with these bounds can be probed for `target`.
    pub(crate) fn admits(&self, target: &FilterTarget) -> bool {
        match target {
            FilterTarget::Point(key) => self.admits_key(key),
            // Some key with the prefix can be in the range: the prefix itself is, or the first key begins with it.
            FilterTarget::Prefix(prefix) => self.admits_key(prefix) || self.first.starts_with(prefix),
            FilterTarget::Range { .. } => true,
        }
    }

    pub(crate) fn admits_key(&self, key: &[u8]) -> bool {
        *key >= self.first[..] && cut(key) <= &self.last[..]
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        FIXED_BYTES + self.first.len() + self.last.len() + CHECKSUM_BYTES
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds are cut to 64 bytes")]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(self.encoded_bytes());
        header.extend([VERSION, self.first.len() as u8, self.last.len() as u8]);
        header.extend_from_slice(&self.first);
        header.extend_from_slice(&self.last);
        header.put_u32_le(crc32c::crc32c(&header));
        header
    }

    /// The range, and the bytes after its header.
    pub(crate) fn decode(data: &[u8]) -> Result<(Self, &[u8]), RangeError> {
        let [version, first, last] = *data.first_chunk().ok_or(RangeError::Damaged)?;
        if version != VERSION {
            return Err(RangeError::Version(version));
        }
        let (first, last) = (usize::from(first), usize::from(last));
        if first.max(last) > MAX_BOUND_BYTES {
            return Err(RangeError::Damaged);
        }
        let (header, rest) = data.split_at_checked(FIXED_BYTES + first + last).ok_or(RangeError::Damaged)?;
        let (checksum, block) = rest.split_first_chunk::<CHECKSUM_BYTES>().ok_or(RangeError::Damaged)?;
        if crc32c::crc32c(header) != u32::from_le_bytes(*checksum) {
            return Err(RangeError::Damaged);
        }
        let (first, last) = header[FIXED_BYTES..].split_at(first);
        Ok((Self::new(first, last), block))
    }
}
