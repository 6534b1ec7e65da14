//! Binary fuse: fingerprints in three or four neighbouring segments.
//!
//! # What it is
//!
//! An array of cells of w bits. Each key has three cells (or four), one in each of consecutive segments of the
//! array, and a fingerprint of w bits; the exclusive or of its cells is its fingerprint. An absent key's cells
//! give its fingerprint by chance alone: the rate is 2^-w, whatever the number of keys (Graf and Lemire 2022, after
//! xor filters, Graf and Lemire 2020, and the Bloomier filter, Chazelle, Kilian, Rubinfeld, Tal 2004).
//!
//! The filter is built by *peeling*, which succeeds when there are enough cells per key. Cells
//! anywhere need 1.23 per key. Here, where the cells of a key are near each other, peeling runs from the array's two
//! ends, which fewer keys reach, through all of it like a wave, at densities at which nothing would come off in
//! the middle: with three cells down to 1.13 per key, with four to 1.07 (the threshold of spatial coupling,
//! Walzer 2021). That holds for many keys; few pay for the ends and for whole segments:
//!
//! | keys | three cells, w = 8: bits per key, whole block | four cells | information bound |
//! |--:|--:|--:|--:|
//! | 1,000 | 11.65 | 11.65 | 8 |
//! | 10,000 | 10.28 | 9.66 | 8 |
//! | 100,000 | 9.51 | 8.93 | 8 |
//! | 1,000,000 | 9.04 | 8.55 | 8 |
//!
//! # What it costs
//!
//! A query reads three or four cells, in as many cache lines, and has no branch on what it reads. Building
//! needs all hashes, and 14 bytes per key beside them. At the same rate, blocked Bloom takes about 12.2 bits per key
//! for 2^-8 and one cache line, and is built in one pass; Ribbon takes 8.03 bits.
//!
//! Up to 100,000 keys, binary fuse with three cells is built in two thirds of the time that Ribbon takes for the same
//! rate, and probed in 0.4 of it singly and 0.55 in batches. With a million keys, these shares are 0.9, 0.4 and 0.9;
//! with ten million, where neither is in the nearer caches, 1.0, 0.6 and 1.2. `benches/results/tables.md` has the
//! figures, also of the crate `xorf`.
//!
//! Choose binary fuse for filters that are probed often, stay in memory, and have to be smaller than Bloom's; widths of
//! 8 and 16 bits are fastest, and any from 4 to 32 serves. Below about 400 keys (with three cells: 1,700), Bloom is
//! smaller; below about 8,000 (32,000), xor is.
//!
//! # Sizes without spikes
//!
//! With the usual formulas for the segment length and the number of cells, some numbers of keys need dozens of
//! attempts: 97 of 100 fail at 11,500 keys, where the segment length has just doubled. Ours are tables (in `shape`),
//! measured at the numbers of keys that leave no slack to the next whole segment, and interpolated between.
//! Every number takes about 1.02 attempts on average; none that was tried took more than five.
//!
//! Also tried, on filters of 10,000 keys: segments that begin at each key's first cell, instead of at multiples of
//! their length, so that any number of cells would do. It fails more often: with 1.20 cells per key (four of them)
//! 5 % of attempts, against 1 % here. Segments of any length, not only powers of two: they avoid the rounding to whole
//! segments, 1 % at 10,000 keys and less above, but each cell costs a multiplication more in every query.
//!
//! # How it is built
//!
//! A key's first cell is a monotone function of its hash, under the first salt, and all but about one build in 40 need
//! no other. So hashes that are roughly in order fill and peel the array from one end to the other, in the nearest
//! caches; sorting them in full would be a third of the work. The bytes depend on the set of keys alone.
//!
//! The bytes: FORMAT.md, "Binary fuse". Reading: Graf and Lemire, *Binary Fuse Filters: Fast and Smaller Than Xor
//! Filters*, 2022; Walzer, *Peeling Close to the Orientability Threshold*, 2021.

pub(crate) mod kind;
mod parts;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

pub(crate) use kind::BinaryFuseKind;
pub(crate) use shape::FuseShape;
