//! `sstfilter rebuild`: writes a new filter next to each table. The table is not changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure};
use clap::Args;
use sstfilter::kind::KindEntry;
use sstfilter::{BitsPerKey, BuildContext, BuildPurpose, FalsePositiveRate, FilterPolicy, KeyHasher, Sizing};
use sstfilter_store::sidecar_path;
use sstfilter_table::{Table, TableError, TableOptions};

use crate::commands::options::{AUTO, FilterArgs, PartitionArgs, policy_named};
use crate::file::context::Context;
use crate::file::names::has_table_extension;
use crate::file::open::{ensure_own_table, open, open_table_alone};
use crate::file::problem::{State, explained};
use crate::file::replace::{Replaces, directory_of, remove_leftovers};
use crate::file::walk::{Found, Walk, is_directory};
use crate::model::built::BuiltFilter;
use crate::model::describe::{describe, describe_problem};
use crate::model::file::FileReport;
use crate::print::types::PathName;
use crate::print::{Outcome, record};
use crate::system::{input, interrupt, progress};
use crate::words::group::{self, without_path};
use crate::words::units::{brief_percent, bytes, counted};

#[derive(Debug, Args)]
#[command(mut_arg("policy", |policy| policy.help(POLICY)), mut_arg("bits_per_key", |bits| bits.help(BITS)))]
pub(crate) struct RebuildArgs {
    /// Tables of sstfilter, or directories of them (not searched recursively). The filter of NAME is written to
    /// NAME.filter, which readers use instead of the table's own filter. An existing file of that name is replaced only
    /// if it is a filter file made for a table, or empty
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<PathBuf>,

    /// Only tables whose filter or sidecar is missing, damaged, stale or unusable
    #[arg(long)]
    only_problems: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    partitions: PartitionArgs,
}

const POLICY: &str = "\
Kind of filter; auto builds Ribbon for large tables and Bloom for small ones [default: auto with \
--fpr or --bits-per-key, else the kind that the table records. Without these two, the new filter has the rate of the one \
that it replaces]";

const BITS: &str = "\
Filter size, 1 to 100 bits per key, instead of --fpr. For auto, the size of a Bloom filter";

record! {
    /// Filters that were built next to tables.
    pub(crate) struct RebuildReport {
        /// number of tables with a new filter
        pub(crate) rebuilt: u64 [notable],
        /// number of tables without a new filter, although they were to get one
        pub(crate) failed: u64 [notable],
        /// what the filters were, and what they are
        pub(crate) changes: Vec<String> [notable],
        /// why tables have no new filter; a sidecar that they had is kept
        pub(crate) failures: Vec<String> [notable],
        pub(crate) notes: Vec<String>,
        pub(crate) rebuilt_tables: Vec<RebuiltTable> [json],
    }

    /// Each table.
    pub(crate) struct RebuiltTable {
        pub(crate) path: PathName,
        /// path of the new filter
        pub(crate) sidecar: Option<PathName>,
        /// kind and size of the new filter, as far as no option names them, and where they are from
        pub(crate) kept_policy: Option<String>,
        /// the filter that readers used before
        pub(crate) before: Option<BuiltFilter>,
        /// the filter that readers use now
        pub(crate) after: Option<BuiltFilter>,
        /// why there is no new filter
        pub(crate) failure: Option<String>,
    }
}

/// Rebuilds all filters. Continues after a table that fails; the outcome is then a failure.
pub(crate) fn run(args: &RebuildArgs, context: &Context) -> anyhow::Result<(Outcome, RebuildReport)> {
    let rebuild = Rebuild::new(args, context)?;
    let mut report = RebuildReport::default();
    let mut tables = Vec::new();
    for path in &args.tables {
        match tables_at(path, &mut report.notes) {
            Ok(found) => tables.extend(found),
            Err(problem) => report.rebuilt_tables.push(RebuiltTable::failed(path, &problem)),
        }
    }
    let length = |found: &Found| input::length(&found.path).unwrap_or(0);
    let progress = progress::bytes("rebuilding filters", tables.iter().map(length).sum());
    for found in &tables {
        let done = report.rebuilt_tables.iter().filter(|table| table.after.is_some()).count();
        let remains = format!("{} rebuilt", counted(done as u64, "filter"));
        interrupt::remains(remains.clone());
        interrupt::check(|| remains)?;
        let described = match open(found, context) {
            Ok(opened) => describe(&opened, context),
            Err(problem) => describe_problem(found, &problem, context),
        };
        if !args.only_problems || described.state > State::NotLive {
            let rebuilt = rebuild.rebuild(&found.path, &described);
            report.rebuilt_tables.push(rebuilt.unwrap_or_else(|problem| RebuiltTable::failed(&found.path, &problem)));
        }
        progress.inc(length(found));
    }
    report.sum_up();
    Ok((if report.failed > 0 { Outcome::Failed } else { Outcome::Yes }, report))
}

/// Returns the table itself, or all tables of a directory.
fn tables_at(path: &Path, notes: &mut Vec<String>) -> anyhow::Result<Vec<Found>> {
    let is_standard = input::is_standard(path);
    ensure!(!is_standard, "standard input: expected a table's file, because its filter is written next to it");
    let walk = Walk::of(&[path.to_owned()])?;
    notes.extend(
        walk.problems.iter().map(|(path, problem)| format!("{}: {}", input::name(path), explained(&problem.reason))),
    );
    if !is_directory(path)? {
        return Ok(vec![Found::alone(path)]);
    }
    // Chosen by name, so that damaged tables are included and reported.
    let tables: Vec<_> = walk.files.into_iter().filter(|found| has_table_extension(&found.path)).collect();
    ensure!(!tables.is_empty(), "{} contains no table of sstfilter", input::name(path));
    Ok(tables)
}

/// The options of a rebuild, the same for all tables.
struct Rebuild<'a> {
    args: &'a RebuildArgs,
    context: &'a Context,
    writing: TableOptions,
}

impl<'a> Rebuild<'a> {
    fn new(args: &'a RebuildArgs, context: &'a Context) -> anyhow::Result<Self> {
        let hasher = args.filter.hasher(context.secret.as_ref())?;
        let building = BuildContext::new(&hasher).with_purpose(BuildPurpose::Ingest);
        let mut writing = TableOptions::default().with_context(building);
        if let Some(partitions) = args.partitions.partitions {
            writing = writing.with_partitioned_filter(partitions);
        }
        if args.filter.is_sized() {
            // A wrong option is an error of the command, and not of each table.
            args.filter.policy()?;
        }
        Ok(Self { args, context, writing })
    }

    fn rebuild(&self, path: &Path, described: &FileReport) -> anyhow::Result<RebuiltTable> {
        let sidecar = sidecar_path(path);
        // Checked before the keys are read, which may take minutes, and again before the sidecar is written.
        Replaces::SIDECAR.check(&sidecar)?;
        // A failure to read is no damage, and must not change the rate.
        if let Some(unread) = described.reasons.iter().find(|reason| reason.state == State::Unread) {
            bail!("{}", unread.why);
        }
        ensure_own_table(path)?;
        let table = open_table_alone(path, self.context)?;
        self.ensure_readable(&table)?;
        let before = described.key_filter().map(BuiltFilter::of_report);
        let rate = before.as_ref().and_then(|before| FalsePositiveRate::new(before.expected_fpr?.0).ok());
        let (policy, kept_policy) = self.policy(table.properties().filter_policy.as_deref(), rate)?;
        let writing = self.writing.clone().with_policy(policy);
        let built = table.build_sidecar(&writing).map_err(|problem| match problem {
            TableError::Checksum { .. } | TableError::Corrupt { .. } => {
                anyhow::Error::from(problem).context("`sstfilter get --salvage` prints the entries that can be read")
            }
            problem => problem.into(),
        })?;
        let reason = built.point_report.as_ref().map_or("the policy makes none", |report| report.reason.as_str());
        ensure!(!built.metadata().sections().is_empty(), "no filter: {reason}");
        // An interruption may stop the reading of keys at any time, but must not stop the writing of a filter.
        let _writing = interrupt::writing();
        Replaces::SIDECAR.check(&sidecar)?;
        remove_leftovers(directory_of(path))?;
        table.install_sidecar(&built, &writing)?;
        Ok(RebuiltTable {
            path: PathName(path.to_owned()),
            sidecar: Some(PathName(sidecar)),
            kept_policy,
            before,
            after: Some(built.point_report.as_ref().map(BuiltFilter::new).unwrap_or_default()),
            failure: None,
        })
    }

    /// Fails if readers of the table could not use a new filter.
    fn ensure_readable(&self, table: &Table) -> anyhow::Result<()> {
        let filters = &table.properties().filters;
        let (described, parts) = (filters.hash_identity(), filters.key_parts());
        let is_whole = filters.extractors().len() == 0;
        ensure!(is_whole, "its filter holds {parts}: this program does not have these extractors");
        let is_known = self.context.secret.is_some() || table.store().filters().hasher().identity() == described;
        ensure!(is_known, "its keys are hashed by {described}: pass the seed with --secret-seed-file");
        if let Some(seed) = self.args.filter.hash_seed {
            // Readers hash keys as the table records, or with a secret seed.
            let (expected, got) = (described, KeyHasher::with_seed(seed).identity());
            ensure!(
                expected == got,
                "--hash-seed: expected the hash of the table, {expected}, got {got}: leave the option out"
            );
        }
        Ok(())
    }

    /// Returns the policy of the options, completed by that which the table records and by the rate of the filter that
    /// is replaced, and a remark on these.
    fn policy(
        &self,
        recorded: Option<&str>,
        rate: Option<FalsePositiveRate>,
    ) -> anyhow::Result<(Arc<dyn FilterPolicy>, Option<String>)> {
        let options = &self.args.filter;
        if options.is_sized() {
            return Ok((options.policy()?, None));
        }
        let recorded = recorded.filter(|&name| name == AUTO || KindEntry::named(name).is_some());
        let kind = options.policy.as_deref().or(recorded).unwrap_or(AUTO);
        if let Some(rate) = rate
            && let Ok(policy) = policy_named(kind, Sizing::Rate(rate))
        {
            return Ok((policy, Some(format!("{kind} at {} as before", brief_percent(rate.get())))));
        }
        let bits = BitsPerKey::default();
        let remark = format!("{kind} at {} bits per key ({RATE_UNKNOWN})", bits.get());
        Ok((policy_named(kind, Sizing::BitsPerKey(bits))?, Some(remark)))
    }
}

const RATE_UNKNOWN: &str = "the rate of the present filter is unknown, or none of this kind: --fpr changes it";

impl RebuiltTable {
    fn failed(path: &Path, problem: &anyhow::Error) -> Self {
        Self { path: PathName(path.to_owned()), failure: Some(explained(problem)), ..Self::default() }
    }

    fn name(&self) -> std::borrow::Cow<'_, str> {
        input::name(&self.path.0)
    }
}

impl RebuildReport {
    /// Counts the tables, and adds a line for each sort of them.
    fn sum_up(&mut self) {
        let failed: Vec<_> = self.rebuilt_tables.iter().filter(|table| table.failure.is_some()).collect();
        let rebuilt: Vec<_> = self.rebuilt_tables.iter().filter(|table| table.after.is_some()).collect();
        (self.rebuilt, self.failed) = (rebuilt.len() as u64, failed.len() as u64);
        let why = |table: &RebuiltTable| without_path(table.failure.as_deref().unwrap_or_default(), &table.name());
        self.failures = lines(&failed, why);
        let kind = |filter: Option<&BuiltFilter>| filter.map(|filter| filter.kind.clone());
        let kinds = |table: &&&RebuiltTable| (kind(table.before.as_ref()), kind(table.after.as_ref()));
        for (_, tables) in group::by(&rebuilt, |table| kinds(&table)) {
            self.changes.push(change(&tables.into_iter().copied().collect::<Vec<_>>()));
        }
        let remark = |table: &RebuiltTable| table.kept_policy.clone().filter(|policy| policy.contains(RATE_UNKNOWN));
        let unknown: Vec<_> = rebuilt.into_iter().filter(|table| remark(table).is_some()).collect();
        let unknown = lines(&unknown, |table| remark(table).unwrap_or_default());
        self.notes.extend(unknown);
    }
}

/// Returns a line for all tables with one text.
fn lines(tables: &[&RebuiltTable], text: impl Fn(&RebuiltTable) -> String) -> Vec<String> {
    let groups = group::by(tables, |table| text(table));
    let line = |(text, tables): (String, Vec<&&RebuiltTable>)| {
        let names: Vec<_> = tables.iter().map(|table| table.name()).collect();
        group::line(&text, "table", names.iter().map(AsRef::as_ref))
    };
    groups.into_iter().map(line).collect()
}

/// Says what the filters of tables were, what they are, and what that saves.
fn change(tables: &[&RebuiltTable]) -> String {
    let of = |which: fn(&RebuiltTable) -> Option<&BuiltFilter>| {
        let filters: Vec<_> = tables.iter().filter_map(|table| which(table)).collect();
        (!filters.is_empty()).then(|| BuiltFilter::sum(&filters))
    };
    let (before, after) = (of(|table| table.before.as_ref()), of(|table| table.after.as_ref()));
    let length = |filter: &Option<BuiltFilter>| filter.as_ref().map_or(0, |filter| filter.filter_bytes.0);
    let (old, new) = (length(&before), length(&after));
    let words = |filter: &Option<BuiltFilter>| filter.as_ref().map_or("no filter".to_owned(), BuiltFilter::words);
    let saved = if new > old { format!("{} more", bytes(new - old)) } else { format!("{} less", bytes(old - new)) };
    format!("{}: {} -> {}: {saved}", counted(tables.len() as u64, "table"), words(&before), words(&after))
}
