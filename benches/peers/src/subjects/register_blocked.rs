//! Ours for many threads: the register-blocked Bloom filter, filled by one.
//!
//! Its size is a power of two, so between 8 and 16 bits per key here, and its rate differs with it.

use sstfilter::{HashIdentity, RegisterBlockedBloom, WordLayout};

use super::sstfilter::NAME;
use super::sstfilter_dynamic::InMemory;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, HashUse, Label, Subject};

struct RegisterBlocked {
    kind: &'static str,
    layout: WordLayout,
}

/// The layout of two bits, and the one of four.
pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    [("register-blocked Bloom", WordLayout::TwoBits), ("register-blocked Bloom, 4 bits", WordLayout::FourBits)]
        .map(|(kind, layout)| Box::new(RegisterBlocked { kind, layout }) as Box<dyn Subject>)
}

impl Subject for RegisterBlocked {
    fn label(&self) -> Label {
        Label {
            implementation: NAME,
            kind: self.kind,
            family: Family::Bloom,
            hash: HashUse::Given,
            isa: None,
            against: self.kind,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let bytes = (keys.len() as u64).next_power_of_two().max(64);
        let filter = RegisterBlockedBloom::with_shape(HashIdentity::default(), bytes, self.layout)?;
        filter.insert_all(keys.hashes);
        let bytes = filter.bytes();
        Ok(Box::new(InMemory::new(filter, bytes)))
    }
}
