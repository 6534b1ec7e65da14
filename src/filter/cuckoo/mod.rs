//! Cuckoo: keys come and go.
//!
//! # What it is
//!
//! A table of *tags*, a few bits of each key's hash, in buckets of four. Each key has two buckets, and its tag lies in
//! either; a query compares the eight tags of both. To remove a key is to remove its tag (Fan, Andersen, Kaminsky,
//! Mitzenmacher 2014). If both buckets are full, a tag in one of them moves to its own other bucket, which can be
//! found from the tag alone, and so on until one finds a free place: with two buckets of four places, that works up
//! to 97.7 % of all places in large tables. Filters are planned for 95 %.
//!
//! The other bucket is usually found by exclusive or, which wants a power of two of buckets, and so up to twice
//! the memory. Here the numbers of both buckets add up to a sum that belongs to the tag, modulo the number of
//! buckets; the sum is odd and the number of buckets even, so that one of a key's buckets has an even number, and the
//! other an odd one: they are never the same. Any even number of buckets will do. Buckets are packed to the bit, so that
//! tags can have any width from 4 to 32 bits.
//!
//! An insertion first finds the shortest way to a free place, and moves nothing until it has. A filter that is full
//! says so, and is as it was: the simpler form, which moves tags at random, is left with one in its hands.
//!
//! # What it costs
//!
//! A tag that is one of 2^t - 1 values, and eight places that it is compared with at a load of 95 %, give a rate of
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
//! So it is smaller than a standard Bloom filter at the rates of tags of 11 bits and more, 0.37 % and below, and not at 1 %
//! (10.5 bits with a tag of 10 bits, 9.6 in Bloom). A rate between two of these takes the wider tag, and then Bloom can
//! still be smaller: at 0.3 % it is, by 0.5 bits; from 0.08 % down it never is. Small filters get slack, because some sets of keys are harder to place: 7 % more
//! places than keys at 1,000 keys, a quarter at 100. The rate is exact for the number of keys, wherever the tags lie.
//!
//! Time per key, one thread, AMD Zen 3, in `benches/peers` (`--only filter`), tags of 8 bits; keys are inserted up to the
//! load of 95 %, and the peers' filters are as full as their power of two leaves them (`cuckoofilter` 61, 76, 95 and
//! 60 %):
//!
//! | keys | insert | `cuckoofilter` | `qfilter` | absent key | `cuckoofilter` | `qfilter` |
//! |--:|--:|--:|--:|--:|--:|--:|
//! | 10,000 | 19 ns | 40 ns | 21 ns | 6.0 ns | 32 ns | 11 ns |
//! | 100,000 | 21 ns | 45 ns | 30 ns | 6.5 ns | 33 ns | 14 ns |
//! | 1,000,000 | 30 ns | 95 ns | 27 ns | 9.4 ns | 44 ns | 11 ns |
//! | 10,000,000 | 44 ns | 85 ns | 49 ns | 18 ns | 78 ns | 18 ns |
//!
//! (At a million keys `qfilter`'s table is half empty, 19 bits per key, and takes keys faster than this one does.)
//!
//! # When to choose it
//!
//! When keys have to be removed: a memtable's or a cache's filter, a set of live keys. A filter that is built once is
//! better served by [blocked Bloom](super::blocked_bloom) (a tenth of the time to build) or [Ribbon](super::ribbon) (8.03 bits per
//! key at 0.39 %). Not when keys repeat more than eight times, and not when it is unknown whether a key to be removed
//! was ever inserted: removing one that only looks present takes another key's tag. Nor does it grow: when it is full,
//! a larger one has to be built from the keys.
//!
//! Tags of 4 and 5 bits are offered, but too many keys then share tag and buckets; see
//! [`CuckooShape::with_tag_bits`].
//!
//! The bytes: FORMAT.md, "Cuckoo". Reading: Fan, Andersen, Kaminsky, Mitzenmacher, *Cuckoo Filter: Practically Better
//! Than Bloom*, 2014.

mod bucket;
mod filter;
mod insert;
mod probe;
mod rate;
mod shape;

pub use filter::CuckooFilter;
pub use shape::CuckooShape;
