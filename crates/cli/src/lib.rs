//! The command line as a library: everything that the program `sstfilter` does, except exiting its process.

mod args;
mod commands;
#[cfg(test)]
#[path = "../../../tests/common/effort.rs"]
mod effort;
mod file;
mod measure;
mod model;
mod print;
mod system;
mod words;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};

pub use args::Cli;
use args::Command;
use commands::advise::AdviseCommand;
use commands::map::MapCommand;
use file::open::Context as FileContext;
pub use file::problem::explained;
pub use print::Outcome;
use print::{CANNOT_WRITE, Output};
pub use system::interrupt::{Interrupted, end_in_order};
use words::escape::shell_word;

impl Cli {
    /// Parses `arguments`; the first one is the program's name.
    ///
    /// # Errors
    ///
    /// Returns the message to print, including help and version.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::parser().try_get_matches_from(arguments).map_err(with_tip)?)
    }

    /// Returns the options that affect how tables are read, in command line form, each after a blank.
    fn reading_options(&self) -> String {
        let seed = self.secret_seed_file.as_deref().map(|file| ("secret-seed-file", file));
        let comparator = self.comparator.as_deref().map(|name| ("comparator", Path::new(name)));
        let with_value = |(option, value)| format!(" --{option} {}", shell_word(value));
        let unchecked = if self.unchecked_filters { " --unchecked-filters" } else { "" };
        seed.into_iter().chain(comparator).map(with_value).collect::<String>() + unchecked
    }

    /// Whether the command writes files that must not be left half written.
    #[must_use]
    pub fn makes_files(&self) -> bool {
        match &self.command {
            Command::Build(_) | Command::Rebuild(_) | Command::Filter(_) => true,
            Command::Map(command) => matches!(command, MapCommand::Build(_) | MapCommand::Merge(_)),
            _ => false,
        }
    }
}

/// Returns an error about arguments with a tip that helps: no key or path begins with `--`, and what other programs
/// call `repair` is not similar to `get`.
fn with_tip(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};

    const SALVAGE: &str = "`get --salvage` prints the entries of damaged tables; `rebuild` replaces damaged filters";
    error.remove(ContextKind::Suggested);
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && ["repair", "salvage", "recover", "restore"].contains(&name.as_str())
    {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![SALVAGE.into()]));
    }
    error
}

/// Runs the command. Results go to `stdout`, which is flushed; notes and progress go to standard error.
///
/// # Errors
///
/// Returns the reason why the command could not run.
pub fn run(cli: &Cli, stdout: &mut dyn Write) -> anyhow::Result<Outcome> {
    let secret = cli.secret_seed_file.as_deref().map(system::secret::hasher_from).transpose()?;
    let context = FileContext {
        secret,
        comparator: cli.comparator.clone(),
        range_prefix: cli.range_prefix,
        keys_format: cli.keys_format,
        unchecked_filters: cli.unchecked_filters,
        progress: None,
        options: cli.reading_options(),
    };
    let mut output = Output::new(stdout, cli.json).with_extent(cli.all, cli.quiet);
    let outcome = match &cli.command {
        Command::Demo => output.print(commands::demo::run::run()?),
        Command::Build(args) => output.print(commands::build::run::run(args, &context)?),
        Command::Rebuild(args) => output.print(commands::rebuild::run(args, &context)?),
        Command::Get(args) => commands::get::run(args, &context, &mut output),
        Command::Probe(args) => commands::probe::run(args, &context, &mut output),
        Command::Map(MapCommand::Build(args)) => output.print(commands::map::build::run(args, &context)?),
        Command::Map(MapCommand::Merge(args)) => output.print(commands::map::merge::run(args, &context)?),
        Command::Filter(args) => commands::filter::run(args, &context, &mut output),
        Command::Inspect(args) => output.print(commands::inspect::run(args, &context)?),
        Command::Verify(args) => output.print(commands::verify::run(args, &context)?),
        Command::Compare(args) => match args.range_length {
            Some(units) => output.print(commands::compare::ranges::run(args, units, &context)?),
            None => output.print(commands::compare::run::run(args, &context)?),
        },
        Command::Advise(AdviseCommand::Files(args)) => output.print(commands::advise::files::run(args)),
        Command::Advise(AdviseCommand::Kind(args)) => output.print(commands::advise::kind::run(args)?),
        Command::Advise(AdviseCommand::Levels(args)) => output.print(commands::advise::levels::run(args, &context)?),
        Command::Completions(args) => commands::completions::run(args, Cli::command(), Cli::parser(), &mut output),
        Command::Report(args) => output.print(commands::report::run::run(args, &context)?),
    }?;
    // Flushed here: when the writer is dropped, an error would be lost.
    output.writer.flush().context(CANNOT_WRITE)?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use print::{Report, faults, page};

    /// The commands whose results are records, with the records.
    const REPORTS: &[Report] = &[
        ("inspect", &commands::inspect::InspectReport::SCHEMA),
        ("filter", &model::file::FileReport::SCHEMA),
        ("advise files", &commands::advise::files::FilesAdvice::SCHEMA),
        ("advise kind", &commands::advise::kind::KindAdvice::SCHEMA),
        ("advise levels", &commands::advise::levels::LevelsAdvice::SCHEMA),
        ("build", &commands::build::run::BuildReport::SCHEMA),
        ("compare", &commands::compare::rows::Comparison::SCHEMA),
        ("compare --range-length", &commands::compare::ranges::RangeComparison::SCHEMA),
        ("demo", &commands::demo::run::DemoReport::SCHEMA),
        ("map build, map merge", &commands::map::target::WrittenMap::SCHEMA),
        ("probe", &commands::probe::ProbeReport::SCHEMA),
        ("report", &commands::report::run::StoreReport::SCHEMA),
        ("verify", &commands::verify::VerifyReport::SCHEMA),
        ("get", &commands::get::GetReport::SCHEMA),
        ("rebuild", &commands::rebuild::RebuildReport::SCHEMA),
    ];

    /// The failure guarded against: a page of fields that is not that of the program.
    #[test]
    fn the_page_is_that_of_the_records() {
        let expected = page(REPORTS);
        if std::env::var_os("SSTFILTER_BLESS").is_some() {
            return std::fs::write("JSON.md", expected).unwrap();
        }
        assert_eq!(std::fs::read_to_string("JSON.md").unwrap(), expected, "SSTFILTER_BLESS=1 writes the page");
    }

    /// The failure guarded against: a field whose name means something else in the output of another command.
    #[test]
    fn each_name_of_a_field_has_one_meaning_in_all_commands() {
        assert_eq!(faults(REPORTS), Vec::<String>::new());
    }
}
