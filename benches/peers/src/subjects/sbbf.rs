//! `sbbf-rs-safe`: the split block Bloom filter of Parquet.

use sbbf_rs_safe::Filter as Sbbf;

use super::BLOOM_TEN;
use crate::subject::{Family, Label, Queries, Subject, built};

/// The usual size, and the size at which the false positive rate equals that of our filter of 10 bits: 0.97 %, by the
/// formula for 8 bits in lines of 256 and by observation.
pub(super) fn subjects() -> [Box<dyn Subject>; 2] {
    [("split block Bloom, 10 bits", 100), ("split block Bloom, 10.6 bits", 106)].map(|(kind, tenths_of_bits)| {
        Label::of("sbbf-rs-safe", kind, Family::Bloom, BLOOM_TEN).built_by(move |keys| {
            // The crate takes whole bits per key, so the number of keys carries the fraction.
            let filter = filled(1, keys.len() * tenths_of_bits / 10, keys.numbers.iter().copied());
            let bytes = filter.as_bytes().len();
            built(filter, bytes, Sbbf::contains_hash)
        })
    })
}

/// Returns a filter of whole bits per key with these hashes.
pub fn filled(bits: usize, keys: usize, hashes: impl Iterator<Item = u64>) -> Sbbf {
    let mut filter = Sbbf::new(bits, keys);
    hashes.for_each(|hash| _ = filter.insert_hash(hash));
    filter
}
