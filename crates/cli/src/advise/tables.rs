//! `sstfilter advise --tables`: compares the cost of existing filters with that of this library's.

use core::fmt;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::kind::RibbonKind;
use sstfilter::{BitsPerKey, FalsePositiveRate, FilterBlock, FixedPolicy, Probe, Sizing};
use sstfilter_interop::Error;
use sstfilter_store::sidecar_path;
use sstfilter_table::Table;

use crate::args::AdviseArgs;
use crate::files::{self, Found};
use crate::inspect::NO_FILTER;
use crate::left_out::LeftOut;
use crate::opened::{ForeignTable, Opened, Reading, outcome_of_foreign};
use crate::output::{Column, Outcome, explained, figures, in_options};
use crate::partitions::{PartitionFields, Partitions};
use crate::units::{brief_percent, counted, grouped, percent};

/// Bytes that binding a block to its file adds.
const BINDING_BYTES: u64 = 8;

/// Maximum number of keys to measure a rate with if it cannot be computed.
const MEASURED_KEYS: usize = 100_000;

/// Bytes added to a stored key to make an absent one.
pub(crate) const ABSENT_SUFFIX: [u8; 2] = *b"\xff\xa5";

#[derive(Debug, Serialize)]
pub(crate) struct TablesReport {
    pub(crate) tables: usize,
    keys: u64,
    now: Cost,
    /// This library's filters for the same tables.
    alternatives: Vec<Alternative>,
    /// Costs by level; empty if no level is known.
    pub(crate) levels: Vec<LevelCost>,
    /// Tables left out of these figures.
    pub(crate) left_out: Vec<LeftOut>,
}

/// The cost of several tables' filters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Cost {
    bytes: u64,
    bits_per_key: f64,
    /// Mean over the tables, weighted by their keys.
    expected_fpr: f64,
}

#[derive(Debug, Serialize)]
struct Alternative {
    policy: &'static str,
    goal: String,
    #[serde(flatten)]
    cost: Cost,
    /// Negative if the alternative takes more.
    saved_bytes: i64,
    /// Tables that keep their present filter, because the policy has none for this goal.
    kept: usize,
}

/// Why the cost of a table's filter is unknown.
pub(crate) enum Unknown {
    /// Every lookup reads the table, because it has no filter, or one that cannot be used.
    Unfiltered(Opened, String, Outcome),
    Because(String, Outcome),
}

impl Unknown {
    pub(crate) fn leave_out(self, path: &Path) -> LeftOut {
        match self {
            Self::Unfiltered(_, why, outcome) | Self::Because(why, outcome) => LeftOut::new(path, &why, outcome),
        }
    }
}

/// The filters of one level.
#[derive(Debug, Serialize)]
pub(crate) struct LevelCost {
    /// Null for tables whose level is unknown.
    level: Option<u32>,
    tables: usize,
    now: Cost,
    /// The filters that the policy for compactions would build at the same rate.
    auto: Cost,
}

/// A table's present filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFilter {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) expected_fpr: f64,
    pub(crate) level: Option<u32>,
}

/// A policy of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The policy for compactions, which write nearly all tables: Ribbon, and Bloom for small tables.
    Auto,
    Bloom,
    Ribbon,
}

impl Policy {
    const ALL: [Self; 3] = [Self::Auto, Self::Bloom, Self::Ribbon];

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bloom => "bloom",
            Self::Ribbon => "ribbon",
        }
    }

    fn kind_policy(self, goal: Goal, sizing: Sizing) -> Option<FixedPolicy> {
        match (self, goal) {
            (Self::Bloom, _) => FixedPolicy::bloom(sizing),
            // As `AutoPolicy` does: a size is that of Bloom, and large tables get Ribbon of the same rate.
            (Self::Auto, Goal::Chosen(Sizing::BitsPerKey(size))) => {
                RibbonKind::same_rate_as_bloom(size).map(FixedPolicy::from)
            }
            (Self::Auto | Self::Ribbon, _) => FixedPolicy::ribbon(sizing),
        }
        .ok()
    }
}

/// The size or rate of the alternative filters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// The rate of the present filter.
    SameRate,
    /// The size of the present filter.
    SameBytes,
    /// The size or rate that an option of the command line names.
    Chosen(Sizing),
}

impl Goal {
    fn name(self) -> String {
        match self {
            Self::SameRate => "same rate".to_owned(),
            Self::SameBytes => "same bytes".to_owned(),
            Self::Chosen(Sizing::Rate(rate)) => format!("rate of {}", brief_percent(rate.get())),
            Self::Chosen(sizing) => sizing.to_string(),
        }
    }

    fn sizing(self, filter: &TableFilter) -> Option<Sizing> {
        match self {
            Self::Chosen(sizing) => Some(sizing),
            Self::SameRate => FalsePositiveRate::new(filter.expected_fpr).ok().map(Sizing::Rate),
            Self::SameBytes => BitsPerKey::new(filter.bits_per_key()).ok().map(Sizing::BitsPerKey),
        }
    }
}

impl TableFilter {
    pub(crate) fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys.max(1) as f64
    }

    /// Returns the filter that `policy` would build for the table's keys, including a fallback to Bloom.
    fn replaced(&self, policy: Policy, goal: Goal) -> Option<Self> {
        let sizing = goal.sizing(self)?;
        let kind = policy.kind_policy(goal, sizing)?;
        let plan = match kind.plan(self.keys, None) {
            Ok(plan) => plan,
            // As builders do: a file with too few keys for Ribbon gets Bloom.
            Err(_) => FixedPolicy::bloom(sizing).ok()?.plan(self.keys, None).ok()?,
        };
        Some(Self { bytes: plan.block_bytes + BINDING_BYTES, expected_fpr: plan.expected_fpr, ..*self })
    }
}

impl Cost {
    fn of(filters: &[TableFilter]) -> Self {
        let keys: u64 = filters.iter().map(|filter| filter.keys).sum();
        let bytes: u64 = filters.iter().map(|filter| filter.bytes).sum();
        let positives: f64 = filters.iter().map(|filter| filter.expected_fpr * filter.keys as f64).sum();
        // Filters without keys have a rate of 0 and not NaN.
        let keys = keys.max(1) as f64;
        Self { bytes, bits_per_key: bytes as f64 * 8.0 / keys, expected_fpr: positives / keys }
    }
}

/// Compares the filters. The answer is no if a table is damaged, and a failure if one cannot be read.
pub(crate) fn run(args: &AdviseArgs, reading: Reading<'_>) -> anyhow::Result<(Outcome, TablesReport)> {
    ensure!(args.memory.is_none(), "--memory: expected --levels or --keys with it, got only --tables");
    let size = args.bits_per_key.map(BitsPerKey::new).transpose().context("--bits-per-key")?;
    let chosen = args.fpr.map(Sizing::Rate).or(size.map(Sizing::BitsPerKey));
    let (mut filters, mut left_out) = (Vec::new(), Vec::new());
    let found = Found::of(&args.tables)?;
    for file in &found.files {
        match filter_of(file, reading, &mut left_out) {
            Ok(filter) => filters.push(filter),
            Err(why) => left_out.push(why.leave_out(file)),
        }
    }
    left_out.extend(found.orphans.iter().map(|orphan| LeftOut::orphan(orphan)));
    let first = LeftOut::first(&left_out);
    ensure!(!filters.is_empty(), "--tables: expected filters whose cost is known, got none{first}");
    let outcome = LeftOut::outcome(&left_out);
    Ok((outcome, TablesReport::new(&filters, chosen, left_out)))
}

/// Returns the filter of the table at `path`, or why its cost is unknown. A sidecar that is not used is left out.
pub(crate) fn filter_of(
    path: &Path,
    reading: Reading<'_>,
    left_out: &mut Vec<LeftOut>,
) -> Result<TableFilter, Unknown> {
    let opened = Opened::open(path, reading);
    match opened.map_err(|unopened| Unknown::Because(explained(&unopened.reason), unopened.outcome))? {
        Opened::Table(table) => {
            left_out.extend(table.sidecar_problem().map(|problem| {
                let why = if files::is_stale(problem) { files::STALE.to_owned() } else { in_options(problem) };
                LeftOut::new(&sidecar_path(path), &why, files::outcome_of_filter(problem))
            }));
            filter_of_table(path, table)
        }
        Opened::FilterBlock(block) => match block.verify() {
            Ok(()) => Ok(TableFilter::of_block(&block)),
            Err(problem) => Err(Unknown::Unfiltered(Opened::FilterBlock(block), problem.to_string(), Outcome::No)),
        },
        Opened::RangeFilter(_) => {
            Err(Unknown::Because("it is a range filter, which lookups do not use".to_owned(), Outcome::Yes))
        }
        Opened::Partitions(container) => TableFilter::of_partitions(&PartitionFields::new(&container.partitions())),
        Opened::Foreign(table) => filter_of_foreign(path, table, reading),
    }
}

fn filter_of_table(path: &Path, table: Box<Table>) -> Result<TableFilter, Unknown> {
    // First, because the figures of a damaged filter would come from damaged bytes.
    if let Some(problem) = table.filter_problem() {
        let outcome = files::outcome_of_filter(&problem);
        return Err(Unknown::Unfiltered(Opened::Table(table), in_options(&problem), outcome));
    }
    let filter = match (Partitions::of_table(&table, path), table.filters().block()) {
        (Some(partitions), _) => TableFilter::of_partitions(&PartitionFields::new(&partitions))?,
        (None, Some(block)) => TableFilter::of_block(block),
        (None, None) => return Err(Unknown::Unfiltered(Opened::Table(table), NO_FILTER.to_owned(), Outcome::Yes)),
    };
    Ok(TableFilter { level: table.properties().level, ..filter })
}

fn filter_of_foreign(path: &Path, mut table: Box<ForeignTable>, reading: Reading<'_>) -> Result<TableFilter, Unknown> {
    let failed = |problem: Error| Unknown::Because(in_options(&problem), outcome_of_foreign(&problem));
    let info = match table.filter_info() {
        Err(Error::NoFilter) => {
            return Err(Unknown::Unfiltered(Opened::Foreign(table), NO_FILTER.to_owned(), Outcome::Yes));
        }
        info => info.map_err(failed)?,
    };
    let known = info.keys.zip(info.expected_fpr);
    // Reads all keys, so only to count them, or if nothing else names the comparator.
    if known.is_none() {
        table.confirm_by_keys().map_err(failed)?;
    } else if unusable(&table).is_some() {
        // Without it, the filter is still unusable.
        table.confirm_by_keys().ok();
    }
    if let Some(why) = unusable(&table) {
        return Err(Unknown::Unfiltered(Opened::Foreign(table), why, Outcome::Yes));
    }
    let (keys, expected_fpr) = match known {
        Some(known) => known,
        None => measured(&table).map_err(|why| Unknown::Because(why, Outcome::Yes))?,
    };
    Ok(TableFilter { keys, bytes: info.bytes, expected_fpr, level: reading.manifests.level(path) })
}

/// Returns why every key may be present, whatever the bits of the filter.
fn unusable(table: &ForeignTable) -> Option<String> {
    // Any key shows whether the filter can answer.
    table.try_probe(b"").err().map(|why| in_options(&why))
}

impl TableFilter {
    fn of_block<D: AsRef<[u8]>>(block: &FilterBlock<D>) -> Self {
        let info = block.info();
        Self { keys: info.keys, bytes: info.block_bytes, expected_fpr: info.expected_fpr, level: None }
    }

    fn of_partitions(fields: &PartitionFields) -> Result<Self, Unknown> {
        let PartitionFields { keys, bytes, expected_fpr, outcome, .. } = *fields;
        match fields.problem() {
            Some(problem) => Err(Unknown::Because(problem.to_owned(), outcome)),
            None => Ok(Self { keys, bytes, expected_fpr, level: None }),
        }
    }
}

/// Returns the number of keys and the false positive rate of a table that does not record its number of keys. Counts
/// the keys, and probes the filter for each of the first ones with two bytes added.
fn measured(table: &ForeignTable) -> Result<(u64, f64), String> {
    let (mut keys, mut probed, mut positives) = (0_u64, 0_u64, 0_u64);
    for key in table.user_keys() {
        let mut key = key.map_err(|problem| problem.to_string())?;
        keys += 1;
        // Further keys are only counted: bits per key need their number, and the rate is certain enough.
        if keys <= MEASURED_KEYS as u64 {
            key.extend(ABSENT_SUFFIX);
            probed += 1;
            positives += u64::from(table.probe(&key) != Probe::Absent);
        }
    }
    if keys == 0 {
        return Err("it has no keys".to_owned());
    }
    Ok((keys, positives as f64 / probed as f64))
}

/// A row of costs: the name of the filters, their cost, and how many bytes less or more than the present ones they
/// take.
pub(crate) type CostRow = (String, Cost, String);

/// The columns of rows of costs.
pub(crate) const COST_COLUMNS: [Column<CostRow>; 5] = [
    ("filters", |(filter, ..)| filter.clone()),
    ("bytes", |(_, cost, _)| grouped(cost.bytes)),
    ("bits per key", |(_, cost, _)| format!("{:.2}", cost.bits_per_key)),
    ("expected rate", |(_, cost, _)| percent(cost.expected_fpr)),
    ("than now", |(.., difference)| difference.clone()),
];

/// The columns of costs by level.
pub(crate) const LEVEL_COLUMNS: [Column<LevelCost>; 5] = [
    ("level", |row| row.level.map_or_else(|| "unknown".to_owned(), |level| level.to_string())),
    ("tables", |row| grouped(row.tables as u64)),
    ("bytes now", |row| grouped(row.now.bytes)),
    ("expected rate", |row| percent(row.now.expected_fpr)),
    ("auto, same rate", |row| grouped(row.auto.bytes)),
];

/// Note on the figures of all rows.
pub(crate) const ABOUT_COSTS: &str = "rates are means weighted by keys; sizes are of whole blocks, and above 5,000 keys \
    those of Ribbon are estimates within 1 %; small filters are rounded up to 64 bytes, so \"same bytes\" can be a few \
    percent larger";

impl TablesReport {
    /// Compares the filters with those of the same rate, of the same size, and of the `chosen` rate or size.
    pub(crate) fn new(filters: &[TableFilter], chosen: Option<Sizing>, left_out: Vec<LeftOut>) -> Self {
        let now = Cost::of(filters);
        let goals = [Goal::SameRate, Goal::SameBytes].into_iter().chain(chosen.map(Goal::Chosen));
        let every = |goal| Policy::ALL.map(|policy| Alternative::new(filters, now, policy, goal));
        Self {
            tables: filters.len(),
            keys: filters.iter().map(|filter| filter.keys).sum(),
            now,
            levels: LevelCost::of_each(filters),
            alternatives: goals.flat_map(every).collect(),
            left_out,
        }
    }

    /// Returns rows of the present filters and of each policy and goal.
    pub(crate) fn rows(&self) -> Vec<CostRow> {
        let now = ("now".to_owned(), self.now, String::new());
        let row = |other: &Alternative| {
            let filter = format!("{}, {}", other.policy, other.goal);
            (filter, other.cost, difference(other.saved_bytes, self.now.bytes))
        };
        core::iter::once(now).chain(self.alternatives.iter().map(row)).collect()
    }

    /// Returns remarks on rows that include present filters.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> {
        self.alternatives.iter().filter(|other| other.kept > 0).map(|other| {
            let (kept, Alternative { policy, goal, .. }) = (counted(other.kept as u64, "filter"), other);
            format!("{policy}, {goal}: {kept} unchanged, because {policy} supports no such rate or size")
        })
    }

    /// Returns a sentence on the bytes that the policy for compactions would save at the same rate.
    pub(crate) fn conclusion(&self) -> Option<String> {
        let is_auto = |found: &&Alternative| found.policy == Policy::Auto.name() && found.goal == Goal::SameRate.name();
        let auto = self.alternatives.iter().find(is_auto).filter(|_| self.tables > 0)?;
        let (was, is) = (grouped(self.now.bytes), grouped(auto.cost.bytes));
        let difference = difference(auto.saved_bytes, self.now.bytes);
        let left_out = match &self.left_out[..] {
            [] => String::new(),
            [left] => format!(" (1 file left out: {})", left.path),
            [first, ..] => format!(" ({} files left out, the first: {})", self.left_out.len(), first.path),
        };
        Some(format!(
            "at the same false positive rate, sstfilter's filters would take {is} bytes instead of {was}: \
             {difference}{left_out}"
        ))
    }
}

impl LevelCost {
    /// Returns the costs of each level; empty if no level is known.
    fn of_each(filters: &[TableFilter]) -> Vec<Self> {
        let mut levels: Vec<_> = filters.iter().map(|filter| filter.level).collect();
        levels.sort_unstable();
        levels.dedup();
        // The only row would repeat the totals.
        if levels == [None] {
            return Vec::new();
        }
        levels.into_iter().map(|level| Self::new(level, filters)).collect()
    }

    fn new(level: Option<u32>, filters: &[TableFilter]) -> Self {
        let filters: Vec<_> = filters.iter().copied().filter(|filter| filter.level == level).collect();
        let now = Cost::of(&filters);
        let auto = Alternative::new(&filters, now, Policy::Auto, Goal::SameRate).cost;
        Self { level, tables: filters.len(), now, auto }
    }
}

impl Alternative {
    fn new(filters: &[TableFilter], now: Cost, policy: Policy, goal: Goal) -> Self {
        let replaced: Vec<_> = filters.iter().map(|filter| filter.replaced(policy, goal)).collect();
        let kept = replaced.iter().filter(|filter| filter.is_none()).count();
        // A table that keeps its filter still counts: without it, the alternative would seem to save its bytes.
        let used: Vec<_> = replaced.iter().zip(filters).map(|(ours, now)| ours.unwrap_or(*now)).collect();
        let cost = Cost::of(&used);
        let saved_bytes = now.bytes.cast_signed().saturating_sub(cost.bytes.cast_signed());
        Self { policy: policy.name(), goal: goal.name(), cost, saved_bytes, kept }
    }
}

/// Formats the bytes that are saved, or spent if the number is negative, as a percentage of the present ones.
fn difference(saved: i64, now: u64) -> String {
    let percent = format!("{:.1} %", saved.unsigned_abs() as f64 * 100.0 / now.max(1) as f64);
    match saved {
        // The text is compared, because a difference that rounds to 0.0 is neither less nor more.
        _ if percent == "0.0 %" => "the same".to_owned(),
        1.. => percent + " less",
        _ => percent + " more",
    }
}

impl fmt::Display for TablesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the filters of {}, {}\n", counted(self.tables as u64, "table"), counted(self.keys, "key"))?;
        writeln!(f, "{}", figures(&COST_COLUMNS, &self.rows()))?;
        self.remarks().try_for_each(|remark| writeln!(f, "{remark}"))?;
        if !self.levels.is_empty() {
            writeln!(f, "{}", figures(&LEVEL_COLUMNS, &self.levels))?;
        }
        for line in LeftOut::lines(&self.left_out, "left out") {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{ABOUT_COSTS}")?;
        self.conclusion().iter().try_for_each(|conclusion| writeln!(f, "{conclusion}"))
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_that_rounds_to_nothing_is_neither_less_nor_more() {
        assert_eq!(
            [-1, 0, 1, -340, 250].map(|saved| difference(saved, 10_000)),
            ["the same", "the same", "the same", "3.4 % more", "2.5 % less"]
        );
    }
}
