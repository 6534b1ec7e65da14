//! The keys, and their distribution over files.
//!
//! Keys stand for ordinals, in the same order. The even ordinals are present, dealt to the files in turn, so that every
//! file spans the whole range. The odd ones are absent: each lies between two present neighbours and differs from them
//! only in the last digits.

use std::fmt;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// Keys of a batch.
pub(crate) const BATCH: usize = 32;

/// The number and size of the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) files: usize,
    pub(crate) keys_per_file: usize,
}

impl Scenario {
    pub(crate) fn new(files: usize, keys_per_file: usize) -> Self {
        Self { files, keys_per_file }
    }

    pub(crate) fn keys(self) -> usize {
        self.files * self.keys_per_file
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files {
            1 => write!(f, "1 file of {} keys", self.keys_per_file),
            files => write!(f, "{files} overlapping files of {} keys", self.keys_per_file),
        }
    }
}

/// The contents of an engine, and its queries.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) scenario: Scenario,
    /// Keys that no file contains, in random order.
    pub(crate) absent: Vec<String>,
    /// Keys that a file contains, in random order.
    pub(crate) present: Vec<String>,
}

impl Data {
    pub(crate) fn new(scenario: Scenario, queries: usize) -> Self {
        let keys = scenario.keys() as u64;
        // The same keys in every run, so that false positives do not vary.
        let random = |seed: u64, bound: u64| (0..queries as u64).map(move |i| mixed(i ^ (seed << 32)) % bound);
        // Below the last present key, so that the key range of the files excludes no query.
        let absent = random(1, keys - 1).map(|i| key(2 * i + 1)).collect();
        let present = random(2, keys).map(|i| key(2 * i)).collect();
        Self { scenario, absent, present }
    }

    /// Returns the entries of file `file`, in key order.
    pub(crate) fn entries(&self, file: usize) -> impl Iterator<Item = (String, [u8; VALUE_BYTES])> {
        let step = self.scenario.files;
        (file..self.scenario.keys()).step_by(step).map(|i| (key(2 * i as u64), value(2 * i as u64)))
    }
}

/// Keys as engines take them.
pub(crate) fn views(keys: &[String]) -> Vec<&[u8]> {
    keys.iter().map(String::as_bytes).collect()
}

/// Makes a key of 16 to 20 bytes: digits that keep the order, and a tail that varies the length.
fn key(ordinal: u64) -> String {
    const TAIL: &str = "abcde";
    let tail_bytes = 1 + usize::try_from(mixed(ordinal) % 5).unwrap_or(0);
    format!("item{ordinal:011}{}", &TAIL[..tail_bytes])
}

fn value(ordinal: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (part, seed) in value.chunks_mut(8).zip(ordinal << 8..) {
        part.copy_from_slice(&mixed(seed).to_le_bytes()[..part.len()]);
    }
    value
}

/// The finalizer of `SplitMix64`, with its increment.
fn mixed(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn files_are_sorted_and_disjoint_and_each_spans_nearly_the_whole_range() {
        let data = Data::new(Scenario::new(7, 50), 64);
        let mut all = BTreeSet::new();
        for file in 0..7 {
            let keys: Vec<String> = data.entries(file).map(|(key, _)| key).collect();
            assert!(keys.is_sorted() && keys.len() == 50);
            assert!(keys[0] <= key(2 * 6) && keys[49] >= key(2 * (350 - 7)));
            assert!(keys.into_iter().all(|key| all.insert(key)));
        }
        assert!(all.iter().all(|key| (16..=20).contains(&key.len())));
    }

    #[test]
    fn absent_keys_are_absent_and_in_range_and_present_ones_are_present() {
        let data = Data::new(Scenario::new(3, 40), 96);
        let all: BTreeSet<String> = (0..3).flat_map(|file| data.entries(file)).map(|(key, _)| key).collect();
        let (first, last) = (all.first().unwrap().as_bytes(), all.last().unwrap().as_bytes());
        let is_present = |key: &[u8]| all.contains(std::str::from_utf8(key).unwrap());
        assert!(views(&data.absent).iter().all(|key| !is_present(key) && first < *key && *key < last));
        assert!(views(&data.present).into_iter().all(is_present));
    }
}
