//! Errors of filters in memory.

use core::fmt;

use crate::error::{BlockError, ConfigError, messages};
use crate::hash::HashIdentity;

/// Why a filter in memory cannot be created, changed, stored or restored. The filter is then unchanged, except that a
/// batch insert keeps the keys before the one that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterError {
    /// Allocation failed.
    NoMemory {
        /// The bytes asked for.
        bytes: u64,
    },
    /// The filter would be larger than a block can be.
    TooLarge {
        /// The most bytes of payload that a block can have.
        max_bytes: u64,
        /// The bytes that the filter would have.
        got: u64,
    },
    /// No slot is free for the key: build a larger filter. The filter is unchanged.
    Full {
        /// Keys in the filter.
        keys: u64,
        /// Slots of the filter.
        places: u64,
    },
    /// The key to be removed is certainly not in the filter.
    NotPresent,
    /// Two filters to be merged differ in size.
    ShapeMismatch {
        /// Bits of the filter merged into, and bits of each of its keys.
        expected: (u64, u8),
        /// Bits of the filter to be merged, and bits of each of its keys.
        got: (u64, u8),
    },
    /// Two filters to be merged hold keys of different hashes.
    HashMismatch {
        /// The hash of the filter merged into.
        expected: HashIdentity,
        /// The hash of the other.
        got: HashIdentity,
    },
    /// No filter can be restored from the block.
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
    Self::Full { keys, places } =>
        "filter full: {keys} keys in {places} places, and no place can be made for another; build a larger one";
    Self::NotPresent => "key to be removed: expected one that is in the filter, got one that is absent";
    Self::ShapeMismatch { expected: (bits, per_key), got: (got_bits, got_per_key) } =>
        "filters to be merged: expected the same size ({bits} bits, {per_key} for each key), got {got_bits} bits, \
         {got_per_key} for each key";
    Self::HashMismatch { expected, got } =>
        "filters to be merged: expected keys of the same hash ({expected}), got {got}";
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
