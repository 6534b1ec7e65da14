//! Our dynamic filters, in memory as in an engine.

use sstfilter::{CuckooFilter, DynamicFilter, HashIdentity, RegisterBlockedBloom};

use super::sstfilter::{NAME, built};
use super::{CUCKOO_EIGHT, CUCKOO_ELEVEN};
use crate::subject::{Family, Label, Queries, Subject};

/// Our cuckoo filters, planned for their keys, with tags of some widths.
pub(super) fn cuckoo() -> [Box<dyn Subject>; 3] {
    [(CUCKOO_EIGHT, 8), (CUCKOO_ELEVEN, 11), ("cuckoo, 16 bits", 16)].map(|(kind, tag_bits)| {
        Label::of(NAME, kind, Family::Dynamic, kind).built_by(move |keys| {
            let mut filter = CuckooFilter::with_tag_bits(HashIdentity::default(), keys.len() as u64, tag_bits)?;
            filter.insert_all(keys.hashes)?;
            let bytes = filter.block_bytes();
            built((filter, bytes), None, CuckooFilter::contains, CuckooFilter::contains_batch)
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
            built((filter, bytes), None, RegisterBlockedBloom::contains, RegisterBlockedBloom::contains_batch)
        })
    })
}
