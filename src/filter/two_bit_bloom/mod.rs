//! Two-bit Bloom: all bits of a key in one atomic word, for many threads.
//!
//! Some filters are made while others already ask them: the keys of a join's build side, of a memtable, of what has
//! been seen today. Such a filter has a fixed size, so that nothing moves, and its inserts must neither lock nor get
//! lost. A Bloom filter can do that if all bits of a key lie in one machine word: one load answers, and one atomic OR
//! inserts. Blocks as small as that cost accuracy (some words are much fuller than others), which is why the kind is
//! for this use alone.
//!
//! Floe (*Two Bits Are Better Than One*, 2026) has 32-bit words in 256 KiB, and reports 11.68 % false positives with one
//! bit per key and 5.69 % with two, at 256 K keys. Words of 64 bits are better at no cost; two, three and four bits are
//! offered there, and Floe's two layouts in words of 32 to compare with. What 256 KiB let through, computed
//! ([`TwoBitOptions::expected_fpr`]) and asserted on built filters:
//!
//! | bits of filter per key | 4 | 8 | 12 | 16 | 24 |
//! |---|--:|--:|--:|--:|--:|
//! | 2 bits in 64 (default) | 15.95 % | 5.33 % | 2.71 % | 1.67 % | 0.85 % |
//! | 3 bits in 64 | 15.65 % | 3.76 % | 1.53 % | 0.80 % | 0.33 % |
//! | 4 bits in 64 | 17.43 % | 3.35 % | 1.15 % | 0.53 % | 0.18 % |
//! | 1 bit in 32 (Floe) | 22.12 % | 11.75 % | 8.00 % | 6.06 % | 4.08 % |
//! | 2 bits in 32 (Floe) | 16.42 % | 5.76 % | 3.06 % | 1.96 % | 1.06 % |
//! | [blocked Bloom](super::blocked_bloom) | | 2.33 % | 0.42 % | 0.08 % | 0.005 % |
//!
//! Nanoseconds per key at 8 bits per key in 256 KiB, hashes given, uncontended, one Zen 3 core of 3.26 GHz (medians of
//! `cargo bench --bench concurrent`):
//!
//! | | insert, new | insert, present | batch insert, present | insert, exclusive | contains | batch contains |
//! |---|--:|--:|--:|--:|--:|--:|
//! | 2 bits in 64 | 3.9 | 1.8 | 1.6 | 2.1 | 1.8 | 1.5 |
//! | 3 bits in 64 | 4.0 | 2.3 | 2.1 | 2.6 | 2.1 | 1.9 |
//! | 4 bits in 64 | 4.0 | 2.6 | 2.6 | 2.9 | 2.8 | 2.3 |
//! | 1 bit in 32 (Floe) | 3.8 | 1.9 | 1.8 | 2.4 | 1.8 | 1.6 |
//! | 2 bits in 32 (Floe) | 4.0 | 2.4 | 2.3 | 2.8 | 2.3 | 2.2 |
//! | blocked Bloom | | | | | | 1.3 to 1.4 |
//!
//! In 128 KiB, which leaves the second level of cache room for the hashes, a batch of two bits is asked in 1.1. Two threads on
//! one filter of two bits take 3.5 ns per key of both to insert different keys, 0.9 keys that are there, and 0.9 to ask;
//! the same new keys from both, 3 to 16, as they happen to meet.
//! Of a filter of 128 MiB, beyond the caches, a batch inserts a new key in 10 ns and single calls in 19; asking takes 15
//! to 17 either way.
//!
//! Why it is so:
//!
//! * *Load first.* The atomic OR is what a new key costs. It also takes the cache line from every other core, so a key
//!   that is there already must not do it: two threads that insert the same keys are faster than with different ones.
//!   Loading costs a new key nothing.
//! * *No answer asked of the OR.* An OR that returns the old word is a loop of compare-and-swap on x86. `insert` says "new"
//!   by what it loaded before, so two threads that race with one key may both be told so.
//! * *Shift, do not mask.* A probe shifts the word by each bit's number and keeps the lowest bit of all: no mask is made,
//!   and nothing branches, so that the words of many keys are under way at once.
//! * *Bits may coincide.* Forcing them apart would gain 0.2 points and cost a third of a probe (measured by a prototype).
//!
//! Rejected: a gather over eight words (the prototype's was slower than eight loads), instructions of BMI2 (5 to 8 %: a probe
//! waits for the second level of cache, and takes 1.1 ns in a filter that fits in the first), testing by shifts before
//! inserting (no faster than making the mask at once), a counter of keys (every insert of every thread would
//! write to it: the number is [estimated](TwoBitBloom::estimated_keys) from the fill instead), and growing (an engine
//! that watches [`TwoBitBloom::health`] makes a larger filter, and fills it from its keys).
//!
//! When to choose it: when several threads insert, or ask while others insert, and some percent of false positives are
//! good enough. For a filter that is made once, blocked Bloom is as fast to ask and lets through less than half.
//!
//! The bytes: FORMAT.md, "Two-bit Bloom". Reading: Putze, Sanders, Singler, *Cache-, Hash- and Space-Efficient Bloom
//! Filters*, 2007; Lang, Neumann, Kemper, Boncz, *Performance-Optimal Filtering*, 2019 (there "register-blocked").

#![expect(
    clippy::inline_always,
    reason = "the layouts' constants must reach the loops, and the loops must have no calls"
)]

mod filter;
mod layout;
#[cfg(all(test, loom))]
mod loom_tests;
mod probe;
mod rate;
mod shape;
mod sync;

pub use filter::TwoBitBloom;
pub use layout::WordLayout;
pub use shape::TwoBitOptions;
pub(crate) use shape::TwoBitShape;
