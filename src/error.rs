//! Errors, each with the expected and the found value.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::hash::{HashId, HashIdentity};
use crate::ids::{FileId, KindId};
use crate::simd::InstructionSet;

/// The message of each variant. A variant with several messages has a line for each case.
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
        /// The size asked for.
        got: f64,
    },
    /// A rate that is not strictly between 0 and 1, or not a number.
    FalsePositiveRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate that no filter of the kind has.
    RateOutOfRange {
        /// The kind.
        kind: KindId,
        /// The lowest rate that the kind offers.
        min: f64,
        /// The highest.
        max: f64,
        /// The rate asked for.
        got: f64,
    },
    /// A size below that of any filter of the kind.
    SizeOutOfRange {
        /// The kind.
        kind: KindId,
        /// The smallest size that the kind offers, in bits per key.
        min: f64,
        /// The size asked for, in bits per key.
        got: f64,
    },
    /// An instruction set that this CPU does not have.
    InstructionSet {
        /// The set asked for.
        got: InstructionSet,
    },
    /// Any other option outside its range.
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its range, in words.
        expected: &'static str,
        /// The value asked for.
        got: u64,
    },
}

messages! { ConfigError {
    Self::BitsPerKey { got } => "bits per key: expected a number from 1 to 100, got {got}";
    Self::FalsePositiveRate { got } =>
        "false positive rate: expected a number between 0 and 1, both excluded, got {got}";
    Self::RateOutOfRange { kind, min, max, got } =>
        "false positive rate of {kind} filters: expected {min:.3e} to {max}, got {got:e}; take another kind";
    Self::SizeOutOfRange { kind, min, got } =>
        "size of {kind} filters: expected at least {min} bits per key, got {got}";
    Self::InstructionSet { got } =>
        "instruction set: expected one that this CPU and this build have ({}), got {got}", instruction_sets();
    Self::OutOfRange { option, expected, got } => "{option}: expected {expected}, got {got}";
} }

fn instruction_sets() -> String {
    InstructionSet::available().map(InstructionSet::name).collect::<Vec<_>>().join(", ")
}

impl core::error::Error for ConfigError {}

/// Why the bytes of a filter block cannot be used. To a read, all of them mean "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// Fewer bytes than a trailer and what it claims before it.
    TooShort {
        /// The least number of bytes expected.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// The last bytes are not those of a filter block.
    Magic {
        /// The value at the position of the magic number.
        got: u16,
    },
    /// A block of a version that this reader does not know: use a newer reader.
    Version {
        /// The newest version this reader knows.
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
    /// The block is longer or shorter than its trailer says: bytes are missing, or not its own.
    Length {
        /// The whole block's bytes by its trailer.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// A kind of filter that this reader does not know: a newer or a user-defined one, or one of a feature
    /// that this build does not have.
    UnknownKind {
        /// The kind's number.
        got: u8,
    },
    /// A block of a known kind, but not of the one to restore.
    Kind {
        /// The kind to restore.
        expected: KindId,
        /// The block's kind.
        got: KindId,
    },
    /// A hash function that this reader does not know: a newer one.
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
    /// The block was built with another hash than the reader's.
    HashMismatch {
        /// The hasher in use.
        expected: HashIdentity,
        /// The hasher that built the block.
        got: HashIdentity,
    },
    /// The block is bound to another file than the one it is loaded for, or to none; or it is bound and was loaded
    /// without a file id. Either way it may be the filter of other keys.
    FileMismatch {
        /// The file that it was loaded for; `None` when it was loaded for none.
        expected: Option<FileId>,
        /// The file that the block is bound to; `None` when it is bound to none.
        got: Option<FileId>,
    },
    /// A key that the file certainly holds is absent from the block: the reader's hash function differs despite its
    /// equal identity, or the block was not built for the file.
    KnownKeyAbsent {
        /// The identity that the reader's hasher and the block share.
        hash: HashIdentity,
    },
    /// The block holds none of the parts of keys that the reader probes for, or ranges inside others.
    ExtractorMismatch {
        /// The parts that the reader probes for: whole keys, and the extractors by name.
        expected: String,
        /// The parts that the block holds.
        got: String,
    },
    /// The filter does not answer for the parts of keys that a probe is for: it was written before the store had their
    /// extractor, or with another one or another hash, or its reader does not name them
    /// ([`LoadContext::with_key_parts`](crate::LoadContext::with_key_parts)), or gives known keys of which none has
    /// such a part ([`LoadContext::with_known_keys`](crate::LoadContext::with_known_keys)).
    PartNotHeld,
    /// A range filter, which is probed for ranges and not for key hashes: open it with
    /// `RangeFilter`.
    RangeFilter,
    /// A block that holds a part of its file's keys only: open it through the `PartitionIndex` of its container.
    Partition,
    /// A block in the place of a partition that is none: it was written as a filter of its own.
    NotAPartition,
    /// The block could not be read from storage.
    Unreadable {
        /// What went wrong.
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
    // Fingerprints tell secret seeds apart.
    Self::HashMismatch {
        expected: HashIdentity { id: HashId::Xxh3Secret, seed: own },
        got: HashIdentity { id: HashId::Xxh3Secret, seed },
    } =>
        "filter block built with another secret seed (fingerprint {seed:#010x}, the reader's is {own:#010x})";
    Self::HashMismatch { expected, got: HashIdentity { id: HashId::Xxh3Secret, seed } } =>
        "filter block built with a secret seed (fingerprint {seed:#010x}), which the reader was not given: its hash is \
         {expected}; open with the hasher of that seed";
    Self::HashMismatch { expected, got } =>
        "filter block built with another hash: expected {expected}, got {got}";
    Self::FileMismatch { expected: Some(expected), got: Some(got) } =>
        "filter block of another file: expected one bound to the file of {expected}, got {got}";
    Self::FileMismatch { expected: Some(expected), got: None } =>
        "filter block of an unknown file: expected one bound to the file of {expected}, got one that is bound to \
         none; give its builder the file id";
    // Two missing ids do not mismatch.
    Self::FileMismatch { expected: None, got } =>
        "filter block of a file: expected one that is bound to none, got one bound to the file of {}; load it with \
         the file id", got.as_ref().map_or("none".into(), FileId::to_string);
    // A secret seed or a function of the caller's may have changed; the default hash cannot.
    Self::KnownKeyAbsent { hash: hash @ HashIdentity { id: HashId::Xxh3, .. } } =>
        "filter block of another file, or built wrong ({hash}): expected it to contain the keys that its file is \
         known to have, got \"absent\"";
    Self::KnownKeyAbsent { hash } =>
        "filter block built with another hash of the same identity ({hash}): expected it to contain the keys that \
         its file is known to have, got \"absent\" here or in another table of the set; a secret seed was \
         changed, or a function without its tag";
    Self::ExtractorMismatch { expected, got } =>
        "filter block built with other key extractors: expected one of {expected}, got {got}";
    Self::PartNotHeld =>
        "parts of keys: expected a filter that holds the probed part by the probe's hash, loaded by a \
         reader that names it (LoadContext::with_key_parts) and has a known key with one, if any, got another";
    Self::RangeFilter =>
        "filter kind: expected a filter that is probed for single keys, got a range filter: open it with \
         `sstfilter_range::RangeFilter`";
    Self::Partition =>
        "filter block of one partition: expected a block of all of its file's keys; open it through its \
         container's top index";
    Self::NotAPartition =>
        "filter block in the place of a partition: expected one that is marked as a partition";
    Self::Unreadable { reason } => "filter block could not be read: {reason}";
} }

impl core::error::Error for BlockError {}

impl BlockError {
    /// Checks a field of a block: for kinds of filter of your own.
    ///
    /// # Errors
    ///
    /// [`BlockError::Field`], unless the field `is_sound`.
    pub fn require(
        is_sound: bool,
        field: &'static str,
        expected: &'static str,
        got: impl Into<u64>,
    ) -> Result<(), Self> {
        if is_sound { Ok(()) } else { Err(Self::Field { field, expected, got: got.into() }) }
    }
}

/// Why a block cannot be made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShrinkError {
    /// The block has no form of so few bytes that is worth having:
    /// [`shrink_steps`](crate::FilterBlock::shrink_steps) lists its sizes.
    TooSmall {
        /// The kind of the block.
        kind: KindId,
        /// The bytes that the block has.
        block_bytes: u64,
        /// The most bytes that it should have.
        max_bytes: u64,
        /// The bytes of its smallest form worth having: `block_bytes` when it cannot shrink.
        min_bytes: u64,
    },
    /// Allocation failed.
    NoMemory {
        /// The bytes asked for.
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
        "{kind} filter block of {block_bytes} bytes, to be shrunk: expected at least {min_bytes} bytes, the \
         smallest size worth having, got {max_bytes}; drop the filter instead";
    Self::NoMemory { bytes } => "allocation of {bytes} bytes for a smaller filter failed";
    Self::Block(error) => "filter block to be shrunk: {error}";
} }

impl core::error::Error for ShrinkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        if let Self::Block(error) = self { Some(error) } else { None }
    }
}
