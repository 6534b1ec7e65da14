//! Counting Bloom: a standard Bloom filter that keys can be removed from.
//!
//! # What it is
//!
//! A counter of four bits in place of each bit of a [standard Bloom](super::standard_bloom) filter (Fan, Cao, Almeida,
//! Broder 2000). Inserting a key increments its k counters and removing it decrements them; a key is absent when one of
//! its counters is 0. Positions, number of probes and rate are those of standard Bloom.
//!
//! A counter below 15 is exact: it counts how often the keys in the filter have its position; a key that has it twice
//! counts twice. A counter that reaches 15 may have lost count, and stays there for good. So the counters of a key in
//! the filter are always above 0, whatever was inserted and removed in between. When half of the counters are in use,
//! about one in 10^15 reaches 15; [`saturated`](CountingBloom::saturated) counts them.
//!
//! This holds only if you remove only inserted keys. The filter refuses to remove a key that was **never inserted**
//! when one of the key's counters is 0. But it cannot distinguish a false positive from a key that it contains:
//! removing one decrements the counters of others, and **the filter may report those as absent from then on**. Remove
//! only keys that an exact record says are in the filter.
//!
//! [`to_standard_bloom`]: CountingBloom::to_standard_bloom
//!
//! The bytes: docs/format/growing.md, "Counting Bloom". Reading: Fan, Cao, Almeida, Broder, *Summary cache: a scalable
//! wide-area web cache sharing protocol*, 2000.

pub(crate) mod filter;
mod kind;
mod shape;

pub(crate) use filter::CountingBloom;
pub(crate) use kind::CountingBloomKind;
pub(crate) use shape::CountingBloomShape;
