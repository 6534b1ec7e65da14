//! The two layouts as kinds that are built at once.

use super::XorPolicy;
use crate::block::trailer::MAX_TAIL_BYTES;
use crate::block::{FallbackReason, block_bytes};
use crate::filter::xor::{self, Spared, XorShape};
use crate::filter::xor_plus::{self, XorPlusShape};
use crate::filter::{BuildFailure, BuiltPayload};
use crate::hash::KeyHash;
use crate::policy::SelfCheck;
use crate::policy::buffered::BufferedKind;
use crate::units::BitsPerKey;

/// All cells are stored.
#[derive(Clone, Debug)]
pub(super) struct Plain(pub(super) XorPolicy);

/// Empty cells of the third block are left out.
#[derive(Clone, Debug)]
pub(super) struct Plus(pub(super) XorPolicy);

impl BufferedKind for Plain {
    type Shape = XorShape;
    type Plan = XorShape;

    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<XorShape, FallbackReason> {
        self.0.plan(keys, memory_budget)
    }

    fn build(&self, shape: XorShape, hashes: &[KeyHash]) -> Result<BuiltPayload<XorShape>, BuildFailure> {
        xor::build(hashes, shape, Spared::Any, MAX_TAIL_BYTES)
    }

    fn planned_bytes(&self, _keys: u64, shape: &XorShape) -> Option<u64> {
        Some(block_bytes(shape))
    }

    fn fallback_size(&self) -> BitsPerKey {
        self.0.fallback_size
    }

    fn self_check(&self) -> SelfCheck {
        self.0.self_check
    }
}

impl BufferedKind for Plus {
    type Shape = XorPlusShape;
    /// The shape with all cells.
    type Plan = XorShape;

    fn plan(&self, keys: u64, memory_budget: Option<u64>) -> Result<XorShape, FallbackReason> {
        self.0.plan(keys, memory_budget)
    }

    fn build(&self, whole: XorShape, hashes: &[KeyHash]) -> Result<BuiltPayload<XorPlusShape>, BuildFailure> {
        xor_plus::build(hashes, whole, MAX_TAIL_BYTES)
    }

    fn planned_bytes(&self, keys: u64, whole: &XorShape) -> Option<u64> {
        xor_plus::expected_shape(keys, whole.width()).map(|shape| block_bytes(&shape))
    }

    fn fallback_size(&self) -> BitsPerKey {
        self.0.fallback_size
    }

    fn self_check(&self) -> SelfCheck {
        self.0.self_check
    }
}
