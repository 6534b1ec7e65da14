//! The shape of a binary fuse filter: its cells and segments, their placement, and its probe.

use alloc::string::ToString;

use crate::error::BlockError;
use crate::filter::batch;
use crate::filter::fingerprint::{
    PeeledShape, Placed, VectorPlacement, WholeBytes, fingerprint_bits, may_contain, may_contain_batch, set_cells,
    with_width,
};
use crate::filter::peel::{AttemptError, CellSums, MAX_PEELED_CELLS, PeelOrder, Placement};
use crate::filter::{AnyShape, EncodedShape, FilterShape, OpenShape, ParamWords, ShapeFields, SingleProbe};
use crate::hash::{KeyHash, SaltStep, map_to_range, map_to_small_range};

/// The number of cells of each key in a binary fuse filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FuseArity {
    /// Three cells: faster, with 1.13 cells per key at a million keys.
    Three = 3,
    /// Four cells: smaller, with 1.07.
    Four = 4,
}

impl FuseArity {
    pub(super) fn of_cells(cells: u8) -> Option<Self> {
        [Self::Three, Self::Four].into_iter().find(|arity| arity.get() == cells.into())
    }

    /// Returns the number of cells.
    pub(crate) const fn get(self) -> u32 {
        self as u32
    }
}

/// The binary logarithm of the longest segment: that of the tables' last row for three cells.
const MAX_LOG2_SEGMENT: u8 = 18;

/// The maximum number of cells: more than fit a payload.
const MAX_CELLS: u64 = 1 << 38;

/// Calls a function with a shape's arity and width as constants, so that its loops are compiled for them.
macro_rules! with_cells {
    ($shape:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $shape.arity {
            FuseArity::Three => with_width!($shape.fingerprint_bits, $function($shape.placement::<3>(), $($argument),*)),
            FuseArity::Four => with_width!($shape.fingerprint_bits, $function($shape.placement::<4>(), $($argument),*)),
        }
    };
}

/// The supported fingerprint widths. Fewer than 4 bits would be a useless rate, and a key has only 32 fingerprint bits.
pub(crate) const FINGERPRINT_BITS: core::ops::RangeInclusive<u8> = 4..=32;

/// The shape of a binary fuse filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FuseShape {
    pub(super) arity: FuseArity,
    pub(crate) fingerprint_bits: u8,
    log2_segment: u8,
    /// The segments in which a key's first cell can lie.
    segments: u32,
    salt: u8,
    /// The salt's step, precomputed.
    salt_step: SaltStep,
    /// The length of a segment.
    pub(super) segment: u64,
    /// The number of cells in which a key's first cell can lie.
    pub(super) range: u64,
}

impl FuseShape {
    /// Returns a shape with salt 0; `None` when a block cannot record it.
    pub(crate) fn new(arity: FuseArity, fingerprint_bits: u8, log2_segment: u8, segments: u32) -> Option<Self> {
        if !FINGERPRINT_BITS.contains(&fingerprint_bits) || log2_segment > MAX_LOG2_SEGMENT || segments == 0 {
            return None;
        }
        let segment = 1 << log2_segment;
        let range = u64::from(segments) * segment;
        let (salt, salt_step) = (0, SaltStep::new(0));
        let shape = Self { arity, fingerprint_bits, log2_segment, segments, salt, salt_step, segment, range };
        (shape.cells() <= MAX_CELLS).then_some(shape)
    }

    /// Returns a faster probe of single keys for nearly all filters: three cells of 8 or 16 bits, unsalted.
    pub(in crate::filter) fn single_probe(&self) -> Option<SingleProbe> {
        match (self.arity, self.fingerprint_bits, self.salt) {
            (FuseArity::Three, 8, 0) => Some(probe_three::<1>),
            (FuseArity::Three, 16, 0) => Some(probe_three::<2>),
            _ => None,
        }
    }

    /// Returns the placement of keys in cells.
    #[inline]
    pub(in crate::filter) fn placement<const ARITY: usize>(&self) -> FuseCells<ARITY> {
        let Self { range, segment, log2_segment, salt, salt_step, .. } = *self;
        FuseCells { range, segment, log2_segment, salt_step, is_raw: salt == 0 }
    }
}

impl FilterShape for FuseShape {
    fn decode(encoded: &EncodedShape) -> Result<Self, BlockError> {
        let [word, segments] = encoded.words("2 for binary fuse")?;
        let [fingerprint_bits, arity, log2_segment, reserved] = word.to_le_bytes();
        let arity = FuseArity::of_cells(arity).ok_or(BlockError::field("cells of a key", "3 or 4", arity))?;
        let is_width = FINGERPRINT_BITS.contains(&fingerprint_bits);
        BlockError::require(is_width, "fingerprint bits", "4 to 32", fingerprint_bits)?;
        let is_length = log2_segment <= MAX_LOG2_SEGMENT && reserved == 0;
        // Reported with the reserved byte above it, which must be 0.
        BlockError::require(is_length, "segment length", "2^0 to 2^18", word >> 16)?;
        let wrong = BlockError::field("segments", "at least 1, and at most 2^38 cells in all", segments);
        let shape = Self::new(arity, fingerprint_bits, log2_segment, segments).ok_or(wrong)?;
        Ok(shape.with_salt(encoded.salt))
    }

    fn params(&self) -> ParamWords {
        let arity = u32::from(self.fingerprint_bits) | self.arity.get() << 8;
        [arity | u32::from(self.log2_segment) << 16, self.segments].into_iter().collect()
    }

    fn salt(&self) -> u8 {
        self.salt
    }

    /// Returns the length in whole words. From the byte in which a cell begins, 4 bytes are read, or 8 if a cell can
    /// span five.
    fn payload_bytes(&self) -> u64 {
        let window = if matches!(self.fingerprint_bits, 17..=31) { 8 } else { 4 };
        ((self.cells() - 1) * u64::from(self.fingerprint_bits) / 8 + window).next_multiple_of(8)
    }

    /// Returns 2^-w for fingerprints of w bits, for any number of keys.
    fn expected_fpr(&self, _keys: u64) -> f64 {
        1.0 / (1_u64 << self.fingerprint_bits) as f64
    }

    fn describe(&self) -> ShapeFields {
        vec![
            ("cells of a key", self.arity.get().to_string()),
            ("fingerprint bits", self.fingerprint_bits.to_string()),
            ("segment length", (1_u64 << self.log2_segment).to_string()),
            ("cells", self.cells().to_string()),
        ]
    }

    fn may_contain(&self, payload: &[u8], hash: KeyHash) -> bool {
        with_cells!(self, may_contain(payload, hash))
    }

    fn may_contain_batch(&self, payload: &[u8], hashes: &[KeyHash], matches: &mut [u64]) {
        if payload.len() as u64 != self.payload_bytes() {
            batch::all_match(hashes, matches);
        } else if self.cells() > MAX_PEELED_CELLS {
            // More than we build, and too many for the placement of many keys.
            batch::answers(hashes, matches, |hash| self.may_contain(payload, hash));
        } else {
            with_cells!(self, may_contain_batch(payload, hashes, matches));
        }
    }
}

/// Probes for one key in an unsalted filter of three cells of `BYTES` bytes. `decode` has checked that all cells lie in
/// the payload, so the whole block can be passed instead.
fn probe_three<const BYTES: usize>(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
    let AnyShape::BinaryFuse(shape) = &open.any else { return true };
    let placement = FuseCells { is_raw: true, ..shape.placement::<3>() };
    may_contain(placement, WholeBytes::<BYTES>, data, hash)
}

impl PeeledShape for FuseShape {
    fn with_salt(self, salt: u8) -> Self {
        Self { salt, salt_step: SaltStep::new(salt), ..self }
    }

    fn cells(&self) -> u64 {
        self.range + u64::from(self.arity.get() - 1) * self.segment
    }

    fn add_all(&self, sums: &mut CellSums, hashes: &[KeyHash], threads: usize) -> Result<(), AttemptError> {
        // Parts exist only with salt 0: with another, neighbouring hashes do not have neighbouring cells.
        let groups = if threads > 1 && self.salt == 0 { self.parts(hashes, threads) } else { None };
        let Some(groups) = groups else {
            let hashes = hashes.iter().copied();
            return match self.arity {
                FuseArity::Three => sums.add_all(self.placement::<3>(), hashes),
                FuseArity::Four => sums.add_all(self.placement::<4>(), hashes),
            };
        };
        groups.into_iter().try_for_each(|parts| match self.arity {
            FuseArity::Three => sums.add_parts(self.placement::<3>(), parts, threads),
            FuseArity::Four => sums.add_parts(self.placement::<4>(), parts, threads),
        })
    }

    fn peel(&self, sums: &mut CellSums, reserve: usize) -> Result<PeelOrder, AttemptError> {
        match self.arity {
            FuseArity::Three => sums.peel(self.placement::<3>(), reserve),
            FuseArity::Four => sums.peel(self.placement::<4>(), reserve),
        }
    }

    fn set_cells(&self, sums: &CellSums, order: &PeelOrder, cells: &mut [u8]) {
        with_cells!(self, set_cells(sums, order, cells));
    }
}

/// The placement of keys in cells.
#[derive(Clone, Copy, Debug)]
pub(in crate::filter) struct FuseCells<const ARITY: usize> {
    /// The number of cells in which a key's first cell can lie.
    range: u64,
    /// The length of a segment, and its binary logarithm.
    segment: u64,
    log2_segment: u8,
    salt_step: SaltStep,
    /// Whether the unsalted hash places the first cell, as with salt 0.
    is_raw: bool,
}

impl<const ARITY: usize> Placement<ARITY> for FuseCells<ARITY> {
    /// Places one cell in each of consecutive segments.
    ///
    /// With salt 0 the first cell ascends with the hash, so that sorted keys are built from one end to the other. An
    /// exclusive or moves later cells within their segment: it needs no multiplication and no bound.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a cell beyond memory is not found in the payload")]
    fn place(&self, hash: u64) -> ([usize; ARITY], u32) {
        let salted = KeyHash::from_well_mixed(hash).salted(self.salt_step);
        let first = map_to_range(if self.is_raw { hash } else { salted }, self.range);
        let mut cells = [first as usize; ARITY];
        let (mut next, mut offsets) = (first, salted);
        for cell in cells.iter_mut().skip(1) {
            next += self.segment;
            *cell = (next ^ (offsets & (self.segment - 1))) as usize;
            offsets >>= self.log2_segment;
        }
        (cells, fingerprint_bits(salted))
    }
}

impl<const ARITY: usize> VectorPlacement<ARITY> for FuseCells<ARITY> {
    /// `range` must be below 2^32.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "compiled with the instructions of its caller")]
    #[expect(clippy::cast_possible_truncation, reason = "a cell beyond memory is not found in the payload")]
    fn place_all(&self, hashes: &[KeyHash], placed: &mut Placed<ARITY>) {
        let mut salted = [0; 64];
        let salted = &mut salted[..hashes.len().min(64)];
        for (salted, hash) in salted.iter_mut().zip(hashes) {
            *salted = hash.salted(self.salt_step);
        }
        for (bits, salted) in placed.bits.iter_mut().zip(&*salted) {
            *bits = fingerprint_bits(*salted);
        }
        let Some((firsts, later)) = placed.cells.split_first_mut() else { return };
        for ((first, hash), salted) in firsts.iter_mut().zip(hashes).zip(&*salted) {
            *first = map_to_small_range(if self.is_raw { hash.get() } else { *salted }, self.range) as usize;
        }
        let (mut segments, mut shift) = (0, 0);
        for cells in later {
            segments += self.segment;
            for ((cell, first), salted) in cells.iter_mut().zip(&*firsts).zip(&*salted) {
                *cell = (*first + segments as usize) ^ (salted >> shift & (self.segment - 1)) as usize;
            }
            shift += self.log2_segment;
        }
    }
}

/// A row of the tables: the number of keys from which it applies, the binary logarithm of the segment length, and the
/// cells per key in 1/10,000, at this number of keys and at the next row's. Between the two, the cells per key are
/// interpolated.
type Row = (u64, u8, u64, u64);

/// Measured on built filters at the numbers of keys that leave no slack to the next whole segment: about one attempt in
/// 25 fails there, for any number of keys. The usual formulas (Graf and Lemire 2022) are as good on average, but where
/// their segment length has just doubled nearly all attempts fail: 97 % at 11,500 keys.
///
/// With few keys there are more cells than the tables say, because there is at least one segment to start in.
#[rustfmt::skip]
pub(super) const THREE: &[Row] = &[
    (0, 3, 10_000, 10_000), (9, 4, 10_000, 10_000), (21, 5, 10_000, 10_000),
    (53, 5, 18_200, 17_600), (92, 6, 15_000, 15_400), (381, 7, 14_500, 14_200),
    (700, 7, 14_200, 13_900), (1_250, 8, 13_900, 13_500), (2_300, 8, 13_500, 13_100),
    (3_350, 8, 13_100, 12_880), (4_816, 8, 12_880, 12_900), (6_400, 9, 12_850, 12_500),
    (9_871, 9, 12_500, 12_300), (14_232, 9, 12_300, 12_400), (18_000, 10, 12_420, 12_320),
    (20_005, 10, 12_320, 12_080), (28_081, 10, 12_080, 11_935), (39_629, 10, 11_935, 11_890),
    (60_000, 11, 11_910, 11_750), (85_694, 11, 11_750, 11_650), (121_749, 11, 11_650, 11_580),
    (185_000, 12, 11_610, 11_530), (256_565, 12, 11_530, 11_425), (363_206, 12, 11_425, 11_390),
    (505_671, 12, 11_390, 11_370), (700_000, 13, 11_345, 11_285), (1_000_000, 13, 11_285, 11_265),
    (2_000_000, 13, 11_265, 11_250), (4_000_000, 14, 11_220, 11_200), (12_000_000, 15, 11_200, 11_200),
    (50_000_000, 16, 11_200, 11_200), (200_000_000, 17, 11_200, 11_200), (800_000_000, 18, 11_200, 11_200),
];

#[rustfmt::skip]
pub(super) const FOUR: &[Row] = &[
    (0, 3, 10_000, 10_000), (16, 4, 16_000, 16_200), (65, 5, 15_300, 15_300),
    (168, 5, 15_300, 15_100), (213, 5, 15_100, 14_650), (308, 5, 14_650, 14_300),
    (450, 5, 14_300, 14_080), (640, 6, 14_050, 13_720), (845, 6, 13_720, 13_370),
    (1_204, 6, 13_370, 13_130), (1_715, 6, 13_130, 13_050), (2_100, 7, 13_030, 12_820),
    (2_611, 7, 12_820, 12_530), (3_697, 7, 12_530, 12_390), (5_195, 7, 12_390, 12_360),
    (5_800, 8, 12_380, 12_190), (7_170, 8, 12_190, 11_970), (10_094, 8, 11_970, 11_840),
    (14_332, 8, 11_840, 11_800), (16_500, 9, 11_860, 11_710), (20_197, 9, 11_710, 11_530),
    (28_542, 9, 11_530, 11_440), (39_992, 9, 11_440, 11_410), (45_000, 10, 11_420, 11_255),
    (64_836, 10, 11_255, 11_165), (91_124, 10, 11_165, 11_065), (129_085, 10, 11_065, 11_040),
    (165_000, 11, 11_030, 10_995), (181_234, 11, 10_995, 10_910), (256_195, 11, 10_910, 10_875),
    (360_919, 11, 10_875, 10_840), (508_144, 12, 10_785, 10_715), (740_000, 12, 10_715, 10_690),
    (1_000_000, 12, 10_690, 10_680), (4_000_000, 13, 10_680, 10_660), (50_000_000, 15, 10_660, 10_660),
    (800_000_000, 17, 10_660, 10_660),
];

/// Returns the shape of a filter of `keys` keys; `None` if it cannot be recorded.
pub(crate) fn shape_for(keys: u64, arity: FuseArity, fingerprint_bits: u8) -> Option<FuseShape> {
    let (log2_segment, factor) = row_for(keys, arity);
    // In 128 bits, because `keys` is not limited yet.
    let cells = u128::from(keys) * u128::from(factor);
    let segments = cells.div_ceil(10_000 << log2_segment);
    // No key has its first cell in the last `arity - 1` segments.
    let segments = u32::try_from(segments).ok()?.saturating_sub(arity.get() - 1).max(1);
    FuseShape::new(arity, fingerprint_bits, log2_segment, segments).filter(|shape| shape.cells() <= MAX_PEELED_CELLS)
}

/// Returns the binary logarithm of the segment length, and the cells per key in 1/10,000.
fn row_for(keys: u64, arity: FuseArity) -> (u8, u64) {
    let rows = if arity == FuseArity::Three { THREE } else { FOUR };
    let next = rows.partition_point(|row| row.0 <= keys);
    let Some(&(from, log2_segment, first, last)) = next.checked_sub(1).and_then(|row| rows.get(row)) else {
        return (0, 0);
    };
    let Some(&(to, ..)) = rows.get(next) else { return (log2_segment, last) };
    // Rounded up. The products are below 2^64, as rows end before 2^30 keys.
    let (past, left) = (keys - from, to - keys);
    (log2_segment, (first * left + last * past).div_ceil(to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_and_every_number_of_keys_has_more_cells_than_keys() {
        for arity in [FuseArity::Three, FuseArity::Four] {
            for keys in (0..3_000).chain((3_000..2_000_000).step_by(997)).chain((20..32).map(|power| 1 << power)) {
                let shape = shape_for(keys, arity, 8).unwrap();
                assert!(shape.cells() * 100 >= keys * 106, "{keys} keys: {shape:?}");
                assert!(keys < 128 || shape.cells() <= keys * 2, "{keys} keys: {shape:?}");
            }
        }
        assert!(THREE.is_sorted_by_key(|row| row.0) && FOUR.is_sorted_by_key(|row| row.0));
    }

    #[test]
    fn numbers_beyond_what_can_be_recorded_have_no_shape() {
        assert_eq!(shape_for(u64::MAX, FuseArity::Three, 8), None);
        assert_eq!(shape_for(1 << 52, FuseArity::Four, 4), None);
        assert!(shape_for(3 << 30, FuseArity::Four, 4).is_some());
        for arity in [FuseArity::Three, FuseArity::Four] {
            let (mut most, mut refused) = (3 << 30, 1 << 32);
            while refused - most > 1 {
                let middle = most + (refused - most) / 2;
                if shape_for(middle, arity, 4).is_some() { most = middle } else { refused = middle }
            }
            let shape = shape_for(most, arity, 4).unwrap();
            assert!((shape.cells()..shape.cells() + shape.segment).contains(&(1 << 32)), "{most} keys: {shape:?}");
        }
    }
}
