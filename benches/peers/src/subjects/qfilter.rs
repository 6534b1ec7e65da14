//! `qfilter`: a quotient filter, a power of two of slots.

use qfilter::Filter as QuotientFilter;

use super::CUCKOO_ELEVEN;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

pub(super) struct Quotient;

impl Subject for Quotient {
    fn label(&self) -> Label {
        Label {
            implementation: "qfilter",
            kind: "quotient, 1 %",
            family: Family::Dynamic,
            hash: HashUse::Given,
            isa: None,
            against: CUCKOO_ELEVEN,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let mut filter = QuotientFilter::new(keys.len() as u64, 0.01)?;
        for &hash in keys.numbers {
            filter.insert_fingerprint(false, hash)?;
        }
        Ok(Box::new(filter))
    }
}

impl Filter for QuotientFilter {
    fn bytes(&self) -> u64 {
        self.memory_usage() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |&hash| self.contains_fingerprint(hash))
    }
}
