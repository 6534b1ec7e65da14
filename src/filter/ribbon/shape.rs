//! The shape of a Ribbon filter: the slots of each layer, and the fields that a trailer records.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::columns::Columns;
use super::equation::{WIDTH, starts};
use super::layer::{Layer, MAX_BUMPING_LAYERS};
use super::section::section_bytes;
use super::simd::query::{self, Filter, FilterView};
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterShape, ParamWords, ShapeFields, batch, power};
use crate::hash::KeyHash;
use crate::units::BitsPerKey;

/// Up to this number of keys, one layer without bumping is smallest; with more, its equations fail too often.
pub(super) const FINAL_LAYER_KEYS: u64 = 5_000;

/// Slots per thousand keys of a bumping layer. With 4 % more keys than slots nearly every slot is used, and 4.1 % of
/// the keys are bumped.
const SLOTS_PER_THOUSAND_KEYS: u64 = 960;

/// The keys in ten thousand that a bumping layer bumps, measured.
const BUMPED_PER_TEN_THOUSAND: u64 = 414;

/// Returns the blocks of a bumping layer for `keys` keys; `None` beyond the format's limit.
pub(super) fn bumping_blocks(keys: u64) -> Option<u32> {
    let blocks = (u128::from(keys) * u128::from(SLOTS_PER_THOUSAND_KEYS)).div_ceil(1_000 * u128::from(WIDTH));
    u32::try_from(blocks).ok()
}

/// Returns the blocks of the final layer for `keys` keys: the fewest with which, measured, at least about one attempt
/// in four succeeds. Up to 1,600 keys there are no more slots than keys.
pub(super) fn final_blocks(keys: u64) -> Option<u32> {
    let slots = keys + keys.saturating_sub(1_600) / 40;
    u32::try_from(slots.div_ceil(WIDTH).max(1)).ok()
}

/// Returns whether a layer bumps, as the `index`th one, with `keys` keys.
pub(super) fn bumps(keys: u64, index: usize) -> bool {
    keys > FINAL_LAYER_KEYS && index < MAX_BUMPING_LAYERS
}

/// Returns the shape that a filter of `keys` keys will have, apart from chance in the number of bumped keys: exact up
/// to 5,000 keys (unless the final layer takes more attempts than it has salts), within half a percent from 50,000 on.
/// `None` beyond the format's limit.
pub(crate) fn expected_shape(keys: u64, columns: Columns) -> Option<RibbonShape> {
    let mut blocks = Vec::with_capacity(MAX_BUMPING_LAYERS + 1);
    let mut left = keys;
    while bumps(left, blocks.len()) {
        blocks.push(bumping_blocks(left)?);
        // Divided first, so that the product of any number of keys fits 64 bits.
        left = left / 10_000 * BUMPED_PER_TEN_THOUSAND + left % 10_000 * BUMPED_PER_TEN_THOUSAND / 10_000;
    }
    blocks.push(final_blocks(left)?);
    RibbonShape::new(columns, &blocks, 0)
}

/// Returns the bytes to reserve for the payload of `keys` keys: the expected size, and a margin for the number of
/// bumped keys, which varies with the root of its mean. A payload that outgrows it is moved.
pub(super) fn payload_reserve(keys: u64, columns: Columns) -> Option<u64> {
    let more_keys = keys.isqrt() * 7 / 2 + WIDTH;
    Some(expected_shape(keys, columns)?.payload_bytes() + more_keys * u64::from(columns.upper()) / 8)
}

/// Returns the columns with which the whole block of `keys` keys has about `size`.
pub(crate) fn columns_for_size(keys: u64, size: BitsPerKey) -> Option<Columns> {
    let one_column = expected_shape(keys, Columns::ONE)?;
    let blocks: u64 = one_column.layers().iter().map(Layer::blocks).sum();
    // With one column per block, all words that are not columns are thresholds.
    let threshold_words = one_column.payload_bytes() / 8 - blocks;
    let tail_bytes = one_column.block_bytes() - one_column.payload_bytes();
    let bits = u128::from(keys) * u128::from(size.millibits()) / 1_000;
    let words = u64::try_from(bits.saturating_sub(u128::from(tail_bytes) * 8) / 64).ok()?;
    let words = words.saturating_sub(threshold_words);
    Some(Columns::filling(words, blocks))
}

/// Returns the maximum bytes that building takes in addition to the hashes and the finished block. `None` beyond the
/// format's limit. For one thread: the choice of a kind by memory must not depend on the number of threads.
pub(crate) fn estimated_build_bytes(keys: u64, columns: Columns) -> Option<u64> {
    let first_slots = expected_shape(keys, columns)?.layers().first()?.slots;
    let section = section_bytes(first_slots);
    // First the hashes are sorted, with a second copy of them. After that, a layer holds its keys and those that it
    // bumps; a layer that takes all keys holds its own copies.
    let sorting = keys * 8 + 262_144;
    let held = if bumps(keys, 0) { keys * 5 / 4 } else { keys * 24 } + 65_536;
    Some(sorting.max(section + held))
}

/// The shape of a Ribbon filter: its columns, layers and salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RibbonShape {
    columns: Columns,
    filter: Filter,
}

impl RibbonShape {
    pub(super) fn columns(&self) -> Columns {
        self.columns
    }

    /// Returns the shape of layers with these numbers of blocks, the final one last; `None` if there is no layer, too
    /// many, or an empty one.
    pub(super) fn new(columns: Columns, blocks: &[u32], salt: u8) -> Option<Self> {
        let mut filter = Filter::default();
        filter.lay_out(columns, blocks, salt)?;
        Some(Self { columns, filter })
    }

    /// Returns the same layers with other columns.
    fn with_columns(&self, columns: Columns) -> Option<Self> {
        let params = self.params();
        let (_, blocks) = params.as_slice().split_first()?;
        Self::new(columns, blocks, self.salt())
    }

    /// Copies the first columns of each block from `words` to `kept`, as many as `smaller` has there, and the
    /// thresholds of all bumping layers, which do not depend on the columns.
    fn copy_into(&self, smaller: &Self, words: &[[u8; 8]], kept: &mut [[u8; 8]]) -> Option<()> {
        for (from, to) in self.layers().iter().zip(smaller.layers()) {
            for block in 0..to.blocks() {
                let (first, _) = from.block(block, self.columns.upper());
                let (first_kept, count) = to.block(block, smaller.columns.upper());
                let kept = kept.get_mut(word_range(first_kept, count)?)?;
                kept.copy_from_slice(words.get(word_range(first, count)?)?);
            }
        }
        let count = |shape: &Self| shape.layers().iter().map(|layer| layer.words(shape.columns)).sum::<u64>();
        let from = words.get(usize::try_from(count(self)).ok()?..)?;
        let to = kept.get_mut(usize::try_from(count(smaller)).ok()?..)?;
        (from.len() == to.len()).then(|| to.copy_from_slice(from))
    }

    /// Probes a filter that is not kept open. `None` where [`decode`](FilterShape::decode) fails.
    #[inline]
    pub(crate) fn probe_once(params: &[u32], salt: u8, payload: &[u8], hash: KeyHash) -> Option<bool> {
        let (&packed, blocks) = params.split_first()?;
        let columns = Columns::decode(packed)?;
        let mut filter = Filter::default();
        filter.lay_out(columns, blocks, salt)?;
        let view = filter.view(payload).filter(|_| payload.len() as u64 == filter.payload_bytes())?;
        Some(query::may_contain(view, hash))
    }

    /// Returns the largest shape with at most `max_bytes` and fewer bytes than this one. Blocks keep their first
    /// columns. Any smaller mean works, also if only more blocks become lower ones: of two neighbouring blocks the
    /// second never has fewer columns than the first, so each equation still finds all columns of its result.
    pub(in crate::filter) fn next_smaller(&self, max_bytes: u64) -> Option<Self> {
        let max_bytes = max_bytes.min(self.payload_bytes().checked_sub(1)?);
        let with_shares =
            |shares| self.with_columns(Columns::of_shares(shares)).filter(|shape| shape.payload_bytes() <= max_bytes);
        // Bisection over the mean number of columns: bytes ascend with it.
        let (mut fitting, mut shares) = (with_shares(Columns::ONE.shares())?, Columns::ONE.shares());
        let mut too_many = self.columns.shares();
        while too_many - shares > 1 {
            let middle = shares.midpoint(too_many);
            match with_shares(middle) {
                Some(shape) => (fitting, shares) = (shape, middle),
                None => too_many = middle,
            }
        }
        Some(fitting)
    }

    /// Returns the next shape of whole columns: between them each word lowers the rate by a constant, so that no size
    /// is better than another.
    pub(in crate::filter) fn shrink_step(&self, below_bytes: u64) -> Option<Self> {
        (1..=self.columns.upper()).rev().find_map(|upper| {
            let smaller = self.with_columns(Columns::new(upper, 0)?)?;
            (smaller.payload_bytes() < below_bytes).then_some(smaller)
        })
    }

    pub(in crate::filter) fn shrink_into(&self, smaller: &Self, payload: &[u8], out: &mut [u8]) -> bool {
        self.copy_into(smaller, payload.as_chunks().0, out.as_chunks_mut().0).is_some()
    }

    /// Returns the filter with its payload, which begins `data`; `None` if `data` is too short.
    #[inline]
    pub(super) fn view<'a>(&'a self, data: &'a [u8]) -> Option<FilterView<'a>> {
        self.filter.view(data)
    }

    pub(super) fn layers(&self) -> &[Layer] {
        self.filter.layers()
    }
}

impl FilterShape for RibbonShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let &[packed, ref blocks @ ..] = encoded.params.as_slice() else {
            return Err(BlockError::field("parameter words", "2 to 8 for ribbon", 0_u64));
        };
        let expected = "1 to 32, with a lower share only above 1";
        let columns = Columns::decode(packed).ok_or(BlockError::field("ribbon columns", expected, packed))?;
        let wrong = BlockError::field("ribbon layers", "1 to 7, none of them empty", blocks.len() as u64);
        Self::new(columns, blocks, encoded.salt).ok_or(wrong)
    }

    fn params(&self) -> ParamWords {
        let columns = u32::from(self.columns.upper()) | u32::from(self.columns.lower_share()) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "made from a u32 of blocks")]
        let blocks = self.layers().iter().map(|layer| layer.blocks() as u32);
        core::iter::once(columns).chain(blocks).collect()
    }

    fn salt(&self) -> u8 {
        self.filter.salt()
    }

    fn payload_bytes(&self) -> u64 {
        self.filter.payload_bytes()
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        let all_slots: u64 = self.layers().iter().map(|layer| layer.slots).sum();
        let rates = self.layers().iter().map(|layer| {
            let smash = if layer.lower_blocks > 0 { layer.smash } else { 0 };
            let all = starts(layer.slots, layer.smash);
            self.columns.rate(u64::from(layer.lower_blocks) * WIDTH + u64::from(smash), all) * layer.slots as f64
        });
        // An absent key whose 64-bit hash equals that of a present one is a false positive with any number of columns.
        rates.sum::<f64>() / all_slots as f64 + keys as f64 / power(2.0, 64_u8)
    }

    fn describe(&self) -> ShapeFields {
        let slots: Vec<String> = self.layers().iter().map(|layer| layer.slots.to_string()).collect();
        let lower: u64 = self.layers().iter().map(|layer| u64::from(layer.lower_blocks)).sum();
        let all: u64 = self.layers().iter().map(Layer::blocks).sum();
        let upper = self.columns.upper();
        let columns = if lower == 0 {
            upper.to_string()
        } else {
            format!("{} in {lower} of {all} blocks, else {upper}", upper - 1)
        };
        vec![("columns", columns), ("layers", self.layers().len().to_string()), ("slots per layer", slots.join(", "))]
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        self.filter.view(payload).is_none_or(|view| query::may_contain(view, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        match self.filter.view(payload) {
            Some(view) => query::may_contain_batch(view, hashes, matches),
            None => batch::all_match(hashes, matches),
        }
    }
}

/// Returns the indexes of `count` words from `first` on.
fn word_range(first: u64, count: u64) -> Option<Range<usize>> {
    let first = usize::try_from(first).ok()?;
    Some(first..first.checked_add(usize::try_from(count).ok()?)?)
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
