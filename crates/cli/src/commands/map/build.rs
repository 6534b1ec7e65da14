//! `sstfilter map build`: a map of the keys of tables and lists.
//!
//! All hashes are in memory, at 8 bytes a key. Beyond the limit, they are written as a partial map to a temporary file
//! next to the result, and partial maps are merged at the end. The result has the same bytes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use anyhow::{Context as _, bail, ensure};
use clap::{ArgGroup, Args};
use sstfilter::{FalsePositiveRate, FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{MapBuilder, MapOptions, MapReport as Written};
use tempfile::NamedTempFile;

use super::target::{Attentive, Target, WrittenMap, ensure_wanted, left_out, unless_interrupted};
use crate::commands::options::chosen_hasher;
use crate::file::context::Context;
use crate::file::database::directory_of;
use crate::file::map::OpenMap;
use crate::file::replace::temporary;
use crate::file::walk::Walk;
use crate::model::batch::in_parallel;
use crate::model::keys::{Source, id_text};
use crate::print::Outcome;
use crate::system::progress::ReadProgress;
use crate::system::{input, interrupt, memory};
use crate::words::group;
use crate::words::units::{self, parse_fpr, parse_number, parse_seed};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("covered").required(true).multiple(true).args(["tables", "key_lists"]))]
pub(crate) struct BuildMapArgs {
    /// Tables to cover (also of RocksDB, LevelDB and Pebble), or directories of them (not searched recursively). The id
    /// of an sstfilter table is the one that it records. The id of any other table follows from what it stores, not
    /// from its name, so that one map can cover several databases
    #[arg(value_name = "PATH")]
    tables: Vec<PathBuf>,

    /// Files of keys to cover, or directories of them: each stands for one file of the store. If its name is 0x, 16
    /// hexadecimal digits, and any extension, these are the fingerprint of the file's id, which must never stand for
    /// other contents. Otherwise, the id follows from its name and its contents
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,

    /// Bits of each hash that the map keeps, 8 to 48. Choose them once per store: maps of different bits cannot be
    /// merged
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(8..=48),
        conflicts_with_all = ["max_entries", "fpr"])]
    bits: Option<u8>,

    /// Instead of --bits: the most entries that maps of the store will have, counted over all files [default: four
    /// times those of this map]
    #[arg(long, value_name = "N", value_parser = parse_number, allow_negative_numbers = true)]
    max_entries: Option<u64>,

    /// Instead of --bits: false candidates per absent key, in all files together, of a map with --max-entries entries
    /// [default: 0.01]
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true)]
    fpr: Option<FalsePositiveRate>,

    /// Seed of the key hash (decimal or 0x hexadecimal) [default: that of the first sstfilter table, or the default
    /// seed]
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    hash_seed: Option<u64>,

    #[command(flatten)]
    target: Target,

    /// Bytes of memory for hashes, which take 8 bytes a key [default: half of the available memory].
    /// Files beyond that go to partial maps next to the result, which are merged at the end; this needs --bits or
    /// --max-entries. One file per thread must fit in any case
    #[arg(long, value_name = "BYTES", value_parser = parse_number)]
    memory_limit: Option<u64>,
}

/// What to do with files that are no tables.
const LISTS: &str = "for files of keys, pass --key-lists";

/// How many times a store may grow by default before its maps have more false candidates than requested.
const GROWTH: u64 = 4;

impl BuildMapArgs {
    /// Returns the options of a map with these entries; `None` if they are not known but needed.
    fn options(&self, entries: Option<u64>) -> anyhow::Result<Option<MapOptions>> {
        let max_entries = self.max_entries.or(entries.map(|entries| entries.saturating_mul(GROWTH)));
        let options = match (self.bits, max_entries) {
            (Some(bits), _) => MapOptions::with_prefix_bits(bits)?,
            (None, Some(entries)) => {
                let rate = self.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT);
                MapOptions::for_entries(entries, rate).context("--max-entries")?
            }
            (None, None) => return Ok(None),
        };
        self.target.options(options).map(Some)
    }

    /// Returns the files to cover, the problems of manifests, and notes on other files.
    fn sources(&self) -> anyhow::Result<(Vec<Source>, Vec<String>, Vec<String>)> {
        let are_there = self.tables.iter().all(|path| path.exists());
        let walk = Walk::of(&self.tables);
        let walk = if are_there { walk.context(LISTS) } else { walk }?;
        let (tables, without_keys) = Source::tables(&walk.files);
        let others = walk.others.iter().map(PathBuf::as_path).chain(without_keys);
        let others = others.map(|path| ("skipped: no table".to_owned(), input::name(path)));
        let findings = group::lines("file", walk.problems.iter().map(|(path, problem)| problem.about(path)));
        let notes = [walk.notes(), group::lines("file", others)].concat();
        Ok(([tables, Source::lists(&self.key_lists)?].concat(), findings, notes))
    }

    /// Returns the hasher of the options, or else that of the tables, so that one hash of a key serves filters and map.
    fn hasher(&self, sources: &[Source], context: &Context) -> anyhow::Result<KeyHasher> {
        if let Some(hasher) = chosen_hasher(self.hash_seed, context.secret.as_ref())? {
            return Ok(hasher);
        }
        let own = sources.iter().find_map(|source| source.own_hasher(context).transpose());
        Ok(own.transpose()?.unwrap_or_default())
    }
}

/// Builds the map. Files that cannot be read to their end are left out: a map must have all keys of a file.
pub(crate) fn run(args: &BuildMapArgs, context: &Context) -> anyhow::Result<(Outcome, WrittenMap)> {
    args.target.ensure_free([])?;
    let options = args.options(None)?;
    let (sources, mut findings, mut notes) = args.sources()?;
    args.target.ensure_free(sources.iter().map(|source| source.found.path.as_path()))?;
    let hasher = args.hasher(&sources, context)?;
    let mut parts = Parts::new(args, options, &hasher);
    let progress = ReadProgress::new("reading keys", sources.iter().map(Source::bytes).sum());
    let context = context.with_progress(progress.clone());
    let mut problems = Vec::new();
    // As many files at a time as threads: what they read until the next check is the memory beyond the limit.
    for some in sources.chunks(args.target.threads()) {
        ensure_wanted()?;
        progress.begin(some.iter().map(Source::bytes).sum());
        let read = in_parallel(some, Some(some.len()), |source| source.hashes(&hasher, &context))?;
        for (source, read) in some.iter().zip(read) {
            match read {
                Ok((id, hashes)) => parts.add(source, id, hashes)?,
                Err(problem) => problems.push((source.found.path.clone(), problem)),
            }
        }
    }
    drop((context, progress));
    let first = left_out(&problems).into_iter().next().map(|why| format!(" ({why})")).unwrap_or_default();
    ensure!(!parts.names.is_empty(), "no file that a map could cover{first}: {LISTS}");
    let (outcome, report) = args.target.report(&parts.finish()?, &problems)?;
    findings.extend_from_slice(&report.findings);
    notes.extend_from_slice(&report.notes);
    Ok((outcome, WrittenMap { findings, notes, ..report }))
}

/// The files that were read, in memory and in partial maps.
struct Parts<'a> {
    args: &'a BuildMapArgs,
    options: Option<MapOptions>,
    filters: Filters,
    files: Vec<(FileId, Vec<KeyHash>)>,
    /// The names of all files, by fingerprint.
    names: HashMap<u64, String>,
    bytes: u64,
    limit: u64,
    written: Vec<NamedTempFile>,
    /// Held while there are partial maps, so that a signal cannot leave them.
    writing: Option<MutexGuard<'static, ()>>,
}

impl<'a> Parts<'a> {
    fn new(args: &'a BuildMapArgs, options: Option<MapOptions>, hasher: &KeyHasher) -> Self {
        let limit = args.memory_limit.or_else(|| memory::available_bytes().map(|bytes| bytes / 2));
        Self {
            args,
            options,
            filters: Filters::default().with_hasher(hasher.clone()),
            files: Vec::new(),
            names: HashMap::new(),
            bytes: 0,
            limit: limit.unwrap_or(u64::MAX),
            written: Vec::new(),
            writing: None,
        }
    }

    fn add(&mut self, source: &Source, id: FileId, hashes: Vec<KeyHash>) -> anyhow::Result<()> {
        let name = input::name(&source.found.path).into_owned();
        if let Some(other) = self.names.insert(id.fingerprint(), name.clone()) {
            bail!("{other} and {name} have the same id, {}: a map covers each id once", id_text(id));
        }
        let bytes = hashes.len() as u64 * 8;
        if self.bytes + bytes > self.limit && !self.files.is_empty() {
            self.write_part()?;
        }
        self.bytes += bytes;
        self.files.push((id, hashes));
        Ok(())
    }

    fn write_part(&mut self) -> anyhow::Result<()> {
        let limit = units::bytes(self.limit);
        let advice = || {
            format!(
                "hashes take more than {limit} of memory (--memory-limit): pass --bits or --max-entries, so that the \
                 map can be built in parts"
            )
        };
        let options = self.options.with_context(advice)?;
        self.writing.get_or_insert_with(interrupt::writing);
        let directory = directory_of(&self.args.target.file.out).unwrap_or(Path::new("."));
        let mut part = temporary(directory)?;
        let written = self.builder(options).finish(FileId::random(), &mut Attentive(&mut part));
        unless_interrupted(written.context("cannot write a partial map"))?;
        self.bytes = 0;
        self.written.push(part);
        Ok(())
    }

    /// Returns a builder with the files in memory, and forgets them.
    fn builder(&mut self, options: MapOptions) -> MapBuilder {
        let mut builder = MapBuilder::new(&self.filters, options);
        self.files.drain(..).for_each(|(id, hashes)| builder.add_file(id, hashes));
        builder
    }

    fn finish(mut self) -> anyhow::Result<Written> {
        let target = &self.args.target;
        if self.written.is_empty() {
            let entries = self.files.iter().map(|(_, hashes)| hashes.len() as u64).sum();
            let options = self.args.options(Some(entries))?.context("the options of a map")?;
            let _writing = interrupt::writing();
            let builder = self.builder(options);
            return target.write(|id, sink| builder.finish(id, sink));
        }
        if !self.files.is_empty() {
            self.write_part()?;
        }
        let options = self.options.context("the options of partial maps")?;
        let parts: Vec<_> =
            self.written.iter().map(|part| OpenMap::open(part.path())).collect::<anyhow::Result<_>>()?;
        target.merge(&parts, options, |_| true)
    }
}
