//! Measures lookups of absent keys in 70 files with overlapping ranges, and Bloom against Ribbon for the same keys in
//! one compacted file.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, KeyHasher};
use sstfilter_map::MapOptions;
use sstfilter_table::TableOptions;

use super::keys::BundledKeys;
use super::tables::{LookupFigures, Tables, false_negatives, look_up_absent};
use crate::build::report::{Choice, FilterGroup};
use crate::filters::{build, context, count_one_by_one, timed};
use crate::lines::KeyLines;

/// Number of files.
pub(super) const FILES: usize = 70;

/// Without filters, every lookup reads all files, so one key in this many is enough.
const EVERY_WITHOUT_FILTERS: usize = 32;

/// The cost of lookups over the 70 files with one policy.
#[derive(Debug, Serialize)]
pub(super) struct PolicyFigures {
    pub(super) policy: &'static str,
    #[serde(flatten)]
    pub(super) lookups: LookupFigures,
    pub(super) filter_bits_per_key: f64,
    pub(super) present_lookups: u64,
    pub(super) false_negatives: u64,
    /// False positives over probes for absent keys; 1 without a filter.
    pub(super) observed_fpr: f64,
    pub(super) absent_probes: u64,
    pub(super) expected_fpr: f64,
    pub(super) filter_kind_used: &'static str,
    pub(super) fallback_reason: Option<&'static str>,
}

/// Measures no filter, Bloom at 10 bits per key, Ribbon at the same rate, and a file map instead of filters over the 70
/// files; then Bloom and Ribbon in one file.
pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<([PolicyFigures; 4], [KindFigures; 2])> {
    let bloom = FixedPolicy::default();
    let ribbon = FixedPolicy::from(RibbonKind::same_rate_as_bloom(BitsPerKey::TEN)?);
    let without_filters = write(keys, directory, None, FILES)?;
    let scenario = [
        measure_policy(keys, &without_filters, "none", EVERY_WITHOUT_FILTERS)?,
        measure_policy(keys, &write(keys, directory, Some(&bloom), FILES)?, "bloom", 1)?,
        measure_policy(keys, &write(keys, directory, Some(&ribbon), FILES)?, "ribbon", 1)?,
        measure_map(keys, &without_filters)?,
    ];
    Ok((scenario, [measure_kind(keys, directory, &bloom)?, measure_kind(keys, directory, &ribbon)?]))
}

/// Deals the sorted keys to `count` tables, key `i` to table `i mod count`.
fn write(keys: &BundledKeys, directory: &Path, policy: Option<&FixedPolicy>, count: usize) -> anyhow::Result<Tables> {
    let options = TableOptions::default();
    let (name, options) = match policy {
        Some(policy) => (policy.kind().name(), options.with_policy(Arc::new(policy.clone()))),
        None => ("none", options.without_filter()),
    };
    Tables::write(keys, &directory.join(format!("{name}-{count}")), &options, count, |key| key % count)
}

/// Measures lookups of one in `every` key.
fn measure_policy(
    keys: &BundledKeys,
    tables: &Tables,
    policy: &'static str,
    every: usize,
) -> anyhow::Result<PolicyFigures> {
    let set = tables.open(&TableOptions::default())?;
    let lookups = look_up_absent(&set, keys.absent.iter().step_by(every))?;
    // Taken before the lookups of present keys, which must not count.
    let probes = set.stats().filters.filter;
    let filters = tables.filters()?;
    let Choice { kind, requested, reason } = filters.filter;
    Ok(PolicyFigures {
        policy,
        lookups,
        filter_bits_per_key: filters.bits_per_key,
        present_lookups: keys.present.len().div_ceil(every) as u64,
        false_negatives: false_negatives(&set, keys.present.iter().step_by(every))?,
        observed_fpr: probes.observed_fpr().unwrap_or(1.0),
        absent_probes: probes.absent_probes(),
        expected_fpr: filters.expected_fpr,
        filter_kind_used: kind,
        fallback_reason: (kind != requested).then_some(reason),
    })
}

/// Measures one map for all tables, which have no filters.
fn measure_map(keys: &BundledKeys, tables: &Tables) -> anyhow::Result<PolicyFigures> {
    let set = tables.open(&TableOptions::default())?;
    set.update_map(MapOptions::for_entries(keys.present.len() as u64, FalsePositiveRate::ONE_PERCENT)?)?;
    let lookups = look_up_absent(&set, keys.absent.iter())?;
    let snapshot = set.snapshot();
    // Taken before the lookups of present keys, whose files are candidates too.
    let false_candidates = snapshot.view().map_stats().candidates;
    let map = snapshot.view().maps().next().context("the set has a map")?;
    Ok(PolicyFigures {
        policy: "map",
        filter_bits_per_key: map.as_bytes().len() as f64 * 8.0 / keys.present.len() as f64,
        present_lookups: keys.present.len() as u64,
        false_negatives: false_negatives(&set, keys.present.iter())?,
        observed_fpr: false_candidates as f64 / lookups.absent_lookups as f64,
        absent_probes: lookups.absent_lookups,
        expected_fpr: map.index().expected_false_candidates(),
        filter_kind_used: "map",
        fallback_reason: None,
        lookups,
    })
}

/// Each time is the best of this many.
const ROUNDS: usize = 7;

/// One filter over all keys.
#[derive(Debug, Serialize)]
pub(super) struct KindFigures {
    #[serde(flatten)]
    pub(super) built: FilterGroup,
    pub(super) block_bytes: u64,
    pub(super) observed_fpr: f64,
    pub(super) absent_probes: u64,
    pub(super) false_negatives: u64,
    /// From hashes to the finished block.
    pub(super) build_ns_per_key: f64,
    /// One hash at a time, of present keys.
    pub(super) query_present_ns: f64,
    /// One hash at a time, of absent keys.
    pub(super) query_absent_ns: f64,
}

fn measure_kind(keys: &BundledKeys, directory: &Path, policy: &FixedPolicy) -> anyhow::Result<KindFigures> {
    let tables = write(keys, directory, Some(policy), 1)?;
    let set = tables.open(&TableOptions::default())?;
    let snapshot = set.snapshot();
    let table = snapshot.tables(0).next().context("one table was written")?;
    let block = table.filters().block().context("the table has no filter in use")?;
    let hasher = KeyHasher::default();
    let hashes = |lines: &KeyLines| lines.iter().map(|(key, _)| hasher.hash(key)).collect::<Vec<_>>();
    let (present, absent) = (hashes(&keys.present), hashes(&keys.absent));
    let [mut build_ns_per_key, mut query_present_ns, mut query_absent_ns] = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        timed(&mut query_present_ns, present.len(), || count_one_by_one(block, &present));
        timed(&mut query_absent_ns, absent.len(), || count_one_by_one(block, &absent));
    }
    // Not between the queries, whose filter it would evict from the nearest caches.
    for _ in 0..ROUNDS {
        timed(&mut build_ns_per_key, present.len(), || build(policy, &context(), &present))?;
    }
    Ok(KindFigures {
        built: tables.filters()?,
        block_bytes: tables.filter_bytes(),
        observed_fpr: count_one_by_one(block, &absent) as f64 / absent.len() as f64,
        absent_probes: absent.len() as u64,
        false_negatives: false_negatives(&set, keys.present.iter())?,
        build_ns_per_key,
        query_present_ns,
        query_absent_ns,
    })
}
