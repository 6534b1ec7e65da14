//! Bits that take keys.

use super::probe::{Cell, Word, fetch_cells};
use super::shape::{Bit, StandardBloomShape, ones};
use super::spread::{ANY_PROBES, Spread, with_probes};
use crate::codec::AlignedBuffer;
use crate::filter::FilterShape;
use crate::hash::KeyHash;

/// Payloads of so many words are filled without fetching ahead: several keys at a time are under way in the CPU anyway,
/// which is as good unless the bits come from memory.
const NEAR_WORDS: usize = 2 << 20;

/// Keys whose bits are fetched ahead of the one that is inserted.
const AHEAD: usize = 8;

/// A standard Bloom payload that takes keys.
#[derive(Debug)]
pub(crate) struct StandardBits {
    shape: StandardBloomShape,
    payload: AlignedBuffer,
}

impl StandardBits {
    /// All bits clear. `tail_capacity` bytes are kept free behind the payload. `None` when there is no such memory.
    pub(crate) fn new(shape: StandardBloomShape, tail_capacity: usize) -> Option<Self> {
        Some(Self { shape, payload: AlignedBuffer::zeroed(shape.payload_bytes(), tail_capacity)? })
    }

    /// The bits of a filter that is taken up, or made in memory.
    pub(crate) fn from_payload(shape: StandardBloomShape, payload: AlignedBuffer) -> Self {
        Self { shape, payload }
    }

    pub(crate) fn shape(&self) -> StandardBloomShape {
        self.shape
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.payload.as_slice()
    }

    /// The bits, to be written over. Those behind the last position have no meaning, and must stay clear.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.payload.as_mut_slice()
    }

    /// Ones.
    pub(crate) fn ones(&self) -> u64 {
        ones(self.as_slice())
    }

    /// Sets a key's bits; whether any of them was clear.
    #[inline]
    pub(crate) fn insert(&mut self, hash: KeyHash) -> bool {
        let (words, _) = self.payload.as_mut_slice().as_chunks_mut();
        set_bits::<ANY_PROBES>(self.shape.spread(), words, hash) & 1 == 0
    }

    /// Inserts many; how many of them set a bit that was clear.
    pub(crate) fn insert_all(&mut self, hashes: &[KeyHash]) -> u64 {
        let mut new = 0;
        self.for_each(hashes, |was_set| new += u64::from(was_set & 1 == 0));
        new
    }

    /// Inserts many, without telling new ones, which would take a quarter longer.
    pub(crate) fn insert_uncounted(&mut self, hashes: &[KeyHash]) {
        self.for_each(hashes, |_| ());
    }

    /// Inserts each, and hands over whether its bits were all set: bit 0 says so.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is not asked for is not computed")]
    fn for_each(&mut self, hashes: &[KeyHash], mut tell: impl FnMut(u64)) {
        let spread = self.shape.spread();
        let (words, _) = self.payload.as_mut_slice().as_chunks_mut();
        with_probes!(spread, PROBES => {
            let ahead = if words.len() <= NEAR_WORDS { hashes.len() } else { AHEAD };
            let (near, far) = hashes.split_at(hashes.len() - hashes.len().min(ahead));
            for (&hash, &coming) in near.iter().zip(hashes.iter().skip(ahead)) {
                fetch_cells::<Bit>(spread, words, coming, spread.probes_or::<PROBES>());
                tell(set_bits::<PROBES>(spread, words, hash));
            }
            far.iter().for_each(|&hash| tell(set_bits::<PROBES>(spread, words, hash)));
        });
    }

    /// The payload of all keys.
    pub(crate) fn into_payload(self) -> AlignedBuffer {
        self.payload
    }
}

/// Sets a key's bits. Bit 0 says whether they were all set.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the body of loops over keys")]
fn set_bits<const PROBES: u8>(spread: Spread, words: &mut [Word], hash: KeyHash) -> u64 {
    let mut walk = spread.walk(hash);
    let mut was_set = 1;
    for _ in 0..spread.probes_or::<PROBES>() {
        let position = walk.next();
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
    use crate::units::BitsPerKey;

    fn hashes(keys: u64) -> Vec<KeyHash> {
        (0..keys).map(KeyHash::from_remixed).collect()
    }

    #[test]
    fn keys_inserted_one_by_one_and_at_once_give_the_same_bytes_and_counts() {
        for (keys, size) in [(0, 1.0), (1, 10.0), (1_000, 3.0), (30_000, 10.0), (400_000, 10.0)] {
            let shape = StandardBloomShape::for_keys(keys, BitsPerKey::new(size).unwrap());
            let (mut single, mut at_once) =
                (StandardBits::new(shape, 0).unwrap(), StandardBits::new(shape, 0).unwrap());
            let new = hashes(keys).into_iter().filter(|&hash| single.insert(hash)).count();
            assert_eq!(at_once.insert_all(&hashes(keys)), new as u64);
            assert!(single.as_slice() == at_once.as_slice(), "{keys} keys");
            assert_eq!(at_once.insert_all(&hashes(keys)), 0, "{keys} keys again");
        }
    }

    #[test]
    fn every_key_is_found_at_every_size_one_by_one_and_in_batches() {
        for keys in [0, 1, 2, 6, 7, 63, 64, 65, 1_000, 300_000] {
            for size in [1.0, 2.5, 3.7, 5.1, 6.6, 10.0, 47.0, 100.0] {
                let shape = StandardBloomShape::for_keys(keys, BitsPerKey::new(size).unwrap());
                let mut bits = StandardBits::new(shape, 0).unwrap();
                let hashes = hashes(keys);
                bits.insert_all(&hashes);
                assert!(hashes.iter().all(|&hash| shape.may_contain(bits.as_slice(), hash)), "{keys} at {size}");
                let mut hits = vec![0; hashes.len().div_ceil(64)];
                shape.may_contain_batch(bits.as_slice(), &hashes, &mut hits);
                assert_eq!(hits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(), keys, "{keys} at {size}");
            }
        }
    }
}
