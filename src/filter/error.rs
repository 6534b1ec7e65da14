//! Errors of filters in memory.

use core::fmt;

use crate::error::{BlockError, ConfigError, messages};
use crate::hash::HashIdentity;
use crate::ids::KindId;

/// The reason why a filter in memory cannot be created, changed, stored or restored. The filter is then unchanged,
/// except that a batch insert keeps the keys before the one that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterError {
    /// Allocation failed.
    NoMemory {
        /// The requested bytes.
        bytes: u64,
    },
    /// The filter would be larger than a block can be.
    TooLarge {
        /// The largest payload that a block can have.
        max_bytes: u64,
        /// The payload that the filter would have.
        got: u64,
    },
    /// No slot is free for the key: build a larger filter.
    Full {
        /// The number of keys in the filter.
        keys: u64,
        /// The number of slots of the filter.
        slots: u64,
    },
    /// The key to remove is certainly not in the filter.
    NotPresent,
    /// Two filters to be merged differ in size.
    ShapeMismatch {
        /// Bits of the filter merged into, and bits of each of its keys.
        expected: (u64, u8),
        /// Bits of the filter to be merged, and bits of each of its keys.
        got: (u64, u8),
    },
    /// Filters of this kind cannot be merged.
    NotMergeable {
        /// The kind.
        got: KindId,
    },
    /// Two filters to be merged hold keys of different hashes.
    HashMismatch {
        /// The hash of the filter merged into.
        expected: HashIdentity,
        /// The hash of the other filter.
        got: HashIdentity,
    },
    /// The block cannot be restored as a filter.
    Block(BlockError),
    /// No filter has these options.
    Config(ConfigError),
}

impl From<ConfigError> for FilterError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<BlockError> for FilterError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

messages! { FilterError {
    Self::NoMemory { bytes } => "allocation of {bytes} bytes for a filter failed";
    Self::TooLarge { max_bytes, got } =>
        "filter too large: expected at most {max_bytes} bytes, got {got}; split the keys";
    Self::Full { keys, slots } =>
        "filter full: {keys} keys in {slots} slots, and no slot can be freed; build a larger one";
    Self::NotPresent => "key to remove: expected one in the filter, got an absent one";
    Self::ShapeMismatch { expected: (bits, per_key), got: (got_bits, got_per_key) } =>
        "filters to merge: expected the same size ({bits} bits, {per_key} for each key), got {got_bits} bits, \
         {got_per_key} for each key";
    Self::NotMergeable { got } =>
        "filters to merge: expected Bloom filters of bits, got a {got} filter; build one from the keys";
    Self::HashMismatch { expected, got } =>
        "filters to merge: expected keys of the same hash ({expected}), got {got}";
    Self::Block(error) => "stored filter: {error}";
    Self::Config(error) => "{error}";
} }

impl core::error::Error for FilterError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Block(error) => Some(error),
            Self::Config(error) => error.source(),
            _ => None,
        }
    }
}
