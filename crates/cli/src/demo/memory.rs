//! Measures the same skewed lookups with less and less memory for filters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FixedPolicy, KeyHash};
use sstfilter_store::{FilterBudget, PartitionCut, PartitionOptions};
use sstfilter_table::{TableOptions, TableSet, TableWriter};

use super::keys::BundledKeys;
use super::on_all_cores;
use crate::files;
use crate::filters::context;

/// Number of files: few, so that each filter has several partitions.
pub(super) const FILES: usize = 8;

/// The minimum size of partitions, because these filters have only 7 KiB. Stores use 4 to 64 KiB.
pub(super) const PARTITION_BYTES: u32 = 1 << 10;

/// Memory in percent of the size of all filters.
const MEMORY_PERCENT: [u64; 4] = [100, 50, 25, 10];

const LOOKUPS: usize = 20_000;

/// Without filters, each key costs eight reads, so each of the four designs looks up every fourth key; together they
/// look up every key.
const DESIGNS: usize = 4;

/// The exponent of the distribution of looked-up names, the same as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;

/// The cost of lookups with a given amount of memory, for each way to handle filters that do not fit.
#[derive(Debug, Serialize)]
pub(super) struct MemoryFigures {
    pub(super) memory_percent: u64,
    pub(super) memory_bytes: u64,
    pub(super) kept_or_dropped: DesignFigures,
    pub(super) shrunk: DesignFigures,
    pub(super) partitions: DesignFigures,
    pub(super) shrunk_partitions: DesignFigures,
}

impl MemoryFigures {
    pub(super) fn designs(&self) -> [&DesignFigures; 4] {
        [&self.kept_or_dropped, &self.shrunk, &self.partitions, &self.shrunk_partitions]
    }
}

#[derive(Debug, Serialize)]
pub(super) struct DesignFigures {
    pub(super) data_block_reads_per_absent_lookup: f64,
    pub(super) filter_bytes_read_per_absent_lookup: f64,
    pub(super) false_negatives: u64,
}

pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<[MemoryFigures; 4]> {
    let whole = write(keys, directory, None)?;
    let partitions = PartitionOptions::new(PartitionCut::KeyRange, PARTITION_BYTES)?;
    let partitioned = write(keys, directory, Some(partitions))?;
    let names = skewed_lookups(keys.absent.len());
    let figures = on_all_cores("looking up with less memory", &MEMORY_PERCENT, |&memory_percent| {
        let memory_bytes = whole.filter_bytes * memory_percent / 100;
        let of = |design, files: &Files, budget: FilterBudget| measure_design(keys, &names, files, &budget, design);
        let budget = || FilterBudget::new(memory_bytes);
        Ok(MemoryFigures {
            memory_percent,
            memory_bytes,
            kept_or_dropped: of(0, &whole, budget().without_shrinking())?,
            shrunk: of(1, &whole, budget())?,
            partitions: of(2, &partitioned, budget().without_shrinking())?,
            shrunk_partitions: of(3, &partitioned, budget())?,
        })
    })?;
    figures.try_into().ok().context("a row for a size of memory is missing")
}

/// The written tables, the newest first.
struct Files {
    paths: Vec<PathBuf>,
    filter_bytes: u64,
}

/// Deals the sorted keys to the files, each with a Ribbon filter.
fn write(keys: &BundledKeys, directory: &Path, partitions: Option<PartitionOptions>) -> anyhow::Result<Files> {
    let directory = directory.join(if partitions.is_some() { "partitioned" } else { "whole" });
    std::fs::create_dir(&directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
    let policy = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?);
    let options = TableOptions::default().with_context(context()).with_policy(Arc::new(policy));
    let options = match partitions {
        Some(partitions) => options.with_partitioned_filter(partitions),
        None => options,
    };
    let (mut paths, mut filter_bytes) = (Vec::new(), 0);
    for number in 0..FILES {
        let path = directory.join(files::table_name(number as u64 + 1));
        let mut writer = TableWriter::create(&path, &options)?;
        for (key, value) in keys.present.iter().skip(number).step_by(FILES) {
            writer.add(key, value)?;
        }
        filter_bytes += writer.finish()?.filter_bytes;
        paths.push(path);
    }
    // The set expects the newest table first.
    paths.reverse();
    Ok(Files { paths, filter_bytes })
}

fn measure_design(
    keys: &BundledKeys,
    names: &[usize],
    files: &Files,
    budget: &FilterBudget,
    design: usize,
) -> anyhow::Result<DesignFigures> {
    let set = TableSet::open(
        (0..).zip(files.paths.iter().rev()),
        &TableOptions::default().with_filter_budget(budget.clone()),
    )?;
    for &name in names {
        let (key, _) = keys.absent.entry(name);
        ensure!(set.get(key)?.is_none(), "{}: found, but was never written", key.escape_ascii());
    }
    let lookups = names.len() as f64;
    // Taken before the lookups of present keys, which must not count.
    let reads = set.stats().data_block_reads;
    let mut false_negatives = 0;
    let filter_bytes = budget.stats().loaded_bytes;
    for (key, value) in keys.present.iter().skip(design).step_by(DESIGNS) {
        false_negatives += u64::from(set.get(key)?.as_deref() != Some(value));
    }
    Ok(DesignFigures {
        data_block_reads_per_absent_lookup: reads as f64 / lookups,
        filter_bytes_read_per_absent_lookup: filter_bytes as f64 / lookups,
        false_negatives,
    })
}

/// Returns the index of the name, among `count` sorted ones, for each lookup. The distribution is Zipf's; names next to
/// each other are about equally popular.
fn skewed_lookups(count: usize) -> Vec<usize> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF_EXPONENT);
            sum
        })
        .collect();
    // Well-mixed numbers of 53 bits, as many as an `f64` holds exactly, the same in each run.
    let uniform = |lookup: usize| (KeyHash::mix(lookup as u64).get() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..LOOKUPS)
        .map(|lookup| cumulative.partition_point(|&below| below <= uniform(lookup) * sum).min(count - 1))
        .collect()
}
