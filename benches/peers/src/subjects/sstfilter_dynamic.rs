//! Our dynamic filters, in memory as in an engine.

use sstfilter::{CuckooFilter, DynamicFilter, HashIdentity, MatchBitmap, RegisterBlockedBloom};

use super::sstfilter::NAME;
use super::{CUCKOO_EIGHT, CUCKOO_ELEVEN};
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, Label, Queries, Subject, count_batches, count_where};

/// Our cuckoo filters, planned for their keys, with tags of some widths.
pub(super) fn cuckoo() -> [Box<dyn Subject>; 3] {
    [(CUCKOO_EIGHT, 8), (CUCKOO_ELEVEN, 11), ("cuckoo, 16 bits", 16)].map(|(kind, tag_bits)| {
        Label::of(NAME, kind, Family::Dynamic, kind).built_by(move |keys| {
            let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), keys.len() as u64, tag_bits)?;
            filter.insert_all(keys.hashes)?;
            let bytes = filter.block_bytes();
            in_memory(filter, bytes)
        })
    })
}

/// Our filter for many threads: the register-blocked Bloom filter, filled by one, with two bits of a key and with four.
///
/// Its size is a power of two, so between 8 and 16 bits per key here, and its rate differs with it.
pub(super) fn register_blocked() -> [Box<dyn Subject>; 2] {
    [("register-blocked Bloom", 2), ("register-blocked Bloom, 4 bits", 4)].map(|(kind, probes)| {
        Label::of(NAME, kind, Family::Bloom, kind).built_by(move |keys| {
            let bytes = (keys.len() as u64).next_power_of_two().max(64);
            let filter = RegisterBlockedBloom::with_shape(HashIdentity::default(), bytes, probes)?;
            filter.insert_all(keys.hashes);
            let bytes = filter.bytes();
            in_memory(filter, bytes)
        })
    })
}

/// A dynamic filter, with its bytes in memory.
struct InMemory<F> {
    filter: F,
    bytes: u64,
    matches: MatchBitmap,
}

#[expect(clippy::unnecessary_wraps, reason = "the last call of a build")]
fn in_memory<F: DynamicFilter + 'static>(filter: F, bytes: u64) -> BuildResult {
    Ok(Box::new(InMemory { filter, bytes, matches: MatchBitmap::default() }))
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
