//! Configuration of register-blocked Bloom filters as a kind: for files, built once.

use super::filter::RegisterBlockedBloom;
use super::layout::PROBES;
use super::shape::{MAX_BYTES, RegisterBlockedShape, max_bytes};
use crate::codec::AlignedBuffer;
use crate::error::ConfigError;
use crate::filter::blocked_bloom::smallest_size_for;
use crate::filter::dynamic::Contents;
use crate::filter::{
    BuildLimits, BuildResult, BuiltPayload, FallbackReason, FilterShape, Kind, RATE_KEYS, Updates, by_size_or_rate,
};
use crate::hash::{HashIdentity, KeyHash};
use crate::ids::KindId;
use crate::units::{BitsPerKey, FalsePositiveRate, Sizing};

/// Register-blocked Bloom filters of a rate or a size, which is a power of two of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RegisterBlockedKind {
    Rate(FalsePositiveRate),
    Size(BitsPerKey),
}

impl RegisterBlockedKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let of_rate = |rate| RegisterBlockedShape::check_rate(rate).map(|()| Self::Rate(rate));
        by_size_or_rate(sizing, |size| Ok(Self::Size(size)), of_rate)
    }

    /// Returns the size that meets the target with a number of probes, if there is one.
    fn shape(self, keys: u64, probes: u8) -> Option<RegisterBlockedShape> {
        match self {
            Self::Rate(rate) => RegisterBlockedShape::with_probes_for_rate(keys, rate, probes),
            Self::Size(size) => {
                let bytes = u128::from(keys) * u128::from(size.millibits()) / 8_000;
                // Rounded down to a power of two, because a requested size is a maximum.
                RegisterBlockedShape::of_bytes(1_u64.checked_shl(bytes.max(64).ilog2())?, probes)
            }
        }
    }
}

impl Kind for RegisterBlockedKind {
    type Shape = RegisterBlockedShape;

    const ID: KindId = KindId::REGISTER_BLOCKED_BLOOM;
    const STRENGTH: &'static str =
        "accepts keys from any number of threads without a lock, and touches one word per key";
    const UPDATES: Updates = Updates::Insert;
    const IS_CONCURRENT: bool = true;

    /// Chooses the number of probes with the smallest filter; among equal sizes, the one with the lowest rate.
    fn plan(&self, keys: u64) -> Result<RegisterBlockedShape, FallbackReason> {
        let fitting = PROBES.filter_map(|probes| self.shape(keys, probes));
        let best = fitting.min_by(|one, other| {
            let by_rate = one.expected_fpr(keys).total_cmp(&other.expected_fpr(keys));
            one.payload_bytes().cmp(&other.payload_bytes()).then(by_rate)
        });
        best.ok_or(if max_bytes(keys) < MAX_BYTES { FallbackReason::NotSmaller } else { FallbackReason::TooManyKeys })
    }

    fn build_bytes(&self, _keys: u64, plan: &RegisterBlockedShape) -> u64 {
        plan.payload_bytes()
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], _limits: BuildLimits) -> BuildResult<Self::Shape> {
        let mut filter = RegisterBlockedBloom::empty(HashIdentity::default(), *plan)?;
        hashes.iter().for_each(|&hash| {
            filter.insert_exclusive(hash);
        });
        // Copied, because the filter's atomic words cannot become bytes in place.
        let bytes = plan.payload_bytes();
        let mut payload = AlignedBuffer::zeroed(bytes).ok_or(FallbackReason::MemoryBudget)?;
        filter.contents.write_payload(payload.as_mut_slice());
        Ok(BuiltPayload { peak_bytes: 2 * bytes, ..BuiltPayload::new(*plan, payload) })
    }

    /// Computed here, because the plan for many keys may have no size that reaches the rate.
    fn fallback_size(&self) -> Option<BitsPerKey> {
        Some(match *self {
            Self::Rate(rate) => smallest_size_for(RATE_KEYS, rate),
            Self::Size(size) => size,
        })
    }
}
