//! `sbbf-rs-safe`: the split block Bloom filter of Parquet.

use sbbf_rs_safe::Filter as Sbbf;

use super::BLOOM_TEN;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

pub(super) struct SplitBlock;

impl Subject for SplitBlock {
    fn label(&self) -> Label {
        Label {
            implementation: "sbbf-rs-safe",
            kind: "split block Bloom, 10 bits",
            family: Family::Bloom,
            hash: HashUse::Given,
            isa: None,
            against: BLOOM_TEN,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let mut filter = Sbbf::new(10, keys.len());
        for &hash in keys.numbers {
            filter.insert_hash(hash);
        }
        Ok(Box::new(filter))
    }
}

impl Filter for Sbbf {
    fn bytes(&self) -> u64 {
        self.as_bytes().len() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&hash| self.contains_hash(hash))
    }
}
