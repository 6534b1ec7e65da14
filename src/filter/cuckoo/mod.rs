//! Cuckoo: a filter whose keys can be inserted and removed.
//!
//! # What it is
//!
//! A table of *tags*, a few bits of each key's hash, in buckets of four slots. Each key has two candidate buckets, and
//! its tag is in one of them; a query compares the eight tags of both. Removing a key removes its tag (Fan, Andersen,
//! Kaminsky, Mitzenmacher 2014). If both buckets are full, a tag in one of them is evicted to its own other bucket,
//! which follows from the tag, and so on until one finds a free slot. With two buckets of four slots, this works up to
//! 97.7 % of all slots in large tables; filters are planned for 95 %.
//!
//! The usual design finds the other bucket by exclusive or, which needs a power of two of buckets, and so up to twice
//! the memory. Here the numbers of both buckets add up to a sum that follows from the tag, modulo the number of
//! buckets. The sum is odd and the number of buckets even, so one bucket of a key has an even number and the other an
//! odd one: they are always distinct. Any even number of buckets works. Buckets are packed to the bit, so tags can have
//! any width from 4 to 32 bits.
//!
//! An insertion first finds the shortest path to a free slot, and moves nothing before that. If the filter is full, the
//! insertion fails and changes nothing; the usual random walk loses a displaced tag.
//!
//! # What it costs
//!
//! A tag is one of 2^t - 1 values, and a query compares it with eight slots at a load of 95 %. That makes a rate of 7.6
//! / (2^t - 1) for t / 0.95 bits per key. Whole blocks of 1,000,000 keys, computed; tests measure rates and sizes:
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
//! With tags of 11 bits or more, at 0.37 % and below, it is smaller than a standard Bloom filter; at 1 % it is not. A
//! rate between two rows needs the wider tag, and then Bloom can still be smaller: at 0.3 % it is, by 0.5 bits; from
//! 0.08 % down it never is. Small filters get slack, because some sets of keys are harder to place: 7 % more slots than
//! keys at 1,000 keys, a quarter at 100. The computed rate is exact for a number of keys, wherever the tags lie.
//!
//! `benches/results/tables.md` compares times with other implementations.
//!
//! # When to choose it
//!
//! Choose cuckoo if keys have to be removed: for a memtable, a cache, a set of live keys. For a filter that is built
//! once, [blocked Bloom](super::blocked_bloom) takes a tenth of the time to build, and [Ribbon](super::ribbon) only
//! 8.03 bits per key at 0.39 %. Do not choose it when keys repeat more than eight times, or when you cannot know
//! whether a key to remove was ever inserted: removing a false positive removes another key's tag. The filter does not
//! grow: when it is full, build a larger one from the keys.
//!
//! Tags of 4 and 5 bits are supported, but too many keys then share tag and buckets: see
//! [`CuckooFilter::with_tag_bits`].
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
