//! `sstfilter map build`: a map of the keys of tables and lists.
//!
//! All hashes are in memory, at 8 bytes a key. Beyond the limit, they are written as a partial map to a temporary file
//! next to the result, and partial maps are merged at the end. The result has the same bytes.

use core::fmt;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::MutexGuard;
use std::thread;

use anyhow::{Context, bail, ensure};
use clap::{ArgGroup, Args};
use serde::Serialize;
use sstfilter::{FalsePositiveRate, FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{MapBuilder, MapOptions, MapReport};
use tempfile::NamedTempFile;

use super::merge::merge_all;
use super::sources::{self, Source};
use super::{Attentive, LayoutArgs, OpenMap, Target, Written, ensure_wanted};
use crate::commands::options::chosen_hasher;
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::Outcome;
use crate::progress::ReadProgress;
use crate::units::{counted, parse_bytes, parse_count, parse_fpr, parse_seed};
use crate::{input, interrupt, memory, replace, units};

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

    #[command(flatten)]
    target: Target,

    /// Bits of each hash that the map keeps, 8 to 48. Choose them once per store: maps of different bits cannot be
    /// merged
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(8..=48),
        conflicts_with_all = ["max_entries", "fpr"])]
    bits: Option<u8>,

    /// Instead of --bits: the most entries that maps of the store will have, counted over all files [default: four
    /// times those of this map]
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
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
    layout: LayoutArgs,

    /// Bytes of memory for hashes, which take 8 bytes a key (units K, M, G) [default: half of the available memory].
    /// Files beyond that go to partial maps next to the result, which are merged at the end; this needs --bits or
    /// --max-entries. One file per thread must fit in any case
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_limit: Option<u64>,
}

/// How many times a store may grow by default before its maps have more false candidates than requested.
const GROWTH: u64 = 4;

impl BuildMapArgs {
    fn rate(&self) -> FalsePositiveRate {
        self.fpr.unwrap_or(FalsePositiveRate::ONE_PERCENT)
    }

    /// Returns the options of the map, if they do not depend on its entries.
    fn options(&self) -> anyhow::Result<Option<MapOptions>> {
        let options = match (self.bits, self.max_entries) {
            (Some(bits), _) => MapOptions::with_prefix_bits(bits)?,
            (None, Some(entries)) => MapOptions::for_entries(entries, self.rate()).context("--max-entries")?,
            (None, None) => return Ok(None),
        };
        self.layout.apply(options).map(Some)
    }

    fn options_for(&self, entries: u64) -> anyhow::Result<MapOptions> {
        self.layout.apply(MapOptions::for_entries(entries.saturating_mul(GROWTH), self.rate())?)
    }

    /// Returns the hasher of the options, or else that of the tables, so that one hash of a key serves filters and map.
    fn hasher(&self, sources: &[Source], reading: Reading<'_>) -> anyhow::Result<KeyHasher> {
        if let Some(hasher) = chosen_hasher(self.hash_seed, reading.secret)? {
            return Ok(hasher);
        }
        let own = sources.iter().find_map(|source| source.own_hasher(reading).transpose());
        Ok(own.transpose()?.unwrap_or_default())
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Built {
    #[serde(flatten)]
    written: Written,
    /// Partial maps that were merged; 0 if all hashes fit into memory.
    partial_maps: usize,
    /// Files that the map does not cover.
    left_out: Vec<LeftOut>,
}

/// Builds the map. Files that cannot be read to their end are left out: a map must have all keys of a file.
pub(super) fn run(args: &BuildMapArgs, format: KeysFormat, reading: Reading<'_>) -> anyhow::Result<(Outcome, Built)> {
    args.target.ensure_free([])?;
    let options = args.options()?;
    let sources = sources::find(&args.tables, &args.key_lists)?;
    args.target.ensure_free(sources.iter().map(|source| source.path.as_path()))?;
    let hasher = args.hasher(&sources, reading)?;
    let mut parts = Parts::new(args, options, &hasher);
    let progress = ReadProgress::new("reading keys", sources.iter().map(Source::bytes).sum());
    let reading = Reading { progress: Some(&progress), ..reading };
    let mut left_out = Vec::new();
    // As many files at a time as threads: what they read until the next check is the memory beyond the limit.
    for some in sources.chunks(args.layout.threads()) {
        ensure_wanted()?;
        progress.begin(some.iter().map(Source::bytes).sum());
        let read = each_on_a_thread(some, |source| source.hashes(&hasher, format, reading));
        for (source, read) in some.iter().zip(read) {
            match read {
                Ok((id, hashes)) => parts.add(source, id, hashes)?,
                Err(left) => left_out.push(left),
            }
        }
    }
    drop(progress);
    ensure!(!parts.names.is_empty(), "no file that a map could cover{}", LeftOut::first(&left_out));
    let partial_maps = parts.written.len();
    let partial_maps = if partial_maps > 0 && !parts.files.is_empty() { partial_maps + 1 } else { partial_maps };
    let report = parts.finish()?;
    let outcome = LeftOut::outcome(&left_out);
    Ok((outcome, Built { written: Written::new(&args.target, report)?, partial_maps, left_out }))
}

/// Runs `work` for each item on a thread of its own.
fn each_on_a_thread<'a, T: Sync, R: Send>(items: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
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
        let name = input::name(&source.path).into_owned();
        if let Some(other) = self.names.insert(id.fingerprint(), name.clone()) {
            bail!("{other} and {name} have the same id, {}: a map covers each id once", super::id_text(id));
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
        let directory = replace::directory_of(&self.args.target.out);
        let mut part = replace::temporary(directory)?;
        self.builder(options).finish(FileId::random(), &mut Attentive(&mut part)).or_else(interrupted)?;
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

    fn finish(mut self) -> anyhow::Result<MapReport> {
        let target = &self.args.target;
        if self.written.is_empty() {
            let entries = self.files.iter().map(|(_, hashes)| hashes.len() as u64).sum();
            let options = self.options.map_or_else(|| self.args.options_for(entries), Ok)?;
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
        merge_all(&parts, options, target, |_| true)
    }
}

/// Returns the error of a write, or that of the signal that caused it.
fn interrupted<T>(error: io::Error) -> anyhow::Result<T> {
    ensure_wanted()?;
    Err(anyhow::Error::from(error).context("cannot write a partial map"))
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.written)?;
        if self.partial_maps > 0 {
            writeln!(f, "merged from {}", counted(self.partial_maps as u64, "partial map"))?;
        }
        for line in LeftOut::lines(&self.left_out, "not covered") {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}
