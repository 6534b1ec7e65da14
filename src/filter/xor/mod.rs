//! Xor: a fingerprint in three cells, for files that do not change.
//!
//! # What it is
//!
//! An array of cells of 8 or 16 bits, in three blocks. A key has one cell in each block, and the exclusive or of the
//! three is its fingerprint (Graf and Lemire 2020). The sum of an absent key's cells equals its fingerprint only by
//! chance: the rate is 2^-8 or 2^-16 for any number of keys.
//!
//! Cells are found by peeling (`filter::peel`). With 1.23 cells per key and 32 more, keys can nearly always be taken
//! off one by one, each at a cell that no remaining key has. In the reverse order, each key sets that cell.
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
//! This is 23 % over the information bound; blocked Bloom is 50 % over it at 2^-8. Near 2,500 keys most attempts fail,
//! but still only one in seven. Each attempt has its own salt, and after 16 the policy builds a Bloom filter.
//!
//! A query reads three cells anywhere in the array, without a branch: three overlapping cache misses if the array is
//! not cached. Building takes all hashes at once, 11 bytes per key for the cells and 4 for the order. Its memory
//! accesses are as scattered as the cells, so that beyond the caches it takes up to three times as long as binary fuse.
//!
//! # When to choose it
//!
//! Choose xor for small files. From about 100 keys on it is smaller than blocked Bloom. Up to about 8,000 keys it is
//! smaller than binary fuse (`filter::binary_fuse`) with four cells for each key, and up to about 32,000 than with
//! three, because segments are costly for few keys. With more keys binary fuse is smaller: it needs 1.13 cells per key,
//! or 1.07. With three cells, it is built in a third to four fifths of the time and probed as fast. Xor is simpler, its
//! size is a formula of one line, and the literature compares with it. If xor's size matters, choose
//! `filter::xor_plus`; if the build time matters, blocked Bloom.
//!
//! The bytes: docs/format/xor.md, "Xor". Reading: Graf and Lemire, *Xor Filters: Faster and Smaller Than Bloom and
//! Cuckoo Filters*, 2020.

mod kind;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use kind::XorKind;
pub(crate) use shape::{WIDTHS, XorCells, XorShape, shape_for};
