//! Xor+: an xor filter without the empty cells of its third block.
//!
//! # What it is
//!
//! An xor filter (`filter::xor`) has 23 cells for every hundred keys that no key was given, and they are 0. When keys
//! are peeled so that they take a cell of the third block only where they have to, 15 of these 23 are there: 36 % of
//! that block. Xor+ leaves those out. In front of the cells stand lines of 64 bytes: 448 bits that say which cells are
//! kept, and counts of them, so that one line says where a cell is, with two words to count ones in.
//!
//! Cells that took a key and are 0 are left out as well: one in 256 at 8 bits.
//!
//! # What it costs
//!
//! | keys | bits per key at 2^-8 | at 2^-16 | as published |
//! |--:|--:|--:|---|
//! | 100,000 | 9.13 | 17.79 | 9.17, 17.83 |
//! | 1,000,000 | 9.12 | 17.78 | 9.17, 17.83 |
//!
//! That is 1.0816 cells per key and 0.4686 bits (8/7 of a bit for each of the 0.41 cells per key of the third block),
//! where Graf and Lemire have 1.0824 and 0.5125. The size depends on the keys: the estimate is within 2 % from 1,000
//! keys on, and within 0.3 % from 100,000 on. Below about 300 keys (at 16 bits, 80) xor is smaller, because a line is
//! never shorter than 64 bytes.
//!
//! A query reads a line and two cells at once, and then the third cell: two misses one after the other. It takes about
//! two to five times as long as xor's. Building takes the whole array beside what xor
//! takes, and longer, because the cells of the third block wait for the others.
//!
//! # When to choose it
//!
//! For files of some thousand keys: from about 300 to 60,000 keys it is smaller than xor and binary fuse. With more
//! keys, hardly ever: binary fuse with four cells for each key is smaller (8.6 bits per key at 2^-8 and a million
//! keys), faster to probe and to build; Ribbon is smaller still (8.03) for slower queries.
//!
//! The bytes: docs/format/xor.md, "Xor plus". Reading: Graf and Lemire, *Xor Filters: Faster and Smaller Than Bloom and
//! Cuckoo Filters*, 2020, section on Xor+; Jacobson, *Space-efficient Static Trees and Graphs*, 1989, for counting
//! ones.

mod kind;
mod rank;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use kind::XorPlusKind;
pub(crate) use shape::XorPlusShape;
