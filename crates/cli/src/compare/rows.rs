//! The figures of each kind on one workload.

use core::ops::Range;

use bytes::Bytes;
use indicatif::ProgressBar;
use serde::Serialize;
use sstfilter::kind::KindEntry;
use sstfilter::{AutoPolicy, FilterBlock, KeyHash, MatchBitmap, Sizing};

use super::keys::Workload;
use crate::commands::options::AUTO;
use crate::filters::{self, Omission, Timed, Times, noted};
use crate::units::{counted, margin, with_margin};

/// Minimum and maximum of absent keys in one timed loop: fewer keys are repeated, and of more keys, this many are used.
const PROBES: (usize, usize) = (32_768, 1_048_576);

/// Repetitions of each time, for few keys and for many.
const REPETITIONS: (u32, u32) = (7, 2);
const MANY_KEYS: u64 = 1_000_000;

/// The filters of one kind, or of the automatic policy.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Row {
    /// The name of the kind or of its variant; `auto`.
    pub(super) filter: &'static str,
    /// The kind that was built; `mixed` if the files have several.
    pub(super) kind: &'static str,
    /// Keys of all files.
    pub(super) keys: u64,
    /// Bytes of the filters of all files.
    pub(super) bytes: u64,
    pub(super) bits_per_key: f64,
    pub(super) expected_fpr: f64,
    /// Positives over probes for absent keys, in all files regardless of their key range.
    pub(super) observed_fpr: f64,
    /// In 95 of 100 cases, the observed rate is at most this far from the real one.
    pub(super) observed_fpr_margin: f64,
    /// Probes for absent keys.
    pub(super) probes: u64,
    /// Positives of files whose key range includes the absent key; each reads one data block.
    pub(super) blocks_per_absent_key: f64,
    pub(super) expected_blocks_per_absent_key: f64,
    /// Keys of a filter that it is negative for. It must always be 0.
    pub(super) lost_keys: u64,
    #[serde(flatten)]
    pub(super) times: Times,
}

/// Steps of [`rows`] for so many `filters`.
pub(super) fn steps(filters: usize) -> u64 {
    filters as u64 + 1
}

/// Builds, probes and times the filters with these names. Those that cannot be built are added to the `omissions`, with
/// `at` as their setting.
pub(super) fn rows(
    names: &[&'static str],
    workload: &Workload,
    sizing: Sizing,
    at: &str,
    stages: &ProgressBar,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<Vec<Row>> {
    let repetitions = if workload.keys() < MANY_KEYS { REPETITIONS.0 } else { REPETITIONS.1 };
    let (mut built, mut all) = (Vec::new(), Vec::new());
    for &name in names {
        stages.set_message(format!("building filters of {}: {name}", counted(workload.keys(), "key")));
        if let Some(timed) = noted(build(name, sizing, &workload.files), name, at, omissions) {
            built.push(name);
            all.push(timed);
        }
        stages.inc(1);
    }
    // After all builds, because the filters take turns.
    stages.set_message(format!("taking times of filters of {}", counted(workload.keys(), "key")));
    filters::take_times(&mut all, &workload.files, &timed_probes(workload), repetitions)?;
    stages.inc(1);
    Ok(built.into_iter().zip(&all).map(|(name, timed)| Row::new(name, timed, workload)).collect())
}

pub(super) fn build(name: &'static str, sizing: Sizing, files: &[Vec<KeyHash>]) -> anyhow::Result<Timed> {
    match KindEntry::named(name) {
        Some(entry) => Timed::new(entry.configure(sizing)?, files)?.without_fallback(),
        // Bloom instead of Ribbon is this policy's choice, not a fallback.
        None => Timed::new(AutoPolicy::new(sizing)?, files),
    }
}

/// Returns the absent keys for timed probes: all files together are probed as often as a single file would be.
fn timed_probes(workload: &Workload) -> Vec<KeyHash> {
    // Divided by the number of files, because each probe goes to every file.
    let probes = workload.absent.len().clamp(PROBES.0, PROBES.1).div_ceil(workload.files.len());
    workload.absent.iter().copied().cycle().take(probes).collect()
}

impl Row {
    pub(super) fn new(filter: &'static str, timed: &Timed, workload: &Workload) -> Self {
        let (keys, absent) = (workload.keys(), workload.absent.len() as f64);
        let filters = &timed.filters;
        let mut kinds = filters.iter().map(|filter| filter.info().kind.name());
        let first = kinds.next().unwrap_or("none");
        let rates: Vec<_> = filters.iter().map(|filter| filter.info().expected_fpr).collect();
        let expected_blocks: f64 =
            rates.iter().zip(&workload.reached).map(|(rate, keys)| rate * keys.len() as f64).sum();
        let probed = Positives::count(filters, &workload.absent, &workload.reached);
        let probes = workload.absent.len() as u64 * filters.len() as u64;
        let bytes = timed.bytes();
        Self {
            filter,
            // The automatic policy may choose another kind for each file.
            kind: if kinds.all(|kind| kind == first) { first } else { "mixed" },
            keys,
            bytes,
            bits_per_key: bytes as f64 * 8.0 / keys as f64,
            expected_fpr: rates.iter().sum::<f64>() / rates.len() as f64,
            observed_fpr: probed.positives as f64 / probes as f64,
            observed_fpr_margin: margin(probed.positives, probes),
            probes,
            blocks_per_absent_key: probed.blocks as f64 / absent,
            expected_blocks_per_absent_key: expected_blocks / absent,
            lost_keys: timed.lost_keys(&workload.files),
            times: timed.times.clone(),
        }
    }

    /// Returns the name, with the kind that was built for the automatic policy.
    pub(super) fn name(&self) -> String {
        if self.filter == AUTO { format!("{AUTO} ({})", self.kind) } else { self.filter.to_owned() }
    }

    pub(super) fn blocks(&self) -> String {
        if self.blocks_per_absent_key == 0.0 { "0".to_owned() } else { format!("{:.4}", self.blocks_per_absent_key) }
    }

    pub(super) fn measured(&self) -> String {
        with_margin(self.observed_fpr, self.observed_fpr_margin)
    }
}

/// Positives of all filters for absent keys.
#[derive(Clone, Copy, Debug, Default)]
struct Positives {
    /// Positives regardless of the files' key ranges.
    positives: u64,
    /// Positives of files whose key range includes the key.
    blocks: u64,
}

impl Positives {
    fn count(filters: &[FilterBlock<Bytes>], absent: &[KeyHash], reached: &[Range<usize>]) -> Self {
        let (mut sum, mut matches) = (Self::default(), MatchBitmap::default());
        for (filter, reached) in filters.iter().zip(reached) {
            // Also for keys outside of the file's range: the filter does not know it, and more probes give a better
            // rate.
            filter.may_contain_batch(absent, &mut matches);
            sum.positives += matches.count();
            sum.blocks += matches.iter().filter(|position| reached.contains(position)).count() as u64;
        }
        sum
    }
}
