//! Keys chosen by an attacker. The failure guarded against: an attacker who can write and read a store's keys, and
//! knows their hash, prepares keys that are positives of all filters or that fill filters up. Each such key costs a
//! read of every table. With a known seed the attack works, and these tests measure how well; with a secret seed it
//! must fail.
//!
//! The figures of SECURITY.md: `cargo test --test filters hostile_keys:: -- --nocapture --test-threads 1`.

mod inserting;
mod kinds;
mod querying;
mod xxh3;

use crate::common;
use sstfilter::{DEFAULT_HASH_SEED, KeyHasher, SecretSeed};

/// The hasher of a store whose seed is known.
fn open_hasher() -> KeyHasher {
    KeyHasher::default()
}

/// The hasher of a store with a secret seed, which is fixed so that every run has the same result.
fn secret_hasher() -> KeyHasher {
    KeyHasher::with_secret_seed(SecretSeed::from_bytes(*b"\x8b\x1f\x03\xd6\x55\xe9\x72\xac"))
}

#[test]
fn whoever_knows_the_seed_makes_a_key_of_eight_bytes_for_any_hash() {
    for seed in [DEFAULT_HASH_SEED, 0, 1, u64::MAX, 0xdead_beef_cafe_f00d] {
        let hasher = KeyHasher::with_seed(seed);
        for hash in common::key_set(1, 1_000).map(sstfilter::KeyHash::get).chain([0, 1, u64::MAX]) {
            assert_eq!(hasher.hash(&xxh3::key_with_hash(hash, seed)).get(), hash);
        }
    }
}
