//! The shape of a line ribbon: the lines of each layer, and the fields that a trailer records.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::layout::{Layout, MAX_LAYERS, SLOTS};
use super::simd::{self, View};
use crate::error::BlockError;
use crate::filter::blocked_bloom::line::Lines;
use crate::filter::{EncodedShape, FilterShape, ParamWords, ShapeFields, batch, power};
use crate::hash::KeyHash;

/// The columns of a line. Each is a word.
pub(super) const COLUMNS: u8 = 8;

/// How many keys a line gets: for each bumping layer its keys for a hundred slots, and how many in a thousand it bumps,
/// measured and rounded up. More keys leave fewer slots empty, but more of them are bumped, to be probed in a second
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load(pub(super) &'static [(u8, u8)]);

impl Load {
    /// From the fastest and largest filters to the smallest. The number of layers does not depend on that of keys, so
    /// that sizes grow with keys.
    pub(super) const ALL: [Self; 3] = [
        Self(&[(90, 30), (90, 30)]),
        Self(&[(100, 68), (100, 68), (95, 48)]),
        Self(&[(105, 96), (105, 96), (100, 72)]),
    ];

    /// Returns the shape of a filter of `keys` keys; `None` beyond the format's limit.
    pub(super) fn shape(self, keys: u64) -> Option<LineRibbonShape> {
        let (mut left, mut lines) = (u128::from(keys), Vec::with_capacity(MAX_LAYERS));
        for &(percent, bumped) in self.0 {
            lines.push(u32::try_from((left * 100).div_ceil(u128::from(SLOTS) * u128::from(percent))).ok()?.max(1));
            left = (left * u128::from(bumped)).div_ceil(1_000);
        }
        // At half a key for each slot, and four standard deviations more, one line in ten million is overfull.
        lines.push(u32::try_from((left + (16 * left).isqrt() + 4).div_ceil(32)).ok()?);
        Layout::new(&lines, 0).map(|layout| LineRibbonShape { layout })
    }
}

/// The shape of a line ribbon: its layers and its salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRibbonShape {
    pub(super) layout: Layout,
}

impl LineRibbonShape {
    /// Probes a filter that is not kept open; `None` for parameters or a payload that are not sound.
    pub(crate) fn probe_once(params: &[u32], salt: u8, payload: &[u8], hash: KeyHash) -> Option<bool> {
        let layout = Layout::new(params, salt).filter(|layout| layout.payload_bytes == payload.len() as u64)?;
        View::new(&layout, payload).map(|view| simd::may_contain(view, hash))
    }

    /// Returns the lines of the first layer; limits follow those of all layers.
    pub(in crate::filter) fn first_lines(&self) -> Lines {
        Lines::among(self.layout.layers[0].lines, self.layout.limits_at)
    }
}

impl FilterShape for LineRibbonShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let lines = encoded.params.as_slice();
        let wrong = BlockError::field("line ribbon layers", "2 to 7, none of them empty", lines.len() as u64);
        Layout::new(lines, encoded.salt).map(|layout| Self { layout }).ok_or(wrong)
    }

    fn params(&self) -> ParamWords {
        #[expect(clippy::cast_possible_truncation, reason = "made from a u32 of lines")]
        self.layout.layers().iter().map(|layer| layer.lines as u32).collect()
    }

    fn salt(&self) -> u8 {
        self.layout.salt
    }

    fn payload_bytes(&self) -> u64 {
        self.layout.payload_bytes
    }

    /// Returns 2^-8, and the share of absent keys whose 64-bit hash equals that of a present one.
    fn expected_fpr(&self, keys: u64) -> f64 {
        power(0.5, COLUMNS) + keys as f64 / power(2.0, 64_u8)
    }

    fn describe(&self) -> ShapeFields {
        let lines: Vec<String> = self.layout.layers().iter().map(|layer| layer.lines.to_string()).collect();
        vec![("columns", COLUMNS.to_string()), ("lines per layer", lines.join(", ")), ("salt", self.salt().to_string())]
    }

    #[inline]
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        View::new(&self.layout, payload).is_none_or(|view| simd::may_contain(view, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        match View::new(&self.layout, payload) {
            Some(view) => simd::may_contain_batch(view, hashes, matches),
            None => batch::all_match(hashes, matches),
        }
    }
}
