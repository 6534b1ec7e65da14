//! `sstfilter probe`: probes only filters. It does not read indexes or data.

mod batch;
mod bounds;
mod file;
mod listing;
mod range;

use core::fmt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::{ArgGroup, Args};
use serde::Serialize;

use crate::files::{self, Found, Met};
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::Reading;
use crate::output::{Column, Outcome, Output, figures, note};
use crate::units;
use batch::{BatchAnswers, Detail};
pub(crate) use batch::{KeyBatch, Times};
pub(crate) use bounds::BoundsArgs;
use file::Answers;
pub(crate) use file::{FileProbes, hasher_of, probe_file};
pub(crate) use listing::distinct_names;
use listing::{Answer, Listing, SoughtKey, Touched};
pub(crate) use range::Ends;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sought").required(true).args(["keys", "range", "ranges"]))]
pub(crate) struct ProbeArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), bare filter blocks, or directories of them (not searched
    /// recursively). LevelDB's tables take their comparator from the MANIFEST next to them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// File of keys to probe for (values are ignored)
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// Probe the range filters instead: which tables may contain a key from LOWER (inclusive) to UPPER (exclusive)
    #[arg(long, value_names = ["LOWER", "UPPER"], num_args = 2, allow_hyphen_values = true,
        conflicts_with_all = ["keys", "per_key", "only_maybe", "only_absent", "threads", "filters_only"])]
    range: Vec<OsString>,

    /// Probe the ranges of a file, one LOWER<TAB>UPPER per line; with --keys-format nul, a NUL after each end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "range", "threads", "filters_only"])]
    ranges: Option<PathBuf>,

    #[command(flatten)]
    bounds: BoundsArgs,

    /// Print a line for each key or range instead of the summary: the key or both ends, the number of tables that may
    /// contain it, and their names, in columns separated by tabs. Commas separate the names. A ? follows the name of a
    /// table that is listed only because its filter is missing or cannot be used
    #[arg(long, visible_alias = "per-range")]
    per_key: bool,

    /// Print only the keys or ranges that some table may contain, in the format of the input
    #[arg(long, conflicts_with = "only_absent")]
    only_maybe: bool,

    /// Print only the keys or ranges that are certainly in no table, in the format of the input
    #[arg(long)]
    only_absent: bool,

    /// Number of tables to read and probe in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ProbeArgs {
    fn threads(&self) -> usize {
        self.threads.map_or_else(cores, usize::from)
    }

    /// Returns the files to probe. A named file must exist; a file of a directory may turn out to be unreadable.
    /// Orphans of directories are only named in a note.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Found::of(&self.paths)?;
        let mut named = Met::default();
        for path in &self.paths {
            if !files::is_directory(path)? {
                // A named file that cannot be read is the user's mistake, not a table that may contain each key.
                files::look_at(path)?;
                named.is_first(path);
            }
        }
        found.files.extend(found.orphans.extract_if(.., |orphan| !named.is_first(orphan)));
        found.ensure_files()?;
        files::orphans_line(&found.orphans).iter().for_each(|line| note(line));
        Ok(found.files)
    }

    fn detail(&self) -> Detail {
        if self.per_key { Detail::Files } else { Detail::Counts }
    }

    /// Returns which keys or ranges are listed; `None` for a summary.
    fn listing(&self) -> Option<Listing> {
        match self {
            Self { only_maybe: true, .. } => Some(Listing::Maybe),
            Self { only_absent: true, .. } => Some(Listing::Absent),
            Self { per_key: true, .. } => Some(Listing::All),
            _ => None,
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Probes each of `files` for the keys between its smallest and its largest key.
pub(crate) fn probe_files(files: &[PathBuf], keys: &KeyBatch<'_>, reading: Reading<'_>) -> Vec<FileProbes> {
    batch::probe_all(files, keys, reading, BoundsArgs { filters_only: false }, (cores(), Detail::Counts)).files
}

#[derive(Debug, Serialize)]
struct ProbeReport {
    keys: usize,
    tables: usize,
    /// Keys that no table can contain.
    keys_touching_none: usize,
    min_tables_per_key: u32,
    mean_tables_per_key: f64,
    max_tables_per_key: u32,
    /// Mean number of tables whose key range includes a key: what a lookup touches without filters.
    mean_tables_in_range_per_key: f64,
    /// Expected mean if all keys are absent. Null if the rate of some filter cannot be computed.
    expected_tables_per_key: Option<f64>,
    /// Positives of filters for keys in range.
    positives: u64,
    /// Keys in range that filters could not be probed for.
    not_probed: u64,
    /// Positives over probes: the false positive rate if all keys are absent. Null without a probe.
    observed_rate: Option<f64>,
    expected_rate: Option<f64>,
    unusable_filters: usize,
    threads: usize,
    seconds: f64,
    /// Summed over the threads: opening files, reading and verifying filters.
    reading_seconds: f64,
    /// Summed over the threads: hashing the keys, once for each hash function.
    hashing_seconds: f64,
    /// Summed over the threads: probing filters in memory. Keys are already hashed, except for the first table of
    /// another engine.
    probing_seconds: f64,
    /// Probes of usable filters, per second of `probing_seconds`: the speed of one core. Null without such a probe.
    probes_per_second: Option<f64>,
    per_table: Vec<FileProbes>,
    /// The keys that were listed, in the order of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<Answer<SoughtKey>>>,
}

/// Probes all files. The answer is no if a file is damaged, and a failure if one cannot be read; both count as tables
/// that may contain each key.
pub(crate) fn run(
    args: &ProbeArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let paths = args.files()?;
    match (&args.keys, &args.ranges) {
        (Some(keys), _) => probe_keys(&paths, keys, args, format, reading, output),
        (None, Some(ranges)) => range::run_all(&paths, &Ends::read(ranges, format)?, args, format, reading, output),
        // clap requires exactly one of the three options.
        (None, None) => {
            let [lower, upper] = args.range.as_slice() else { bail!("--range: expected two ends") };
            let ends = Ends::parse("--range", [lower, upper], format)?;
            output.report(range::run_one(&paths, ends, reading))
        }
    }
}

fn probe_keys(
    paths: &[PathBuf],
    keys: &Path,
    args: &ProbeArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let lines = KeyLines::read(keys, format, "--keys")?;
    // Positions of keys are kept as `u32`: half the memory of `usize` for each positive.
    ensure!(u32::try_from(lines.len()).is_ok(), "--keys: expected less than 2^32 keys: split the file");
    let keys = KeyBatch::new(lines.iter().map(|(key, _)| key).collect());
    // A file is the unit of work, so further threads would have none.
    let (detail, threads) = (args.detail(), args.threads().min(paths.len()));
    let found = batch::probe_all(paths, &keys, reading, args.bounds, (threads, detail));
    let outcome = found.files.iter().map(|file| file.outcome).max().unwrap_or(Outcome::Yes);
    let tables = found.files.iter().zip(&found.positives);
    let tables = tables.map(|(file, positives)| (file.path.as_str(), positives, &file.unanswered));
    let touched = Touched::new(&found.touched, tables, detail);
    match args.listing() {
        Some(listing) if !output.is_json => {
            found.files.iter().flat_map(FileProbes::remarks).for_each(|remark| note(&remark));
            let encoded = |position: usize| format.encoded(keys.keys[position]).into_owned();
            listing.print(&touched, encoded, format, output)?;
            Ok(outcome)
        }
        listing => {
            let sought = |position: usize| SoughtKey::new(keys.keys[position]);
            let answers = listing.map(|listing| listing.answers(&touched, sought));
            let report = ProbeReport::new(found, threads, begun.elapsed().as_secs_f64(), answers);
            if !output.is_json {
                report.speed().iter().for_each(|speed| note(speed));
            }
            output.report((outcome, report))
        }
    }
}

impl ProbeReport {
    fn new(found: BatchAnswers, threads: usize, seconds: f64, answers: Option<Vec<Answer<SoughtKey>>>) -> Self {
        let BatchAnswers { files: per_table, touched, times, .. } = found;
        let keys = touched.len() as f64;
        let sum = |count: fn(&FileProbes) -> u64| per_table.iter().map(count).sum::<u64>();
        let expected = |file: &FileProbes| Some(file.expected_rate? * file.keys_probed() as f64);
        // One unknown rate makes the sum unknown.
        let expected: Option<f64> = per_table.iter().map(expected).sum();
        let (positives, not_probed) = (sum(|file| file.positives), sum(|file| file.keys_not_probed));
        let (in_range, probed) = (sum(|file| file.keys_in_range), sum(FileProbes::keys_probed));
        let of_probes = |count: f64| (probed > 0).then(|| count / probed as f64);
        let probing_seconds = times.probing.as_secs_f64();
        Self {
            keys: touched.len(),
            tables: per_table.len(),
            keys_touching_none: touched.iter().filter(|&&tables| tables == 0).count(),
            min_tables_per_key: touched.iter().min().copied().unwrap_or_default(),
            // A key that the filter could not be probed for touches its table like a positive.
            mean_tables_per_key: (positives + not_probed) as f64 / keys,
            max_tables_per_key: touched.iter().max().copied().unwrap_or_default(),
            mean_tables_in_range_per_key: in_range as f64 / keys,
            expected_tables_per_key: expected.map(|expected| (expected + not_probed as f64) / keys),
            positives,
            not_probed,
            observed_rate: of_probes(positives as f64),
            expected_rate: expected.and_then(of_probes),
            unusable_filters: per_table.iter().filter(|file| file.problem.is_some()).count(),
            threads,
            seconds,
            reading_seconds: times.reading.as_secs_f64(),
            hashing_seconds: times.hashing.as_secs_f64(),
            probing_seconds,
            probes_per_second: (times.probes > 0).then(|| times.probes as f64 / probing_seconds),
            per_table,
            answers,
        }
    }
}

impl FileProbes {
    /// Returns remarks on the file that the counts do not show.
    fn remarks(&self) -> impl Iterator<Item = String> {
        let tombstones = || format!("{}: has range tombstones: read it whatever its filter answers", self.path);
        let not_probed = || {
            let keys = units::counted(self.keys_not_probed, "key");
            format!(
                "{}: may also contain {keys} that its filter was not probed for, because it holds no part of such keys",
                self.path
            )
        };
        let tombstones = self.has_range_tombstones.then(tombstones);
        let sidecar = self.sidecar_problem.as_ref().map(|problem| match self.format.as_str() {
            "table" => format!("{problem}; the table's own filter was probed"),
            _ => format!("{}: {problem}", self.path),
        });
        self.complaint().into_iter().chain(sidecar).chain((self.keys_not_probed > 0).then(not_probed)).chain(tombstones)
    }

    /// Returns the reason why a file's filter has no answer.
    fn complaint(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        let path = if problem.contains(&self.path) { String::new() } else { format!("{}: ", self.path) };
        let scope = match self.unanswered {
            Answers::All => "every key",
            Answers::Some(_) => "the keys of some parts",
        };
        Some(format!("{path}positive for {scope}: {problem}"))
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<FileProbes>; 8] = [
            ("table", |file| listing::file_name(&file.path)),
            ("format", |file| file.format.clone()),
            ("filter", |file| file.filter.clone()),
            ("keys", |file| file.keys_in_table.map_or_else(|| "unknown".to_owned(), units::grouped)),
            ("in range", |file| units::grouped(file.keys_in_range)),
            ("positives", |file| units::grouped(file.positives)),
            ("rate", |file| file.observed_rate.map_or_else(|| "-".to_owned(), units::percent)),
            ("expected if absent", |file| file.expected_rate.map_or_else(|| "unknown".to_owned(), units::percent)),
        ];
        writeln!(f, "{}", figures(&columns, &self.per_table))?;
        for remark in self.per_table.iter().flat_map(FileProbes::remarks) {
            writeln!(f, "{remark}")?;
        }
        let (keys, tables) = (units::counted(self.keys as u64, "key"), units::counted(self.tables as u64, "table"));
        writeln!(f, "{keys} over {tables}")?;
        let Self { mean_tables_per_key: mean, min_tables_per_key: min, max_tables_per_key: max, .. } = self;
        write!(f, "tables touched per key: {mean:.3} on average ({min} to {max})")?;
        match self.expected_tables_per_key {
            Some(expected) => writeln!(f, "; {expected:.3} expected if all keys are absent")?,
            None => writeln!(f)?,
        }
        writeln!(f, "{}", self.without_filters())?;
        let none = units::grouped(self.keys_touching_none as u64);
        writeln!(f, "keys certainly in no table: {none}")
    }
}

impl ProbeReport {
    /// Describes how many tables a lookup would touch without filters, and why.
    fn without_filters(&self) -> String {
        let mean = format!("tables touched without filters: {:.3} on average", self.mean_tables_in_range_per_key);
        let unbounded = self.per_table.iter().filter(|file| !file.uses_bounds).count();
        match unbounded {
            0 => format!("{mean}, by their smallest and largest keys"),
            _ if unbounded == self.tables => {
                format!("{mean}: all, because their smallest and largest keys are unknown or ignored (--filters-only)")
            }
            _ => {
                let unbounded = units::counted(unbounded as u64, "table");
                format!("{mean}, by their smallest and largest keys, which are unknown for {unbounded}")
            }
        }
    }

    /// Describes where the time went. It goes to standard error, so that the report is the same in each run.
    fn speed(&self) -> Option<String> {
        let speed = self.probes_per_second? / 1e6;
        let Self { seconds, reading_seconds: reading, hashing_seconds: hashing, probing_seconds: probing, .. } = self;
        let threads = units::counted(self.threads as u64, "thread");
        Some(format!(
            "{seconds:.2} s with {threads}; summed over them: reading {reading:.3} s, hashing {hashing:.3} s, \
             probing {probing:.3} s: {speed:.1} million probes per second and core, once filters are in memory"
        ))
    }
}
