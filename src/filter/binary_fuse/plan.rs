//! How many cells a filter gets, and in segments of which length.
//!
//! The tables are our own, measured on built filters at the number of keys that leaves no slack to the next whole
//! segment: where they say so, about one attempt in 25 fails, whatever the number of keys. The usual formulas
//! (Graf and Lemire 2022) are as good on average, but where their segment length has just doubled nearly
//! all attempts fail: 97 % at 11,500 keys.

use super::shape::{FuseArity, FuseShape};

/// From a number of keys on: the binary logarithm of the segment length, and the cells per key in 1/10,000 at
/// this number of keys and at the next row's, between which it changes evenly.
type Row = (u64, u8, u64, u64);

/// With few keys there are more cells than the tables say: at least one segment to start in.
const THREE: &[Row] = &[
    (0, 3, 10_000, 10_000),
    (9, 4, 10_000, 10_000),
    (21, 5, 10_000, 10_000),
    (53, 5, 18_200, 17_600),
    (92, 6, 15_000, 15_400),
    (381, 7, 14_500, 14_200),
    (700, 7, 14_200, 13_900),
    (1_250, 8, 13_900, 13_500),
    (2_300, 8, 13_500, 13_100),
    (3_350, 8, 13_100, 12_880),
    (4_816, 8, 12_880, 12_900),
    (6_400, 9, 12_850, 12_500),
    (9_871, 9, 12_500, 12_300),
    (14_232, 9, 12_300, 12_400),
    (18_000, 10, 12_420, 12_320),
    (20_005, 10, 12_320, 12_080),
    (28_081, 10, 12_080, 11_935),
    (39_629, 10, 11_935, 11_890),
    (60_000, 11, 11_910, 11_750),
    (85_694, 11, 11_750, 11_650),
    (121_749, 11, 11_650, 11_580),
    (185_000, 12, 11_610, 11_530),
    (256_565, 12, 11_530, 11_425),
    (363_206, 12, 11_425, 11_390),
    (505_671, 12, 11_390, 11_370),
    (700_000, 13, 11_345, 11_285),
    (1_000_000, 13, 11_285, 11_265),
    (2_000_000, 13, 11_265, 11_250),
    (4_000_000, 14, 11_220, 11_200),
    (12_000_000, 15, 11_200, 11_200),
    (50_000_000, 16, 11_200, 11_200),
    (200_000_000, 17, 11_200, 11_200),
    (800_000_000, 18, 11_200, 11_200),
];

const FOUR: &[Row] = &[
    (0, 3, 10_000, 10_000),
    (16, 4, 16_000, 16_200),
    (65, 5, 15_300, 15_300),
    (168, 5, 15_300, 15_100),
    (213, 5, 15_100, 14_650),
    (308, 5, 14_650, 14_300),
    (450, 5, 14_300, 14_080),
    (640, 6, 14_050, 13_720),
    (845, 6, 13_720, 13_370),
    (1_204, 6, 13_370, 13_130),
    (1_715, 6, 13_130, 13_050),
    (2_100, 7, 13_030, 12_820),
    (2_611, 7, 12_820, 12_530),
    (3_697, 7, 12_530, 12_390),
    (5_195, 7, 12_390, 12_360),
    (5_800, 8, 12_380, 12_190),
    (7_170, 8, 12_190, 11_970),
    (10_094, 8, 11_970, 11_840),
    (14_332, 8, 11_840, 11_800),
    (16_500, 9, 11_860, 11_710),
    (20_197, 9, 11_710, 11_530),
    (28_542, 9, 11_530, 11_440),
    (39_992, 9, 11_440, 11_410),
    (45_000, 10, 11_420, 11_255),
    (64_836, 10, 11_255, 11_165),
    (91_124, 10, 11_165, 11_065),
    (129_085, 10, 11_065, 11_040),
    (165_000, 11, 11_030, 10_995),
    (181_234, 11, 10_995, 10_910),
    (256_195, 11, 10_910, 10_875),
    (360_919, 11, 10_875, 10_840),
    (508_144, 12, 10_785, 10_715),
    (740_000, 12, 10_715, 10_690),
    (1_000_000, 12, 10_690, 10_680),
    (4_000_000, 13, 10_680, 10_660),
    (50_000_000, 15, 10_660, 10_660),
    (800_000_000, 17, 10_660, 10_660),
];

/// The shape of a filter of `keys` keys; `None` beyond what can be recorded of it.
pub(crate) fn shape_for(keys: u64, arity: FuseArity, fingerprint_bits: u8) -> Option<FuseShape> {
    let (log2_segment, factor) = row_for(keys, arity);
    let cells = u128::from(keys) * u128::from(factor);
    let segments = cells.div_ceil(10_000 << log2_segment);
    let segments = u32::try_from(segments).ok()?.saturating_sub(arity.get() - 1).max(1);
    FuseShape::new(arity, fingerprint_bits, log2_segment, segments)
}

/// The binary logarithm of the segment length, and 1/10,000 cells per key.
fn row_for(keys: u64, arity: FuseArity) -> (u8, u64) {
    let rows = match arity {
        FuseArity::Three => THREE,
        FuseArity::Four => FOUR,
    };
    let next = rows.partition_point(|row| row.0 <= keys);
    let Some(&(from, log2_segment, first, last)) = next.checked_sub(1).and_then(|row| rows.get(row)) else {
        return (0, 0);
    };
    let Some(&(to, ..)) = rows.get(next) else { return (log2_segment, last) };
    // Rounded up; below 2^64, as rows end before 2^30 keys.
    let (past, left) = (keys - from, to - keys);
    (log2_segment, (first * left + last * past).div_ceil(to - from))
}

/// For tests: the least numbers of keys of each row, and the largest number that has as many cells.
#[cfg(test)]
pub(super) fn numbers_without_slack(arity: FuseArity, below: u64) -> Vec<u64> {
    let rows = if arity == FuseArity::Three { THREE } else { FOUR };
    let cells = |keys| shape_for(keys, arity, 8).unwrap().cells();
    let edges = rows.iter().map(|row| row.0).filter(|&keys| keys < below);
    let last_of = |first| {
        let (mut low, mut high) = (first, 2 * first + 100);
        while low < high {
            let middle = u64::midpoint(low, high + 1);
            if cells(middle) <= cells(first) { low = middle } else { high = middle - 1 }
        }
        low
    };
    edges.flat_map(|edge| [edge, last_of(edge), last_of(last_of(edge) + 1)]).filter(|&keys| keys < below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_and_every_number_of_keys_has_more_cells_than_keys() {
        for arity in [FuseArity::Three, FuseArity::Four] {
            for keys in (0..3_000).chain((3_000..2_000_000).step_by(997)).chain((20..37).map(|power| 1 << power)) {
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
        assert!(shape_for(1 << 34, FuseArity::Four, 4).is_some());
    }
}
