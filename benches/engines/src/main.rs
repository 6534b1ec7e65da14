//! Point reads through whole storage engines, the same data in each.

mod data;
mod engines;
mod measure;
mod record;
mod timing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::data::{Data, Scenario};
use crate::measure::Effort;
use crate::record::Record;

/// Looks up absent and present keys in whole engines.
#[derive(Debug, Parser)]
#[command(name = "sstfilter-engines", version)]
struct Cli {
    /// Fewer keys and repetitions, and figures that only show that it runs
    #[arg(long)]
    quick: bool,
    /// Writes an array of records there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sstfilter-engines: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let (scenarios, effort) = if cli.quick {
        ([Scenario::new(70, 2_000), Scenario::new(1, 100_000)], Effort::QUICK)
    } else {
        ([Scenario::new(70, 15_000), Scenario::new(1, 1_000_000)], Effort::FULL)
    };
    println!("flags of the C++ compiler: {}", option_env!("CXXFLAGS").unwrap_or("none, so RocksDB goes without AVX2"));
    let mut records = Vec::new();
    for scenario in scenarios {
        let of_scenario = run_scenario(scenario, effort)?;
        println!("\n{scenario}\n\n{}", record::table(&of_scenario).aligned());
        records.extend(of_scenario);
    }
    cli.json.as_deref().map_or(Ok(()), |path| record::write_json(path, &records))
}

fn run_scenario(scenario: Scenario, effort: Effort) -> Result<Vec<Record>> {
    let directory = tempfile::tempdir().context("making a directory for the engines' files")?;
    let data = Data::new(scenario, effort.queries);
    let mut engines = engines::build_all(&data, directory.path())?;
    measure::measure(&mut engines, &data, effort)
}
