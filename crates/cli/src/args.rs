//! The command line.

use std::path::PathBuf;

use clap::{Arg, CommandFactory, Parser, Subcommand};

use crate::commands::advise::AdviseCommand;
use crate::commands::build::run::BuildArgs;
use crate::commands::compare::run::CompareArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::filter::FilterCommandArgs;
use crate::commands::get::GetArgs;
use crate::commands::inspect::InspectArgs;
use crate::commands::map::MapCommand;
use crate::commands::probe::ProbeArgs;
use crate::commands::rebuild::RebuildArgs;
use crate::commands::report::run::ReportArgs;
use crate::commands::verify::VerifyArgs;
use crate::file::blocks::{RangePrefix, parse_prefix};
use crate::file::context::KeysFormat;

const EXIT_CODES: &str = "\
Exit codes:
  0    yes. Sound filters that cannot be used, damaged filters that a sound sidecar replaces,
       tables left out because they are not understood, and orphan sidecars are reported,
       but are no damage
  1    no: a key is absent or a range is empty (get), something is damaged, lost or stale,
       a merged map has unknown pages, or no filter meets the need (advise)
  2    failure: standard error, or the report, says why and what to do. With --json, the
       object is {\"error\": \"...\"}, unless a report has the problems
  3    part of a table or filter could not be checked (verify), or not all files are known
       (probe). Logs and blob files are not read, and do not count
  130  interrupted (Ctrl-C); 143 after SIGTERM. What was completed is whole
  141  the reader of the output went away (sstfilter ... | head)";

/// Heading of the options that every command accepts.
const FOR_ALL: &str = "Options of all commands";

/// Builds, queries, inspects and verifies SST tables and their filter blocks.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(name = "sstfilter", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print one JSON object instead of text
    #[arg(long, global = true, help_heading = FOR_ALL)]
    pub(crate) json: bool,

    /// Print all items of long lists
    #[arg(long, global = true, help_heading = FOR_ALL)]
    pub(crate) all: bool,

    /// Print only findings and totals, and no notes and no progress
    #[arg(long, global = true, help_heading = FOR_ALL)]
    pub(crate) quiet: bool,

    /// File with the secret seed of the key hash: 8 bytes (a number in little-endian order), or 16 hexadecimal digits
    /// for those bytes
    #[arg(long, global = true, value_name = "FILE", help_heading = FOR_ALL)]
    pub(crate) secret_seed_file: Option<PathBuf>,

    /// Comparator of the database, for tables that do not name it (LevelDB) or do not say how it splits keys (Pebble).
    /// It is leveldb.BytewiseComparator unless the database was opened with another one. A wrong name hides keys
    #[arg(long, global = true, value_name = "NAME", help_heading = FOR_ALL)]
    pub(crate) comparator: Option<String>,

    /// Also use the filters of RocksDB tables without checksums (checksum type 0). Damage to such a filter goes
    /// unnoticed and hides keys
    #[arg(long, global = true, help_heading = FOR_ALL)]
    pub(crate) unchecked_filters: bool,

    /// Key prefix that each range of a hashed range filter lies within: a number of bytes (such as 8), or the byte that
    /// ends the prefix (such as : or 0x00). Range filters that were built with another prefix are not used
    #[arg(long, global = true, value_name = "PREFIX", value_parser = parse_prefix, help_heading = FOR_ALL)]
    pub(crate) range_prefix: Option<RangePrefix>,

    /// Format of keys in files and on the command line: lines of key or key<TAB>value (lines), such lines that end in
    /// CR LF (crlf), keys that each end with NUL (nul), or lines of hexadecimal digits (hex). Empty lines are skipped;
    /// a line with only a tab is the empty key. The file `-` is standard input, for keys and for tables
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "lines", help_heading = FOR_ALL)]
    pub(crate) keys_format: KeysFormat,
}

/// Ends the help of each command.
const SEE_PROGRAM: &str = "Options of all commands and exit codes: sstfilter --help";

impl Cli {
    /// Returns the parser. Only the program's help shows the options of all commands, but all commands accept them.
    pub(crate) fn parser() -> clap::Command {
        let program = Self::command();
        let is_global = |option: &&Arg| option.is_global_set();
        // An option that a command has already is not added to it again.
        let globals: Vec<_> =
            program.get_arguments().filter(is_global).map(|option| option.clone().hide(true)).collect();
        program.mut_subcommands(|command| with_hidden(command, &globals))
    }
}

fn with_hidden(command: clap::Command, globals: &[Arg]) -> clap::Command {
    command.mut_subcommands(|command| with_hidden(command, globals)).args(globals).after_help(SEE_PROGRAM)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what filters save, on the 63,666 package names of Debian 12
    Demo,
    /// Write tables from a file of keys, or with generated keys
    Build(BuildArgs),
    /// Write a new filter file next to each table, from the table's keys. The tables are not changed
    Rebuild(RebuildArgs),
    /// Print what is stored: the values of keys, the entries of a range, or all entries, in the format that `build`
    /// reads
    Get(GetArgs),
    /// Show which files lookups of keys, or scans of ranges, must read, and why: bounds, filters, maps, range
    /// tombstones
    Probe(ProbeArgs),
    /// Write a filter without a table: built from keys, or copied from a table
    Filter(FilterCommandArgs),
    /// Build and merge file maps: one file that says which of many tables may contain a key
    #[command(subcommand)]
    Map(MapCommand),
    /// Show what is in files: their filters, entries, parts and properties, and what is wrong with them. Data blocks
    /// are not checked: `verify` does that
    Inspect(InspectArgs),
    /// Read tables, filters, maps and manifests in full, and list all damage and what could not be checked
    Verify(VerifyArgs),
    /// Compare every kind of filter on your own keys or on made-up ones: bytes, false positive rates, times and blocks
    /// read, with --out on a page with charts
    Compare(CompareArgs),
    /// Recommend filters by numbers: a kind, sizes by level, layouts for many files
    #[command(subcommand)]
    Advise(AdviseCommand),
    /// Report on the filters of a store: state of each file and what to do, sizes by level, measured rates, and what
    /// other filters would cost. Data blocks are not checked: `verify` does that
    Report(ReportArgs),
    /// Print a shell completion script or the manual page, or write the pages of all commands
    Completions(CompletionsArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::parser().debug_assert();
    }
}
