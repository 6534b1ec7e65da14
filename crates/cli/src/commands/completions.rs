//! `sstfilter completions`: shell completions and manual pages, generated from the parser of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::builder::PossibleValue;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::file::replace::OwnFiles;
use crate::print::{CANNOT_WRITE, Outcome, Output};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for, or man for the manual page of the program
    shell: Form,

    /// With man: write the pages of the program and of all its commands to this directory, created if missing. Only
    /// pages that this command wrote are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Shell(Shell),
    Man,
}

impl ValueEnum for Form {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Form; 6] = [
            Form::Shell(Shell::Bash),
            Form::Shell(Shell::Elvish),
            Form::Shell(Shell::Fish),
            Form::Shell(Shell::PowerShell),
            Form::Shell(Shell::Zsh),
            Form::Man,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Shell(shell) => shell.to_possible_value(),
            Self::Man => Some(PossibleValue::new("man")),
        }
    }
}

/// Prints a completion script or the program's page, or writes all pages. Each command of `completed` has the options
/// of all commands, and those of `shown` do not.
pub(crate) fn run(
    args: &CompletionsArgs,
    mut completed: Command,
    shown: Command,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    ensure!(!output.is_json, "--json: a script or a manual page has no JSON form: leave the option out");
    // Without the pages of `help`, which would repeat those of all commands.
    let shown = shown.disable_help_subcommand(true);
    match (args.shell, &args.out) {
        (Form::Man, Some(directory)) => write_pages(shown, directory)?,
        (Form::Man, None) => Man::new(shown).render(output.writer).context(CANNOT_WRITE)?,
        (Form::Shell(_), Some(_)) => anyhow::bail!("--out: expected man, got a shell: redirect the script to a file"),
        (Form::Shell(shell), None) => {
            // Generated in memory: the generator panics if a write fails, such as to a closed pipe.
            let mut script = Vec::new();
            let name = completed.get_name().to_owned();
            clap_complete::generate(shell, &mut completed, name, &mut script);
            output.writer.write_all(&script).context(CANNOT_WRITE)?;
        }
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
    OwnFiles::prepare(directory, names.into_iter().map(|name| (name, MARK)))?.write(&pages).map(drop)
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
