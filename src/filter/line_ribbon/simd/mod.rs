//! The kernels of line ribbon filters: one type for each instruction set. All return the same answers and write the
//! same bytes.
//!
//! `solver` builds lines and `query` probes them, over the trait [`Set`]. All is inlined into the functions of each set
//! ([`functions_of_set`]), because a function that is called instead would be compiled without the set's instructions.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::inline_always,
    clippy::needless_range_loop,
    clippy::wildcard_imports,
    reason = "as in Ribbon's kernels; intrinsics are named after their set"
)]

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
pub(super) mod equation;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
mod neon;
mod portable;
mod query;
mod solver;

use core::marker::PhantomData;

use super::layout::Layout;
use crate::codec::LINE_BYTES;
use crate::filter::{OpenShape, SingleProbe};
use crate::hash::KeyHash;
use crate::kernel::{SetProbe, dispatch, for_this_cpu};
pub(super) use equation::Equations;
use query::{LOW, compare};
pub(super) use solver::Bumped;

/// One line, as it lies in a payload: eight words, each a column.
pub(super) type Line = [u8; LINE_BYTES];

/// A filter with its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    layout: &'a Layout,
    /// The lines and limits of all layers.
    data: *const u8,
    payload: PhantomData<&'a [u8]>,
}

impl<'a> View<'a> {
    /// Returns the filter whose payload begins `data`; `None` if `data` is too short.
    #[inline(always)]
    pub(super) fn new(layout: &'a Layout, data: &'a [u8]) -> Option<Self> {
        // Longer is allowed: `data` may be a whole block, with its trailer.
        let is_whole = data.len() as u64 >= layout.payload_bytes;
        is_whole.then_some(Self { layout, data: data.as_ptr(), payload: PhantomData })
    }

    /// Returns line `index` of all layers.
    ///
    /// # Safety
    ///
    /// It must be a line of a layer.
    #[inline(always)]
    unsafe fn line(self, index: u64) -> &'a Line {
        // SAFETY: the payload has the lines of all layers.
        unsafe { &*self.data.cast::<Line>().add(index as usize) }
    }

    /// Returns the limit of line `index`.
    ///
    /// # Safety
    ///
    /// It must be a line of a bumping layer.
    #[inline(always)]
    unsafe fn limit(self, index: u64) -> u8 {
        // SAFETY: the payload has the limits of all bumping layers.
        unsafe { *self.data.add((self.layout.limits_at + index) as usize) }
    }
}

/// Returns the probe of single keys.
pub(in crate::filter) fn single_probe() -> SingleProbe {
    let probe = dispatch!(set_probe());
    // SAFETY: the selected set is one that the CPU supports.
    unsafe { for_this_cpu(probe) }
}

/// Returns whether the key of `hash` may have been added.
#[inline]
pub(super) fn may_contain(view: View<'_>, hash: KeyHash) -> bool {
    dispatch!(may_contain(view, hash))
}

/// Sets bit `i % 64` of word `i / 64` of `matches` to the answer for hash `i`.
pub(super) fn may_contain_batch(view: View<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
    dispatch!(may_contain_batch(view, hashes, matches));
}

/// The lines of a layer, and their limits in a bumping layer.
pub(super) type Lines<'a> = (&'a mut [Line], &'a mut [u8]);

/// Solves the lines of a layer for its keys, ascending by the hashes that choose lines. Writes the limits of a bumping
/// layer, and bumps the keys above them. Returns `false` if keys cannot be bumped: in the final layer, if
/// there are too many, and if even the equations of tag 0 contradict each other.
pub(super) fn solve(keys: &[KeyHash], equations: Equations, lines: Lines<'_>, bumped: &mut Bumped) -> bool {
    dispatch!(solve(keys, equations, lines, bumped))
}

/// The operations of an instruction set. They are inlined into functions that have the instructions.
trait Set {
    type Solver: solver::Solver;

    /// Returns the parities of the columns, masked by the coefficients: bit `j` is that of column `j`.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    unsafe fn parities(line: &Line, coefficients: u64) -> u8;

    /// The same, for a single probe.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn parities_alone(line: &Line, coefficients: u64) -> u8 {
        // SAFETY: the caller promises it.
        unsafe { Self::parities(line, coefficients) }
    }

    /// Returns a bit for each of 64 pairs of bytes: whether they differ.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn differing(ones: &[u8; 64], others: &[u8; 64]) -> u64 {
        compare(ones, others, |one, other| ((one ^ other) & LOW) + LOW | one ^ other)
    }

    /// Returns a bit for each of 64 pairs of bytes: whether the first is above the second.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn above(ones: &[u8; 64], others: &[u8; 64]) -> u64 {
        compare(ones, others, |one, other| !(other & !one | !(other ^ one) & ((other | !LOW) - (one & LOW))))
    }

    /// Returns for each word which of the lowest 8 bits of `mask` it has.
    ///
    /// # Safety
    ///
    /// The CPU must have the set.
    #[inline(always)]
    unsafe fn extract(words: &[u64; 64], mask: u64) -> [u8; 64] {
        let (mut extracted, mut left) = ([0; 64], mask);
        for rank in 0..8 {
            let (shift, any) = (left.trailing_zeros() & 63, u64::from(left != 0));
            left &= left.wrapping_sub(1);
            for (bits, word) in extracted.iter_mut().zip(words) {
                *bits |= ((word >> shift & any) as u8) << rank;
            }
        }
        extracted
    }
}

/// Defines a set's functions. The last argument is the attribute that all of them carry.
macro_rules! functions_of_set {
    ($set:ty $(, #[$features:meta])?) => {
        use super::{Bumped, Equations, Lines, OpenShape, SetProbe, View, query, solver};
        use crate::filter::AnyShape;
        use crate::filter::cache::PROBE_PREFETCH_BYTES;
        use crate::hash::KeyHash;

        $(#[$features])?
        pub(super) fn set_probe() -> SetProbe<OpenShape> {
            probe
        }

        $(#[$features])?
        fn probe(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
            // A block that has become too short answers "may be present".
            if data.len() < open.payload_bytes {
                return true;
            }
            let (lines, limits_at) = (open.lines.count(), open.lines.end());
            // SAFETY: this function has the instructions. `OpenShape::new` gives this probe only to line ribbons, with
            // lines from the layout that `payload_bytes` is the length of.
            unsafe { query::may_contain::<$set>(data.as_ptr(), lines, limits_at, hash, || bumped(data, hash, open)) }
        }

        // Out of line, so that the other keys need no stack frame.
        #[cold]
        #[inline(never)]
        $(#[$features])?
        fn bumped(data: &[u8], hash: KeyHash, open: &OpenShape) -> bool {
            let AnyShape::LineRibbon(shape) = &open.any else { return true };
            // SAFETY: as above.
            View::new(&shape.layout, data).is_none_or(|view| unsafe { query::may_contain_bumped::<$set>(view, hash) })
        }

        $(#[$features])?
        pub(super) fn may_contain(view: View<'_>, hash: KeyHash) -> bool {
            let (lines, limits_at) = (view.layout.layers[0].lines, view.layout.limits_at as usize);
            // SAFETY: as above.
            let bumped = || unsafe { query::may_contain_bumped::<$set>(view, hash) };
            // SAFETY: as above.
            unsafe { query::may_contain::<$set>(view.data, lines, limits_at, hash, bumped) }
        }

        $(#[$features])?
        pub(super) fn may_contain_batch(view: View<'_>, hashes: &[KeyHash], matches: &mut [u64]) {
            // SAFETY: as above.
            unsafe {
                if view.layout.payload_bytes > PROBE_PREFETCH_BYTES as u64 {
                    query::may_contain_batch::<$set, true>(view, hashes, matches);
                } else {
                    query::may_contain_batch::<$set, false>(view, hashes, matches);
                }
            }
        }

        $(#[$features])?
        pub(super) fn solve(keys: &[KeyHash], equations: Equations, lines: Lines<'_>, bumped: &mut Bumped) -> bool {
            // SAFETY: as above.
            unsafe { solver::solve::<$set>(keys, equations, lines, bumped) }
        }
    };
}
use functions_of_set;
