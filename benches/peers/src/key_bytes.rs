//! The cost of one key and one filter for an engine: from the bytes of a key to its hash, and to a filter's answer.

use std::hint::black_box;

use sstfilter::{DEFAULT_HASH_SEED, KeyHash, KeyHasher};
use xorf::{BinaryFuse8, Filter as _};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::harness::least_times;
use crate::record::{ByteOperation, KeyBytes};
use crate::subject::BuildError;
use crate::subjects::sstfilter::{IN_USE, NAME, block};
use crate::subjects::{fastbloom, sbbf};

/// Lengths of the keys that are hashed: on both sides of the lengths at which XXH3 changes its algorithm.
const HASHED_BYTES: [usize; 7] = [8, 16, 24, 40, 100, 300, 1_000];

/// Lengths of the keys that are hashed and probed.
const PROBED_BYTES: [usize; 4] = [8, 16, 24, 40];

/// Keys in each filter.
const FILTER_KEYS: usize = 100_000;

/// Bytes of all hashed keys. They stay in the nearest caches, so that the loop times hashing and not memory.
const HASHED_TOTAL_BYTES: usize = 1 << 15;

/// Bytes hashed between two reads of the clock: a fraction of a millisecond.
const HASHED_BYTES_PER_TURN: usize = 1 << 20;

/// Absent keys between two reads of the clock.
const QUERIES: usize = 1 << 14;

/// The first number of the absent keys: above every present one.
const FIRST_ABSENT: u64 = 1 << 40;

/// Concatenated keys of one length.
struct ByteKeys {
    bytes: Vec<u8>,
    length: usize,
}

impl ByteKeys {
    /// Makes the keys of the numbers from `first` on. Each part of 8 bytes is mixed from the number and the part's
    /// position, so distinct numbers give distinct keys.
    fn new(first: u64, count: usize, length: usize) -> Self {
        let parts = 0..length.div_ceil(8) as u64;
        let key = |number: u64| {
            let words = parts.clone().flat_map(move |part| KeyHash::mix(number ^ part << 56).get().to_le_bytes());
            words.take(length)
        };
        Self { bytes: (first..).take(count).flat_map(key).collect(), length }
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.length)
    }

    /// Returns the sum of `work` over all keys. The length is hidden from the compiler, which does not know it in an
    /// engine either.
    #[inline]
    fn sum(&self, mut work: impl FnMut(&[u8]) -> u64) -> u64 {
        self.bytes.chunks_exact(black_box(self.length)).fold(0, |sum, key| sum.wrapping_add(work(key)))
    }
}

/// One way to hash keys, or to hash and probe them.
struct Method<'a> {
    implementation: &'static str,
    name: &'static str,
    against: &'static str,
    work: Box<dyn FnMut() -> u64 + 'a>,
}

/// Our methods.
const HASH: &str = "KeyHasher::hash";
const BLOOM: &str = IN_USE[0].0;
const FUSE: &str = IN_USE[2].0;

fn method<'a>(
    implementation: &'static str,
    name: &'static str,
    against: &'static str,
    work: impl FnMut() -> u64 + 'a,
) -> Method<'a> {
    Method { implementation, name, against, work: Box::new(work) }
}

/// Measures hashing alone, then hashing and probing.
///
/// # Errors
///
/// The builder's error.
pub fn measure(turns: usize) -> Result<Vec<KeyBytes>, BuildError> {
    let mut records: Vec<_> = HASHED_BYTES.into_iter().flat_map(|bytes| hashing(bytes, turns)).collect();
    for bytes in PROBED_BYTES {
        records.extend(probing(bytes, turns)?);
    }
    Ok(records)
}

/// Measures `KeyHasher::hash` and the function that it calls.
fn hashing(key_bytes: usize, turns: usize) -> Vec<KeyBytes> {
    let keys = ByteKeys::new(0, HASHED_TOTAL_BYTES / key_bytes, key_bytes);
    let passes = HASHED_BYTES_PER_TURN / HASHED_TOTAL_BYTES;
    // A seed that the compiler knows would let it fold parts of the hash.
    let (hasher, seed) = (black_box(KeyHasher::default()), black_box(DEFAULT_HASH_SEED));
    let methods = vec![
        method(NAME, HASH, HASH, || {
            (0..passes).fold(0, |sum, _| sum ^ black_box(&keys).sum(|key| hasher.hash(key).get()))
        }),
        method("xxhash-rust", "xxh3_64_with_seed", HASH, || {
            (0..passes).fold(0, |sum, _| sum ^ black_box(&keys).sum(|key| xxh3_64_with_seed(key, seed)))
        }),
    ];
    records(methods, turns, keys.iter().count() * passes, (ByteOperation::Hash, key_bytes, 0))
}

/// Measures our kinds and the peers that take bytes or hashes, one key after the other.
fn probing(key_bytes: usize, turns: usize) -> Result<Vec<KeyBytes>, BuildError> {
    let present = ByteKeys::new(0, FILTER_KEYS, key_bytes);
    let absent = ByteKeys::new(FIRST_ABSENT, QUERIES, key_bytes);
    let (hasher, mut methods) = (KeyHasher::default(), Vec::new());
    let present_hashes: Vec<_> = present.iter().map(|key| hasher.hash(key)).collect();
    for (name, kind, size) in IN_USE {
        let block = block(kind, size, &present_hashes)?;
        let (hasher, absent) = (&hasher, &absent);
        methods.push(method(NAME, name, name, move || {
            // An engine's filter and hasher are not known at compile time either.
            let (block, hasher) = black_box((&block, hasher));
            absent.sum(|key| u64::from(block.may_contain(hasher.hash(key))))
        }));
    }
    methods.extend(peer_methods(&present, &absent)?);
    Ok(records(methods, turns, QUERIES, (ByteOperation::HashAndProbe, key_bytes, FILTER_KEYS)))
}

fn peer_methods<'a>(present: &ByteKeys, absent: &'a ByteKeys) -> Result<[Method<'a>; 4], BuildError> {
    let seed = black_box(DEFAULT_HASH_SEED);
    let xxh3 = move |key: &[u8]| xxh3_64_with_seed(key, seed);
    let numbers: Vec<u64> = present.iter().map(xxh3).collect();
    let fuse = BinaryFuse8::try_from(&numbers)?;
    let sbbf = sbbf::filled(10, FILTER_KEYS, numbers.iter().copied());
    let of_hashes = fastbloom::filled(FILTER_KEYS, numbers.iter().copied());
    let mut of_bytes = fastbloom::filled(FILTER_KEYS, [].into_iter());
    present.iter().for_each(|key| _ = of_bytes.insert(key));
    Ok([
        method("sbbf-rs-safe", "xxh3, split block Bloom, 10 bits", BLOOM, move || {
            absent.sum(|key| u64::from(sbbf.contains_hash(xxh3(key))))
        }),
        method("fastbloom", "xxh3, Bloom, 10 bits", BLOOM, move || {
            absent.sum(|key| u64::from(of_hashes.contains_hash(xxh3(key))))
        }),
        method("fastbloom", "its own hash, Bloom, 10 bits", BLOOM, move || {
            absent.sum(|key| u64::from(of_bytes.contains(key)))
        }),
        method("xorf", "xxh3, BinaryFuse8", FUSE, move || absent.sum(|key| u64::from(fuse.contains(&xxh3(key))))),
    ])
}

/// Times `methods`, which each process `keys` keys.
fn records(
    mut methods: Vec<Method<'_>>,
    turns: usize,
    keys: usize,
    (operation, key_bytes, n): (ByteOperation, usize, usize),
) -> Vec<KeyBytes> {
    let times = least_times(&mut methods, turns, |method| (method.work)());
    let record = |(method, nanoseconds): (&Method<'_>, f64)| KeyBytes {
        operation,
        implementation: method.implementation.to_owned(),
        method: method.name.to_owned(),
        against: method.against.to_owned(),
        bytes_per_key: key_bytes as u64,
        n: n as u64,
        ns_per_key: nanoseconds / keys as f64,
    };
    methods.iter().zip(times).map(record).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_have_their_length_and_present_and_absent_ones_differ() {
        for length in HASHED_BYTES {
            let (present, absent) = (ByteKeys::new(0, 500, length), ByteKeys::new(FIRST_ABSENT, 500, length));
            let all: HashSet<_> = present.iter().chain(absent.iter()).collect();
            assert!(all.len() == 1_000 && all.iter().all(|key| key.len() == length), "{length}");
        }
    }

    #[test]
    fn both_ways_to_hash_give_the_same() {
        let keys = ByteKeys::new(7, 100, 24);
        let hasher = KeyHasher::default();
        assert!(keys.iter().all(|key| hasher.hash(key).get() == xxh3_64_with_seed(key, DEFAULT_HASH_SEED)));
    }

    #[test]
    fn every_length_is_hashed_by_both_and_probed_by_all() {
        assert_eq!(hashing(24, 1).len(), 2);
        let records = probing(8, 1).unwrap();
        assert!(records.iter().all(|record| record.ns_per_key > 0.0 && record.n == FILTER_KEYS as u64));
        assert_eq!(records.iter().filter(|record| record.implementation == NAME).count(), 3);
    }
}
