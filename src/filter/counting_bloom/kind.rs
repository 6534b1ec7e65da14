//! Configuration of counting Bloom filters as a kind: for files, built once.

use super::filter::CountingBloom;
use super::shape::CountingBloomShape;
use crate::error::ConfigError;
use crate::filter::standard_bloom::size_for_rate;
use crate::filter::{BuildLimits, BuildResult, FallbackReason, Kind, KindId, RATE_KEYS, Updates, by_size_or_rate};
use crate::hash::{HashIdentity, KeyHash};
use crate::units::{BitsPerKey, Sizing};

/// The bits of a counter.
const COUNTER_BITS: u32 = 4;

/// Counting Bloom filters with a number of counters per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountingBloomKind {
    counters_per_key: BitsPerKey,
}

impl CountingBloomKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let of_size = |size: BitsPerKey| {
            let least = BitsPerKey::MIN.get() * f64::from(COUNTER_BITS);
            let too_small = ConfigError::SizeOutOfRange { kind: Self::ID, min: least, got: size.get() };
            BitsPerKey::from_millibits(size.millibits() / COUNTER_BITS).map_err(|_| too_small)
        };
        let counters_per_key = by_size_or_rate(sizing, of_size, |rate| size_for_rate(RATE_KEYS, rate))?;
        Ok(Self { counters_per_key })
    }
}

impl Kind for CountingBloomKind {
    type Shape = CountingBloomShape;

    const ID: KindId = KindId::COUNTING_BLOOM;
    const STRENGTH: &'static str = "accepts and removes keys while it is in use, and is never full";
    const UPDATES: Updates = Updates::InsertAndRemove;

    fn plan(&self, keys: u64) -> Result<CountingBloomShape, FallbackReason> {
        Ok(CountingBloomShape::for_keys(keys, self.counters_per_key))
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], _limits: BuildLimits) -> BuildResult<Self::Shape> {
        let mut filter = CountingBloom::empty(HashIdentity::default(), plan.params)?;
        filter.insert_all(hashes);
        Ok(filter.contents.into_payload())
    }
}
