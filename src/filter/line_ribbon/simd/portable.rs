//! Plain Rust.

use super::query::gather_lowest;
use super::solver::Tables;
use super::{Line, Set, functions_of_set};

pub(super) struct Portable;

functions_of_set!(Portable);

impl Set for Portable {
    type Solver = Tables<Self>;

    /// Each step folds two words into one, until every word is one byte; three more fold all bytes at once. Words are
    /// paired so that the bytes end in the order of columns.
    #[inline(always)]
    unsafe fn parities(line: &Line, coefficients: u64) -> u8 {
        let words = line.as_chunks().0;
        let word = |column: usize| u64::from_le_bytes(words[column]) & coefficients;
        let fold =
            |one: u64, other: u64, bits: u32, low: u64| (one ^ one >> bits) & low | (other ^ other << bits) & !low;
        let two = |column| fold(word(column), word(column + 4), 32, 0x0000_0000_ffff_ffff);
        let four = |column| fold(two(column), two(column + 2), 16, 0x0000_ffff_0000_ffff);
        let mut bytes = fold(four(0), four(1), 8, 0x00ff_00ff_00ff_00ff);
        bytes ^= bytes >> 4;
        bytes ^= bytes >> 2;
        gather_lowest(bytes ^ bytes >> 1)
    }
}
