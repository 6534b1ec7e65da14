//! The command line.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, CommandFactory, Parser, Subcommand};
use sstfilter::kind;
use sstfilter::{FalsePositiveRate, KindId};
use sstfilter_store::LevelSize;

use crate::commands::advise::AdviseCommand;
use crate::commands::build::run::BuildArgs;
use crate::commands::filter::FilterCommandArgs;
use crate::commands::get::GetArgs;
use crate::commands::map::MapCommand;
use crate::commands::verify::VerifyArgs;
use crate::compare::CompareArgs;
use crate::file::blocks::{RangePrefix, parse_prefix};
use crate::inspect::InspectArgs;
use crate::lines::KeysFormat;
use crate::probe::ProbeArgs;
use crate::rebuild::RebuildArgs;
use crate::report::ReportArgs;
use crate::shell::{CompletionsArgs, ManArgs};
use crate::units::{count_in, parse_bytes, parse_count, parse_fpr, parse_ratio};

const EXIT_CODES: &str = "\
Exit codes:
  0    yes. Sound filters that cannot be used, damaged filters that a sound sidecar replaces,
       tables left out because they are not understood, and orphan sidecars are reported,
       but are no damage
  1    no: a key is absent or a range is empty (get), something is damaged, lost or stale,
       pages of a map are unknown, or no filter meets the need (advise)
  2    failure: standard error, or the report, says why and what to do. With --json, the
       object is {\"error\": \"...\"}, unless a report has the problems
  3    something could not be checked (verify)
  130  interrupted (Ctrl-C); 143 after SIGTERM. What was completed is whole
  141  the reader of the output went away (sstfilter ... | head)";

/// Heading of the options that every command accepts.
const FOR_ALL: &str = "Options of all commands";

/// Builds, queries, inspects and verifies SST tables and their filter blocks.
#[derive(Debug, Parser)]
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
    /// Show what filters save, on the 63,666 package names of Debian 12, and how many keys accidents lose
    Demo,
    /// Write tables from a file of keys, or with generated keys
    Build(BuildArgs),
    /// Write a new filter file next to each table, from the table's keys. The tables are not changed
    Rebuild(RebuildArgs),
    /// Print what is stored: the values of keys, the entries of a range, or all entries, in the format that `build` reads
    Get(GetArgs),
    /// Probe only the filters, for many keys or ranges at once, and show which tables each would touch
    Probe(ProbeArgs),
    /// Write a filter without a table: built from keys, or copied from a table
    Filter(FilterCommandArgs),
    /// Build, merge, probe and verify file maps: one file that says which of many tables may contain a key
    #[command(subcommand)]
    Map(MapCommand),
    /// Show the filters of tables and which ones need a look; for a single file, show every field. Data blocks are not
    /// checked: `verify` does that
    Inspect(InspectArgs),
    /// Read tables or bare filter blocks in full and list all damage
    Verify(VerifyArgs),
    /// Compare every kind of filter on your own keys or on made-up ones: bytes, false positive rates, times and blocks
    /// read, with --out on a page with charts
    Compare(CompareArgs),
    /// Rank the kinds of filter for your use case, with sizes, rates and reasons
    Advise(AdviseArgs),
    /// Report on the filters of your tables: sizes by level, bad filters and how to fix them, measured rates, other
    /// settings. Data blocks are not checked: `verify` does that
    Report(ReportArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(ManArgs),
}

/// The names of all kinds.
fn kind_names() -> PossibleValuesParser {
    PossibleValuesParser::new(kind::all().iter().map(|entry| entry.name))
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AdviseArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AdviseCommand>,

    /// Compare the cost of existing filters with that of sstfilter's instead: tables (also of RocksDB, LevelDB and
    /// Pebble), filter blocks, or directories of them
    #[arg(long, value_name = "PATH", num_args = 1..,
        required_unless_present_any = ["levels", "ranges"])]
    pub(crate) tables: Vec<PathBuf>,

    /// Spread one memory budget over the levels of a store so that lookups of absent keys read as little as possible,
    /// and compare the result with equal bits per key everywhere. KEYS lists the keys of each level from level 0 on,
    /// such as 40K/4,1e5,1e6,1e7, where 40K/4 means 40,000 keys in four overlapping runs. Without a list, the levels
    /// are read from --tables: tables of level 0 overlap each other, tables of other levels do not. A table's level
    /// comes from the table itself or from the MANIFEST next to it
    #[arg(long, value_name = "KEYS,...", num_args = 0..=1, value_parser = parse_levels,
        conflicts_with = "fpr")]
    #[expect(clippy::option_option, reason = "no option, one without a list, one with a list")]
    pub(crate) levels: Option<Option<LevelSizes>>,

    /// Recommend a range filter for keys like those of this file. Shows the rows per prefix, how dense the keys are,
    /// and how often each map from keys to codes is wrong on empty ranges. --range-prefix is the prefix that ranges lie
    /// within [default: all but the last 8 bytes, if all keys have one length]
    #[arg(long, value_name = "KEYS",
        conflicts_with_all = ["tables", "levels", "memory"])]
    pub(crate) ranges: Option<PathBuf>,

    /// With --ranges: length of the ranges, in units of the integer after the prefix [default: 1024]
    #[arg(long, value_name = "UNITS", value_parser = count_in::<u64>(1..=1 << 40), allow_negative_numbers = true, requires = "ranges",
        conflicts_with_all = ["tables", "levels"])]
    pub(crate) range_length: Option<u64>,

    /// With --levels: kind of filter
    #[arg(long, value_name = "KIND", default_value = KindId::RIBBON.name(), requires = "levels", value_parser = kind_names())]
    pub(crate) policy: String,

    /// With --tables: also show what filters of this size would cost; auto builds filters with the rate of a Bloom
    /// filter of this size. With --levels: the budget as mean bits per key over all keys, instead of --memory [default:
    /// the size of the filters of --tables, or 10]
    // Not `BitsPerKey`: a mean over levels without filters may be below 1.
    #[arg(long, value_name = "B", value_parser = parse_ratio, allow_negative_numbers = true,
        conflicts_with_all = ["memory", "ranges"])]
    pub(crate) bits_per_key: Option<f64>,

    /// With --levels: no filters on the last level, for stores where nearly every lookup finds its key
    #[arg(long, requires = "levels")]
    pub(crate) optimize_for_hits: bool,

    /// Maximum false positive rate, between 0 and 1 [default: 0.01, unless --memory is given]. With --tables: also show
    /// what filters of this rate would cost
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true,
        conflicts_with_all = ["memory", "bits_per_key"])]
    pub(crate) fpr: Option<FalsePositiveRate>,

    /// Maximum size of the filter in bytes (units K, M, G); with --levels, of all filters together
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
}

/// The levels of a store, from level 0 on.
#[derive(Clone, Debug)]
pub(crate) struct LevelSizes(pub(crate) Vec<LevelSize>);

/// Parses a list of levels: the keys of each, and after a slash its runs, if there is more than one.
fn parse_levels(text: &str) -> Result<LevelSizes, String> {
    let parse = |(level, text): (u32, &str)| {
        let (keys, runs) = text.split_once('/').unwrap_or((text, "1"));
        Ok(LevelSize::new(level, parse_count(keys)?).with_runs(count_in(1..=u64::MAX)(runs)?))
    };
    // From level 0 on, so that the list needs no numbers of levels.
    (0..).zip(text.split(',')).map(parse).collect::<Result<_, _>>().map(LevelSizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::parser().debug_assert();
    }
}
