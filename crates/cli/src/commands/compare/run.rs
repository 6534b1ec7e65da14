//! Compares all kinds of filter.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use serde_json::{to_string_pretty, to_value};
use sstfilter::{BitsPerKey, FalsePositiveRate, Sizing, kind};
use sstfilter_charts::{Machine, today};

use super::keys::{Intake, SourceArgs};
use super::page;
use super::rows::{Comparison, alarm, conclusion, footing};
use crate::commands::options::{AUTO, parse_bits_per_key};
use crate::file::context::Context;
use crate::file::replace::OwnFiles;
use crate::measure::filters::{MeasuredKind, measure, steps};
use crate::measure::made_up::Curves;
use crate::print::types::{Figure, Open, Seconds};
use crate::print::{Json, Outcome};
use crate::system::progress;
use crate::words::units::{counted, number_in, parse_fpr};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,

    /// Compare at this false positive rate, between 0 and 1 [default: the rate of blocked Bloom at 10 bits per key; of
    /// range filters, 0.01]
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, conflicts_with = "bits_per_key")]
    pub(super) fpr: Option<FalsePositiveRate>,

    /// Compare at this size instead, 1 to 100 bits per key (auto uses the rate of a Bloom filter of this size)
    #[arg(long, value_name = "B", value_parser = parse_bits_per_key, allow_negative_numbers = true)]
    bits_per_key: Option<BitsPerKey>,

    /// Compare range filters for the keys of --input instead, on empty ranges of this length, in units of the integer
    /// after --range-prefix [default prefix: all but the last 8 bytes, if all keys have one length]
    #[arg(long, value_name = "UNITS", value_parser = number_in::<u64>(1..=1 << 40), allow_negative_numbers = true,
        conflicts_with_all = ["generate", "absent", "holdout", "files", "bits_per_key", "out"])]
    pub(crate) range_length: Option<u64>,

    /// Also measure all kinds at other rates and with fewer keys, and write a page with charts, compare.html, and
    /// compare.json to this directory, created if missing. Only files of an earlier comparison are replaced. A million
    /// keys take minutes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompareArgs {
    /// Returns the command that gives the same figures, without the path of its output. `options` say how tables are
    /// read.
    fn command(&self, options: &str) -> String {
        let mut words = self.source.words();
        words.extend(self.fpr.map(|rate| format!("--fpr {}", rate.get())));
        words.extend(self.bits_per_key.map(|bits| format!("--bits-per-key {}", bits.get())));
        words.extend(self.out.as_ref().map(|_| "--out DIR".to_owned()));
        format!("sstfilter compare{options} {}", words.join(" "))
    }
}

/// The files, and the beginning by which those of an earlier run are recognized.
const FILES: [(&str, &str); 2] = [
    ("compare.html", page::FIRST_LINE),
    // Depends on the first fields of `Comparison` and their order.
    ("compare.json", "{\n  \"program\": \"sstfilter\",\n  \"command\": \"sstfilter compare "),
];

/// The report warns if there are fewer absent keys: at 1 %, they show no more than ten false positives.
const FEW_ABSENT_KEYS: u64 = 1_000;

/// Compares all kinds. The answer is no if any filter lost a key, or a table is damaged.
pub(crate) fn run(args: &CompareArgs, context: &Context) -> anyhow::Result<(Outcome, Comparison)> {
    let begun = Instant::now();
    // Checked first: minutes of measuring must not end at a directory that cannot be written.
    let files = args.out.as_deref().map(|out| OwnFiles::prepare(out, FILES, &args.source.inputs())).transpose()?;
    let (sizing, footing) = footing(args.fpr, args.bits_per_key)?;
    let mut intake = Intake::new(context);
    let (workload, absent_from) = args.source.workload(&mut intake)?;

    let names: Vec<_> = kind::all().iter().map(|entry| entry.name).chain([AUTO]).collect();
    let mut omissions = Vec::new();
    let curve_steps = if files.is_some() { Curves::steps(&workload) } else { 0 };
    let stages = progress::stages(steps(names.len()) + curve_steps);
    let compared = measure(&names, &workload, sizing, &sizing.to_string(), &stages, &mut omissions)?;
    // One reason is enough: if no kind has a row, the same setting is out of reach for all.
    let reason = omissions.first().map_or("", String::as_str);
    ensure!(!compared.is_empty(), "no kind can build filters of these keys: {reason}");
    let measure_curves = || Curves::measure(&workload, sizing, &stages, &mut omissions);
    let curves = files.is_some().then(measure_curves).transpose()?;

    let absent_keys = workload.absent.len() as u64;
    let of_curves = curves.iter().flat_map(|curves| &curves.by_keys);
    let alarm = compared.iter().chain(of_curves).find_map(alarm);
    let outcome = Outcome::from_sound(alarm.is_none()).max(intake.outcome);
    let reached: usize = workload.reached.iter().map(core::ops::Range::len).sum();
    let machine = to_value(Machine::this(sstfilter::simd::selected().name()))?;
    let mut comparison = Comparison {
        program: "sstfilter",
        command: args.command(&context.options),
        keys: workload.keys(),
        dealt_files: workload.files.len() as u64,
        absent_keys,
        absent_from,
        block_reads_without_filters: Figure(reached as f64 / absent_keys as f64),
        notes: [intake.notes, notes(&compared, sizing, absent_keys)].concat(),
        // Keys that were lost are all that matters.
        conclusion: alarm.unwrap_or_else(|| conclusion(&compared, sizing, &footing)),
        footing,
        compared,
        omissions,
        not_read: intake.not_read,
        written_files: Vec::new(),
        curves,
        version: env!("CARGO_PKG_VERSION"),
        date: today(),
        machine: Open(machine.as_object().cloned().unwrap_or_default()),
        run_seconds: Seconds(begun.elapsed().as_secs_f64()),
    };
    if let Some(files) = files {
        let json = to_string_pretty(&Json(&comparison))? + "\n";
        comparison.written_files = files.write(&[page::html(&comparison)?, json])?;
    }
    Ok((outcome, comparison))
}

fn notes(compared: &[MeasuredKind], sizing: Sizing, absent_keys: u64) -> Vec<String> {
    let mut notes = vec![
        "expected and observed rates: of single filters; the margin is of 95 %, if probes are independent".to_owned(),
        "times: without hashing, the best of several".to_owned(),
    ];
    if let Some(auto) = compared.iter().find(|row| row.requested == AUTO) {
        // Otherwise, the smaller filters of `auto` would look like a mistake.
        let at_rate = match sizing {
            Sizing::BitsPerKey(_) => ", with the rate of a Bloom filter of this size, in fewer bytes if it can",
            _ => "",
        };
        notes.push(format!("auto builds {} filters of these keys{at_rate}", auto.kind));
    }
    if absent_keys < FEW_ABSENT_KEYS {
        let few = counted(absent_keys, "absent key");
        notes.push(format!("only {few}: observed rates are rough, and the expected ones are more reliable"));
    }
    notes
}
