//! Building a binary fuse filter: peel the keys off, then set their cells in reverse order.

use super::shape::{FuseArity, FuseShape, with_cells};
use crate::codec::AlignedBuffer;
use crate::filter::fingerprint::{Bits8, Bits16, Bits32, Packed, PackedWide, set_cells};
use crate::filter::peel::{AttemptError, CellSums, PeelOrder, add_distinct, try_salts};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;

/// Approximate bytes that a build takes beside the hashes and the payload.
pub(crate) fn build_bytes(keys: u64, shape: &FuseShape) -> u64 {
    shape.cells() * CellSums::BYTES + keys * PeelOrder::bytes_per_key(shape.cells())
}

/// Builds the filter of distinct `hashes`, fastest if they ascend.
pub(crate) fn build(hashes: &[KeyHash], shape: FuseShape) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    try_salts(|salt| {
        let shape = shape.with_salt(salt);
        sums.clear();
        let order = add_and_peel(&mut sums, shape, hashes.iter().copied())?;
        Ok(assign(&sums, &order, shape)?)
    })
}

/// Builds the same filter from hashes that may repeat; fails if one does, or if the first salt fails. `spare` is memory
/// to reuse.
pub(crate) fn build_single_attempt(
    hashes: &[KeyHash],
    shape: FuseShape,
    spare: Vec<KeyHash>,
) -> Option<BuiltPayload<FuseShape>> {
    let mut sums = CellSums::in_memory_of(spare, shape.cells()).ok()?;
    let order = add_and_peel(&mut sums, shape, hashes.iter().copied()).ok()?;
    assign(&sums, &order, shape).ok()
}

/// A filter built in several passes over the hashes.
#[derive(Debug)]
pub(crate) struct MultiPassFilter {
    pub(crate) payload: BuiltPayload<FuseShape>,
    /// Hashes read in each pass.
    pub(crate) added: u64,
    pub(crate) distinct: u64,
}

/// Builds the filter of the hashes that `read` gives each time it is called, in any order and any number of times,
/// without a copy of them. It is the filter that [`build`] makes of them for the same shape. `keys` is about how many
/// distinct ones there are.
pub(crate) fn build_multi_pass<I: Iterator<Item = KeyHash>>(
    read: impl Fn() -> I,
    keys: u64,
    shape: FuseShape,
) -> Result<MultiPassFilter, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    let (mut has_repeats, mut added) = (false, 0);
    try_salts(|salt| {
        let shape = shape.with_salt(salt);
        sums.clear();
        let mut order = Err(AttemptError::Retry);
        if !has_repeats {
            // Repeated keys are mostly adjacent, and are skipped here; others make this attempt fail.
            let mut last = None;
            added = 0;
            let hashes = read().inspect(|_| added += 1).filter(|&hash| last.replace(hash) != Some(hash));
            order = add_and_peel(&mut sums, shape, hashes);
        }
        if order == Err(AttemptError::Retry) {
            let before = sums.added();
            sums.clear();
            add_each_once(&mut sums, shape, &read, keys)?;
            has_repeats |= sums.added() != before;
            // Without repeats, a second try would add the same keys, which this salt cannot peel.
            if has_repeats {
                order = peel(&mut sums, shape);
            }
        }
        let payload = assign(&sums, &order?, shape)?;
        Ok(MultiPassFilter { payload, added, distinct: sums.added() })
    })
}

/// Adds `hashes` to empty `sums` and peels them off.
fn add_and_peel(
    sums: &mut CellSums,
    shape: FuseShape,
    hashes: impl Iterator<Item = KeyHash>,
) -> Result<PeelOrder, AttemptError> {
    match shape.arity() {
        FuseArity::Three => sums.add_all(shape.placement::<3>(), hashes)?,
        FuseArity::Four => sums.add_all(shape.placement::<4>(), hashes)?,
    }
    peel(sums, shape)
}

fn add_each_once<I: Iterator<Item = KeyHash>>(
    sums: &mut CellSums,
    shape: FuseShape,
    read: &impl Fn() -> I,
    keys: u64,
) -> Result<(), AttemptError> {
    match shape.arity() {
        FuseArity::Three => add_distinct(sums, shape.placement::<3>(), read, keys),
        FuseArity::Four => add_distinct(sums, shape.placement::<4>(), read, keys),
    }
}

fn peel(sums: &mut CellSums, shape: FuseShape) -> Result<PeelOrder, AttemptError> {
    match shape.arity() {
        FuseArity::Three => sums.peel(shape.placement::<3>()),
        FuseArity::Four => sums.peel(shape.placement::<4>()),
    }
}

fn assign(sums: &CellSums, order: &PeelOrder, shape: FuseShape) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes()).ok_or(BuildFailure::NoMemory)?;
    with_cells!(shape, set_cells(sums, order, payload.as_mut_slice()));
    let peak_bytes = sums.bytes() + order.bytes() + payload.capacity() as u64;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(shape.salt()) + 1, peak_bytes })
}
