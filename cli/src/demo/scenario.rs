//! The classic scenario: one absent key, 70 files whose ranges all overlap.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use sstfilter::{TableSet, TableSummary};

use super::tables::{self, Asked, Tables};
use crate::keys::BundledKeys;
use crate::progress::Progress;

/// Number of files.
pub(super) const FILES: usize = 70;

/// Without filters every lookup reads all files: every 16th key is enough, and takes half a second.
const EVERY_WITHOUT_FILTERS: usize = 16;

/// What lookups over the 70 files cost under one policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyFigures {
    pub(super) policy: &'static str,
    pub(super) data_block_reads_per_absent_lookup: f64,
    pub(super) bytes_read_per_absent_lookup: f64,
    pub(super) filter_bits_per_key: f64,
    pub(super) absent_lookups: u64,
    pub(super) present_lookups: u64,
    pub(super) false_negatives: u64,
    /// False positives over probes for absent keys; without a filter every probe is one.
    #[serde(serialize_with = "one_without_filter")]
    pub(super) observed_fpr: Option<f64>,
    pub(super) absent_probes: u64,
    #[serde(serialize_with = "one_without_filter")]
    pub(super) expected_fpr: Option<f64>,
    pub(super) ns_per_absent_lookup: f64,
    pub(super) filter_kind_used: &'static str,
    pub(super) fallback_reason: Option<&'static str>,
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn one_without_filter<S: serde::Serializer>(rate: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rate.unwrap_or(1.0))
}

/// Measures no filter, Bloom, and Ribbon asked for.
pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<PolicyFigures>> {
    [Asked::Nothing, Asked::Bloom, Asked::Ribbon]
        .into_iter()
        .map(|asked| {
            let tables = tables::write(keys, directory, asked, FILES)?;
            let every = if asked == Asked::Nothing { EVERY_WITHOUT_FILTERS } else { 1 };
            measure_policy(keys, &tables, asked, every)
        })
        .collect()
}

fn measure_policy(keys: &BundledKeys, tables: &Tables, asked: Asked, every: usize) -> anyhow::Result<PolicyFigures> {
    let set = &tables.set;
    warm_up(set, keys)?;
    let before = set.stats().tables;
    let begun = Instant::now();
    let lookups = look_up_absent(set, keys, every)?;
    let elapsed_ns = begun.elapsed().as_nanos() as f64;
    let after = set.stats().tables;
    let per_lookup = |after: u64, before: u64| (after - before) as f64 / lookups as f64;
    let has_filter = asked != Asked::Nothing;
    let absent = after.filter.absent_probes() - before.filter.absent_probes();
    let false_positives = after.filter.false_positives - before.filter.false_positives;
    Ok(PolicyFigures {
        policy: asked.name(),
        data_block_reads_per_absent_lookup: per_lookup(after.data_block_reads, before.data_block_reads),
        bytes_read_per_absent_lookup: per_lookup(after.bytes_read, before.bytes_read),
        filter_bits_per_key: bits_per_key(&tables.summaries),
        absent_lookups: lookups,
        present_lookups: keys.present.len().div_ceil(every) as u64,
        false_negatives: tables::false_negatives(set, keys, every)?,
        observed_fpr: has_filter.then(|| false_positives as f64 / absent as f64),
        absent_probes: absent,
        expected_fpr: has_filter.then(|| expected_fpr(set)),
        ns_per_absent_lookup: elapsed_ns / lookups as f64,
        filter_kind_used: kind_used(&tables.summaries),
        fallback_reason: fallback_reason(&tables.summaries),
    })
}

/// Reads every table's index, which is read once and then kept.
fn warm_up(set: &TableSet, keys: &BundledKeys) -> anyhow::Result<()> {
    for (key, _) in keys.present.iter().take(FILES) {
        set.get(key)?;
    }
    Ok(())
}

fn look_up_absent(set: &TableSet, keys: &BundledKeys, every: usize) -> anyhow::Result<u64> {
    let mut lookups = 0;
    let mut progress = Progress::new("looking for absent keys", keys.absent.len().div_ceil(every) as u64);
    for (key, _) in keys.absent.iter().step_by(every) {
        anyhow::ensure!(set.get(key)?.is_none(), "{}: found, and was never written", key.escape_ascii());
        lookups += 1;
        progress.step();
    }
    Ok(lookups)
}

/// The mean over the tables, each of which is asked about as often as any other.
fn expected_fpr(set: &TableSet) -> f64 {
    let rate_of = |table: &sstfilter::Table| match table.filter().map(sstfilter::GuardedFilter::block) {
        Some(Ok(block)) => block.info().expected_fpr,
        _ => 1.0,
    };
    set.tables().iter().map(rate_of).sum::<f64>() / set.tables().len() as f64
}

pub(super) fn bits_per_key(summaries: &[TableSummary]) -> f64 {
    let reports = || summaries.iter().filter_map(|summary| summary.filter.as_ref());
    let (bytes, keys) =
        reports().fold((0, 0), |(bytes, keys), report| (bytes + report.block_bytes, keys + report.distinct_keys));
    if keys == 0 { 0.0 } else { bytes as f64 * 8.0 / keys as f64 }
}

fn kind_used(summaries: &[TableSummary]) -> &'static str {
    let mut kinds = summaries
        .iter()
        .map(|summary| summary.filter.as_ref().and_then(|report| report.used).map_or("none", |kind| kind.name()));
    let first = kinds.next().unwrap_or("none");
    if kinds.all(|kind| kind == first) { first } else { "mixed" }
}

/// The first reason among the tables, if any of them fell back.
fn fallback_reason(summaries: &[TableSummary]) -> Option<&'static str> {
    summaries
        .iter()
        .filter_map(|summary| summary.filter.as_ref())
        .find(|report| report.used != Some(report.requested))
        .map(|report| report.reason.as_str())
}
