//! How many slots each layer gets.

use super::columns::Columns;
use super::equation::WIDTH;
use super::section::sections_at_once;
use super::shape::{Layer, MAX_BUMPING_LAYERS, RibbonShape};
use crate::filter::FilterShape;
use crate::units::BitsPerKey;

/// Keys up to which one layer without bumping is smallest: above it, its equations fail too often.
pub(super) const FINAL_LAYER_KEYS: u64 = 5_000;

/// Slots per thousand keys of a bumping layer. With 4 % more keys than slots nearly every slot is
/// used, and 4.1 % of the keys are bumped.
const SLOTS_PER_THOUSAND_KEYS: u64 = 960;

/// Keys in ten thousand that a bumping layer passes on, measured.
const BUMPED_PER_TEN_THOUSAND: u64 = 414;

/// Slots that are banded and solved together; the last bucket of each section but the last is bumped
/// whole, so that no equation crosses into the next.
pub(super) const SECTION_SLOTS: u64 = 1 << 18;

/// Blocks of a bumping layer for `keys` keys; `None` beyond the format's limit.
pub(super) fn bumping_blocks(keys: u64) -> Option<u32> {
    let blocks = (u128::from(keys) * u128::from(SLOTS_PER_THOUSAND_KEYS)).div_ceil(1_000 * u128::from(WIDTH));
    u32::try_from(blocks).ok()
}

/// Blocks of the final layer for `keys` keys: the fewest with which, measured, an attempt succeeds
/// about one time in four or more. Up to 1,600 keys that is no more slots than keys.
pub(super) fn final_blocks(keys: u64) -> Option<u32> {
    let slots = keys + keys.saturating_sub(1_600) / 40;
    u32::try_from(slots.div_ceil(WIDTH).max(1)).ok()
}

/// Whether a layer of `keys` keys, the `index`th, bumps.
pub(super) fn bumps(keys: u64, index: usize) -> bool {
    keys > FINAL_LAYER_KEYS && index < MAX_BUMPING_LAYERS
}

/// The shape that a filter of `keys` keys will have, but for the chance in how many keys are bumped:
/// exact up to 5,000 keys (unless the final layer takes more attempts than it has salts), within half a
/// percent from 50,000 on. `None` beyond the format's limit.
pub(crate) fn expected_shape(keys: u64, columns: Columns) -> Option<RibbonShape> {
    let mut blocks = Vec::with_capacity(MAX_BUMPING_LAYERS + 1);
    let mut left = keys;
    while bumps(left, blocks.len()) {
        blocks.push(bumping_blocks(left)?);
        left = left / 10_000 * BUMPED_PER_TEN_THOUSAND + left % 10_000 * BUMPED_PER_TEN_THOUSAND / 10_000;
    }
    blocks.push(final_blocks(left)?);
    RibbonShape::new(columns, &blocks, 0)
}

/// Bytes to set aside for the payload of `keys` keys: what is expected, and some for the chance in how many are
/// bumped, which spreads with the root of their number. A payload that outgrows it is moved.
pub(super) fn payload_reserve(keys: u64, columns: Columns) -> Option<u64> {
    let more_keys = keys.isqrt() * 7 / 2 + WIDTH;
    Some(expected_shape(keys, columns)?.payload_bytes() + more_keys * u64::from(columns.upper()) / 8)
}

/// The columns with which the whole block of `keys` keys has about `size`;
/// `tail_bytes_of` says what the block adds to a payload.
pub(crate) fn columns_for_size(
    keys: u64,
    size: BitsPerKey,
    tail_bytes_of: impl Fn(&RibbonShape) -> u64,
) -> Option<Columns> {
    let one_column = expected_shape(keys, Columns::new(1, 0)?)?;
    let blocks: u64 = one_column.layers().iter().map(Layer::blocks).sum();
    // With one column per block, what is not columns is thresholds.
    let threshold_words = one_column.payload_bytes() / 8 - blocks;
    let bits = u128::from(keys) * u128::from(size.millibits()) / 1_000;
    let words = u64::try_from(bits.saturating_sub(u128::from(tail_bytes_of(&one_column)) * 8) / 64)
        .ok()?
        .saturating_sub(threshold_words);
    Some(Columns::filling(words, blocks))
}

/// The most bytes that building takes beside the hashes and the finished block. `None` beyond the format's limit.
/// Sections that are done at the same time are not counted: a choice by memory must be the same on every machine.
pub(crate) fn estimated_build_bytes(keys: u64, columns: Columns) -> Option<u64> {
    let first_slots = expected_shape(keys, columns)?.layers().first()?.slots;
    let section = section_bytes(first_slots);
    // First the hashes are sorted, with a second copy of them. After that, the keys of a layer are held
    // together with those that it passes on; a layer that takes all holds copies of its own.
    let sorting = keys * 8 + 262_144;
    let held = if bumps(keys, 0) { keys * 5 / 4 } else { keys * 24 } + 65_536;
    Some(sorting.max(section + held))
}

/// Bytes of the first section of a layer: rows, results, occupancy, and the pending rows of a bucket.
fn section_bytes(slots: u64) -> u64 {
    slots.min(SECTION_SLOTS) * 49 / 4 + 16_384
}

/// Bytes of the other sections of a layer that are in memory at the same time.
pub(super) fn more_sections_bytes(slots: u64) -> usize {
    let bytes = (sections_at_once(slots) - 1) * section_bytes(slots);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_shrink_until_one_can_take_all() {
        let layers = |keys| {
            let shape = expected_shape(keys, Columns::new(7, 0).unwrap()).unwrap();
            shape.layers().iter().map(|layer| layer.slots).collect::<Vec<_>>()
        };
        assert_eq!(layers(0), [64]);
        assert_eq!(layers(64), [64]);
        assert_eq!(layers(65), [128]);
        assert_eq!(layers(5_000), [5_120]);
        assert_eq!(layers(5_001).len(), 2);
        assert_eq!(layers(1_000_000).len(), 3);
        assert_eq!(layers(1 << 33).len(), 6);
    }

    #[test]
    fn shapes_beyond_the_format_are_none_not_wrapped() {
        let columns = Columns::new(32, 0).unwrap();
        assert!(expected_shape(u64::MAX, columns).is_none());
        assert!(expected_shape(1 << 39, columns).is_none());
        let large = expected_shape(1 << 37, columns).unwrap();
        assert!(large.payload_bytes() > 1 << 38);
    }
}
