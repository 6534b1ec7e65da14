//! Shares bytes among items, each of which costs less the more bytes it has.
//!
//! The sum of the costs is smallest if the last byte of every item saves the same. Costs fall along the lower convex
//! hull of an item's sizes, so a greedy choice is right: the step that saves most per byte comes first. It is optimal
//! except for steps that do not fit; the caller decides about those.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// A size in bytes, and the cost of an item at it.
pub(crate) type Size = (u64, f64);

/// Returns how much the cost falls per byte from one size to a larger one.
pub(crate) fn gain_per_byte((from, high): Size, (to, low): Size) -> f64 {
    (high - low) / to.saturating_sub(from).max(1) as f64
}

/// Returns the positions of the corners of the lower convex hull of an item's sizes, which ascend: between two corners
/// a byte saves less than between the two before.
pub(crate) fn corners(sizes: impl IntoIterator<Item = Size>) -> Vec<usize> {
    let mut corners: Vec<(usize, Size)> = Vec::new();
    for (position, size) in sizes.into_iter().enumerate() {
        while let [.., (_, before), (_, last)] = corners[..]
            && gain_per_byte(last, size) >= gain_per_byte(before, last)
        {
            corners.pop();
        }
        corners.push((position, size));
    }
    corners.into_iter().map(|(position, _)| position).collect()
}

/// The next step of an item to a larger size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The saving per byte of the step; above 0.
    pub(crate) gain: f64,
    pub(crate) item: usize,
    /// The position of the size that the step leads to.
    pub(crate) to: usize,
}

/// Offers steps to `take`, the one with the highest gain first, until none is left. `firsts` has at most one step per
/// item; `take` returns the next step of the same item, after the offered one or instead of it. Of two steps with equal
/// gain, the one of the lower item comes first, so that plans are deterministic.
pub(crate) fn allocate_greedily(firsts: impl IntoIterator<Item = Step>, mut take: impl FnMut(Step) -> Option<Step>) {
    // Positive floats sort like their bit patterns.
    let ranked = |Step { gain, item, to }: Step| {
        debug_assert!(gain > 0.0, "{gain}");
        (gain.to_bits(), Reverse(item), to)
    };
    let mut steps: BinaryHeap<_> = firsts.into_iter().map(ranked).collect();
    while let Some((gain, Reverse(item), to)) = steps.pop() {
        steps.extend(take(Step { gain: f64::from_bits(gain), item, to }).map(ranked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_leave_out_sizes_above_the_line_between_their_neighbours() {
        assert_eq!(corners([(0, 1.0), (250, 0.9), (333, 0.6), (500, 0.1), (1_000, 0.01)]), [0, 3, 4]);
        assert_eq!(corners([(0, 4.0), (10, 3.0), (20, 2.0), (30, 1.5)]), [0, 2, 3], "one on the line is no corner");
        assert_eq!(corners([(0, 1.0)]), [0]);
        assert_eq!(corners([]), [0; 0]);
    }

    #[test]
    fn sizes_of_equal_bytes_are_a_byte_apart() {
        assert_eq!(corners([(0, 1.0), (5, 0.6), (5, 0.5)]), [0, 2]);
        assert!((gain_per_byte((5, 0.75), (5, 0.5)) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn steps_come_by_their_gain_and_those_of_equal_gain_by_their_item() {
        let gains = [[5.0, 2.0], [5.0, 4.0], [3.0, 2.0]];
        let step = |item: usize, to: usize| Some(Step { gain: *gains[item].get(to)?, item, to });
        let mut order = Vec::new();
        allocate_greedily((0..3).rev().filter_map(|item| step(item, 0)), |taken| {
            order.push((taken.item, taken.to));
            step(taken.item, taken.to + 1)
        });
        assert_eq!(order, [(0, 0), (1, 0), (1, 1), (2, 0), (0, 1), (2, 1)]);
    }

    #[test]
    fn a_walk_along_the_hulls_finds_the_best_division_where_every_step_fits() {
        let curves: [&[Size]; 3] = [
            &[(0, 90.0), (1, 40.0), (2, 20.0), (3, 12.0)],
            &[(0, 30.0), (1, 15.0), (2, 9.0), (3, 6.0)],
            &[(0, 7.0), (1, 3.5), (2, 3.0), (3, 2.9)],
        ];
        let cost = |sizes: [usize; 3]| (0..3).map(|item| curves[item][sizes[item]].1).sum::<f64>();
        let all = (0..64).map(|number| [number / 16, number / 4 % 4, number % 4]);
        for limit in 0..=9 {
            let (mut sizes, mut left) = ([0; 3], limit);
            let step = |item: usize, to: usize| {
                let (from, to_size) = (curves[item][to - 1], *curves[item].get(to)?);
                Some(Step { gain: gain_per_byte(from, to_size), item, to })
            };
            allocate_greedily((0..3).filter_map(|item| step(item, 1)), |Step { item, to, .. }| {
                left = usize::checked_sub(left, 1)?;
                sizes[item] = to;
                step(item, to + 1)
            });
            let fitting = all.clone().filter(|sizes| sizes.iter().sum::<usize>() <= limit);
            let least = fitting.map(cost).fold(f64::INFINITY, f64::min);
            assert!((cost(sizes) - least).abs() < 1e-9, "{limit}: {sizes:?}");
        }
    }
}
