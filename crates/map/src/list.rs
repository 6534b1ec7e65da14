//! Lists: the files of a key that many files have.

use sstfilter::FileId;
use sstfilter::internal::varint::{put_varint, take_varint};

/// Bytes of the checksum of a list.
pub(crate) const LIST_CHECK_BYTES: usize = 4;

/// Returns the checksum of a list, which also shows that it is a list of this map and place.
pub(crate) fn list_check(map: u64, offset: u64, bytes: &[u8]) -> u32 {
    let place = [map, offset].map(u64::to_le_bytes);
    crc32c::crc32c_append(crc32c::crc32c(place.as_flattened()), bytes)
}

/// The bytes of the tail that no page has named so far. A writer names each byte once, in order. Readers refuse others,
/// so that forged pages cannot make them read the same bytes again and again.
#[derive(Clone, Debug)]
pub(crate) struct TailCursor {
    next: u64,
    end: u64,
}

impl TailCursor {
    pub(crate) const fn new(tail_bytes: u64) -> Self {
        Self { next: 0, end: tail_bytes }
    }

    /// Passes the bytes at `offset`. Returns false if some were passed before, or do not exist.
    pub(crate) fn pass(&mut self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes).filter(|end| offset >= self.next && *end <= self.end);
        self.next = end.unwrap_or(self.next);
        end.is_some()
    }

    /// Passes an outgrown page, and returns the cursor of its lists, which are before it.
    pub(crate) fn pass_outgrown(&mut self, (offset, bytes): (u64, u64)) -> Option<Self> {
        let next = self.next;
        self.pass(offset, bytes).then_some(Self { next, end: offset })
    }
}

/// Splits the checksum off a list.
pub(crate) fn split_check(bytes: &[u8]) -> Option<(&[u8], &[u8; LIST_CHECK_BYTES])> {
    bytes.split_last_chunk()
}

/// Returns the ids of a list, if its checksum is right.
pub(crate) fn checked_list(bytes: &[u8], map: FileId, offset: u64) -> Option<&[u8]> {
    let (ids, stored) = split_check(bytes)?;
    (u32::from_le_bytes(*stored) == list_check(map.fingerprint(), offset, ids)).then_some(ids)
}

/// Encodes ascending ids as varints: the first one, and the distances to the next ones, less 1.
pub(crate) fn encode_ids(ids: &[u32]) -> Vec<u8> {
    let (mut out, mut next) = (Vec::with_capacity(ids.len() * 2), 0);
    for &id in ids {
        put_varint(&mut out, u64::from(id) - next);
        next = u64::from(id) + 1;
    }
    out
}

/// The ids of a list, without its checksum. Those of a forged list ascend, too.
#[derive(Clone, Debug)]
pub(crate) struct ListIds<'a> {
    bytes: &'a [u8],
    next: u64,
}

impl<'a> ListIds<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, next: 0 }
    }
}

impl Iterator for ListIds<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        // Nothing follows a damaged number.
        let (id, rest) = take_id(core::mem::take(&mut self.bytes), self.next)?;
        (self.bytes, self.next) = (rest, u64::from(id) + 1);
        Some(id)
    }
}

/// Takes an id from the front of a list; `next` is the least that may follow. All by value and never inlined: the few
/// candidates with a list must not keep those without one, which are the same type, out of registers.
#[inline(never)]
fn take_id(bytes: &[u8], next: u64) -> Option<(u32, &[u8])> {
    let (distance, rest) = take_varint(bytes)?;
    Some((u32::try_from(next.checked_add(distance)?).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_distance_are_decoded() {
        for near in [0, 1 << 7, 1 << 14, 1 << 21, 1 << 28_u32] {
            for distance in near.max(2) - 2..near + 3 {
                for first in [0, 5, distance] {
                    let ids: Vec<u32> = (0..3).map(|step| first + step * (distance + 1)).collect();
                    assert_eq!(ListIds::new(&encode_ids(&ids)).collect::<Vec<_>>(), ids);
                }
            }
        }
    }
}
