//! A single probe of a block that is not kept open.

use super::open::FilterBlock;
use super::trailer::{FORMAT_VERSION, MAGIC, Trailer};
use super::{FallbackReason, LoadContext, Probe};
use crate::codec::checksum;
use crate::error::BlockError;
#[cfg(feature = "line-ribbon")]
use crate::filter::LineRibbonShape;
#[cfg(feature = "ribbon")]
use crate::filter::RibbonShape;
use crate::filter::blocked_bloom::BloomShape;
use crate::filter::{KindId, MAX_PARAM_WORDS, TRAILER_BYTES};
use crate::hash::{HashIdentity, KeyHash};

impl FilterBlock<&[u8]> {
    /// Loads the unbound block that fills `bytes`, probes it once and keeps nothing, for engines that pass a filter's
    /// bytes with each key. It equals [`load`](Self::load) and [`may_contain`](Self::may_contain), but is several times
    /// as fast for blocked Bloom, Ribbon and line ribbon.
    ///
    /// It reads the whole block to compare its checksums. That takes 9 ns for a blocked Bloom filter of one line, 90 ns
    /// for 1,000 keys, and 45 µs for a MiB: keep large blocks open instead.
    ///
    /// ```
    /// use sstfilter::{BuildContext, FilterBlock, KeyHasher, FixedPolicy, Probe};
    ///
    /// let hasher = KeyHasher::default();
    /// let mut builder = FixedPolicy::default().builder(&BuildContext::new(&hasher));
    /// builder.add_key(b"apple");
    /// let bytes = builder.finish().block.expect("one key fits");
    ///
    /// let probe = |bytes| FilterBlock::probe(bytes, hasher.identity(), hasher.hash(b"apple"));
    /// assert_eq!(probe(&bytes[..]), Probe::MaybePresent);
    /// assert_eq!(probe(&bytes[1..]), Probe::Unusable);
    /// ```
    ///
    /// [`Probe::Unusable`] stands for each error of `load`, which names it. Blocks that are bound to a file are
    /// unusable here.
    #[must_use]
    #[inline]
    pub fn probe(bytes: &[u8], expected: HashIdentity, hash: KeyHash) -> Probe {
        answer::<true>(bytes, expected, hash).map_or(Probe::Unusable, Probe::of)
    }

    /// Like [`probe`](Self::probe), but does not compare the payload with its checksum, for engines that verified the
    /// bytes with a checksum of their own when they read them. It takes constant time.
    ///
    /// If the bytes are not what was written, keys are lost. The table says how many of 300 bits of a payload of 1,000
    /// keys at 1 % made keys absent when that bit alone was flipped, and how many keys at most:
    ///
    /// | kind | bits | keys | kind | bits | keys |
    /// |---|--:|--:|---|--:|--:|
    /// | blocked Bloom | 128 | 4 | Ribbon | 300 | 45 |
    /// | standard Bloom | 157 | 4 | line ribbon | 283 | 41 |
    /// | counting Bloom | 39 | 4 | xor | 275 | 9 |
    /// | register-blocked Bloom | 69 | 3 | xor+ | 282 | 554 |
    /// | cuckoo | 274 | 1 | binary fuse, 3 or 4 cells | 248, 275 | 10, 9 |
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open_unverified`](Self::open_unverified), and [`BlockError::HashMismatch`] for a block
    /// with another hash, [`BlockError::FileMismatch`] for a bound block, and [`BlockError::ExtractorMismatch`] for a
    /// block without whole keys. Treat every error as "may be present".
    #[inline]
    pub fn probe_unverified(bytes: &[u8], expected: HashIdentity, hash: KeyHash) -> Result<bool, BlockError> {
        answer::<false>(bytes, expected, hash)
    }
}

#[inline]
fn answer<const VERIFIED: bool>(bytes: &[u8], expected: HashIdentity, hash: KeyHash) -> Result<bool, BlockError> {
    probe::<VERIFIED>(bytes, expected, hash).map_or_else(|| open_probe::<VERIFIED>(bytes, expected, hash), Ok)
}

/// Returns the answer of a sound block of a common kind; `None` for other bytes, which the caller opens to find out
/// what they are.
#[inline]
fn probe<const VERIFIED: bool>(block: &[u8], expected: HashIdentity, hash: KeyHash) -> Option<bool> {
    let (_, trailer) = block.split_last_chunk::<TRAILER_BYTES>()?;
    // The version without flags, so the block is unbound and holds whole keys, and the magic.
    if trailer[25] != FORMAT_VERSION || trailer[26..28] != MAGIC.to_le_bytes() {
        return None;
    }
    let payload_bytes = u64::from(u32::from_le_bytes([trailer[8], trailer[9], trailer[10], trailer[11]])) * 8;
    let (payload, tail) = block.split_at_checked(usize::try_from(payload_bytes).ok()?)?;
    let (count, salt) = (trailer[24] >> 4, trailer[24] & 15);
    let (covered, stored) = tail.split_last_chunk()?;
    if tail.len() != Trailer::tail_bytes(count) || checksum(covered) != u32::from_le_bytes(*stored) {
        return None;
    }
    if VERIFIED && checksum(payload).to_le_bytes() != trailer[12..16] {
        return None;
    }
    let (seed, id) = (trailer.first_chunk()?, trailer[23] >> 4);
    if u64::from_le_bytes(*seed) != expected.seed || id != expected.id.code() {
        return None;
    }
    // Not used here, but an unknown reason must fail as it does in `Trailer::decode`.
    FallbackReason::from_code(trailer[23] & 15)?;
    let mut params = [0; MAX_PARAM_WORDS];
    params.iter_mut().zip(tail.as_chunks().0).for_each(|(word, &bytes)| *word = u32::from_le_bytes(bytes));
    let params = params.get(..usize::from(count))?;
    match KindId::from_code(trailer[21]) {
        // Blocked Bloom has no salt; opening the block reports one.
        KindId::BLOCKED_BLOOM if salt == 0 => BloomShape::probe_once(params, payload, hash),
        #[cfg(feature = "ribbon")]
        KindId::RIBBON => RibbonShape::probe_once(params, salt, payload, hash),
        #[cfg(feature = "line-ribbon")]
        KindId::LINE_RIBBON => LineRibbonShape::probe_once(params, salt, payload, hash),
        _ => None,
    }
}

#[cold]
fn open_probe<const VERIFIED: bool>(block: &[u8], expected: HashIdentity, hash: KeyHash) -> Result<bool, BlockError> {
    let block = if VERIFIED { FilterBlock::load(block, expected)? } else { FilterBlock::open_unverified(block)? };
    block.held_parts().check_for(&LoadContext::from(expected), block.trailer.identity)?;
    Ok(block.may_contain(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;
    use crate::ids::FileId;
    use crate::kind;
    use crate::policy::BuildContext;
    use crate::units::Sizing;
    use crate::{BitsPerKey, FixedPolicy};

    /// Small and large unbound blocks of every kind, and a bound one.
    fn blocks() -> Vec<Vec<u8>> {
        let hasher = KeyHasher::default();
        let build = |policy: &FixedPolicy, keys: u64, file: Option<FileId>| {
            let context = BuildContext::new(&hasher);
            let context = if let Some(file) = file { context.with_file_id(file) } else { context };
            let mut builder = policy.builder(&context);
            (0..keys).for_each(|key| builder.add_hash(KeyHash::mix(key)));
            builder.finish().block.unwrap().to_vec()
        };
        let sizing = Sizing::BitsPerKey(BitsPerKey::new(20.0).unwrap());
        let policies: Vec<FixedPolicy> = kind::all().iter().filter_map(|kind| kind.configure(sizing).ok()).collect();
        assert!(policies.len() + 1 >= kind::all().len());
        let keys = [1, 1_500, 30_000];
        let unbound = policies.iter().flat_map(|policy| keys.map(|keys| build(policy, keys, None)));
        let bound = policies.iter().map(|policy| build(policy, 1_500, Some(FileId::from(*b"a UUID: 16 bytes"))));
        unbound.chain(bound).collect()
    }

    /// The answer after opening the block.
    fn opened(block: &[u8], expected: HashIdentity, hash: KeyHash) -> Result<bool, BlockError> {
        open_probe::<false>(block, expected, hash)
    }

    fn assert_same(block: &[u8], expected: HashIdentity, hash: KeyHash) {
        let loaded = FilterBlock::load(block, expected).map(|block| Probe::of(block.may_contain(hash)));
        assert_eq!(FilterBlock::probe(block, expected, hash), loaded.unwrap_or(Probe::Unusable));
        assert_eq!(FilterBlock::probe_unverified(block, expected, hash), opened(block, expected, hash));
    }

    #[test]
    fn a_block_answers_as_when_it_is_opened() {
        let identity = HashIdentity::default();
        for block in blocks() {
            for key in (0..2_000).chain(1_000_000..1_002_000) {
                assert_same(&block, identity, KeyHash::mix(key));
            }
            assert_same(&block, KeyHasher::with_seed(1).identity(), KeyHash::mix(0));
            assert_same(&block, HashIdentity::custom(identity.seed), KeyHash::mix(0));
        }
    }

    #[test]
    fn damaged_and_cut_blocks_fail_as_when_they_are_opened() {
        let identity = HashIdentity::default();
        for block in blocks() {
            let tail = block.len().saturating_sub(80);
            for bit in tail * 8..block.len() * 8 {
                let mut damaged = block.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_same(&damaged, identity, KeyHash::mix(0));
            }
            for length in (0..80).chain(tail..block.len()) {
                assert_same(&block[..length.min(block.len())], identity, KeyHash::mix(0));
                assert_same(&block[block.len() - length.min(block.len())..], identity, KeyHash::mix(0));
            }
        }
    }

    #[test]
    fn any_tail_with_a_right_checksum_is_read_as_when_it_is_opened() {
        let identity = HashIdentity::default();
        for block in blocks() {
            let tail = block.len().saturating_sub(80);
            for at in tail..block.len() - 4 {
                for value in [0, 1, 2, 0x10, 0x40, 0xf0, 0xff] {
                    let mut changed = block.clone();
                    changed[at] = value;
                    reseal(&mut changed);
                    assert_same(&changed, identity, KeyHash::mix(0));
                }
            }
        }
    }

    /// Corrects the trailer's checksum, for its present number of parameter words.
    fn reseal(block: &mut [u8]) {
        let end = block.len() - 4;
        let covered = usize::from(block[end + 4 - 8] >> 4) * 4 + 28 + usize::from(block[end + 4 - 7] >> 4 & 1) * 8;
        let Some(start) = end.checked_sub(covered) else { return };
        let sum = checksum(&block[start..end]);
        block[end..].copy_from_slice(&sum.to_le_bytes());
    }
}
