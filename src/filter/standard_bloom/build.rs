//! Sets the bits of keys.

use alloc::boxed::Box;

use super::params::{ANY_PROBES, BloomParams, with_probes};
use super::shape::{Bit, Cell, StandardBloomShape, prefetch_cells};
use crate::codec::AlignedBuffer;
use crate::filter::StreamedPayload;
use crate::filter::cache::BIT_INSERT_PREFETCH_BYTES;
use crate::filter::dynamic::InMemory;
use crate::hash::KeyHash;
use crate::kernel::prefetch::prefetch;

/// Half of [`KEYS_AHEAD`](crate::filter::cache::KEYS_AHEAD): an insert needs all bits of a key, a probe only the first
/// few, so both have as many lines in flight.
const AHEAD: usize = 8;

/// A payload under construction for a file. It does not count new keys, which would take a quarter longer.
impl StreamedPayload for InMemory<StandardBloomShape> {
    fn insert_all(&mut self, hashes: &[KeyHash]) {
        for_each(self.shape.params, self.payload.as_mut_slice(), hashes, |_| ());
    }

    fn into_payload(self: Box<Self>) -> AlignedBuffer {
        self.payload
    }
}

/// Sets a key's bits and returns whether any of them was clear.
#[inline]
pub(super) fn insert(params: BloomParams, payload: &mut [u8], hash: KeyHash) -> bool {
    let (words, _) = payload.as_chunks_mut();
    set_bits::<ANY_PROBES>(params, words, hash) & 1 == 0
}

/// Inserts many keys and returns how many of them set a clear bit.
pub(super) fn insert_all(params: BloomParams, payload: &mut [u8], hashes: &[KeyHash]) -> u64 {
    let mut new = 0;
    for_each(params, payload, hashes, |was_set| new += u64::from(was_set & 1 == 0));
    new
}

/// Inserts each key, and passes to `tell` in bit 0 whether all its bits were already set.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the compiler drops results that `tell` ignores")]
fn for_each(params: BloomParams, payload: &mut [u8], hashes: &[KeyHash], mut tell: impl FnMut(u64)) {
    // In a small filter every key counts as far, so that none is prefetched.
    let ahead = if payload.len() <= BIT_INSERT_PREFETCH_BYTES { hashes.len() } else { AHEAD };
    let (words, _) = payload.as_chunks_mut();
    with_probes!(params, PROBES => {
        // The last `ahead` keys have nothing to prefetch ahead of them.
        let (near, far) = hashes.split_at(hashes.len() - hashes.len().min(ahead));
        for (&hash, &coming) in near.iter().zip(hashes.iter().skip(ahead)) {
            prefetch_cells::<Bit, _>(params, words, coming, params.probes_or::<PROBES>(), prefetch);
            tell(set_bits::<PROBES>(params, words, hash));
        }
        far.iter().for_each(|&hash| tell(set_bits::<PROBES>(params, words, hash)));
    });
}

/// Sets a key's bits. Bit 0 of the result is 1 if all of them were set before.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn set_bits<const PROBES: u8>(params: BloomParams, words: &mut [[u8; 8]], hash: KeyHash) -> u64 {
    let mut sequence = params.sequence(hash);
    let mut was_set = 1;
    for _ in 0..params.probes_or::<PROBES>() {
        let position = sequence.next();
        let Some(bytes) = words.get_mut(Bit::word_of(position)) else { return was_set };
        let word = u64::from_le_bytes(*bytes);
        was_set &= Bit::taken(word, position);
        *bytes = (word | 1 << (position & 63)).to_le_bytes();
    }
    was_set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterShape;
    use crate::hash::HashIdentity;
    use crate::units::BitsPerKey;

    fn hashes(keys: u64) -> Vec<KeyHash> {
        (0..keys).map(KeyHash::mix).collect()
    }

    fn empty(shape: StandardBloomShape) -> Vec<u8> {
        vec![0; shape.payload_bytes() as usize]
    }

    #[test]
    fn keys_inserted_one_by_one_and_at_once_give_the_same_bytes_and_counts() {
        for (keys, size) in [(0, 1.0), (1, 10.0), (1_000, 3.0), (30_000, 10.0), (400_000, 10.0)] {
            let shape = StandardBloomShape::for_keys(keys, BitsPerKey::new(size).unwrap());
            let (mut single, mut at_once, params) = (empty(shape), empty(shape), shape.params);
            let new = hashes(keys).into_iter().filter(|&hash| insert(params, &mut single, hash)).count();
            assert_eq!(insert_all(params, &mut at_once, &hashes(keys)), new as u64);
            assert!(single == at_once, "{keys} keys");
            assert_eq!(insert_all(params, &mut at_once, &hashes(keys)), 0, "{keys} keys again");
            let mut builder = InMemory::empty(HashIdentity::default(), shape).unwrap();
            StreamedPayload::insert_all(&mut builder, &hashes(keys));
            assert!(StreamedPayload::into_payload(Box::new(builder)).as_slice() == at_once, "{keys} keys");
        }
    }

    #[test]
    fn every_key_is_found_at_every_size_one_by_one_and_in_batches() {
        for keys in [0, 1, 2, 6, 7, 63, 64, 65, 1_000, 300_000] {
            for size in [1.0, 2.5, 3.7, 5.1, 6.6, 10.0, 47.0, 100.0] {
                let shape = StandardBloomShape::for_keys(keys, BitsPerKey::new(size).unwrap());
                let (mut payload, hashes) = (empty(shape), hashes(keys));
                insert_all(shape.params, &mut payload, &hashes);
                assert!(hashes.iter().all(|&hash| shape.may_contain(&payload, hash)), "{keys} at {size}");
                let mut matches = vec![0; hashes.len().div_ceil(64)];
                shape.may_contain_batch(&payload, &hashes, &mut matches);
                let count = matches.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                assert_eq!(count, keys, "{keys} at {size}");
            }
        }
    }
}
