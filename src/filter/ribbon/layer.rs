//! One layer: its number of slots, and the position of its columns and thresholds in the payload.

use super::columns::Columns;
use super::equation::{BUCKET_SLOTS, WIDTH, starts};
use crate::hash::map_to_range;

/// The maximum number of bumping layers before the final one.
pub(super) const MAX_BUMPING_LAYERS: usize = 6;

/// The position of one layer in the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    /// The number of slots, a multiple of 64.
    pub(super) slots: u64,
    /// How far beyond each end its starts are drawn: [`SMASH`](super::equation::SMASH) for the final layer, which must
    /// take all keys, and 0 for the others, which can bump keys to the next layer.
    pub(super) smash: u32,
    /// The number of blocks with one column less; they come first.
    pub(super) lower_blocks: u32,
    /// The first word of its columns.
    pub(super) first_word: u64,
    /// The first word of its thresholds; 0 for the final layer, which has none.
    pub(super) threshold_word: u64,
}

impl Layer {
    /// Returns a layer of `blocks` blocks whose columns start at word 0.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fewer than there are blocks")]
    pub(super) fn alone(columns: Columns, blocks: u32, smash: u32) -> Self {
        let slots = u64::from(blocks) * WIDTH;
        // The lower share is a share of starts, not of blocks, because the rate is a mean over keys.
        let lower_starts = columns.lower_part(starts(slots, smash)).saturating_sub(smash.into());
        Self { slots, smash, lower_blocks: (lower_starts / WIDTH) as u32, ..Self::default() }
    }

    /// Returns the first slot of a key's equation; monotone in the hash.
    #[inline]
    pub(super) fn start(&self, hash: u64) -> u64 {
        // Clamps the starts that were drawn beyond an end.
        map_to_range(hash, starts(self.slots, self.smash)).saturating_sub(self.smash.into()).min(self.slots - WIDTH)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.slots / WIDTH
    }

    /// Returns the number of words of columns.
    #[inline]
    pub(super) fn words(&self, columns: Columns) -> u64 {
        self.blocks() * u64::from(columns.upper()) - u64::from(self.lower_blocks)
    }

    /// Returns the number of words of thresholds: two bits for each bucket in which an equation can start.
    #[inline]
    pub(super) fn threshold_words(&self) -> u64 {
        starts(self.slots, 0).div_ceil(BUCKET_SLOTS).div_ceil(WIDTH / 2)
    }

    /// Returns the first word of block `block`'s columns, and their number if most blocks have `upper`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every query, and compiled with its instructions")]
    pub(super) fn block(&self, block: u64, upper: u8) -> (u64, u64) {
        let (upper, lower) = (u64::from(upper), u64::from(self.lower_blocks));
        // In a batch this is a 32-bit multiplication: vectors have no 64-bit one before AVX-512.
        let word = self.first_word + (block & 0xffff_ffff) * upper - block.min(lower);
        (word, upper - u64::from(block < lower))
    }

    /// Returns the end of the columns that an equation can reach, in words; `None` for a layer that no filter has.
    #[inline]
    pub(super) fn columns_end(&self, upper: u8) -> Option<u64> {
        let (blocks, lower) = (self.blocks(), u64::from(self.lower_blocks));
        let is_sound =
            self.slots.is_multiple_of(WIDTH) && (1..1 << 32).contains(&blocks) && upper > u8::from(lower > 0);
        if !is_sound {
            return None;
        }
        self.first_word.checked_add(blocks * u64::from(upper) - lower.min(blocks))
    }

    /// Returns the end of the thresholds that a query can read, in words.
    #[inline]
    pub(super) fn thresholds_end(&self) -> Option<u64> {
        let last = (self.slots - WIDTH) / BUCKET_SLOTS / 32;
        self.threshold_word.checked_add(last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::ribbon::equation::{SMASH, bumping_start};

    #[test]
    fn starts_leave_room_for_the_whole_equation_and_grow_with_the_hash() {
        for slots in [64, 128, 192, 1 << 20, 1 << 38] {
            let hashes = (0..=1_000_u64).map(|step| (u64::MAX / 1_000) * step);
            for smash in [0, SMASH] {
                let layer = Layer { slots, smash, ..Layer::default() };
                let starts: Vec<u64> = hashes.clone().map(|hash| layer.start(hash)).collect();
                assert!(starts.is_sorted() && starts[0] == 0 && starts[1_000] + WIDTH <= slots);
                assert_eq!(layer.start(u64::MAX), slots - WIDTH);
            }
        }
    }

    #[test]
    fn starts_of_a_bumping_layer_are_those_that_a_query_draws() {
        for slots in [64, 128, 192, 1 << 20, 1 << 38] {
            for hash in (0..=1_000_u64).map(|step| (u64::MAX / 1_000) * step) {
                let layer = Layer { slots, ..Layer::default() };
                assert_eq!(layer.start(hash), bumping_start(hash, slots));
            }
        }
    }
}
