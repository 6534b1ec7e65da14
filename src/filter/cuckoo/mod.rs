//! Cuckoo: keys are inserted and removed.
//!
//! # What it is
//!
//! A table of *tags*, a few bits of each key's hash, in buckets of four. Each key has two candidate buckets, and its
//! tag is in either; a query compares the eight tags of both. To remove a key is to remove its tag (Fan, Andersen,
//! Kaminsky, Mitzenmacher 2014). If both buckets are full, a tag in one of them is evicted to its own other bucket,
//! which can be found from the tag alone, and so on until one finds a free place. With two buckets of four places, that
//! works up to 97.7 % of all places in large tables; filters are planned for 95 %.
//!
//! The usual design finds the other bucket by exclusive or, which needs a power of two of buckets, and so up to twice
//! the memory. Here the numbers of both buckets add up to a sum that belongs to the tag, modulo the number of buckets.
//! The sum is odd and the number of buckets even, so one bucket of a key has an even number and the other an odd one:
//! they are never the same. Any even number of buckets will do. Buckets are packed to the bit, so tags can have any
//! width from 4 to 32 bits.
//!
//! An insertion first finds the shortest path to a free place, and moves nothing before that. A filter that is full
//! says so and stays as it was; the usual random walk loses a displaced tag.
//!
//! # What it costs
//!
//! A tag is one of 2^t - 1 values, and a query compares it with eight places at a load of 95 %: that gives a rate of
//! 7.6 / (2^t - 1) for t / 0.95 bits per key. Whole blocks of 1,000,000 keys, computed; tests measure rates and sizes:
//!
//! | bits of a tag | rate | bits per key | standard Bloom of that rate | information bound |
//! |--:|--:|--:|--:|--:|
//! | 8 | 2.94 % | 8.42 | 7.34 | 5.09 |
//! | 10 | 0.740 % | 10.53 | 10.21 | 7.08 |
//! | 11 | 0.371 % | 11.58 | 11.65 | 8.08 |
//! | 12 | 0.185 % | 12.63 | 13.09 | 9.08 |
//! | 13 | 0.0927 % | 13.68 | 14.53 | 10.08 |
//! | 16 | 0.0116 % | 16.84 | 18.85 | 13.08 |
//!
//! So it is smaller than a standard Bloom filter with tags of 11 bits and more, at 0.37 % and below, and not at 1 %. A
//! rate between two of these needs the wider tag, and then Bloom can still be smaller: at 0.3 % it is, by 0.5 bits;
//! from 0.08 % down it never is. Small filters get slack, because some sets of keys are harder to place: 7 % more
//! places than keys at 1,000 keys, a quarter at 100. The computed rate is exact for a number of keys, wherever the tags
//! lie.
//!
//! Times next to other implementations: `benches/results/tables.md`.
//!
//! # When to choose it
//!
//! When keys have to be removed: for a memtable, a cache, a set of live keys. A filter that is built once is better
//! served by [blocked Bloom](super::blocked_bloom), which takes a tenth of the time to build, or
//! [Ribbon](super::ribbon), with 8.03 bits per key at 0.39 %. Do not choose it when keys repeat more than eight times,
//! or when it is unknown whether a key to be removed was ever inserted: removing one that only looks present removes
//! another key's tag. It does not grow: when it is full, build a larger one from the keys.
//!
//! Tags of 4 and 5 bits are offered, but too many keys then share tag and buckets: see [`CuckooFilter::with_tag_bits`].
//!
//! The bytes: docs/format/growing.md, "Cuckoo". Reading: Fan, Andersen, Kaminsky, Mitzenmacher, *Cuckoo Filter:
//! Practically Better Than Bloom*, 2014.

mod bucket;
pub(crate) mod filter;
mod insert;
mod kind;
mod shape;

pub(crate) use filter::CuckooFilter;
pub(crate) use kind::CuckooKind;
pub(crate) use shape::CuckooShape;
