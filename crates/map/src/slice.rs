//! Slices of maps: what several processes write that share a build or a merge.

use core::fmt;
use core::ops::Range;

use sstfilter::ConfigError;

/// The bytes `SL`, at the end of a slice.
pub(crate) const SLICE_MAGIC: u16 = 0x4c53;

/// One of several parts of a map, cut between pages. Several processes each write one, and
/// [`MapJoin`](crate::MapJoin) makes the map of them.
///
/// Slice `i` of `n` has the pages from `ceil(pages * i / n)` to `ceil(pages * (i + 1) / n)`. If a map has fewer pages
/// than slices, some slices have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    number: u32,
    slices: u32,
}

impl Slice {
    /// Returns slice `number`, counted from 0, of `slices`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] if `number` is not below `slices`.
    pub fn new(number: u32, slices: u32) -> Result<Self, ConfigError> {
        if number < slices {
            return Ok(Self { number, slices });
        }
        let (option, expected) = ("number of a slice", "less than the number of slices");
        Err(ConfigError::OutOfRange { option, expected, got: number.into() })
    }

    /// Returns the number, counted from 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of slices of the map.
    #[must_use]
    pub const fn slices(self) -> u32 {
        self.slices
    }

    /// Returns the slice after this one; `None` after the last one.
    pub(crate) fn next(self) -> Option<Self> {
        Self::new(self.number + 1, self.slices).ok()
    }

    /// Returns the slice's pages, of a map with this many.
    pub(crate) fn pages(self, pages: u64) -> Range<u64> {
        let border = |number: u64| (u128::from(pages) * u128::from(number)).div_ceil(u128::from(self.slices)) as u64;
        border(self.number.into())..border(u64::from(self.number) + 1)
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.slices)
    }
}
