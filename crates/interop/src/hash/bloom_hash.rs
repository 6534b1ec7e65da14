//! The 32-bit hash of the oldest Bloom filters: a `MurmurHash1` with LevelDB's seed.
//!
//! Sources: `util/hash.cc` of LevelDB and of RocksDB. LevelDB once read the last bytes through `char`, whose sign
//! depends on the platform. LevelDB settled on unsigned bytes, RocksDB on signed ones: their hashes differ for keys
//! whose last `len % 4` bytes have a byte of 128 or more.

const SEED: u32 = 0xbc9f_1d34;
const MULTIPLIER: u32 = 0xc6a4_a793;

/// Computes RocksDB's variant, which extends the sign of each of the last one to three bytes.
pub(super) fn rocksdb(key: &[u8]) -> u32 {
    hash(key, |byte| i32::from(byte.cast_signed()).cast_unsigned())
}

/// Computes LevelDB's variant, in which the last one to three bytes are unsigned.
pub(super) fn leveldb(key: &[u8]) -> u32 {
    hash(key, u32::from)
}

/// Computes the hash; `widen` extends a byte behind the last whole word to 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the length enters modulo 2^32, as in the engines")]
fn hash(key: &[u8], widen: impl Fn(u8) -> u32) -> u32 {
    let (words, tail) = key.as_chunks::<4>();
    let mut hash = SEED ^ (key.len() as u32).wrapping_mul(MULTIPLIER);
    for &word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    if tail.is_empty() {
        return hash;
    }
    for (index, &byte) in tail.iter().enumerate() {
        hash = hash.wrapping_add(widen(byte) << (8 * index));
    }
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 24)
}

#[cfg(test)]
mod tests {
    use super::{leveldb, rocksdb};

    /// Published in RocksDB's `util/hash_test.cc`.
    #[test]
    fn rocksdbs_published_hashes_are_equal() {
        let published: [(&[u8], u32); 12] = [
            (b"", 3_164_544_308),
            (b"\x08", 422_599_524),
            (b"\x9a", 3_195_034_349),
            (b"\x52\xd5", 3_854_228_105),
            (b"\x91\xf7", 31_066_776),
            (b"\x30\x46\x0b", 3_808_221_797),
            (b"\x56\xdc\xd6", 2_157_698_265),
            (b"\x69\xb8\xc0\x88", 3_416_318_611),
            (b"\x86\x83\xd5\xa4\xd8", 2_390_603_402),
            (b"\x42\xfb\xf2\x52\xb4\x10", 3_655_585_422),
            (b"\xd3\xa5\x7c\x0e\xc0\x02\x07", 2_030_937_252),
            (b"\xbd\x2c\x63\x38\xbf\xe9\x78\xb7\xbf\x15", 3_382_479_516),
        ];
        for (key, hash) in published {
            assert_eq!(rocksdb(key), hash, "{key:02x?}");
        }
    }

    /// Published in LevelDB's `util/hash_test.cc`.
    #[test]
    fn leveldbs_published_hashes_are_equal() {
        let published: [(&[u8], u32); 5] = [
            (b"", 0xbc9f_1d34),
            (b"\x62", 0xef13_45c4),
            (b"\xc3\x97", 0x5b66_3814),
            (b"\xe2\x99\xa5", 0x323c_078f),
            (b"\xe1\x80\xb9\x32", 0xed21_633a),
        ];
        for (key, hash) in published {
            assert_eq!(leveldb(key), hash, "{key:02x?}");
        }
    }

    #[test]
    fn the_two_engines_differ_only_for_last_bytes_from_128_on() {
        assert_ne!(rocksdb(b"\xc3\x97"), leveldb(b"\xc3\x97"));
        assert_eq!(rocksdb(b"\xc3\x97\x00\xff"), leveldb(b"\xc3\x97\x00\xff"));
        assert_eq!(rocksdb(b"\xff\xff\xff\xff\x7f"), leveldb(b"\xff\xff\xff\xff\x7f"));
    }
}
