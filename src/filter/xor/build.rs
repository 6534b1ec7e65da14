//! Building an xor filter: peel the keys off, then set their cells in reverse order.

use super::shape::{XorShape, XorWidth};
use crate::codec::AlignedBuffer;
use crate::filter::fingerprint::{Bits8, Bits16, set_cells};
use crate::filter::peel::{CellSums, PeelOrder, try_salts};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;

/// Which cells stay empty: there are 23 more than keys for every hundred keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyCells {
    /// Any, which is fastest to build.
    Anywhere,
    /// As many as possible of the third block's, for xor+ to leave out.
    ThirdBlock,
}

/// Bytes that building takes beside the hashes and the payload.
pub(crate) fn build_bytes(keys: u64, shape: XorShape) -> u64 {
    shape.cells() * CellSums::BYTES + keys * PeelOrder::bytes_per_key(shape.cells())
}

/// Builds the filter of distinct `hashes`, fastest if they ascend.
pub(crate) fn build(
    hashes: &[KeyHash],
    shape: XorShape,
    empty: EmptyCells,
) -> Result<BuiltPayload<XorShape>, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    try_salts(|salt| {
        let shape = shape.with_salt(salt);
        sums.clear();
        sums.add_all(shape.placement(), hashes.iter().copied())?;
        let order = match empty {
            EmptyCells::Anywhere => sums.peel(shape.placement())?,
            EmptyCells::ThirdBlock => sums.peel_leaving_empty(shape.placement(), shape.third_block())?,
        };
        Ok(assign(&sums, &order, shape)?)
    })
}

fn assign(sums: &CellSums, order: &PeelOrder, shape: XorShape) -> Result<BuiltPayload<XorShape>, BuildFailure> {
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(BuildFailure::NoMemory)?;
    match shape.width() {
        XorWidth::Eight => set_cells(shape.placement(), Bits8, sums, order, payload.as_mut_slice()),
        XorWidth::Sixteen => set_cells(shape.placement(), Bits16, sums, order, payload.as_mut_slice()),
    }
    let peak_bytes = sums.bytes() + order.bytes() + payload.capacity() as u64;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(shape.salt()) + 1, peak_bytes })
}
