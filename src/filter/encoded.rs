//! The fields that a block records for a filter, their limits, and the size of the block: kinds compare sizes by whole
//! blocks.

use crate::error::BlockError;

/// The largest number of distinct keys that a block can record, in a field of 40 bits.
pub const MAX_KEYS: u64 = (1 << 40) - 1;

/// The largest payload that a block can record, in a field of 32 bits that counts words of 8 bytes.
pub const MAX_PAYLOAD_BYTES: u64 = u32::MAX as u64 * 8;

/// The largest number of parameter words, in a field of 4 bits.
pub(crate) const MAX_PARAM_WORDS: usize = 15;

/// Bytes of the fixed part of a block's trailer.
pub(crate) const TRAILER_BYTES: usize = 32;

/// A filter's parameters: up to 15 words of 32 bits, whose meaning is private to the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParamWords {
    words: [u32; MAX_PARAM_WORDS],
    count: u8,
}

impl ParamWords {
    /// The words.
    pub(crate) fn as_slice(&self) -> &[u32] {
        self.words.get(..usize::from(self.count)).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> u8 {
        self.count
    }
}

impl FromIterator<u32> for ParamWords {
    /// Keeps the first 15 words.
    fn from_iter<I: IntoIterator<Item = u32>>(words: I) -> Self {
        let mut params = Self::default();
        // `zip` ends with the slots, because a block cannot record further words.
        for (slot, word) in params.words.iter_mut().zip(words) {
            *slot = word;
            params.count += 1;
        }
        params
    }
}

/// The fields of a block's trailer that belong to the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodedShape {
    /// The kind's own parameters.
    pub(crate) params: ParamWords,
    /// The salt of the successful attempt, 0 to 15.
    pub salt: u8,
    /// The number of distinct keys.
    pub keys: u64,
    /// The length of the payload in bytes.
    pub payload_bytes: u64,
}

impl EncodedShape {
    /// Returns a shape with the first 15 of `params` and a payload of `payload_bytes`. Its salt is 0, and the library
    /// sets the number of keys.
    #[must_use]
    pub fn new(params: &[u32], payload_bytes: u64) -> Self {
        Self { params: params.iter().copied().collect(), salt: 0, keys: 0, payload_bytes }
    }

    /// Returns the kind's own parameters.
    #[must_use]
    pub fn params(&self) -> &[u32] {
        self.params.as_slice()
    }

    /// Returns the size of the whole unbound block.
    pub(crate) fn block_bytes(&self) -> u64 {
        // Four bytes for each parameter word. A bound block has a file fingerprint in addition.
        self.payload_bytes + TRAILER_BYTES as u64 + u64::from(self.params.count()) * 4
    }

    /// Returns the kind's parameters as `N` words. `expected` names their number and the kind, for the error.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], if the block has another number of words.
    pub fn words<const N: usize>(&self, expected: &'static str) -> Result<[u32; N], BlockError> {
        let words = self.params.as_slice().try_into();
        words.map_err(|_| BlockError::field("parameter words", expected, self.params.count()))
    }
}
