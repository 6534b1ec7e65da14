//! The filter kinds, one folder each, all with the same furniture: the essay, sizing, build, probe.
//!
//! A kind knows hashes and its own payload; it does not know the block that carries it.

pub mod binary_fuse;
pub mod blocked_bloom;
pub mod counting_bloom;
pub mod cuckoo;
pub(crate) mod fingerprint;
pub(crate) mod peel;
mod power;
pub mod ribbon;
pub mod standard_bloom;
pub mod two_bit_bloom;
pub mod xor;
pub mod xor_plus;

use core::fmt;

pub(crate) use power::power;

use crate::codec::AlignedBuffer;
use crate::error::{BlockError, FilterError};
use crate::hash::{HashIdentity, KeyHash};

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
    /// Bloom over the whole array, by double hashing.
    pub const STANDARD_BLOOM: Self = Self(3);
    /// Bloom with 4-bit counters instead of bits.
    pub const COUNTING_BLOOM: Self = Self(4);
    /// Bloom with all bits of a key in one word, for many threads.
    pub const TWO_BIT_BLOOM: Self = Self(5);
    /// Cuckoo: tags in buckets of four.
    pub const CUCKOO: Self = Self(6);
    /// Xor: fingerprints in three blocks.
    pub const XOR: Self = Self(7);
    /// Xor+: an xor filter whose third block leaves out its empty cells.
    pub const XOR_PLUS: Self = Self(8);
    /// Binary fuse: fingerprints in three or four neighbouring segments.
    pub const BINARY_FUSE: Self = Self(9);

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
            Self::STANDARD_BLOOM => "standard-bloom",
            Self::COUNTING_BLOOM => "counting-bloom",
            Self::TWO_BIT_BLOOM => "two-bit-bloom",
            Self::CUCKOO => "cuckoo",
            Self::XOR => "xor",
            Self::XOR_PLUS => "xor+",
            Self::BINARY_FUSE => "binary-fuse",
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
/// Probes never fail, and read nothing beyond the payload: where one too short lacks what is to be read, they answer
/// "may be present".
pub(crate) trait FilterShape: Sized {
    /// The kind whose shape it is.
    const KIND: FilterKind;

    /// Reads and checks a shape: every field, and that all of them agree with the payload's length.
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError>;

    /// The kind's parameters, as [`decode`](Self::decode) reads them.
    fn params(&self) -> ParamWords;

    /// Which of the kind's salts the build ended with, 0 to 15.
    fn salt(&self) -> u8 {
        0
    }

    /// Length of the payload, exactly: a multiple of 8.
    fn payload_bytes(&self) -> u64;

    /// The share of absent keys that a filter of this shape with `keys` distinct keys lets through.
    fn expected_fpr(&self, keys: u64) -> f64;

    /// The shape in names and values, for people.
    fn describe(&self) -> Vec<(&'static str, String)>;

    /// How full the filter is, from 0 to 1, where the kind has such a thing; reads the whole payload.
    fn fill_ratio(&self, _payload: &[u8]) -> Option<f64> {
        None
    }

    /// Whether the key of `hash` may have been added.
    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool;

    /// Probes many: bit `i % 64` of word `i / 64` of `hits` becomes the answer for hash `i`.
    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], hits: &mut [u64]);

    /// What a trailer records of the shape.
    fn encode(&self, keys: u64) -> EncodedShape {
        EncodedShape { params: self.params(), salt: self.salt(), keys, payload_bytes: self.payload_bytes() }
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

/// The answers of a batch to a payload that cannot be asked.
pub(crate) fn all_may_be_present(hashes: &[KeyHash], hits: &mut [u64]) {
    hits.iter_mut().zip(hashes.chunks(64)).for_each(|(word, chunk)| *word = u64::MAX >> (64 - chunk.len()));
}

/// A finished payload of a static kind, and its shape.
#[derive(Debug)]
pub(crate) struct BuiltPayload<S> {
    pub(crate) shape: S,
    pub(crate) payload: AlignedBuffer,
    /// Attempts made; 1 for kinds that always succeed.
    pub(crate) attempts: u32,
    /// The most bytes held at once, the input hashes not included.
    pub(crate) peak_bytes: u64,
}

/// Why a static kind has no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildFailure {
    /// More keys than the format has room for.
    TooManyKeys,
    /// The system gave no memory.
    NoMemory,
    /// Every attempt met a contradiction.
    AttemptsExhausted,
}

/// Whether the keys of two filters can be merged.
pub(crate) fn check_same_hash(expected: HashIdentity, got: HashIdentity) -> Result<(), FilterError> {
    if expected == got { Ok(()) } else { Err(FilterError::HashMismatch { expected, got }) }
}

/// A filter that takes keys while it is in use, as the block sees it that stores it.
pub(crate) trait Storable: Sized {
    /// The kind's shape.
    type Shape: FilterShape;

    /// Its shape now.
    fn shape(&self) -> Self::Shape;

    /// The hash of its keys.
    fn hash_identity(&self) -> HashIdentity;

    /// Keys in it.
    fn keys(&self) -> u64;

    /// Writes the payload over `out`, zeros as many as the shape says.
    fn write_payload(&self, out: &mut [u8]);

    /// The filter that was stored as `payload`, whose length is the shape's and whose checksum holds. It may still
    /// be a payload that no writer makes: that is an error, or becomes a filter that denies no key that it was
    /// given from now on.
    fn restore(hash: HashIdentity, shape: Self::Shape, keys: u64, payload: &[u8]) -> Result<Self, FilterError>;
}
