//! Tables and sets of tables: what goes in comes out, damage is found, filters save reads.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

use sstfilter::MatchBitmap;
use sstfilter::sst::TableSet;

mod block_cache;
mod caller_panics;
mod corruption;
mod damage;
mod errors;
mod key_parts;
mod kinds;
mod limited_files;
mod model;
mod partitions;
mod prefix_lookup;
mod prefix_scan;
mod ranges;
mod reports;
mod roundtrip;
mod salvage;
mod secret_seed;
mod set;
mod sidecar;
mod skipped_reads;
mod threads;
mod versions;
mod writer_faults;

/// The positions of the tables that may hold `key`.
fn matches_of(set: &TableSet, key: &[u8]) -> Vec<usize> {
    let mut matches = MatchBitmap::default();
    set.matches(key, &mut matches);
    matches.iter().collect()
}

/// The positions of the tables that may hold a key with this prefix.
fn prefix_matches_of(set: &TableSet, prefix: &[u8]) -> Vec<usize> {
    let mut matches = MatchBitmap::default();
    set.matches_prefix(prefix, &mut matches);
    matches.iter().collect()
}
