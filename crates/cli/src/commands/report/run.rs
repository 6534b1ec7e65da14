//! `sstfilter report`: how the filters of a store are, in text, as JSON and on a page.

use core::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use sstfilter::{BitsPerKey, ConfigError, FalsePositiveRate, FixedPolicy, Sizing};
use sstfilter_charts::{Axis, Chart, Colour, Form, Mark, Point, Series, Style, today};

use super::rates::Survey;
use crate::commands::options::{FamilyArgs, parse_bits_per_key};
use crate::file::look::Format;
use crate::file::open::Context;
use crate::file::problem::State;
use crate::file::replace::OwnFiles;
use crate::model::absent::AbsentKeys;
use crate::model::costs::{Cost, TableFilter};
use crate::model::file::{FileReport, Reason};
use crate::model::group::{Family, Figures, Surveyed};
use crate::model::judge::{advice, command_line};
use crate::print::html::{document, figure, head, links, list, paragraph, rows, section, whole};
use crate::print::types::{Figure, Open, PathName, Rate};
use crate::print::{Extent, Json, Outcome, Record, record};
use crate::words::escape::{path_name, shell_word};
use crate::words::group;
use crate::words::units::{counted, grouped, parse_fpr, percent, with_margin};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Databases, directories of tables (not searched recursively), tables (also of RocksDB, LevelDB and Pebble), and
    /// filters without a table
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    family: FamilyArgs,

    /// File of keys that no table has, to measure false positive rates on [default: keys made from stored ones]
    #[arg(long, value_name = "KEYS")]
    absent: Option<PathBuf>,

    /// Also show what filters of this false positive rate would cost
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, conflicts_with = "bits_per_key")]
    fpr: Option<FalsePositiveRate>,

    /// Also show what filters of this size would cost; for auto, that is the size of a Bloom filter
    #[arg(long, value_name = "B", value_parser = parse_bits_per_key, allow_negative_numbers = true)]
    bits_per_key: Option<BitsPerKey>,

    /// Write report.html and report.json to this directory, created if missing. Only files of an earlier report are
    /// replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

record! {
    /// How the filters of a store are. Data blocks are not read.
    pub(crate) struct StoreReport {
        pub(crate) program: &'static str [json],
        pub(crate) command: String [json],
        pub(crate) version: &'static str [json],
        pub(crate) date: String [json],
        pub(crate) title: String,
        pub(crate) findings: Vec<String> [notable],
        pub(crate) remarks: Vec<Remark> [notable],
        pub(crate) families: Vec<FamilyReport>,
        pub(crate) files: Vec<FileReport>,
        pub(crate) notes: Vec<String>,
        pub(crate) written_files: Vec<String> [notable],
    }

    /// The tables of a column family, or of a store that has none.
    pub(crate) struct FamilyReport {
        pub(crate) database: Option<PathName> [row],
        pub(crate) column_family: Option<String> [row],
        pub(crate) total: Figures [row],
        pub(crate) levels: Vec<Figures>,
        /// number of keys that the filters were measured on, which no table has
        pub(crate) absent_keys: u64 [json],
        pub(crate) absent_from: String,
        pub(crate) costs: Vec<Cost>,
        /// files that `costs` leaves out, because no filter is used or its cost is unknown
        pub(crate) uncosted_tables: u64 [json],
    }

    /// Files with the same state, part and advice.
    pub(crate) struct Remark {
        pub(crate) state: State,
        pub(crate) part: Option<String>,
        pub(crate) paths: Vec<PathName>,
        pub(crate) why: String,
        pub(crate) advice: Option<String>,
        pub(crate) commands: Vec<String>,
    }
}

/// The files, and the beginning by which those of an earlier run are recognized.
const FILES: [(&str, &str); 2] = [
    ("report.html", FIRST_LINE),
    // Depends on the first fields of `StoreReport` and their order.
    ("report.json", "{\n  \"program\": \"sstfilter\",\n  \"command\": \"sstfilter report "),
];

/// Reports on a store. The answer is no if a table is damaged, and a failure if one cannot be read.
pub(crate) fn run(args: &ReportArgs, context: &Context) -> anyhow::Result<(Outcome, StoreReport)> {
    // Checked first: minutes of work must not end at a directory that cannot be written.
    let files = args.out.as_deref().map(|out| OwnFiles::prepare(out, FILES, args.absent.as_slice())).transpose()?;
    let given = args.absent.as_deref().map(|path| AbsentKeys::given(path, context)).transpose()?;
    let survey = Survey::of(&args.paths, args.family.family.as_deref(), given.as_ref(), context)?;
    let states = survey.tables().map(|table| table.state);
    let problems = survey.walk.problems.iter().map(|(_, problem)| problem.state);
    let outcome = states.chain(problems).map(State::outcome).max().unwrap_or_default();
    let mut report = StoreReport::new(args, survey, context);
    if let Some(files) = files {
        let contents = [html(&report)?, serde_json::to_string_pretty(&Json(&report))? + "\n"];
        report.written_files = files.write(&contents)?;
    }
    Ok((outcome, report))
}

impl StoreReport {
    fn new(args: &ReportArgs, survey: Survey, context: &Context) -> Self {
        let tables: Vec<_> = survey.tables().collect();
        let (title, remarks) = (title(&tables), remarks(&tables, args, context));
        let mut findings = vec![needing_a_look(&tables)];
        findings.extend(survey.walk.problem_lines());
        if tables.iter().any(|table| table.format.is_table()) {
            let verify = format!("sstfilter verify{}{}", context.options, paths(args));
            let read = if args.absent.is_some() {
                "data blocks were not read"
            } else {
                "of data blocks, only those that absent keys were made from were read"
            };
            findings.push(format!("{read}: `{verify}` checks all"));
        }
        let mut notes = survey.walk.notes();
        if let others @ 1.. = survey.walk.others.len() {
            notes.push(format!("neither tables nor filters: {}", counted(others as u64, "file")));
        }
        notes.extend((survey.families.len() > 1).then(|| "what other filters would cost: --family NAME".to_owned()));
        let chosen = args.fpr.map(Sizing::Rate).or(args.bits_per_key.map(Sizing::BitsPerKey));
        let (mut families, mut files) = (Vec::new(), Vec::new());
        let is_one = survey.families.len() == 1;
        for (family, absent) in survey.families.into_iter().zip(&survey.absent) {
            let report = FamilyReport::new(&family, absent, chosen);
            let name = report.column_family.as_ref().filter(|_| !is_one).map(|name| format!("{name}: "));
            let name = name.unwrap_or_default();
            findings.extend(report.findings().into_iter().map(|finding| format!("{name}{finding}")));
            let is_of_rocksdb = family.files.iter().any(|file| file.report.format == Format::RocksDbTable);
            let setting = if is_of_rocksdb { " (RocksDB has its own: filter_policy=ribbonfilter:BITS)" } else { "" };
            findings.extend(report.conclusion().filter(|_| is_one).map(|conclusion| conclusion + setting));
            families.push(report);
            // `inspect` shows these of each file.
            let brief = |report| FileReport { parts: Vec::new(), properties: Open::default(), ..report };
            files.extend(family.files.into_iter().map(|file| brief(file.report)));
        }
        let filter_bytes = |file: &FileReport| file.key_filter().map(|filter| filter.filter_bytes.0);
        files.sort_by_key(|file| Reverse((file.state, filter_bytes(file))));
        Self {
            program: "sstfilter",
            command: command(args, context),
            version: env!("CARGO_PKG_VERSION"),
            date: today(),
            title,
            findings,
            remarks,
            families,
            files,
            notes,
            written_files: Vec::new(),
        }
    }
}

/// Returns the command that makes the report again, without the path of its output.
fn command(args: &ReportArgs, context: &Context) -> String {
    let mut command = format!("sstfilter report{}", context.options);
    let mut add = |option: &str, value: Option<String>| {
        command.extend(value.map(|value| format!(" --{option} {value}")));
    };
    add("family", args.family.family.as_ref().map(|name| shell_word(name.as_ref())));
    add("absent", args.absent.as_deref().map(shell_word));
    add("fpr", args.fpr.map(|rate| rate.get().to_string()));
    add("bits-per-key", args.bits_per_key.map(|bits| bits.get().to_string()));
    command + &paths(args)
}

fn paths(args: &ReportArgs) -> String {
    args.paths.iter().map(|path| " ".to_owned() + &shell_word(path)).collect()
}

/// Returns where the tables are, and the engines that wrote them.
fn title(tables: &[&FileReport]) -> String {
    let directories: BTreeSet<_> = tables.iter().filter_map(|table| table.path.0.parent()).collect();
    let place = match directories.first() {
        Some(directory) if directories.len() == 1 && !directory.as_os_str().is_empty() => {
            path_name(directory).into_owned()
        }
        _ => counted(directories.len() as u64, "directory").replace("directorys", "directories"),
    };
    let engine = |table: &&FileReport| match table.format {
        Format::Table => Some("sstfilter"),
        format => format.engine(),
    };
    let engines: BTreeSet<_> = tables.iter().filter_map(engine).collect();
    let engines = if engines.is_empty() { String::new() } else { format!(" ({})", Vec::from_iter(engines).join(", ")) };
    format!("Filters of {place}{engines}")
}

fn needing_a_look(tables: &[&FileReport]) -> String {
    let count = |state: State| tables.iter().filter(|table| table.state == state).count() as u64;
    let bad = State::ALL.into_iter().filter(|state| *state > State::Fallback).map(|state| (state, count(state)));
    let bad: Vec<_> = bad.filter(|(_, count)| *count > 0).collect();
    let states: Vec<_> = bad.iter().map(|(state, count)| format!("{} {}", grouped(*count), state.text())).collect();
    let states = if bad.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    let [bad, all] = [bad.iter().map(|(_, count)| count).sum(), tables.len() as u64].map(grouped);
    format!("files that need a look: {bad} of {all}{states}")
}

/// Groups the reasons of all files. The worst come first, and of these the files that nothing can be read from.
fn remarks(tables: &[&FileReport], args: &ReportArgs, context: &Context) -> Vec<Remark> {
    let reasons: Vec<_> =
        tables.iter().flat_map(|&file| file.reasons.iter().map(move |reason| (file, reason))).collect();
    let mut groups = group::by(&reasons, |(_, reason)| (reason.state, &reason.part, &reason.advice));
    groups.sort_by_key(|((state, part, _), _)| (Reverse(*state), *part));
    groups.into_iter().filter_map(|(_, files)| remark(&files, args, context)).collect()
}

fn remark(files: &[&(&FileReport, &Reason)], args: &ReportArgs, context: &Context) -> Option<Remark> {
    let (file, reason) = files.first()?;
    let words: Vec<_> = files.iter().map(|(file, _)| shell_word(&file.path.0)).collect();
    let line = |command: &&str| match *command {
        "rebuild" if files.len() > 1 => command_line(command, context, &[format!("--only-problems{}", paths(args))]),
        _ => command_line(command, context, &words),
    };
    let is_other = |(_, other): &&(&FileReport, &Reason)| other.why != reason.why;
    let example = if files.iter().any(is_other) { ", for example" } else { "" };
    Some(Remark {
        state: reason.state,
        part: reason.part.clone(),
        paths: files.iter().map(|(file, _)| file.path.clone()).collect(),
        why: format!("{}{example}", reason.why),
        advice: reason.advice.clone(),
        commands: advice(&file.path.0, file.format, reason).1.iter().map(line).collect(),
    })
}

impl FamilyReport {
    fn new(family: &Family<Surveyed>, absent: &AbsentKeys, chosen: Option<Sizing>) -> Self {
        let (total, levels) = Figures::of_each(&family.files, absent.keys.len() as u64);
        let filters: Vec<_> = family.files.iter().filter_map(|file| TableFilter::of(&file.report)).collect();
        Self {
            database: family.database.clone().map(PathName),
            column_family: family.name.clone(),
            total,
            levels,
            absent_keys: absent.keys.len() as u64,
            absent_from: absent.from.clone(),
            costs: Cost::of_each(&filters, chosen),
            uncosted_tables: (family.files.len() - filters.len()) as u64,
        }
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let Figures { useless_reads, unfiltered_reads, unmeasured_tables, range_tombstone_tables, .. } = &self.total;
        if let (Some(Figure(reads)), Some(Figure(unfiltered))) = (useless_reads, unfiltered_reads) {
            let because = match *unfiltered {
                0.0 => String::new(),
                reads => format!(", {reads:.3} of them because a filter is missing or cannot be used"),
            };
            findings.push(format!("on average, a lookup of an absent key reads {reads:.3} tables needlessly{because}"));
        }
        if self.total.probes == 0 && self.absent_keys > 0 && self.total.filter_bytes.0 > 0 && *unmeasured_tables == 0 {
            findings.push("no filter was measured: no absent key is between the ends of a table".to_owned());
        }
        if let tables @ 1.. = *unmeasured_tables {
            let tables = counted(tables, "table");
            let why = "of which the filter holds parts of keys alone, which made-up keys share: pass --absent";
            findings.push(format!("not in these figures: {tables} {why}"));
        }
        if let tables @ 1.. = *range_tombstone_tables {
            let tables = counted(tables, "table");
            findings.push(format!("{tables} with range tombstones: every lookup within their bounds reads them"));
        }
        for figures in self.levels.iter().chain([&self.total]).filter(|figures| figures.has_high_rate) {
            let level = figures.level.map_or_else(String::new, |level| format!(" on level {level}"));
            let (Some(observed), Some(margin)) = (figures.observed_fpr, figures.observed_fpr_margin) else { continue };
            let observed = with_margin(observed.0, margin.0);
            let why = "absent keys may be correlated, or some of them stored";
            findings.push(format!("more false positives than expected{level}: {observed} ({why})"));
        }
        findings
    }

    /// Returns a sentence on the bytes that Ribbon filters would save at the same rate.
    fn conclusion(&self) -> Option<String> {
        let [now, ribbon, ..] = &self.costs[..] else { return None };
        if !ribbon.choice.starts_with("ribbon") {
            return Some("no table has enough keys for Ribbon filters of sstfilter to be smaller".to_owned());
        }
        let Rate(saved) = ribbon.saved_share.filter(|saved| saved.0.abs() >= 0.0005)?;
        let (was, is) = (grouped(now.filter_bytes.0), grouped(ribbon.filter_bytes.0));
        let than = if saved < 0.0 { "more" } else { "less" };
        let left_out = match self.uncosted_tables {
            0 => String::new(),
            tables => format!(" ({} left out)", counted(tables, "file")),
        };
        Some(format!(
            "at the same false positive rate, Ribbon filters of sstfilter would take {is} bytes instead of {was}: \
             {:.1} % {than}{left_out}",
            saved.abs() * 100.0
        ))
    }
}

/// The first line of the document.
const FIRST_LINE: &str = "<!DOCTYPE html><!-- made by sstfilter report -->\n";

/// Maximum number of listed files and remarks.
const LISTED: usize = 50;

/// Maximum number of column families whose figures are listed.
const LISTED_FAMILIES: usize = 20;

/// Maximum number of tables in the chart, which is drawn twice on the page.
const DRAWN: usize = 400;

/// Returns the document.
fn html(report: &StoreReport) -> anyhow::Result<String> {
    let lead = "The filters of all files: their state, cost and false positive rates, and what to do about them.";
    let facts = [
        ("command", report.command.clone()),
        ("date", report.date.clone()),
        ("version", format!("{} {}", report.program, report.version)),
    ];
    let names = [
        ("remarks", "reasons and what to do"),
        ("families", "levels, rates and costs"),
        ("sizes", "sizes and rates"),
        ("files", "files"),
    ];
    let all = Extent { has_all_items: true, ..Extent::default() };
    let body = [
        head(&report.title, lead, facts),
        links(names),
        list("findings", "What stands out", report.findings.iter().cloned()),
        section("remarks", "Reasons and what to do", "The worst come first. Commands to run first are below each."),
        each(&report.remarks, LISTED, |remark| whole(remark, Extent::default())),
        section("families", "Levels, rates and costs", ABOUT_FIGURES),
        each(&report.families, LISTED_FAMILIES, |family| whole(family, Extent::default())),
        chart(report)?,
        section("files", "Files", "The worst come first, and of these the largest filters."),
        rows(&report.files.iter().take(LISTED).map(|file| file as &dyn Record).collect::<Vec<_>>(), all),
        more(report.files.len(), LISTED),
        report.notes.iter().map(|note| paragraph(note)).collect(),
    ];
    Ok(document(FIRST_LINE, &report.title, &body.concat()))
}

const ABOUT_FIGURES: &str = "Useless reads: tables that a lookup of an absent key reads although they do not have it. \
    Expected rates follow from the shape of a filter, and mean rates are those of all filters, weighted by keys. Observed \
    rates are those of probes for absent keys; their margins are those of 95 % and assume independent probes, although \
    keys made from stored ones may be correlated. Costs are those of filters for the same keys.";

/// Draws the first items of a list.
fn each<T>(items: &[T], most: usize, draw: impl Fn(&T) -> String) -> String {
    items.iter().take(most).map(draw).collect::<String>() + &more(items.len(), most)
}

fn more(items: usize, listed: usize) -> String {
    match items.saturating_sub(listed) as u64 {
        0 => String::new(),
        more => format!("<p class=\"note\">{} more are in report.json.</p>", grouped(more)),
    }
}

/// Maximum bits per key in the chart: a table of a few keys has hundreds, and would compress all others into a line at
/// the bottom.
const MAX_BITS: f64 = 40.0;

/// Steps of the lines of sstfilter's filters.
const STEPS: u32 = 60;

/// Draws the size and rate of the largest filters, and those of sstfilter's filters of as many keys as the median
/// table.
fn chart(report: &StoreReport) -> anyhow::Result<String> {
    let mut filters: Vec<_> = report.files.iter().filter_map(|file| Some((file, TableFilter::of(file)?))).collect();
    filters.sort_by_key(|(_, filter)| Reverse(filter.bytes));
    filters.truncate(DRAWN);
    let largest = filters.len();
    filters.retain(|(_, filter)| filter.fpr > 0.0 && filter.fpr < 1.0 && filter.bits_per_key() <= MAX_BITS);
    if filters.is_empty() {
        return Ok(section("sizes", "Sizes and rates", "No filter has a known size and rate."));
    }
    // The axis reaches at least from 3 % to 0.33 %, so that a single rate does not fill it.
    let rates = || filters.iter().map(|(_, filter)| filter.fpr);
    let ends = ((rates().fold(0.02, f64::max) * 1.5).min(0.99), rates().fold(0.005, f64::min) / 1.5);
    let max_bits = filters.iter().map(|(_, filter)| filter.bits_per_key()).fold(-ends.1.log2() * 1.3, f64::max);
    let max_bits = (max_bits.min(MAX_BITS) / 5.0).ceil() * 5.0;
    let mut series = by_level(&filters);
    series.extend(lines(&filters, ends));
    let text = format!(
        "Each mark is the filter of one table; the largest {DRAWN} are drawn, but not {} beyond {MAX_BITS} bits per key or \
         without a rate. The lines are sstfilter's filters with the number of keys of the median table.",
        largest - filters.len()
    );
    let title = format!("The filters of {}", counted(filters.len() as u64, "table"));
    let chart = Chart::bits_by_rate(&title, Axis::rates("false positive rate", ends), max_bits, series);
    Ok(section("sizes", "Sizes and rates", &text) + &figure(&chart)?)
}

/// Returns the tables of each level, as marks.
fn by_level(filters: &[(&FileReport, TableFilter)]) -> Vec<Series> {
    let mut levels: Vec<_> = filters.iter().map(|(file, _)| file.place.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let series = |(nth, level): (usize, Option<u32>)| {
        let mut points: Vec<_> = filters
            .iter()
            .filter(|(file, _)| file.place.level == level)
            .map(|(file, filter)| point(file, filter))
            .collect();
        // From left to right: the axis of rates is descending.
        points.sort_by(|left, right| right.at.0.total_cmp(&left.at.0));
        let name = level.map_or_else(|| "unknown level".to_owned(), |level| format!("level {level}"));
        // From the second style on: a line below has the colour of the first.
        Series { name, style: Style::nth(nth + 1), form: Form::Marks, points }
    };
    levels.into_iter().enumerate().map(series).collect()
}

fn point(file: &FileReport, filter: &TableFilter) -> Point {
    let (bits, keys, rate) = (filter.bits_per_key(), grouped(filter.keys), percent(filter.fpr));
    let tip = format!("{}: {keys} keys, {bits:.2} bits per key, {rate}", path_name(&file.path.0));
    Point { at: (filter.fpr, bits), tip }
}

fn lines(filters: &[(&FileReport, TableFilter)], (highest, lowest): (f64, f64)) -> [Series; 2] {
    let mut keys: Vec<_> = filters.iter().map(|(_, filter)| filter.keys).collect();
    keys.sort_unstable();
    // The median stands for all, because bits per key hardly depend on the number of keys.
    let keys = keys.get(keys.len() / 2).copied().unwrap_or(1);
    let rates = (0..=STEPS).map(|step| highest * (lowest / highest).powf(f64::from(step) / f64::from(STEPS)));
    let line = |name: &str, colour, policy: fn(Sizing) -> Result<FixedPolicy, ConfigError>| {
        let bits = |rate| {
            let plan = policy(Sizing::Rate(FalsePositiveRate::new(rate).ok()?)).ok()?.plan(keys, None).ok()?;
            Some(Point { at: (rate, plan.block_bytes as f64 * 8.0 / keys as f64), tip: String::new() })
        };
        let style = Style { colour, mark: Mark::Ring, width: 2 };
        Series { name: name.to_owned(), style, form: Form::Line, points: rates.clone().filter_map(bits).collect() }
    };
    [
        line("sstfilter, Bloom", Colour::BLUE, FixedPolicy::bloom),
        line("sstfilter, Ribbon", Colour::INK, FixedPolicy::ribbon),
    ]
}
