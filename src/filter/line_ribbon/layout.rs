//! Where the lines and limits of each layer are in a payload.

use crate::codec::LINE_BYTES;

/// The slots of a line.
pub(super) const SLOTS: u64 = 64;

/// The maximum number of layers, the final one included.
pub(super) const MAX_LAYERS: usize = 7;

/// The lines of a layer among those of all layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) first: u64,
    /// At least 1, and below 2^32.
    pub(super) lines: u64,
}

/// The layers and the salt of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) payload_bytes: u64,
    /// The offset of the limits.
    pub(super) limits_at: u64,
    pub(super) layers: [Layer; MAX_LAYERS],
    /// The number of bumping layers, from 1 to 6.
    bumping: u8,
    pub(super) salt: u8,
}

impl Layout {
    /// Returns the layout of layers with these numbers of lines, the final one last; `None` if there are fewer than two
    /// layers, too many, or an empty one.
    pub(super) fn new(lines: &[u32], salt: u8) -> Option<Self> {
        let bumping = lines.len().checked_sub(1).filter(|bumping| (1..MAX_LAYERS).contains(bumping))?;
        let (mut layers, mut all_lines) = ([Layer::default(); MAX_LAYERS], 0);
        for (layer, &lines) in layers.iter_mut().zip(lines) {
            *layer = Layer { first: all_lines, lines: lines.into() };
            all_lines += layer.lines;
        }
        let limits_at = all_lines * LINE_BYTES as u64;
        let payload_bytes = (limits_at + layers[bumping].first).next_multiple_of(8);
        let layout = Self { payload_bytes, limits_at, layers, bumping: u8::try_from(bumping).ok()?, salt };
        (!lines.contains(&0)).then_some(layout)
    }

    /// Returns the layers, the final one last.
    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers[..=usize::from(self.bumping)]
    }

    /// Returns the bumping layers after the first, and the final layer.
    #[inline]
    pub(super) fn later_layers(&self) -> (&[Layer], Layer) {
        let bumping = usize::from(self.bumping);
        (self.layers.get(1..bumping).unwrap_or_default(), self.layers[bumping % MAX_LAYERS])
    }
}
