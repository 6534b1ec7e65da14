//! Our filter for many threads: the register-blocked Bloom filter, filled by one.
//!
//! Its size is a power of two, so between 8 and 16 bits per key here, and its rate differs with it.

use sstfilter::{HashIdentity, RegisterBlockedBloom};

use super::sstfilter::NAME;
use super::sstfilter_dynamic::InMemory;
use crate::subject::{Family, Label, Queries, Subject};

/// Two bits of a key, and four.
pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    [("register-blocked Bloom", 2), ("register-blocked Bloom, 4 bits", 4)].map(|(kind, probes)| {
        Label::of(NAME, kind, Family::Bloom, kind).built_by(move |keys| {
            let bytes = (keys.len() as u64).next_power_of_two().max(64);
            let filter = RegisterBlockedBloom::with_shape(HashIdentity::default(), bytes, probes)?;
            filter.insert_all(keys.hashes);
            let bytes = filter.bytes();
            Ok(Box::new(InMemory::new(filter, bytes)))
        })
    })
}
