//! The family on the user's own keys, and what it would save.

use std::collections::HashSet;
use std::path::Path;

use anyhow::ensure;
use serde::Serialize;
use sstfilter::{FalsePositiveRate, KeyHash, KeyHasher, MatchBitmap};

use super::measure::{self, KeysPoint, Omission, Timed};
use crate::args::ReportArgs;
use crate::filters::count_batch;
use crate::lines::{KeyLines, KeysFormat};
use crate::output::Column;
use crate::progress;
use crate::units::{brief_percent, bytes, counted, grouped, percent};

/// Without a file of absent keys, they are the present ones with this appended: as many, and as alike as keys get.
/// Holding keys out instead would measure the rates of smaller filters than the sizes are of.
const SUFFIX: &[u8] = b"?";
const MADE: &str = "each key with a byte appended";

/// Absent keys in one timed loop, at least and at most: fewer are probed for again and again, of more these are enough.
const PROBES: (usize, usize) = (32_768, 1_048_576);

/// Repetitions of each time, for few keys and for many.
const REPETITIONS: (u32, u32) = (7, 3);
const MANY_KEYS: usize = 1_000_000;

/// What was measured on keys of the user's own.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OwnKeys {
    /// Distinct keys.
    pub(super) keys: u64,
    /// Absent keys that the rates are measured with, and where they come from.
    pub(super) absent_keys: u64,
    pub(super) absent_from: String,
    pub(super) target_fpr: f64,
    /// Bytes of the filters that the user has.
    pub(super) current_bytes: Option<u64>,
    pub(super) figures: Vec<OwnKeysPoint>,
}

/// The filter of one kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OwnKeysPoint {
    #[serde(flatten)]
    pub(super) point: KeysPoint,
    pub(super) observed_fpr: f64,
}

/// Reads the keys in the file at `path`, and measures all kinds.
pub(super) fn measure(
    path: &Path,
    format: KeysFormat,
    args: &ReportArgs,
    omissions: &mut Vec<Omission>,
) -> anyhow::Result<OwnKeys> {
    let stages = progress::stages(1);
    let (keys, mut absent) = read(path, format, args.absent.as_deref())?;
    let present: HashSet<_> = keys.iter().copied().collect();
    absent.retain(|hash| !present.contains(hash));
    let path = args.absent.as_deref().unwrap_or(path);
    ensure!(!absent.is_empty(), "{}: all of its keys are present: expected absent keys (--absent)", path.display());
    let rate = args.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT);
    stages.set_message(format!("sizes, rates and times: {} keys", grouped(keys.len() as u64)));
    let probes: Vec<_> = absent.iter().copied().cycle().take(absent.len().clamp(PROBES.0, PROBES.1)).collect();
    let repetitions = if keys.len() < MANY_KEYS { REPETITIONS.0 } else { REPETITIONS.1 };
    let timed = measure::compare(&keys, &probes, rate, repetitions, omissions)?;
    let figure = |timed: Timed| {
        let positives = count_batch(&timed.filter, &absent, &mut MatchBitmap::default());
        OwnKeysPoint { point: timed.best, observed_fpr: positives as f64 / absent.len() as f64 }
    };
    Ok(OwnKeys {
        keys: keys.len() as u64,
        absent_keys: absent.len() as u64,
        absent_from: args.absent.as_ref().map_or(MADE.to_owned(), |path| path.display().to_string()),
        target_fpr: rate.get(),
        current_bytes: args.current,
        figures: timed.into_iter().map(figure).collect(),
    })
}

/// Hashes of the keys at `path`, and of those at `absent`, or else of the same keys with a suffix.
fn read(path: &Path, format: KeysFormat, absent: Option<&Path>) -> anyhow::Result<(Vec<KeyHash>, Vec<KeyHash>)> {
    let keys = KeyLines::read(path, format, "--keys")?;
    let absent = match absent {
        Some(path) => distinct(&KeyLines::read(path, format, "--absent")?, b""),
        None => distinct(&keys, SUFFIX),
    };
    Ok((distinct(&keys, b""), absent))
}

/// Distinct hashes of the keys in their order, each with `suffix` appended.
fn distinct(keys: &KeyLines, suffix: &[u8]) -> Vec<KeyHash> {
    let hasher = KeyHasher::default();
    let mut seen = HashSet::with_capacity(keys.len());
    let hashes = keys.iter().map(|(key, _)| hasher.hash(&[key, suffix].concat()));
    hashes.filter(|&hash| seen.insert(hash)).collect()
}

impl OwnKeys {
    pub(super) const COLUMNS: [Column<OwnKeysPoint>; 8] = [
        ("filter", |own| own.point.size.filter.to_owned()),
        ("bytes", |own| grouped(own.point.size.bytes)),
        ("bits/key", |own| format!("{:.2}", own.point.size.bits_per_key)),
        ("expected", |own| percent(own.point.size.expected_fpr)),
        ("observed", |own| percent(own.observed_fpr)),
        ("build ns", |own| format!("{:.1}", own.point.build_ns_per_key)),
        ("probe ns", |own| format!("{:.1}", own.point.query_one_ns)),
        ("batch ns", |own| format!("{:.1}", own.point.query_batch_ns)),
    ];

    /// What the smallest filter would save, against those that the user has, or against the default.
    pub(super) fn sentence(&self) -> String {
        let figures = || self.figures.iter().map(|figure| &figure.point);
        let default = figures().next();
        let (Some(best), Some(default)) = (figures().min_by_key(|point| point.size.bytes), default) else {
            return "No filter of these keys could be built.".to_owned();
        };
        let keys = counted(self.keys, "key");
        let rate = brief_percent(self.target_fpr);
        let (other, other_bytes) = match self.current_bytes {
            Some(current) => ("your filters today".to_owned(), current),
            None => (format!("the default, {},", default.size.filter), default.size.bytes),
        };
        if best.size.bytes >= other_bytes {
            let most = bytes(other_bytes);
            return format!("No filter of your {keys} at {rate} is smaller than the {most} of {other}.");
        }
        format!(
            "For your {keys} at {rate}, {} takes {} instead of the {} of {other} and saves {:.0} % of the memory; it builds \
             in {:.1} ns per key and answers in {:.1} ns, {} in {:.1} and {:.1} ns.",
            best.size.filter,
            bytes(best.size.bytes),
            bytes(other_bytes),
            (1.0 - best.size.bytes as f64 / other_bytes as f64) * 100.0,
            best.build_ns_per_key,
            best.query_one_ns,
            default.size.filter,
            default.build_ns_per_key,
            default.query_one_ns,
        )
    }
}
