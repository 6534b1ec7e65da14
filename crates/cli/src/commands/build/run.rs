//! The command: its options, and the report of what it wrote.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::{Arg, ArgGroup, Args};
use sstfilter::{BuildContext, BuildPurpose};
use sstfilter_table::{TableOptions, TableSummary};

use super::directory::Directory;
use super::write::{Source, Writer};
use crate::commands::options::{AUTO, FilterArgs, PartitionArgs, RangeFilterArgs, policy_names};
use crate::file::key_list::{KeyLines, MemoryLimit};
use crate::file::open::Context;
use crate::model::built::BuiltFilter;
use crate::print::types::{Bytes, PathName};
use crate::print::{Outcome, record};
use crate::system::{input, interrupt, progress};
use crate::words::units::{number_in, parse_number};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["input", "generate"]))]
#[command(mut_arg("policy", policy_or_none))]
pub(crate) struct BuildArgs {
    /// File of keys, with or without values, in any order; the last value of a key wins
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Generate N entries instead, with keys like user:000000012345:profile
    #[arg(long, value_name = "N", value_parser = number_in::<u64>(1..=999_999_999_999), allow_negative_numbers = true)]
    generate: Option<u64>,

    /// Directory for the tables 000001.sst, 000002.sst, ...; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Deal the keys round-robin to exactly N tables, so that all key ranges overlap
    #[arg(long, value_name = "N", value_parser = number_in::<u64>(1..=1_000_000), allow_negative_numbers = true)]
    files: Option<u64>,

    /// With --files: give each table its own key range instead
    #[arg(long, requires = "files")]
    consecutive: bool,

    /// Without --files: start the next table at this size, 4K to 1Ti
    // A smaller table would not even have one full data block.
    #[arg(long, value_name = "BYTES", default_value = "256Mi", value_parser = number_in::<u64>(4_000..=1 << 40),
        conflicts_with = "files")]
    table_bytes: u64,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    partitions: PartitionArgs,

    #[command(flatten)]
    range: RangeFilterArgs,

    /// Level that the tables are for, which they record; by default, none
    #[arg(long, value_name = "N", value_parser = number_in::<u32>(0..=u64::from(u32::MAX)), allow_negative_numbers = true)]
    level: Option<u32>,

    /// Replace the tables of an earlier build in the directory once all new ones are complete. The disk must have room
    /// for both
    #[arg(long)]
    overwrite: bool,

    /// Bytes of memory for sorting the input [default: all available memory]
    #[arg(long, value_name = "BYTES", value_parser = parse_number)]
    memory_limit: Option<u64>,
}

/// The policy of tables without filters.
const NONE: &str = "none";

fn policy_or_none(policy: Arg) -> Arg {
    policy.value_parser(policy_names(&[AUTO, NONE])).help(
        "Kind of filter; auto builds Ribbon for large tables and Bloom for small ones, none builds tables without \
         filters [default: auto]",
    )
}

record! {
    /// Tables that were written.
    pub(crate) struct BuildReport {
        pub(crate) tables: u64 [notable],
        pub(crate) entries: u64 [notable],
        pub(crate) table_bytes: Bytes [notable],
        pub(crate) duplicate_keys: u64,
        pub(crate) built_filters: Vec<String> [notable],
        pub(crate) written: Vec<WrittenTable> [json],
    }

    /// Each table.
    pub(crate) struct WrittenTable {
        pub(crate) path: PathName,
        pub(crate) entries: u64,
        pub(crate) bytes: Bytes,
        pub(crate) filter: Option<BuiltFilter>,
        pub(crate) range_filter: Option<BuiltFilter>,
    }
}

/// Reads all input and writes all tables before it touches the tables that they replace.
pub(crate) fn run(args: &BuildArgs, context: &Context) -> anyhow::Result<(Outcome, BuildReport)> {
    // Checked first, so that a wrong option leaves no directory.
    let options = table_options(args, context)?;
    let opening = interrupt::writing();
    let mut directory = Directory::open(&args.out, args.overwrite)?;
    // The input may be a pipe that never ends: a signal must be able to end the process while it is read.
    interrupt::pause(opening);
    let source = match &args.input {
        Some(path) => Source::Lines(read_lines(path, args.memory_limit, context)?),
        None => Source::Generated(args.generate.unwrap_or_default()),
    };
    // Every table must have a key.
    let (entries, tables) = (source.len(), args.files.unwrap_or_default());
    ensure!(tables <= entries, "--files: expected at most {entries}, the number of keys, got {tables}");
    let _writing = interrupt::writing();
    directory.begin()?;
    let written = Writer::new(&source, &directory, &options).write(args.files, args.consecutive, args.table_bytes)?;
    directory.publish(written.len())?;
    Ok((Outcome::Yes, BuildReport::new(&written, &source, &directory)))
}

fn table_options(args: &BuildArgs, context: &Context) -> anyhow::Result<TableOptions> {
    let hasher = args.filter.hasher(context.secret.as_ref())?;
    // For a flush, `auto` would build Bloom whatever the number of keys.
    let mut building = BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest);
    if let Some(level) = args.level {
        building = building.with_level(level);
    }
    let mut options = TableOptions::default().with_context(building);
    if args.filter.policy.as_deref() == Some(NONE) {
        let is_sized = args.filter.is_sized();
        ensure!(!is_sized, "--policy none: expected no size of filters, got one: leave out --fpr and --bits-per-key");
        options = options.without_filter();
    } else {
        options = options.with_policy(args.filter.policy()?);
    }
    if let Some(policy) = args.range.policy(context.range_prefix)? {
        options = options.with_range_filter(policy);
    }
    if let Some(partitions) = args.partitions.partitions {
        options = options.with_partitioned_filter(partitions);
    }
    Ok(options)
}

/// Reads the entries of a file and sorts them.
fn read_lines(path: &Path, memory_limit: Option<u64>, context: &Context) -> anyhow::Result<KeyLines> {
    let _progress = progress::bytes("reading and sorting", input::length(path).unwrap_or(0));
    let bytes = memory_limit.unwrap_or(MemoryLimit::default().bytes);
    let limit = MemoryLimit { bytes, advice: "split it, or raise --memory-limit" };
    let mut lines = KeyLines::read_within(path, context.keys_format, "--input", limit)?;
    lines.sort_and_dedup();
    Ok(lines)
}

impl BuildReport {
    fn new(written: &[TableSummary], source: &Source, directory: &Directory) -> Self {
        let built = |filter: &Option<sstfilter::BuildReport>| filter.as_ref().map(BuiltFilter::new);
        let table = |table: &TableSummary| WrittenTable {
            // The directory of the library's path may be a temporary one.
            path: PathName(directory.path.join(table.path.as_deref().and_then(Path::file_name).unwrap_or_default())),
            entries: table.properties.entries,
            bytes: Bytes(table.file_bytes),
            filter: built(&table.filter),
            range_filter: built(&table.range_filter),
        };
        let written: Vec<_> = written.iter().map(table).collect();
        let ranges = BuiltFilter::lines(written.iter().filter_map(|table| table.range_filter.as_ref()));
        Self {
            tables: written.len() as u64,
            entries: source.len(),
            table_bytes: Bytes(written.iter().map(|table| table.bytes.0).sum()),
            duplicate_keys: if let Source::Lines(lines) = source { lines.duplicate_keys } else { 0 },
            built_filters: [BuiltFilter::lines(written.iter().filter_map(|table| table.filter.as_ref())), ranges]
                .concat(),
            written,
        }
    }
}
