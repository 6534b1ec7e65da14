//! Every kind of filter, built from keys.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sstfilter::kind::KindEntry;
use sstfilter::{
    BitsPerKey, BuildContext, CountingBloom, CuckooFilter, DynamicFilter, FallbackReason, FalsePositiveRate,
    FilterBlock, FilterPolicy, KeyHash, KeyHasher, KindPolicy, RegisterBlockedBloom, Sizing,
};

use crate::common;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BlockedBloom,
    StandardBloom,
    CountingBloom,
    RegisterBlockedBloom,
    Cuckoo,
    Ribbon,
    Xor,
    XorPlus,
    BinaryFuse,
}

pub(crate) const ALL: [Kind; 9] = [
    Kind::BlockedBloom,
    Kind::StandardBloom,
    Kind::CountingBloom,
    Kind::RegisterBlockedBloom,
    Kind::Cuckoo,
    Kind::Ribbon,
    Kind::Xor,
    Kind::XorPlus,
    Kind::BinaryFuse,
];

/// A filter, and how it was built.
pub(crate) struct Built {
    pub(crate) filter: FilterBlock<Bytes>,
    pub(crate) reason: FallbackReason,
    pub(crate) time: Duration,
}

impl Kind {
    /// The filter of `keys`, at about 1 % (xor and fuse: 0.4 %).
    pub(crate) fn build<K: AsRef<[u8]>>(self, hasher: &KeyHasher, keys: &[K]) -> Built {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key.as_ref())).collect();
        let begun = Instant::now();
        let block = match self.policy() {
            Some(policy) => {
                let built = common::build_in(&*policy, &BuildContext::new(hasher), &hashes);
                built.block.unwrap()
            }
            None => self.filled(hasher, &hashes),
        };
        let time = begun.elapsed();
        let filter = FilterBlock::open_unverified(block).unwrap();
        let denied = hashes.iter().filter(|&&hash| !filter.may_contain(hash)).count();
        assert_eq!(denied, 0, "{self:?}: keys that are in are denied");
        Built { reason: filter.info().reason, filter, time }
    }

    fn policy(self) -> Option<Box<dyn FilterPolicy>> {
        let xor = |layout| Box::new(KindEntry::named(layout).unwrap().configure(Sizing::FingerprintBits(8)).unwrap());
        Some(match self {
            Self::BlockedBloom => Box::new(KindPolicy::default()),
            Self::StandardBloom => Box::new(KindPolicy::standard_bloom(BitsPerKey::TEN).unwrap()),
            Self::Ribbon => Box::new(common::ribbon(0.01)),
            Self::Xor => xor("xor"),
            Self::XorPlus => xor("xor+"),
            Self::BinaryFuse => Box::new(KindPolicy::binary_fuse(Sizing::FingerprintBits(8)).unwrap()),
            Self::CountingBloom | Self::RegisterBlockedBloom | Self::Cuckoo => return None,
        })
    }

    /// The kinds that take keys one by one.
    fn filled(self, hasher: &KeyHasher, hashes: &[KeyHash]) -> Bytes {
        let keys = hashes.len() as u64;
        let rate = FalsePositiveRate::new(0.01).unwrap();
        let identity = hasher.identity();
        match self {
            Self::CountingBloom => {
                let mut filter = CountingBloom::for_size(identity, keys, BitsPerKey::TEN).unwrap();
                filter.insert_all(hashes);
                filter.to_block().unwrap()
            }
            Self::RegisterBlockedBloom => {
                let filter = RegisterBlockedBloom::for_rate(identity, keys, rate).unwrap();
                filter.insert_all(hashes);
                filter.to_block().unwrap()
            }
            _ => {
                let mut filter = CuckooFilter::for_rate(identity, keys, rate).unwrap();
                filter.insert_all(hashes).unwrap();
                filter.to_block().unwrap()
            }
        }
    }
}

/// The share of `keys` that the filter lets through.
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

/// The rate that the filter expects by what is in it: of standard and counting Bloom filters the fill says more
/// than the number of keys, and hashes of a block tell nothing more than the block.
pub(crate) fn nominal(filter: &FilterBlock<Bytes>) -> f64 {
    filter.info().expected_fpr
}

/// The most that `probes` of rate `rate` give but for one time in 10^6, and some for the chance in how a filter
/// of few keys is filled.
pub(crate) fn at_most(rate: f64, probes: u32) -> f64 {
    rate * 1.1 + 5.0 * (rate * (1.0 - rate) / f64::from(probes)).sqrt()
}
