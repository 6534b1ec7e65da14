//! Helpers for bytes: items with their lengths, a cursor, the order of keys, checksums.

use core::cmp::Ordering;

use crc32c::crc32c as checksum;
use sstfilter::internal::Fields;
use sstfilter::internal::varint::{put_varint, take_varint};

/// Bytes of a filter's line, and its best alignment: one cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Words that [`compare`] compares inline; a longer common prefix is left to the library's function.
const INLINE_WORDS: usize = 4;

/// Compares two keys. Inline, because a call for each key takes as long as hashing it, and builders compare every key.
#[inline]
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (left_words, right_words) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
    let mut words = left_words.iter().zip(right_words).take(INLINE_WORDS);
    words.find(|(left, right)| left != right).map_or_else(|| left.cmp(right), |(left, right)| left.cmp(right))
}

/// Appends a varint with the length of `item`, then its bytes.
pub(crate) fn put_item(out: &mut Vec<u8>, item: &[u8]) {
    put_varint(out, item.len() as u64);
    out.extend_from_slice(item);
}

/// A cursor that reads bytes from the front. A read past the end returns `None`, and takes nothing.
#[derive(Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn fields<const BYTES: usize>(&mut self) -> Option<Fields<'a, BYTES>> {
        let (fields, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Fields::of(fields))
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, rest) = take_varint(self.0)?;
        self.0 = rest;
        Some(value)
    }

    /// Reads an item that [`put_item`] wrote.
    pub(crate) fn item(&mut self) -> Option<&'a [u8]> {
        let count = self.varint()?;
        self.bytes(usize::try_from(count).ok()?)
    }
}

/// Returns the checksum of bytes that end with their own checksum, without the latter: the CRC32C over both is a
/// constant.
pub(crate) fn checksum_without_last(bytes: &[u8]) -> u32 {
    checksum(bytes.split_last_chunk::<4>().map_or(bytes, |(covered, _)| covered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_compare_as_bytes() {
        let long: Vec<u8> = (0..100).collect();
        let mut keys: Vec<Vec<u8>> = (0..100).map(|length| long[..length].to_vec()).collect();
        for position in [0, 6, 7, 8, 15, 16, 31, 32, 33, 63] {
            let mut key = long.clone();
            key[position] ^= 0x80;
            keys.extend([key[..=position].to_vec(), key]);
        }
        for (left, right) in keys.iter().flat_map(|left| keys.iter().map(move |right| (left, right))) {
            assert_eq!(compare(left, right), left.cmp(right), "{left:?} {right:?}");
        }
    }

    #[test]
    fn a_cursor_reads_from_the_front_and_never_past_the_end() {
        let mut bytes = vec![7, 1, 2];
        put_item(&mut bytes, b"an item");
        put_item(&mut bytes, &[9; 200]);
        let mut cursor = Cursor(&bytes);
        assert_eq!((cursor.varint(), cursor.fields::<2>().unwrap().u16::<0>()), (Some(7), 0x0201));
        assert_eq!((cursor.item(), cursor.item()), (Some(&b"an item"[..]), Some(&[9; 200][..])));
        assert!(cursor.varint().is_none() && cursor.fields::<1>().is_none() && cursor.bytes(0).is_some());
        assert!(Cursor(&bytes[3..10]).item().is_none() && Cursor(&[1]).bytes(usize::MAX).is_none());
    }
}
