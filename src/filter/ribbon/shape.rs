//! The shape of a Ribbon filter, and its probe.

use super::columns::Columns;
use super::equation::{
    SMASH, WIDTH, bumping_start, bumping_starts, coefficients, final_layer_hash, final_start, final_starts,
    next_layer_hash, result,
};
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterShape, ParamWords};
use crate::hash::KeyHash;
use crate::kernel::parity::{GROUP, parities};

/// The most bumping layers before the final one.
pub(crate) const MAX_BUMPING_LAYERS: usize = 6;

/// Slots of a bucket: keys are bumped by bucket.
pub(super) const BUCKET_SLOTS: u64 = 128;

/// By threshold code: keys whose start lies fewer slots than this from the left of the bucket are bumped to
/// the next layer.
pub(super) const THRESHOLDS: [u8; 4] = [0, 18, 38, 128];

/// One layer's place in the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    /// Slots, a multiple of 64.
    pub(super) slots: u64,
    /// Blocks of one column less.
    pub(super) lower_blocks: u64,
    /// First word of its columns.
    pub(super) first_word: u64,
    /// First word of its thresholds; none for the final layer.
    pub(super) threshold_word: u64,
}

/// What becomes of keys that a layer cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerRole {
    /// They go to the next layer.
    Bumping,
    /// It has to take all.
    Final,
}

impl Layer {
    /// A layer of `blocks` blocks whose columns start at word 0.
    pub(super) fn alone(columns: Columns, blocks: u32, role: LayerRole) -> Self {
        let slots = u64::from(blocks) * WIDTH;
        Self { slots, lower_blocks: lower_blocks(columns, slots, role), ..Self::default() }
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
        buckets(self.slots).div_ceil(WIDTH / 2)
    }

    /// First word of block `block`'s columns, and how many it has.
    #[inline]
    pub(super) fn block(&self, block: u64, columns: Columns) -> (u64, u8) {
        let upper = columns.upper();
        let word = self.first_word + block * u64::from(upper) - block.min(self.lower_blocks);
        (word, upper - u8::from(block < self.lower_blocks))
    }
}

/// Buckets of a bumping layer.
fn buckets(slots: u64) -> u64 {
    bumping_starts(slots).div_ceil(BUCKET_SLOTS)
}

/// The shape of a Ribbon filter: columns, layers and salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RibbonShape {
    columns: Columns,
    /// Bumping layers, then the final one.
    layers: [Layer; MAX_BUMPING_LAYERS + 1],
    bumping: usize,
    salt: u8,
    words: u64,
}

impl RibbonShape {
    /// The shape of layers of so many blocks each, the final one last; `None` when there is no layer, too
    /// many, or an empty one.
    pub(super) fn new(columns: Columns, blocks: &[u32], salt: u8) -> Option<Self> {
        let bumping = blocks.len().checked_sub(1).filter(|&bumping| bumping <= MAX_BUMPING_LAYERS)?;
        let mut layers = [Layer::default(); MAX_BUMPING_LAYERS + 1];
        let mut words = 0;
        for (index, (layer, &blocks)) in layers.iter_mut().zip(blocks).enumerate() {
            if blocks == 0 {
                return None;
            }
            let role = if index == bumping { LayerRole::Final } else { LayerRole::Bumping };
            *layer = Layer { first_word: words, ..Layer::alone(columns, blocks, role) };
            words += layer.words(columns);
        }
        for layer in layers.iter_mut().take(bumping) {
            layer.threshold_word = words;
            words += layer.threshold_words();
        }
        Some(Self { columns, layers, bumping, salt, words })
    }

    pub(crate) fn params(&self) -> ParamWords {
        let columns = u32::from(self.columns.upper()) | u32::from(self.columns.lower_share()) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "made from a u32 of blocks")]
        let blocks = self.layers().iter().map(|layer| layer.blocks() as u32);
        core::iter::once(columns).chain(blocks).collect()
    }

    pub(crate) fn salt(&self) -> u8 {
        self.salt
    }

    /// The layers in use: bumping ones, then the final one.
    pub(super) fn layers(&self) -> &[Layer] {
        self.layers.get(..=self.bumping).unwrap_or_default()
    }

    /// The shape in words, for people.
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let slots: Vec<String> = self.layers().iter().map(|layer| layer.slots.to_string()).collect();
        let lower: u64 = self.layers().iter().map(|layer| layer.lower_blocks).sum();
        let all: u64 = self.layers().iter().map(Layer::blocks).sum();
        let upper = self.columns.upper();
        let columns = if lower == 0 {
            upper.to_string()
        } else {
            format!("{} in {lower} of {all} blocks, else {upper}", upper - 1)
        };
        vec![("columns", columns), ("layers", self.layers().len().to_string()), ("slots per layer", slots.join(", "))]
    }

    /// Whether the equation of `hash` at `start` of `layer` holds; `true` when the payload is too short.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "eight bits of a result at a time")]
    fn holds(&self, words: &[[u8; 8]], layer: &Layer, hash: u64, start: u64) -> bool {
        let (block, shift) = (start / WIDTH, start % WIDTH);
        let (word, count) = layer.block(block, self.columns);
        let left = coefficients(hash) << shift;
        // The equation's slots in the next block: none when it fills its own.
        let right = if shift == 0 { 0 } else { coefficients(hash) >> (WIDTH - shift) };
        let next = if shift == 0 { word } else { word + u64::from(count) };
        let (Some(here), Some(there)) = (columns_at(words, word, count), columns_at(words, next, count)) else {
            return true;
        };
        let wanted = result(hash);
        let mut differing = 0;
        for (group, (here, there)) in here.chunks(GROUP).zip(there.chunks(GROUP)).enumerate() {
            let mut masked = [0; GROUP];
            for ((out, here), there) in masked.iter_mut().zip(here).zip(there) {
                *out = (u64::from_le_bytes(*here) & left) ^ (u64::from_le_bytes(*there) & right);
            }
            let expected = (wanted >> (group * GROUP)) as u8 & (u8::MAX >> (GROUP - here.len()));
            differing |= parities(&masked) ^ expected;
        }
        differing == 0
    }

    /// Whether `layer` passes keys that start at `start` on to the next layer.
    #[inline]
    fn bumps(words: &[[u8; 8]], layer: &Layer, start: u64) -> Option<bool> {
        let bucket = start / BUCKET_SLOTS;
        let packed = u64::from_le_bytes(*words.get(usize::try_from(layer.threshold_word + bucket / 32).ok()?)?);
        let code = packed >> (bucket % 32 * 2) & 3;
        Some(start % BUCKET_SLOTS < u64::from(THRESHOLDS[code as usize & 3]))
    }
}

/// `count` words from `first` on.
#[inline]
fn columns_at(words: &[[u8; 8]], first: u64, count: u8) -> Option<&[[u8; 8]]> {
    words.get(usize::try_from(first).ok()?..)?.get(..usize::from(count))
}

/// How many of a layer's first blocks have one column less: as many as keep to the lower share.
fn lower_blocks(columns: Columns, slots: u64, role: LayerRole) -> u64 {
    let starts = match role {
        LayerRole::Bumping => columns.lower_part(bumping_starts(slots)),
        LayerRole::Final => columns.lower_part(final_starts(slots)).saturating_sub(SMASH),
    };
    starts / WIDTH
}

impl FilterShape for RibbonShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let field = |field, expected, got| BlockError::Field { field, expected, got };
        let (packed, blocks) = match encoded.params.as_slice() {
            [packed, blocks @ ..] => (*packed, blocks),
            [] => return Err(field("parameter words", "2 to 8 for ribbon", 0)),
        };
        let [upper, reserved, low, high] = packed.to_le_bytes();
        let columns = Columns::new(upper, u16::from_le_bytes([low, high])).filter(|_| reserved == 0).ok_or(field(
            "ribbon columns",
            "1 to 32, with a lower share only above 1",
            packed.into(),
        ))?;
        let shape = Self::new(columns, blocks, encoded.salt).ok_or(field(
            "ribbon layers",
            "1 to 7, none of them empty",
            blocks.len() as u64,
        ))?;
        if shape.payload_bytes() != encoded.payload_bytes {
            return Err(field("payload bytes", "the length that its layers add up to", encoded.payload_bytes));
        }
        Ok(shape)
    }

    fn payload_bytes(&self) -> u64 {
        self.words * 8
    }

    fn expected_fpr(&self, keys: u64) -> f64 {
        let all_slots: u64 = self.layers().iter().map(|layer| layer.slots).sum();
        let rates = self.layers().iter().enumerate().map(|(index, layer)| {
            let is_final = index == self.bumping;
            let all = if is_final { final_starts(layer.slots) } else { bumping_starts(layer.slots) };
            let smash = if is_final && layer.lower_blocks > 0 { SMASH } else { 0 };
            self.columns.rate(layer.lower_blocks * WIDTH + smash, all) * layer.slots as f64
        });
        // An absent key whose 64-bit hash equals that of a present one gets through whatever the columns.
        rates.sum::<f64>() / all_slots as f64 + keys as f64 / 2.0_f64.powi(64)
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        let (words, _) = payload.as_chunks::<8>();
        let mut hash = hash.get();
        let Some((last, bumping)) = self.layers().split_last() else { return true };
        for (index, layer) in bumping.iter().enumerate() {
            if index > 0 {
                hash = next_layer_hash(hash);
            }
            let start = bumping_start(hash, layer.slots);
            match Self::bumps(words, layer, start) {
                Some(true) => {}
                Some(false) => return self.holds(words, layer, hash, start),
                None => return true,
            }
        }
        let hash = final_layer_hash(hash, self.salt);
        self.holds(words, last, hash, final_start(hash, last.slots))
    }
}
