//! Pebble's binary fuse filter (`sstable/tablefilters/binaryfuse`), the structure of Graf and Lemire, "Binary Fuse
//! Filters" (2022), with three positions per key.
//!
//! A table of fingerprints is cut into segments. A key's hash chooses three neighboring segments and one fingerprint in
//! each. If the key was added, the exclusive or of the three is the key's own fingerprint; for other keys they agree
//! only by chance. Behind the table follow the seed (8 bytes), the number of segments a key may begin in (4), the
//! logarithm of a segment's length (1), the bits of a fingerprint (1).

use super::{malformed, unsupported};
use crate::error::Error;

const TRAILER_BYTES: usize = 14;

/// Segments per key. The table therefore has two segments more than a key may begin in.
const POSITIONS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinaryFuse {
    seed: u64,
    segments: u32,
    segment_log2: u32,
    bits: u32,
}

impl BinaryFuse {
    /// Opens a filter, whose table must have exactly the length that Pebble writes. Pebble itself accepts up to 14
    /// bytes as a filter of no keys, but writes no filter for a table without keys; 14 bytes or fewer are therefore a
    /// truncated filter.
    pub(super) fn open(bytes: &[u8]) -> Result<Self, Error> {
        let (data, trailer) = bytes
            .split_last_chunk::<TRAILER_BYTES>()
            .ok_or_else(|| malformed(format!("expected more than {TRAILER_BYTES} bytes, got {}", bytes.len())))?;
        let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3, segment_log2, bits] = *trailer;
        let filter = Self {
            seed: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            segments: u32::from_le_bytes([c0, c1, c2, c3]),
            segment_log2: u32::from(segment_log2),
            bits: u32::from(bits),
        };
        if packing_pad_bytes(filter.bits).is_none() {
            return Err(unsupported(format!("binary fuse with fingerprints of {bits} bits")));
        }
        match filter.table_bytes() {
            Some(expected) if expected == data.len() as u64 => Ok(filter),
            _ => Err(malformed(format!(
                "expected a table of {} segments of 2^{segment_log2} fingerprints of {bits} bits, got {} bytes",
                u64::from(filter.segments) + POSITIONS - 1,
                data.len()
            ))),
        }
    }

    /// Returns the length of the table, or `None` if a position of 32 bits cannot address it or it has no room for a
    /// key.
    fn table_bytes(self) -> Option<u64> {
        if self.segments == 0 || self.segment_log2 >= u32::BITS {
            return None;
        }
        let fingerprints = (u64::from(self.segments) + POSITIONS - 1) << self.segment_log2;
        if fingerprints > u64::from(u32::MAX) {
            return None;
        }
        let pad = packing_pad_bytes(self.bits)?;
        // Fingerprints of 12 bits are stored in pairs of three bytes; an odd last one takes a whole pair. Only segments
        // of one fingerprint can make the number odd.
        let packed = if self.bits == 12 {
            fingerprints.div_ceil(2) * 3
        } else {
            (fingerprints * u64::from(self.bits)).div_ceil(8)
        };
        Some(packed + pad)
    }

    #[expect(clippy::cast_possible_truncation, reason = "positions have 32 bits: `open` checked with `table_bytes`")]
    pub(super) fn may_contain(self, bytes: &[u8], hash: u64) -> bool {
        let hash = mixed(hash.wrapping_add(self.seed));
        let segment = 1_u32 << self.segment_log2;
        // `first` lies before the table's last two segments, so `second` and `third` stay inside the table.
        let begins = u64::from(self.segments) << self.segment_log2;
        let first = ((u128::from(hash) * u128::from(begins)) >> 64) as u32;
        let second = (first + segment) ^ ((hash >> 18) as u32 & (segment - 1));
        let third = (first + 2 * segment) ^ (hash as u32 & (segment - 1));
        let stored = [first, second, third].map(|position| self.fingerprint(bytes, position));
        // Unreachable after `open`; "may contain" is the safe answer.
        let [Some(a), Some(b), Some(c)] = stored else { return true };
        (a ^ b ^ c ^ (hash ^ hash >> 32) as u32) & ((1 << self.bits) - 1) == 0
    }

    /// Returns the fingerprint at a position, in the lowest bits. Every width is a bit stream, lowest bit first. No
    /// fingerprint spans more than two bytes; one of 8 bits or fewer lies within a byte.
    fn fingerprint(self, bytes: &[u8], position: u32) -> Option<u32> {
        let bit = u64::from(position) * u64::from(self.bits);
        let from = bytes.get(usize::try_from(bit / 8).ok()?..)?;
        let word =
            if self.bits > 8 { u32::from(u16::from_le_bytes(*from.first_chunk()?)) } else { u32::from(*from.first()?) };
        Some(word >> (bit % 8))
    }

    pub(super) fn expected_fpr(self) -> f64 {
        (-f64::from(self.bits)).exp2()
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![
            ("fingerprint_bits", self.bits.to_string()),
            ("segments", (u64::from(self.segments) + POSITIONS - 1).to_string()),
            ("segment_fingerprints", (1_u64 << self.segment_log2).to_string()),
            ("seed", format!("{:#018x}", self.seed)),
        ]
    }
}

/// Returns the length of the padding that lets Pebble read more than a fingerprint at once, or `None` for a width that
/// it does not write.
const fn packing_pad_bytes(bits: u32) -> Option<u64> {
    match bits {
        4 | 8 | 16 => Some(0),
        10 => Some(3),
        12 => Some(1),
        _ => None,
    }
}

/// The finalizer of `MurmurHash3`.
const fn mixed(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    //! A trailer that does not match its table leads a probe to other keys' fingerprints. `tests/engines/pebble.rs`
    //! compares with Pebble's own answers.

    use super::BinaryFuse;
    use crate::error::Error;

    fn filter(data_bytes: usize, segments: u32, segment_log2: u8, bits: u8) -> Vec<u8> {
        let mut bytes = vec![0; data_bytes + 8];
        bytes.extend(segments.to_le_bytes());
        bytes.extend([segment_log2, bits]);
        bytes
    }

    #[test]
    fn a_table_must_be_as_long_as_its_trailer_says() {
        // Three segments of four fingerprints.
        for (bits, exact) in [(4, 6), (8, 12), (10, 18), (12, 19), (16, 24)] {
            assert!(BinaryFuse::open(&filter(exact, 1, 2, bits)).is_ok(), "{bits} bits");
            for other in [0, exact - 1, exact + 1] {
                let refused = BinaryFuse::open(&filter(other, 1, 2, bits));
                assert!(matches!(refused, Err(Error::Malformed { .. })), "{bits} bits, {other} bytes");
            }
        }
    }

    #[test]
    fn numbers_without_a_table_are_refused() {
        for (segments, segment_log2) in [(0, 2), (1, 32), (1, 255), (u32::MAX, 31), (u32::MAX, 0), (u32::MAX, 63)] {
            let refused = BinaryFuse::open(&filter(24, segments, segment_log2, 16));
            assert!(matches!(refused, Err(Error::Malformed { .. })), "{segments} of 2^{segment_log2}");
        }
        for length in 0..=13 {
            assert!(BinaryFuse::open(&vec![0; length]).is_err());
        }
    }

    #[test]
    fn widths_that_pebble_does_not_write_are_refused() {
        for bits in (0..=255).filter(|bits| ![4, 8, 10, 12, 16].contains(bits)) {
            let refused = BinaryFuse::open(&filter(24, 1, 2, bits));
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{bits} bits");
        }
    }

    #[test]
    fn fingerprints_are_read_from_a_stream_of_bits() {
        let at = |bits: u8, bytes: &[u8], position| {
            let shape = BinaryFuse { seed: 0, segments: 1, segment_log2: 2, bits: u32::from(bits) };
            shape.fingerprint(bytes, position).map(|word| word & ((1 << bits) - 1))
        };
        assert_eq!(
            [at(4, &[0xba, 0xdc], 0), at(4, &[0xba, 0xdc], 1), at(4, &[0xba, 0xdc], 3)],
            [Some(0xa), Some(0xb), Some(0xd)]
        );
        assert_eq!([at(12, &[0x34, 0x62, 0x45], 0), at(12, &[0x34, 0x62, 0x45], 1)], [Some(0x234), Some(0x456)]);
        assert_eq!(at(10, &[0, 0, 0, 0x40, 0x9a], 3), Some(0x269));
        assert_eq!(at(16, &[0, 0, 0x34, 0x12], 1), Some(0x1234));
        assert_eq!(at(16, &[0, 0, 0x34], 1), None);
    }
}
