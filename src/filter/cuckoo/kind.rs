//! Configuration of cuckoo filters as a kind: for files, built once.

use alloc::vec::Vec;

use super::filter::CuckooFilter;
use super::shape::{CuckooShape, RELIABLE_TAG_BITS, TAG_BITS};
use crate::error::ConfigError;
use crate::filter::{
    BuildLimits, BuildResult, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, Updates, fingerprint_bits,
};
use crate::hash::{HashIdentity, KeyHash};
use crate::units::{FalsePositiveRate, Sizing};

/// Cuckoo filters of a rate, or with a given tag width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CuckooKind {
    Rate(FalsePositiveRate),
    TagBits(u8),
}

impl CuckooKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let widths: Vec<u8> = match sizing {
            Sizing::Rate(rate) => return CuckooShape::for_rate(RATE_KEYS, rate).map(|_| Self::Rate(rate)),
            // Leaves out shorter tags, with which filters may fill up before the planned number of keys.
            Sizing::BitsPerKey(_) => RELIABLE_TAG_BITS.collect(),
            Sizing::FingerprintBits(_) => TAG_BITS.collect(),
        };
        let block_bytes = |bits| CuckooShape::with_tag_bits(RATE_KEYS, bits).ok().map(|shape| shape.block_bytes());
        fingerprint_bits(KindId::CUCKOO, &widths, sizing, block_bytes).map(Self::TagBits)
    }
}

impl Kind for CuckooKind {
    type Shape = CuckooShape;

    const ID: KindId = KindId::CUCKOO;
    const STRENGTH: &'static str =
        "accepts and removes keys while it is in use, in a quarter of a counting Bloom filter's memory";
    const UPDATES: Updates = Updates::InsertAndRemove;

    fn plan(&self, keys: u64) -> Result<CuckooShape, FallbackReason> {
        let shape = match *self {
            Self::Rate(rate) => CuckooShape::for_rate(keys, rate),
            Self::TagBits(bits) => CuckooShape::with_tag_bits(keys, bits),
        };
        shape.map_err(|_| FallbackReason::TooManyKeys)
    }

    /// Inserts all keys. One filter in 10,000 fills up before the last key, and the file then gets a blocked Bloom
    /// filter. There is no second attempt: cuckoo blocks have no salt.
    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], _limits: BuildLimits) -> BuildResult<Self::Shape> {
        let mut filter = CuckooFilter::empty(HashIdentity::default(), *plan)?;
        filter.insert_all(hashes)?;
        Ok(filter.contents.into_payload())
    }
}
