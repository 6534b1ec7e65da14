//! Blocked Bloom as a kind.

use super::build::BloomBits;
use super::shape::{BloomShape, expected_fpr, smallest_size_for};
use crate::error::ConfigError;
use crate::filter::FilterKind;
use crate::filter::kind::{Abilities, BuildLimits, FallbackReason, Kind, RATE_KEYS, no_such_fingerprints};
use crate::units::{BitsPerKey, Sizing};

/// Blocked Bloom filters of one size, 10 bits per key by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockedBloomKind {
    size: BitsPerKey,
}

impl BlockedBloomKind {
    /// Filters of `size`.
    #[must_use]
    pub(crate) const fn new(size: BitsPerKey) -> Self {
        Self { size }
    }
}

impl Kind for BlockedBloomKind {
    type Shape = BloomShape;
    type Stream = BloomBits;

    const NAME: &'static str = FilterKind::BLOCKED_BLOOM.name();
    const STRENGTH: &'static str = "is built in one pass and probed at one cache line per key";
    const ABILITIES: Abilities = Abilities::STATIC;
    const IS_STREAMED: bool = true;

    fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        match sizing {
            Sizing::BitsPerKey(size) => Ok(Self::new(size)),
            Sizing::Rate(rate) => {
                let (kind, least) = (FilterKind::BLOCKED_BLOOM, expected_fpr(RATE_KEYS, BitsPerKey::MAX));
                if rate.get() < least {
                    return Err(ConfigError::RateOutOfRange { kind, least, most: 1.0, got: rate.get() });
                }
                Ok(Self::new(smallest_size_for(RATE_KEYS, rate)))
            }
            Sizing::FingerprintBits(bits) => {
                Err(no_such_fingerprints("fingerprint bits of a bloom filter", "a rate or a size instead", bits))
            }
        }
    }

    fn plan(&self, keys: u64) -> Result<BloomShape, FallbackReason> {
        BloomShape::for_keys(keys, self.size).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, _keys: u64, _plan: &BloomShape) -> u64 {
        0
    }

    fn stream(&self, plan: &BloomShape, limits: BuildLimits) -> Option<BloomBits> {
        BloomBits::new(*plan, limits)
    }

    fn fallback_size(&self) -> Option<BitsPerKey> {
        Some(self.size)
    }
}
