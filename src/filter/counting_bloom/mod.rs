//! Counting Bloom: a standard Bloom filter that keys can be taken out of again.
//!
//! # What it is
//!
//! A counter of four bits in place of each bit of a [standard Bloom](super::standard_bloom) filter (Fan, Cao, Almeida,
//! Broder 2000): inserting a key counts its k counters up, removing it counts them down, and a key is denied when one of
//! its counters is 0. Positions, number of probes and rate are those of standard Bloom.
//!
//! # Why no key that is in is denied
//!
//! A counter below 15 is exact: how often the keys that are in meet it, a key that meets it twice counted twice,
//! going up as coming down. A counter that reaches 15 may have lost count, and stays there for good. So the counters of a
//! key that is in are above 0 all the time, whatever came and went meanwhile. With half of the counters in use, one in
//! 10^15 or so gets to 15; [`saturated`](CountingBloom::saturated) counts them.
//!
//! This holds for legal work only. The removal of a key that was **never inserted** is refused when one of its counters
//! is 0. But when it looks present, a false positive, nothing can tell it from one that is in: the counters of others go
//! down, and **keys that are in may be denied from then on**. Remove only what an exact record says is in.
//!
//! # What it costs
//!
//! Four times the memory of standard Bloom: 38.4 bits per key at 1 %, where a cuckoo filter, which can remove keys, too,
//! takes about 10.5. Choose it to learn from, where the load swings beyond what was planned (it never is full), or
//! for a set in memory that is written to files as it shrinks and grows: [`to_standard_bloom`] makes the small, fixed
//! filter of it.
//!
//! [`to_standard_bloom`]: CountingBloom::to_standard_bloom
//!
//! The bytes: FORMAT.md, "Counting Bloom". Reading: Fan, Cao, Almeida, Broder, *Summary cache: a scalable wide-area web
//! cache sharing protocol*, 2000.

mod filter;
mod shape;

pub use filter::CountingBloom;
pub(crate) use shape::CountingBloomShape;
