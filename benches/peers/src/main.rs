//! Compares sstfilter with other filter crates, with the same keys in one harness.

mod allocator;
mod counted;
mod figures;
mod harness;
mod joins;
mod key_bytes;
mod keys;
mod many_filters;
mod points;
mod random;
mod ranges;
mod record;
mod report;
mod run_args;
mod subject;
mod subjects;
mod tables;

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sstfilter::simd::InstructionSet;
use sstfilter_charts::{Machine, grouped, today};

use crate::harness::Length;
use crate::record::Measurements;
use crate::run_args::RunArgs;
use crate::subject::Subject;
use crate::subjects::IsaChoice;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Compares sstfilter with other filter crates, with the same keys.
#[derive(Debug, Parser)]
#[command(name = "sstfilter-peers", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Turns measurements into results/tables.md and charts.
    Report(report::ReportArgs),
    /// Turns measurements into the times that `sstfilter advise` ranks kinds by.
    Advice(report::advice::AdviceArgs),
    /// Measures hash joins, and prints a page.
    Joins(joins::JoinsArgs),
    /// Measures range filters.
    Ranges(RunArgs),
}

/// The measurements.
#[derive(Debug, Args)]
struct MeasureArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Also 100 million keys, Bloom filters only. Takes 3 GiB of memory.
    #[arg(long, conflicts_with = "quick")]
    large: bool,
    /// Our kernels to measure.
    #[arg(long, value_enum, default_value_t)]
    isa: IsaChoice,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Report(args)) => report::run(&args).map_err(Into::into),
        Some(Command::Advice(args)) => report::advice::run(&args).map_err(Into::into),
        Some(Command::Joins(args)) => joins::run(&args),
        Some(Command::Ranges(args)) => ranges::run(&args),
        None => measure(&cli.measure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sstfilter-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

impl MeasureArgs {
    fn length(&self) -> Length {
        match (self.run.quick, self.large) {
            (true, _) => Length::Quick,
            (_, true) => Length::Large,
            _ => Length::Full,
        }
    }

    fn subjects(&self) -> Vec<Box<dyn Subject>> {
        let mut subjects = subjects::all(self.isa);
        subjects.retain(|subject| {
            let label = subject.label();
            self.run.is_wanted(label.implementation, label.kind)
        });
        subjects
    }
}

fn measure(args: &MeasureArgs) -> Result<(), Box<dyn Error>> {
    let subjects = args.subjects();
    if subjects.is_empty() {
        return Err("no crate and no filter has that name; without --only all are measured".into());
    }
    let mut measurements = Measurements {
        date: today(),
        arguments: args.run.arguments(&[(args.large, "--large"), (args.isa == IsaChoice::All, "--isa all")]),
        machine: Machine::this(InstructionSet::fastest().name()),
        records: Vec::new(),
        many_filters: Vec::new(),
        key_bytes: Vec::new(),
        counted: Vec::new(),
    };
    for round in points::rounds(args.length()) {
        let records = points::measure(&subjects, round, |problem| eprintln!("left out: {problem}"));
        println!("{} keys\n\n{}", grouped(round.keys as u64), tables::of_size(&records, round.keys as u64).aligned());
        measurements.records.extend(records);
    }
    if args.run.only.is_empty() {
        measure_uses(args, &mut measurements)?;
    }
    Ok(args.run.write(&measurements)?)
}

/// Measures the uses that only a few filters take part in.
fn measure_uses(args: &MeasureArgs, measurements: &mut Measurements) -> Result<(), Box<dyn Error>> {
    measurements.key_bytes = key_bytes::measure(args.length())?;
    println!("hashing keys\n\n{}", tables::hashing(&measurements.key_bytes).aligned());
    println!("from key bytes to an answer\n\n{}", tables::hashing_and_probing(&measurements.key_bytes).aligned());
    measurements.counted = counted::measure(args.length())?;
    println!("counted single probes\n\n{}", tables::counted(&measurements.counted).aligned());
    measurements.many_filters = many_filters::measure(args.length(), args.isa)?;
    println!("one absent key, many filters\n\n{}", tables::many_filters(&measurements.many_filters).aligned());
    Ok(())
}
