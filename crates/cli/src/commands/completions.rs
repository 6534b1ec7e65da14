//! `sstfilter completions`: shell completions and manual pages, generated from the parser of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::file::replace::OwnFiles;
use crate::print::{CANNOT_WRITE, Outcome, Output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for, or man for the manual page of the program
    #[arg(value_name = "SHELL|man", value_parser = ["bash", "elvish", "fish", "powershell", "zsh", MAN])]
    form: String,

    /// With man: write the pages of the program and of all its commands to this directory, created if missing. Only
    /// pages that this command wrote are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const MAN: &str = "man";

/// Prints a completion script or the program's page, or writes all pages. Each command of `completed` has the options
/// of all commands, and those of `shown` do not.
pub(crate) fn run(
    args: &CompletionsArgs,
    mut completed: Command,
    shown: Command,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: a script or a manual page has no JSON form: leave the option out");
    if args.form != MAN {
        ensure!(args.out.is_none(), "--out: expected man, got a shell: redirect the script to a file");
        let shell = args.form.parse::<Shell>().map_err(anyhow::Error::msg)?;
        // Generated in memory: the generator panics if a write fails, such as to a closed pipe.
        let mut script = Vec::new();
        let name = completed.get_name().to_owned();
        clap_complete::generate(shell, &mut completed, name, &mut script);
        output.writer.write_all(&script).context(CANNOT_WRITE)?;
        return Ok(Outcome::Yes);
    }
    // Without the pages of `help`, which would repeat those of all commands.
    let shown = shown.disable_help_subcommand(true);
    match &args.out {
        Some(directory) => write_pages(shown, directory)?,
        None => Man::new(shown).render(output.writer).context(CANNOT_WRITE)?,
    }
    Ok(Outcome::Yes)
}

/// The first line of each page in a file, a comment by which a later run recognizes its own pages.
const MARK: &str = ".\\\" made by sstfilter man\n";

/// Writes all pages, or none if one would replace a file that this command did not write.
fn write_pages(mut program: Command, directory: &Path) -> anyhow::Result<()> {
    program.build();
    let mut pages = Vec::new();
    add_pages(program, &mut pages)?;
    let (names, pages): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
    OwnFiles::prepare(directory, names.into_iter().map(|name| (name, MARK)), &[])?.write(&pages).map(drop)
}

/// Adds the pages of a command and its subcommands, each with its file name.
fn add_pages(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add_pages(command.clone(), pages)?;
    }
    let (page, mut text) = (Man::new(command), MARK.as_bytes().to_vec());
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
