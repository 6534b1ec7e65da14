//! `sstfilter build`: tables from lines of keys, or from generated ones.

mod directory;
mod report;
mod source;
mod write;

use std::time::Instant;

use anyhow::ensure;
use sstfilter::sst::TableOptions;
use sstfilter::{BuildContext, BuildPurpose, KeyHasher};

use crate::args::{BuildArgs, SourceArgs};
use crate::output::{Outcome, Output};
use directory::Directory;
use report::{BuildFacts, BuildSummary};
use source::Source;
use write::{Layout, Writer};

/// Reads all input before it touches the tables that are to be replaced.
pub(crate) fn run(args: &BuildArgs, secret: Option<&KeyHasher>, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let options = table_options(args, secret)?;
    let mut directory = Directory::open(&args.out, args.overwrite)?;
    let (source, duplicate_keys) = source(args)?;
    let layout = layout(args, source.len())?;
    directory.remove_old_tables()?;
    let written = Writer::new(&source, &directory, &options).write(layout)?;
    let facts =
        BuildFacts { duplicate_keys, leftovers_removed: directory.leftovers_removed(), elapsed: begun.elapsed() };
    output.report(&BuildSummary::new(&written, &source, &facts))?;
    Ok(Outcome::Yes)
}

fn table_options(args: &BuildArgs, secret: Option<&KeyHasher>) -> anyhow::Result<TableOptions> {
    ensure!(args.hash_seed.is_none() || secret.is_none(), "expected --hash-seed or --secret-seed-file, got both");
    let open = || args.hash_seed.map_or_else(KeyHasher::default, KeyHasher::with_seed);
    let hasher = secret.cloned().unwrap_or_else(open);
    Ok(TableOptions::default()
        .with_policy(args.filter.policy()?)
        .with_context(BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest)))
}

fn source(args: &BuildArgs) -> anyhow::Result<(Source, u64)> {
    match &args.source {
        SourceArgs { input: Some(path), .. } => {
            let (lines, duplicates) = source::read_lines(path, args.memory_limit)?;
            Ok((Source::Lines(lines), duplicates))
        }
        SourceArgs { input: None, generate } => {
            let value_bytes = usize::try_from(args.value_bytes)?;
            Ok((Source::Generated { entries: generate.unwrap_or_default(), value_bytes }, 0))
        }
    }
}

fn layout(args: &BuildArgs, entries: u64) -> anyhow::Result<Layout> {
    let Some(tables) = args.files else {
        return Ok(Layout::RollOver { table_bytes: args.table_bytes });
    };
    ensure!(tables <= entries, "--files: expected at most {entries}, the number of keys, got {tables}");
    Ok(if args.consecutive { Layout::Ranges { tables } } else { Layout::RoundRobin { tables } })
}
