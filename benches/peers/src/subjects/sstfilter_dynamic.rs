//! Our dynamic filters, in memory as in an engine.

use sstfilter::{CuckooFilter, DynamicFilter, HashIdentity, MatchBitmap};

use super::sstfilter::NAME;
use super::{CUCKOO_EIGHT, CUCKOO_ELEVEN};
use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

/// Our cuckoo filter, planned for its keys, with tags of some width.
struct Cuckoo {
    kind: &'static str,
    tag_bits: u8,
}

/// All our kinds.
pub(super) fn subjects() -> Vec<Box<dyn Subject>> {
    let kinds = [(CUCKOO_EIGHT, 8), (CUCKOO_ELEVEN, 11), ("cuckoo, 16 bits", 16)];
    kinds.map(|(kind, tag_bits)| Box::new(Cuckoo { kind, tag_bits }) as Box<dyn Subject>).into()
}

impl Subject for Cuckoo {
    fn label(&self) -> Label {
        Label {
            implementation: NAME,
            kind: self.kind,
            family: Family::Dynamic,
            hash: HashUse::Given,
            isa: None,
            against: self.kind,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), keys.len() as u64, self.tag_bits)?;
        filter.insert_all(keys.hashes)?;
        let bytes = filter.block_bytes();
        Ok(Box::new(InMemory::new(filter, bytes)))
    }
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
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.hashes, |&hash| self.filter.contains(hash))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        let batches = keys.hashes.chunks(BATCH_KEYS);
        Some(batches.fold(0, |sum, batch| {
            self.filter.contains_batch(batch, &mut self.matches);
            sum + self.matches.count()
        }))
    }
}
