//! `sstfilter filter`: bare filter blocks, built from keys or copied from a table.

use core::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use clap::{Args, Subcommand};
use serde::Serialize;
use sstfilter::{BlockInfo, BuildContext, BuildPurpose, FallbackReason, FilterBlock, KeyHasher, KindId};
use sstfilter_range::{RangeInfo, RangePolicy};
use sstfilter_store::FilterPart;
use sstfilter_table::TablePart;

use crate::build::report::Choice;
use crate::commands::options::FilterArgs;
use crate::input::{self, RegularFile};
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{Opened, Reading};
use crate::output::{CANNOT_WRITE, Outcome, Output, in_options, path_name};
use crate::ranges::{RangeBlock, RangeFilterArgs};
use crate::replace::{self, Mark, Replaces};
use crate::units;

#[derive(Debug, Subcommand)]
pub(crate) enum FilterCommand {
    /// Build a filter block from a file of keys, without a table
    Build(BuildBlockArgs),
    /// Copy the filter block of a table to a separate file
    Extract(ExtractArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BuildBlockArgs {
    /// Keys of the filter (text after a tab is ignored)
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    range: RangeFilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// Table of sstfilter
    table: PathBuf,

    #[command(flatten)]
    target: Target,
}

/// Where the block is written.
#[derive(Debug, Args)]
struct Target {
    /// File for the block; `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Replace an existing file, but only a filter block without a table
    #[arg(long)]
    overwrite: bool,
}

/// A block that was written.
#[derive(Debug, Serialize)]
pub(crate) struct BlockReport {
    path: String,
    #[serde(flatten)]
    filter: Choice,
    /// Distinct keys.
    keys: u64,
    block_bytes: u64,
    /// Null for a block without keys.
    bits_per_key: f64,
    expected_fpr: f64,
    /// Fingerprint of the table that the block is bound to.
    file_fingerprint: Option<String>,
}

pub(crate) fn run(
    command: &FilterCommand,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    // The target is checked first in both arms: reading keys may take minutes.
    let (block, target) = match command {
        FilterCommand::Build(args) => {
            args.target.ensure_free(&args.keys)?;
            ensure!(
                args.filter.is_default() || args.range.policy(reading.range_prefix)?.is_none(),
                "--range-filter: the block holds only this filter: leave out --policy, --fpr and --bits-per-key"
            );
            let made = match args.range.policy(reading.range_prefix)? {
                Some(policy) => Made::RangeFilter(build_range(args, &policy, format, reading.secret)?),
                None => Made::Filter(Box::new(build(args, format, reading.secret)?)),
            };
            (made, &args.target)
        }
        // The block is copied byte for byte, so that it still matches its file's fingerprint.
        FilterCommand::Extract(args) => {
            args.target.ensure_free(&args.table)?;
            (Made::Filter(Box::new(extract(&args.table, reading)?)), &args.target)
        }
    };
    if target.is_standard_output() {
        // A report after the block would become part of it.
        ensure!(!output.is_json, "--json: standard output receives the block: write it to a file with --out");
        output.writer.write_all(block.as_bytes()).context(CANNOT_WRITE)?;
        return Ok(Outcome::Yes);
    }
    replace::write(&target.out, block.as_bytes(), target.replaces())?;
    output.report((Outcome::Yes, block.report(&target.out)))
}

/// A block to be written.
enum Made {
    Filter(Box<FilterBlock<Bytes>>),
    RangeFilter(RangeBlock),
}

impl Made {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Filter(block) => block.as_bytes(),
            Self::RangeFilter(block) => block.as_bytes(),
        }
    }

    fn report(&self, path: &Path) -> BlockReport {
        match self {
            Self::Filter(block) => BlockReport::new(path, &block.info()),
            Self::RangeFilter(block) => BlockReport::of_range_filter(path, &block.info),
        }
    }
}

fn build_range(
    args: &BuildBlockArgs,
    policy: &RangePolicy,
    format: KeysFormat,
    secret: Option<&KeyHasher>,
) -> anyhow::Result<RangeBlock> {
    let hasher = args.filter.hasher(secret)?;
    let mut keys = KeyLines::read(&args.keys, format, "--keys")?;
    // Builders of range filters need sorted keys.
    keys.sort_and_dedup();
    let mut builder = policy.builder(&BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest));
    keys.iter().for_each(|(key, _)| builder.add_key(key));
    let built = builder.finish();
    let block = RangeBlock::new(built.block.with_context(|| format!("no range filter: {}", built.report.reason))?)?;
    block.verify()?;
    Ok(block)
}

fn build(args: &BuildBlockArgs, format: KeysFormat, secret: Option<&KeyHasher>) -> anyhow::Result<FilterBlock<Bytes>> {
    let hasher = args.filter.hasher(secret)?;
    let policy = args.filter.policy()?;
    let keys = KeyLines::read(&args.keys, format, "--keys")?;
    // As for the tables of `build`: for a flush, `auto` would build Bloom whatever the number of keys.
    let context = BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest);
    let mut builder = policy.builder(&context).context("the policy builds no filter")?;
    for (key, _) in keys.iter() {
        builder.add_key(key);
    }
    let built = builder.finish();
    let block = built.block.with_context(|| format!("no filter: {}", built.report.reason))?;
    checked(block)
}

/// Returns the block as the table stores it. The filter need not be usable, so no secret seed is needed.
fn extract(path: &Path, reading: Reading<'_>) -> anyhow::Result<FilterBlock<Bytes>> {
    let name = input::name(path);
    let table = match Opened::open(path, reading).map_err(|unopened| unopened.reason)? {
        Opened::Table(table) => table,
        Opened::FilterBlock(_) | Opened::RangeFilter(_) | Opened::Partitions(_) => {
            bail!("{name} is already a filter block")
        }
        Opened::Foreign(table) => {
            bail!(
                "{name} is a table of {}, whose filter is not a block of sstfilter: `probe` reads it in place",
                table.engine()
            )
        }
    };
    let is_whole =
        !table.filters().metadata().sections().iter().any(|section| section.part == FilterPart::PartitionedPoints);
    ensure!(is_whole, "{name} has a partitioned filter, which is not a single block: `probe` reads it in place");
    let Some(region) = table.region(TablePart::Filter) else {
        bail!("{name} has no filter");
    };
    // A filter for readers with another hash is sound and can be copied.
    if let Some(problem) = table.filter_problem().filter(|problem| !problem.is_foreign_filter()) {
        bail!("{name}: {}", in_options(&problem));
    }
    // The region comes from the file, which may be damaged.
    let is_inside = region.end <= table.file_bytes();
    ensure!(is_inside, "cannot read the filter block of {name}");
    let block = RegularFile::open(path)?.read(region.start, region.end - region.start)?;
    checked(block).with_context(|| format!("{name}: the filter block"))
}

/// Returns the block, or an error if a reader would refuse it.
fn checked(block: Bytes) -> anyhow::Result<FilterBlock<Bytes>> {
    let block = FilterBlock::open_unverified(block)?;
    block.verify()?;
    Ok(block)
}

impl Target {
    fn is_standard_output(&self) -> bool {
        self.out.as_os_str() == "-"
    }

    /// Returns which existing file may be replaced.
    fn replaces(&self) -> Replaces {
        if self.overwrite { Replaces::Own(Mark::BareFilter) } else { Replaces::Nothing }
    }

    /// Fails if the target exists and may not be replaced. Called before the keys are read, which may take minutes.
    fn ensure_free(&self, input: &Path) -> anyhow::Result<()> {
        if self.is_standard_output() {
            return Ok(());
        }
        self.replaces().check(&self.out)?;
        replace::ensure_no_input(&self.out, [input])
    }
}

impl BlockReport {
    fn new(path: &Path, info: &BlockInfo) -> Self {
        Self {
            path: path_name(path).into_owned(),
            filter: Choice::of_block(info),
            keys: info.keys,
            block_bytes: info.block_bytes,
            bits_per_key: info.bits_per_key(),
            expected_fpr: info.expected_fpr,
            file_fingerprint: info.file.map(|file| format!("{:#018x}", file.fingerprint())),
        }
    }

    fn of_range_filter(path: &Path, info: &RangeInfo) -> Self {
        let (kind, reason) = (KindId::RANGE.name(), FallbackReason::None.as_str());
        Self {
            path: path_name(path).into_owned(),
            filter: Choice { kind, requested: kind, reason },
            keys: info.keys,
            block_bytes: info.block_bytes,
            bits_per_key: info.bits_per_key(),
            expected_fpr: info.expected_fpr(1),
            file_fingerprint: info.file.map(|file| format!("{:#018x}", file.fingerprint())),
        }
    }
}

impl fmt::Display for BlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, filter) = (&self.path, &self.filter);
        let (keys, bytes) = (units::counted(self.keys, "key"), units::grouped(self.block_bytes));
        writeln!(f, "{path}: filter block {filter}, {keys}, {bytes} bytes")?;
        let rate = units::percent(self.expected_fpr);
        if self.keys > 0 {
            writeln!(f, "{:.2} bits per key, {rate} expected", self.bits_per_key)?;
        }
        match &self.file_fingerprint {
            Some(file) => writeln!(f, "bound to the file with fingerprint {file}: a reader must pass that file's id"),
            None => Ok(()),
        }
    }
}
