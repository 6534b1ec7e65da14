//! `fastbloom`: a Bloom filter without blocks.

use fastbloom::BloomFilter;

use super::BLOOM_TEN;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

pub(super) struct FastBloom;

impl Subject for FastBloom {
    fn label(&self) -> Label {
        Label {
            implementation: "fastbloom",
            kind: "Bloom, 10 bits",
            family: Family::Bloom,
            hash: HashUse::Given,
            isa: None,
            against: BLOOM_TEN,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let mut filter = BloomFilter::with_num_bits(keys.len() * 10).expected_items(keys.len());
        for &hash in keys.numbers {
            filter.insert_hash(hash);
        }
        Ok(Box::new(filter))
    }
}

impl Filter for BloomFilter {
    fn bytes(&self) -> u64 {
        size_of_val(self.as_slice()) as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&hash| self.contains_hash(hash))
    }
}
