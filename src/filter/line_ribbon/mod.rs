//! Line ribbon: a Ribbon filter whose keys have one cache line each, for filters that stay in memory.
//!
//! # When to choose it
//!
//! For stores whose filters and blocks stay in memory: it takes a quarter less memory than blocked Bloom at an equal
//! rate and, with AVX-512, is probed nearly as fast. If false positives read from a disk, take Ribbon.
//!
//! # What it is
//!
//! A line of 64 bytes is a table of 64 slots and 8 columns. A key has one equation in its line, all from its hash: 64
//! coefficients and 8 result bits. In each column, the sum (exclusive or) of the slots whose coefficients are 1 must
//! equal the result's bit. An absent key's equation holds only by chance: the rate is 2^-8, the only one.
//!
//! As in Ribbon ([`filter::ribbon`](super::ribbon)), equations are *bumped* to a smaller layer of the same kind if they
//! contradict others. A key's tag, eight bits of its place between two lines, decides which: a line keeps the keys up
//! to its *limit*, a byte, and so one byte per line tells a query whether to look further. The last layer takes all of
//! its keys, and tries several salts. The lines are not neighbours as Ribbon's buckets are, so each loses some of its
//! slots, and the filter is 6 to 16 % larger than Ribbon. For that a probe reads one line instead of two or three, and
//! all 64 slots of a key count, so there is no start to shift by.
//!
//! # What it costs
//!
//! The *load*, the keys for a hundred slots of the first layer, is a choice between speed and size. Nearly all the time
//! that a probe takes beyond that of blocked Bloom goes to bumped keys.
//!
//! | load | bits per key at 2^-8, whole block: 3,000 keys | 10,000 | 100,000 | 1,000,000 | bumped keys |
//! |--:|--:|--:|--:|--:|--:|
//! | 90 | 9.82 | 9.45 | 9.34 | 9.32 | 2.6 % |
//! | 100 | 9.32 | 8.88 | 8.74 | 8.72 | 6.8 % |
//! | 105 | 9.15 | 8.72 | 8.59 | 8.57 | 9.5 % |
//!
//! Blocked Bloom takes 12.2 bits for this rate. Building needs all hashes at once. Of 100,000 keys, it takes two
//! thirds of Ribbon's time with AVX-512, and one and a half times as long with AVX2; a probe takes a third of
//! Ribbon's with AVX-512, and less than half with AVX2. A [`FilterSet`](crate::FilterSet) probes line ribbons one by
//! one, without prefetching: 70 filters of 15,000 keys take 1.5 to 1.8 times as long as Bloom filters, and 70 of a
//! million keys about three times (`benches/sets.rs`). A filter cannot be made smaller without its keys.
//!
//! # How it is built
//!
//! Lines and tags ascend with hashes, so a layer needs only sorted hashes: each line takes its keys by tag until one
//! contradicts (`simd::solver`). Bumped keys are mapped to the hashes that choose their lines in the next layer, and
//! sorted again. The bytes depend only on the set of keys.
//!
//! The bytes: docs/format/line-ribbon.md. Reading: as for Ribbon. Bumping: Dillinger, Huebschle-Schneider, Sanders,
//! Walzer, *Fast Succinct Retrieval and Approximate Membership using Ribbon*, 2022. Small dense systems: Porat, *An
//! Optimal Bloom Filter Replacement Based on Matrix Solving*, 2008.

mod build;
pub(crate) mod kind;
mod layout;
pub(crate) mod shape;
mod simd;
#[cfg(test)]
mod tests;

pub(crate) use kind::LineRibbonKind;
pub(crate) use shape::LineRibbonShape;
pub(super) use simd::single_probe;
