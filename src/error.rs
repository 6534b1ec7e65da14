//! Errors, each with the expected value and the one found.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::hash::{HashId, HashIdentity};
use crate::ids::{FileId, KindId};
use crate::simd::InstructionSet;

/// Implements `Display` with a message for each variant. A variant with several messages has a line for each case.
macro_rules! messages {
    ($error:ident { $($case:pat => $($message:expr),+;)+ }) => {
        impl fmt::Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($case => write!(f, $($message),+),)+
                }
            }
        }
    };
}
#[cfg(feature = "growing")]
pub(crate) use messages;

/// An invalid option, rejected when it is set, before any file is written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A size outside 1 to 100 bits per key, or not a number.
    BitsPerKey {
        /// The requested size.
        got: f64,
    },
    /// A rate that is not strictly between 0 and 1, or not a number.
    FalsePositiveRate {
        /// The requested rate.
        got: f64,
    },
    /// A rate that no filter of the kind can have.
    RateOutOfRange {
        /// The kind.
        kind: KindId,
        /// The lowest rate that the kind offers.
        min: f64,
        /// The highest rate.
        max: f64,
        /// The requested rate.
        got: f64,
    },
    /// A size below the kind's smallest.
    SizeOutOfRange {
        /// The kind.
        kind: KindId,
        /// The smallest size that the kind offers, in bits per key.
        min: f64,
        /// The requested size, in bits per key.
        got: f64,
    },
    /// An instruction set that this CPU does not have.
    InstructionSet {
        /// The requested set.
        got: InstructionSet,
    },
    /// Any other option outside its range.
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its range, in words.
        expected: &'static str,
        /// The requested value.
        got: u64,
    },
}

messages! { ConfigError {
    Self::BitsPerKey { got } => "bits per key: expected a number from 1 to 100, got {got}";
    Self::FalsePositiveRate { got } =>
        "false positive rate: expected a number between 0 and 1, both excluded, got {got}";
    Self::RateOutOfRange { kind, min, max, got } =>
        "false positive rate of {kind} filters: expected {min:e} to {max}, got {got:e}; choose another kind";
    Self::SizeOutOfRange { kind, min, got } =>
        "size of {kind} filters: expected at least {min} bits per key, got {got}";
    Self::InstructionSet { got } =>
        "instruction set: expected one that this CPU and this build support ({}), got {got}", instruction_sets();
    Self::OutOfRange { option, expected, got } => "{option}: expected {expected}, got {got}";
} }

fn instruction_sets() -> String {
    InstructionSet::available().map(InstructionSet::name).collect::<Vec<_>>().join(", ")
}

impl core::error::Error for ConfigError {}

impl ConfigError {
    pub(crate) fn out_of_range(option: &'static str, expected: &'static str, got: impl Into<u64>) -> Self {
        Self::OutOfRange { option, expected, got: got.into() }
    }
}

/// The reason why the bytes of a filter block cannot be used. A read treats every one of them as "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// Fewer bytes than a trailer, or than the trailer says there are before it.
    TooShort {
        /// The smallest number of bytes expected.
        expected: u64,
        /// The number of bytes found.
        got: u64,
    },
    /// The last bytes are not those of a filter block.
    Magic {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// The block's version is unknown to this reader: use a newer one.
    Version {
        /// The newest version that this reader knows.
        expected: u8,
        /// The block's version.
        got: u8,
    },
    /// The trailer is damaged.
    TrailerChecksum {
        /// The checksum that the block carries.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The payload is damaged.
    PayloadChecksum {
        /// The checksum that the block carries.
        expected: u32,
        /// The checksum of the bytes found.
        got: u32,
    },
    /// The block is longer or shorter than its trailer says: bytes are missing, or foreign ones were added.
    Length {
        /// The length of the whole block by its trailer.
        expected: u64,
        /// The number of bytes found.
        got: u64,
    },
    /// A kind of filter that this reader does not know: a newer kind, a user-defined one, or one behind a feature that
    /// this build lacks.
    UnknownKind {
        /// The kind's number.
        got: u8,
    },
    /// The block's kind is known, but is not the kind to restore.
    Kind {
        /// The kind to restore.
        expected: KindId,
        /// The block's kind.
        got: KindId,
    },
    /// A hash function that this reader does not know, because it is newer.
    UnknownHash {
        /// The function's number.
        got: u8,
    },
    /// A field with a value that no writer writes.
    Field {
        /// The field.
        field: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: u64,
    },
    /// The block was built with a hash that differs from the reader's.
    HashMismatch {
        /// The reader's hash.
        expected: HashIdentity,
        /// The hash that built the block.
        got: HashIdentity,
    },
    /// The block is bound to another file than the one it is loaded for, or to none; or it is bound but was loaded
    /// without a file id. In each case it may be the filter of other keys.
    FileMismatch {
        /// The file that the block was loaded for; `None` when it was loaded without a file id.
        expected: Option<FileId>,
        /// The file that the block is bound to; `None` when it is unbound.
        got: Option<FileId>,
    },
    /// The block answers "absent" for a key that the file certainly contains: the reader's hash function differs
    /// despite its equal identity, or the block was not built for the file.
    KnownKeyAbsent {
        /// The identity that the reader's hasher and the block share.
        hash: HashIdentity,
    },
    /// The block holds none of the parts of keys that the reader probes for, or its ranges lie within the parts of
    /// another extractor.
    ExtractorMismatch {
        /// The parts that the reader probes for: whole keys, and the extractors by name.
        expected: String,
        /// The parts that the block holds.
        got: String,
    },
    /// The filter cannot answer for the probed parts of keys. It was written before the store had their extractor, or
    /// with another extractor or hash; or the reader does not name them
    /// ([`LoadContext::with_key_parts`](crate::LoadContext::with_key_parts)); or no known key of the reader
    /// ([`LoadContext::with_known_keys`](crate::LoadContext::with_known_keys)) has such a part.
    PartNotHeld,
    /// A range filter, which is probed for ranges, not for key hashes: open it with `RangeFilter`.
    RangeFilter,
    /// The block holds only a part of its file's keys: open it through the `PartitionIndex` of its container.
    Partition,
    /// A block in the place of a partition is not marked as one: it was written as a filter for a whole file.
    NotAPartition,
    /// There is no block: the file's policy wanted none, or its builder made none.
    Missing,
    /// The block could not be read from storage.
    Unreadable {
        /// The cause, in words.
        reason: String,
    },
}

messages! { BlockError {
    Self::TooShort { expected, got } => "filter block too short: expected at least {expected} bytes, got {got}";
    Self::Magic { got } => "not a filter block: expected the magic number 0x4653 at its end, got {got:#06x}";
    Self::Version { expected, got } =>
        "filter block version: expected 1 to {expected}, got {got}; read it with a newer release";
    Self::TrailerChecksum { expected, got } =>
        "filter block trailer is damaged: expected checksum {expected:#010x}, got {got:#010x}";
    Self::PayloadChecksum { expected, got } =>
        "filter block payload is damaged: expected checksum {expected:#010x}, got {got:#010x}";
    Self::Length { expected, got } => "filter block length: expected {expected} bytes by its trailer, got {got}";
    Self::UnknownKind { got } =>
        "filter kind: expected one that this build knows, got {got} ({})", KindId::from_code(*got);
    Self::Kind { expected, got } => "filter kind: expected {expected}, got {got}";
    Self::UnknownHash { got } =>
        "hash id of a filter block: expected 1, 2 or 15, got {got}; read it with a newer release";
    Self::Field { field, expected, got } => "filter block field {field}: expected {expected}, got {got}";
    // Two secret seeds have the same hash id, so only their fingerprints can distinguish them.
    Self::HashMismatch {
        expected: HashIdentity { id: HashId::Xxh3Secret, seed: own },
        got: HashIdentity { id: HashId::Xxh3Secret, seed },
    } =>
        "filter block built with another secret seed (fingerprint {seed:#010x}, the reader's is {own:#010x})";
    Self::HashMismatch { expected, got: HashIdentity { id: HashId::Xxh3Secret, seed } } =>
        "filter block built with a secret seed (fingerprint {seed:#010x}), but the reader's hash is \
         {expected}; open with the hasher of that seed";
    Self::HashMismatch { expected, got } =>
        "filter block built with another hash: expected {expected}, got {got}";
    Self::FileMismatch { expected: Some(expected), got: Some(got) } =>
        "filter block of another file: expected one bound to the file of {expected}, got {got}";
    Self::FileMismatch { expected: Some(expected), got: None } =>
        "filter block of an unknown file: expected one bound to the file of {expected}, got an \
         unbound one; pass the file id to its builder";
    // `got` is always `Some` here: a block without a file id and a reader without one do not mismatch.
    Self::FileMismatch { expected: None, got } =>
        "filter block of a file: expected an unbound one, got one bound to the file of {}; load it with \
         the file id", got.as_ref().map_or("none".into(), FileId::to_string);
    // A secret seed or a user-defined function may have changed under the same identity; the default hash cannot.
    Self::KnownKeyAbsent { hash: hash @ HashIdentity { id: HashId::Xxh3, .. } } =>
        "filter block of another file, or built wrong ({hash}): expected it to contain the known keys of its \
         file, got \"absent\"";
    Self::KnownKeyAbsent { hash } =>
        "filter block built with another hash of the same identity ({hash}): expected it to contain the known \
         keys of its file, got \"absent\" here or in another table of the set; a secret seed was \
         changed, or a hash function but not its tag";
    Self::ExtractorMismatch { expected, got } =>
        "filter block built with other key extractors: expected one of {expected}, got {got}";
    Self::PartNotHeld =>
        "parts of keys: expected a filter that holds the probed part by the probe's hash, loaded by a \
         reader that names the part (LoadContext::with_key_parts) and whose known keys, if any, include one with \
         it; got another";
    Self::RangeFilter =>
        "filter kind: expected a filter that is probed for single keys, got a range filter: open it with \
         `sstfilter_range::RangeFilter`";
    Self::Partition =>
        "filter block of one partition: expected a block of all keys of its file; open it through the \
         top index of its container";
    Self::NotAPartition =>
        "filter block in the place of a partition: expected one that is marked as a partition";
    Self::Missing => "no filter block: every key may be in the file";
    Self::Unreadable { reason } => "filter block could not be read: {reason}";
} }

impl core::error::Error for BlockError {}

impl BlockError {
    /// Checks a field of a block; for user-defined kinds.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], unless `is_sound`.
    pub fn require(
        is_sound: bool,
        field: &'static str,
        expected: &'static str,
        got: impl Into<u64>,
    ) -> Result<(), Self> {
        if is_sound { Ok(()) } else { Err(Self::field(field, expected, got)) }
    }

    pub(crate) fn field(field: &'static str, expected: &'static str, got: impl Into<u64>) -> Self {
        Self::Field { field, expected, got: got.into() }
    }
}

/// The reason why a block cannot be made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShrinkError {
    /// The block has no useful form of so few bytes: [`shrink_steps`](crate::FilterBlock::shrink_steps) lists its
    /// sizes.
    TooSmall {
        /// The kind of the block.
        kind: KindId,
        /// The block's size in bytes.
        block_bytes: u64,
        /// The requested maximum in bytes.
        max_bytes: u64,
        /// The size of its smallest useful form: `block_bytes` when it cannot shrink.
        min_bytes: u64,
    },
    /// Allocation failed.
    NoMemory {
        /// The requested bytes.
        bytes: u64,
    },
    /// The payload is damaged.
    Block(BlockError),
}

impl From<BlockError> for ShrinkError {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

messages! { ShrinkError {
    Self::TooSmall { kind, block_bytes, max_bytes, min_bytes } =>
        "shrinking a {kind} filter block of {block_bytes} bytes: expected at least {min_bytes} bytes, the \
         smallest useful size, got {max_bytes}; drop the filter instead";
    Self::NoMemory { bytes } => "allocation of {bytes} bytes for a smaller filter failed";
    Self::Block(error) => "shrinking a filter block: {error}";
} }

impl core::error::Error for ShrinkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        if let Self::Block(error) = self { Some(error) } else { None }
    }
}
