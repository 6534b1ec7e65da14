//! Blocked Bloom: one 64-byte line per key. The default.
//!
//! A Bloom filter (Bloom 1970) sets k bits per key and answers "absent" when one of a key's bits is clear. Spread over
//! the whole filter, those bits cost up to k cache misses. *Blocked* Bloom (Putze, Sanders, Singler 2007) puts all bits
//! of a key into one cache line: one miss per probe, for about 3.5 % more bits at 1 % and 8 % more at 0.1 %, because
//! some lines are fuller than others.
//!
//! Within the line this crate uses the *pair-lane* layout (`line`): each probe owns one of 16 lanes, the key chooses
//! which lanes it uses, and each lane sets one of 64 bits. Any number of probes from 1 to 16 works, one vector multiply
//! computes them all, and the rate is that of k random positions in a line within half a percent:
//!
//! | bits per key | probes | expected rate | k random positions in a line | standard Bloom |
//! |--:|--:|--:|--:|--:|
//! | 8 | 5 | 2.33 % | 2.33 % | 2.16 % |
//! | 10 | 6 | 0.973 % | 0.967 % | 0.819 % |
//! | 12 | 7 | 0.419 % | 0.414 % | 0.314 % |
//! | 16 | 9 | 0.0845 % | 0.0842 % | 0.0459 % |
//! | 20 | 11 | 0.0199 % | 0.0198 % | 0.0067 % |
//! | 24 | 12 | 0.0054 % | 0.0053 % | 0.0010 % |
//!
//! Choose it unless the filter's memory matters more than the build. A Ribbon filter of the same rate is 30 % smaller,
//! takes 7 to 20 times as long to build and about 3 times as long to probe. Above 16 bits per key, prefer Ribbon: the
//! line's locality costs too much (66 % over the information bound at 0.01 %).
//!
//! It is built in one pass: if the number of keys is known beforehand, bits are set as keys arrive and nothing is
//! buffered. Any number of lines is possible, so sizes are exact to a line. The bytes do not depend on the order or the
//! repetition of keys.
//!
//! It can be made smaller without its keys: adjacent lines fold into one, and the result is the filter that would have
//! been built with the smaller number of lines ([`FilterBlock::shrink_to`](crate::FilterBlock::shrink_to)). Its probes
//! are then too many for its size; [`BlockedBloomKind`] has settings for filters that will shrink.
//!
//! The bytes: FORMAT.md, "Blocked Bloom". Reading: Putze, Sanders, Singler, *Cache-, Hash- and
//! Space-Efficient Bloom Filters*, 2007.

mod build;
pub(crate) mod kind;
pub(crate) mod line;
mod rate;
mod shape;

pub(crate) use kind::BlockedBloomKind;
pub(crate) use shape::BloomShape;
pub use shape::expected_fpr;
pub use shape::probes_for;
pub(crate) use shape::smallest_size_for;
