//! What can go wrong, with what was expected and what was found.

use core::fmt;

use crate::block::FileId;
use crate::filter::FilterKind;
use crate::hash::{HashId, HashIdentity};
use crate::simd::InstructionSet;

/// An option that was refused when it was set, long before any file is written.
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
    /// A rate outside what Ribbon offers, 2^-32 to 50 %.
    RibbonRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate that a blocked Bloom filter of 100 bits per key does not reach.
    BloomRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate that a standard Bloom filter of 100 bits per key does not reach.
    StandardBloomRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate below what a cuckoo filter with tags of 32 bits gives.
    CuckooRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate below what binary fuse filters offer, 2^-32.
    FuseRate {
        /// The rate asked for.
        got: f64,
    },
    /// A rate below what xor filters offer, 2^-16.
    XorRate {
        /// The rate asked for.
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitsPerKey { got } => {
                write!(f, "bits per key: expected a number from 1 to 100, got {got}")
            }
            Self::FalsePositiveRate { got } => {
                write!(f, "false positive rate: expected a number between 0 and 1, both excluded, got {got}")
            }
            Self::RibbonRate { got } => {
                write!(f, "false positive rate of a ribbon filter: expected 2^-32 (2.33e-10) to 0.5, got {got:e}")
            }
            Self::BloomRate { got } => write!(
                f,
                "false positive rate of a bloom filter: expected one that 100 bits per key can give \
                 (above about 2.75e-10), got {got:e}; a ribbon filter goes down to 2.33e-10"
            ),
            Self::StandardBloomRate { got } => write!(
                f,
                "false positive rate of a standard bloom filter: expected one that 100 bits per key can give (above \
                 about 1e-18), got {got:e}"
            ),
            Self::CuckooRate { got } => {
                write!(f, "false positive rate of a cuckoo filter: expected at least 1.8e-9, got {got:e}")
            }
            Self::FuseRate { got } => {
                write!(
                    f,
                    "false positive rate of a binary fuse filter: expected at least 2^-32 (2.33e-10), got {got:e}"
                )
            }
            Self::XorRate { got } => write!(
                f,
                "false positive rate of an xor filter: expected at least 2^-16 (1.53e-5), got {got:e}; \
                 a binary fuse filter goes down to 2.33e-10"
            ),
            Self::InstructionSet { got } => {
                let sets: Vec<&str> = InstructionSet::available().map(InstructionSet::name).collect();
                write!(f, "instruction set: expected one that this CPU has ({}), got {got}", sets.join(", "))
            }
            Self::OutOfRange { option, expected, got } => write!(f, "{option}: expected {expected}, got {got}"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Why the bytes of a filter block cannot be used. To a read, all of them mean "may be present".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// Fewer bytes than a trailer and what it claims before it.
    TooShort {
        /// The least number of bytes that would do.
        expected: u64,
        /// The bytes there are.
        got: u64,
    },
    /// The last bytes are not those of a filter block.
    Magic {
        /// What stands where the magic number should.
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
    /// A kind of filter that this reader does not know: a newer one, or a user's own.
    UnknownKind {
        /// The kind's number.
        got: u8,
    },
    /// A block of a kind that this reader knows, but not the one that was to be restored.
    Kind {
        /// The kind wanted.
        expected: FilterKind,
        /// The block's kind.
        got: FilterKind,
    },
    /// A hash function that this reader does not know: a newer one.
    UnknownHash {
        /// The function's number.
        got: u8,
    },
    /// A field with a value that no writer gives it.
    Field {
        /// The field.
        field: &'static str,
        /// The values that it may have.
        expected: &'static str,
        /// The value found.
        got: u64,
    },
    /// The block was built from other hashes than those it is asked with.
    HashMismatch {
        /// The hasher in use.
        expected: HashIdentity,
        /// The hasher that built the block.
        got: HashIdentity,
    },
    /// The block is bound to another file than it is loaded for, or to none; or it is bound to one and was loaded
    /// without a file id. It is the filter of other keys, or may be.
    FileMismatch {
        /// The file that it was loaded for; `None` when it was loaded for none.
        expected: Option<FileId>,
        /// The file that the block is bound to; `None` when it is bound to none.
        got: Option<FileId>,
    },
    /// The block denies a key that its file certainly has: the hasher in use is another one than it says, or the
    /// block was not built for the file.
    DeniesOwnKey {
        /// The identity that the hasher in use and the block's own have in common.
        hash: HashIdentity,
    },
    /// The block was built from other parts of the keys than those it is asked with.
    ExtractorMismatch {
        /// The key extractor in use; empty when there is none.
        expected: String,
        /// The key extractor that the block was built with; empty when there was none.
        got: String,
    },
    /// The block could not be read from where it is stored.
    Unreadable {
        /// What went wrong.
        reason: String,
    },
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { expected, got } => {
                write!(f, "filter block too short: expected at least {expected} bytes, got {got}")
            }
            Self::Magic { got } => {
                write!(f, "not a filter block: expected the magic number 0x4653 at its end, got {got:#06x}")
            }
            Self::Version { expected, got } => {
                write!(f, "filter block version: expected 1 to {expected}, got {got}; read it with a newer release")
            }
            Self::TrailerChecksum { expected, got } => {
                write!(f, "filter block trailer is damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::PayloadChecksum { expected, got } => {
                write!(f, "filter block payload is damaged: expected checksum {expected:#010x}, got {got:#010x}")
            }
            Self::Length { expected, got } => {
                write!(f, "filter block length: expected {expected} bytes by its trailer, got {got}")
            }
            Self::UnknownKind { got } => {
                write!(f, "filter kind: expected one that this release knows, got {got}")
            }
            Self::Kind { expected, got } => write!(f, "filter kind: expected {expected}, got {got}"),
            Self::UnknownHash { got } => {
                write!(f, "hash id of a filter block: expected 1, 2 or 15, got {got}; read it with a newer release")
            }
            Self::Field { field, expected, got } => {
                write!(f, "filter block field {field}: expected {expected}, got {got}")
            }
            Self::HashMismatch { expected, got } => write_hash_mismatch(f, expected, got),
            Self::FileMismatch { expected, got } => write_file_mismatch(f, *expected, *got),
            Self::DeniesOwnKey { hash } if hash.id == HashId::Xxh3 => write!(
                f,
                "filter block of another file, or built wrong ({hash}): expected it to contain the keys that its file is \
                 known to have, got \"absent\""
            ),
            Self::DeniesOwnKey { hash } => write!(
                f,
                "filter block built with another hash of the same identity ({hash}): expected it to contain the keys that \
                 its file is known to have, got \"absent\" here or in another table of the set; a secret seed was \
                 changed, or a function without its tag"
            ),
            Self::ExtractorMismatch { expected, got } => {
                write!(f, "filter block built with another key extractor: expected '{expected}', got '{got}'")
            }
            Self::Unreadable { reason } => write!(f, "filter block could not be read: {reason}"),
        }
    }
}

/// Tells secret seeds apart by their fingerprints, and says what a reader without one lacks.
fn write_hash_mismatch(f: &mut fmt::Formatter<'_>, expected: &HashIdentity, got: &HashIdentity) -> fmt::Result {
    match (expected.id, got.id) {
        (HashId::Xxh3Secret, HashId::Xxh3Secret) => write!(
            f,
            "filter block built with another secret seed (fingerprint {:#010x}, the reader's is {:#010x})",
            got.seed, expected.seed
        ),
        (_, HashId::Xxh3Secret) => write!(
            f,
            "filter block built with a secret seed (fingerprint {:#010x}), which the reader was not given: its hash is \
             {expected}; open with the hasher of that seed",
            got.seed
        ),
        _ => write!(f, "filter block built with another hash: expected {expected}, got {got}"),
    }
}

/// Says whose filter it is, and what to do where an id is missing.
fn write_file_mismatch(f: &mut fmt::Formatter<'_>, expected: Option<FileId>, got: Option<FileId>) -> fmt::Result {
    match (expected, got) {
        (Some(expected), Some(got)) => {
            write!(f, "filter block of another file: expected one bound to the file of {expected}, got {got}")
        }
        (Some(expected), None) => write!(
            f,
            "filter block of an unknown file: expected one bound to the file of {expected}, got one that is bound to \
             none; give its builder the file id"
        ),
        (None, Some(got)) => write!(
            f,
            "filter block of a file: expected one that is bound to none, got one bound to the file of {got}; load it \
             with the file id"
        ),
        // Nobody makes this one.
        (None, None) => write!(f, "filter block of another file: expected one that is bound to none, got the same"),
    }
}

impl core::error::Error for BlockError {}

/// Why a filter in memory cannot be made, changed, stored or restored. It is then as it was before; of many keys that
/// were to be inserted, those before the one that failed are in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterError {
    /// The system gave no memory.
    NoMemory {
        /// The bytes asked for.
        bytes: u64,
    },
    /// Larger than a block can be.
    TooLarge {
        /// The most bytes of payload that a block can have.
        most_bytes: u64,
        /// The bytes that it would take.
        got: u64,
    },
    /// There is no place for another key: build a larger filter. All keys that were in are still in.
    Full {
        /// Keys in the filter.
        keys: u64,
        /// Places that the filter has.
        places: u64,
    },
    /// The key to be removed is not in the filter.
    NotPresent,
    /// Two filters to be merged differ in shape.
    ShapeMismatch {
        /// The shape of the one merged into.
        expected: String,
        /// The shape of the other.
        got: String,
    },
    /// Two filters to be merged hold keys of different hashes.
    HashMismatch {
        /// The hash of the one merged into.
        expected: HashIdentity,
        /// The hash of the other.
        got: HashIdentity,
    },
    /// Keys that were read several times were not the same each time.
    ReadingsDiffer,
    /// No attempt at building succeeded.
    ConstructionFailed {
        /// The salts tried, in order; repeated where a larger size was tried with the same ones.
        salts: Vec<u8>,
    },
    /// The block cannot be restored.
    Block(BlockError),
    /// The options make no filter.
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

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory { bytes } => write!(f, "no memory for a filter of {bytes} bytes"),
            Self::TooLarge { most_bytes, got } => {
                write!(f, "filter too large: expected at most {most_bytes} bytes, got {got}; split the keys")
            }
            Self::Full { keys, places } => write!(
                f,
                "filter full: {keys} keys in {places} places, and none can be made for another; build a larger one"
            ),
            Self::NotPresent => write!(f, "key to be removed: expected one that is present, got one that is absent"),
            Self::ShapeMismatch { expected, got } => {
                write!(f, "filters to be merged: expected the same shape ({expected}), got {got}")
            }
            Self::HashMismatch { expected, got } => {
                write!(f, "filters to be merged: expected keys of the same hash ({expected}), got {got}")
            }
            Self::ReadingsDiffer => write!(
                f,
                "keys that are read several times: expected the same ones each time, got others; read them from what does \
                 not change"
            ),
            Self::ConstructionFailed { salts } => {
                write!(f, "filter construction failed in {} attempts, with salts {salts:?}", salts.len())
            }
            Self::Block(error) => write!(f, "stored filter: {error}"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FilterError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Block(error) => Some(error),
            Self::Config(error) => error.source(),
            _ => None,
        }
    }
}
