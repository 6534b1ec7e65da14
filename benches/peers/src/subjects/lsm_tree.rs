//! `lsm-tree`, the engine below fjall: the Bloom filter of its tables.
//!
//! The parts are public but hidden from its documentation, so they may go away in any release. The engine
//! reads the filter's header at every probe; here it is read once, which is to its advantage.

use lsm_tree::table::filter::standard_bloom::{Builder, StandardBloomFilterReader};

use super::BLOOM_TEN;
use crate::keys::Keys;
use crate::subject::{Family, Filter, Label, Queries, Subject, count_where};

pub(super) fn subject() -> Box<dyn Subject> {
    Label::of("lsm-tree", "Bloom, 10 bits", Family::Bloom, BLOOM_TEN).built_by(|keys| {
        let mut builder = Builder::with_bpk(keys.len(), 10.0);
        keys.numbers.iter().for_each(|&hash| builder.set_with_hash(hash));
        let bytes = builder.build();
        StandardBloomFilterReader::new(&bytes)?;
        Ok(Box::new(Built(bytes)))
    })
}

struct Built(Vec<u8>);

impl Filter for Built {
    fn bytes(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }

    fn count(&mut self, keys: Keys<'_>) -> u64 {
        let reader = StandardBloomFilterReader::new(&self.0).expect("it was read when it was built");
        count_where(keys.numbers, |&hash| reader.contains_hash(hash))
    }
}
