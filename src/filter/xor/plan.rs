//! How many cells a filter gets.

use super::shape::{XorShape, XorWidth};

/// The cells of each of the three blocks for `keys` keys: in all at least 1.23 times as many as keys, and 32
/// (Graf and Lemire 2020).
fn block_cells(keys: u64) -> u128 {
    (u128::from(keys) * 123 + 3_200).div_ceil(300)
}

/// The shape of a filter of `keys` keys; `None` beyond what can be recorded of it.
pub(crate) fn shape_for(keys: u64, width: XorWidth) -> Option<XorShape> {
    u32::try_from(block_cells(keys)).ok().and_then(|block_cells| XorShape::new(width, block_cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterShape;

    #[test]
    fn there_are_three_blocks_of_at_least_a_third_of_1_23_cells_per_key_and_32() {
        let bytes = |keys| shape_for(keys, XorWidth::Eight).unwrap().payload_bytes();
        assert_eq!([0, 1, 2, 100, 1_000_000].map(bytes), [40, 40, 40, 160, 1_230_040]);
        for keys in (0..5_000).chain((5_000..1_000_000).step_by(991)) {
            let cells = 3 * u128::from(shape_for(keys, XorWidth::Eight).unwrap().block_cells());
            let least = (u128::from(keys) * 123 + 3_200) as f64 / 100.0;
            assert!((least..least + 3.0).contains(&(cells as f64)), "{keys} keys: {cells} cells");
        }
    }

    #[test]
    fn numbers_beyond_what_can_be_recorded_have_no_shape() {
        assert!(shape_for(1 << 33, XorWidth::Sixteen).is_some());
        assert_eq!(shape_for(1 << 34, XorWidth::Eight), None);
        assert_eq!(shape_for(u64::MAX, XorWidth::Eight), None);
    }
}
