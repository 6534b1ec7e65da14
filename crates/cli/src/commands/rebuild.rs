//! `sstfilter rebuild`: writes a new filter next to each table. The table is not changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure};
use clap::Args;
use sstfilter::kind::KindEntry;
use sstfilter::{BitsPerKey, BuildContext, BuildPurpose, FalsePositiveRate, FilterPolicy, KeyHasher, Sizing};
use sstfilter_range::RangePolicy;
use sstfilter_store::sidecar_path;
use sstfilter_table::{Table, TableError, TableOptions};

use crate::commands::options::{AUTO, FilterArgs, PartitionArgs, policy_named};
use crate::file::database::directory_of;
use crate::file::look::list;
use crate::file::names::has_table_extension;
use crate::file::open::{Context, ensure_own_table, open, open_table_alone};
use crate::file::problem::{State, explained};
use crate::file::replace::{Mark, ensure_replaceable, remove_leftovers};
use crate::file::walk::{Found, is_directory};
use crate::model::built::BuiltFilter;
use crate::model::describe::{describe, describe_problem};
use crate::model::file::FileReport;
use crate::model::filters::EXACT_RANGE;
use crate::print::types::PathName;
use crate::print::{Outcome, record};
use crate::system::{input, interrupt, progress};
use crate::words::group::{self, without_path};
use crate::words::units::{bytes, counted};

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
        pub(crate) rebuilt: u64 [notable],
        pub(crate) failed: u64 [notable],
        pub(crate) changes: Vec<String> [notable],
        pub(crate) failures: Vec<String> [notable],
        pub(crate) rebuilt_tables: Vec<RebuiltTable> [json],
    }

    /// Each table.
    pub(crate) struct RebuiltTable {
        pub(crate) path: PathName,
        pub(crate) before: Option<BuiltFilter>,
        pub(crate) after: Option<BuiltFilter>,
        pub(crate) sized_by: Option<&'static str>,
        pub(crate) failure: Option<String>,
    }
}

/// Rebuilds all filters. Continues after a table that fails; the outcome is then a failure.
pub(crate) fn run(args: &RebuildArgs, context: &Context) -> anyhow::Result<(Outcome, RebuildReport)> {
    // A wrong option is an error of the command, and not of each table.
    let hasher = args.filter.hasher(context.secret.as_ref())?;
    if args.filter.is_sized() {
        args.filter.policy()?;
    }
    let (mut rows, mut tables) = (Vec::new(), Vec::new());
    for path in &args.tables {
        match tables_at(path) {
            Ok(found) => tables.extend(found),
            Err(problem) => rows.push(RebuiltTable::failed(path, &problem)),
        }
    }
    let length = |found: &Found| input::length(&found.path).unwrap_or(0);
    let progress = progress::bytes("rebuilding filters", tables.iter().map(length).sum());
    for found in &tables {
        let done = rows.iter().filter(|table| table.after.is_some()).count();
        let remains = format!("{} rebuilt", counted(done as u64, "filter"));
        interrupt::remains(remains.clone());
        interrupt::check(|| remains)?;
        let described = match open(found, context) {
            Ok(opened) => describe(&opened, context),
            Err(problem) => describe_problem(found, &problem, context),
        };
        if !args.only_problems || described.state > State::NotLive {
            let rebuilt = rebuild(args, context, &hasher, &found.path, &described);
            rows.push(rebuilt.unwrap_or_else(|problem| RebuiltTable::failed(&found.path, &problem)));
        }
        progress.inc(length(found));
    }
    let report = RebuildReport::new(rows);
    Ok((if report.failed > 0 { Outcome::Failed } else { Outcome::Yes }, report))
}

/// Returns the table itself, or all tables of a directory.
fn tables_at(path: &Path) -> anyhow::Result<Vec<Found>> {
    let is_standard = input::is_standard(path);
    ensure!(!is_standard, "standard input: expected a table's file, because its filter is written next to it");
    if !is_directory(path)? {
        return Ok(vec![Found::alone(path)]);
    }
    // Chosen by name, so that damaged tables are included and reported.
    let tables: Vec<_> = list(path)?.into_iter().filter(|file| has_table_extension(file)).collect();
    ensure!(!tables.is_empty(), "{}: the directory contains no table of sstfilter", input::name(path));
    Ok(tables.iter().map(|table| Found::alone(table)).collect())
}

fn rebuild(
    args: &RebuildArgs,
    context: &Context,
    hasher: &KeyHasher,
    path: &Path,
    described: &FileReport,
) -> anyhow::Result<RebuiltTable> {
    let sidecar = sidecar_path(path);
    // Checked before the keys are read, which may take minutes, and again before the sidecar is written.
    ensure_replaceable(&sidecar, Some(Mark::SIDECAR))?;
    // A failure to read is no damage, and must not change the rate.
    if let Some(unread) = described.reasons.iter().find(|reason| reason.state == State::Unread) {
        bail!("{}", unread.why);
    }
    ensure_own_table(path)?;
    let table = open_table_alone(path, context)?;
    ensure_readable(&table, args, context)?;
    let before = described.key_filter().map(BuiltFilter::of_report);
    let rate = before.as_ref().and_then(|before| FalsePositiveRate::new(before.expected_fpr?.0).ok());
    let (policy, sized_by) = policy(&args.filter, table.properties().filter_policy.as_deref(), rate)?;
    let building = BuildContext::new(hasher).with_purpose(BuildPurpose::Ingest);
    let mut writing = TableOptions::default().with_context(building).with_policy(policy);
    if let Some(partitions) = args.partitions.partitions {
        writing = writing.with_partitioned_filter(partitions);
    }
    let is_exact = before.as_ref().is_some_and(|before| before.kind == EXACT_RANGE) && args.filter.is_default();
    if is_exact {
        // The same again: no other filter is as good.
        writing = writing.with_range_filter(RangePolicy::ordered(FalsePositiveRate::ONE_PERCENT)?);
    }
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
    ensure_replaceable(&sidecar, Some(Mark::SIDECAR))?;
    directory_of(path).map(remove_leftovers).transpose()?;
    table.install_sidecar(&built, &writing)?;
    let after = built.point_report.as_ref().or(built.range_report.as_ref()).map(BuiltFilter::new).unwrap_or_default();
    Ok(RebuiltTable {
        path: PathName(path.to_owned()),
        before,
        after: Some(after),
        sized_by: sized_by.filter(|_| !is_exact),
        failure: None,
    })
}

/// Fails if readers of the table could not use a new filter.
fn ensure_readable(table: &Table, args: &RebuildArgs, context: &Context) -> anyhow::Result<()> {
    let filters = &table.properties().filters;
    let (described, parts) = (filters.hash_identity(), filters.key_parts());
    let is_whole = filters.extractors().len() == 0;
    ensure!(is_whole, "its filter holds {parts}: this program does not have these extractors");
    let is_known = context.secret.is_some() || table.store().filters().hasher().identity() == described;
    ensure!(is_known, "its keys are hashed by {described}: pass the seed with --secret-seed-file");
    if let Some(seed) = args.filter.hash_seed {
        // Readers hash keys as the table records, or with a secret seed.
        let got = KeyHasher::with_seed(seed).identity();
        let is_same = described == got;
        ensure!(is_same, "--hash-seed: expected the hash of the table, {described}, got {got}: leave the option out");
    }
    Ok(())
}

/// Returns the policy of the options, completed by that which the table records and by the rate of the filter that is
/// replaced, and what decided the size.
fn policy(
    options: &FilterArgs,
    recorded: Option<&str>,
    rate: Option<FalsePositiveRate>,
) -> anyhow::Result<(Arc<dyn FilterPolicy>, Option<&'static str>)> {
    if options.is_sized() {
        let is_auto = options.policy.as_deref().is_none_or(|name| name == AUTO);
        let sized_by = (is_auto && options.bits_per_key.is_some()).then_some(SIZED_AS_BLOOM);
        return Ok((options.policy()?, sized_by));
    }
    let recorded = recorded.filter(|&name| name == AUTO || KindEntry::named(name).is_some());
    let kind = options.policy.as_deref().or(recorded).unwrap_or(AUTO);
    if let Some(policy) = rate.and_then(|rate| policy_named(kind, Sizing::Rate(rate)).ok()) {
        return Ok((policy, Some("the rate of the filter before it; --fpr sets another")));
    }
    let bits = Sizing::BitsPerKey(BitsPerKey::default());
    let unknown = "the default: the rate before is unknown, or none of this kind; --fpr sets it";
    Ok((policy_named(kind, bits)?, Some(unknown)))
}

const SIZED_AS_BLOOM: &str = "the rate of a Bloom filter of --bits-per-key; --policy KIND takes the size itself";

impl RebuiltTable {
    fn failed(path: &Path, problem: &anyhow::Error) -> Self {
        Self { path: PathName(path.to_owned()), failure: Some(explained(problem)), ..Self::default() }
    }
}

impl RebuildReport {
    fn new(rebuilt_tables: Vec<RebuiltTable>) -> Self {
        let failures = rebuilt_tables.iter().filter_map(|table| {
            let name = input::name(&table.path.0);
            Some((without_path(table.failure.as_ref()?, &name), name))
        });
        let rebuilt = rebuilt_tables.iter().filter(|table| table.after.is_some());
        let kind = |filter: &Option<BuiltFilter>| filter.as_ref().map(|filter| filter.kind.clone());
        let groups = group::by(rebuilt.clone(), |table| (kind(&table.before), kind(&table.after), table.sized_by));
        Self {
            rebuilt: rebuilt.count() as u64,
            failed: failures.clone().count() as u64,
            failures: group::lines("table", failures),
            changes: groups.iter().map(|(_, tables)| change(tables)).collect(),
            rebuilt_tables,
        }
    }
}

/// Says what the filters of tables were, what they are, and what that saves.
fn change(tables: &[&RebuiltTable]) -> String {
    let before: Vec<_> = tables.iter().filter_map(|table| table.before.as_ref()).collect();
    let after: Vec<_> = tables.iter().filter_map(|table| table.after.as_ref()).collect();
    let was = if before.is_empty() { "no filter".to_owned() } else { BuiltFilter::sum(&before).words() };
    let (old, after) = (BuiltFilter::sum(&before).filter_bytes.0, BuiltFilter::sum(&after));
    let (new, is) = (after.filter_bytes.0, after.words());
    let saved = if new > old { format!("{} more", bytes(new - old)) } else { format!("{} less", bytes(old - new)) };
    let by = tables.first().and_then(|table| table.sized_by).map(|by| format!(" (sized by {by})")).unwrap_or_default();
    format!("{}: {was} -> {is}: {saved}{by}", counted(tables.len() as u64, "table"))
}
