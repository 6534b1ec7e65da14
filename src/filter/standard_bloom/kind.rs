//! Configuration of standard Bloom filters as a kind.

use alloc::boxed::Box;

use super::params::size_for_rate;
use super::shape::StandardBloomShape;
use crate::error::ConfigError;
use crate::filter::dynamic::InMemory;
use crate::filter::{BuildLimits, FallbackReason, Kind, RATE_KEYS, StreamedPayload, Updates, by_size_or_rate};
use crate::hash::HashIdentity;
use crate::ids::KindId;
use crate::units::{BitsPerKey, Sizing};

/// Standard Bloom filters of one size, 10 bits per key by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StandardBloomKind {
    size: BitsPerKey,
}

impl StandardBloomKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        by_size_or_rate(sizing, Ok, |rate| size_for_rate(RATE_KEYS, rate)).map(|size| Self { size })
    }
}

impl Kind for StandardBloomKind {
    type Shape = StandardBloomShape;

    const ID: KindId = KindId::STANDARD_BLOOM;
    const STRENGTH: &'static str =
        "accepts keys while it is in use, is never full, and is the smallest of the filters that do so";
    const UPDATES: Updates = Updates::Insert;
    const IS_STREAMED: bool = true;

    fn plan(&self, keys: u64) -> Result<StandardBloomShape, FallbackReason> {
        Ok(StandardBloomShape::for_keys(keys, self.size))
    }

    /// Ignores the limit, because a stream uses no memory in addition to the bits.
    fn stream(&self, plan: &StandardBloomShape, _limits: BuildLimits) -> Option<Box<dyn StreamedPayload>> {
        InMemory::empty(HashIdentity::default(), *plan).ok().map(|filter| Box::new(filter) as _)
    }
}
