//! RocksDB's Ribbon filter (`Standard128RibbonBitsReader`, `util/ribbon_impl.h`, `util/ribbon_alg.h`).
//!
//! A key's hash yields a start among the slots, 128 coefficients for the slots from there on, and a result of up to 32
//! bits. The builder solved all keys' equations, so that the exclusive or of the chosen slots is the result. Slots are
//! stored by columns: for each block of 128 slots, one segment of 16 bytes per result bit. The first blocks have one
//! column fewer than the others, which makes fractional bits per key possible.

use super::{ROCKSDB_TRAILER_BYTES, malformed, unsupported};
use crate::error::Error;

const SEGMENT_BYTES: usize = 16;
/// One column of 128 slots.
type Segment = [u8; SEGMENT_BYTES];
const SLOTS_PER_BLOCK: u32 = 128;
/// The number of columns between two branches.
const TOGETHER: usize = 3;
/// A result has 32 bits; RocksDB ignores further segments.
const MAX_COLUMNS: u32 = 32;

/// Multipliers and masks of `StandardHasher` and `StandardRehasherAdapter`.
const SEED_FACTOR: u64 = 0xc782_19a2_3eea_dd03;
const SEED_MASK: u64 = 0xf0f0_f0f0_f0f0_f0f0;
const REHASH_FACTOR: u64 = 0x6193_d459_236a_3a0d;
const COEFFICIENT_FACTOR: u64 = 0xc28f_8282_2b65_0bed;
const COEFFICIENT_XOR: u64 = 0xc367_844a_6e52_731d;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ribbon128 {
    blocks: u32,
    seed: u8,
    /// The mixed seed, which is combined with each hash.
    raw_seed: u32,
    /// Columns of the later blocks.
    columns: u32,
    /// The number of blocks with one column fewer. They come first.
    lower_blocks: u32,
}

impl Ribbon128 {
    /// Opens a filter by its trailer: marker, seed, number of blocks in three bytes.
    pub(super) fn open(data_bytes: usize, trailer: [u8; ROCKSDB_TRAILER_BYTES]) -> Result<Self, Error> {
        let [_, seed, low, middle, high] = trailer;
        let blocks = u32::from_le_bytes([low, middle, high, 0]);
        if blocks < 2 {
            return Err(unsupported(format!("Ribbon filter with {blocks} blocks")));
        }
        // RocksDB would ignore a partial segment, but its writers never leave one: it is damage.
        if !data_bytes.is_multiple_of(SEGMENT_BYTES) {
            let problem = format!("expected whole segments of {SEGMENT_BYTES} bytes, got {data_bytes} bytes of data");
            return Err(malformed(problem));
        }
        let segments = u32::try_from(data_bytes / SEGMENT_BYTES).map_err(|_| malformed("it is too long".to_owned()))?;
        // The trailer does not store the columns: they follow from the length of the data.
        let columns = segments.div_ceil(blocks);
        let (columns, lower_blocks) =
            if columns > MAX_COLUMNS { (MAX_COLUMNS, 0) } else { (columns, columns * blocks - segments) };
        Ok(Self { blocks, seed, raw_seed: raw_seed(seed), columns, lower_blocks })
    }

    /// Returns the number of starts. A key that starts at the last block's first slot ends with the last slot, so later
    /// starts do not exist.
    const fn starts(self) -> u32 {
        SLOTS_PER_BLOCK * (self.blocks - 1) + 1
    }

    pub(super) fn may_contain(self, bytes: &[u8], hash: u64) -> bool {
        let (segments, _) = bytes.as_chunks::<SEGMENT_BYTES>();
        self.equation(hash).holds(segments)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a start is less than the number of starts; results have 32 bits"
    )]
    fn equation(self, hash: u64) -> Equation {
        let seeded = (hash ^ u64::from(self.raw_seed)).wrapping_mul(REHASH_FACTOR);
        let start = ((u128::from(seeded) * u128::from(self.starts())) >> 64) as u32;
        let (block, shift) = (start / SLOTS_PER_BLOCK, start % SLOTS_PER_BLOCK);
        let mixed = seeded.wrapping_mul(COEFFICIENT_FACTOR);
        Equation {
            segment: (block * self.columns - block.min(self.lower_blocks)) as usize,
            columns: (self.columns - u32::from(block < self.lower_blocks)) as usize,
            shift,
            coefficients: u128::from(mixed) << 64 | u128::from(mixed ^ COEFFICIENT_XOR) | 1,
            result: mixed.swap_bytes() as u32,
        }
    }

    /// Computes RocksDB's `ExpectedFpRate`: each column halves the rate, and keys are distributed over blocks like
    /// starts.
    pub(super) fn expected_fpr(self) -> f64 {
        let lower = f64::from(SLOTS_PER_BLOCK) * f64::from(self.lower_blocks) / f64::from(self.starts());
        let upper_rate = (-f64::from(self.columns)).exp2();
        (1.0 + lower) * upper_rate
    }

    pub(super) fn parameters(self) -> Vec<(&'static str, String)> {
        vec![
            ("columns", self.columns.to_string()),
            ("blocks", self.blocks.to_string()),
            ("blocks_with_a_column_less", self.lower_blocks.to_string()),
            ("slots", (SLOTS_PER_BLOCK * self.blocks).to_string()),
            ("seed", self.seed.to_string()),
        ]
    }
}

/// The equation that one key's slots must satisfy.
#[derive(Clone, Copy, Debug)]
struct Equation {
    /// The first segment of the block it starts in.
    segment: usize,
    columns: usize,
    /// Slots of the block before the start.
    shift: u32,
    coefficients: u128,
    result: u32,
}

impl Equation {
    /// Returns whether each column's slots sum to its bit of the result. If the segments are missing, the key may be
    /// present.
    ///
    /// [`TOGETHER`] columns are combined without a branch between them: half of all absent keys fail at the first
    /// column, and a CPU cannot predict which.
    fn holds(self, segments: &[Segment]) -> bool {
        let next = self.segment + self.columns;
        let Some(left) = segments.get(self.segment..next) else { return true };
        let right = match segments.get(next..next + self.columns) {
            Some(right) => right,
            // With a start at the block's first slot, no slot lies in the next block, and the last block has no next
            // one.
            None if self.shift == 0 => left,
            None => return true,
        };
        let (lefts, left_rest) = left.as_chunks::<TOGETHER>();
        let (rights, right_rest) = right.as_chunks::<TOGETHER>();
        let mut result = self.result;
        for (lefts, rights) in lefts.iter().zip(rights) {
            let mut differs = 0;
            for (left, right) in lefts.iter().zip(rights) {
                differs |= self.sum(*left, *right) ^ result;
                result >>= 1;
            }
            if differs & 1 == 1 {
                return false;
            }
        }
        left_rest
            .iter()
            .zip(right_rest)
            .enumerate()
            .all(|(column, (left, right))| (self.sum(*left, *right) ^ result >> column) & 1 == 0)
    }

    /// Returns the number of set slots that the coefficients choose in one column. Its lowest bit is their sum modulo
    /// 2.
    fn sum(self, left: Segment, right: Segment) -> u32 {
        let this_block = self.coefficients << self.shift;
        // With shift 0 this would shift by all 128 bits, which overflows: no coefficient reaches the next block.
        let next_block = self.coefficients.checked_shr(SLOTS_PER_BLOCK - self.shift).unwrap_or(0);
        (u128::from_le_bytes(left) & this_block ^ u128::from_le_bytes(right) & next_block).count_ones()
    }
}

/// Follows `StandardHasher::SetOrdinalSeed`: consecutive seeds get raw seeds that differ in many bits.
#[expect(clippy::cast_possible_truncation, reason = "RocksDB keeps 32 bits")]
fn raw_seed(ordinal: u8) -> u32 {
    let mixed = u64::from(ordinal).wrapping_mul(SEED_FACTOR);
    (mixed ^ (mixed & SEED_MASK) >> 4) as u32
}
