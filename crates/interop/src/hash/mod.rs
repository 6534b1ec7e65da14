//! The hash functions of the engines' filters.

mod bloom_hash;
mod xxph3;

/// The hash function of a filter's keys. The filter's format fixes it; no filter stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HashFunction {
    /// The preview of XXH3 that RocksDB froze in 2019, with seed 0: Ribbon, and Bloom from format version 5 on.
    Xxph3,
    /// The 32 bits of RocksDB's `BloomHash`: its Bloom filters up to format version 4, and all Bloom filters of Pebble.
    RocksDbBloomHash,
    /// The 32 bits of LevelDB's `BloomHash`. It differs from RocksDB's where one of a key's last `len % 4` bytes is 128
    /// or more.
    LevelDbBloomHash,
    /// The released XXH3, 64 bits, seed 0: Pebble's binary fuse filters.
    Xxh3,
}

impl HashFunction {
    /// Returns the hash of `key`. Functions of 32 bits leave the upper half zero.
    ///
    /// ```
    /// use sstfilter_interop::HashFunction;
    ///
    /// assert_eq!(HashFunction::Xxph3.hash(b""), 5_999_572_062_939_766_020);
    /// assert_eq!(HashFunction::RocksDbBloomHash.hash(&[0x9a]), 3_195_034_349);
    /// ```
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u64 {
        match self {
            Self::Xxph3 => xxph3::hash(key),
            Self::RocksDbBloomHash => u64::from(bloom_hash::rocksdb(key)),
            Self::LevelDbBloomHash => u64::from(bloom_hash::leveldb(key)),
            Self::Xxh3 => xxhash_rust::xxh3::xxh3_64(key),
        }
    }

    /// Returns the name for display, such as `XXPH3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxph3 => "XXPH3",
            Self::RocksDbBloomHash => "RocksDB BloomHash",
            Self::LevelDbBloomHash => "LevelDB BloomHash",
            Self::Xxh3 => "XXH3",
        }
    }
}
