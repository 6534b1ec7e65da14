//! LevelDB's Bloom filter (`util/bloom.cc`): the bits of a key are anywhere in the filter, chosen by double hashing.

use super::{malformed, rate, unsupported};
use crate::error::Error;
use crate::hash::HashFunction;

/// LevelDB keeps larger numbers of probes for other encodings, and answers "may be present" for them.
const MAX_PROBES: u8 = 30;
/// LevelDB gives few keys this much, because short filters have high false positive rates.
const MIN_BITS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelDbBloom {
    bits: u64,
    probes: u8,
}

impl LevelDbBloom {
    /// The number of probes is the last byte.
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
        positions(hash as u32, self.bits, self.probes)
            .all(|bit| bytes.get((bit / 8) as usize).is_none_or(|byte| byte >> (bit % 8) & 1 == 1))
    }

    pub(super) fn expected_fpr(self, keys: u64) -> f64 {
        rate::one_line_of_double_hashing(keys, self.bits, u32::from(self.probes))
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![("probes", self.probes.to_string()), ("bits", self.bits.to_string())]
    }
}

/// The bits of one key.
fn positions(hash: u32, bits: u64, probes: u8) -> impl Iterator<Item = u64> {
    let step = hash.rotate_right(17);
    (0..u32::from(probes)).map(move |probe| u64::from(hash.wrapping_add(probe.wrapping_mul(step))) % bits)
}

/// Builds the filter that LevelDB's `NewBloomFilterPolicy(bits_per_key)` creates for `keys`, byte for byte.
///
/// LevelDB gives its policy user keys, in the table's order and with repetitions; both only matter for the length.
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
    let bytes = (hashes.len() as u64).saturating_mul(u64::from(bits_per_key)).max(MIN_BITS).div_ceil(8);
    let probes = probes_for(bits_per_key);
    let start = filter.len();
    filter.resize(start + bytes as usize, 0);
    for &hash in hashes {
        for bit in positions(hash, 8 * bytes, probes) {
            filter[start + (bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    filter.push(probes);
}

#[expect(clippy::cast_possible_truncation, reason = "HashFunction extends 32 bits")]
pub(super) fn hash(key: &[u8]) -> u32 {
    HashFunction::LevelDbBloomHash.hash(key) as u32
}

/// LevelDB rounds down, to probe a little less. 0.69 is its value for ln 2.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 30")]
fn probes_for(bits_per_key: u32) -> u8 {
    (f64::from(bits_per_key) * 0.69).clamp(1.0, f64::from(MAX_PROBES)) as u8
}
