//! Builds a filter, layer by layer.

use alloc::vec::Vec;

use super::layout::SLOTS;
use super::shape::LineRibbonShape;
use super::simd::{self, Bumped, Equations, Line};
use crate::codec::AlignedBuffer;
use crate::filter::{BuildResult, BuiltPayload, FallbackReason, FilterShape};
use crate::hash::{KeyHash, sort_hashes};

/// The salts of the final layer that are tried. With well-mixed hashes, two attempts are rare.
const SALTS: u8 = 8;

/// The maximum number of keys that a layer takes for each of its lines: about twice what is planned. With more, the
/// final layer could not take what is left anyway.
const MAX_KEYS_OF_LINE: u64 = 2 * SLOTS;

/// Returns the maximum bytes that building takes in addition to the hashes and the finished block. Sorting takes most:
/// a second copy of the hashes, and the ends of windows. The bumped keys of all layers take less.
pub(super) fn build_bytes(keys: u64) -> u64 {
    keys.saturating_mul(8).saturating_add(262_144)
}

/// Builds the filter of distinct, ascending `hashes`.
pub(super) fn build(hashes: &[KeyHash], shape: &LineRibbonShape, threads: usize) -> BuildResult<LineRibbonShape> {
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(FallbackReason::MemoryBudget)?;
    let (capacity, mut peak_bytes) = (payload.capacity() as u64, payload.capacity() as u64);
    let limits_at = usize::try_from(shape.layout.limits_at).map_err(|_| FallbackReason::TooManyKeys)?;
    let (lines, mut limits) = payload.as_mut_slice().split_at_mut(limits_at);
    let mut lines: &mut [Line] = lines.as_chunks_mut().0;
    let (layers, mut left) = (shape.layout.layers(), None::<Vec<KeyHash>>);
    for (index, (layer, next)) in layers.iter().zip(layers.iter().skip(1)).enumerate() {
        let keys = left.as_deref().unwrap_or(hashes);
        let mut bumped = Bumped::new(next.lines * MAX_KEYS_OF_LINE).ok_or(FallbackReason::MemoryBudget)?;
        // The whole payload is in memory, so the number of lines fits a `usize`.
        let count = usize::try_from(layer.lines).unwrap_or(usize::MAX);
        let own_lines = lines.split_off_mut(..count).unwrap_or_default();
        let own_limits = limits.split_off_mut(..count).unwrap_or_default();
        let equations = Equations { layer: index, salt: None };
        if !simd::solve(keys, equations, (own_lines, own_limits), &mut bumped) {
            return Err(FallbackReason::ConstructionFailed);
        }
        let sort_bytes = sort_hashes(&mut bumped.hashes, threads, u64::MAX);
        let held = left.map_or(0, |keys| keys.capacity()) + bumped.hashes.capacity();
        peak_bytes = peak_bytes.max(capacity + sort_bytes + (held * size_of::<KeyHash>()) as u64);
        left = Some(bumped.hashes);
    }
    let keys = left.unwrap_or_default();
    let solved = |&salt: &u8| {
        let equations = Equations { layer: layers.len() - 1, salt: Some(salt) };
        simd::solve(&keys, equations, (&mut *lines, &mut []), &mut Bumped::default())
    };
    let salt = (0..SALTS).find(solved).ok_or(FallbackReason::ConstructionFailed)?;
    let mut shape = *shape;
    shape.layout.salt = salt;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(salt) + 1, peak_bytes })
}
