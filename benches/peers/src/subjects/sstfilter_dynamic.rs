//! Our dynamic filters, in memory as in an engine.

use sstfilter::{CuckooFilter, DynamicFilter, HashIdentity, MatchBitmap};

use super::sstfilter::NAME;
use super::{CUCKOO_EIGHT, CUCKOO_ELEVEN};
use crate::keys::Keys;
use crate::subject::{Family, Filter, Label, Queries, Subject, count_batches, count_where};

/// Our cuckoo filters, planned for their keys, with tags of some widths.
pub(super) fn subjects() -> [Box<dyn Subject>; 3] {
    [(CUCKOO_EIGHT, 8), (CUCKOO_ELEVEN, 11), ("cuckoo, 16 bits", 16)].map(|(kind, tag_bits)| {
        Label::of(NAME, kind, Family::Dynamic, kind).built_by(move |keys| {
            let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), keys.len() as u64, tag_bits)?;
            filter.insert_all(keys.hashes)?;
            let bytes = filter.block_bytes();
            Ok(Box::new(InMemory::new(filter, bytes)))
        })
    })
}

/// A dynamic filter, with its bytes in memory.
pub(super) struct InMemory<F> {
    filter: F,
    bytes: u64,
    matches: MatchBitmap,
}

impl<F> InMemory<F> {
    pub(super) fn new(filter: F, bytes: u64) -> Self {
        Self { filter, bytes, matches: MatchBitmap::default() }
    }
}

impl<F: DynamicFilter> Filter for InMemory<F> {
    fn bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn count(&mut self, keys: Keys<'_>) -> u64 {
        count_where(keys.hashes, |&hash| self.filter.contains(hash))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        let filter = &self.filter;
        Some(count_batches(keys.hashes, &mut self.matches, |batch, matches| filter.contains_batch(batch, matches)))
    }
}
