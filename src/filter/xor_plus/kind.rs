//! Xor+ as a kind.

use super::build::build;
use super::shape::{XorPlusShape, expected_shape};
use crate::error::ConfigError;
use crate::filter::fingerprint::PeeledShape;
use crate::filter::kind::{
    Abilities, BuildFailure, BuiltPayload, FallbackReason, Kind, NotStreamed, RATE_KEYS, fingerprint_bits,
};
use crate::filter::xor::{WIDTHS, XorWidth, width_of};
use crate::filter::{FilterKind, FilterShape};
use crate::hash::KeyHash;
use crate::units::Sizing;

/// Xor+ filters with fingerprints of 8 or 16 bits: 9.12 or 17.78 bits per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorPlusKind {
    width: XorWidth,
}

impl Kind for XorPlusKind {
    type Shape = XorPlusShape;
    type Stream = NotStreamed;

    const NAME: &'static str = FilterKind::XOR_PLUS.name();
    const STRENGTH: &'static str = "is a smaller xor filter";
    const ABILITIES: Abilities = Abilities::STATIC;

    /// Within 2 % from 1,000 keys on, and within 0.3 % from 100,000 on.
    const HAS_EXACT_SIZE: bool = false;

    fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let block_bytes = |bits| expected_shape(RATE_KEYS, width_of(bits)).map(|shape| shape.block_bytes());
        let bits = fingerprint_bits(FilterKind::XOR_PLUS, &WIDTHS, sizing, block_bytes)?;
        Ok(Self { width: width_of(bits) })
    }

    fn plan(&self, keys: u64) -> Result<XorPlusShape, FallbackReason> {
        expected_shape(keys, self.width).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, plan: &XorPlusShape) -> u64 {
        plan.whole.build_bytes(keys) + plan.whole.payload_bytes()
    }

    fn build(
        &self,
        plan: &XorPlusShape,
        hashes: &[KeyHash],
        _scratch_limit: Option<u64>,
    ) -> Result<BuiltPayload<XorPlusShape>, BuildFailure> {
        build(hashes, plan.whole)
    }
}
