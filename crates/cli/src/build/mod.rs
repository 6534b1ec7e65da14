//! `sstfilter build`: writes tables from lines of keys, or with generated keys.

mod directory;
pub(crate) mod report;
mod source;
mod write;

use std::time::Instant;

use anyhow::ensure;
use sstfilter::{BuildContext, BuildPurpose};
use sstfilter_table::TableOptions;

use crate::args::{BuildArgs, NONE};
use crate::files::TableReading;
use crate::interrupt;
use crate::lines::KeysFormat;
use crate::output::Outcome;
use directory::Directory;
use report::BuildSummary;
use source::Source;
use write::Writer;

/// Reads all input and writes all tables before it touches the tables that they replace.
pub(crate) fn run(
    args: &BuildArgs,
    format: KeysFormat,
    reading: TableReading<'_>,
) -> anyhow::Result<(Outcome, BuildSummary)> {
    let begun = Instant::now();
    // Checked first, so that a wrong option leaves no directory.
    let options = table_options(args, reading)?;
    let opening = interrupt::writing();
    let mut directory = Directory::open(&args.out, args.overwrite)?;
    // The input may be a pipe that never ends: a signal must be able to end the process while it is read.
    interrupt::pause(opening);
    let source = match &args.input {
        Some(path) => Source::Lines(source::read_lines(path, format, args.memory_limit)?),
        None => Source::Generated {
            entries: args.generate.unwrap_or_default(),
            value_bytes: usize::try_from(args.value_bytes)?,
        },
    };
    let (entries, tables) = (source.len(), args.files.unwrap_or_default());
    // Every table must have a key.
    ensure!(tables <= entries, "--files: expected at most {entries}, the number of keys, got {tables}");
    let _writing = interrupt::writing();
    directory.begin()?;
    let written = Writer::new(&source, &directory, &options).write(args)?;
    directory.publish(written.len())?;
    Ok((Outcome::Yes, BuildSummary::new(&written, &source, directory.leftovers_removed, begun.elapsed())))
}

fn table_options(args: &BuildArgs, reading: TableReading<'_>) -> anyhow::Result<TableOptions> {
    let hasher = args.filter.hasher(reading.secret)?;
    // For a flush, `auto` would build Bloom whatever the number of keys.
    let context = BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest);
    let context = match args.level {
        Some(level) => context.with_level(level),
        None => context,
    };
    let options = TableOptions::default().with_context(context);
    let options = if args.filter.policy.as_deref() == Some(NONE) {
        ensure!(
            !args.filter.is_sized(),
            "--policy none: expected no size of filters, got one: leave out --fpr and --bits-per-key"
        );
        options.without_filter()
    } else {
        options.with_policy(args.filter.policy()?)
    };
    let options = match args.range.policy(reading.range_prefix)? {
        Some(policy) => options.with_range_filter(policy),
        None => options,
    };
    Ok(match args.partitions.partitions {
        Some(partitions) => options.with_partitioned_filter(partitions),
        None => options,
    })
}
