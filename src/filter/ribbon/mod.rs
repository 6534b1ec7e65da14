//! Ribbon: the smallest filter, for files that are large and live long.
//!
//! # What it is
//!
//! A Ribbon filter is a table of bits, r columns wide, with a few percent more slots than there are keys. Each key has
//! an equation, all from its hash: a start, 64 coefficients, and r result bits. The sum (exclusive or) of the slots
//! from the start on whose coefficients are 1 must equal the result. The builder solves all equations for the table; a
//! query adds up its slots and compares. An absent key's equation holds only by chance: the rate is 2^-r, and the cost
//! a little more than r bits per key, where Bloom pays 1.44 r or more (Dillinger and Walzer 2021).
//!
//! Because each equation touches only 64 neighbouring slots, Gaussian elimination works on a *ribbon* along the
//! diagonal, one machine word wide. But with slots as scarce as keys some equations contradict each other. Therefore,
//! as in *bumped* Ribbon (`BuRR`; Dillinger, Huebschle-Schneider, Sanders, Walzer 2022), the table is cut into buckets
//! of 128 slots. If a bucket cannot hold all of its keys, those that start in its left part, below one of three
//! thresholds, are bumped to a smaller table of the same kind; two bits per bucket record the threshold. The last
//! table, of at most about 5,000 keys, must take all of its keys, and tries several salts.
//!
//! # What it costs
//!
//! | keys | bits per key at 2^-7, whole block | over the information bound |
//! |--:|--:|--:|
//! | 1,000 | 7.49 | 7.0 % |
//! | 10,000 | 7.09 | 1.3 % |
//! | 100,000 | 7.03 | 0.5 % |
//! | 1,000,000 | 7.03 | 0.4 % |
//!
//! Any rate from 1/2 to 2^-32 is possible, not only powers of two: the first blocks of each table have one column less
//! than the others. At 1 % this costs 1.3 % more than the bound.
//!
//! A query reads two neighbouring blocks of 8 r bytes (two or three cache lines), four percent of queries a second
//! pair; it computes all r parities without an early exit. Building takes 7 to 20 times as long as Bloom and needs all
//! hashes at once. Choose Ribbon where memory matters more than the build: compaction output, lower levels, rates below
//! 0.1 %.
//!
//! It can be made smaller without its keys, in steps of one word a block: each column is a filter of its own, and the
//! last ones are dropped ([`FilterBlock::shrink_to`](crate::FilterBlock::shrink_to)). One column less doubles the rate,
//! and the result takes no more bytes than a filter that was built with that rate.
//!
//! # How it is built
//!
//! Starts ascend with hashes, so `build` needs only sorted hashes. A layer is built in sections of 2^18 slots. The last
//! bucket of a section is bumped whole, which makes sections independent: only one has its rows in memory, or one per
//! thread. In a `section`, `band` decides bucket by bucket which keys to keep, and `solve` turns their equations into
//! columns. The bytes depend only on the set of keys.
//!
//! Banding takes most of the time. Of the 133 or so keys of a bucket, the first at each slot becomes a pivot at once.
//! The others, about 80, are eliminated together by a *sweep* over the bucket's slots (`simd::sweep`), four or eight
//! slots at a time.
//!
//! The bytes: FORMAT.md, "Ribbon". Reading: Dillinger and Walzer, *Ribbon filter: practically smaller than
//! Bloom and Xor*, 2021; Dillinger, Huebschle-Schneider, Sanders, Walzer, *Fast Succinct Retrieval and
//! Approximate Membership using Ribbon*, 2022.

mod band;
mod build;
mod columns;
mod equation;
pub(crate) mod kind;
#[cfg(test)]
mod kind_tests;
mod layer;
mod section;
pub(crate) mod shape;
mod simd;
#[cfg(test)]
mod tests;

pub(crate) use kind::RibbonKind;
pub(crate) use shape::RibbonShape;
pub(crate) use simd::query::single_probe;
