//! `sstfilter map`: file maps, each of which says which of many files may have a key.

mod build;
mod info;
mod merge;
mod probe;
mod sources;

use core::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, Subcommand};
use serde::Serialize;
use sstfilter::FileId;
use sstfilter_map::{MapOptions, MapReport};

pub(crate) use crate::file::map::{Answer, KEYS_AT_ONCE, MapReader, OpenMap};
use crate::files::Look;
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::{self, Reading};
use crate::output::{Outcome, Output, explained};
use crate::replace::{self, Mark, Replaces};
use crate::units::{count_in, grouped, parse_bytes};
use crate::{interrupt, units};

#[derive(Debug, Subcommand)]
pub(crate) enum MapCommand {
    /// Build a map of tables, or of lists of keys
    Build(build::BuildMapArgs),
    /// Merge maps into one without reading keys, and drop files that are gone
    Merge(merge::MergeArgs),
    /// Look up keys: which of the covered files may have them. Reads one page of each map per key
    Probe(probe::ProbeMapArgs),
    /// Show ids, sizes and rates of maps, and with --files the files that they cover. Pages are not checked:
    /// `verify` does that
    Info(info::InfoArgs),
}

impl MapCommand {
    /// Whether the command writes a map.
    pub(crate) fn makes_files(&self) -> bool {
        matches!(self, Self::Build(_) | Self::Merge(_))
    }
}

pub(crate) fn run(
    command: &MapCommand,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    match command {
        MapCommand::Build(args) => output.report(build::run(args, format, reading)?),
        MapCommand::Merge(args) => output.report(merge::run(args, reading)?),
        MapCommand::Probe(args) => probe::run(args, format, reading, output),
        MapCommand::Info(args) => output.report(info::run(args, reading)?),
    }
}

/// Where a map is written, and its id.
#[derive(Debug, Args)]
struct Target {
    /// File for the map
    #[arg(long, value_name = "MAP")]
    out: PathBuf,

    /// Replace an existing file, but only a file map
    #[arg(long)]
    overwrite: bool,

    /// The map's own id: a fingerprint (0x and 16 hexadecimal digits) [default: random]. Readers must pass it to load
    /// the map
    #[arg(long, value_name = "ID", value_parser = sources::parse_fingerprint)]
    id: Option<FileId>,
}

impl Target {
    fn replaces(&self) -> Replaces {
        if self.overwrite { Replaces::Own(Mark::End(Look::Map)) } else { Replaces::Nothing }
    }

    /// Fails if the file exists and may not be replaced. Called before the keys are read, which may take hours.
    fn ensure_free<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
        self.replaces().check(&self.out)?;
        replace::ensure_no_input(&self.out, inputs)
    }

    /// Writes the map that `finish` makes with the id. If a signal arrives, nothing is left. Call it only while
    /// [`interrupt::writing`] is held.
    fn write(
        &self,
        finish: impl FnOnce(FileId, &mut Attentive<'_>) -> io::Result<MapReport>,
    ) -> anyhow::Result<MapReport> {
        let id = self.id.unwrap_or_else(FileId::random);
        let written = replace::write_with(&self.out, self.replaces(), |file| finish(id, &mut Attentive(file)));
        if written.is_err() {
            ensure_wanted()?;
        }
        written
    }
}

/// Fails if a signal has interrupted the command.
fn ensure_wanted() -> Result<(), interrupt::Interrupted> {
    interrupt::check(|| "no map was written".to_owned())
}

/// A file whose writing ends with an error when a signal arrives.
struct Attentive<'a>(&'a mut dyn Write);

impl Write for Attentive<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ensure_wanted().map_err(io::Error::other)?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// How a map is laid out and made, whatever its entries are.
#[derive(Debug, Args)]
struct LayoutArgs {
    /// Bytes of a page, a power of two from 1K to 1M, which one lookup reads
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = parse_page_bytes)]
    page_bytes: u32,

    /// The number of files that have the same key, on average: pages are planned for it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count_in::<u32>(1..=1_000_000),
        allow_negative_numbers = true)]
    files_per_key: u32,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl LayoutArgs {
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    fn apply(&self, options: MapOptions) -> anyhow::Result<MapOptions> {
        let options = options.with_page_bytes(self.page_bytes)?;
        Ok(options.with_files_per_key(self.files_per_key).with_threads(self.threads()))
    }
}

fn parse_page_bytes(text: &str) -> Result<u32, String> {
    // A number beyond 32 bits stays too large, and is refused below.
    let bytes = u32::try_from(parse_bytes(text)?).unwrap_or(u32::MAX);
    let is_possible = bytes.is_power_of_two() && (1 << 10..=1 << 20).contains(&bytes);
    if is_possible { Ok(bytes) } else { Err(format!("expected a power of two from 1K to 1M, got '{text}'")) }
}

/// Opens all maps. A map that is damaged is left out: it covers nothing.
fn open_maps(paths: &[PathBuf]) -> (Vec<OpenMap>, Vec<LeftOut>) {
    let (mut maps, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        match OpenMap::open(path) {
            Ok(map) => maps.push(map),
            Err(problem) => {
                left_out.push(LeftOut::new(path, &explained(&problem), opened::outcome_of(&problem)));
            }
        }
    }
    (maps, left_out)
}

/// Returns an id as messages, reports and options show it.
fn id_text(id: FileId) -> String {
    format!("{:#018x}", id.fingerprint())
}

/// Returns a number of files per key, which may be tiny.
fn rate_text(files: f64) -> String {
    // Four decimals would show it as zero.
    if files != 0.0 && files < 0.001 { format!("{files:.1e}") } else { format!("{files:.4}") }
}

fn entries_text(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(entries)) }
}

/// The numbers of a map.
#[derive(Debug, Serialize)]
struct MapFields {
    path: String,
    /// Fingerprint of the map's own id.
    map_id: String,
    hash: String,
    covered_files: usize,
    /// Intervals of writes; only of a map of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    covered_writes: Option<usize>,
    entries: u64,
    bytes: u64,
    /// Null for a map without entries.
    bits_per_entry: f64,
    prefix_bits: u8,
    pages: u64,
    page_bytes: u64,
    /// Files that an absent key is expected to be looked for in.
    expected_false_candidates: f64,
}

impl MapFields {
    fn new(map: &OpenMap) -> Self {
        let (index, first) = (&map.index, map.index.page_range(0));
        Self {
            path: map.name().into_owned(),
            map_id: id_text(index.map_id()),
            hash: index.hash_identity().to_string(),
            covered_files: index.files().len(),
            covered_writes: Some(index.writes().len()).filter(|writes| *writes > 0),
            entries: index.entries(),
            bytes: map.file.length,
            bits_per_entry: map.file.length as f64 * 8.0 / index.entries() as f64,
            prefix_bits: index.prefix_bits(),
            pages: index.pages(),
            page_bytes: first.end - first.start,
            expected_false_candidates: index.expected_false_candidates(),
        }
    }
}

impl fmt::Display for MapFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, bytes) = match self.covered_writes {
            Some(writes) => (units::counted(writes as u64, "interval") + " of writes", grouped(self.bytes)),
            None => (units::counted(self.covered_files as u64, "file"), grouped(self.bytes)),
        };
        let entries = entries_text(self.entries);
        write!(f, "{}: file map of {files}, {entries}, {bytes} bytes", self.path)?;
        if self.entries > 0 {
            write!(f, ", {:.2} bits per entry", self.bits_per_entry)?;
        }
        writeln!(f, "\nid: {} (readers pass FileId::from_fingerprint({0}))", self.map_id)?;
        writeln!(f, "hash: {}, of which it keeps {} bits", self.hash, self.prefix_bits)?;
        writeln!(f, "pages: {} of {}", grouped(self.pages), units::bytes(self.page_bytes))?;
        let rate = rate_text(self.expected_false_candidates);
        writeln!(f, "files that an absent key is expected to be looked for in: {rate}")
    }
}

/// The map that was written.
#[derive(Debug, Serialize)]
struct Written {
    #[serde(flatten)]
    map: MapFields,
    /// Pages whose entries are in the tail.
    outgrown_pages: u64,
    unknown_pages: u64,
    /// Keys that 32 or more files have.
    lists: u64,
}

impl Written {
    fn new(target: &Target, report: MapReport) -> anyhow::Result<Self> {
        let MapReport { outgrown_pages, unknown_pages, lists, .. } = report;
        Ok(Self { map: MapFields::new(&OpenMap::open(&target.out)?), outgrown_pages, unknown_pages, lists })
    }

    /// Returns what a merge says of unknown pages.
    fn unknown_line(&self) -> Option<String> {
        let (unknown, all) = (grouped(self.unknown_pages), grouped(self.map.pages));
        (self.unknown_pages > 0).then(|| {
            format!(
                "{unknown} of {all} pages unknown, because pages of the inputs are damaged or unknown: lookups in them \
                 find all covered files. `verify` names damaged maps; build the map from keys again"
            )
        })
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.map)?;
        if self.lists > 0 {
            writeln!(f, "keys that 32 or more files have: {}", grouped(self.lists))?;
        }
        if self.outgrown_pages > 0 {
            let pages = units::counted(self.outgrown_pages, "page");
            writeln!(f, "{pages} outgrown: lookups in them read twice; a higher --files-per-key avoids it")?;
        }
        Ok(())
    }
}
