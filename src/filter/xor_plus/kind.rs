//! Configuration of xor+ filters as a kind. They are built as xor filters whose third block then loses its zero cells.

use super::rank::{LINE_CELLS, line_of};
use super::shape::{XorPlusShape, expected_shape};
use crate::codec::AlignedBuffer;
use crate::error::ConfigError;
use crate::filter::fingerprint::{self, PeeledShape};
use crate::filter::xor::{WIDTHS, XorShape};
use crate::filter::{
    BuildLimits, BuildResult, BuiltPayload, FallbackReason, FilterShape, Kind, KindId, RATE_KEYS, fingerprint_bits,
};
use crate::hash::KeyHash;
use crate::units::Sizing;

/// Xor+ filters with fingerprints of 8 or 16 bits: 9.12 or 17.78 bits per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XorPlusKind {
    fingerprint_bits: u8,
}

impl XorPlusKind {
    pub(crate) fn configure(sizing: Sizing) -> Result<Self, ConfigError> {
        let block_bytes = |bits| expected_shape(RATE_KEYS, bits).map(|shape| shape.block_bytes());
        let fingerprint_bits = fingerprint_bits(KindId::XOR_PLUS, &WIDTHS, sizing, block_bytes)?;
        Ok(Self { fingerprint_bits })
    }
}

impl Kind for XorPlusKind {
    type Shape = XorPlusShape;

    const ID: KindId = KindId::XOR_PLUS;
    const STRENGTH: &'static str = "is a smaller xor filter";

    /// Within 2 % from 1,000 keys on, and within 0.3 % from 100,000 on.
    const HAS_EXACT_SIZE: bool = false;

    fn plan(&self, keys: u64) -> Result<XorPlusShape, FallbackReason> {
        expected_shape(keys, self.fingerprint_bits).ok_or(FallbackReason::TooManyKeys)
    }

    fn build_bytes(&self, keys: u64, plan: &XorPlusShape) -> u64 {
        plan.whole.build_bytes(keys) + plan.whole.payload_bytes()
    }

    fn build(&self, plan: &Self::Shape, hashes: &[KeyHash], limits: BuildLimits) -> BuildResult<Self::Shape> {
        let built = fingerprint::build(hashes, plan.whole, plan.whole.third_block(), limits.threads)?;
        if plan.whole.bits == 8 { without_empty_cells::<1>(&built) } else { without_empty_cells::<2>(&built) }
    }
}

/// Removes the empty cells of the third block from a filter with `BYTES` bytes in each cell.
fn without_empty_cells<const BYTES: usize>(built: &BuiltPayload<XorShape>) -> BuildResult<XorPlusShape> {
    let whole = built.payload.as_slice().as_chunks::<BYTES>().0;
    let (first, rest) = whole.split_at(built.shape.third_block());
    // The zeros that fill the payload's last word must not count as cells, so the third block ends by its number of
    // cells.
    let third = rest.get(..built.shape.block_cells as usize).unwrap_or_default();
    let is_kept = |cell: &&[u8; BYTES]| **cell != [0; BYTES];
    let kept = u32::try_from(third.iter().filter(is_kept).count()).map_err(|_| FallbackReason::TooManyKeys)?;
    let shape = XorPlusShape { whole: built.shape, kept };

    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(FallbackReason::MemoryBudget)?;
    let line_bytes = usize::try_from(shape.line_bytes()).map_err(|_| FallbackReason::MemoryBudget)?;
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
