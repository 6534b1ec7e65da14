//! The shape of a Ribbon filter, and its probe.

use super::columns::Columns;
use super::equation::{SMASH, WIDTH, bumping_starts, final_starts};
use crate::error::BlockError;
use crate::filter::{EncodedShape, FilterKind, FilterShape, ParamWords};
use crate::hash::KeyHash;
pub(super) use crate::kernel::equation::{BUCKET_SLOTS, THRESHOLDS};
pub(super) use crate::kernel::ribbon_query::Layer;
use crate::kernel::ribbon_query::{self, Table};

/// The most bumping layers before the final one.
pub(crate) const MAX_BUMPING_LAYERS: usize = 6;

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

    /// The layers in use: bumping ones, then the final one.
    pub(super) fn layers(&self) -> &[Layer] {
        self.layers.get(..=self.bumping).unwrap_or_default()
    }

    /// The filter as its kernel wants it.
    #[inline]
    fn table<'a>(&'a self, payload: &'a [u8]) -> Table<'a> {
        let (bumping, rest) = self.layers.split_at(self.bumping.min(MAX_BUMPING_LAYERS));
        let (words, _) = payload.as_chunks();
        Table { words, bumping, last: &rest[0], upper: self.columns.upper(), salt: self.salt }
    }
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
    const KIND: FilterKind = FilterKind::RIBBON;

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

    fn params(&self) -> ParamWords {
        let columns = u32::from(self.columns.upper()) | u32::from(self.columns.lower_share()) << 16;
        #[expect(clippy::cast_possible_truncation, reason = "made from a u32 of blocks")]
        let blocks = self.layers().iter().map(|layer| layer.blocks() as u32);
        core::iter::once(columns).chain(blocks).collect()
    }

    fn salt(&self) -> u8 {
        self.salt
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

    fn describe(&self) -> Vec<(&'static str, String)> {
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

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        ribbon_query::may_contain(&self.table(payload), hash)
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        ribbon_query::may_contain_batch(&self.table(payload), hashes, hits);
    }
}
