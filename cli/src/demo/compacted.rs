//! The same keys in one compacted file: Bloom against Ribbon at one false positive rate.

use core::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::{BuildContext, BuildPurpose, FilterBlock, FilterPolicy, KeyHash, KeyHasher};

use super::tables::{self, Asked};
use crate::keys::BundledKeys;

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
pub(super) fn measure(keys: &BundledKeys, directory: &Path) -> anyhow::Result<Vec<KindFigures>> {
    [Asked::Bloom, Asked::Ribbon].into_iter().map(|asked| measure_kind(keys, directory, asked)).collect()
}

fn measure_kind(keys: &BundledKeys, directory: &Path, asked: Asked) -> anyhow::Result<KindFigures> {
    let tables = tables::write(keys, directory, asked, 1)?;
    let false_negatives = tables::false_negatives(&tables.set, keys, 1)?;
    let table = tables.set.tables().first().context("one table was written")?;
    let block = table.filter().context("the table has no filter")?.block().map_err(Clone::clone)?;
    let hasher = KeyHasher::default();
    let hashes = |lines: &crate::lines::KeyLines| lines.iter().map(|(key, _)| hasher.hash(key)).collect::<Vec<_>>();
    let (present, absent) = (hashes(&keys.present), hashes(&keys.absent));
    let policy = asked.policy()?.context("a filter is asked for")?;
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
        build_ns_per_key: build(&policy, &present)?,
        query_present_ns,
        query_absent_ns,
    })
}

/// Nanoseconds per key of the fastest build.
fn build(policy: &Arc<dyn FilterPolicy>, hashes: &[KeyHash]) -> anyhow::Result<f64> {
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

/// How many hashes get through, and nanoseconds per probe of the fastest round.
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
