//! Standard Bloom: k bits of each key, anywhere in the filter.
//!
//! # What it is
//!
//! An array of bits. Each key sets k of them, and is absent when one of its k bits is clear (Bloom 1970). With k =
//! 0.69 times the bits per key, half of the bits are set and the rate is 2^-k: 1.44 bits per key for each halving, for
//! any number of keys. [`StandardBloom`] accepts keys while it is probed, in any order and number. More keys than
//! planned raise its rate, which [`health`](crate::DynamicFilter::health) reports. Two filters of one shape are
//! [merged](StandardBloom::union) by OR.
//!
//! # How positions are found
//!
//! By double hashing (Kirsch and Mitzenmacher 2006): the first number is the hash, and each further number is the
//! previous one plus a step; the high half of its product with the number of bits is the position. With a constant
//! step, as in the paper, the positions of a key are evenly spaced, and two keys that share some of them tend to share
//! all. This does not matter in large filters, but at 1,000 bits the measured rate is 4 % too high with 7 probes, and
//! *four times* too high with 13. So the step is rotated by 23 bits after each addition, which costs one instruction:
//!
//! | bits | keys | probes | independent probes | fixed step | growing step | rotated step (ours) |
//! |--:|--:|--:|--:|--:|--:|--:|
//! | 64 | 6 | 7 | 0.686 % | 1.21 % | 0.819 % | 0.686 % |
//! | 1,000 | 100 | 7 | 0.826 % | 0.863 % | 0.837 % | 0.828 % |
//! | 1,000 | 50 | 13 | 0.0070 % | 0.0283 % | 0.0088 % | 0.0070 % |
//! | 10,000 | 1,000 | 7 | 0.820 % | 0.825 % | 0.822 % | 0.821 % |
//!
//! # What it costs
//!
//! | bits per key | probes | standard Bloom | [blocked Bloom](super::blocked_bloom) |
//! |--:|--:|--:|--:|
//! | 8 | 6 | 2.16 % | 2.33 % |
//! | 10 | 7 | 0.819 % | 0.973 % |
//! | 12 | 8 | 0.314 % | 0.419 % |
//! | 16 | 11 | 0.0459 % | 0.0845 % |
//! | 20 | 14 | 0.0067 % | 0.0199 % |
//!
//! Each probe can miss the cache. Four are combined, which decides most absent keys; a present key takes all probes.
//! Probing takes three to four times as long as in blocked Bloom, and building four to five times
//! (`benches/results/tables.md`).
//!
//! Choose it for a filter in memory that grows or is merged. Choose it also where blocked Bloom takes too much memory
//! (3 % more at a rate of 1 %, 8 % at 0.1 %, 13 % at 0.01 %) and [Ribbon](super::ribbon) too long to build. In files,
//! blocked Bloom is mostly the better choice for its speed, and Ribbon for its size.
//!
//! The bytes: docs/format/growing.md, "Standard Bloom". Reading: Bloom, *Space/time trade-offs in hash coding with
//! allowable errors*, 1970; Kirsch and Mitzenmacher, *Less hashing, same performance*, 2006; Bose et al., *On the
//! false-positive rate of Bloom filters*, 2008; Swamidass and Baldi, *Mathematical correction for fingerprint
//! similarity measures to improve chemical retrieval*, 2007.

pub(crate) mod atomic;
mod build;
pub(crate) mod filter;
mod kind;
mod params;
mod shape;

pub(crate) use atomic::AtomicBloom;
pub(crate) use filter::StandardBloom;
pub(crate) use kind::StandardBloomKind;
pub(crate) use params::{BloomParams, planned_by_keys, size_for_rate};
pub(crate) use shape::{ArrayShape, Cell, StandardBloomShape};
