//! Builds filters of the same hashes, counts their answers, and times them.

use core::hint::black_box;
use core::ops::Range;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use indicatif::ProgressBar;
use sstfilter::kind::KindEntry;
use sstfilter::{
    AutoPolicy, BuildContext, BuildPurpose, FalsePositiveRate, FilterBlock, FilterPolicy, FixedPolicy, KeyHash,
    KeyHasher, MatchBitmap, Sizing,
};

use crate::print::record;
use crate::print::types::{Bits, Bytes as Length, Figure, Nanoseconds, Rate};
use crate::words::units::{counted, margin};

/// The hashes of all keys: every kind takes the same ones.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    /// Hashes of each file's keys, which are distinct.
    pub(crate) files: Vec<Vec<KeyHash>>,
    /// Hashes of keys that are in no file.
    pub(crate) absent: Vec<KeyHash>,
    /// For each file, the absent keys between its smallest and its largest key.
    pub(crate) reached: Vec<Range<usize>>,
}

impl Workload {
    /// Returns files whose key ranges include all absent keys.
    pub(crate) fn new(files: Vec<Vec<KeyHash>>, absent: Vec<KeyHash>) -> Self {
        Self { reached: vec![0..absent.len(); files.len()], files, absent }
    }

    /// Returns the number of keys of all files.
    pub(crate) fn keys(&self) -> u64 {
        self.files.iter().map(|hashes| hashes.len() as u64).sum()
    }

    /// Returns the absent keys for timed probes: all files together are probed as often as a single file would be.
    fn timed_probes(&self) -> Vec<KeyHash> {
        let probes = self.absent.len().clamp(PROBES.0, PROBES.1).div_ceil(self.files.len());
        self.absent.iter().copied().cycle().take(probes).collect()
    }
}

/// Minimum and maximum of absent keys in one timed loop: fewer keys are repeated, and of more keys, this many are used.
const PROBES: (usize, usize) = (32_768, 1_048_576);

/// Repetitions of each time, for few keys and for many.
const REPETITIONS: (u32, u32) = (7, 2);
const MANY_KEYS: u64 = 1_000_000;

/// Minimum keys in one build sample: small filters are built several times.
const KEYS_PER_SAMPLE: usize = 30_000;

record! {
    /// The filters of one kind, or of the automatic policy.
    pub(crate) struct MeasuredKind {
        pub(crate) requested: &'static str [row],
        pub(crate) kind: &'static str [json],
        pub(crate) keys: u64 [json],
        pub(crate) filter_bytes: Length [row],
        pub(crate) bits_per_key: Bits [row],
        pub(crate) expected_fpr: Rate [row],
        pub(crate) observed_fpr: Rate [row],
        pub(crate) observed_fpr_margin: Rate [row],
        pub(crate) build_ns: Nanoseconds [row],
        /// time of a probe for an absent key, without hashing
        pub(crate) probe_ns: Nanoseconds [row],
        pub(crate) batch_probe_ns: Nanoseconds,
        pub(crate) block_reads: Figure [row],
        pub(crate) expected_block_reads: Figure [json],
        pub(crate) lost_keys: u64 [json],
    }
}

/// Keys of the filter that defines the default rate. With this many, the rate hardly depends on their number.
const KEYS_OF_DEFAULT: u64 = 1 << 24;

/// Returns the rate of blocked Bloom at 10 bits per key, the default policy.
pub(crate) fn default_rate() -> anyhow::Result<FalsePositiveRate> {
    let plan = FixedPolicy::default().plan(KEYS_OF_DEFAULT, None);
    let plan = plan.map_err(|reason| anyhow!("blocked Bloom has no plan: {reason}"))?;
    Ok(FalsePositiveRate::new(plan.expected_fpr)?)
}

/// Returns the number of steps of [`measure`] for a number of filters.
pub(crate) fn steps(filters: usize) -> u64 {
    filters as u64 + 1
}

/// Builds, probes and times the filters with these names. Adds the reasons for those that cannot be built `at` this
/// setting to the `omissions`.
pub(crate) fn measure(
    names: &[&'static str],
    workload: &Workload,
    sizing: Sizing,
    at: &str,
    stages: &ProgressBar,
    omissions: &mut Vec<String>,
) -> anyhow::Result<Vec<MeasuredKind>> {
    let mut all = Vec::new();
    for &name in names {
        stages.set_message(format!("building filters of {}: {name}", counted(workload.keys(), "key")));
        match Timed::new(name, sizing, &workload.files) {
            Ok(timed) => all.push(timed),
            Err(reason) => omissions.push(format!("{name} with {at}: {reason:#}")),
        }
        stages.inc(1);
    }
    stages.set_message(format!("taking times of filters of {}", counted(workload.keys(), "key")));
    let probes = workload.timed_probes();
    let repetitions = if workload.keys() < MANY_KEYS { REPETITIONS.0 } else { REPETITIONS.1 };
    for _ in 0..repetitions {
        // The filters take turns, so that a disturbance of the machine affects all of them.
        all.iter_mut().try_for_each(|timed| timed.sample(&workload.files, &probes))?;
    }
    stages.inc(1);
    Ok(all.iter().map(|timed| timed.row(workload)).collect())
}

/// The filters of one policy, one for each file, and the best times so far.
struct Timed {
    name: &'static str,
    policy: Box<dyn FilterPolicy>,
    filters: Vec<FilterBlock<Bytes>>,
    build_ns: f64,
    probe_ns: f64,
    batch_probe_ns: f64,
}

impl Timed {
    /// Builds the filters; they are not timed yet. Any name that no kind has is that of the automatic policy.
    fn new(name: &'static str, sizing: Sizing, files: &[Vec<KeyHash>]) -> anyhow::Result<Self> {
        let kind = KindEntry::named(name);
        let policy: Box<dyn FilterPolicy> = match kind {
            Some(kind) => Box::new(kind.configure(sizing)?),
            None => Box::new(AutoPolicy::new(sizing)?),
        };
        let filters = files.iter().map(|hashes| build(&*policy, hashes)).collect::<anyhow::Result<Vec<_>>>()?;
        // Bloom instead of Ribbon is a choice of the automatic policy, not a fallback.
        filters.iter().filter(|_| kind.is_some()).try_for_each(ensure_as_requested)?;
        // Above any time, so that the first sample becomes the best.
        let [build_ns, probe_ns, batch_probe_ns] = [f64::INFINITY; 3];
        Ok(Self { name, policy, filters, build_ns, probe_ns, batch_probe_ns })
    }

    /// Builds all filters again, and probes each for all `absent` keys.
    fn sample(&mut self, files: &[Vec<KeyHash>], absent: &[KeyHash]) -> anyhow::Result<()> {
        let keys: usize = files.iter().map(Vec::len).sum();
        // One build of few keys is too short for the clock.
        let builds = KEYS_PER_SAMPLE.div_ceil(keys);
        let mut rounds = (0..builds).flat_map(|_| files);
        lower(&mut self.build_ns, builds * keys, || {
            rounds.try_for_each(|hashes| build(&*self.policy, hashes).map(|filter| drop(black_box(filter))))
        })?;
        let probes = absent.len() * self.filters.len();
        lower(&mut self.probe_ns, probes, || {
            self.filters.iter().map(|filter| count_one_by_one(filter, absent)).sum::<u64>()
        });
        lower(&mut self.batch_probe_ns, probes, || {
            self.filters.iter().map(|filter| matches(filter, absent).count()).sum::<u64>()
        });
        Ok(())
    }

    fn row(&self, workload: &Workload) -> MeasuredKind {
        let Workload { files, absent, reached } = workload;
        let infos = || self.filters.iter().map(FilterBlock::info);
        let first = infos().next().map_or("none", |info| info.kind.name());
        let expected: f64 = infos().zip(reached).map(|(info, reached)| info.expected_fpr * reached.len() as f64).sum();
        let (mut positives, mut blocks) = (0, 0);
        for (filter, reached) in self.filters.iter().zip(reached) {
            // Also for keys outside of the file's range: the filter does not know it, and more probes give a better
            // rate.
            let matches = matches(filter, absent);
            positives += matches.count();
            blocks += matches.iter().filter(|position| reached.contains(position)).count();
        }
        let probes = absent.len() as u64 * self.filters.len() as u64;
        let lost = |(filter, hashes): (_, &Vec<_>)| hashes.len() as u64 - count_one_by_one(filter, hashes);
        let (keys, bytes) = (workload.keys(), self.filters.iter().map(|filter| filter.as_bytes().len() as u64).sum());
        MeasuredKind {
            requested: self.name,
            // The automatic policy may choose another kind for each file.
            kind: if infos().all(|info| info.kind.name() == first) { first } else { "mixed" },
            keys,
            filter_bytes: Length(bytes),
            bits_per_key: Bits(bytes as f64 * 8.0 / keys as f64),
            expected_fpr: Rate(infos().map(|info| info.expected_fpr).sum::<f64>() / self.filters.len() as f64),
            observed_fpr: Rate(positives as f64 / probes as f64),
            observed_fpr_margin: Rate(margin(positives, probes)),
            build_ns: Nanoseconds(self.build_ns),
            probe_ns: Nanoseconds(self.probe_ns),
            batch_probe_ns: Nanoseconds(self.batch_probe_ns),
            block_reads: Figure(blocks as f64 / absent.len() as f64),
            expected_block_reads: Figure(expected / absent.len() as f64),
            lost_keys: self.filters.iter().zip(files).map(lost).sum(),
        }
    }
}

/// Builds the policy's filter of these distinct hashes; it may have fallen back to another kind.
pub(super) fn build(policy: &dyn FilterPolicy, hashes: &[KeyHash]) -> anyhow::Result<FilterBlock<Bytes>> {
    let context = BuildContext::new(&KeyHasher::default()).with_purpose(BuildPurpose::Compaction);
    let builder = policy.builder(&context.with_expected_keys(hashes.len() as u64));
    let mut builder = builder.context("its policy builds no filter")?;
    builder.add_hashes(hashes);
    let built = builder.finish();
    let block = built.block.with_context(|| format!("no filter: {}", built.report.reason))?;
    // Verification would find nothing in a block that was built in memory just now.
    Ok(FilterBlock::open_unverified(block)?)
}

pub(super) fn ensure_as_requested(filter: &FilterBlock<Bytes>) -> anyhow::Result<()> {
    let info = filter.info();
    ensure!(info.kind == info.requested, "its policy builds a {} filter instead ({})", info.kind, info.reason);
    Ok(())
}

fn count_one_by_one(filter: &FilterBlock<Bytes>, hashes: &[KeyHash]) -> u64 {
    hashes.iter().map(|&hash| u64::from(filter.may_contain(hash))).sum()
}

pub(super) fn matches(filter: &FilterBlock<Bytes>, hashes: &[KeyHash]) -> MatchBitmap {
    let mut matches = MatchBitmap::default();
    filter.may_contain_batch(hashes, &mut matches);
    matches
}

/// Runs `work` on `keys` keys, and lowers `best_ns` to its nanoseconds per key.
fn lower<T>(best_ns: &mut f64, keys: usize, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    // Otherwise, the compiler could remove work without a used result.
    let result = black_box(work());
    *best_ns = best_ns.min(begun.elapsed().as_nanos() as f64 / keys as f64);
    result
}

#[cfg(test)]
mod tests {
    use sstfilter::BitsPerKey;

    use super::*;

    /// Filters of other keys answer like filters that have lost these.
    #[test]
    fn keys_that_a_filter_has_lost_are_counted() {
        let workload =
            |keys: [u64; 3]| Workload::new(vec![keys.map(KeyHash::mix).to_vec()], [4, 5].map(KeyHash::mix).to_vec());
        let stored = workload([1, 2, 3]);
        let timed = Timed::new("bloom", Sizing::BitsPerKey(BitsPerKey::TEN), &stored.files).unwrap();
        assert_eq!([stored, workload([6, 7, 8])].map(|workload| timed.row(&workload).lost_keys), [0, 3]);
    }
}
