//! Bare filters, as their engine stores them, without the trailer of their block.

mod binary_fuse;
mod fast_local_bloom;
mod legacy_bloom;
mod leveldb_block;
mod leveldb_bloom;
mod rate;
mod ribbon128;

pub use leveldb_block::{LevelDbFilterBlock, LevelDbFilterBlockBuilder};
pub use leveldb_bloom::build_leveldb_bloom;

use core::fmt;

use binary_fuse::BinaryFuse;
use fast_local_bloom::FastLocalBloom;
use legacy_bloom::LegacyBloom;
use leveldb_bloom::LevelDbBloom;
use ribbon128::Ribbon128;

use crate::error::{Error, Part};
use crate::hash::HashFunction;

/// What kind of filter some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterKind {
    /// RocksDB's Bloom filter of format versions 0 to 4, and Pebble's: a line per key, probes by double hashing.
    LegacyBloom,
    /// RocksDB's Bloom filter from format version 5 on: a line of 64 bytes per key.
    FastLocalBloom,
    /// RocksDB's Ribbon filter with coefficient rows of 128 bits.
    Ribbon128,
    /// LevelDB's Bloom filter of the keys of one or a few data blocks.
    LevelDbBloom,
    /// Pebble's binary fuse filter.
    BinaryFuse,
    /// A filter that its engine wrote so that every key may be present, for example after its construction failed.
    AlwaysMaybe,
    /// What an engine takes for a filter of no keys: one to five bytes in RocksDB, none in LevelDB. A filter that was
    /// cut looks the same. So [`Filter::may_contain`] is true here, and only whoever knows that no key was added may
    /// say "absent".
    NoKeys,
}

impl FilterKind {
    /// Its name for people: `Ribbon (128)`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LegacyBloom => "legacy Bloom",
            Self::FastLocalBloom => "FastLocalBloom",
            Self::Ribbon128 => "Standard128Ribbon",
            Self::LevelDbBloom => "LevelDB Bloom",
            Self::BinaryFuse => "binary fuse",
            Self::AlwaysMaybe => "always maybe",
            Self::NoKeys => "no keys",
        }
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A filter of another engine: its bytes, and what they mean.
///
/// Opening looks at the last bytes and at the length alone. A filter has no checksum of its own: its block's trailer
/// has one, which is checked before.
///
/// ```
/// use sstfilter_interop::{Filter, FilterKind};
///
/// // 64 bytes of data and RocksDB's trailer of five: new Bloom, first sort, one probe.
/// let mut bytes = [0xff; 69];
/// bytes[65..].copy_from_slice(&[0, 1, 0, 0]);
/// let filter = Filter::rocksdb(&bytes)?;
/// assert_eq!(filter.kind(), FilterKind::FastLocalBloom);
/// assert!(filter.may_contain(b"key"));
/// # Ok::<(), sstfilter_interop::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Filter<D> {
    bytes: D,
    shape: Shape,
}

/// Parameters of each kind, small and copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    LegacyBloom(LegacyBloom),
    FastLocalBloom(FastLocalBloom),
    Ribbon128(Ribbon128),
    LevelDbBloom(LevelDbBloom),
    BinaryFuse(BinaryFuse),
    AlwaysMaybe(HashFunction),
    NoKeys(HashFunction),
}

/// Bytes behind the data of RocksDB's filters.
const ROCKSDB_TRAILER_BYTES: usize = 5;

impl<D: AsRef<[u8]>> Filter<D> {
    /// Opens a full filter or one partition of RocksDB.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] and [`Error::Unsupported`], both for [`Part::Filter`] at offset 0, where the bytes are not
    /// a filter that RocksDB 11.8 writes. RocksDB takes most of these for filters that every key may be in.
    pub fn rocksdb(bytes: D) -> Result<Self, Error> {
        let shape = rocksdb_shape(bytes.as_ref())?;
        Ok(Self { bytes, shape })
    }

    /// Opens one filter out of a LevelDB filter block.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] and [`Error::Unsupported`], as [`Filter::rocksdb`].
    pub fn leveldb(bytes: D) -> Result<Self, Error> {
        let shape = leveldb_shape(bytes.as_ref())?;
        Ok(Self { bytes, shape })
    }

    /// Opens a Bloom filter of Pebble: RocksDB's of format versions up to 4, in lines of 64 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`], as [`Filter::rocksdb`].
    pub fn pebble_bloom(bytes: D) -> Result<Self, Error> {
        let shape = Shape::LegacyBloom(LegacyBloom::open_pebble(bytes.as_ref())?);
        Ok(Self { bytes, shape })
    }

    /// Opens a binary fuse filter of Pebble.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] and [`Error::Unsupported`], as [`Filter::rocksdb`].
    pub fn pebble_fuse(bytes: D) -> Result<Self, Error> {
        let shape = Shape::BinaryFuse(BinaryFuse::open(bytes.as_ref())?);
        Ok(Self { bytes, shape })
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> FilterKind {
        match self.shape {
            Shape::LegacyBloom(_) => FilterKind::LegacyBloom,
            Shape::FastLocalBloom(_) => FilterKind::FastLocalBloom,
            Shape::Ribbon128(_) => FilterKind::Ribbon128,
            Shape::LevelDbBloom(_) => FilterKind::LevelDbBloom,
            Shape::BinaryFuse(_) => FilterKind::BinaryFuse,
            Shape::AlwaysMaybe(_) => FilterKind::AlwaysMaybe,
            Shape::NoKeys(_) => FilterKind::NoKeys,
        }
    }

    /// The function whose hashes [`Filter::may_contain_hash`] takes.
    #[must_use]
    pub fn hash_function(&self) -> HashFunction {
        match self.shape {
            Shape::LegacyBloom(_) => HashFunction::RocksDbBloomHash,
            Shape::FastLocalBloom(_) | Shape::Ribbon128(_) => HashFunction::Xxph3,
            Shape::LevelDbBloom(_) => HashFunction::LevelDbBloomHash,
            Shape::BinaryFuse(_) => HashFunction::Xxh3,
            Shape::AlwaysMaybe(function) | Shape::NoKeys(function) => function,
        }
    }

    /// Its bytes, trailer included.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// False only if `key` was not added. `key` is what the engine adds: a user key or a prefix of it, without sequence
    /// number.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(self.hash_function().hash(key))
    }

    /// [`Filter::may_contain`] for a hash made by [`Filter::hash_function`].
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        let data = self.bytes.as_ref();
        match &self.shape {
            Shape::LegacyBloom(shape) => shape.may_contain(data, hash),
            Shape::FastLocalBloom(shape) => shape.may_contain(data, hash),
            Shape::Ribbon128(shape) => shape.may_contain(data, hash),
            Shape::LevelDbBloom(shape) => shape.may_contain(data, hash),
            Shape::BinaryFuse(shape) => shape.may_contain(data, hash),
            Shape::AlwaysMaybe(_) | Shape::NoKeys(_) => true,
        }
    }

    /// [`Filter::may_contain_hash`] for many hashes: `answers` is emptied, and gets one answer per hash.
    pub fn may_contain_hashes(&self, hashes: &[u64], answers: &mut Vec<bool>) {
        let data = self.bytes.as_ref();
        answers.clear();
        match &self.shape {
            Shape::LegacyBloom(shape) => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            Shape::FastLocalBloom(shape) => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            Shape::Ribbon128(shape) => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            Shape::LevelDbBloom(shape) => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            Shape::BinaryFuse(shape) => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            Shape::AlwaysMaybe(_) | Shape::NoKeys(_) => answers.resize(hashes.len(), true),
        }
    }

    /// The false positive rate to be expected of a filter with these parameters after `keys` different keys, from 0 to
    /// 1. `None` where the parameters do not give one. FORMATS.md has the formula of each kind.
    pub fn expected_fpr(&self, keys: u64) -> Option<f64> {
        match &self.shape {
            Shape::LegacyBloom(shape) => Some(shape.expected_fpr(keys)),
            Shape::FastLocalBloom(shape) => Some(shape.expected_fpr(keys)),
            Shape::Ribbon128(shape) => Some(shape.expected_fpr()),
            Shape::LevelDbBloom(shape) => Some(shape.expected_fpr(keys)),
            Shape::BinaryFuse(shape) => Some(shape.expected_fpr()),
            Shape::AlwaysMaybe(_) => Some(1.0),
            Shape::NoKeys(_) => None,
        }
    }

    /// Its parameters, as names and values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> + use<D> {
        let parameters = match &self.shape {
            Shape::LegacyBloom(shape) => shape.parameters(),
            Shape::FastLocalBloom(shape) => shape.parameters(),
            Shape::Ribbon128(shape) => shape.parameters(),
            Shape::LevelDbBloom(shape) => shape.parameters(),
            Shape::BinaryFuse(shape) => shape.parameters(),
            Shape::AlwaysMaybe(_) | Shape::NoKeys(_) => Vec::new(),
        };
        parameters.into_iter()
    }
}

/// RocksDB's `BuiltinFilterPolicy::GetBuiltinFilterBitsReader`. It looks at the first of the five bytes behind the
/// data.
fn rocksdb_shape(bytes: &[u8]) -> Result<Shape, Error> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(malformed(format!("expected at most {} bytes, got {}", u32::MAX, bytes.len())));
    }
    // No bytes: a partition none of whose keys has a prefix.
    let Some((data, &trailer)) = bytes.split_last_chunk::<ROCKSDB_TRAILER_BYTES>() else {
        return Ok(Shape::NoKeys(HashFunction::Xxph3));
    };
    if data.is_empty() {
        return Ok(Shape::NoKeys(HashFunction::Xxph3));
    }
    match trailer[0] {
        0 => Ok(Shape::AlwaysMaybe(HashFunction::Xxph3)),
        1..=127 => LegacyBloom::open(data.len(), trailer).map(Shape::LegacyBloom),
        0xff => FastLocalBloom::open(data.len(), trailer).map(Shape::FastLocalBloom),
        0xfe => Ribbon128::open(data.len(), trailer).map(Shape::Ribbon128),
        marker => Err(unsupported(format!("marker {marker:#04x}, which RocksDB reserves,"))),
    }
}

fn leveldb_shape(bytes: &[u8]) -> Result<Shape, Error> {
    if bytes.is_empty() {
        return Ok(Shape::NoKeys(HashFunction::LevelDbBloomHash));
    }
    LevelDbBloom::open(bytes).map(Shape::LevelDbBloom)
}

fn malformed(problem: String) -> Error {
    Error::Malformed { part: Part::Filter, offset: 0, problem }
}

fn unsupported(what: String) -> Error {
    Error::Unsupported { part: Part::Filter, what }
}

#[cfg(test)]
mod tests {
    //! A filter read in another way than its engine reads it answers "absent" for keys that are in the table.

    use super::{Filter, FilterKind};
    use crate::error::Error;

    /// The filter of RocksDB's `RawSchemaTest` (`util/bloom_test.cc`): the last bytes of 3,000 that repeat a pattern of
    /// bits.
    fn raw(data_bytes: usize, trailer: [u8; 5]) -> Vec<u8> {
        let pattern = |i: usize| (0x7b7b_u32 >> (i % 7)).to_le_bytes()[0];
        let mut bytes: Vec<u8> = (3_000 - data_bytes - 5..2_995).map(pattern).collect();
        bytes.extend(trailer);
        bytes
    }

    /// Bit i is the answer for the key 12345 + i in four bytes.
    fn answers(filter: &Filter<Vec<u8>>) -> u64 {
        (0..64).fold(0, |bits, i| bits | u64::from(filter.may_contain(&(12_345_u32 + i).to_le_bytes())) << i)
    }

    #[test]
    fn answers_are_those_that_rocksdb_publishes() {
        let published = [
            (256, [0xff, 0, 2, 0, 0], FilterKind::FastLocalBloom, 9_957_045_189_927_952_471),
            (256, [2, 4, 0, 0, 0], FilterKind::LegacyBloom, 7_123_594_913_907_464_682),
            (32, [0xfe, 0, 2, 0, 0], FilterKind::Ribbon128, 6_193_930_559_317_665_002),
            (112, [0xfe, 0, 2, 0, 0], FilterKind::Ribbon128, 9_007_200_345_328_128),
        ];
        for (data_bytes, trailer, kind, expected) in published {
            let filter = Filter::rocksdb(raw(data_bytes, trailer)).expect("a filter");
            assert_eq!(filter.kind(), kind);
            assert_eq!(answers(&filter), expected, "{kind}");
        }
    }

    #[test]
    fn bytes_that_rocksdb_does_not_know_are_refused_with_a_reason() {
        let unknown = [
            (64, [0xfd, 0, 0, 0, 0]),
            (64, [0x80, 0, 0, 0, 0]),
            (64, [0xff, 1, 6, 0, 0]),
            (64, [0xff, 0, 0, 0, 0]),
            (64, [0xff, 0, 31, 0, 0]),
            (128, [0xff, 0, 0x26, 0, 0]),
            (64, [0xff, 0, 6, 1, 0]),
            (64, [0xff, 0, 6, 0, 1]),
            (64, [0xfe, 0, 1, 0, 0]),
            (64, [0xfe, 0, 0, 0, 0]),
        ];
        for (data_bytes, trailer) in unknown {
            let refused = Filter::rocksdb(raw(data_bytes, trailer));
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{trailer:02x?}: {refused:?}");
        }
    }

    #[test]
    fn lengths_that_no_writer_leaves_are_refused() {
        let cut = [
            (63, [0xff, 0, 6, 0, 0]),
            (65, [0xff, 0, 6, 0, 0]),
            (33, [0xfe, 0, 2, 0, 0]),
            (15, [0xfe, 0, 2, 0, 0]),
            (64, [6, 0, 0, 0, 0]),
            (64, [6, 3, 0, 0, 0]),
            (192, [6, 1, 0, 0, 0]),
            (129, [6, 2, 0, 0, 0]),
            // 64 times this number of lines is 128 in 32 bits.
            (128, [6, 2, 0, 0, 4]),
        ];
        for (data_bytes, trailer) in cut {
            let refused = Filter::rocksdb(raw(data_bytes, trailer));
            assert!(matches!(refused, Err(Error::Malformed { .. })), "{data_bytes} {trailer:02x?}: {refused:?}");
        }
    }

    #[test]
    fn a_filter_without_probes_or_keys_never_says_absent() {
        let always = Filter::rocksdb([0; 6]).expect("RocksDB writes these six bytes");
        assert_eq!(always.kind(), FilterKind::AlwaysMaybe);
        assert!(always.may_contain(b"key"));
        for length in 0..=5 {
            let cut = Filter::rocksdb(vec![0xff; length]).expect("RocksDB takes it for no keys");
            assert_eq!(cut.kind(), FilterKind::NoKeys);
            assert!(cut.may_contain(b"key"));
        }
        let none = Filter::leveldb([]).expect("LevelDB takes it for no keys");
        assert_eq!(none.kind(), FilterKind::NoKeys);
        assert!(none.may_contain(b"key"));
    }
}
