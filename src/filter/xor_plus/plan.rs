//! About how many cells a filter keeps.

use super::shape::XorPlusShape;
use crate::filter::xor::{XorShape, XorWidth, shape_for};

/// Of 10,000 keys, those whose cell is in the third block, measured on large filters.
const IN_THIRD_BLOCK: u128 = 2_617;

/// About the shape of a filter of `keys` keys; `None` beyond what can be recorded of it.
pub(crate) fn expected_shape(keys: u64, width: XorWidth) -> Option<XorPlusShape> {
    let whole = shape_for(keys, width)?;
    XorPlusShape::new(whole, u32::try_from(expected_kept(keys, whole)).ok()?)
}

/// About how many cells of the third block are not 0.
fn expected_kept(keys: u64, whole: XorShape) -> u128 {
    let taken = u128::from(keys) * IN_THIRD_BLOCK / 10_000;
    // With few keys the 32 cells beyond 1.23 per key count, and most keys find a place elsewhere.
    let taken = taken.saturating_sub(SPARED_BY_MORE_CELLS).max(taken / 2);
    taken - (taken >> whole.width().bits())
}

/// Measured from 1,000 to 50,000 keys.
const SPARED_BY_MORE_CELLS: u128 = 14;
