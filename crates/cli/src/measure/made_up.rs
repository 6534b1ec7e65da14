//! Made-up keys, and figures of all kinds on them: by rate, and by the number of keys.

use indicatif::ProgressBar;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{FalsePositiveRate, KeyHash, Sizing};

use super::filters::{MeasuredKind, Workload, build, ensure_as_requested, matches, measure, steps};
use crate::print::record;
use crate::print::types::{Bits, Bytes, Rate};
use crate::words::units::{counted, percent, whole};

/// Numbers from here on are absent keys. Mixing is a bijection, so none has the hash of a present key.
const FIRST_ABSENT: u64 = 1 << 48;

/// Minimum and maximum of absent keys: as many as timed probes.
const ABSENT_KEYS: (u64, u64) = (32_768, 1_048_576);

/// Keys in one batch when rates are measured: the keys and their answers stay in the nearest caches.
const BATCH: usize = 4_096;

/// The target rates: powers of ten, and the rates of fingerprints of 4, 8, 12 and 16 bits.
const RATES: [f64; 9] = [0.1, 1.0 / 16.0, 0.01, 1.0 / 256.0, 0.001, 1.0 / 4_096.0, 1e-4, 1.0 / 65_536.0, 1e-5];

/// False positives that determine a rate to about 3 % (one standard error is 1 / sqrt(1,000)).
const ENOUGH: f64 = 1_000.0;

/// Maximum number of absent keys that one filter is probed for: for each of its keys, and in all.
const MAX_PROBES: (u64, u64) = (50, 50_000_000);

record! {
    /// Figures for charts: of filters with keys of one file.
    pub(crate) struct Curves {
        pub(crate) by_rate: Vec<RatePoint>,
        pub(crate) by_keys: Vec<MeasuredKind>,
    }

    /// A filter at one rate, probed for made-up absent keys.
    pub(crate) struct RatePoint {
        pub(crate) kind: &'static str [row],
        pub(crate) target_fpr: Rate [row],
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Bits [row],
        pub(crate) expected_fpr: Rate [row],
        pub(crate) observed_fpr: Rate [row],
        pub(crate) probes: u64 [row],
    }
}

/// Returns the hashes of the made-up keys from number `from` on.
fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(KeyHash::mix).collect()
}

/// Deals made-up keys to files. They have no order: each file may have each absent key.
pub(crate) fn workload(keys: u64, files: usize) -> Workload {
    let stored = hashes(0, keys);
    let dealt = (0..files).map(|first| stored.iter().copied().skip(first).step_by(files).collect());
    Workload::new(dealt.collect(), hashes(FIRST_ABSENT, keys.clamp(ABSENT_KEYS.0, ABSENT_KEYS.1)))
}

/// Returns numbers of keys up to `most`, ascending: two in each power of ten.
fn ladder(most: u64) -> Vec<u64> {
    // From 100 keys on: the trailer decides the size of smaller blocks.
    let mut ladder: Vec<_> = (2..=9).flat_map(|exponent| [1, 3].map(|step| step * 10_u64.pow(exponent))).collect();
    ladder.retain(|&keys| keys < most);
    ladder.push(most);
    ladder
}

/// Returns the hashes of the largest file's keys. Keys are dealt round-robin, so that is the first one.
fn largest(workload: &Workload) -> &[KeyHash] {
    workload.files.first().map(Vec::as_slice).unwrap_or_default()
}

impl Curves {
    /// Returns the steps of a measurement.
    pub(crate) fn steps(workload: &Workload) -> u64 {
        let (kinds, ladder) = (kind::all().len(), ladder(largest(workload).len() as u64));
        (kinds * RATES.len()) as u64 + ladder.len() as u64 * steps(kinds)
    }

    /// Measures all kinds, by the number of keys at this size or rate.
    pub(crate) fn measure(
        workload: &Workload,
        sizing: Sizing,
        stages: &ProgressBar,
        omissions: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let (keys, mut curves) = (largest(workload), Self::default());
        for kind in kind::all() {
            stages.set_message(format!("false positive rates: {}", kind.name));
            for target in RATES {
                match RatePoint::measure(kind, target, keys) {
                    Ok(point) => curves.by_rate.push(point),
                    Err(reason) => {
                        omissions.push(format!("{} with a rate of {}: {reason:#}", kind.name, percent(target)));
                    }
                }
                stages.inc(1);
            }
        }
        let names: Vec<_> = kind::all().iter().map(|entry| entry.name).collect();
        for count in ladder(keys.len() as u64) {
            let file = keys.iter().copied().take(usize::try_from(count)?).collect();
            let workload = Workload::new(vec![file], workload.absent.clone());
            curves.by_keys.extend(measure(&names, &workload, sizing, &counted(count, "key"), stages, omissions)?);
        }
        Ok(curves)
    }
}

impl RatePoint {
    fn measure(kind: &'static KindEntry, target: f64, hashes_of_keys: &[KeyHash]) -> anyhow::Result<Self> {
        let filter = build(&kind.configure(FalsePositiveRate::new(target)?)?, hashes_of_keys)?;
        ensure_as_requested(&filter)?;
        let (bytes, keys, expected_fpr) =
            (filter.as_bytes().len() as u64, hashes_of_keys.len() as u64, filter.info().expected_fpr);
        let max_probes = keys.saturating_mul(MAX_PROBES.0).min(MAX_PROBES.1);
        // Enough probes for that many false positives, but at least a tenth of the maximum.
        let probes = whole(ENOUGH / expected_fpr).clamp(max_probes / 10, max_probes);
        // Made-up keys, because the user's absent keys may be few, and hashes of any keys are alike. Made batch by
        // batch: all hashes would take hundreds of megabytes.
        let batches =
            (0..probes).step_by(BATCH).map(|from| hashes(FIRST_ABSENT + from, (probes - from).min(BATCH as u64)));
        let positives: u64 = batches.map(|hashes| matches(&filter, &hashes).count()).sum();
        Ok(Self {
            kind: kind.name,
            target_fpr: Rate(target),
            filter_bytes: Bytes(bytes),
            bits_per_key: Bits(bytes as f64 * 8.0 / keys as f64),
            expected_fpr: Rate(expected_fpr),
            observed_fpr: Rate(positives as f64 / probes as f64),
            probes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_keys_are_round_up_to_the_last() {
        assert_eq!(ladder(7), [7]);
        assert_eq!(ladder(1_000), [100, 300, 1_000]);
        assert_eq!(ladder(5_500), [100, 300, 1_000, 3_000, 5_500]);
    }
}
