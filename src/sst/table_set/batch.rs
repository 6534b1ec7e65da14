//! Many keys at once.

use super::TableSet;
use crate::block::{PreparedKey, bits_of};

/// A key of a batch that no table has answered yet.
pub(super) struct Sought<'key> {
    /// Where its result goes.
    pub(super) slot: usize,
    pub(super) key: &'key [u8],
    /// What its range is compared by; `None` when it is outside of all ranges.
    number: Option<u64>,
    /// `None` when no filter can be asked for it.
    pub(super) probe: Option<PreparedKey>,
    /// The tables of the group at hand that have the key in their range.
    pub(super) in_range: u64,
    /// Those of them that may hold it.
    pub(super) candidates: u64,
}

impl<'key> Sought<'key> {
    pub(super) fn new(set: &TableSet, slot: usize, key: &'key [u8]) -> Self {
        let number = set.ranges.number_of(key);
        let probe = number.and_then(|_| set.probe_of(key));
        Self { slot, key, number, probe, in_range: 0, candidates: 0 }
    }
}

/// All `keys`, each with its place among them.
pub(super) fn sought<'key>(set: &TableSet, keys: &[&'key [u8]]) -> Vec<Sought<'key>> {
    (0..).zip(keys).map(|(slot, key)| Sought::new(set, slot, key)).collect()
}

/// Finds the candidates of all `keys` in one group of tables. While the filters are tested for one key,
/// the lines for a later one are fetched.
pub(super) fn probe_group(set: &TableSet, group: usize, keys: &mut [Sought<'_>]) {
    let mut wanted = 0;
    for key in keys.iter_mut() {
        key.in_range = set.in_range(group, key.key, key.number);
        key.candidates = key.in_range;
        wanted += key.in_range.count_ones() as usize;
    }
    let Some(filters) = set.filters.get(group) else { return };
    let ahead = set.distance.keys_ahead(wanted / keys.len().max(1));
    let hash_of = |key: &Sought<'_>| Some((key.probe.as_ref()?.hash(), key.in_range));
    for (hash, in_range) in keys.iter().take(ahead.unwrap_or(0)).filter_map(hash_of) {
        filters.fetch(hash, in_range);
    }
    for position in 0..keys.len() {
        let next = ahead.and_then(|ahead| keys.get(position + ahead)).and_then(hash_of);
        let Some(key) = keys.get_mut(position) else { return };
        if let Some(probe) = &mut key.probe {
            key.candidates = filters.probe_ahead(probe, key.in_range, next);
        }
    }
}

/// The positions of a group's bits in the set.
pub(super) fn positions(group: usize, bits: u64) -> impl Iterator<Item = usize> {
    bits_of(bits).map(move |bit| group * crate::block::GROUP + bit)
}
