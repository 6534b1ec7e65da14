//! The key range that a filter was built for, stored in front of its block.
//!
//! SlateDB does not pass the SST's id to a decoder, and probes an SST's filters only for keys in its range; it cuts the
//! range of a scan to that of the SST. A probe outside the stored range means that the bytes may be another SST's, so
//! the answer is "may match".
//!
//! There is one exception: in a clone with a projection range, SlateDB also probes for the few keys between the last
//! key of an SST and the first of the next. These probes also answer "may match" and cost reads, because nothing
//! distinguishes the two cases.
//!
//! | offset | bytes | |
//! |--:|--:|---|
//! | 0 | 1 | version of this header, 1 |
//! | 1 | 1 | `a`, 0 to 64 |
//! | 2 | 1 | `b`, 0 to 64 |
//! | 3 | `a` | the first key, cut after 64 bytes |
//! | 3 + `a` | `b` | the last key, cut after 64 bytes |
//! | 3 + `a` + `b` | 4 | CRC32C of everything before it, little-endian |
//!
//! The filter block follows.

use core::ops::Bound;

use bytes::{BufMut, Bytes};
use slatedb::FilterTarget;

const VERSION: u8 = 1;
/// Stored bytes of a bound. Long keys share long prefixes, but the keys of an SST seldom all agree in 64 bytes.
const MAX_BOUND_BYTES: usize = 64;
const FIXED_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;

/// Bounds of the keys of one SST, both inclusive, and both cut: cutting widens the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    first: Bytes,
    last: Bytes,
}

/// The reason for refusing a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsError {
    Damaged,
    Version(u8),
}

fn cut(key: &[u8]) -> &[u8] {
    key.get(..MAX_BOUND_BYTES).unwrap_or(key)
}

impl KeyBounds {
    pub(crate) fn new(first: &[u8], last: &[u8]) -> Self {
        Self { first: Bytes::copy_from_slice(cut(first)), last: Bytes::copy_from_slice(cut(last)) }
    }

    /// Returns whether SlateDB probes an SST with these bounds for `target`.
    pub(crate) fn admits(&self, target: &FilterTarget) -> bool {
        match target {
            FilterTarget::Point(key) => self.admits_key(key),
            // A key with the prefix can be in the range if the prefix itself is, or if the first key begins with it.
            FilterTarget::Prefix(prefix) => self.admits_key(prefix) || self.first.starts_with(prefix),
            FilterTarget::Range { lower, upper } => self.admits_end(lower) && self.admits_end(upper),
        }
    }

    fn admits_end(&self, end: &Bound<Bytes>) -> bool {
        match end {
            Bound::Included(key) | Bound::Excluded(key) => self.admits_key(key),
            Bound::Unbounded => false,
        }
    }

    pub(crate) fn admits_key(&self, key: &[u8]) -> bool {
        // Only the upper end needs the key cut: a cut first key is never above the full one.
        *key >= self.first[..] && cut(key) <= &self.last[..]
    }

    /// Returns the bounds that were not cut, which are keys of the SST.
    pub(crate) fn whole_keys(&self) -> impl Iterator<Item = &[u8]> {
        // A bound of exactly 64 bytes may have been cut, so it counts as cut.
        [&self.first, &self.last].into_iter().filter(|key| key.len() < MAX_BOUND_BYTES).map(|key| &key[..])
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        FIXED_BYTES + self.first.len() + self.last.len() + CHECKSUM_BYTES
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds are cut to 64 bytes")]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(self.encoded_bytes());
        header.extend([VERSION, self.first.len() as u8, self.last.len() as u8]);
        header.extend_from_slice(&self.first);
        header.extend_from_slice(&self.last);
        header.put_u32_le(crc32c::crc32c(&header));
        header
    }

    /// Returns the range, and the bytes behind the header.
    pub(crate) fn decode(data: &[u8]) -> Result<(Self, &[u8]), BoundsError> {
        let [version, first, last] = *data.first_chunk().ok_or(BoundsError::Damaged)?;
        if version != VERSION {
            return Err(BoundsError::Version(version));
        }
        let (first, last) = (usize::from(first), usize::from(last));
        if first.max(last) > MAX_BOUND_BYTES {
            return Err(BoundsError::Damaged);
        }
        let (header, rest) = data.split_at_checked(FIXED_BYTES + first + last).ok_or(BoundsError::Damaged)?;
        let (checksum, block) = rest.split_first_chunk::<CHECKSUM_BYTES>().ok_or(BoundsError::Damaged)?;
        // Separate from the block's checksum, which does not cover the header.
        if crc32c::crc32c(header) != u32::from_le_bytes(*checksum) {
            return Err(BoundsError::Damaged);
        }
        let (first, last) = header[FIXED_BYTES..].split_at(first);
        Ok((Self::new(first, last), block))
    }
}

#[cfg(test)]
mod tests {
    //! A range that is too narrow only costs reads. A damaged range that is trusted hides another SST's filter.

    use super::*;
    use proptest::prelude::*;

    fn header(first: &[u8], last: &[u8]) -> Vec<u8> {
        let range = KeyBounds::new(first, last);
        let header = range.encode();
        assert_eq!(header.len(), range.encoded_bytes());
        header
    }

    #[test]
    fn a_header_comes_back_with_what_follows_it() {
        let huge = vec![b'k'; 1 << 16];
        for (first, last) in [(&b""[..], &b""[..]), (b"", b"z"), (b"a", b"b"), (&huge, &huge), (b"a", &huge)] {
            let bytes = [header(first, last), b"a block".to_vec()].concat();
            let (range, block) = KeyBounds::decode(&bytes).unwrap();
            assert_eq!((range, block), (KeyBounds::new(first, last), &b"a block"[..]));
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_of_a_header_is_refused() {
        for (first, last) in [(&b""[..], &b""[..]), (b"apple", b"pear"), (&[7; 64], &[9; 200])] {
            let sound = header(first, last);
            for length in 0..sound.len() {
                assert!(KeyBounds::decode(&sound[..length]).is_err(), "{length} bytes of {}", sound.len());
            }
            let stored = [sound.clone(), vec![0; 300]].concat();
            for bit in 0..sound.len() * 8 {
                let mut damaged = stored.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let expected = if bit < 8 { BoundsError::Version(damaged[0]) } else { BoundsError::Damaged };
                assert_eq!(KeyBounds::decode(&damaged), Err(expected), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_header_that_claims_more_than_64_bytes_of_a_bound_is_refused() {
        let mut forged = vec![VERSION, 65, 0];
        forged.extend([7; 65]);
        forged.put_u32_le(crc32c::crc32c(&forged));
        assert_eq!(KeyBounds::decode(&forged), Err(BoundsError::Damaged));
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        // Few letters, and lengths around those at which bounds are cut.
        let length = prop_oneof![0..4_usize, 62..67_usize, Just(1 << 16)];
        let tail = proptest::collection::vec(b'a'..b'c', 0..3);
        (length, tail).prop_map(|(length, tail)| [vec![b'a'; length], tail].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn keys_and_prefixes_of_an_sst_are_always_admitted(mut keys in proptest::collection::vec(key(), 1..6), cut in 0..70_usize) {
            keys.sort();
            let range = KeyBounds::new(&keys[0], &keys[keys.len() - 1]);
            for key in keys {
                prop_assert!(range.admits(&FilterTarget::Point(Bytes::from(key.clone()))));
                let (lower, upper) = (Bound::Included(key.clone().into()), Bound::Excluded(key.clone().into()));
                let target = FilterTarget::Range { lower, upper };
                prop_assert!(range.admits(&target));
                let prefix = Bytes::from(key[..cut.min(key.len())].to_vec());
                prop_assert!(range.admits(&FilterTarget::Prefix(prefix)));
            }
        }

        #[test]
        fn a_key_is_admitted_if_bytes_beyond_64_could_make_it_fit(first in key(), last in key(), other in key()) {
            let naive = cut(&first) <= cut(&other) && cut(&other) <= cut(&last);
            prop_assert_eq!(KeyBounds::new(&first, &last).admits_key(&other), naive);
        }

        #[test]
        fn any_bytes_can_be_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..300), version in any::<bool>()) {
            let mut bytes = bytes;
            if version && let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            prop_assert!(KeyBounds::decode(&bytes).is_err());
        }
    }
}
