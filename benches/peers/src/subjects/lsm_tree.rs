//! `lsm-tree`, the engine below fjall: the Bloom filter of its tables.
//!
//! The parts are public but hidden from its documentation, so they may go away in any release. The engine
//! reads the filter's header at every probe; here it is read once, which is to its advantage.

use lsm_tree::table::filter::standard_bloom::{Builder, StandardBloomFilterReader};

use super::BLOOM_TEN;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

pub(super) struct StandardBloom;

impl Subject for StandardBloom {
    fn label(&self) -> Label {
        Label {
            implementation: "lsm-tree",
            kind: "Bloom, 10 bits",
            family: Family::Bloom,
            hash: HashUse::Given,
            isa: None,
            against: BLOOM_TEN,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let mut builder = Builder::with_bpk(keys.len(), 10.0);
        for &hash in keys.numbers {
            builder.set_with_hash(hash);
        }
        let bytes = builder.build();
        StandardBloomFilterReader::new(&bytes)?;
        Ok(Box::new(Built(bytes)))
    }
}

/// A filter that can be read.
struct Built(Vec<u8>);

impl Filter for Built {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        let reader = StandardBloomFilterReader::new(&self.0).expect("it was read when it was built");
        count_where(keys.numbers, |&hash| reader.contains_hash(hash))
    }
}
