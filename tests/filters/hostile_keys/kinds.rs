//! Every kind of filter, built from keys.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sstfilter::kind::KindEntry;
use sstfilter::{BitsPerKey, BuildContext, FallbackReason, FalsePositiveRate, FilterBlock, KeyHash, KeyHasher, Sizing};

use crate::{common, opened};

/// A filter, and how it was built.
pub(crate) struct Built {
    pub(crate) filter: FilterBlock<Bytes>,
    pub(crate) reason: FallbackReason,
    pub(crate) time: Duration,
}

/// The filter of `keys`, at about 1 % (xor: 0.4 %).
pub(crate) fn build<K: AsRef<[u8]>>(kind: &KindEntry, hasher: &KeyHasher, keys: &[K]) -> Built {
    // Attacks on Bloom filters compute positions with ten bits, or counters, per key.
    let bits = |bits| Sizing::from(BitsPerKey::new(bits).unwrap());
    let sizing = match kind.name {
        "bloom" | "standard-bloom" => bits(10.0),
        "counting-bloom" => bits(40.0),
        _ => FalsePositiveRate::ONE_PERCENT.into(),
    };
    let policy = kind.configure(sizing).unwrap().with_min_keys(0);
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key.as_ref())).collect();
    let begun = Instant::now();
    let built = common::build_in(&policy, &BuildContext::new(hasher), &hashes);
    let (time, reason) = (begun.elapsed(), built.report.reason);
    Built { filter: opened(built, &hashes), reason, time }
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
