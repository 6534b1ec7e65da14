//! `sstfilter rebuild`: writes a new filter next to each table. The table is not changed.

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure};
use clap::Args;
use serde::Serialize;
use sstfilter::BuildPurpose::Ingest;
use sstfilter::kind::KindEntry;
use sstfilter::{
    BitsPerKey, BuildContext, BuildReport, FalsePositiveRate, FilterBlock, FilterPolicy, KeyHasher, Sizing,
};
use sstfilter_store::sidecar_path;
use sstfilter_table::{Table, TableError, TableOptions, TablePart};

use crate::build::report::Choice;
use crate::commands::options::{AUTO, FilterArgs, PartitionArgs, policy_named};
use crate::files::{self, Found, Look};
use crate::input::RegularFile;
use crate::inspect::look_over;
use crate::opened::Reading;
use crate::output::{Outcome, explained, path_name};
use crate::partitions::{PartitionFields, Partitions};
use crate::replace::{self, Replaces};
use crate::{input, interrupt, progress, units};

#[derive(Debug, Args)]
#[command(mut_arg("policy", |policy| policy.help(POLICY)), mut_arg("bits_per_key", |bits| bits.help(BITS)))]
pub(crate) struct RebuildArgs {
    /// Tables of sstfilter, or directories of them (not searched recursively). The filter of NAME is written to
    /// NAME.filter, which readers use instead of the table's own filter. An existing file of that name is replaced only
    /// if it is a filter file made for a table, or empty
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<PathBuf>,

    /// Only tables whose filter or sidecar is missing, damaged, stale or unusable, as in `inspect --only-problems`
    #[arg(long)]
    only_problems: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    partitions: PartitionArgs,
}

const POLICY: &str = "\
Kind of filter; auto builds Ribbon for large tables and Bloom for small ones [default: auto. Without --policy, --fpr and \
--bits-per-key: the kind and the rate of the table's own filter, as far as they are recorded]";

const BITS: &str = "\
Filter size, 1 to 100 bits per key, instead of --fpr [default: 10]. For auto, the size of a Bloom filter";

#[derive(Debug, Serialize)]
pub(crate) struct RebuildReport {
    rebuilt: usize,
    failed: usize,
    filter_bytes: u64,
    tables: Vec<TableReport>,
}

#[derive(Debug, Serialize)]
struct TableReport {
    path: String,
    #[serde(flatten)]
    rebuilt: Option<Rebuilt>,
    /// Why there is no new filter. An earlier sidecar is kept.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct Rebuilt {
    sidecar: String,
    bytes: u64,
    /// Where the policy comes from; null if the command line names it.
    policy: Option<String>,
    #[serde(flatten)]
    filter: Choice,
    keys: u64,
    bits_per_key: f64,
    expected_fpr: f64,
}

/// Rebuilds all filters. Continues after a table that fails; the outcome is then a failure.
pub(crate) fn run(args: &RebuildArgs, reading: Reading<'_>) -> anyhow::Result<(Outcome, RebuildReport)> {
    let rebuild = Rebuild::new(args, reading)?;
    let mut tables = Vec::new();
    for path in &args.tables {
        match tables_at(path) {
            Ok(found) => {
                let is_chosen = |table: &PathBuf| !args.only_problems || look_over(table, reading).1.state.is_bad();
                tables.extend(found.into_iter().filter(is_chosen).map(Ok));
            }
            Err(problem) => tables.push(Err(TableReport::failed(path, &problem))),
        }
    }
    let length = |table: &Result<PathBuf, _>| table.as_ref().ok().and_then(|path| input::length(path)).unwrap_or(0);
    let progress = progress::bytes("rebuilding filters", tables.iter().map(length).sum());
    let mut reports = Vec::new();
    for table in tables {
        let done = reports.iter().filter(|report: &&TableReport| report.rebuilt.is_some()).count();
        interrupt::remains(format!("{} rebuilt", units::counted(done as u64, "filter")));
        let bytes = length(&table);
        reports.push(table.map_or_else(|report| report, |path| rebuild.report(&path)));
        progress.inc(bytes);
    }
    let report = RebuildReport::new(reports);
    Ok((if report.failed > 0 { Outcome::Failed } else { Outcome::Yes }, report))
}

/// Returns the table itself, or all tables of a directory.
fn tables_at(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    ensure!(
        !input::is_standard(path),
        "standard input: expected a table's file, because its filter is written next to it"
    );
    let Found { files, orphans, .. } = Found::of(&[path.to_owned()])?;
    if files == [path] || orphans == [path] {
        return Ok(vec![path.to_owned()]);
    }
    // Chosen by name, so that damaged tables are included and reported.
    let tables: Vec<_> = files.into_iter().filter(|file| files::has_table_extension(file)).collect();
    ensure!(!tables.is_empty(), "{} contains no table of sstfilter", input::name(path));
    Ok(tables)
}

/// The options of a rebuild, the same for all tables.
struct Rebuild<'a> {
    reading: TableOptions,
    writing: TableOptions,
    /// The policy of the command line; `None` for that of each table.
    policy: Option<Arc<dyn FilterPolicy>>,
    secret: Option<&'a KeyHasher>,
    hash_seed: Option<u64>,
}

impl<'a> Rebuild<'a> {
    fn new(args: &RebuildArgs, reading: Reading<'a>) -> anyhow::Result<Self> {
        let hasher = args.filter.hasher(reading.secret)?;
        let (secret, hash_seed) = (reading.secret, args.filter.hash_seed);
        // Without a secret seed, each table is read with the hash that it records.
        let options =
            files::read_options(files::TableReading { secret, ..files::TableReading::default() }).without_sidecars();
        let writing = TableOptions::default().with_context(BuildContext::new(&hasher).with_purpose(Ingest));
        let writing = match args.partitions.partitions {
            Some(partitions) => writing.with_partitioned_filter(partitions),
            None => writing,
        };
        let policy = if args.filter.is_default() { None } else { Some(args.filter.policy()?) };
        Ok(Self { reading: options, writing, policy, secret, hash_seed })
    }

    fn report(&self, path: &Path) -> TableReport {
        match self.rebuild(path) {
            Ok(rebuilt) => TableReport { path: input::name(path).into_owned(), rebuilt: Some(rebuilt), problem: None },
            Err(problem) => TableReport::failed(path, &problem),
        }
    }

    fn rebuild(&self, path: &Path) -> anyhow::Result<Rebuilt> {
        let table = self.open(path)?;
        // Checked before the keys are read, which may take minutes, and again before the sidecar is written.
        Replaces::SIDECAR.check(&sidecar_path(path))?;
        let (policy, about) = match &self.policy {
            Some(policy) => (Arc::clone(policy), None),
            None => own_policy(&table, path)?,
        };
        let writing = self.writing.clone().with_policy(policy);
        let built = table.build_sidecar(&writing).map_err(|problem| {
            let is_damage = matches!(problem, TableError::Checksum { .. } | TableError::Corrupt { .. });
            let problem = anyhow::Error::from(problem);
            if is_damage {
                problem.context("`sstfilter get --salvage` prints the entries that can be read")
            } else {
                problem
            }
        })?;
        let reason = built.point_report.as_ref().map_or("the policy makes none", |report| report.reason.as_str());
        ensure!(!built.metadata().sections().is_empty(), "no filter: {reason}");
        // An interruption may stop the reading of keys at any time, but must not stop the writing of a filter.
        let _writing = interrupt::writing();
        Replaces::SIDECAR.check(&sidecar_path(path))?;
        replace::remove_leftovers(replace::directory_of(path))?;
        let bytes = table.install_sidecar(&built, &writing)?.map_or(0, |(_, bytes)| bytes);
        // As passed: the library returns an absolute path.
        let policy = about;
        Ok(Rebuilt { policy, ..Rebuilt::new(&sidecar_path(path), bytes, built.point_report.as_ref()) })
    }

    /// Opens the table at `path`. Fails if its readers could not use a new filter.
    fn open(&self, path: &Path) -> anyhow::Result<Table> {
        match files::look_at(path)? {
            Look::Foreign(engine) => bail!("is a table of {}: expected one of sstfilter", engine.name()),
            Look::FilterBlock | Look::RangeFilter | Look::Partitions | Look::Layers | Look::Sidecar => {
                bail!("is a filter: expected a table")
            }
            Look::Map => return Err(files::is_a_map(path)),
            Look::Table | Look::Neither => {}
        }
        let table = Table::open(path, &self.reading)?;
        let filters = &table.properties().filters;
        let (described, parts) = (filters.hash_identity(), filters.key_parts());
        let is_whole = filters.extractors().len() == 0;
        ensure!(is_whole, "its filter holds {parts}: this program does not have these extractors");
        let is_known = self.secret.is_some() || table.store().filters().hasher().identity() == described;
        ensure!(is_known, "its keys are hashed by {described}: pass the seed with --secret-seed-file");
        if let Some(seed) = self.hash_seed {
            // Readers hash keys as the table records, or with a secret seed: they could not use a filter of another
            // seed.
            let (expected, got) = (described, KeyHasher::with_seed(seed).identity());
            ensure!(
                expected == got,
                "--hash-seed: expected the hash of the table, {expected}, got {got}: leave the option out"
            );
        }
        Ok(table)
    }
}

/// Returns the policy of the table's own filter as far as it is recorded, and a remark on what is not.
fn own_policy(table: &Table, path: &Path) -> anyhow::Result<(Arc<dyn FilterPolicy>, Option<String>)> {
    let name = table.properties().filter_policy.as_deref();
    let name = name.filter(|&name| name == AUTO || KindEntry::named(name).is_some());
    let kind = name.unwrap_or(AUTO);
    let rate = if name.is_some() { own_rate(table, path)? } else { None };
    if let Some(rate) = rate
        && let Ok(policy) = policy_named(kind, Sizing::Rate(rate))
    {
        return Ok((policy, Some(format!("{kind} at {} as recorded", units::brief_percent(rate.get())))));
    }
    let bits = BitsPerKey::default();
    let unknown = match name {
        Some(_) => "the rate of the table's own filter is unknown; --fpr changes it",
        None => "the table records no policy of this program; --policy and --fpr change it",
    };
    Ok((
        policy_named(kind, Sizing::BitsPerKey(bits))?,
        Some(format!("{kind} at {} bits per key ({unknown})", bits.get())),
    ))
}

/// Returns the expected rate of the table's own filter, whose trailer may be sound although the filter is damaged.
fn own_rate(table: &Table, path: &Path) -> anyhow::Result<Option<FalsePositiveRate>> {
    let Some(region) = table.region(TablePart::Filter) else { return Ok(None) };
    // A failure to read is not damage, and must not change the rate.
    let block = RegularFile::open(path)?.read(region.start, region.end - region.start)?;
    let rate = match Partitions::of_table(table, path) {
        Some(partitions) => Some(PartitionFields::new(&partitions).expected_fpr),
        None => FilterBlock::open_unverified(block).ok().map(|block| block.expected_fpr()),
    };
    Ok(rate.and_then(|rate| FalsePositiveRate::new(rate).ok()))
}

impl TableReport {
    fn failed(path: &Path, problem: &anyhow::Error) -> Self {
        Self { path: input::name(path).into_owned(), rebuilt: None, problem: Some(explained(problem)) }
    }
}

impl Rebuilt {
    fn new(sidecar: &Path, bytes: u64, report: Option<&BuildReport>) -> Self {
        Self {
            sidecar: path_name(sidecar).into_owned(),
            bytes,
            policy: None,
            filter: Choice::of(report),
            keys: report.map_or(0, |report| report.distinct_keys),
            bits_per_key: report.map_or(0.0, BuildReport::bits_per_key),
            expected_fpr: report.map_or(1.0, |report| report.expected_fpr),
        }
    }
}

impl RebuildReport {
    fn new(tables: Vec<TableReport>) -> Self {
        let rebuilt = tables.iter().filter_map(|table| table.rebuilt.as_ref());
        Self {
            rebuilt: rebuilt.clone().count(),
            failed: tables.iter().filter(|table| table.problem.is_some()).count(),
            filter_bytes: rebuilt.map(|rebuilt| rebuilt.bytes).sum(),
            tables,
        }
    }
}

impl fmt::Display for RebuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            if let Some(problem) = &table.problem {
                let path = if problem.contains(&table.path) { String::new() } else { format!("{}: ", table.path) };
                writeln!(f, "{path}{problem}")?;
            }
            let Some(rebuilt) = &table.rebuilt else { continue };
            let Rebuilt { sidecar, filter, .. } = rebuilt;
            let (keys, bytes) = (units::counted(rebuilt.keys, "key"), units::grouped(rebuilt.bytes));
            write!(f, "{sidecar}: {filter}, {keys}, {bytes} bytes")?;
            if rebuilt.keys > 0 {
                let (bits, rate) = (rebuilt.bits_per_key, units::percent(rebuilt.expected_fpr));
                write!(f, ", {bits:.2} bits per key, {rate} expected")?;
            }
            rebuilt.policy.iter().try_for_each(|policy| write!(f, "; {policy}"))?;
            writeln!(f)?;
        }
        let (rebuilt, bytes) = (units::counted(self.rebuilt as u64, "filter"), units::bytes(self.filter_bytes));
        writeln!(f, "{rebuilt} rebuilt, {bytes}; {} failed", self.failed)
    }
}
