//! Distributes the entries over tables.
//!
//! In every layout, tables are written one after the other: the entries of the n-th table follow from their numbers, so
//! that a thousand overlapping tables need the memory and the open files of one.

use anyhow::Context;
use sstfilter_table::{TableOptions, TableSummary, TableWriter};

use super::directory::Directory;
use crate::file::key_list::KeyLines;
use crate::file::names::table_name;
use crate::system::interrupt;
use crate::system::progress::Progress;
use crate::words::escape::path_name;

/// Entries in ascending order of their keys, each once.
pub(super) enum Source {
    /// Lines of a file.
    Lines(KeyLines),
    /// This number of entries, each generated from its number.
    Generated(u64),
}

impl Source {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.len() as u64,
            Self::Generated(entries) => *entries,
        }
    }

    /// Returns key and value of entry `index`, which is below [`len`](Self::len).
    fn entry<'a>(&'a self, index: u64, generated: &'a mut Generated) -> (&'a [u8], &'a [u8]) {
        match self {
            // Never fails, because all lines are in memory.
            Self::Lines(lines) => usize::try_from(index).map_or((&[], &[]), |index| lines.entry(index)),
            Self::Generated(_) => {
                generated.become_entry(index);
                (&generated.key, &generated.value)
            }
        }
    }
}

/// A generated entry.
struct Generated {
    key: [u8; 25],
    value: [u8; 24],
}

/// Values consist of 64 printable characters: a terminal can show them, and they compress about as badly as real ones.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Generated {
    fn new() -> Self {
        Self { key: *b"user:000000000000:profile", value: [0; 24] }
    }

    fn become_entry(&mut self, index: u64) {
        // Digits are written by hand: formatting takes a fifth of the time of a build.
        let mut rest = index;
        for digit in self.key[5..17].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let mut state = index;
        for letters in self.value.chunks_mut(8) {
            for (letter, byte) in letters.iter_mut().zip(next_word(&mut state).to_le_bytes()) {
                *letter = LETTERS[usize::from(byte % 64)];
            }
        }
    }
}

/// Returns the next number of a `SplitMix64` sequence (Steele, Lea, Flood 2014).
fn next_word(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// How entries are distributed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Tables of about this size in bytes.
    Sized(u64),
    /// Entry `i` goes to table `i mod tables`, so that all key ranges overlap.
    Dealt(u64),
    /// Each of this number of tables gets its own key range; all have about the same number of entries.
    Consecutive(u64),
}

/// Writes all tables of one build.
pub(super) struct Writer<'a> {
    source: &'a Source,
    directory: &'a Directory,
    options: &'a TableOptions,
    progress: Progress,
    generated: Generated,
    written: Vec<TableSummary>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(source: &'a Source, directory: &'a Directory, options: &'a TableOptions) -> Self {
        let progress = Progress::new("writing tables", source.len());
        Self { source, directory, options, progress, generated: Generated::new(), written: Vec::new() }
    }

    pub(super) fn write(mut self, layout: Layout) -> anyhow::Result<Vec<TableSummary>> {
        let entries = self.source.len();
        match layout {
            Layout::Sized(bytes) => {
                let mut next = 0;
                while next < entries {
                    next += self.write_table(next..entries, self.options, Some(bytes))?;
                }
            }
            Layout::Dealt(tables) => {
                for table in 0..tables {
                    let indices = (table..entries).step_by(usize::try_from(tables)?);
                    self.write_known(indices, (entries - table).div_ceil(tables))?;
                }
            }
            Layout::Consecutive(tables) => {
                // In 128 bits, because the product of entries and tables may exceed 64.
                let bound = |table: u64| u64::try_from(u128::from(entries) * u128::from(table) / u128::from(tables));
                for table in 0..tables {
                    let (from, to) = (bound(table)?, bound(table + 1)?);
                    self.write_known(from..to, to - from)?;
                }
            }
        }
        Ok(self.written)
    }

    /// Writes one table of `count` entries.
    fn write_known(&mut self, indices: impl Iterator<Item = u64>, count: u64) -> anyhow::Result<u64> {
        let context = self.options.context().with_expected_keys(count);
        self.write_table(indices, &self.options.clone().with_context(context), None)
    }

    /// Fails if a signal has interrupted the build.
    fn ensure_wanted(&self) -> anyhow::Result<()> {
        let complete = || format!("complete tables in {}: {}", path_name(&self.directory.path), self.written.len());
        Ok(interrupt::check(|| self.directory.old_tables().unwrap_or_else(complete))?)
    }

    /// Writes one table, which ends when its file would have `table_bytes`. Returns the number of its entries.
    fn write_table(
        &mut self,
        indices: impl Iterator<Item = u64>,
        options: &TableOptions,
        table_bytes: Option<u64>,
    ) -> anyhow::Result<u64> {
        let complete = self.written.len();
        let path = self.directory.place().join(table_name(complete as u64 + 1));
        self.ensure_wanted()?;
        let begun = TableWriter::create(&path, options);
        let mut writer = begun.with_context(|| format!("cannot begin {}", path_name(&path)))?;
        // For the message: what a failed build leaves.
        let remains = self.directory.old_tables();
        let remains = remains.unwrap_or_else(|| format!("{complete} tables before it are complete"));
        let context = || format!("cannot write table {}; {remains}", complete + 1);
        for index in indices {
            let (key, value) = self.source.entry(index, &mut self.generated);
            writer.add(key, value).with_context(context)?;
            self.ensure_wanted()?;
            self.progress.step();
            if table_bytes.is_some_and(|limit| writer.estimated_bytes() >= limit) {
                break;
            }
        }
        let summary = writer.finish().with_context(context)?;
        let entries = summary.properties.entries;
        self.written.push(summary);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(index: u64) -> (Vec<u8>, Vec<u8>) {
        let (source, mut entry) = (Source::Generated(u64::MAX), Generated::new());
        let (key, value) = source.entry(index, &mut entry);
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn generated_keys_ascend_and_values_differ() {
        assert_eq!(generated(12_345).0, b"user:000000012345:profile");
        for index in [0, 9, 99_999, 999_999_999_998] {
            assert!(generated(index).0 < generated(index + 1).0);
            assert_ne!(generated(index).1, generated(index + 1).1);
        }
    }
}
