//! `sstfilter`: builds, asks, inspects and verifies tables and their filter blocks.

mod advise;
mod args;
mod build;
mod demo;
mod files;
mod get;
mod inspect;
mod keys;
mod lines;
mod memory;
mod output;
mod policy;
mod probe;
mod progress;
mod report;
mod secret;
mod tables;
mod units;
mod verify;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use args::{Cli, Command};
use output::{CANNOT_WRITE, Outcome, Output};

/// The exit code of a process that the kernel would have ended for writing to a closed pipe.
const CLOSED_PIPE_EXIT: u8 = 128 + 13;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut stdout = BufWriter::new(io::stdout().lock());
    let mut output = Output::new(&mut stdout, cli.json);
    let outcome = run(&cli, &mut output);
    let outcome = outcome.and_then(|outcome| stdout.flush().map(|()| outcome).context(CANNOT_WRITE));
    match outcome {
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            // Nobody is left to tell when this fails; `eprintln!` would panic.
            let _ = stdout.flush();
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let secret = cli.secret_seed_file.as_deref().map(secret::hasher_from).transpose()?;
    let secret = secret.as_ref();
    match &cli.command {
        Command::Demo => demo::run(output),
        Command::Build(args) => build::run(args, secret, output),
        Command::Get(args) => get::run(args, secret, output),
        Command::Probe(args) => probe::run(args, secret, output),
        Command::Inspect(args) => inspect::run(args, secret, output),
        Command::Verify(args) => verify::run(args, secret, output),
        Command::Advise(args) => advise::run(args, output),
        Command::Report(args) => report::run(args, output),
    }
}

/// Whether the reader of our output has gone away (`sstfilter ... | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause
            .downcast_ref::<io::Error>()
            .map(io::Error::kind)
            .or_else(|| cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind));
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}
