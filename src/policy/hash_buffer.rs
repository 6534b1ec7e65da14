//! The hashes of one file, buffered until the filter's size is known.

use crate::hash::{KeyHash, SortScratch, partition_hashes, sort_hashes};

/// Hashes in order of arrival, without adjacent repetitions.
#[derive(Debug, Default)]
pub(crate) struct HashBuffer {
    hashes: Vec<KeyHash>,
    added: u64,
}

impl HashBuffer {
    pub(crate) fn add(&mut self, hash: KeyHash) {
        self.added += 1;
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    pub(crate) fn add_all(&mut self, hashes: &[KeyHash]) {
        self.added += hashes.len() as u64;
        for run in hashes.chunk_by(|left, right| left != right) {
            // Every run but the first begins with the last hash of the previous run.
            let is_repeated = run.first() == self.hashes.last();
            self.hashes.extend_from_slice(&run[usize::from(is_repeated)..]);
        }
    }

    /// Makes room for `more` hashes.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.hashes.reserve(more);
    }

    /// Keys added, repetitions included.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    pub(crate) fn as_slice(&self) -> &[KeyHash] {
        &self.hashes
    }

    pub(crate) fn len(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// Bytes that the buffer holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.hashes.capacity() as u64 * size_of::<KeyHash>() as u64
    }

    /// Partitions the hashes into windows by their high bits, using at most `most_bytes`; `false` if that is not
    /// enough.
    pub(crate) fn partition(&mut self, scratch: &mut SortScratch, most_bytes: u64) -> bool {
        partition_hashes(&mut self.hashes, scratch, most_bytes)
    }

    /// The distinct hashes, ascending; sorting uses at most `most_bytes`.
    pub(crate) fn into_sorted_distinct(self, scratch: &mut SortScratch, most_bytes: u64) -> Vec<KeyHash> {
        let mut hashes = self.hashes;
        sort_hashes(&mut hashes, scratch, most_bytes);
        hashes.dedup();
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_dropped_when_adjacent_and_all_of_them_when_sorted() {
        let mut buffer = HashBuffer::default();
        [3, 3, 1, 3, 2, 2, 1].into_iter().for_each(|hash| buffer.add(KeyHash::from_well_mixed(hash)));
        assert_eq!((buffer.added(), buffer.len()), (7, 5));
        buffer.add_all(&[1, 1, 3, 3, 3, 2].map(KeyHash::from_well_mixed));
        assert_eq!((buffer.added(), buffer.len()), (13, 7));
        assert_eq!(
            buffer.into_sorted_distinct(&mut SortScratch::default(), u64::MAX),
            [1, 2, 3].map(KeyHash::from_well_mixed)
        );
    }
}
