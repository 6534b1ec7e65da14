//! `sstfilter advise`: recommends a filter for a use case.

pub(crate) mod levels;
mod measured;
pub(crate) mod ranges;
mod rank;
pub(crate) mod tables;

use core::fmt;

use anyhow::ensure;
use serde::Serialize;
use sstfilter::FalsePositiveRate;
use sstfilter::kind::Updates;

use crate::args::{AdviseArgs, UpdatesName};
use crate::output::{Column, Outcome, figures};
use crate::units;
use rank::{Candidate, Need, Refused, Target, rank};

#[derive(Debug, Serialize)]
pub(crate) struct AdviceReport {
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

pub(crate) fn run(args: &AdviseArgs) -> anyhow::Result<(Outcome, AdviceReport)> {
    let need = need(args)?;
    let (ranked, unsuitable) = rank(&need);
    let outcome = Outcome::from_sound(!ranked.is_empty());
    let report = AdviceReport {
        keys: need.keys,
        target: match need.target {
            Target::Rate(rate) => format!("at most {} false positives", units::brief_percent(rate.get())),
            Target::Bytes(bytes) => format!("at most {}", units::bytes(bytes)),
        },
        absent_lookups: need.absent_lookups,
        ranked: ranked.iter().map(|found| Ranked::new(found, &ranked[0], &need)).collect(),
        unsuitable,
    };
    Ok((outcome, report))
}

fn need(args: &AdviseArgs) -> anyhow::Result<Need> {
    // Never missing: clap requires it for this form of the command.
    let keys = args.keys.unwrap_or_default();
    let lookups = args.lookups_per_key * keys as f64;
    // Far below 2^64, because the number is converted to an integer.
    ensure!(lookups < 1e18, "--lookups-per-key: expected less than 10^18 lookups in all, got {lookups:e}");
    Ok(Need {
        keys,
        target: match (args.fpr, args.memory) {
            (None, Some(bytes)) => Target::Bytes(bytes),
            (rate, _) => Target::Rate(rate.unwrap_or(FalsePositiveRate::ONE_PERCENT)),
        },
        updates: match args.updates {
            UpdatesName::None => Updates::None,
            UpdatesName::Insert => Updates::Insert,
            UpdatesName::Remove => Updates::InsertAndRemove,
        },
        has_many_writers: args.threads > 1,
        absent_lookups: units::whole(lookups),
        false_positive_ns: args.false_positive_ns,
    })
}

impl Ranked {
    fn new(found: &Candidate, first: &Candidate, need: &Need) -> Self {
        let ratio = found.cost() / first.cost();
        let is_first = found.kind.name == first.kind.name;
        let why = if is_first { found.kind.strength.to_owned() } else { behind(found, first, need) };
        let lock = if found.is_locked { "; with several writers it needs a lock, whose time is included" } else { "" };
        let few = if found.is_below_minimum { "; set `with_min_keys`: by default, so few keys get bloom" } else { "" };
        Self {
            kind: found.kind.name,
            setting: found
                .plan
                .shape
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect::<Vec<_>>()
                .join(", "),
            block_bytes: found.plan.block_bytes,
            bits_per_key: found.plan.block_bytes as f64 * 8.0 / need.keys.max(1) as f64,
            expected_fpr: found.plan.expected_fpr,
            build_ns_per_key: found.build_ns,
            probe_ns_per_key: found.probe_ns,
            // Without keys, all costs are 0.
            relative_cost: if ratio.is_finite() { ratio } else { 1.0 },
            why: why + lock + few,
        }
    }
}

/// Explains why `other` is more expensive than the first.
fn behind(other: &Candidate, first: &Candidate, need: &Need) -> String {
    let name = first.kind.name;
    let bytes = other.plan.block_bytes as f64 / first.plan.block_bytes as f64;
    let size = match (need.target, bytes) {
        (Target::Bytes(_), _) => {
            let rate = times(other.plan.expected_fpr, first.plan.expected_fpr);
            format!("has {rate} the false positive rate of {name}")
        }
        // A ratio that rounds to 0 %.
        (_, 0.995..1.005) => format!("is as large as {name}"),
        (_, ..1.0) => format!("is {:.0} % smaller than {name}", (1.0 - bytes) * 100.0),
        _ => format!("takes {:.0} % more memory than {name}", (bytes - 1.0) * 100.0),
    };
    format!("{size}, and needs {} its time over the filter's life", times(other.seconds, first.seconds))
}

/// Formats the ratio of `other` to `first`. Without keys, both may be 0.
fn times(other: f64, first: f64) -> String {
    match other / first {
        _ if other <= 0.0 && first <= 0.0 => "1.00 times".to_owned(),
        ratio @ ..10.0 => format!("{ratio:.2} times"),
        ratio @ ..1e6 => format!("{ratio:.0} times"),
        _ => "over a million times".to_owned(),
    }
}

impl fmt::Display for AdviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, lookups) = (units::grouped(self.keys), units::grouped(self.absent_lookups));
        writeln!(f, "a filter of {keys} keys with {}, probed for {lookups} absent keys\n", self.target)?;
        let columns: [Column<Ranked>; 7] = [
            ("kind", |found| found.kind.to_owned()),
            ("bytes", |found| units::grouped(found.block_bytes)),
            ("bits per key", |found| format!("{:.2}", found.bits_per_key)),
            ("expected rate", |found| units::percent(found.expected_fpr)),
            ("build ns", |found| format!("{:.1}", found.build_ns_per_key)),
            ("probe ns", |found| format!("{:.1}", found.probe_ns_per_key)),
            ("cost", |found| format!("{:.2}", found.relative_cost)),
        ];
        if self.ranked.is_empty() {
            writeln!(f, "no kind meets all requirements")?;
        } else {
            writeln!(f, "{}", figures(&columns, &self.ranked))?;
        }
        for (place, found) in self.ranked.iter().enumerate() {
            writeln!(f, "{}. {} {}\n   ({})", place + 1, found.kind, found.why, found.setting)?;
        }
        for refused in &self.unsuitable {
            writeln!(f, "-  {} {}", refused.kind, refused.why_not)?;
        }
        writeln!(
            f,
            "\ncost: bytes times time over the filter's life, relative to the first; times are from benches/results/tables.md"
        )
    }
}
