//! Asking a payload, wherever it is.

use super::bucket::{Lanes, Word};
use super::shape::{CuckooShape, Place};
use crate::filter::probe_one_by_one;
use crate::hash::KeyHash;
use crate::kernel::prefetch::fetch;

/// Bytes of payload from which on buckets are fetched ahead of their use: what the nearer caches do not hold.
pub(super) const FAR_BYTES: usize = 2 << 20;

/// How many keys before its turn a key's buckets are fetched.
pub(super) const KEYS_AHEAD: usize = 16;

/// The buckets of a payload, as words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets<'a, W> {
    payload: &'a [u8],
    pub(super) lanes: Lanes<W>,
    bits: u64,
}

/// Where a bucket is: the byte at which a word is read, and the bit of the word at which the bucket begins.
///
/// A word that would end behind the payload is read further in front.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "payloads are as long as memory allows")]
pub(super) fn locate<W: Word>(payload_bytes: usize, bucket: u64, bucket_bits: u64) -> (usize, u32) {
    let bit = bucket * bucket_bits;
    let byte = ((bit / 8) as usize).min(payload_bytes - W::BYTES);
    (byte, (bit - byte as u64 * 8) as u32)
}

impl<'a, W: Word> Buckets<'a, W> {
    /// `None` when the payload is not as long as the shape says, and always at least a word.
    #[inline]
    pub(super) fn new(shape: CuckooShape, payload: &'a [u8]) -> Option<Self> {
        let is_whole = payload.len() as u64 == shape.payload_bytes() && payload.len() >= W::BYTES;
        let tag_bits = u32::from(shape.tag_bits());
        is_whole.then(|| Self { payload, lanes: Lanes::new(tag_bits), bits: u64::from(4 * tag_bits) })
    }

    #[inline]
    pub(super) fn get(&self, bucket: u64) -> W {
        let (byte, shift) = locate::<W>(self.payload.len(), bucket, self.bits);
        self.lanes.cut(W::read(self.payload, byte).unwrap_or(W::ZERO) >> shift)
    }

    #[inline]
    pub(super) fn may_contain(&self, place: &Place) -> bool {
        self.lanes.hold(self.get(place.first), place.tag) | self.lanes.hold(self.get(place.second), place.tag)
    }

    /// Starts to fetch both buckets of a key.
    #[inline]
    pub(super) fn fetch(&self, place: &Place) {
        for bucket in [place.first, place.second] {
            let (byte, _) = locate::<W>(self.payload.len(), bucket, self.bits);
            fetch(self.payload.as_ptr().wrapping_add(byte));
        }
    }
}

#[inline]
pub(super) fn may_contain(shape: CuckooShape, payload: &[u8], hash: KeyHash) -> bool {
    let place = shape.place(hash);
    if shape.is_narrow() {
        Buckets::<u64>::new(shape, payload).is_none_or(|buckets| buckets.may_contain(&place))
    } else {
        Buckets::<u128>::new(shape, payload).is_none_or(|buckets| buckets.may_contain(&place))
    }
}

pub(super) fn may_contain_batch(shape: CuckooShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    if shape.is_narrow() {
        batch::<u64>(shape, payload, hashes, hits);
    } else {
        batch::<u128>(shape, payload, hashes, hits);
    }
}

fn batch<W: Word>(shape: CuckooShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    let Some(buckets) = Buckets::<W>::new(shape, payload) else {
        return probe_one_by_one(&shape, payload, hashes, hits);
    };
    // Where a key belongs is computed twice: cheaper than to keep it from the fetch to the comparison.
    let mut ahead = hashes.get(KEYS_AHEAD..).filter(|_| payload.len() >= FAR_BYTES).unwrap_or_default().iter();
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        *word = chunk.iter().enumerate().fold(0, |word, (bit, &hash)| {
            if let Some(&next) = ahead.next() {
                buckets.fetch(&shape.place(next));
            }
            word | u64::from(buckets.may_contain(&shape.place(hash))) << bit
        });
    }
}

/// Tags in a payload of the shape's length.
pub(super) fn count(shape: CuckooShape, payload: &[u8]) -> Option<u64> {
    fn of<W: Word>(shape: CuckooShape, payload: &[u8]) -> Option<u64> {
        let buckets = Buckets::<W>::new(shape, payload)?;
        Some((0..shape.buckets()).map(|bucket| u64::from(buckets.lanes.count(buckets.get(bucket)))).sum())
    }
    if shape.is_narrow() { of::<u64>(shape, payload) } else { of::<u128>(shape, payload) }
}
