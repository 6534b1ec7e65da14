//! `sbbf-rs-safe`: the split block Bloom filter of Parquet.

use sbbf_rs_safe::Filter as Sbbf;

use super::BLOOM_TEN;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

/// Filters of some size in tenths of a bit per key.
struct SplitBlock {
    kind: &'static str,
    tenths_of_bits: usize,
}

/// The usual size, and the size at which the false positive rate equals that of our filter of 10 bits: 0.97 %, by the
/// formula for 8 bits in lines of 256 and by observation.
pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    [("split block Bloom, 10 bits", 100), ("split block Bloom, 10.6 bits", 106)]
        .map(|(kind, tenths_of_bits)| Box::new(SplitBlock { kind, tenths_of_bits }) as Box<dyn Subject>)
}

impl Subject for SplitBlock {
    fn label(&self) -> Label {
        Label {
            implementation: "sbbf-rs-safe",
            kind: self.kind,
            family: Family::Bloom,
            hash: HashUse::Given,
            isa: None,
            against: BLOOM_TEN,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        // The crate takes whole bits per key, so the number of keys carries the fraction.
        let mut filter = Sbbf::new(1, keys.len() * self.tenths_of_bits / 10);
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
