//! RocksDB's Bloom filter up to format version 4, and Pebble's (`LegacyLocalityBloomImpl` in `util/bloom_impl.h`).
//!
//! A key's 32-bit hash, modulo the number of lines, chooses a line as long as a cache line of the machine that wrote
//! it: 64 bytes on x86, 128 or 256 elsewhere. Double hashing chooses the bits in the line; the step is the hash rotated
//! by 17 bits.

use super::{ROCKSDB_TRAILER_BYTES, malformed, rate};
use crate::error::Error;

/// Pebble's `cacheLineSize`.
const PEBBLE_LINE_BYTES_LOG2: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LegacyBloom {
    lines: u32,
    line_bytes_log2: u32,
    probes: u8,
}

impl LegacyBloom {
    /// Opens a filter by its trailer: number of probes, number of lines.
    ///
    /// RocksDB multiplies the lines by its own cache line in 32 bits, and so accepts numbers of lines that point beyond
    /// the data. This refuses them.
    pub(super) fn open(data_bytes: usize, trailer: [u8; ROCKSDB_TRAILER_BYTES]) -> Result<Self, Error> {
        let [probes, lines @ ..] = trailer;
        let lines = u32::from_le_bytes(lines);
        // The trailer does not store the length of a line, which is the writer's cache line. 0 lines are refused below.
        let line_bytes = (data_bytes as u64).checked_div(u64::from(lines)).unwrap_or(0);
        if line_bytes * u64::from(lines) != data_bytes as u64 || !line_bytes.is_power_of_two() {
            return Err(malformed(format!(
                "expected {lines} lines whose length is a power of two, got {data_bytes} bytes of data"
            )));
        }
        Ok(Self { lines, line_bytes_log2: line_bytes.ilog2(), probes })
    }

    /// Opens a filter of Pebble, which has one length of lines and any number of probes (`sstable/tablefilters/bloom`).
    /// Pebble writes no filter without keys, so a filter without lines is truncated.
    pub(super) fn open_pebble(bytes: &[u8]) -> Result<Self, Error> {
        let data_bytes = bytes.len().saturating_sub(ROCKSDB_TRAILER_BYTES);
        let trailer =
            *bytes.last_chunk().ok_or_else(|| malformed(format!("expected lines, got {} bytes", bytes.len())))?;
        let filter = Self::open(data_bytes, trailer)?;
        if filter.line_bytes_log2 == PEBBLE_LINE_BYTES_LOG2 {
            return Ok(filter);
        }
        Err(malformed(format!("expected lines of 64 bytes, got {} in {data_bytes} bytes", filter.lines)))
    }

    #[expect(clippy::cast_possible_truncation, reason = "hashes of this filter have 32 bits")]
    pub(super) fn may_contain(self, bytes: &[u8], hash: u64) -> bool {
        let mut hash = hash as u32;
        let start = ((hash % self.lines) as usize) << self.line_bytes_log2;
        let step = hash.rotate_right(17);
        let Some(line) = bytes.get(start..).and_then(|from| from.get(..1 << self.line_bytes_log2)) else { return true };
        for _ in 0..self.probes {
            let bit = hash as usize & (8 * line.len() - 1);
            if line[bit / 8] >> (bit % 8) & 1 == 0 {
                return false;
            }
            hash = hash.wrapping_add(step);
        }
        true
    }

    pub(super) fn expected_fpr(self, keys: u64) -> f64 {
        let line_bits = f64::from(self.line_bytes_log2 + 3).exp2();
        rate::lines_of_double_hashing(keys, u64::from(self.lines), line_bits, u32::from(self.probes))
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![
            ("probes", self.probes.to_string()),
            ("lines", self.lines.to_string()),
            ("line_bytes", (1_u64 << self.line_bytes_log2).to_string()),
        ]
    }
}
