//! `sstfilter advise levels`: spreads one memory budget over the levels of a store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{BitsPerKey, KindId};
use sstfilter_store::{LevelPlan, LevelSize, PlannedLevel};

use crate::commands::options::FamilyArgs;
use crate::commands::report::Survey;
use crate::file::open::Context;
use crate::file::problem::State;
use crate::model::costs::TableFilter;
use crate::model::file::FileReport;
use crate::model::group::Family;
use crate::print::types::{Bits, Bytes, Figure, Rate};
use crate::print::{Outcome, record};
use crate::system::input;
use crate::words::group;
use crate::words::units::{bytes, figure, number_in, parse_number, parse_ratio, whole};

#[derive(Debug, Args)]
pub(crate) struct LevelsArgs {
    /// Keys of each level from level 0 on, such as 40K/4,1e5,1e6: 40K/4 means 40,000 keys in four overlapping runs. Or
    /// tables, or directories of them, whose levels the tables or their MANIFEST record: tables of level 0 overlap each
    /// other, tables of other levels do not
    #[arg(value_name = "LEVELS|PATH", required = true)]
    store: Vec<PathBuf>,

    #[command(flatten)]
    family: FamilyArgs,

    /// Kind of filter
    #[arg(long, value_name = "KIND", default_value = KindId::RIBBON.name(),
        value_parser = PossibleValuesParser::new(kind::all().iter().map(|entry| entry.name)))]
    policy: String,

    /// Bytes of memory that a reader has for filters [default: those of the tables' filters]
    #[arg(long, value_name = "BYTES", value_parser = parse_number, conflicts_with = "bits_per_key")]
    memory: Option<u64>,

    /// The same as mean bits per key over all keys [default: 10, unless there are tables with filters]
    // Not `BitsPerKey`: a mean over levels without filters may be below 1.
    #[arg(long, value_name = "B", value_parser = parse_ratio, allow_negative_numbers = true)]
    bits_per_key: Option<f64>,

    /// No filters on the last level, for stores where nearly every lookup finds its key
    #[arg(long)]
    optimize_for_hits: bool,
}

/// Bits per key of the default budget.
const DEFAULT_BITS_PER_KEY: f64 = 10.0;

record! {
    /// Filters for the levels of a store, within one budget of memory.
    pub(crate) struct LevelsAdvice {
        pub(crate) kind: String,
        pub(crate) keys: u64,
        pub(crate) memory_limit_bytes: Bytes,
        pub(crate) plan: Vec<LevelFilters>,
        pub(crate) totals: Vec<Total>,
        pub(crate) advice: String [notable],
        pub(crate) notes: Vec<String>,
    }

    /// The planned filters of one level.
    pub(crate) struct LevelFilters {
        pub(crate) level: u32 [row],
        pub(crate) keys: u64 [row],
        pub(crate) runs: u64 [row],
        pub(crate) tables: u64,
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Bits [row],
        pub(crate) expected_fpr: Rate [row],
        pub(crate) useless_reads: Figure [row],
        pub(crate) options: String [row],
    }

    /// The filters of all levels.
    pub(crate) struct Total {
        pub(crate) choice: String [row],
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Bits [row],
        pub(crate) useless_reads: Figure [row],
    }
}

/// The levels of a store, and its present filters if the levels were read from tables.
#[derive(Default)]
struct Store {
    levels: Vec<LevelSize>,
    now: Option<Total>,
    notes: Vec<String>,
    outcome: Outcome,
}

/// Plans the levels. The answer is no if a table is damaged or no filter fits, and a failure if one cannot be read.
pub(crate) fn run(args: &LevelsArgs, context: &Context) -> anyhow::Result<(Outcome, LevelsAdvice)> {
    let mut store = match stated(&args.store)? {
        Some(levels) => Store { levels, ..Store::default() },
        None => Store::of_tables(args, context)?,
    };
    // The last level with keys: an empty one below it has no filter anyway.
    if args.optimize_for_hits
        && let Some(last) = store.levels.iter_mut().filter(|level| level.keys > 0).max_by_key(|level| level.level)
    {
        *last = last.without_filter();
    }
    let kind = KindEntry::named(&args.policy).context("--policy: no kind has this name")?;
    let keys = keys_of(&store.levels);
    let budget = budget(args, keys, store.now.as_ref());
    let configure = |sizing| kind.configure(sizing);
    let plan = LevelPlan::new(&store.levels, budget, configure)?;
    let equal = LevelPlan::with_equal_bits(&store.levels, budget, configure)?;
    let enough = enough(&plan, |bytes| LevelPlan::new(&store.levels, bytes, configure).ok());
    let total = |choice: &str, plan: &LevelPlan| Total::new(choice, plan.bytes(), keys, plan.useless_reads());
    let better = store.now.as_ref().filter(|now| now.useless_reads.0 < plan.useless_reads());
    let keep = better.map(|now| {
        let [now, planned] = [now.useless_reads.0, plan.useless_reads()].map(figure);
        format!("keep the filters as they are: a lookup of an absent key reads {now} tables needlessly, with this plan {planned}")
    });
    let mut totals = vec![total("this plan", &plan), total("equal bits", &equal)];
    totals.extend(store.now);
    totals.extend(enough.as_ref().map(|enough| total("enough", enough)));
    let advice = LevelsAdvice {
        kind: kind.name.to_owned(),
        keys,
        memory_limit_bytes: Bytes(budget),
        plan: plan.levels.iter().map(|level| LevelFilters::new(level, kind.name)).collect(),
        totals,
        advice: keep.unwrap_or_else(|| advice(&plan, &equal, enough.as_ref())),
        notes: store.notes,
    };
    let is_met = plan.bytes() > 0 || keys == 0 || budget == 0 || args.optimize_for_hits;
    Ok((store.outcome.max(Outcome::from_sound(is_met)), advice))
}

/// Parses the keys of levels. Returns `None` for paths.
fn stated(store: &[PathBuf]) -> anyhow::Result<Option<Vec<LevelSize>>> {
    let text = store.iter().map(|levels| levels.to_string_lossy()).collect::<Vec<_>>().join(",");
    let level = |(level, text): (u32, &str)| {
        let (keys, runs) = text.split_once('/').unwrap_or((text, "1"));
        Ok(LevelSize::new(level, parse_number(keys)?).with_runs(number_in(1..=u64::MAX)(runs)?))
    };
    // From level 0 on, so that the list needs no numbers of levels.
    let levels = (0..).zip(text.split(',')).map(level).collect::<Result<_, String>>();
    let neither = store.iter().find(|path| !input::is_standard(path) && !path.exists());
    if let (Err(_), Some(neither)) = (&levels, neither) {
        let expected = "expected keys of each level, such as 40K/4,1e5,1e6, or paths";
        bail!("{expected}, got '{}', which is neither", input::name(neither));
    }
    Ok(levels.ok())
}

fn keys_of(levels: &[LevelSize]) -> u64 {
    levels.iter().fold(0, |sum: u64, level| sum.saturating_add(level.keys))
}

fn budget(args: &LevelsArgs, keys: u64, now: Option<&Total>) -> u64 {
    // Tables without filters do not set a budget.
    let now = now.map(|now| now.filter_bytes.0).filter(|bytes| *bytes > 0 && args.bits_per_key.is_none());
    let of_bits = || whole(keys as f64 * args.bits_per_key.unwrap_or(DEFAULT_BITS_PER_KEY) / 8.0);
    args.memory.or(now).unwrap_or_else(of_bits)
}

/// Useless reads that exceed those of a plan by at most this factor are hardly more.
const HARDLY_MORE: f64 = 1.01;

/// Halves the memory of `plan` as long as useless reads hardly increase, and returns the smallest such plan.
fn enough(plan: &LevelPlan, within: impl Fn(u64) -> Option<LevelPlan>) -> Option<LevelPlan> {
    let max_reads = plan.useless_reads() * HARDLY_MORE;
    let halves = core::iter::successors(Some(plan.bytes() / 2), |bytes| Some(bytes / 2)).take_while(|&bytes| bytes > 0);
    halves.map_while(within).take_while(|smaller| smaller.useless_reads() <= max_reads).last()
}

fn advice(plan: &LevelPlan, equal: &LevelPlan, enough: Option<&LevelPlan>) -> String {
    let enough = enough.map(|enough| {
        let [reads, planned] = [enough, plan].map(|plan| figure(plan.useless_reads()));
        format!("; {} would be enough: {reads} useless reads instead of {planned}", bytes(enough.bytes()))
    });
    // Not finite if the plan has no useless reads.
    let ratio = equal.useless_reads() / plan.useless_reads();
    let compared = match ratio {
        _ if plan.bytes() == 0 => "no filter fits into this memory".to_owned(),
        // First, because the ratio would compare the plan with no filters at all.
        _ if equal.bytes() == 0 => "even the smallest filters do not fit with equal bits per key everywhere".to_owned(),
        // Below this, the ratio would print as 1.00.
        1.005..f64::INFINITY => {
            format!("equal bits per key everywhere cause {ratio:.2} times the useless reads of this plan")
        }
        _ => "equal bits per key everywhere would be as good".to_owned(),
    };
    compared + &enough.unwrap_or_default()
}

impl Store {
    fn of_tables(args: &LevelsArgs, context: &Context) -> anyhow::Result<Self> {
        let survey = Survey::of(&args.store, args.family.family.as_deref(), None, context)?;
        Family::ensure_one(&survey.families, "a plan is for one column family")?;
        let outcome = survey.tables().map(|table| table.state.outcome()).max().unwrap_or_default();
        let (mut levels, mut remarks) = (BTreeMap::<u32, Vec<TableFilter>>::new(), Vec::new());
        for report in survey.tables() {
            let filter = TableFilter::of(report).or_else(|| without_filter(report));
            match report.place.level.zip(filter) {
                Some((level, filter)) => {
                    remarks.extend((filter.bytes == 0).then_some(("counted as always read", report)));
                    levels.entry(level).or_default().push(filter);
                }
                None => remarks.push(("left out", report)),
            }
        }
        let notes = notes(&remarks).into_iter().chain(survey.walk.notes()).collect::<Vec<_>>();
        let first = notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
        ensure!(
            !levels.is_empty(),
            "expected tables whose level is known, got none{first}: pass the keys of each level instead, such as \
             `sstfilter advise levels 40K/4,1e5,1e6`"
        );
        let sizes: Vec<_> = levels.iter().map(|(&level, filters)| level_of(level, filters)).collect();
        let reads = sizes.iter().zip(levels.values()).map(|(size, filters)| useless_reads(size, filters)).sum();
        let bytes = levels.values().flatten().map(|filter| filter.bytes).sum();
        let now = Some(Total::new("now", bytes, keys_of(&sizes), reads));
        Ok(Self { levels: sizes, now, notes, outcome })
    }
}

/// Returns a filter of no bytes that is positive for every key.
fn without_filter(report: &FileReport) -> Option<TableFilter> {
    let keys = report.key_filter().and_then(|filter| filter.keys).or(report.contents.entries)?;
    (report.state < State::Unread).then_some(TableFilter { keys, bytes: 0, fpr: 1.0 })
}

/// Returns a line for each reason why tables are counted otherwise than by their filters.
fn notes(remarks: &[(&str, &FileReport)]) -> Vec<String> {
    let why = |(what, report): &(&str, &FileReport)| {
        let unknown = "its level is unknown: neither the table nor a MANIFEST next to it records it";
        let unknown = report.place.level.is_none().then_some(unknown);
        let reason = unknown.or_else(|| Some(report.reasons.first()?.why.as_str())).unwrap_or("no filter");
        format!("{what}: {reason}")
    };
    let line = |(why, tables): (String, Vec<&(&str, &FileReport)>)| {
        let names: Vec<_> = tables.iter().map(|(_, report)| input::name(&report.path.0)).collect();
        group::line(&why, "table", &names)
    };
    group::by(remarks, why).into_iter().map(line).collect()
}

/// Returns the size of a level. Tables of level 0 overlap, so each is a run; the tables of any other level are one run.
fn level_of(level: u32, filters: &[TableFilter]) -> LevelSize {
    let (keys, files) = (filters.iter().map(|filter| filter.keys).sum(), filters.len() as u64);
    LevelSize::new(level, keys).with_runs(if level == 0 { files } else { 1 }).with_files(files)
}

/// Returns the tables of a level that a lookup of an absent key reads. In a level of one run, it reads at most the
/// table whose range includes its key; larger tables are hit with a higher probability.
fn useless_reads(level: &LevelSize, filters: &[TableFilter]) -> f64 {
    // Each table is a run, and a lookup probes every run.
    if level.runs == filters.len() as u64 {
        return filters.iter().filter(|filter| filter.keys > 0).map(|filter| filter.fpr).sum();
    }
    let positives: f64 = filters.iter().map(|filter| filter.fpr * filter.keys as f64).sum();
    positives / level.keys.max(1) as f64
}

impl Total {
    fn new(choice: &str, bytes: u64, keys: u64, useless_reads: f64) -> Self {
        let bits_per_key = Bits(bytes as f64 * 8.0 / keys.max(1) as f64);
        let (choice, useless_reads) = (choice.to_owned(), Figure(useless_reads));
        Self { choice, filter_bytes: Bytes(bytes), bits_per_key, useless_reads }
    }
}

impl LevelFilters {
    fn new(planned: &PlannedLevel, kind: &str) -> Self {
        // Rounded up, because a kind may have a smallest size; no filter has more bits than the options allow.
        let bits = ((planned.bits_per_key() * 100.0).ceil() / 100.0).min(BitsPerKey::MAX.get());
        let sized = format!("--policy {kind} --bits-per-key {bits:.2}");
        Self {
            options: if planned.bytes == 0 { "--policy none".to_owned() } else { sized },
            level: planned.size.level,
            keys: planned.size.keys,
            runs: planned.size.runs,
            tables: planned.size.files,
            filter_bytes: Bytes(planned.bytes),
            bits_per_key: Bits(planned.bits_per_key()),
            expected_fpr: Rate(planned.expected_fpr),
            useless_reads: Figure(planned.useless_reads()),
        }
    }
}
