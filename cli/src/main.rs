//! `sstfilter`: builds, queries, inspects and verifies tables and their filter blocks.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use sstfilter_cli::{CANNOT_WRITE, Cli, explained};

/// The exit code of a process that the kernel would have ended for writing to a closed pipe.
const CLOSED_PIPE_EXIT: u8 = 128 + 13;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut stdout = BufWriter::new(io::stdout().lock());
    let outcome = sstfilter_cli::run(&cli, &mut stdout);
    let outcome = outcome.and_then(|outcome| stdout.flush().map(|()| outcome).context(CANNOT_WRITE));
    match outcome {
        Ok(outcome) => ExitCode::from(outcome as u8),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            // Nobody is left to tell when this fails; `eprintln!` would panic.
            let _ = stdout.flush();
            let _ = writeln!(io::stderr(), "error: {}", explained(&error));
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of our output has gone away (`sstfilter ... | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
