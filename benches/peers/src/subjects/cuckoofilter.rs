//! `cuckoofilter`: 8-bit fingerprints in buckets of four, a power of two of them.
//!
//! It hashes its input, here the 64-bit number, with the standard library's default hasher. When it reports that it is
//! full, it has dropped a key, so the filter is rebuilt with twice the capacity; the figures include that.

use std::collections::hash_map::DefaultHasher;

use cuckoofilter::{CuckooError, CuckooFilter};

use super::CUCKOO_EIGHT;
use crate::keys::Keys;
use crate::subject::{BuildResult, Family, Filter, HashUse, Label, Subject, count_where};

pub(super) struct Cuckoo;

impl Subject for Cuckoo {
    fn label(&self) -> Label {
        Label {
            implementation: "cuckoofilter",
            kind: "cuckoo, 8 bits",
            family: Family::Dynamic,
            hash: HashUse::Included,
            isa: None,
            against: CUCKOO_EIGHT,
        }
    }

    fn build(&self, keys: Keys<'_>) -> BuildResult {
        let filter = filled(keys.len(), keys).or_else(|_| filled(keys.len() * 2, keys))?;
        Ok(Box::new(filter))
    }
}

fn filled(capacity: usize, keys: Keys<'_>) -> Result<CuckooFilter<DefaultHasher>, CuckooError> {
    let mut filter = CuckooFilter::with_capacity(capacity);
    keys.numbers.iter().try_for_each(|key| filter.add(key))?;
    Ok(filter)
}

impl Filter for CuckooFilter<DefaultHasher> {
    fn bytes(&self) -> u64 {
        self.memory_usage() as u64
    }

    fn count(&self, keys: Keys<'_>) -> u64 {
        count_where(keys.numbers, |key| self.contains(key))
    }
}
