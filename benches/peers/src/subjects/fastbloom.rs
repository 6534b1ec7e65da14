//! `fastbloom`: a Bloom filter without blocks.

use fastbloom::BloomFilter;

use super::BLOOM_TEN;
use crate::subject::{Family, Label, Queries, Subject, built};

pub(super) fn subject() -> Box<dyn Subject> {
    Label::of("fastbloom", "Bloom, 10 bits", Family::Bloom, BLOOM_TEN).built_by(|keys| {
        let filter = filled(keys.len(), keys.numbers.iter().copied());
        let bytes = size_of_val(filter.as_slice());
        built(filter, bytes, BloomFilter::contains_hash)
    })
}

/// Returns a filter of ten bits per key with these hashes.
pub fn filled(keys: usize, hashes: impl Iterator<Item = u64>) -> BloomFilter {
    let mut filter = BloomFilter::with_num_bits(keys * 10).expected_items(keys);
    hashes.for_each(|hash| _ = filter.insert_hash(hash));
    filter
}
