//! `sstfilter advise`: which filter for which use.

use core::fmt;

use anyhow::ensure;
use serde::Serialize;
use sstfilter::FalsePositiveRate;
use sstfilter::advise::{Advice, FilterNeed, FilterTarget, Recommendation, Unsuitable, Updates, Writers, advise};

use crate::args::{AdviseArgs, UpdatesName};
use crate::output::{Outcome, Output, figures};
use crate::units;

#[derive(Debug, Serialize)]
struct AdviceReport {
    keys: u64,
    target: String,
    absent_lookups: u64,
    ranked: Vec<Ranked>,
    unsuitable: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Ranked {
    kind: &'static str,
    setting: String,
    block_bytes: u64,
    bits_per_key: f64,
    expected_fpr: f64,
    build_ns_per_key: f64,
    probe_ns_per_key: f64,
    /// Bytes times seconds over the filter's life, relative to the first.
    relative_cost: f64,
    why: String,
}

#[derive(Debug, Serialize)]
struct Refused {
    kind: &'static str,
    why_not: String,
}

pub(crate) fn run(args: &AdviseArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let need = need(args)?;
    let advice = advise(&need);
    let has_any = !advice.ranked.is_empty();
    output.report(&AdviceReport::new(&need, advice))?;
    Ok(Outcome::from_sound(has_any))
}

fn need(args: &AdviseArgs) -> anyhow::Result<FilterNeed> {
    let target = match (args.fpr, args.memory) {
        (Some(rate), _) => FilterTarget::Rate(rate),
        (None, Some(bytes)) => FilterTarget::Bytes(bytes),
        (None, None) => FilterTarget::Rate(FalsePositiveRate::ONE_PERCENT),
    };
    let lookups = args.lookups_per_key * args.keys as f64;
    ensure!(lookups < 1e18, "--lookups-per-key: expected less than 10^18 lookups in all, got {lookups:e}");
    let updates = match args.updates {
        UpdatesName::None => Updates::None,
        UpdatesName::Insert => Updates::Insert,
        UpdatesName::Remove => Updates::InsertAndRemove,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 10^18")]
    let lookups = lookups as u64;
    Ok(FilterNeed::new(args.keys, target)
        .with_updates(updates)
        .with_writers(if args.threads > 1 { Writers::Many } else { Writers::One })
        .with_absent_lookups(lookups)
        .with_false_positive_ns(args.false_positive_ns))
}

impl AdviceReport {
    fn new(need: &FilterNeed, advice: Advice) -> Self {
        let least = advice.ranked.first().map_or(0.0, |first| first.cost);
        let target = match need.target {
            FilterTarget::Rate(rate) => format!("at most {rate} false positives"),
            FilterTarget::Bytes(bytes) => format!("at most {}", units::bytes(bytes)),
            _ => String::new(),
        };
        Self {
            keys: need.keys,
            target,
            absent_lookups: need.absent_lookups,
            ranked: advice.ranked.into_iter().map(|found| Ranked::new(found, need.keys, least)).collect(),
            unsuitable: advice.unsuitable.into_iter().map(Refused::from).collect(),
        }
    }
}

impl Ranked {
    fn new(found: Recommendation, keys: u64, least_cost: f64) -> Self {
        let ratio = found.cost / least_cost;
        Self {
            kind: found.name,
            setting: found.setting,
            block_bytes: found.block_bytes,
            bits_per_key: found.block_bytes as f64 * 8.0 / keys.max(1) as f64,
            expected_fpr: found.expected_fpr,
            build_ns_per_key: found.build_ns,
            probe_ns_per_key: found.probe_ns,
            relative_cost: if ratio.is_finite() { ratio } else { 1.0 },
            why: found.why,
        }
    }
}

impl From<Unsuitable> for Refused {
    fn from(refused: Unsuitable) -> Self {
        Self { kind: refused.name, why_not: refused.why_not }
    }
}

impl fmt::Display for AdviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, lookups) = (units::grouped(self.keys), units::grouped(self.absent_lookups));
        writeln!(f, "a filter of {keys} keys with {}, asked for {lookups} absent keys\n", self.target)?;
        let mut rows = figures(["kind", "bytes", "bits per key", "expected rate", "build ns", "probe ns", "cost"]);
        for found in &self.ranked {
            rows.add_row([
                found.kind.to_owned(),
                units::grouped(found.block_bytes),
                format!("{:.2}", found.bits_per_key),
                units::percent(found.expected_fpr),
                format!("{:.1}", found.build_ns_per_key),
                format!("{:.1}", found.probe_ns_per_key),
                format!("{:.2}", found.relative_cost),
            ]);
        }
        if self.ranked.is_empty() {
            writeln!(f, "no kind does all of this")?;
        } else {
            writeln!(f, "{rows}")?;
        }
        for (place, found) in self.ranked.iter().enumerate() {
            writeln!(f, "{}. {} {}\n   ({})", place + 1, found.kind, found.why, found.setting)?;
        }
        for refused in &self.unsuitable {
            writeln!(f, "-  {} {}", refused.kind, refused.why_not)?;
        }
        writeln!(f, "\ncost: bytes times time over the filter's life, the first's being 1; times are of one Zen 3 core")
    }
}
