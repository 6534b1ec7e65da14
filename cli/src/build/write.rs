//! Deals the entries to tables.
//!
//! Whatever the layout, tables are written one after the other: the n-th table's entries can be told from
//! the numbers alone, so that a thousand overlapping tables need the memory and the open files of one.

use anyhow::Context;
use sstfilter::sst::{TableOptions, TableSummary, TableWriter};

use super::directory::Directory;
use super::source::{Scratch, Source};
use crate::progress::Progress;

/// Which entries go to which table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Entry `i` goes to table `i mod tables`: all ranges overlap.
    RoundRobin { tables: u64 },
    /// Each table holds a range of its own, all of about the same number of entries.
    Ranges { tables: u64 },
    /// Each table holds a range of its own, and ends when its file would have this size.
    RollOver { table_bytes: u64 },
}

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

    /// Writes the entries as `layout` says.
    pub(super) fn write(mut self, layout: Layout) -> anyhow::Result<Vec<TableSummary>> {
        let entries = self.source.len();
        match layout {
            Layout::RoundRobin { tables } => {
                for table in 0..tables {
                    self.write_known(
                        (table..entries).step_by(usize::try_from(tables)?),
                        (entries - table).div_ceil(tables),
                    )?;
                }
            }
            Layout::Ranges { tables } => {
                let bound = |table: u64| u64::try_from(u128::from(entries) * u128::from(table) / u128::from(tables));
                for table in 0..tables {
                    let (from, to) = (bound(table)?, bound(table + 1)?);
                    self.write_known(from..to, to - from)?;
                }
            }
            Layout::RollOver { table_bytes } => {
                let mut next = 0;
                while next < entries {
                    next = self.write_up_to(next, table_bytes)?;
                }
            }
        }
        Ok(self.written)
    }

    /// Writes one table of `count` entries.
    fn write_known(&mut self, indices: impl Iterator<Item = u64>, count: u64) -> anyhow::Result<()> {
        let context = self.options.context().clone().with_expected_keys(count);
        let mut writer = self.begin(&self.options.clone().with_context(context))?;
        for index in indices {
            self.add(&mut writer, index)?;
        }
        self.finish(writer)
    }

    /// Writes one table from entry `from` on, to about `table_bytes`; gives the first entry left.
    fn write_up_to(&mut self, from: u64, table_bytes: u64) -> anyhow::Result<u64> {
        let mut writer = self.begin(self.options)?;
        let mut next = from;
        while next < self.source.len() && (next == from || writer.estimated_bytes() < table_bytes) {
            self.add(&mut writer, next)?;
            next += 1;
        }
        self.finish(writer)?;
        Ok(next)
    }

    fn begin(&self, options: &TableOptions) -> anyhow::Result<TableWriter> {
        let path = self.directory.table_path(self.written.len() as u64 + 1);
        TableWriter::create(&path, options).with_context(|| format!("cannot begin {}", path.display()))
    }

    fn add(&mut self, writer: &mut TableWriter, index: u64) -> anyhow::Result<()> {
        let (key, value) = self.source.entry(index, &mut self.scratch);
        writer.add(key, value).with_context(|| self.unfinished())?;
        self.progress.step();
        Ok(())
    }

    fn finish(&mut self, writer: TableWriter) -> anyhow::Result<()> {
        let summary = writer.finish().with_context(|| self.unfinished())?;
        self.written.push(summary);
        Ok(())
    }

    /// What stands of the build when it fails.
    fn unfinished(&self) -> String {
        let finished = self.written.len();
        format!("cannot write table {}; {finished} tables before it are complete", finished + 1)
    }
}
