//! Bare filters: the bytes that an engine stores, without the trailer of their block.

mod binary_fuse;
mod fast_local_bloom;
mod legacy_bloom;
mod leveldb_block;
mod leveldb_bloom;
mod rate;
mod ribbon128;

pub use leveldb_block::{LevelDbFilterBlock, LevelDbFilterBlockBuilder};
pub use leveldb_bloom::build_leveldb_bloom;

use binary_fuse::BinaryFuse;
use fast_local_bloom::FastLocalBloom;
use legacy_bloom::LegacyBloom;
use leveldb_bloom::LevelDbBloom;
use ribbon128::Ribbon128;

use crate::error::{Error, Part};
use crate::hash::HashFunction;

/// The kind of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterKind {
    /// The Bloom filter of RocksDB's format versions 0 to 4 and of Pebble: a line per key, probes by double hashing.
    LegacyBloom,
    /// RocksDB's Bloom filter from format version 5 on: a line of 64 bytes per key.
    FastLocalBloom,
    /// RocksDB's Ribbon filter with coefficient rows of 128 bits.
    Ribbon128,
    /// LevelDB's Bloom filter of the keys of one or a few data blocks.
    LevelDbBloom,
    /// Pebble's binary fuse filter.
    BinaryFuse,
    /// A filter that is positive for every key, which an engine writes after a failed construction, for example.
    AlwaysMaybe,
    /// Bytes that an engine reads as a filter of no keys: up to five bytes in RocksDB, none in LevelDB. A truncated
    /// filter looks identical, so [`Filter::may_contain`] returns true. Only a caller who knows that no key was added
    /// may answer "absent".
    NoKeys,
}

impl FilterKind {
    /// Returns the name for display, such as `Standard128Ribbon`.
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

/// A filter of another engine: its bytes and their parameters.
///
/// Opening reads only the last bytes and the length. A filter has no checksum of its own; check the one in its block's
/// trailer before.
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

/// Evaluates an expression for the parameters of any kind, or another one for filters that have none.
macro_rules! with_shape {
    ($filter:expr, $shape:ident => $value:expr, _ => $without:expr) => {
        match &$filter.shape {
            Shape::LegacyBloom($shape) => $value,
            Shape::FastLocalBloom($shape) => $value,
            Shape::Ribbon128($shape) => $value,
            Shape::LevelDbBloom($shape) => $value,
            Shape::BinaryFuse($shape) => $value,
            Shape::AlwaysMaybe(_) | Shape::NoKeys(_) => $without,
        }
    };
}

/// The length of the trailer of RocksDB's filters.
const ROCKSDB_TRAILER_BYTES: usize = 5;

impl<D: AsRef<[u8]>> Filter<D> {
    /// Opens a full filter or one partition of RocksDB.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] and [`Error::Unsupported`], both for [`Part::Filter`] at offset 0, if RocksDB 11.8 does not
    /// write such a filter. RocksDB itself answers "may be present" for most of these.
    pub fn rocksdb(bytes: D) -> Result<Self, Error> {
        let shape = rocksdb_shape(bytes.as_ref())?;
        Ok(Self { bytes, shape })
    }

    /// Opens one filter of a LevelDB filter block.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] and [`Error::Unsupported`], as [`Filter::rocksdb`].
    pub fn leveldb(bytes: D) -> Result<Self, Error> {
        let shape = leveldb_shape(bytes.as_ref())?;
        Ok(Self { bytes, shape })
    }

    /// Opens a Bloom filter of Pebble: RocksDB's filter of format versions up to 4, in lines of 64 bytes.
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

    /// Returns the kind.
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

    /// Returns the hash function of this filter's keys, for [`Filter::may_contain_hash`].
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

    /// Returns the bytes, including the trailer.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns false only if `key` was not added. Pass what the engine adds: a user key or its prefix, without the
    /// sequence number.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(self.hash_function().hash(key))
    }

    /// Probes for a hash that [`Filter::hash_function`] computed.
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        with_shape!(self, shape => shape.may_contain(self.bytes.as_ref(), hash), _ => true)
    }

    /// Probes many hashes: clears `answers` and pushes one answer per hash.
    pub fn may_contain_hashes(&self, hashes: &[u64], answers: &mut Vec<bool>) {
        let data = self.bytes.as_ref();
        answers.clear();
        // A loop per kind, so that the kind is not looked at for each hash.
        with_shape!(
            self,
            shape => answers.extend(hashes.iter().map(|&hash| shape.may_contain(data, hash))),
            _ => answers.resize(hashes.len(), true)
        );
    }

    /// Returns the expected false positive rate, from 0 to 1, of a filter with these parameters and `keys` distinct
    /// keys, or `None` if the parameters do not determine one. FORMATS.md has the formula of each kind.
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

    /// Returns the parameters, as names and values.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> + use<D> {
        // Collected first, so that the iterator does not borrow the filter.
        let parameters = with_shape!(self, shape => shape.parameters(), _ => Vec::new());
        parameters.into_iter()
    }
}

/// Follows RocksDB's `BuiltinFilterPolicy::GetBuiltinFilterBitsReader`: the first byte of the trailer decides the kind.
fn rocksdb_shape(bytes: &[u8]) -> Result<Shape, Error> {
    // RocksDB counts a filter's bytes in 32 bits, and so do the shapes here.
    if u32::try_from(bytes.len()).is_err() {
        return Err(malformed(format!("expected at most {} bytes, got {}", u32::MAX, bytes.len())));
    }
    // RocksDB writes no bytes for a partition in which no key has a prefix.
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
    Error::malformed(Part::Filter, 0, problem)
}

fn unsupported(what: String) -> Error {
    Error::unsupported(Part::Filter, what)
}

#[cfg(test)]
mod tests {
    //! A reader that decodes a filter differently from its engine answers "absent" for keys in the table.

    use super::{Filter, FilterKind};
    use crate::error::Error;

    /// The filter of RocksDB's `RawSchemaTest` (`util/bloom_test.cc`): the last bytes of 3,000 bytes that repeat a bit
    /// pattern.
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
