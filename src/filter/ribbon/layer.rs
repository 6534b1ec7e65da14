//! One layer: how many slots it has, and where its columns and thresholds lie in the payload.

use super::columns::Columns;
use super::equation::{BUCKET_SLOTS, LayerRole, SMASH, WIDTH, bumping_starts, final_starts};

/// One layer's place in the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    /// Slots, a multiple of 64.
    pub(super) slots: u64,
    /// The number of blocks with one column less; they come first.
    pub(super) lower_blocks: u64,
    /// First word of its columns.
    pub(super) first_word: u64,
    /// First word of its thresholds; none for the final layer.
    pub(super) threshold_word: u64,
}

impl Layer {
    /// A layer of `blocks` blocks whose columns start at word 0.
    pub(super) fn alone(columns: Columns, blocks: u32, role: LayerRole) -> Self {
        let slots = u64::from(blocks) * WIDTH;
        // The lower share is a share of starts, not of blocks: the rate is a mean over keys.
        let starts = match role {
            LayerRole::Bumping => columns.lower_part(bumping_starts(slots)),
            LayerRole::Final => columns.lower_part(final_starts(slots)).saturating_sub(SMASH),
        };
        Self { slots, lower_blocks: starts / WIDTH, ..Self::default() }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.slots / WIDTH
    }

    /// Words of columns.
    pub(super) fn words(&self, columns: Columns) -> u64 {
        self.blocks() * u64::from(columns.upper()) - self.lower_blocks
    }

    /// Words of thresholds: two bits for each bucket in which an equation can start.
    pub(super) fn threshold_words(&self) -> u64 {
        bumping_starts(self.slots).div_ceil(BUCKET_SLOTS).div_ceil(WIDTH / 2)
    }

    /// First word of block `block`'s columns, and how many it has where most blocks have `upper`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every query, and compiled with its instructions")]
    pub(super) fn block(&self, block: u64, upper: u8) -> (u64, u8) {
        let word = self.first_word + block * u64::from(upper) - block.min(self.lower_blocks);
        (word, upper - u8::from(block < self.lower_blocks))
    }

    /// Whether each block that an equation can reach lies within `words` words, and there are fewer than 2^32 slots.
    pub(super) fn columns_fit(&self, upper: u8, words: u64) -> bool {
        let (blocks, lower) = (self.blocks(), self.lower_blocks);
        let is_sound =
            self.slots.is_multiple_of(WIDTH) && (1..1 << 26).contains(&blocks) && upper > u8::from(lower > 0);
        let end = |first: u64| first.checked_add(blocks * u64::from(upper) - lower.min(blocks));
        is_sound && end(self.first_word).is_some_and(|end| end <= words)
    }

    /// Whether each threshold that a query can read lies within `words` words.
    pub(super) fn thresholds_fit(&self, words: u64) -> bool {
        let last = (self.slots - WIDTH) / BUCKET_SLOTS / 32;
        self.threshold_word.checked_add(last).is_some_and(|last| last < words)
    }
}
