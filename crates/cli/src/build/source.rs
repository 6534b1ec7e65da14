//! The entries to write: sorted lines in memory, or entries generated from numbers on demand.

use std::path::Path;

use crate::lines::{KeyLines, KeysFormat, MemoryLimit};
use crate::{input, progress};

/// Entries in ascending order of their keys, each once.
pub(super) enum Source {
    /// Lines of a file.
    Lines(KeyLines),
    /// Entry `i` is generated from the number `i`.
    Generated {
        /// Number of entries.
        entries: u64,
        /// Length of each value.
        value_bytes: usize,
    },
}

/// Buffers for one generated entry, reused for the next.
#[derive(Default)]
pub(super) struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Source {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.len() as u64,
            Self::Generated { entries, .. } => *entries,
        }
    }

    /// Returns key and value of entry `index`, which is below [`len`](Self::len).
    pub(super) fn entry<'a>(&'a self, index: u64, scratch: &'a mut Scratch) -> (&'a [u8], &'a [u8]) {
        match self {
            // Never fails, because all lines are in memory.
            Self::Lines(lines) => usize::try_from(index).map_or((&[], &[]), |index| lines.entry(index)),
            Self::Generated { value_bytes, .. } => {
                scratch.generate(index, *value_bytes);
                (&scratch.key, &scratch.value)
            }
        }
    }
}

impl Scratch {
    fn generate(&mut self, index: u64, value_bytes: usize) {
        self.key.clear();
        self.key.extend_from_slice(b"user:000000000000:profile");
        // Digits are written by hand: formatting takes a fifth of the time of a build.
        let mut rest = index;
        for digit in self.key[5..17].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.value.clear();
        let mut state = index;
        while self.value.len() < value_bytes {
            let word = next_word(&mut state).to_le_bytes();
            let room = (value_bytes - self.value.len()).min(word.len());
            self.value.extend(word.iter().take(room).map(|byte| LETTERS[usize::from(byte % 64)]));
        }
    }
}

/// Values consist of 64 printable characters: a terminal can show them, and they compress about as badly as real ones.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the next number of a `SplitMix64` sequence (Steele, Lea, Flood 2014).
fn next_word(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Reads the entries of a file and sorts them.
pub(super) fn read_lines(path: &Path, format: KeysFormat, memory_limit: Option<u64>) -> anyhow::Result<KeyLines> {
    let _progress = progress::bytes("reading and sorting", input::length(path).unwrap_or(0));
    let available = MemoryLimit::default();
    let bytes = memory_limit.unwrap_or(available.bytes);
    let limit = MemoryLimit { bytes, advice: "split it, or raise --memory-limit" };
    let mut lines = KeyLines::read_within(path, format, "--input", limit)?;
    lines.sort_and_dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(index: u64, value_bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let source = Source::Generated { entries: u64::MAX, value_bytes };
        let mut scratch = Scratch::default();
        let (key, value) = source.entry(index, &mut scratch);
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn generated_keys_ascend_and_values_have_the_length_asked_for() {
        assert_eq!(generated(12_345, 0), (b"user:000000012345:profile".to_vec(), Vec::new()));
        for index in [0, 9, 99_999, 999_999_999_998] {
            assert!(generated(index, 24).0 < generated(index + 1, 24).0);
            assert_eq!(generated(index, 27).1.len(), 27);
        }
        assert_ne!(generated(1, 24).1, generated(2, 24).1);
    }
}
