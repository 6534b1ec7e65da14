//! Compares sstfilter with other filter crates, with the same keys in one harness.

mod allocator;
mod counted;
mod figures;
mod harness;
mod joins;
mod key_bytes;
mod keys;
mod many_filters;
mod page;
mod points;
mod random;
mod ranges;
mod record;
mod report;
mod subject;
mod subjects;
mod tables;

use std::error::Error;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use sstfilter_charts::{Table, grouped};

use crate::record::{Measurements, Run, Uses};
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
    Report {
        /// The directory of `results`, which has the records, and where tables.md and the charts go.
        #[arg(long, value_name = "DIR", default_value = "benches")]
        out: PathBuf,
    },
    /// Turns measurements into the times that `sstfilter advise` ranks kinds by.
    Advice {
        /// Directory of peers.json, and of KIND.json for kinds that were measured by themselves.
        #[arg(long, value_name = "DIR", default_value = "benches/results")]
        results: PathBuf,
        /// The file to write.
        #[arg(long, value_name = "FILE", default_value = "crates/cli/src/commands/advise/measured.rs")]
        out: PathBuf,
    },
    /// Measures hash joins, and prints a page.
    Joins {
        /// Take seconds: a tenth of the rows, fewer repetitions.
        #[arg(long)]
        quick: bool,
    },
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

/// The arguments that say what to measure, and where the records go.
#[derive(Debug, Args)]
struct RunArgs {
    /// Take less than two minutes: fewer keys, fewer repetitions.
    #[arg(long)]
    quick: bool,
    /// Only crates and filters whose name contains this, e.g. `xorf` or `Ribbon`. May be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Writes the records there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl RunArgs {
    /// Returns whether a filter's crate or kind matches one of the requested names, if there are any.
    fn is_wanted(&self, implementation: &str, kind: &str) -> bool {
        let name = format!("{implementation} {kind}").to_lowercase();
        self.only.is_empty() || self.only.iter().any(|wanted| name.contains(&wanted.to_lowercase()))
    }

    /// The arguments of a run, to reproduce it: flags, if they were passed, and the names that were chosen.
    fn arguments(&self, flags: &[(bool, &str)]) -> Vec<String> {
        let flags =
            [(self.quick, "--quick")].into_iter().chain(flags.iter().copied()).filter(|(is_passed, _)| *is_passed);
        let flags = flags.map(|(_, flag)| flag.to_owned());
        flags.chain(self.only.iter().flat_map(|name| ["--only".to_owned(), format!("\"{name}\"")])).collect()
    }

    /// Writes the records as indented JSON, if a file was named.
    fn write<T: Serialize>(&self, records: &T) -> io::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(records)? + "\n";
        fs::write(path, text).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Report { out }) => report::run(&out).map_err(Into::into),
        Some(Command::Advice { results, out }) => report::advice::run(&results, &out).map_err(Into::into),
        Some(Command::Joins { quick: true }) => joins::run(100_000, 1_000_000, 3),
        Some(Command::Joins { quick: false }) => joins::run(1_000_000, 10_000_000, 7),
        Some(Command::Ranges(args)) => ranges::run(&args),
        None => measure(&cli.measure),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("sstfilter-peers: {error}");
    ExitCode::FAILURE
}

fn measure(args: &MeasureArgs) -> Result<(), Box<dyn Error>> {
    let mut subjects = subjects::all(args.isa);
    subjects.retain(|subject| args.run.is_wanted(subject.label().implementation, subject.label().kind));
    if subjects.is_empty() {
        return Err("no crate and no filter has that name; without --only all are measured".into());
    }
    let run = Run::now(args.run.arguments(&[(args.large, "--large"), (args.isa == IsaChoice::All, "--isa all")]));
    let mut records = Vec::new();
    let rounds = if args.run.quick { points::QUICK.as_slice() } else { &points::FULL };
    for round in rounds.iter().copied().chain(args.large.then_some(points::LARGE)) {
        let keys = round.keys as u64;
        records.extend(points::measure(&subjects, round, |problem| eprintln!("left out: {problem}")));
        print(&format!("{} keys", grouped(keys)), &tables::of_size(&records, keys));
    }
    let mut uses = Uses::default();
    if args.run.only.is_empty() {
        let turns = |quick, full| if args.run.quick { quick } else { full };
        uses.key_bytes = key_bytes::measure(turns(40, 200))?;
        uses.counted = counted::measure(turns(20, 100))?;
        uses.many_filters = many_filters::measure(turns(3, 20), args.isa)?;
    }
    tables::of_uses(&uses).for_each(|(title, table)| print(title, &table));
    Ok(args.run.write(&Measurements { run, records, uses })?)
}

/// Prints a table with its title.
fn print(title: &str, table: &Table) {
    println!("{title}\n\n{}", table.aligned());
}
