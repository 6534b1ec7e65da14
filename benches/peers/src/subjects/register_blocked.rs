//! Ours for many threads: the register-blocked Bloom filter, filled by one.
//!
//! Its size is a power of two, so between 8 and 16 bits per key here, and its rate differs with it.

use sstfilter::{DynamicFilter, HashIdentity, MatchBitmap, RegisterBlockedBloom, WordLayout};

use super::sstfilter::NAME;
use crate::keys::Keys;
use crate::subject::{BATCH_KEYS, BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

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
        Ok(Box::new(Built { filter, hits: MatchBitmap::default() }))
    }
}

struct Built {
    filter: RegisterBlockedBloom,
    hits: MatchBitmap,
}

impl Filter for Built {
    fn bytes(&self) -> u64 {
        self.filter.bytes()
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.hashes, |&hash| self.filter.contains(hash))
    }

    fn count_batch(&mut self, keys: Keys<'_>) -> Option<u64> {
        let batches = keys.hashes.chunks(BATCH_KEYS);
        Some(batches.fold(0, |sum, batch| {
            self.filter.contains_batch(batch, &mut self.hits);
            sum + self.hits.count()
        }))
    }
}
