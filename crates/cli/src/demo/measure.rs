//! Measures lookups of absent keys in 70 files with overlapping ranges, and Bloom against Ribbon for the same keys in
//! one compacted file.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, KeyHasher};
use sstfilter_map::MapOptions;
use sstfilter_store::FileStats;
use sstfilter_table::{TableOptions, TableSet, TableWriter};

use super::keys::BundledKeys;
use crate::build::report::{TableLine, group};
use crate::files::{self, TableReading};
use crate::filters::{build, context, count_one_by_one, timed};
use crate::lines::KeyLines;
use crate::progress::Progress;

/// Number of files.
pub(super) const FILES: usize = 70;

/// Without filters, every lookup reads all files, so one key in this many is enough.
const EVERY_WITHOUT_FILTERS: usize = 32;

/// The cost of lookups over the 70 files with one policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyFigures {
    pub(super) policy: &'static str,
    pub(super) data_block_reads_per_absent_lookup: f64,
    pub(super) bytes_read_per_absent_lookup: f64,
    pub(super) filter_bits_per_key: f64,
    pub(super) absent_lookups: u64,
    pub(super) present_lookups: u64,
    pub(super) false_negatives: u64,
    /// False positives over probes for absent keys; 1 without a filter.
    pub(super) observed_fpr: f64,
    pub(super) absent_probes: u64,
    pub(super) expected_fpr: f64,
    pub(super) ns_per_absent_lookup: f64,
    pub(super) filter_kind_used: &'static str,
    pub(super) fallback_reason: Option<&'static str>,
}

/// Measures no filter, Bloom at 10 bits per key, Ribbon at the same rate, and a file map instead of filters over the 70
/// files; then Bloom and Ribbon in one file.
pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<([PolicyFigures; 4], [KindFigures; 2])> {
    let bloom = FixedPolicy::default();
    let ribbon = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?);
    let scenario = [
        measure_policy(keys, directory, None)?,
        measure_policy(keys, directory, Some(&bloom))?,
        measure_policy(keys, directory, Some(&ribbon))?,
        measure_map(keys, directory)?,
    ];
    Ok((scenario, [measure_kind(keys, directory, &bloom)?, measure_kind(keys, directory, &ribbon)?]))
}

fn name(policy: Option<&FixedPolicy>) -> &'static str {
    policy.map_or("none", |policy| policy.kind().name())
}

/// Deals the sorted keys to `count` tables, key `i` to table `i mod count`, and opens them newest first.
fn write(
    keys: &BundledKeys,
    directory: &Path,
    policy: Option<&FixedPolicy>,
    count: usize,
) -> anyhow::Result<(TableSet, Vec<TableLine>)> {
    let directory = directory.join(format!("{}-{count}", name(policy)));
    std::fs::create_dir(&directory).with_context(|| format!("cannot create the directory {}", directory.display()))?;
    let options = TableOptions::default().with_context(context());
    let options = match policy {
        Some(policy) => options.with_policy(Arc::new(policy.clone())),
        None => options.without_filter(),
    };
    let mut progress = Progress::new("writing tables", keys.present.len() as u64);
    let mut written = Vec::new();
    for number in 0..count {
        let mut writer = TableWriter::create(directory.join(files::table_name(number as u64 + 1)), &options)?;
        for (key, value) in keys.present.iter().skip(number).step_by(count) {
            writer.add(key, value)?;
            progress.step();
        }
        written.push(TableLine::new(&writer.finish()?));
    }
    let (set, _) = files::open_set(&directory, TableReading::default())?;
    Ok((set, written))
}

/// Returns the number of keys that were not found with their own value.
fn false_negatives(set: &TableSet, keys: &BundledKeys, every: usize) -> anyhow::Result<u64> {
    let mut progress = Progress::new("looking for every key", keys.present.len().div_ceil(every) as u64);
    let mut lost = 0;
    for (key, value) in keys.present.iter().step_by(every) {
        lost += u64::from(set.get(key)?.as_deref() != Some(value));
        progress.step();
    }
    Ok(lost)
}

/// Looks up absent keys and returns the nanoseconds per lookup.
fn look_up_absent(set: &TableSet, keys: &BundledKeys, every: usize) -> anyhow::Result<f64> {
    let lookups = keys.absent.len().div_ceil(every) as u64;
    let mut progress = Progress::new("looking for absent keys", lookups);
    let begun = Instant::now();
    for (key, _) in keys.absent.iter().step_by(every) {
        // Checked while it is timed: a wrong answer must not pass for a fast one.
        ensure!(set.get(key)?.is_none(), "{}: found, but was never written", key.escape_ascii());
        progress.step();
    }
    Ok(begun.elapsed().as_nanos() as f64 / lookups as f64)
}

fn measure_policy(keys: &BundledKeys, directory: &Path, policy: Option<&FixedPolicy>) -> anyhow::Result<PolicyFigures> {
    let every = if policy.is_none() { EVERY_WITHOUT_FILTERS } else { 1 };
    let (set, written) = write(keys, directory, policy, FILES)?;
    let (figures, filters, _) = measure_set(keys, &set, every)?;
    let groups = group(&written);
    let first = groups.first().context("no table was written")?;
    let rate = || filters.filter.false_positives as f64 / figures.absent_probes as f64;
    Ok(PolicyFigures {
        policy: name(policy),
        filter_bits_per_key: first.bits_per_key,
        observed_fpr: if policy.is_some() { rate() } else { 1.0 },
        expected_fpr: first.expected_fpr,
        filter_kind_used: if groups.len() == 1 { first.filter.kind } else { "mixed" },
        fallback_reason: (first.filter.kind != first.filter.requested).then_some(first.filter.reason),
        ..figures
    })
}

/// Measures the tables without filters, and one map for all of them.
fn measure_map(keys: &BundledKeys, directory: &Path) -> anyhow::Result<PolicyFigures> {
    let (set, _) = files::open_set(&directory.join(format!("{}-{FILES}", name(None))), TableReading::default())?;
    set.update_map(MapOptions::for_entries(keys.present.len() as u64, FalsePositiveRate::ONE_PERCENT)?)?;
    let (figures, _, false_candidates) = measure_set(keys, &set, 1)?;
    let snapshot = set.snapshot();
    let map = snapshot.view().maps().next().context("the set has a map")?;
    Ok(PolicyFigures {
        policy: "map",
        filter_bits_per_key: map.as_bytes().len() as f64 * 8.0 / keys.present.len() as f64,
        observed_fpr: false_candidates as f64 / figures.absent_lookups as f64,
        absent_probes: figures.absent_lookups,
        expected_fpr: map.index().expected_false_candidates(),
        filter_kind_used: "map",
        ..figures
    })
}

/// Looks up keys. Returns what this cost, and for absent keys the counts of filters and the candidates of maps. The
/// caller fills in what filters there are.
fn measure_set(keys: &BundledKeys, set: &TableSet, every: usize) -> anyhow::Result<(PolicyFigures, FileStats, u64)> {
    // Loads every table's index, which then stays in memory: of the first 70 keys, each is in another table.
    for (key, _) in keys.present.iter().take(FILES) {
        set.get(key)?;
    }
    // Taken after the indexes are loaded, so that only lookups count.
    let candidates = || set.snapshot().view().map_stats().candidates;
    let (before, candidates_before) = (set.stats(), candidates());
    let ns_per_absent_lookup = look_up_absent(set, keys, every)?;
    let after = set.stats();
    let (filters, candidates) = (after.filters.since(&before.filters), candidates() - candidates_before);
    let absent_lookups = keys.absent.len().div_ceil(every) as u64;
    let per_lookup = |after: u64, before: u64| (after - before) as f64 / absent_lookups as f64;
    let figures = PolicyFigures {
        policy: "",
        data_block_reads_per_absent_lookup: per_lookup(after.data_block_reads, before.data_block_reads),
        bytes_read_per_absent_lookup: per_lookup(after.bytes_read, before.bytes_read),
        filter_bits_per_key: 0.0,
        absent_lookups,
        present_lookups: keys.present.len().div_ceil(every) as u64,
        false_negatives: false_negatives(set, keys, every)?,
        observed_fpr: 0.0,
        absent_probes: filters.filter.absent_probes(),
        expected_fpr: 0.0,
        ns_per_absent_lookup,
        filter_kind_used: "none",
        fallback_reason: None,
    };
    Ok((figures, filters, candidates))
}

/// Each time is the best of this many.
const ROUNDS: usize = 7;

/// One filter over all keys.
#[derive(Debug, Serialize)]
pub(super) struct KindFigures {
    pub(super) kind: &'static str,
    pub(super) requested: &'static str,
    pub(super) keys: u64,
    pub(super) block_bytes: u64,
    pub(super) bits_per_key: f64,
    pub(super) observed_fpr: f64,
    pub(super) absent_probes: u64,
    pub(super) expected_fpr: f64,
    pub(super) false_negatives: u64,
    /// From hashes to the finished block.
    pub(super) build_ns_per_key: f64,
    /// One hash at a time, of present keys.
    pub(super) query_present_ns: f64,
    /// One hash at a time, of absent keys.
    pub(super) query_absent_ns: f64,
}

fn measure_kind(keys: &BundledKeys, directory: &Path, policy: &FixedPolicy) -> anyhow::Result<KindFigures> {
    let (set, _) = write(keys, directory, Some(policy), 1)?;
    let snapshot = set.snapshot();
    let table = snapshot.tables(0).next().context("one table was written")?;
    let block = table.filters().block().context("the table has no filter in use")?;
    let hasher = KeyHasher::default();
    let hashes = |lines: &KeyLines| lines.iter().map(|(key, _)| hasher.hash(key)).collect::<Vec<_>>();
    let (present, absent) = (hashes(&keys.present), hashes(&keys.absent));
    let info = block.info();
    let mut figures = KindFigures {
        kind: info.kind.name(),
        requested: info.requested.name(),
        keys: info.keys,
        block_bytes: info.block_bytes,
        bits_per_key: info.bits_per_key(),
        observed_fpr: count_one_by_one(block, &absent) as f64 / absent.len() as f64,
        absent_probes: absent.len() as u64,
        expected_fpr: info.expected_fpr,
        false_negatives: false_negatives(&set, keys, 1)?,
        build_ns_per_key: f64::INFINITY,
        query_present_ns: f64::INFINITY,
        query_absent_ns: f64::INFINITY,
    };
    for _ in 0..ROUNDS {
        timed(&mut figures.query_present_ns, present.len(), || count_one_by_one(block, &present));
    }
    for _ in 0..ROUNDS {
        timed(&mut figures.query_absent_ns, absent.len(), || count_one_by_one(block, &absent));
    }
    let context = context();
    for _ in 0..ROUNDS {
        timed(&mut figures.build_ns_per_key, present.len(), || build(policy, &context, &present))?;
    }
    Ok(figures)
}
