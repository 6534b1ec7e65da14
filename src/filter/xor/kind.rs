//! Configuration of xor filters as a kind.

use super::shape::{WIDTHS, XorShape, shape_for};
use crate::error::ConfigError;
use crate::filter::fingerprint::{PeeledShape, build};
use crate::filter::peel::NO_RESERVE;
use crate::filter::{BuildLimits, BuildResult, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, fingerprint_bits};
use crate::hash::KeyHash;
use crate::units::Sizing;

/// Xor filters with fingerprints of 8 or 16 bits: 9.84 or 19.68 bits per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorKind {
    fingerprint_bits: u8,
}

impl XorKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let block_bytes = |bits| shape_for(RATE_KEYS, bits).map(|shape| shape.block_bytes());
        let fingerprint_bits = fingerprint_bits(KindId::XOR, &WIDTHS, sizing, block_bytes)?;
        Ok(Self { fingerprint_bits })
    }
}

impl Kind for XorKind {
    type Shape = XorShape;

    const ID: KindId = KindId::XOR;
    const STRENGTH: &'static str = "is probed at three cells without a branch";

    fn plan(&self, keys: u64) -> Result<XorShape, FallbackReason> {
        shape_for(keys, self.fingerprint_bits).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, plan: &XorShape) -> u64 {
        plan.build_bytes(keys)
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        build(hashes, *plan, NO_RESERVE, limits.threads)
    }
}
