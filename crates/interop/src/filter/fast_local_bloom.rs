//! RocksDB's Bloom filter from format version 5 on (`FastLocalBloomImpl` in `util/bloom_impl.h`).
//!
//! The lower half of a key's hash chooses a line of 64 bytes, the upper half the bits in it: its top nine bits are the
//! first one's position, and a multiplication by the golden ratio gives the next. All probes of a key are in one cache
//! line.

use super::{ROCKSDB_TRAILER_BYTES, malformed, rate, unsupported};
use crate::error::Error;

const LINE_BYTES: usize = 64;
/// 2^32 divided by the golden ratio.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;
/// The number of probes between two branches.
const TOGETHER: u8 = 3;
/// RocksDB reserves 0 and 31.
const MAX_PROBES: u8 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastLocalBloom {
    lines: u32,
    probes: u8,
}

impl FastLocalBloom {
    /// Opens a filter by its trailer: marker, sort, probes with the line length in the top three bits, two zero bytes.
    pub(super) fn open(data_bytes: usize, trailer: [u8; ROCKSDB_TRAILER_BYTES]) -> Result<Self, Error> {
        let [_, sort, line_and_probes, reserved @ ..] = trailer;
        let (line_code, probes) = (line_and_probes >> 5, line_and_probes & 31);
        if sort != 0 {
            return Err(unsupported(format!("Bloom filter of sort {sort}")));
        }
        if line_code != 0 {
            return Err(unsupported(format!("Bloom filter with lines of {} bytes", LINE_BYTES << line_code)));
        }
        if !(1..=MAX_PROBES).contains(&probes) {
            return Err(unsupported(format!("Bloom filter with {probes} probes")));
        }
        if reserved != [0, 0] {
            return Err(unsupported(format!("Bloom filter with reserved bytes {reserved:02x?}")));
        }
        // RocksDB does not check this; with less than a line of data it would probe beyond the data.
        if !data_bytes.is_multiple_of(LINE_BYTES) {
            let problem = format!("expected whole lines of {LINE_BYTES} bytes, got {data_bytes} bytes of data");
            return Err(malformed(problem));
        }
        let lines = u32::try_from(data_bytes / LINE_BYTES).map_err(|_| malformed("it is too long".to_owned()))?;
        Ok(Self { lines, probes })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of the hash")]
    pub(super) fn may_contain(self, bytes: &[u8], hash: u64) -> bool {
        let (lines, _) = bytes.as_chunks::<LINE_BYTES>();
        let line = (u64::from(hash as u32) * u64::from(self.lines)) >> 32;
        // The line is in range for a filter from `open`; otherwise "may contain" is the safe answer.
        lines.get(line as usize).is_none_or(|line| self.in_line(line, (hash >> 32) as u32))
    }

    /// Returns whether all bits of a key are set in its line.
    ///
    /// [`TOGETHER`] probes are combined without a branch between them: half of all absent keys fail at the first probe,
    /// and a CPU cannot predict which.
    fn in_line(self, line: &[u8; LINE_BYTES], mut hash: u32) -> bool {
        let mut left = self.probes;
        while left >= TOGETHER {
            let mut set = 1;
            for _ in 0..TOGETHER {
                set &= bit(line, hash);
                hash = hash.wrapping_mul(GOLDEN_RATIO);
            }
            if set & 1 == 0 {
                return false;
            }
            left -= TOGETHER;
        }
        for _ in 0..left {
            if bit(line, hash) & 1 == 0 {
                return false;
            }
            hash = hash.wrapping_mul(GOLDEN_RATIO);
        }
        true
    }

    pub(super) fn expected_fpr(self, keys: u64) -> f64 {
        rate::lines_of_independent_probes(keys, u64::from(self.lines), 8.0 * LINE_BYTES as f64, u32::from(self.probes))
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![
            ("probes", self.probes.to_string()),
            ("lines", self.lines.to_string()),
            ("line_bytes", LINE_BYTES.to_string()),
        ]
    }
}

/// Returns the bit at the position in the top nine bits of `hash`, as the lowest bit. The other bits are garbage.
fn bit(line: &[u8; LINE_BYTES], hash: u32) -> u8 {
    let position = hash >> 23;
    line[(position >> 3) as usize] >> (position & 7)
}
