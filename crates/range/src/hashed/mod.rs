//! The map of hashed codes: ranges of a declared length inside a prefix, at a proven rate.
//!
//! A key is a prefix followed by a number of units. Its *chunk* of 2^c units is hashed, with the prefix, to a start
//! among the codes. From this start on, the units of a chunk keep their distances:
//!
//! ```text
//! chunk = units >> c
//! start = mix64(hash(prefix) ^ mix64(chunk)) * space >> 64
//! code  = (start + (units & (2^c - 1))) mod space
//! ```
//!
//! A range is thus one interval of codes, or two if it crosses into the next chunk. Each interval may wrap around at
//! the end of the space. Each of n codes hits an empty range of l units with probability at most l / space, wherever
//! the keys are, so the total is at most n l / space. The idea is from Grafite (Costa, Ferragina, Vinciguerra, SIGMOD
//! 2024); chunks are smaller, keyed and mixed instead of pairwise independent, and crossings and wraps are split.

pub(super) mod build;
pub(super) mod query;

use sstfilter::{DEFAULT_HASH_SEED, KeyHash};

/// Mixes like [`KeyHash::mix`], without its seed.
#[inline(always)]
pub(crate) const fn mix64(value: u64) -> u64 {
    // `KeyHash::mix` combines its input with the seed by XOR, so this cancels the seed.
    KeyHash::mix(value ^ DEFAULT_HASH_SEED).get()
}

/// Returns the code of a chunk's first unit.
#[inline(always)]
fn chunk_start(hash: u64, space: u64) -> u64 {
    ((u128::from(hash) * u128::from(space)) >> 64) as u64
}

/// Returns the hash of a chunk inside a prefix.
#[inline(always)]
fn chunk_hash(prefix: KeyHash, chunk: u64) -> u64 {
    mix64(prefix.get() ^ mix64(chunk))
}
