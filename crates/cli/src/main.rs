//! `sstfilter`: builds, queries, inspects and verifies tables and their filter blocks.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::{env, fmt};

use sstfilter_cli::{Cli, Interrupted, explained};

/// Exit code that a shell shows for a process that SIGPIPE (signal 13) ended. Rust ignores that signal, so the program
/// returns the code itself.
const CLOSED_PIPE_EXIT: u8 = 128 + 13;

/// Exit code of a failure.
const FAILURE_EXIT: u8 = 2;

fn main() -> ExitCode {
    // Also known for arguments that are wrong.
    let is_json = env::args_os().any(|argument| argument == "--json");
    let cli = match Cli::from_arguments(env::args_os()) {
        Ok(cli) => cli,
        Err(message) => return explain(&message, is_json),
    };
    // Other commands write nothing that a signal could leave half done, so its default action suits their text.
    if cli.makes_files() || is_json {
        let in_json = |message: &str| print_error(&mut io::stdout(), &message);
        sstfilter_cli::end_in_order(if is_json { in_json } else { |_| {} });
    }
    // Not locked: the thread that waits for signals may print, too.
    let mut stdout = BufWriter::new(io::stdout());
    match sstfilter_cli::run(&cli, &mut stdout) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            let interrupted = error.downcast_ref::<Interrupted>();
            let message = interrupted.map_or_else(|| explained(&error), ToString::to_string);
            if is_json {
                print_error(&mut stdout, &message);
            }
            let _ = stdout.flush();
            let start = if interrupted.is_some() { "" } else { "error: " };
            // Nobody can read the failure of this write; `eprintln!` would panic.
            let _ = writeln!(io::stderr(), "{start}{message}");
            ExitCode::from(interrupted.map_or(FAILURE_EXIT, Interrupted::exit_code))
        }
    }
}

/// Prints an error as the one JSON object of a command.
fn print_error(stdout: &mut impl Write, message: &impl fmt::Display) {
    let object = serde_json::json!({ "error": message.to_string() });
    let _ = writeln!(stdout, "{object:#}");
}

/// Prints help, the version, or an error about the arguments.
fn explain(message: &clap::Error, is_json: bool) -> ExitCode {
    if is_json && message.use_stderr() {
        let text = message.to_string();
        print_error(&mut io::stdout(), &text.trim().trim_start_matches("error: "));
    }
    match message.print().and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::from(if message.use_stderr() { FAILURE_EXIT } else { 0 }),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(CLOSED_PIPE_EXIT),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: cannot write to standard output: {error}");
            ExitCode::from(FAILURE_EXIT)
        }
    }
}

/// Whether the reader of the output has gone away (`sstfilter ... | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
