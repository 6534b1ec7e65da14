//! Register-blocked Bloom: all bits of a key in one atomic word, for many threads.
//!
//! # What it is
//!
//! Some filters are probed while they are filled: with the keys of a join's build side, of a memtable, or seen today.
//! Such a filter has a fixed size, so that nothing moves, and its inserts must neither lock nor get lost. A Bloom
//! filter meets this if all bits of a key are in one machine word: one load answers, and one atomic OR inserts. Blocks
//! that small cost accuracy, because some words are much fuller than others, so use this kind only there.
//!
//! # What it costs
//!
//! | bits of filter per key | 4 | 8 | 12 | 16 | 24 |
//! |---|--:|--:|--:|--:|--:|
//! | 2 bits in a word of 64 (default) | 15.95 % | 5.33 % | 2.71 % | 1.67 % | 0.85 % |
//! | 3 bits | 15.65 % | 3.76 % | 1.53 % | 0.80 % | 0.33 % |
//! | 4 bits | 17.43 % | 3.35 % | 1.15 % | 0.53 % | 0.18 % |
//! | [blocked Bloom](super::blocked_bloom) | | 2.33 % | 0.42 % | 0.08 % | 0.005 % |
//!
//! The rates are computed for 256 KiB ([`expected_fpr`](crate::DynamicFilter::expected_fpr)) and asserted on built
//! filters. Floe (*Two Bits Are Better Than One*, 2026) has words of 32 bits, and 5.69 % with two bits at 8 bits per
//! key; words of 64 are better at no cost.
//!
//! If the filter is in the second-level cache, inserting a new key takes twice the time of a probe, and a present key
//! takes no more than a probe: an insert loads the word first, and only a missing bit needs the atomic OR, which takes
//! the cache line from all other cores. `cargo bench -p sstfilter-benches --bench concurrent` measures it, with one and
//! two threads.
//!
//! Rejected: forcing the bits of a key apart (0.2 points better, a third slower), a counter of keys (all threads would
//! write to it; the number is estimated from the fill instead), and growing (an engine that watches
//! [`health`](crate::DynamicFilter::health) builds a larger filter from its keys).
//!
//! # When to choose it
//!
//! Choose it if several threads insert, or probe while others insert, and a few percent of false positives are
//! acceptable. For a filter that is built once, blocked Bloom takes up to 1.8 times as long to probe, and has less
//! than half of the false positives.
//!
//! The bytes: docs/format/growing.md, "Register-blocked Bloom". Reading: Putze, Sanders, Singler, *Cache-, Hash- and
//! Space-Efficient Bloom Filters*, 2007; Lang, Neumann, Kemper, Boncz, *Performance-Optimal Filtering*, 2019 (there
//! "register-blocked").

#![expect(
    clippy::inline_always,
    reason = "the numbers of probes must reach the loops, and the loops must have no calls"
)]

pub(crate) mod filter;
mod kind;
mod layout;
mod rate;
mod shape;

pub(crate) use filter::RegisterBlockedBloom;
pub(crate) use kind::RegisterBlockedKind;
pub(crate) use shape::RegisterBlockedShape;
