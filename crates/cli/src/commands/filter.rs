//! `sstfilter filter`: a filter without a table, built from keys or copied from a table.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::Args;
use sstfilter::{BuildContext, BuildPurpose, BuiltFilter, FilterBlock};
use sstfilter_store::FilterPart;
use sstfilter_table::TablePart;

use super::options::{FilterArgs, OutArgs, RangeFilterArgs};
use crate::file::blocks::RangeBlock;
use crate::file::key_list::KeyLines;
use crate::file::open::{Context, ensure_own_table, open, open_table};
use crate::file::problem::in_options;
use crate::file::replace::{Mark, write};
use crate::file::walk::Found;
use crate::model::describe::describe;
use crate::print::{CANNOT_WRITE, Outcome, Output};
use crate::system::input::{self, RegularFile};

#[derive(Debug, Args)]
#[command(mut_arg("out", |arg| arg.help("File for the filter; `-` is standard output")))]
pub(crate) struct FilterCommandArgs {
    /// Table of sstfilter whose filter is copied, byte for byte
    #[arg(value_name = "TABLE", required_unless_present = "keys",
        conflicts_with_all = ["keys", "policy", "fpr", "bits_per_key", "hash_seed", "range_filter"])]
    table: Option<PathBuf>,

    /// File of keys to build the filter from (text after a tab is ignored)
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    #[command(flatten)]
    target: OutArgs,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    range: RangeFilterArgs,
}

pub(crate) fn run(args: &FilterCommandArgs, context: &Context, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let (target, is_standard) = (&args.target, input::is_standard(&args.target.out));
    if !is_standard {
        target.ensure_free(Mark::BareFilter, args.table.iter().chain(&args.keys).map(PathBuf::as_path))?;
    }
    let block = match (&args.keys, &args.table) {
        (Some(keys), _) => build(args, keys, context)?,
        (None, Some(table)) => copied(table, context)?,
        (None, None) => bail!("expected a table or --keys"),
    };
    if is_standard {
        // A report after the block would become part of it.
        ensure!(!output.is_json, "--json: standard output receives the filter: write it to a file with --out");
        output.writer.write_all(&block).context(CANNOT_WRITE)?;
        return Ok(Outcome::Yes);
    }
    write(&target.out, &block, target.replaces(Mark::BareFilter))?;
    let written = open(&Found::alone(&target.out), context)?;
    output.print((Outcome::Yes, describe(&written, context)))
}

fn build(args: &FilterCommandArgs, path: &Path, context: &Context) -> anyhow::Result<Bytes> {
    let (hasher, ranges) = (args.filter.hasher(context.secret.as_ref())?, args.range.policy(context.range_prefix)?);
    let is_one = ranges.is_none() || args.filter.is_default();
    ensure!(is_one, "--range-filter: the block holds only this filter: leave out --policy, --fpr and --bits-per-key");
    // As for the tables of `build`: for a flush, `auto` would build Bloom whatever the number of keys.
    let purpose = BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest);
    let policy = args.filter.policy()?;
    let mut keys = KeyLines::read(path, context.keys_format, "--keys")?;
    if let Some(policy) = ranges {
        // Builders of range filters need sorted keys.
        keys.sort_and_dedup();
        let mut builder = policy.builder(&purpose);
        keys.iter().for_each(|(key, _)| builder.add_key(key));
        let block = made(builder.finish())?;
        RangeBlock::new(block.clone())?.verify()?;
        return Ok(block);
    }
    let mut builder = policy.builder(&purpose).context("the policy builds no filter")?;
    keys.iter().for_each(|(key, _)| builder.add_key(key));
    checked(made(builder.finish())?)
}

fn made(built: BuiltFilter) -> anyhow::Result<Bytes> {
    built.block.with_context(|| format!("no filter: {}", built.report.reason))
}

/// Returns the filter as the table stores it, so that it still matches its file's fingerprint. It need not be usable:
/// no secret seed is needed.
fn copied(path: &Path, context: &Context) -> anyhow::Result<Bytes> {
    ensure_own_table(path)?;
    let (name, table) = (input::name(path), open_table(path, context)?);
    let sections = table.properties().filters.sections();
    let is_whole = !sections.iter().any(|section| section.part == FilterPart::PartitionedPoints);
    ensure!(is_whole, "{name} has a partitioned filter, which is not a single block: `probe` reads it in place");
    let Some(region) = table.region(TablePart::Filter) else { bail!("{name} has no filter") };
    // A filter for readers with another hash is sound and can be copied.
    if let Some(problem) = table.filter_problem().filter(|problem| !problem.is_foreign_filter()) {
        bail!("{name}: {}", in_options(&problem));
    }
    // The region comes from the file, which may be damaged.
    ensure!(region.end <= table.file_bytes(), "cannot read the filter of {name}");
    let block = RegularFile::open(path)?.read(region.start, region.end - region.start)?;
    checked(block).with_context(|| format!("{name}: the filter"))
}

/// Returns the block, or an error if a reader would refuse it.
fn checked(block: Bytes) -> anyhow::Result<Bytes> {
    FilterBlock::open_unverified(&block)?.verify()?;
    Ok(block)
}
