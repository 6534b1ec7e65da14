//! The filter kinds, one folder each, all with the same furniture: the essay, sizing, build, probe.
//!
//! A kind knows hashes and its own payload; it does not know the block that carries it.

pub mod blocked_bloom;
pub mod ribbon;

use core::fmt;

use crate::error::BlockError;
use crate::hash::KeyHash;

/// The number of a kind of filter, as it stands in a block's trailer.
///
/// 0 is never written; 1 to 127 belong to this project; 128 to 255 to its users.
///
/// ```
/// use sstfilter::FilterKind;
///
/// assert_eq!(FilterKind::RIBBON.name(), "ribbon");
/// assert!(FilterKind::from_code(200).is_user_defined());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterKind(u8);

impl FilterKind {
    /// Blocked Bloom, one 64-byte line per key: the default.
    pub const BLOCKED_BLOOM: Self = Self(1);
    /// Bumped Ribbon.
    pub const RIBBON: Self = Self(2);

    /// The kind with this number, known or not.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// The kind's number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Whether the number is one of those left to users of the format.
    #[must_use]
    pub const fn is_user_defined(self) -> bool {
        self.0 >= 128
    }

    /// The kind's name in figures and files of options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BLOCKED_BLOOM => "bloom",
            Self::RIBBON => "ribbon",
            Self(128..) => "user-defined",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilterKind({}, {})", self.0, self.name())
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The most parameter words that a block can carry: their number has four bits.
pub(crate) const MAX_PARAM_WORDS: usize = 15;

/// What a kind records of a filter's shape, in 32-bit words that only the kind can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParamWords {
    words: [u32; MAX_PARAM_WORDS],
    count: u8,
}

impl ParamWords {
    /// Appends a word; a sixteenth is dropped (no kind has as many).
    pub(crate) fn push(&mut self, word: u32) {
        if let Some(slot) = self.words.get_mut(usize::from(self.count)) {
            *slot = word;
            self.count += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        self.words.get(..usize::from(self.count)).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> u8 {
        self.count
    }
}

impl FromIterator<u32> for ParamWords {
    fn from_iter<I: IntoIterator<Item = u32>>(words: I) -> Self {
        let mut params = Self::default();
        words.into_iter().for_each(|word| params.push(word));
        params
    }
}

/// What a block's trailer says to the kind that built the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodedShape {
    /// The kind's own parameters.
    pub(crate) params: ParamWords,
    /// Which of the kind's salts the build ended with, 0 to 15.
    pub(crate) salt: u8,
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Length of the payload.
    pub(crate) payload_bytes: u64,
}

/// The shape of one filter: all that is needed, beside the payload, to probe it.
///
/// Probes never fail: on a payload of another length than the shape's they answer "may be present".
pub(crate) trait FilterShape: Sized {
    /// Reads and checks a shape: every field, and that all of them agree with the payload's length.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>;

    /// Length of the payload, exactly.
    fn payload_bytes(&self) -> u64;

    /// The share of absent keys that a filter of this shape with `keys` distinct keys lets through.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// Whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    /// Probes many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
        probe_one_by_one(self, payload, hashes, hits);
    }
}

/// [`FilterShape::may_contain_batch`] by [`FilterShape::may_contain`].
pub(crate) fn probe_one_by_one(shape: &impl FilterShape, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]) {
    for (chunk, word) in hashes.chunks(64).zip(hits) {
        *word = chunk
            .iter()
            .enumerate()
            .fold(0, |bits, (bit, &hash)| bits | u64::from(shape.may_contain(payload, hash)) << bit);
    }
}
