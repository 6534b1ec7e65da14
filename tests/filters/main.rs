//! Each kind of filter by itself: its answers, its false positive rate, its size, and the effect of hostile keys. One
//! program, because linking every test program takes time.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod bad_hashes;
mod counting_bloom;
mod cuckoo;
mod empty_key;
mod growing;
mod hostile_keys;
mod layers;
mod line_ribbon;
mod rates;
mod register_blocked_bloom;
mod shrunk;
mod sizes;
mod standard_bloom;
mod threads;
mod union;

use bytes::Bytes;
use sstfilter::{BuiltFilter, FilterBlock, KeyHash, MatchBitmap};

/// The first hashes of a key set. Sets with different numbers are disjoint.
fn keys(set: u32, count: u32) -> Vec<KeyHash> {
    common::key_set(set, count).collect()
}

/// Opens the filter that was built. It must be sound, and contain all of its keys.
fn opened(built: BuiltFilter, hashes: &[KeyHash]) -> FilterBlock<Bytes> {
    let filter = FilterBlock::open_unverified(built.block.unwrap()).unwrap();
    filter.verify().unwrap();
    assert_eq!(
        common::matches(&filter, hashes.iter().copied()),
        hashes.len() as u64,
        "{}: a key is absent",
        filter.kind()
    );
    filter
}

/// The number of positives in a batch.
fn positives(filter: &FilterBlock<Bytes>, hashes: &[KeyHash]) -> u64 {
    let mut matches = MatchBitmap::default();
    filter.may_contain_batch(hashes, &mut matches);
    matches.count()
}
