//! `sstfilter advise kind`: ranks the kinds of filter for a use, with sizes, rates and reasons.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use sstfilter::FalsePositiveRate;
use sstfilter::kind::Updates;

use super::rank::{Candidate, Need, Target, rank};
use crate::print::types::{Bits, Bytes, Figure, Nanoseconds, Open, Rate};
use crate::print::{Outcome, record};
use crate::words::units::{self, number_in, parse_fpr, parse_number, parse_ratio};

#[derive(Debug, Args)]
pub(crate) struct KindArgs {
    /// Maximum number of distinct keys
    #[arg(value_name = "KEYS", value_parser = number_in::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
    keys: u64,

    /// Maximum false positive rate, between 0 and 1 [default: 0.01, unless --memory is given]
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, conflicts_with = "memory")]
    fpr: Option<FalsePositiveRate>,

    /// Maximum bytes of the filter
    #[arg(long, value_name = "BYTES", value_parser = parse_number)]
    memory: Option<u64>,

    /// How the keys change once the filter is in use
    #[arg(long, value_enum, default_value = "none")]
    updates: UpdatesName,

    /// Number of threads that add or remove keys concurrently
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number_in::<u32>(1..=u64::from(u32::MAX)),
        allow_negative_numbers = true)]
    writers: u32,

    /// Lookups of absent keys over the filter's life, per stored key
    #[arg(long, value_name = "R", default_value_t = 1.0, value_parser = parse_ratio, allow_negative_numbers = true)]
    lookups_per_key: f64,

    /// Cost of a false positive in nanoseconds: the read that the filter failed to avoid; a few hundred if blocks are
    /// in memory
    #[arg(long, value_name = "NS", default_value_t = 10_000, value_parser = parse_number, allow_negative_numbers = true)]
    false_positive_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UpdatesName {
    /// Not at all: all keys are known when the filter is built
    None,
    /// Keys are added
    Insert,
    /// Keys are added and removed
    Remove,
}

record! {
    /// The kinds of filter that suit a use, best first, and the others.
    pub(crate) struct KindAdvice {
        keys: u64,
        target: String,
        absent_lookups: u64,
        ranked: Vec<RankedKind>,
        explanations: Vec<String>,
        unsuitable: Vec<String>,
        advice: String [notable],
        notes: Vec<String>,
    }

    /// A kind that meets the requirements; its times were measured on one machine.
    struct RankedKind {
        kind: &'static str [row],
        filter_bytes: Bytes [row],
        bits_per_key: Bits [row],
        expected_fpr: Rate [row],
        build_ns: Nanoseconds [row],
        batch_probe_ns: Nanoseconds [row],
        cost: Figure [row],
        /// parameters of the kind, by its own names
        shape: Open [json],
    }
}

/// Ranks the kinds. The answer is no if none meets the requirements.
pub(crate) fn run(args: &KindArgs) -> anyhow::Result<(Outcome, KindAdvice)> {
    let need = need(args)?;
    let (ranked, unsuitable) = rank(&need);
    let advice = KindAdvice {
        keys: need.keys,
        target: match need.target {
            Target::Rate(rate) => format!("at most {} false positives", units::brief_percent(rate.get())),
            Target::Bytes(bytes) => format!("at most {}", units::bytes(bytes)),
        },
        absent_lookups: need.absent_lookups,
        ranked: ranked.iter().map(|found| row(found, &ranked[0], &need)).collect(),
        explanations: ranked.iter().skip(1).map(|found| behind(found, &ranked[0], &need)).collect(),
        unsuitable,
        advice: match ranked.first() {
            Some(first) => format!("{}: {}{}", first.kind.name, first.kind.strength, conditions(first)),
            None => "no kind meets all requirements: allow more memory, or more false positives".to_owned(),
        },
        notes: vec!["cost: bytes times the time over the filter's life, by times of one machine".to_owned()],
    };
    Ok((Outcome::from_sound(!ranked.is_empty()), advice))
}

fn need(args: &KindArgs) -> anyhow::Result<Need> {
    let lookups = args.lookups_per_key * args.keys as f64;
    // Far below 2^64, because the number is converted to an integer.
    ensure!(lookups < 1e18, "--lookups-per-key: expected less than 10^18 lookups in all, got {lookups:e}");
    Ok(Need {
        keys: args.keys,
        target: match (args.fpr, args.memory) {
            (None, Some(bytes)) => Target::Bytes(bytes),
            (rate, _) => Target::Rate(rate.unwrap_or(FalsePositiveRate::ONE_PERCENT)),
        },
        updates: match args.updates {
            UpdatesName::None => Updates::None,
            UpdatesName::Insert => Updates::Insert,
            UpdatesName::Remove => Updates::InsertAndRemove,
        },
        has_many_writers: args.writers > 1,
        absent_lookups: units::whole(lookups),
        false_positive_ns: args.false_positive_ns,
    })
}

fn row(found: &Candidate, first: &Candidate, need: &Need) -> RankedKind {
    RankedKind {
        kind: found.kind.name,
        filter_bytes: Bytes(found.plan.block_bytes),
        bits_per_key: Bits(found.plan.block_bytes as f64 * 8.0 / need.keys as f64),
        expected_fpr: Rate(found.plan.expected_fpr),
        build_ns: Nanoseconds(found.build_ns),
        batch_probe_ns: Nanoseconds(found.probe_ns),
        cost: Figure(found.cost() / first.cost()),
        shape: Open(found.plan.shape.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect()),
    }
}

fn conditions(found: &Candidate) -> &'static str {
    if found.is_locked { "; with several writers it needs a lock, whose time is included" } else { "" }
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
    let (name, time) = (other.kind.name, times(other.seconds, first.seconds));
    format!("{name} {size}, and needs {time} its time over the filter's life{}", conditions(other))
}

/// Formats the ratio of `other` to `first`.
fn times(other: f64, first: f64) -> String {
    match other / first {
        ratio @ ..10.0 => format!("{ratio:.2} times"),
        ratio @ ..1e6 => format!("{ratio:.0} times"),
        _ => "over a million times".to_owned(),
    }
}
