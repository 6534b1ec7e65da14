//! LevelDB's Bloom filter (`util/bloom.cc`): the bits of a key are anywhere in the filter, chosen by double hashing.

use super::{malformed, rate, unsupported};
use crate::error::Error;
use crate::hash::HashFunction;

/// LevelDB reserves larger numbers of probes for other encodings, and answers "may be present" for them.
const MAX_PROBES: u8 = 30;
/// LevelDB's minimum size, because very short filters have high false positive rates.
const MIN_BITS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelDbBloom {
    bits: u64,
    probes: u8,
}

impl LevelDbBloom {
    /// Opens a filter, whose last byte is the number of probes.
    pub(super) fn open(bytes: &[u8]) -> Result<Self, Error> {
        let Some((&probes, data)) = bytes.split_last() else { return Err(malformed("it has no bytes".to_owned())) };
        if !(1..=MAX_PROBES).contains(&probes) {
            return Err(unsupported(format!("LevelDB Bloom filter with {probes} probes")));
        }
        let bits = data.len() as u64 * 8;
        if bits < MIN_BITS {
            return Err(malformed(format!("expected at least {MIN_BITS} bits, got {bits}")));
        }
        Ok(Self { bits, probes })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "hashes of this filter have 32 bits; positions are in the data"
    )]
    pub(super) fn may_contain(self, bytes: &[u8], hash: u64) -> bool {
        rate::positions(hash as u32, self.bits, self.probes)
            .all(|bit| bytes.get((bit / 8) as usize).is_none_or(|byte| byte >> (bit % 8) & 1 == 1))
    }

    pub(super) fn expected_fpr(self, keys: u64) -> f64 {
        rate::one_line_of_double_hashing(keys, self.bits, self.probes)
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![("probes", self.probes.to_string()), ("bits", self.bits.to_string())]
    }
}

/// Builds the filter that LevelDB's `NewBloomFilterPolicy(bits_per_key)` creates for `keys`, byte for byte.
///
/// LevelDB passes user keys to its policy in the table's order, with repetitions. Each repetition adds to the length.
///
/// ```
/// use sstfilter_interop::{Filter, build_leveldb_bloom};
///
/// let filter = Filter::leveldb(build_leveldb_bloom([b"hello", b"world"], 10))?;
/// assert!(filter.may_contain(b"hello") && filter.may_contain(b"world"));
/// assert!(!filter.may_contain(b"x") && !filter.may_contain(b"foo"));
/// # Ok::<(), sstfilter_interop::Error>(())
/// ```
pub fn build_leveldb_bloom<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>, bits_per_key: u32) -> Vec<u8> {
    let hashes: Vec<u32> = keys.into_iter().map(|key| hash(key.as_ref())).collect();
    let mut filter = Vec::new();
    append(&hashes, bits_per_key, &mut filter);
    filter
}

/// Appends a filter of keys with these hashes.
#[expect(clippy::cast_possible_truncation, reason = "the filter is in memory, and positions are in it")]
pub(super) fn append(hashes: &[u32], bits_per_key: u32, filter: &mut Vec<u8>) {
    // LevelDB also rounds up to whole bytes, and probes all bits of the last one.
    let bytes = (hashes.len() as u64).saturating_mul(u64::from(bits_per_key)).max(MIN_BITS).div_ceil(8);
    let probes = probes_for(bits_per_key);
    let start = filter.len();
    filter.resize(start + bytes as usize, 0);
    for &hash in hashes {
        for bit in rate::positions(hash, 8 * bytes, probes) {
            filter[start + (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    filter.push(probes);
}

#[expect(clippy::cast_possible_truncation, reason = "HashFunction extends 32 bits")]
pub(super) fn hash(key: &[u8]) -> u32 {
    HashFunction::LevelDbBloomHash.hash(key) as u32
}

/// Returns the number of probes. LevelDB rounds down, to probe a little less, and uses 0.69 for ln 2.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 30")]
fn probes_for(bits_per_key: u32) -> u8 {
    (f64::from(bits_per_key) * 0.69).clamp(1.0, f64::from(MAX_PROBES)) as u8
}

#[cfg(test)]
pub(super) mod tests {
    //! Filters for LevelDB must equal its own to the byte: with one bit elsewhere, LevelDB loses a key.
    //!
    //! The checksums are those of filters that Debian's libleveldb 1.23 built for the same keys.

    use super::build_leveldb_bloom;
    use crate::error::Error;
    use crate::filter::{Filter, FilterKind};

    /// Makes keys of 0 to 8 bytes whose last bytes take all values.
    pub(in crate::filter) fn key(i: u64) -> Vec<u8> {
        let bytes = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        bytes.into_iter().take((i % 9) as usize).collect()
    }

    #[test]
    fn filters_are_leveldbs_to_the_byte() {
        let few_bits = [(0, 0x7c5f_f321), (1, 0x51e1_1088), (2, 0x64e2_aca0), (5, 0x797a_c203), (9, 0x474e_d686)];
        let usual = [(10, 0x75e7_8052), (13, 0x1634_8568), (14, 0xc927_9283), (16, 0x4311_9dc2), (20, 0x3e42_5550)];
        let around_30_probes = [(43, 0x1c65_ef67), (44, 0xfe13_d712), (45, 0xbff9_6970), (60, 0x1c1d_8b11)];
        let others = [(29, 0xc44d_3a62), (30, 0xa52c_dae1), (100, 0x6b9b_75a1), (1_000, 0x14f9_6e33)];
        for (bits_per_key, checksum) in few_bits.into_iter().chain(usual).chain(around_30_probes).chain(others) {
            let filters = [0, 1, 2, 7, 100, 1_001].map(|keys| build_leveldb_bloom((0..keys).map(key), bits_per_key));
            assert_eq!(crc32c::crc32c(&filters.concat()), checksum, "{bits_per_key} bits per key");
        }
    }

    #[test]
    fn a_built_filter_keeps_its_keys() {
        for bits_per_key in [0, 1, 10, 50, 10_000] {
            let filter = Filter::leveldb(build_leveldb_bloom((0..300).map(key), bits_per_key)).expect("a filter");
            assert_eq!(filter.kind(), FilterKind::LevelDbBloom);
            assert!((0..300).all(|i| filter.may_contain(&key(i))), "{bits_per_key} bits per key");
        }
    }

    #[test]
    fn filters_that_leveldb_does_not_write_are_refused() {
        for probes in [0, 31, 255] {
            let refused = Filter::leveldb([[0; 8].as_slice(), &[probes]].concat());
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{probes} probes: {refused:?}");
        }
        for data_bytes in 0..8 {
            let refused = Filter::leveldb([vec![0; data_bytes], vec![6]].concat());
            assert!(matches!(refused, Err(Error::Malformed { .. })), "{data_bytes} bytes: {refused:?}");
        }
    }
}
