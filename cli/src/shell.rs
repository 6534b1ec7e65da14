//! `sstfilter completions` and `sstfilter man`: what shells and manuals know of the command line, from its parser.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::output::{CANNOT_WRITE, Outcome, Output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of the program and of all its commands to this directory, made if it does not exist; else the
    /// program's own page goes to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const NAME: &str = "sstfilter";

/// Prints a script that a shell reads.
pub(crate) fn completions(args: &CompletionsArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: completions are a script of the shell, not a report");
    // Into memory first: the generator panics when a write fails, such as into a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    output.writer.write_all(&script).context(CANNOT_WRITE)?;
    Ok(Outcome::Yes)
}

/// Prints the program's page, or writes all pages.
pub(crate) fn man(args: &ManArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: a manual page is a page, not a report");
    match &args.out {
        Some(directory) => write_pages(directory)?,
        None => Man::new(Cli::command().disable_help_subcommand(true)).render(output.writer).context(CANNOT_WRITE)?,
    }
    Ok(Outcome::Yes)
}

fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write the pages to {}", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    clap_mangen::generate_to(Cli::command(), directory).with_context(context)
}
