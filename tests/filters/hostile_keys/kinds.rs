//! Every kind of filter, built from keys.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{
    BitsPerKey, BuildContext, CountingBloom, CuckooFilter, DynamicFilter, FallbackReason, FalsePositiveRate,
    FilterBlock, KeyHash, KeyHasher, RegisterBlockedBloom, Sizing,
};

use crate::common;

/// A kind of the library, or a variant of one.
#[derive(Clone, Copy)]
pub(crate) struct Kind(&'static KindEntry);

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A filter, and how it was built.
pub(crate) struct Built {
    pub(crate) filter: FilterBlock<Bytes>,
    pub(crate) reason: FallbackReason,
    pub(crate) time: Duration,
}

impl Kind {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        kind::all().iter().map(Self)
    }

    pub(crate) fn named(name: &str) -> Self {
        Self(KindEntry::named(name).unwrap())
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// The filter of `keys`, at about 1 % (xor: 0.4 %).
    pub(crate) fn build<K: AsRef<[u8]>>(self, hasher: &KeyHasher, keys: &[K]) -> Built {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key.as_ref())).collect();
        let begun = Instant::now();
        let block = self.block(hasher, &hashes);
        let time = begun.elapsed();
        let filter = FilterBlock::open_unverified(block).unwrap();
        let denied = hashes.iter().filter(|&&hash| !filter.may_contain(hash)).count();
        assert_eq!(denied, 0, "{self:?}: present keys are lost");
        Built { reason: filter.info().reason, filter, time }
    }

    /// Kinds that grow are filled key by key. Policies build all others.
    fn block(self, hasher: &KeyHasher, hashes: &[KeyHash]) -> Bytes {
        let (identity, keys, rate) = (hasher.identity(), hashes.len() as u64, FalsePositiveRate::ONE_PERCENT);
        match self.0.name {
            "counting-bloom" => {
                let mut filter = CountingBloom::for_size(identity, keys, BitsPerKey::TEN).unwrap();
                filter.insert_all(hashes);
                filter.to_block().unwrap()
            }
            "register-blocked-bloom" => {
                let filter = RegisterBlockedBloom::for_rate(identity, keys, rate).unwrap();
                filter.insert_all(hashes);
                filter.to_block().unwrap()
            }
            "cuckoo" => {
                let mut filter = CuckooFilter::for_rate(identity, keys, rate).unwrap();
                filter.insert_all(hashes).unwrap();
                filter.to_block().unwrap()
            }
            name => {
                let policy = common::policy(name, self.sizing()).with_min_keys(0);
                common::build_in(&policy, &BuildContext::new(hasher), hashes).block.unwrap()
            }
        }
    }

    /// Attacks on Bloom filters compute positions with ten bits per key.
    fn sizing(self) -> Sizing {
        match self.0.name {
            "bloom" | "standard-bloom" => BitsPerKey::TEN.into(),
            _ => FalsePositiveRate::ONE_PERCENT.into(),
        }
    }
}

/// The share of positives among `keys`.
pub(crate) fn rate<K: AsRef<[u8]>>(
    filter: &FilterBlock<Bytes>,
    hasher: &KeyHasher,
    keys: impl IntoIterator<Item = K>,
) -> f64 {
    let (mut asked, mut passed) = (0_u64, 0_u64);
    for key in keys {
        asked += 1;
        passed += u64::from(filter.may_contain(hasher.hash(key.as_ref())));
    }
    passed as f64 / asked as f64
}

/// The rate that the filter expects from its contents.
pub(crate) fn nominal(filter: &FilterBlock<Bytes>) -> f64 {
    filter.info().expected_fpr
}

/// The upper bound of the observed rate over `probes` probes, exceeded once in 10^6 times, with a margin for the random
/// fill of a filter with few keys.
pub(crate) fn at_most(rate: f64, probes: u32) -> f64 {
    rate * 1.1 + 5.0 * (rate * (1.0 - rate) / f64::from(probes)).sqrt()
}
