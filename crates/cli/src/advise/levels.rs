//! `sstfilter advise --levels`: spreads one memory budget over the levels of a store.

use core::fmt;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::kind::KindEntry;
use sstfilter_store::{LevelPlan, LevelSize, PlannedLevel};

use super::tables::{TableFilter, Unknown, filter_of};
use crate::args::AdviseArgs;
use crate::files::Found;
use crate::left_out::LeftOut;
use crate::opened::{Opened, Reading};
use crate::output::{Column, Outcome, figures, in_options};
use crate::units::{counted, grouped, percent, whole};

/// Bits per key of the default budget.
const DEFAULT_BITS_PER_KEY: f64 = 10.0;

#[derive(Debug, Serialize)]
pub(crate) struct LevelsReport {
    kind: &'static str,
    keys: u64,
    memory_bytes: u64,
    levels: Vec<LevelFilters>,
    plan: Total,
    /// The same memory with equal bits per key in all levels with filters.
    equal_bits: Total,
    /// The present filters of the tables.
    now: Option<Total>,
    /// A plan with at most half the memory and hardly more useless reads; null if there is none.
    enough: Option<Total>,
    /// Useless reads with equal bits over useless reads with the plan; null if the plan has none.
    ratio: Option<f64>,
    /// Tables that every lookup reads, because they have no usable filter.
    unfiltered: Vec<LeftOut>,
    /// Tables left out of these figures.
    left_out: Vec<LeftOut>,
}

/// The planned filters of one level.
#[derive(Debug, Serialize)]
struct LevelFilters {
    level: u32,
    keys: u64,
    runs: u64,
    tables: u64,
    bits_per_key: f64,
    expected_fpr: f64,
    bytes: u64,
    /// Per lookup of an absent key.
    useless_reads: f64,
}

/// The filters of all levels.
#[derive(Clone, Copy, Debug, Serialize)]
struct Total {
    bytes: u64,
    bits_per_key: f64,
    /// Per lookup of an absent key.
    useless_reads: f64,
}

/// The levels of a store, and their present filters if the levels were read from tables.
struct Store {
    levels: Vec<LevelSize>,
    now: Option<Total>,
    unfiltered: Vec<LeftOut>,
    left_out: Vec<LeftOut>,
}

/// Plans the levels. The answer is no if a table is damaged, and a failure if one cannot be read.
pub(crate) fn run(args: &AdviseArgs, reading: Reading<'_>) -> anyhow::Result<(Outcome, LevelsReport)> {
    let mut store = store(args, reading)?;
    // The last level with keys: an empty one below it has no filter anyway.
    if args.optimize_for_hits
        && let Some(last) = store.levels.iter_mut().filter(|level| level.keys > 0).max_by_key(|level| level.level)
    {
        *last = last.without_filter();
    }
    let kind =
        KindEntry::named(&args.policy).with_context(|| format!("--policy: no kind has the name {}", args.policy))?;
    let keys = keys_of(&store.levels);
    let memory_bytes = memory_bytes(args, keys, store.now);
    let configure = |sizing| kind.configure(sizing);
    let plan = LevelPlan::new(&store.levels, memory_bytes, configure).context("--levels")?;
    let equal = LevelPlan::with_equal_bits(&store.levels, memory_bytes, configure).context("--levels")?;
    let outcome = LeftOut::outcome(&store.left_out).max(LeftOut::outcome(&store.unfiltered));
    let plan_within = |bytes| LevelPlan::new(&store.levels, bytes, configure).ok();
    // Not finite if the plan has no useless reads: null in the report.
    let ratio = equal.useless_reads() / plan.useless_reads();
    let report = LevelsReport {
        kind: kind.name,
        keys,
        memory_bytes,
        levels: plan.levels.iter().map(LevelFilters::new).collect(),
        enough: enough(&plan, plan_within).as_ref().map(Total::of),
        plan: Total::of(&plan),
        equal_bits: Total::of(&equal),
        now: store.now,
        ratio: ratio.is_finite().then_some(ratio),
        unfiltered: store.unfiltered,
        left_out: store.left_out,
    };
    Ok((outcome, report))
}

/// Useless reads that exceed those of a plan by at most this factor are hardly more.
const HARDLY_MORE: f64 = 1.01;

/// Halves the memory of `plan` as long as useless reads hardly increase, and returns the smallest such plan.
fn enough(plan: &LevelPlan, within: impl Fn(u64) -> Option<LevelPlan>) -> Option<LevelPlan> {
    let max_reads = plan.useless_reads() * HARDLY_MORE;
    let halves = core::iter::successors(Some(plan.bytes() / 2), |bytes| Some(bytes / 2)).take_while(|&bytes| bytes > 0);
    halves.map_while(within).take_while(|smaller| smaller.useless_reads() <= max_reads).last()
}

fn keys_of(levels: &[LevelSize]) -> u64 {
    levels.iter().fold(0, |sum: u64, level| sum.saturating_add(level.keys))
}

fn memory_bytes(args: &AdviseArgs, keys: u64, now: Option<Total>) -> u64 {
    let of_bits = |bits_per_key: f64| whole(keys as f64 * bits_per_key / 8.0);
    // Tables without filters do not set a budget.
    match (args.memory, args.bits_per_key, now.filter(|now| now.bytes > 0)) {
        (Some(bytes), _, _) => bytes,
        (None, Some(bits_per_key), _) => of_bits(bits_per_key),
        (None, None, Some(now)) => now.bytes,
        (None, None, None) => of_bits(DEFAULT_BITS_PER_KEY),
    }
}

fn store(args: &AdviseArgs, reading: Reading<'_>) -> anyhow::Result<Store> {
    if let Some(sizes) = args.levels.as_ref().and_then(Option::as_ref) {
        ensure!(args.tables.is_empty(), "--levels: expected the keys of levels or --tables, got both");
        return Ok(Store { levels: sizes.0.clone(), now: None, unfiltered: Vec::new(), left_out: Vec::new() });
    }
    ensure!(!args.tables.is_empty(), "--levels: expected the keys of levels (such as 40K/4,1e5,1e6), or --tables");
    store_of_tables(args, reading)
}

fn store_of_tables(args: &AdviseArgs, reading: Reading<'_>) -> anyhow::Result<Store> {
    let mut filters = BTreeMap::<u32, Vec<TableFilter>>::new();
    let (mut unfiltered, mut left_out) = (Vec::new(), Vec::new());
    let found = Found::of(&args.tables)?;
    for file in &found.files {
        let (filter, problem) = match filter_of(file, reading, &mut left_out) {
            // Stays in its level, as a filter of no bytes that is positive for every key.
            Err(Unknown::Unfiltered(table, why, outcome)) => {
                (without_filter(file, &table, reading), Some(LeftOut::new(file, &why, outcome)))
            }
            filter => (filter, None),
        };
        match filter.and_then(|filter| Ok((known_level(&filter)?, filter))) {
            Ok((level, filter)) => {
                filters.entry(level).or_default().push(filter);
                unfiltered.extend(problem);
            }
            Err(why) => {
                let mut left = why.leave_out(file);
                left.outcome = left.outcome.max(problem.map_or(Outcome::Yes, |problem| problem.outcome));
                left_out.push(left);
            }
        }
    }
    left_out.extend(found.orphans.iter().map(|orphan| LeftOut::orphan(orphan)));
    let first = LeftOut::first(&left_out);
    ensure!(
        !filters.is_empty(),
        "--levels: expected tables whose level is known, got none{first}: pass the keys of each level instead, such as \
         --levels 40K/4,1e5,1e6"
    );
    let levels: Vec<_> = filters.iter().map(|(&level, filters)| level_of(level, filters)).collect();
    let now = Total::of_tables(&levels, &filters);
    Ok(Store { levels, now: Some(now), unfiltered, left_out })
}

fn known_level(filter: &TableFilter) -> Result<u32, Unknown> {
    let unknown = "its level is unknown: neither the table nor a MANIFEST next to it records it";
    filter.level.ok_or_else(|| Unknown::Because(unknown.to_owned(), Outcome::Yes))
}

fn without_filter(path: &Path, table: &Opened, reading: Reading<'_>) -> Result<TableFilter, Unknown> {
    let (keys, level) = match table {
        Opened::Table(table) => (table.properties().entries, table.properties().level),
        Opened::Foreign(table) => {
            let damaged = |problem| Unknown::Because(in_options(&problem), crate::opened::outcome_of_foreign(&problem));
            // Entries, not distinct keys, which only a full read would show.
            let keys = match table.properties().entries() {
                Some(entries) => entries,
                // LevelDB's tables do not record their number of keys, so the keys are counted.
                None => table.user_keys().try_fold(0, |keys, key| key.map(|_| keys + 1)).map_err(damaged)?,
            };
            (keys, reading.manifests.level(path))
        }
        Opened::FilterBlock(block) => (block.info().keys, None),
        Opened::RangeFilter(block) => (block.info.keys, None),
        Opened::Partitions(container) => (container.index.keys(), None),
    };
    Ok(TableFilter { keys, bytes: 0, expected_fpr: 1.0, level })
}

/// Returns the size of a level. Tables of level 0 overlap, so each is a run; the tables of any other level are one run.
fn level_of(level: u32, filters: &[TableFilter]) -> LevelSize {
    let (keys, files) = (filters.iter().map(|filter| filter.keys).sum(), filters.len() as u64);
    LevelSize::new(level, keys).with_runs(if level == 0 { files } else { 1 }).with_files(files)
}

impl Total {
    fn of(plan: &LevelPlan) -> Self {
        let sizes: Vec<_> = plan.levels.iter().map(|planned| planned.size).collect();
        Self::new(plan.bytes(), keys_of(&sizes), plan.useless_reads())
    }

    fn new(bytes: u64, keys: u64, useless_reads: f64) -> Self {
        Self { bytes, bits_per_key: bytes as f64 * 8.0 / keys.max(1) as f64, useless_reads }
    }

    /// Returns the total of the tables' present filters. In a level of one run, a lookup reads at most the table whose
    /// range includes its key; larger tables are hit with a higher probability.
    fn of_tables(levels: &[LevelSize], filters: &BTreeMap<u32, Vec<TableFilter>>) -> Self {
        let useless_reads = levels.iter().zip(filters.values()).map(|(level, filters)| {
            // Each table is a run, and a lookup probes every run.
            if level.runs == filters.len() as u64 {
                return filters.iter().filter(|filter| filter.keys > 0).map(|filter| filter.expected_fpr).sum();
            }
            let positives: f64 = filters.iter().map(|filter| filter.expected_fpr * filter.keys as f64).sum();
            positives / level.keys.max(1) as f64
        });
        let bytes = filters.values().flatten().map(|filter| filter.bytes).sum();
        Self::new(bytes, keys_of(levels), useless_reads.sum())
    }
}

impl LevelFilters {
    fn new(planned: &PlannedLevel) -> Self {
        Self {
            level: planned.size.level,
            keys: planned.size.keys,
            runs: planned.size.runs,
            tables: planned.size.files,
            bits_per_key: planned.bits_per_key(),
            expected_fpr: planned.expected_fpr,
            bytes: planned.bytes,
            useless_reads: planned.useless_reads(),
        }
    }
}

/// Formats useless reads per lookup with four significant digits.
fn reads(reads: f64) -> String {
    if reads < 1e-3 && reads > 0.0 { format!("{reads:.3e}") } else { format!("{reads:.5}") }
}

impl fmt::Display for LevelsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (levels, keys) = (counted(self.levels.len() as u64, "level"), counted(self.keys, "key"));
        writeln!(
            f,
            "{} filters for {levels} with {keys} in all, in {}\n",
            self.kind,
            counted(self.memory_bytes, "byte")
        )?;
        let columns: [Column<LevelFilters>; 7] = [
            ("level", |row| row.level.to_string()),
            ("keys", |row| grouped(row.keys)),
            ("runs", |row| grouped(row.runs)),
            ("bits per key", |row| format!("{:.2}", row.bits_per_key)),
            ("expected rate", |row| percent(row.expected_fpr)),
            ("bytes", |row| grouped(row.bytes)),
            ("useless reads", |row| reads(row.useless_reads)),
        ];
        writeln!(f, "{}\n", figures(&columns, &self.levels))?;
        let mut totals = vec![("this plan", self.plan), ("equal bits", self.equal_bits)];
        totals.extend(self.now.map(|now| ("now", now)));
        let columns: [Column<(&str, Total)>; 4] = [
            ("filters", |row| row.0.to_owned()),
            ("bytes", |row| grouped(row.1.bytes)),
            ("bits per key", |row| format!("{:.2}", row.1.bits_per_key)),
            ("useless reads", |row| reads(row.1.useless_reads)),
        ];
        writeln!(f, "{}", figures(&columns, &totals))?;
        let unfiltered = LeftOut::lines(&self.unfiltered, "counted as always read");
        for line in unfiltered.iter().chain(&LeftOut::lines(&self.left_out, "left out")) {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "useless reads: tables read per lookup of a key that no table contains")?;
        if let Some(enough) = self.enough {
            let (bytes, reads) = (counted(enough.bytes, "byte"), reads(enough.useless_reads));
            let planned = self::reads(self.plan.useless_reads);
            writeln!(f, "{bytes} would be enough: {reads} useless reads instead of {planned}")?;
        }
        match self.ratio {
            // First, because the ratio would compare the plan with no filters at all.
            _ if self.equal_bits.bytes == 0 && self.plan.bytes > 0 => {
                writeln!(f, "even the smallest filters do not fit with equal bits per key everywhere")
            }
            // Below this, the ratio would print as 1.00.
            Some(ratio) if ratio > 1.005 => {
                writeln!(f, "equal bits per key everywhere cause {ratio:.2} times the useless reads of this plan")
            }
            _ => writeln!(f, "equal bits per key everywhere would be as good"),
        }
    }
}
