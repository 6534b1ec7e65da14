//! Building.

use super::shape::{XorShape, XorWidth};
use crate::codec::AlignedBuffer;
use crate::filter::fingerprint::{Bits8, Bits16, SALTS, set_cells};
use crate::filter::peel::{CellSums, PeelOrder};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;

/// Which cells may be left without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    /// It does not matter which.
    Any,
    /// Those of the third block, as many as possible.
    ThirdBlock,
}

/// Bytes that building takes beside the hashes and the payload.
pub(crate) fn build_bytes(keys: u64, shape: XorShape) -> u64 {
    shape.cells() * CellSums::BYTES + keys * PeelOrder::bytes_per_key(shape.cells())
}

/// Builds the filter of distinct `hashes`, fastest if they ascend. `tail_capacity` bytes are kept free behind it.
pub(crate) fn build(
    hashes: &[KeyHash],
    shape: XorShape,
    spared: Spared,
    tail_capacity: usize,
) -> Result<BuiltPayload<XorShape>, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    for salt in 0..SALTS {
        let shape = shape.with_salt(salt);
        if let Some(order) = add_and_peel(&mut sums, shape, spared, hashes)? {
            return assign(&sums, &order, shape, tail_capacity);
        }
        sums.clear();
    }
    Err(BuildFailure::AttemptsExhausted)
}

/// Adds `hashes` to empty `sums` and peels them off; `None` where that fails.
fn add_and_peel(
    sums: &mut CellSums,
    shape: XorShape,
    spared: Spared,
    hashes: &[KeyHash],
) -> Result<Option<PeelOrder>, BuildFailure> {
    if sums.add_all(shape.placement(), hashes.iter().copied()).is_err() {
        return Ok(None);
    }
    match spared {
        Spared::Any => sums.peel(shape.placement()),
        Spared::ThirdBlock => sums.peel_sparing(shape.placement(), third_block(shape)),
    }
}

/// The first cell of the third block.
#[expect(clippy::cast_possible_truncation, reason = "as many cells are in memory")]
pub(crate) fn third_block(shape: XorShape) -> usize {
    2 * u64::from(shape.block_cells()) as usize
}

fn assign(
    sums: &CellSums,
    order: &PeelOrder,
    shape: XorShape,
    tail_capacity: usize,
) -> Result<BuiltPayload<XorShape>, BuildFailure> {
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes(), tail_capacity).ok_or(BuildFailure::NoMemory)?;
    match shape.width() {
        XorWidth::Eight => set_cells(shape.placement(), Bits8, sums, order, payload.as_mut_slice()),
        XorWidth::Sixteen => set_cells(shape.placement(), Bits16, sums, order, payload.as_mut_slice()),
    }
    let peak_bytes = sums.bytes() + order.bytes() + payload.capacity() as u64;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(shape.salt()) + 1, peak_bytes })
}
