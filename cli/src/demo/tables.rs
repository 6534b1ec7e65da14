//! The tables of the demonstration: written, opened, and asked for every key that they hold.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use sstfilter::{BitsPerKey, BloomPolicy, BuildPurpose, FilterPolicy, RibbonPolicy, RibbonSizing};
use sstfilter::{ReadOptions, TableOptions, TableSet, TableSummary, TableWriter};

use crate::keys::BundledKeys;
use crate::progress::Progress;

/// What the tables' filters are asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Bloom,
    Ribbon,
}

impl Asked {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Bloom => "bloom",
            Self::Ribbon => "ribbon",
        }
    }

    /// Bloom at 10 bits per key, and Ribbon at the rate that this gives.
    pub(super) fn policy(self) -> anyhow::Result<Option<Arc<dyn FilterPolicy>>> {
        Ok(match self {
            Self::Nothing => None,
            Self::Bloom => Some(Arc::new(BloomPolicy::new(BitsPerKey::TEN))),
            Self::Ribbon => Some(Arc::new(RibbonPolicy::new(RibbonSizing::SameRateAsBloom(BitsPerKey::TEN))?)),
        })
    }
}

/// Tables on disk, opened.
pub(super) struct Tables {
    pub(super) set: TableSet,
    pub(super) summaries: Vec<TableSummary>,
}

/// Deals the sorted keys to `count` tables, key `i` to table `i mod count`, and opens them newest first.
pub(super) fn write(keys: &BundledKeys, directory: &Path, asked: Asked, count: usize) -> anyhow::Result<Tables> {
    let directory = directory.join(format!("{}-{count}", asked.name()));
    std::fs::create_dir(&directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let options = TableOptions::default().with_purpose(BuildPurpose::Compaction);
    let options = match asked.policy()? {
        Some(policy) => options.with_policy(policy),
        None => options.without_filter(),
    };
    let mut progress = Progress::new("writing tables", keys.present.len() as u64);
    let mut summaries = Vec::with_capacity(count);
    for number in 0..count {
        let path = directory.join(crate::files::table_name(number as u64 + 1));
        let mut writer = TableWriter::create(path, &options)?;
        for (key, value) in keys.present.iter().skip(number).step_by(count) {
            writer.add(key, value)?;
            progress.step();
        }
        summaries.push(writer.finish()?);
    }
    let newest_first = crate::files::tables_newest_first(&directory)?;
    Ok(Tables { set: TableSet::open(newest_first, &ReadOptions::default())?, summaries })
}

/// Keys that were not found with their own value.
pub(super) fn false_negatives(set: &TableSet, keys: &BundledKeys, every: usize) -> anyhow::Result<u64> {
    let mut progress = Progress::new("looking for every key", keys.present.len().div_ceil(every) as u64);
    let mut lost = 0;
    for (key, value) in keys.present.iter().step_by(every) {
        lost += u64::from(set.get(key)?.as_deref() != Some(value));
        progress.step();
    }
    Ok(lost)
}
