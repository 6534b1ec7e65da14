//! Building.

use super::cells::specialised;
use super::shape::{FuseArity, FuseShape};
use crate::codec::AlignedBuffer;
use crate::filter::fingerprint::{Bits8, Bits16, Bits32, Packed, SALTS, set_cells};
use crate::filter::peel::{CellSums, Crowded, PeelOrder, add_distinct};
use crate::filter::{BuildFailure, BuiltPayload, FilterShape};
use crate::hash::KeyHash;

/// About how many bytes building takes beside the hashes and the payload.
pub(crate) fn build_bytes(keys: u64, shape: &FuseShape) -> u64 {
    shape.cells() * CellSums::BYTES + keys * PeelOrder::bytes_per_key(shape.cells())
}

/// Builds the filter of distinct `hashes`, fastest if they ascend. `tail_capacity` bytes are kept free behind it.
pub(crate) fn build(
    hashes: &[KeyHash],
    shape: FuseShape,
    tail_capacity: usize,
) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    for salt in 0..SALTS {
        let shape = shape.with_salt(salt);
        if let Some(order) = add_and_peel(&mut sums, shape, hashes.iter().copied())? {
            return assign(&sums, &order, shape, tail_capacity);
        }
        sums.clear();
    }
    Err(BuildFailure::AttemptsExhausted)
}

/// Builds the same filter of hashes that may come twice, if the first salt serves and none does. `spare` is memory
/// from other work.
pub(crate) fn build_at_once(
    hashes: &[KeyHash],
    shape: FuseShape,
    spare: Vec<KeyHash>,
    tail_capacity: usize,
) -> Option<BuiltPayload<FuseShape>> {
    let mut sums = CellSums::in_memory_of(spare, shape.cells()).ok()?;
    let order = add_and_peel(&mut sums, shape, hashes.iter().copied()).ok()??;
    assign(&sums, &order, shape, tail_capacity).ok()
}

/// A filter of hashes that were read several times.
#[derive(Debug)]
pub(crate) struct BuiltFromReadings {
    pub(crate) payload: BuiltPayload<FuseShape>,
    /// Hashes read, each time.
    pub(crate) added: u64,
    pub(crate) distinct: u64,
}

/// Builds the filter of the hashes that `read` gives each time it is called, in any order and any number of
/// times, without a copy of them. It is the filter that [`build`] makes of them for the same shape. `keys` is how
/// many distinct ones they are about.
pub(crate) fn build_repeatable<I: Iterator<Item = KeyHash>>(
    read: impl Fn() -> I,
    keys: u64,
    shape: FuseShape,
    tail_capacity: usize,
) -> Result<BuiltFromReadings, BuildFailure> {
    let mut sums = CellSums::new(shape.cells())?;
    let (mut comes_again, mut added) = (false, 0);
    for salt in 0..SALTS {
        let shape = shape.with_salt(salt);
        let mut order = None;
        if !comes_again {
            // Keys that come again mostly follow each other; others make this fail.
            let mut last = None;
            added = 0;
            let hashes = read().inspect(|_| added += 1).filter(|&hash| last.replace(hash) != Some(hash));
            order = add_and_peel(&mut sums, shape, hashes)?;
        }
        if order.is_none() {
            let before = sums.added();
            sums.clear();
            if add_each_once(&mut sums, shape, &read, keys)?.is_ok() {
                comes_again |= sums.added() != before;
                order = if comes_again { peel(&mut sums, shape)? } else { None };
            }
        }
        if let Some(order) = order {
            let payload = assign(&sums, &order, shape, tail_capacity)?;
            return Ok(BuiltFromReadings { payload, added, distinct: sums.added() });
        }
        sums.clear();
    }
    Err(BuildFailure::AttemptsExhausted)
}

/// Adds `hashes` to empty `sums` and peels them off; `None` where that fails.
fn add_and_peel(
    sums: &mut CellSums,
    shape: FuseShape,
    hashes: impl Iterator<Item = KeyHash>,
) -> Result<Option<PeelOrder>, BuildFailure> {
    let added = match shape.arity() {
        FuseArity::Three => sums.add_all(shape.placement::<3>(), hashes),
        FuseArity::Four => sums.add_all(shape.placement::<4>(), hashes),
    };
    if added.is_ok() { peel(sums, shape) } else { Ok(None) }
}

fn add_each_once<I: Iterator<Item = KeyHash>>(
    sums: &mut CellSums,
    shape: FuseShape,
    read: &impl Fn() -> I,
    keys: u64,
) -> Result<Result<(), Crowded>, BuildFailure> {
    match shape.arity() {
        FuseArity::Three => add_distinct(sums, shape.placement::<3>(), read, keys),
        FuseArity::Four => add_distinct(sums, shape.placement::<4>(), read, keys),
    }
}

fn peel(sums: &mut CellSums, shape: FuseShape) -> Result<Option<PeelOrder>, BuildFailure> {
    match shape.arity() {
        FuseArity::Three => sums.peel(shape.placement::<3>()),
        FuseArity::Four => sums.peel(shape.placement::<4>()),
    }
}

/// Sets the cells.
fn assign(
    sums: &CellSums,
    order: &PeelOrder,
    shape: FuseShape,
    tail_capacity: usize,
) -> Result<BuiltPayload<FuseShape>, BuildFailure> {
    let mut payload = AlignedBuffer::zeroed(shape.payload_bytes(), tail_capacity).ok_or(BuildFailure::NoMemory)?;
    specialised!(shape, set_cells(sums, order, payload.as_mut_slice()));
    let peak_bytes = sums.bytes() + order.bytes() + payload.capacity() as u64;
    Ok(BuiltPayload { shape, payload, attempts: u32::from(shape.salt()) + 1, peak_bytes })
}
