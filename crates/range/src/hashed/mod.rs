//! The map of hashed codes: ranges of a declared length inside a prefix, at a proven rate.
//!
//! A key is a prefix and a number of units after it. Its *chunk* of 2^c units is hashed, with the prefix, to a place
//! among the codes, and the units of a chunk keep their distances from there on:
//!
//! ```text
//! chunk = units >> c
//! start = mix64(hash(prefix) ^ mix64(chunk)) * space >> 64
//! code  = (start + (units & (2^c - 1))) mod space
//! ```
//!
//! A range is thus one interval of codes, or two where it crosses into the next chunk, each of which may wrap around at
//! the end of the space. An empty range of l units is hit by each of n codes with probability at most l / space,
//! wherever its keys are: at most n l / space in all. The idea is that of Grafite (Costa, Ferragina, Vinciguerra,
//! SIGMOD 2024); chunks are smaller, keyed and mixed instead of pairwise independent, and crossings and wraps are
//! split.

pub(super) mod build;
pub(super) mod query;

use sstfilter::{DEFAULT_HASH_SEED, KeyHash};

/// The mixing of [`KeyHash::mix`] without its seed.
#[inline(always)]
pub(crate) const fn mix64(value: u64) -> u64 {
    KeyHash::mix(value ^ DEFAULT_HASH_SEED).get()
}

/// Where a chunk's units start.
#[inline(always)]
fn chunk_start(hash: u64, space: u64) -> u64 {
    ((u128::from(hash) * u128::from(space)) >> 64) as u64
}

/// The hash of a chunk inside a prefix.
#[inline(always)]
fn chunk_hash(prefix: KeyHash, chunk: u64) -> u64 {
    mix64(prefix.get() ^ mix64(chunk))
}
