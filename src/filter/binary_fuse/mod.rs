//! Binary fuse: fingerprints in three or four neighbouring segments.
//!
//! # What it is
//!
//! An array of cells of w bits. Each key has three cells (or four), one in each of consecutive segments of the array,
//! and a fingerprint of w bits; the exclusive or of its cells is its fingerprint. An absent key's cells equal its
//! fingerprint only by chance: the rate is 2^-w for any number of keys (Graf and Lemire 2022, after xor filters, Graf
//! and Lemire 2020, and the Bloomier filter, Chazelle, Kilian, Rubinfeld, Tal 2004).
//!
//! The filter is built by *peeling*, which succeeds when there are enough cells per key. Cells anywhere need 1.23 per
//! key. Here the cells of a key are near each other, and fewer keys reach the array's two ends. So peeling starts at
//! the ends and runs through the array like a wave, at densities at which nothing would come off in the middle: with
//! three cells down to 1.13 per key, with four to 1.07 (the threshold of spatial coupling, Walzer 2021). This holds for
//! many keys; with few, the ends and whole segments cost more:
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
//! A query reads three or four cells in as many cache lines, and does not branch on what it reads. Building needs all
//! hashes, and 14 bytes per key in addition. At the same rate, blocked Bloom takes about 12.2 bits per key for 2^-8 and
//! one cache line, and is built in one pass; Ribbon takes 8.03 bits.
//!
//! Up to 100,000 keys, binary fuse with three cells is built in 0.7 to 0.8 of the time that Ribbon takes for the same
//! rate, and probed in 0.5 of it singly and 0.6 in batches. With a million keys, these ratios are 0.95, 0.6 and 0.7;
//! with ten million, which exceed the nearer caches, 1.2, 0.8 and 1.0. `benches/results/tables.md` has the figures,
//! also for the crate `xorf`.
//!
//! Choose binary fuse for filters that are probed often, stay in memory, and have to be smaller than Bloom's. Widths of
//! 8 and 16 bits are fastest; any from 4 to 32 works. Below about 400 keys (with three cells: 1,700), Bloom is smaller;
//! below about 8,000 (32,000), xor is.
//!
//! # Sizes without spikes
//!
//! With the usual formulas for the segment length and the number of cells, some numbers of keys need dozens of
//! attempts: at 11,500 keys, where the segment length has just doubled, 97 of 100 attempts fail. This crate uses tables
//! instead (in `shape`), measured at the numbers of keys that leave no slack to the next whole segment, and
//! interpolated between. Every number takes about 1.02 attempts on average; no number tried took more than five.
//!
//! Rejected, after tests with 10,000 keys: segments that begin at each key's first cell instead of at multiples of
//! their length, so that any number of cells would work. They fail more often: with 1.20 cells per key (four of them) 5
//! % of attempts, against 1 % here. Also rejected: segments of any length, not only powers of two. They avoid the
//! rounding to whole segments, 1 % at 10,000 keys and less above, but each cell costs one more multiplication in every
//! query.
//!
//! # How it is built
//!
//! With the first salt, a key's first cell is a monotone function of its hash, and all but about one build in 40 need
//! no other salt. So hashes that are roughly in order fill and peel the array from one end to the other, in the nearest
//! caches; sorting them in full would be a third of the work. The bytes depend only on the set of keys.
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
