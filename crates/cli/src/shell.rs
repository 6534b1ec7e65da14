//! `sstfilter completions` and `sstfilter man`: shell completions and manual pages, generated from the parser of the
//! command line.

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
    /// Shell to complete for
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of the program and of all its commands to this directory, created if missing. Only pages that
    /// this command wrote are replaced. Without this option, the program's page goes to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const NAME: &str = "sstfilter";

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: completions are a shell script, not a report");
    // Generated in memory: the generator panics if a write fails, such as to a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    output.writer.write_all(&script).context(CANNOT_WRITE)?;
    Ok(Outcome::Yes)
}

/// Prints the program's page, or writes all pages.
pub(crate) fn man(args: &ManArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: the manual page has no JSON form");
    match &args.out {
        Some(directory) => write_pages(directory)?,
        None => Man::new(Cli::parser().disable_help_subcommand(true)).render(output.writer).context(CANNOT_WRITE)?,
    }
    Ok(Outcome::Yes)
}

/// The first line of each page in a file, a comment by which a later run recognizes its own pages.
const MARK: &str = ".\\\" made by sstfilter man\n";

/// Writes all pages, or none if one would replace a file that this command did not write.
fn write_pages(directory: &Path) -> anyhow::Result<()> {
    // Without the pages of `help`, which would repeat those of all commands.
    let mut program = Cli::parser().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(program, &mut pages)?;
    let (names, pages): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
    OwnFiles::prepare(directory, names.into_iter().map(|name| (name, MARK)))?.write(&pages).map(drop)
}

/// Adds the pages of a command and its subcommands, each with its file name.
fn add_pages(command: clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(command.clone(), pages)?;
    }
    let (page, mut text) = (Man::new(command), MARK.as_bytes().to_vec());
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
