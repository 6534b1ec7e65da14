//! Xor+: an xor filter without the empty cells of its third block.
//!
//! # What it is
//!
//! In an xor filter (`filter::xor`), 23 cells for every hundred keys belong to no key, and are 0. If a key takes a cell
//! of the third block only when it has to, 15 of these 23 lie there: 36 % of that block. Xor+ leaves them out. Lines of
//! 64 bytes before the cells record which are kept: 448 bits, and counts of them, so that one line and counting ones in
//! two of its words locate a cell.
//!
//! Cells that took a key but are 0 are left out as well: one in 256 at 8 bits.
//!
//! # What it costs
//!
//! | keys | bits per key at 2^-8 | at 2^-16 | as published |
//! |--:|--:|--:|---|
//! | 100,000 | 9.13 | 17.79 | 9.17, 17.83 |
//! | 1,000,000 | 9.12 | 17.78 | 9.17, 17.83 |
//!
//! This is 1.0816 cells per key and 0.4686 bits (8/7 of a bit for each of the 0.41 cells per key of the third block);
//! Graf and Lemire have 1.0824 and 0.5125. The size depends on the keys: the estimate is within 2 % from 1,000 keys on,
//! and within 0.3 % from 100,000 on. Below about 300 keys (at 16 bits, 80) xor is smaller, because a line always has 64
//! bytes.
//!
//! A query reads a line and two cells at once, and then the third cell: two dependent misses. It takes about two to
//! five times as long as xor's. Building takes the whole array in addition to xor's memory, and takes longer, because
//! the cells of the third block wait for the others.
//!
//! # When to choose it
//!
//! Choose xor+ for files of some thousand keys: from about 300 to 60,000 keys it is smaller than xor and binary fuse.
//! With more keys, binary fuse with four cells for each key is smaller (8.6 bits per key at 2^-8 and a million keys),
//! and faster to probe and to build; Ribbon is smaller still (8.03) with slower queries.
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
