//! The shape of one filter, whichever kind it has.

use core::fmt;

use super::batch;
use super::encoded::{EncodedShape, ParamWords};
use crate::error::BlockError;
use crate::hash::KeyHash;

/// The shape of one filter: the parameters that a probe needs beside the payload.
///
/// Probes never fail and never read beyond the payload: if it is too short, they answer "may be present".
pub(crate) trait FilterShape: fmt::Debug + Send + Sync + 'static {
    /// Decodes a shape, and checks every field. The caller checks that the payload has the shape's length.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>
    where
        Self: Sized;

    /// The kind's parameters, as [`decode`](Self::decode) reads them.
    fn params(&self) -> ParamWords;

    /// Which of the kind's salts the build ended with, 0 to 15.
    fn salt(&self) -> u8 {
        0
    }

    /// Length of the payload, exactly: a multiple of 8.
    fn payload_bytes(&self) -> u64;

    /// The false positive rate of a filter of this shape with `keys` distinct keys.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// The parameters by name, for display.
    fn describe(&self) -> ShapeFields;

    /// How full the filter is, from 0 to 1; `None` for kinds that do not fill up. Reads the whole payload.
    fn fill_ratio(&self, _payload: &[u8]) -> Option<f64> {
        None
    }

    /// Whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    /// Probes many: bit `i % 64` of word `i / 64` of `matches` becomes the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        batch::answers(hashes, matches, |hash| self.may_contain(payload, hash));
    }

    /// Whether every one of `hashes` is found.
    fn contains_all(&self, payload: &[u8], hashes: &[KeyHash]) -> bool {
        // 16,384 keys at a time: their answers are 2 KiB and stay in L1.
        let mut matches = [0_u64; 1 << 8];
        hashes.chunks(64 * matches.len()).all(|chunk| {
            let matches = &mut matches[..chunk.len().div_ceil(64)];
            self.may_contain_batch(payload, chunk, matches);
            matches.iter().map(|word| word.count_ones() as usize).sum::<usize>() == chunk.len()
        })
    }

    /// The shape's fields for a trailer.
    fn encode(&self, keys: u64) -> EncodedShape {
        EncodedShape { params: self.params(), salt: self.salt(), keys, payload_bytes: self.payload_bytes() }
    }

    /// Bytes of the whole unbound block.
    fn block_bytes(&self) -> u64 {
        self.encode(0).block_bytes()
    }
}

/// A filter's shape for people: names with values, as in `lines 1, probes 7`.
///
/// ```
/// use sstfilter::kind::ShapeFields;
///
/// let fields = ShapeFields::default().with("lines", 1).with("probes", 7);
/// assert_eq!(fields.to_string(), "lines 1, probes 7");
/// assert_eq!(fields.get("probes"), Some("7"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeFields(Vec<(&'static str, String)>);

impl ShapeFields {
    /// Appends a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The fields, in the order in which the kind gives them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Display for ShapeFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {value}")?;
        }
        Ok(())
    }
}
