//! `sstfilter completions` and `sstfilter man`: what shells and manuals know of the command line, from its parser.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::output::{CANNOT_WRITE, Outcome, Output};
use crate::replace::OwnFiles;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of the program and of all its commands to this directory, made if it does not exist, in place of
    /// pages that this command wrote there; else the program's own page goes to standard output
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

/// The first line of each page that is written to a file: a comment.
const MARK: &str = ".\\\" made by sstfilter man\n";

/// Writes all pages, or none if one would replace a file that is no page of ours.
fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(program, &mut pages)?;
    let (names, pages): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
    OwnFiles::prepare(directory, names.into_iter().map(|name| (name, MARK)))?.write(&pages).map(drop)
}

/// Adds the page of a command and those of its own commands, each with the name of its file.
fn add_pages(command: clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(command.clone(), pages)?;
    }
    let (page, mut text) = (Man::new(command), MARK.as_bytes().to_vec());
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
