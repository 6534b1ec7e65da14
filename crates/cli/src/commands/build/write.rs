//! Distributes the entries over tables.
//!
//! In every layout, tables are written one after the other: the entries of the n-th table follow from their numbers, so
//! that a thousand overlapping tables need the memory and the open files of one.

use std::borrow::Cow;

use anyhow::{Context, ensure};
use sstfilter::KeyHasher;
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
    fn entry(&self, index: u64) -> (Cow<'_, [u8]>, Cow<'_, [u8]>) {
        match self {
            // Never fails, because all lines are in memory.
            Self::Lines(lines) => {
                let (key, value) = usize::try_from(index).map_or((&[][..], &[][..]), |index| lines.entry(index));
                (Cow::Borrowed(key), Cow::Borrowed(value))
            }
            Self::Generated(_) => {
                let key = format!("user:{index:012}:profile").into_bytes();
                let letters = (0..3).flat_map(|seed| KeyHasher::with_seed(seed).hash(&key).get().to_le_bytes());
                let value = letters.map(|byte| LETTERS[usize::from(byte % 64)]).collect();
                (Cow::Owned(key), Cow::Owned(value))
            }
        }
    }
}

/// Values consist of 64 printable characters: a terminal can show them, and they compress about as badly as real ones.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Writes all tables of one build.
pub(super) struct Writer<'a> {
    source: &'a Source,
    directory: &'a Directory,
    options: &'a TableOptions,
    progress: Progress,
    written: Vec<TableSummary>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(source: &'a Source, directory: &'a Directory, options: &'a TableOptions) -> Self {
        let progress = Progress::new("writing tables", source.len());
        Self { source, directory, options, progress, written: Vec::new() }
    }

    /// Writes tables of about this size, or this number of them: entry `i` goes to table `i` modulo their number, so
    /// that all key ranges overlap, unless each gets its own key range.
    pub(super) fn write(
        mut self,
        tables: Option<u64>,
        is_consecutive: bool,
        table_bytes: u64,
    ) -> anyhow::Result<Vec<TableSummary>> {
        let entries = self.source.len();
        let Some(tables) = tables else {
            let mut next = 0;
            while next < entries {
                next += self.write_table(next..entries, self.options, Some(table_bytes))?;
            }
            return Ok(self.written);
        };
        // In 128 bits, because the product of entries and tables may exceed 64.
        let bound = |table: u64| u64::try_from(u128::from(entries) * u128::from(table) / u128::from(tables));
        for table in 0..tables {
            let (indices, step) =
                if is_consecutive { (bound(table)?..bound(table + 1)?, 1) } else { (table..entries, tables) };
            let count = (indices.end - indices.start).div_ceil(step);
            let options = self.options.clone().with_context(self.options.context().with_expected_keys(count));
            self.write_table(indices.step_by(usize::try_from(step)?), &options, None)?;
        }
        Ok(self.written)
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
        let context = || format!("cannot write {}; {remains}", path_name(&path));
        for index in indices {
            let (key, value) = self.source.entry(index);
            writer.add(&key, &value).with_context(context)?;
            self.ensure_wanted()?;
            self.progress.step();
            if table_bytes.is_some_and(|limit| writer.estimated_bytes() >= limit) {
                break;
            }
        }
        ensure!(!path.try_exists().with_context(context)?, "{}: another process wrote it", path_name(&path));
        let summary = writer.finish().with_context(context)?;
        let entries = summary.properties.entries;
        self.written.push(summary);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_ascend_and_values_differ() {
        let entry = |index| Source::Generated(u64::MAX).entry(index);
        assert_eq!(*entry(12_345).0, *b"user:000000012345:profile");
        for index in [0, 9, 99_999, 999_999_999_998] {
            assert!(entry(index).0 < entry(index + 1).0);
            assert_ne!(entry(index).1, entry(index + 1).1);
        }
    }
}
