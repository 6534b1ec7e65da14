//! The rows that all processes know by the number of their batch.

use std::collections::BTreeMap;

/// Rows of one batch.
const BATCH: u64 = 250;

/// A key, and its value, or none if it is deleted.
pub(crate) type Row = (String, Option<String>);

/// Returns a batch: new keys, and from the second one on also some old ones, rewritten or deleted.
pub(crate) fn batch(number: u64) -> Vec<Row> {
    let first = number * BATCH;
    let value = move |row: u64| Some(format!("batch {number} of {row:0>80}"));
    let new = (first..first + BATCH).map(|row| (key(row * 2), value(row)));
    let updated = (first / 2..first / 2 + BATCH / 10).map(|row| (key(row * 2), value(row)));
    let deleted = (first / 3..first / 3 + BATCH / 10).map(|row| (key(row * 2), None));
    if number == 0 { new.collect() } else { new.chain(updated).chain(deleted).collect() }
}

/// Returns the keys of the first batches, with their values after all of them.
pub(crate) fn after(batches: u64) -> BTreeMap<String, Option<String>> {
    (0..batches).flat_map(batch).collect()
}

/// Returns keys that no batch has.
pub(crate) fn absent() -> Vec<String> {
    (0..400).map(|number| key(number * 2 + 1)).collect()
}

/// Spreads keys over one range, so that every SST of level 0 covers nearly all of them.
fn key(number: u64) -> String {
    // The finalizer of SplitMix64, a bijection: different numbers yield different keys.
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", mixed ^ (mixed >> 31))
}
