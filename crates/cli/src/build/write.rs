//! Distributes the entries over tables.
//!
//! In every layout, tables are written one after the other: the entries of the n-th table follow from their numbers, so
//! that a thousand overlapping tables need the memory and the open files of one.

use anyhow::Context;
use sstfilter_table::{TableOptions, TableSummary, TableWriter};

use super::directory::Directory;
use super::source::{Scratch, Source};
use crate::args::BuildArgs;
use crate::output::path_name;
use crate::progress::Progress;
use crate::{files, interrupt};

/// Writes all tables of one build.
pub(super) struct Writer<'a> {
    source: &'a Source,
    directory: &'a Directory,
    options: &'a TableOptions,
    progress: Progress,
    scratch: Scratch,
    written: Vec<TableSummary>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(source: &'a Source, directory: &'a Directory, options: &'a TableOptions) -> Self {
        let progress = Progress::new("writing tables", source.len());
        Self { source, directory, options, progress, scratch: Scratch::default(), written: Vec::new() }
    }

    /// Writes the entries to the number of tables in `args`, or to tables of the size in `args`.
    pub(super) fn write(mut self, args: &BuildArgs) -> anyhow::Result<Vec<TableSummary>> {
        let entries = self.source.len();
        let Some(tables) = args.files else {
            let mut next = 0;
            while next < entries {
                next += self.write_table(next..entries, self.options, Some(args.table_bytes))?;
            }
            return Ok(self.written);
        };
        // In 128 bits, because the product of entries and tables may exceed 64.
        let bound = |table: u64| u64::try_from(u128::from(entries) * u128::from(table) / u128::from(tables));
        for table in 0..tables {
            if args.consecutive {
                // Each table gets its own key range; all have about the same number of entries.
                let (from, to) = (bound(table)?, bound(table + 1)?);
                self.write_known(from..to, to - from)?;
            } else {
                // Entry `i` goes to table `i mod tables`, so that all ranges overlap.
                let indices = (table..entries).step_by(usize::try_from(tables)?);
                self.write_known(indices, (entries - table).div_ceil(tables))?;
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
        let path = self.directory.place().join(files::table_name(complete as u64 + 1));
        self.ensure_wanted()?;
        let begun = TableWriter::create(&path, options);
        let mut writer = begun.with_context(|| format!("cannot begin {}", path_name(&path)))?;
        // For the message: what a failed build leaves.
        let remains = self.directory.old_tables();
        let remains = remains.unwrap_or_else(|| format!("{complete} tables before it are complete"));
        let context = || format!("cannot write table {}; {remains}", complete + 1);
        for index in indices {
            let (key, value) = self.source.entry(index, &mut self.scratch);
            writer.add(key, value).with_context(context)?;
            self.ensure_wanted()?;
            self.progress.step();
            if table_bytes.is_some_and(|most| writer.estimated_bytes() >= most) {
                break;
            }
        }
        let summary = writer.finish().with_context(context)?;
        let entries = summary.properties.entries;
        self.written.push(summary);
        Ok(entries)
    }
}
