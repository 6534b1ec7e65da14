//! Writes the bundled names to tables and looks names up in them: every scene measures in this way.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter_table::{TableOptions, TableSet, TableSummary, TableWriter};

use super::keys::BundledKeys;
use crate::build::report::{FilterGroup, TableLine, group};
use crate::files;
use crate::filters::context;

/// A name and its value.
pub(super) type Entry<'a> = (&'a [u8], &'a [u8]);

/// Tables that together hold all present names.
pub(super) struct Tables {
    /// The oldest first.
    pub(super) written: Vec<TableSummary>,
}

impl Tables {
    /// Writes the name at each index to table `table_of(index)` of `count`, in a new directory.
    pub(super) fn write(
        keys: &BundledKeys,
        directory: &Path,
        options: &TableOptions,
        count: usize,
        table_of: impl Fn(usize) -> usize,
    ) -> anyhow::Result<Self> {
        fs::create_dir(directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
        let mut dealt = vec![Vec::new(); count];
        keys.present.iter().enumerate().for_each(|(index, entry)| dealt[table_of(index)].push(entry));
        let (options, mut written) = (options.clone().with_context(context()), Vec::new());
        for (number, entries) in (1..).zip(dealt) {
            let mut writer = TableWriter::create(directory.join(files::table_name(number)), &options)?;
            entries.iter().try_for_each(|(name, value)| writer.add(name, value))?;
            written.push(writer.finish()?);
        }
        Ok(Self { written })
    }

    /// Returns what the filters have in common.
    pub(super) fn filters(&self) -> anyhow::Result<FilterGroup> {
        let mut groups = group(&self.written.iter().map(TableLine::new).collect::<Vec<_>>());
        ensure!(groups.len() == 1, "the tables have filters of {} kinds", groups.len());
        Ok(groups.swap_remove(0))
    }

    /// Returns the bytes of all filters and range filters.
    pub(super) fn filter_bytes(&self) -> u64 {
        self.written.iter().map(|table| table.filter_bytes + table.range_filter_bytes).sum()
    }

    /// Opens the tables with their indexes, which then stay in memory: lookups and scans read only data blocks and
    /// filters.
    pub(super) fn open(&self, options: &TableOptions) -> anyhow::Result<TableSet> {
        let paths = self.written.iter().filter_map(|table| table.path.as_ref());
        let set = TableSet::open((1..).zip(paths), options)?;
        for table in set.snapshot().tables(0) {
            ensure!(table.filter_problem().is_none(), "a filter cannot be used");
            table.check_index()?;
        }
        Ok(set)
    }
}

/// The cost of lookups of absent names.
#[derive(Debug, Serialize)]
pub(super) struct LookupFigures {
    pub(super) absent_lookups: u64,
    pub(super) data_block_reads_per_absent_lookup: f64,
    pub(super) bytes_read_per_absent_lookup: f64,
    pub(super) ns_per_absent_lookup: f64,
}

/// Looks up names that no table has.
pub(super) fn look_up_absent<'a>(
    set: &TableSet,
    names: impl Iterator<Item = Entry<'a>>,
) -> anyhow::Result<LookupFigures> {
    let (before, begun, mut absent_lookups) = (set.stats(), Instant::now(), 0);
    for (name, _) in names {
        // Checked while it is timed: a wrong answer must not pass for a fast one.
        ensure!(set.get(name)?.is_none(), "{}: found, but was never written", name.escape_ascii());
        absent_lookups += 1;
    }
    let (elapsed, after, lookups) = (begun.elapsed(), set.stats(), absent_lookups as f64);
    Ok(LookupFigures {
        absent_lookups,
        data_block_reads_per_absent_lookup: (after.data_block_reads - before.data_block_reads) as f64 / lookups,
        bytes_read_per_absent_lookup: (after.bytes_read - before.bytes_read) as f64 / lookups,
        ns_per_absent_lookup: elapsed.as_nanos() as f64 / lookups,
    })
}

/// Returns how many of these names are not found with their own value.
pub(super) fn false_negatives<'a>(set: &TableSet, names: impl Iterator<Item = Entry<'a>>) -> anyhow::Result<u64> {
    names.map(|(name, value)| Ok(u64::from(set.get(name)?.as_deref() != Some(value)))).sum()
}
