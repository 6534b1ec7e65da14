//! The curve of a filter: its false positive rate at each size that it can be shrunk to.

use sstfilter::KindId;

use super::unit::{CurveNumber, HeldFilter};
use crate::allocation::{corners, gain_per_byte};

/// Sizes are shares of the whole block in this unit, rounded up. Filters of one configuration then have the same curve
/// whatever their number of keys, and a budget holds a few curves instead of one for each filter.
const SHARE: u64 = 1024;

/// A size and its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    share: u16,
    /// The upper half of an `f32`: the rate to within half a percent.
    fpr: u16,
}

/// Returns whether `held` bytes reach the size `bytes` of a point, which is rounded up.
pub(super) fn is_held(bytes: u64, held: u64, whole_bytes: u64) -> bool {
    bytes.saturating_sub(held) <= whole_bytes / SHARE + 1
}

impl Point {
    fn new(bytes: u64, whole_bytes: u64, fpr: f64) -> Self {
        let share = (u128::from(bytes) * u128::from(SHARE)).div_ceil(u128::from(whole_bytes.max(1)));
        #[expect(clippy::cast_possible_truncation, reason = "a rate needs no more")]
        let fpr = (fpr as f32).to_bits() >> 16;
        Self { share: u16::try_from(share).unwrap_or(u16::MAX), fpr: u16::try_from(fpr).unwrap_or(0) }
    }

    fn fpr(self) -> f64 {
        f32::from_bits(u32::from(self.fpr) << 16).into()
    }

    fn bytes(self, whole_bytes: u64) -> u64 {
        let bytes = (u128::from(whole_bytes) * u128::from(self.share)).div_ceil(u128::from(SHARE));
        u64::try_from(bytes).unwrap_or(whole_bytes).min(whole_bytes)
    }
}

/// The useful sizes, smallest first, the whole block last: the lower convex hull of sizes and rates, so that each
/// further byte saves less than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    points: Box<[Point]>,
    /// Whether a size between two points has a rate between theirs.
    is_divisible: bool,
}

impl Curve {
    /// Returns the curve of a whole filter. A range filter has one size.
    pub(super) fn of(filter: &HeldFilter) -> Self {
        let (mut sizes, mut is_divisible) = (Vec::new(), false);
        if let HeldFilter::Points(block) = filter {
            let rate = |fpr: f64| if (0.0..=1.0).contains(&fpr) { fpr } else { 1.0 };
            sizes = block.shrink_steps().into_iter().map(|(bytes, fpr)| (bytes, rate(fpr))).collect();
            // A user-defined kind may return sizes in any order.
            sizes.sort_by_key(|&(bytes, _)| bytes);
            is_divisible = block.kind() == KindId::RIBBON;
        }
        Self::new(sizes.into_iter(), (filter.bytes(), filter.expected_fpr()), is_divisible)
    }

    /// `sizes` ascend.
    pub(super) fn new(sizes: impl Iterator<Item = (u64, f64)>, whole: (u64, f64), is_divisible: bool) -> Self {
        let between = sizes.filter(|&(bytes, _)| bytes > 0 && bytes < whole.0);
        let sizes: Vec<(u64, f64)> = [(0, 1.0)].into_iter().chain(between).chain([whole]).collect();
        // Skips the first, which is no filter.
        let kept = corners(sizes.iter().copied()).into_iter().skip(1).filter_map(|corner| sizes.get(corner));
        let points = kept.map(|&(bytes, fpr)| Point::new(bytes, whole.0, fpr)).collect();
        Self { points, is_divisible }
    }

    /// Returns the curve to assume before any filter of the budget is loaded. The first load replaces it.
    fn assumed() -> Self {
        // A Ribbon filter of 1 % without its trailer: each of its seven columns halves the rate.
        let columns = (1..7).map(|columns| (columns, 0.5_f64.powi(i32::try_from(columns).unwrap_or(1))));
        Self::new(columns, (7, 0.008), false)
    }

    /// Returns the number of useful sizes.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns bytes and rate at point `index`.
    pub(super) fn point(&self, index: usize, whole_bytes: u64) -> Option<(u64, f64)> {
        self.points.get(index).map(|point| (point.bytes(whole_bytes), point.fpr()))
    }

    pub(super) const fn is_divisible(&self) -> bool {
        self.is_divisible
    }

    /// Returns the rate at `bytes` bytes.
    pub(super) fn fpr(&self, bytes: u64, whole_bytes: u64) -> f64 {
        let mut below = (0, 1.0);
        for point in self.points.iter().map(|point| (point.bytes(whole_bytes), point.fpr())) {
            if !is_held(point.0, bytes, whole_bytes) {
                let between = below.1 - gain_per_byte(below, point) * bytes.saturating_sub(below.0) as f64;
                return if self.is_divisible && below.0 > 0 { between } else { below.1 };
            }
            below = point;
        }
        below.1
    }
}

/// The maximum number of curves. Filters of one policy need a few dozen, Bloom filters whose numbers of lines have
/// different divisors some hundreds. Any further filter is treated like the last known one that can shrink.
const MAX_CURVES: usize = 1024;

/// The curves of all filters that were loaded so far.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    assumed: Curve,
    /// Curve `n` is at position `n - 1`.
    known: Vec<Curve>,
    /// The last one that can shrink.
    latest: CurveNumber,
}

impl Default for Curves {
    fn default() -> Self {
        Self { assumed: Curve::assumed(), known: Vec::new(), latest: 0 }
    }
}

impl Curves {
    /// Returns the number of a filter's curve.
    pub(super) fn number(&mut self, curve: Curve) -> CurveNumber {
        let (can_shrink, count) = (curve.len() > 1, self.known.len());
        // Comparing all of them takes a few microseconds, little compared with reading a filter and computing its
        // checksum.
        let position = self.known.iter().position(|known| *known == curve).unwrap_or(count);
        if position == MAX_CURVES {
            return 0;
        }
        if position == count {
            self.known.push(curve);
        }
        let number = CurveNumber::try_from(position + 1).unwrap_or(0);
        if can_shrink {
            self.latest = number;
        }
        number
    }

    /// Returns the curve of this number. For a filter whose curve is not known, returns the last one that can shrink:
    /// if that makes the filter look too small, its first load corrects it; if the filter looked too large, it would
    /// never be loaded.
    pub(super) fn get(&self, number: CurveNumber) -> &Curve {
        let number = if number == 0 { self.latest } else { number };
        usize::from(number).checked_sub(1).and_then(|index| self.known.get(index)).unwrap_or(&self.assumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_buy_less_than_larger_ones_are_left_out() {
        // Folding this filter into a third saves nothing compared with a half, and a quarter next to nothing.
        let sizes = [(250, 0.9), (333, 0.6), (500, 0.1)];
        let curve = Curve::new(sizes.into_iter(), (1_000, 0.01), false);
        let points: Vec<_> = (0..curve.len()).map(|index| curve.point(index, 1_000).unwrap().0).collect();
        assert_eq!(points, [500, 1_000]);
        assert!((curve.fpr(490, 1_000) - 1.0).abs() < 1e-9 && (curve.fpr(990, 1_000) - 0.1).abs() < 1e-3);
    }

    #[test]
    fn a_divisible_curve_has_rates_between_its_points_but_none_below_the_first() {
        let curve = Curve::new([(250, 0.5), (500, 0.25)].into_iter(), (1_000, 0.05), true);
        assert_eq!(curve.fpr(240, 1_000), 1.0);
        assert!((curve.fpr(375, 1_000) - 0.375).abs() < 0.002);
        assert!((curve.fpr(5_000, 1_000) - 0.05).abs() < 0.001);
    }

    #[test]
    fn sizes_are_rounded_up_and_never_beyond_the_whole() {
        for whole in [1, 33, 1_000, 16_384, u64::MAX / 2] {
            for bytes in [1, whole / 3 + 1, whole / 2 + 1, whole] {
                let point = Point::new(bytes, whole, 0.01);
                assert!((bytes..=whole).contains(&point.bytes(whole)), "{bytes} of {whole}");
                assert!(is_held(point.bytes(whole), bytes, whole), "{bytes} of {whole} are its own point");
            }
        }
    }

    #[test]
    fn equal_curves_share_a_number_and_unknown_ones_are_like_the_latest_that_shrinks() {
        let mut curves = Curves::default();
        let curve = |fpr: f64| Curve::new(core::iter::empty(), (1_000, fpr), false);
        assert_eq!([curves.number(curve(0.01)), curves.number(curve(0.5)), curves.number(curve(0.01))], [1, 2, 1]);
        assert_eq!(curves.get(0), &Curve::assumed(), "none of them can shrink");
        for bytes in 1..500 {
            for fpr in [0.5, 0.25, 0.125] {
                curves.number(Curve::new([(bytes, fpr)].into_iter(), (1_024, 0.01), false));
            }
        }
        assert_eq!(curves.known.len(), MAX_CURVES);
        assert_eq!(curves.number(curve(0.001)), 0, "the table is full");
        assert!(curves.get(0).len() > 1 && curves.get(0) != &Curve::assumed());
    }

    #[test]
    fn a_filter_that_cannot_shrink_is_whole_or_absent() {
        let curve = Curve::new(core::iter::empty(), (1_000, 0.004), false);
        assert_eq!((curve.len(), curve.point(0, 77).unwrap().0), (1, 77));
    }
}
