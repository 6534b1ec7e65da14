//! `sstfilter`: builds, queries, inspects and verifies tables and their filter blocks.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use sstfilter_cli::{Cli, Interrupted, explained};

/// Exit code that a shell shows for a process that SIGPIPE (signal 13) ended. Rust ignores that signal, so the program
/// returns the code itself.
const CLOSED_PIPE_EXIT: u8 = 128 + 13;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return explain(&message),
    };
    // Other commands write nothing that a signal could leave half done, so its default action suits them.
    if cli.makes_files() {
        sstfilter_cli::end_in_order();
    }
    let mut stdout = BufWriter::new(io::stdout().lock());
    match sstfilter_cli::run(&cli, &mut stdout) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            let _ = stdout.flush();
            if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
                let _ = writeln!(io::stderr(), "{interrupted}");
                return ExitCode::from(interrupted.exit_code());
            }
            // Nobody can read the failure of this write; `eprintln!` would panic.
            let _ = writeln!(io::stderr(), "error: {}", explained(&error));
            ExitCode::from(2)
        }
    }
}

/// Prints help, the version, or an error about the arguments.
fn explain(message: &clap::Error) -> ExitCode {
    match message.print().and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::from(if message.use_stderr() { 2 } else { 0 }),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: cannot write to standard output: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of the output has gone away (`sstfilter ... | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
