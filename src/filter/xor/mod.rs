//! Xor: a fingerprint in three cells, for files that do not change.
//!
//! # What it is
//!
//! An array of cells of 8 or 16 bits, in three blocks. A key has one cell in each block, and the exclusive or of the
//! three is its fingerprint (Graf and Lemire 2020). An absent key's three cells add up to something that agrees with
//! its fingerprint by chance alone: the rate is 2^-8 or 2^-16, whatever the number of keys, and depends on nothing
//! else.
//!
//! Cells are found by peeling (`filter::peel`): with 1.23 cells per key and 32 more, keys nearly always can be taken
//! off one by one, each at a cell that no other key is left to have; in the reverse order, each key sets that cell.
//!
//! # What it costs
//!
//! | keys | bits per key at 2^-8 | at 2^-16 | attempts, on average |
//! |--:|--:|--:|--:|
//! | 100 | 16.0 | 28.2 | 1.04 |
//! | 1,000 | 10.4 | 20.5 | 1.10 |
//! | 2,500 | 10.1 | 20.0 | 1.17 |
//! | 10,000 | 9.9 | 19.8 | 1.06 |
//! | 100,000 | 9.85 | 19.69 | 1.00 |
//! | 1,000,000 | 9.84 | 19.68 | 1.00 |
//!
//! 23 % over the information bound; blocked Bloom is 50 % over it at 2^-8. Where most attempts fail, near 2,500 keys,
//! it is still one in seven; each attempt has a salt of its own, and after 16 the policy makes a Bloom filter.
//!
//! A query reads three cells anywhere in the array, all at once and without a branch: three cache misses where the
//! array is not in a cache, that overlap. Building takes all hashes at once, 11 bytes per key for the cells and 4 for
//! the order, and as cells are anywhere, so are its memory accesses: beyond the caches it takes up to three times as
//! long as binary fuse.
//!
//! # When to choose it
//!
//! For small files: from about 100 keys on it is smaller than blocked Bloom, and up to about 8,000 keys smaller than
//! binary fuse (`filter::binary_fuse`) with four cells for each key, up to about 32,000 than with three, whose segments
//! are costly then. With more keys, seldom: binary fuse does the same with 1.13 cells per key, or 1.07, and near each
//! other, so it is smaller. With three cells it is built in a third to four fifths of the time and probed as fast. Xor
//! is simpler, its size is a formula of one line, and the literature compares with it. Where its size matters, take
//! `filter::xor_plus`; where the build does, blocked Bloom.
//!
//! The bytes: docs/format/xor.md, "Xor". Reading: Graf and Lemire, *Xor Filters: Faster and Smaller Than Bloom and
//! Cuckoo Filters*, 2020.

mod kind;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use kind::XorKind;
pub(crate) use shape::{WIDTHS, XorCells, XorShape, shape_for};
