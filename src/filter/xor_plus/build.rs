//! Building: an xor filter first, then its third block without the cells that are 0.

use super::rank::{LINE_CELLS, line_of};
use super::shape::XorPlusShape;
use crate::codec::AlignedBuffer;
use crate::filter::fingerprint;
use crate::filter::xor::{XorShape, XorWidth};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;

/// Builds the filter of distinct `hashes`, fastest if they ascend, from that of shape `whole`.
pub(crate) fn build(hashes: &[KeyHash], whole: XorShape) -> Result<BuiltPayload<XorPlusShape>, BuildFailure> {
    let built = fingerprint::build(hashes, whole, whole.third_block())?;
    match whole.width {
        XorWidth::Eight => without_empty_cells::<1>(&built),
        XorWidth::Sixteen => without_empty_cells::<2>(&built),
    }
}

/// The filter with `BYTES` bytes in each cell, without the empty cells of the third block.
fn without_empty_cells<const BYTES: usize>(
    built: &BuiltPayload<XorShape>,
) -> Result<BuiltPayload<XorPlusShape>, BuildFailure> {
    let whole = built.payload.as_slice().as_chunks::<BYTES>().0;
    let (first, rest) = whole.split_at(built.shape.third_block());
    // What follows the third block are zeros as well.
    let third = rest.get(..built.shape.block_cells as usize).unwrap_or_default();
    let is_kept = |cell: &&[u8; BYTES]| **cell != [0; BYTES];
    let kept = u32::try_from(third.iter().filter(is_kept).count()).map_err(|_| BuildFailure::TooManyKeys)?;
    let shape = XorPlusShape { whole: built.shape, kept };

    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(BuildFailure::NoMemory)?;
    let line_bytes = usize::try_from(shape.line_bytes()).map_err(|_| BuildFailure::NoMemory)?;
    let (lines, cells) = payload.as_mut_slice().split_at_mut(line_bytes);
    let mut before = 0;
    for (line, third) in lines.as_chunks_mut().0.iter_mut().zip(third.chunks(LINE_CELLS)) {
        *line = line_of(third.iter().map(|cell| is_kept(&cell)), before);
        before += third.iter().filter(is_kept).count() as u64;
    }
    let all_kept = first.iter().chain(third.iter().filter(is_kept));
    cells.as_chunks_mut().0.iter_mut().zip(all_kept).for_each(|(cell, value)| *cell = *value);

    let two_payloads = (built.payload.capacity() + payload.capacity()) as u64;
    Ok(BuiltPayload { shape, payload, attempts: built.attempts, peak_bytes: built.peak_bytes.max(two_payloads) })
}
