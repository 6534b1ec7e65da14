//! `cuckoofilter`: 8-bit fingerprints in buckets of four, a power of two of them.
//!
//! It hashes its input, here the 64-bit number, with the standard library's default hasher. When it reports that it is
//! full, it has dropped a key, so the filter is rebuilt with twice the capacity; the figures include that.

use std::collections::hash_map::DefaultHasher;

use cuckoofilter::{CuckooError, CuckooFilter};

use super::CUCKOO_EIGHT;
use crate::keys::Keys;
use crate::subject::{Family, HashUse, Label, Queries, Subject, built};

pub(super) fn subject() -> Box<dyn Subject> {
    let label = Label::of("cuckoofilter", "cuckoo, 8 bits", Family::Dynamic, CUCKOO_EIGHT);
    Label { hash: HashUse::Included, ..label }.built_by(|keys| {
        let filter = filled(keys.len(), keys).or_else(|_| filled(keys.len() * 2, keys))?;
        let bytes = filter.memory_usage();
        built(filter, bytes, |filter, key| filter.contains(&key))
    })
}

fn filled(capacity: usize, keys: Keys<'_>) -> Result<CuckooFilter<DefaultHasher>, CuckooError> {
    let mut filter = CuckooFilter::with_capacity(capacity);
    keys.numbers.iter().try_for_each(|key| filter.add(key))?;
    Ok(filter)
}
