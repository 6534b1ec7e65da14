//! Building: one pass, any order.

use super::group::GroupedHashes;
use super::shape::BloomShape;
use crate::codec::AlignedBuffer;
use crate::filter::FilterShape;
use crate::hash::KeyHash;
use crate::kernel::line;

/// Keys that wait until there are enough of them to fetch their lines ahead of their use.
const STAGED_KEYS: usize = 256;

/// A blocked Bloom payload that takes keys.
#[derive(Debug)]
pub(crate) struct BloomBits {
    shape: BloomShape,
    payload: AlignedBuffer,
    /// Keys that were added one by one and are not in the payload yet.
    staged: Box<[KeyHash; STAGED_KEYS]>,
    staged_keys: usize,
    scratch_limit: u64,
    scratch_bytes: u64,
}

impl BloomBits {
    /// All lines empty. `tail_capacity` bytes are kept free behind the payload. `None` when there
    /// is no such memory.
    pub(crate) fn new(shape: BloomShape, tail_capacity: usize) -> Option<Self> {
        let payload = AlignedBuffer::zeroed(shape.payload_bytes(), tail_capacity)?;
        let staged = Box::new([KeyHash::from_well_mixed(0); STAGED_KEYS]);
        Some(Self { shape, payload, staged, staged_keys: 0, scratch_limit: u64::MAX, scratch_bytes: 0 })
    }

    /// Limits what inserting takes beside the payload.
    pub(crate) fn with_scratch_limit(self, bytes: Option<u64>) -> Self {
        Self { scratch_limit: bytes.unwrap_or(u64::MAX), ..self }
    }

    /// The most that inserting has taken beside the payload.
    pub(crate) fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    pub(crate) fn shape(&self) -> BloomShape {
        self.shape
    }

    #[inline]
    pub(crate) fn insert(&mut self, hash: KeyHash) {
        if self.staged_keys == STAGED_KEYS {
            self.insert_staged();
        }
        self.staged[self.staged_keys] = hash;
        self.staged_keys += 1;
    }

    /// Inserts many; a filter that does not fit in the caches has them grouped first.
    pub(crate) fn insert_all(&mut self, hashes: &[KeyHash]) {
        match GroupedHashes::worthwhile(self.shape, hashes, self.scratch_limit) {
            Some(mut grouped) => {
                self.scratch_bytes = self.scratch_bytes.max(grouped.bytes());
                while let Some(group) = grouped.next_chunk() {
                    insert_into(&mut self.payload, self.shape, group);
                }
            }
            None => insert_into(&mut self.payload, self.shape, hashes),
        }
    }

    #[cold]
    fn insert_staged(&mut self) {
        insert_into(&mut self.payload, self.shape, &self.staged[..self.staged_keys]);
        self.staged_keys = 0;
    }

    /// The payload of all keys.
    pub(crate) fn into_payload(mut self) -> AlignedBuffer {
        self.insert_staged();
        self.payload
    }
}

fn insert_into(payload: &mut AlignedBuffer, shape: BloomShape, hashes: &[KeyHash]) {
    let (lines, _) = payload.as_mut_slice().as_chunks_mut();
    line::insert_batch(lines, shape.probes(), hashes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BitsPerKey;

    fn build(keys: u64, size: BitsPerKey) -> (BloomShape, AlignedBuffer) {
        let mut bits = BloomBits::new(BloomShape::for_keys(keys, size).unwrap(), 0).unwrap();
        (0..keys).for_each(|key| bits.insert(KeyHash::from_remixed(key)));
        (bits.shape(), bits.into_payload())
    }

    #[test]
    fn every_key_added_is_found_at_every_size() {
        for millibits in (1_000..=100_000).step_by(3_300) {
            let size = BitsPerKey::from_millibits(millibits).unwrap();
            for keys in [0, 1, 2, 3, 7, 63, 64, 65, 1_000] {
                let (shape, payload) = build(keys, size);
                assert_eq!(payload.as_slice().len() as u64, shape.payload_bytes());
                assert!((0..keys).all(|key| shape.may_contain(payload.as_slice(), KeyHash::from_remixed(key))));
            }
        }
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        let (shape, payload) = build(0, BitsPerKey::TEN);
        assert!((0..1_000).all(|key| !shape.may_contain(payload.as_slice(), KeyHash::from_remixed(key))));
    }

    #[test]
    fn grouped_staged_and_plain_inserts_give_the_same_bytes() {
        let shape = BloomShape::for_keys(27_000_000, BitsPerKey::TEN).unwrap();
        let hashes: Vec<KeyHash> = (0..1_200_000).map(KeyHash::from_remixed).collect();
        let build = |scratch_limit, insert: fn(&mut BloomBits, &[KeyHash])| {
            let mut bits = BloomBits::new(shape, 0).unwrap().with_scratch_limit(scratch_limit);
            insert(&mut bits, &hashes);
            (bits.scratch_bytes(), bits.into_payload())
        };
        let (plain_scratch, plain) = build(Some(0), BloomBits::insert_all);
        let (grouped_scratch, grouped) = build(None, BloomBits::insert_all);
        let (_, staged) = build(None, |bits, hashes| hashes.iter().for_each(|&hash| bits.insert(hash)));
        assert_eq!((plain_scratch, grouped_scratch), (0, 8 * 1_200_000));
        assert!(plain.as_slice() == grouped.as_slice() && plain.as_slice() == staged.as_slice());
        assert!(hashes.iter().all(|&hash| shape.may_contain(plain.as_slice(), hash)));
    }
}
