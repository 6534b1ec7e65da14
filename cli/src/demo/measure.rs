//! The measurements: lookups of absent keys in 70 files whose ranges all overlap, and Bloom against Ribbon over the
//! same keys in one compacted file.

use core::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::sst::{ReadOptions, Table, TableOptions, TableSet, TableSummary, TableWriter};
use sstfilter::{
    BitsPerKey, BuildContext, BuildPurpose, BuildReport, FilterBlock, FilterPolicy, FilterReader, KeyHash, KeyHasher,
    KindPolicy,
};

use super::keys::BundledKeys;
use crate::lines::KeyLines;
use crate::progress::Progress;

/// The filter that the tables are built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requested {
    Nothing,
    Bloom,
    Ribbon,
}

impl Requested {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Bloom => "bloom",
            Self::Ribbon => "ribbon",
        }
    }

    /// Bloom at 10 bits per key, and Ribbon at the rate that this gives.
    fn policy(self) -> anyhow::Result<Option<Arc<dyn FilterPolicy>>> {
        Ok(match self {
            Self::Nothing => None,
            Self::Bloom => Some(Arc::new(KindPolicy::default())),
            Self::Ribbon => Some(Arc::new(KindPolicy::new(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?))),
        })
    }
}

/// Tables on disk, opened.
struct Tables {
    set: TableSet,
    summaries: Vec<TableSummary>,
}

/// Deals the sorted keys to `count` tables, key `i` to table `i mod count`, and opens them newest first.
fn write(keys: &BundledKeys, directory: &Path, requested: Requested, count: usize) -> anyhow::Result<Tables> {
    let directory = directory.join(format!("{}-{count}", requested.name()));
    std::fs::create_dir(&directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let options = TableOptions::default()
        .with_context(BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction));
    let options = match requested.policy()? {
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
fn false_negatives(set: &TableSet, keys: &BundledKeys, every: usize) -> anyhow::Result<u64> {
    let mut progress = Progress::new("looking for every key", keys.present.len().div_ceil(every) as u64);
    let mut lost = 0;
    for (key, value) in keys.present.iter().step_by(every) {
        lost += u64::from(set.get(key)?.as_deref() != Some(value));
        progress.step();
    }
    Ok(lost)
}

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

#[expect(clippy::ref_option, reason = "the signature that serde requires")]
fn one_without_filter<S: serde::Serializer>(rate: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rate.unwrap_or(1.0))
}

/// Measures no filter, Bloom, and a policy that requests Ribbon.
pub(super) fn measure_scenario(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<PolicyFigures>> {
    [Requested::Nothing, Requested::Bloom, Requested::Ribbon]
        .into_iter()
        .map(|requested| {
            let tables = write(keys, directory, requested, FILES)?;
            let every = if requested == Requested::Nothing { EVERY_WITHOUT_FILTERS } else { 1 };
            measure_policy(keys, &tables, requested, every)
        })
        .collect()
}

fn measure_policy(
    keys: &BundledKeys,
    tables: &Tables,
    requested: Requested,
    every: usize,
) -> anyhow::Result<PolicyFigures> {
    let set = &tables.set;
    warm_up(set, keys)?;
    let before = set.stats().tables;
    let begun = Instant::now();
    let lookups = look_up_absent(set, keys, every)?;
    let elapsed_ns = begun.elapsed().as_nanos() as f64;
    let after = set.stats().tables;
    let per_lookup = |after: u64, before: u64| (after - before) as f64 / lookups as f64;
    let has_filter = requested != Requested::Nothing;
    let absent = after.filter.absent_probes() - before.filter.absent_probes();
    let false_positives = after.filter.false_positives - before.filter.false_positives;
    Ok(PolicyFigures {
        policy: requested.name(),
        data_block_reads_per_absent_lookup: per_lookup(after.data_block_reads, before.data_block_reads),
        bytes_read_per_absent_lookup: per_lookup(after.bytes_read, before.bytes_read),
        filter_bits_per_key: bits_per_key(&tables.summaries),
        absent_lookups: lookups,
        present_lookups: keys.present.len().div_ceil(every) as u64,
        false_negatives: false_negatives(set, keys, every)?,
        observed_fpr: has_filter.then(|| false_positives as f64 / absent as f64),
        absent_probes: absent,
        expected_fpr: has_filter.then(|| expected_fpr(set)),
        ns_per_absent_lookup: elapsed_ns / lookups as f64,
        filter_kind_used: kind_used(&tables.summaries),
        fallback_reason: fallback_reason(&tables.summaries),
    })
}

/// Loads every table's index, which then stays in memory.
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
        ensure!(set.get(key)?.is_none(), "{}: found, and was never written", key.escape_ascii());
        lookups += 1;
        progress.step();
    }
    Ok(lookups)
}

/// The mean over the tables, each of which is probed equally often.
fn expected_fpr(set: &TableSet) -> f64 {
    let rate_of = |table: &Table| match table.filter().map(FilterReader::block) {
        Some(Ok(block)) => block.info().expected_fpr,
        _ => 1.0,
    };
    set.tables().iter().map(rate_of).sum::<f64>() / set.tables().len() as f64
}

fn reports(summaries: &[TableSummary]) -> impl Iterator<Item = &BuildReport> {
    summaries.iter().filter_map(|summary| summary.filter.as_ref())
}

fn bits_per_key(summaries: &[TableSummary]) -> f64 {
    let bytes: u64 = reports(summaries).map(|report| report.block_bytes).sum();
    let keys: u64 = reports(summaries).map(|report| report.distinct_keys).sum();
    if keys == 0 { 0.0 } else { bytes as f64 * 8.0 / keys as f64 }
}

fn kind_used(summaries: &[TableSummary]) -> &'static str {
    let mut kinds = reports(summaries).map(|report| report.used.map_or("none", |kind| kind.name()));
    let first = kinds.next().unwrap_or("none");
    if kinds.all(|kind| kind == first) { first } else { "mixed" }
}

/// The first reason among the tables, if any of them fell back.
fn fallback_reason(summaries: &[TableSummary]) -> Option<&'static str> {
    reports(summaries).find(|report| report.used != Some(report.requested)).map(|report| report.reason.as_str())
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
    /// One hash at a time, of keys that are there.
    pub(super) query_present_ns: f64,
    /// One hash at a time, of keys that are not.
    pub(super) query_absent_ns: f64,
}

/// Measures Bloom and Ribbon.
pub(super) fn measure_compacted(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<KindFigures>> {
    [Requested::Bloom, Requested::Ribbon]
        .into_iter()
        .map(|requested| measure_kind(keys, directory, requested))
        .collect()
}

fn measure_kind(keys: &BundledKeys, directory: &Path, requested: Requested) -> anyhow::Result<KindFigures> {
    let tables = write(keys, directory, requested, 1)?;
    let false_negatives = false_negatives(&tables.set, keys, 1)?;
    let table = tables.set.tables().first().context("one table was written")?;
    let block = table.filter().context("the table has no filter")?.block().map_err(Clone::clone)?;
    let hasher = KeyHasher::default();
    let hashes = |lines: &KeyLines| lines.iter().map(|(key, _)| hasher.hash(key)).collect::<Vec<_>>();
    let (present, absent) = (hashes(&keys.present), hashes(&keys.absent));
    let policy = requested.policy()?.context("a filter is requested")?;
    let (_, query_present_ns) = query(block, &present);
    let (passed, query_absent_ns) = query(block, &absent);
    let info = block.info();
    Ok(KindFigures {
        kind: info.kind.name(),
        requested: info.requested.name(),
        keys: info.keys,
        block_bytes: info.block_bytes,
        bits_per_key: info.bits_per_key(),
        observed_fpr: passed as f64 / absent.len() as f64,
        absent_probes: absent.len() as u64,
        expected_fpr: info.expected_fpr,
        false_negatives,
        build_ns_per_key: best_build_ns(&policy, &present)?,
        query_present_ns,
        query_absent_ns,
    })
}

/// Nanoseconds per key of the fastest build.
fn best_build_ns(policy: &Arc<dyn FilterPolicy>, hashes: &[KeyHash]) -> anyhow::Result<f64> {
    let context = BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let mut builder = policy.builder(&context).context("the policy declined")?;
        builder.add_hashes(hashes);
        let built = black_box(builder.finish());
        best = best.min(begun.elapsed().as_nanos() as f64);
        ensure!(built.block.is_some(), "no filter was built: {}", built.report.reason);
    }
    Ok(best / hashes.len() as f64)
}

/// How many hashes are positive, and nanoseconds per probe of the fastest round.
fn query<D: AsRef<[u8]>>(block: &FilterBlock<D>, hashes: &[KeyHash]) -> (u64, f64) {
    let mut best = f64::INFINITY;
    let mut passed = 0;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        passed = black_box(hashes.iter().map(|&hash| u64::from(block.may_contain(hash))).sum());
        best = best.min(begun.elapsed().as_nanos() as f64);
    }
    (passed, best / hashes.len() as f64)
}
