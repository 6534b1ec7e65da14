//! `sstfilter report`: describes the filters of a store on a page, in JSON and in a few lines.

mod chart;
mod levels;
mod page;
mod rates;
mod remarks;
mod survey;

use core::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sstfilter_charts::today;

use crate::advise::tables::{TableFilter, TablesReport};
use crate::inspect::State;
use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::{Outcome, figures, shell_word};
use crate::replace::OwnFiles;
use crate::units::{bytes, counted, grouped};
use levels::LevelRow;
use rates::{AbsentKeys, Rate, measure};
use remarks::{Group, Remark};
use survey::{Survey, TableRow};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), bare filter blocks, or directories of them (not searched
    /// recursively). Levels come from the MANIFEST next to the tables, or from the tables themselves
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Write report.html and report.json to this folder, created if missing. Only files of an earlier report are
    /// replaced. Without this option, only a summary is printed
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// File of keys that no table contains, to measure false positive rates on [default: keys made from the tables']
    #[arg(long, value_name = "KEYS")]
    absent: Option<PathBuf>,
}

/// The contents of the page and of `report.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    program: &'static str,
    /// The command that reproduces the report, without the path of its output.
    command: String,
    /// The options for reading tables, and the paths of the tables, as words of a command with a blank before each.
    #[serde(skip)]
    words: [String; 2],
    version: &'static str,
    date: String,
    /// Files that were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    tables: usize,
    /// Bytes of the tables.
    bytes: u64,
    /// Entries of the tables that record them; null if none does.
    entries: Option<u64>,
    filter_bytes: u64,
    /// Mean of the filters whose number of keys is known.
    bits_per_key: Option<f64>,
    /// Sentences about notable results.
    findings: Vec<String>,
    levels: Vec<LevelRow>,
    /// Tables whose state is not ok, the worst first.
    remarks: Vec<Remark>,
    /// Tables whose state is ok, with a remark.
    notes: Vec<Remark>,
    /// Sidecars without their tables.
    orphans: Vec<String>,
    absent_keys: usize,
    /// How the absent keys were found.
    absent_from: String,
    rates: Vec<Rate>,
    /// Costs of other settings.
    settings: TablesReport,
    per_table: Vec<TableRow>,
    /// Files of directories that are neither tables nor filter blocks.
    skipped: Vec<String>,
}

/// The files, and the beginning by which those of an earlier run are recognized.
const FILES: [(&str, &str); 2] = [
    ("report.html", page::FIRST_LINE),
    // Depends on the first fields of `Report` and their order.
    ("report.json", "{\n  \"program\": \"sstfilter\",\n  \"command\": \"sstfilter report "),
];

/// Writes the report. The answer is no if a table is damaged, and a failure if one cannot be read.
///
/// `options` are the command line options for reading tables.
pub(crate) fn run(
    args: &ReportArgs,
    options: &str,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, Report)> {
    // Checked first: minutes of work must not end at a directory that cannot be written.
    let files = args.out.as_deref().map(|out| OwnFiles::prepare(out, FILES)).transpose()?;
    let mut survey = Survey::new(&args.paths, reading)?;
    let absent = match &args.absent {
        Some(path) => AbsentKeys::given(path, format)?,
        None => AbsentKeys::drawn(&mut survey, reading),
    };
    let rates = measure(&mut survey, &absent, reading);
    let filters: Vec<TableFilter> = survey.filters.iter().map(|(_, filter)| *filter).collect();
    let settings = TablesReport::new(&filters, None, core::mem::take(&mut survey.left_out));
    let (outcome, chart) = (survey.outcome(), chart::chart(&survey.filters));
    let mut report = Report::new(args, options, survey, &absent, rates, settings);
    if let Some(files) = files {
        let contents = [page::html(&report, chart.as_ref())?, serde_json::to_string_pretty(&report)? + "\n"];
        report.files = files.write(&contents)?;
    }
    Ok((outcome, report))
}

impl Report {
    fn new(
        args: &ReportArgs,
        options: &str,
        survey: Survey,
        absent: &AbsentKeys,
        rates: Vec<Rate>,
        settings: TablesReport,
    ) -> Self {
        let levels = levels::of_each(&survey.tables, absent.len());
        let (notes, remarks) =
            remarks::of_all(&survey, options).into_iter().partition(|remark| remark.state == State::Ok);
        let keys: u64 = levels.iter().map(|level| level.keys).sum();
        let bits: f64 = levels.iter().filter_map(|level| level.bits_per_key.map(|bits| bits * level.keys as f64)).sum();
        let paths = args.paths.iter().map(|path| format!(" {}", shell_word(path)));
        let mut report = Self {
            program: "sstfilter",
            command: String::new(),
            words: [options.to_owned(), paths.collect()],
            version: env!("CARGO_PKG_VERSION"),
            date: today(),
            files: Vec::new(),
            tables: survey.tables.len(),
            bytes: survey.tables.iter().map(|table| table.bytes).sum(),
            entries: levels::sum_of_known(levels.iter().map(|level| level.entries)),
            filter_bytes: levels.iter().map(|level| level.filter_bytes).sum(),
            bits_per_key: (keys > 0).then(|| bits / keys as f64),
            findings: Vec::new(),
            levels,
            remarks,
            notes,
            orphans: survey.orphans,
            absent_keys: absent.len(),
            absent_from: absent.from.clone(),
            rates,
            settings,
            per_table: survey.tables,
            skipped: survey.skipped,
        };
        let absent = args.absent.iter().map(|path| format!(" --absent {}", shell_word(path)));
        // Filled in last, because they are derived from the other fields.
        report.command = report.command_on_all("report", &absent.collect::<String>());
        report.findings = report.findings();
        report
    }

    /// Returns a command on all tables, with an option before their paths.
    fn command_on_all(&self, command: &str, option: &str) -> String {
        let [options, paths] = &self.words;
        format!("sstfilter {command}{options}{option}{paths}")
    }

    /// Returns the tables that need a look, and those with another kind of filter than requested.
    fn remarks(&self) -> (&[Remark], &[Remark]) {
        self.remarks.split_at(self.remarks.partition_point(|remark| remark.state.is_bad()))
    }

    fn findings(&self) -> Vec<String> {
        let (bad, fallbacks) = self.remarks();
        let (count, tables) = (grouped(bad.len() as u64), grouped(self.tables as u64));
        let states = State::counts(bad.iter().map(|remark| remark.state));
        let states = if bad.is_empty() { states } else { format!(" ({states})") };
        let mut findings = vec![format!("Tables that need a look: {count} of {tables}{states}.")];
        if let Some(first) = fallbacks.first() {
            let (count, Remark { path, reason, .. }) = (counted(fallbacks.len() as u64, "table"), first);
            findings.push(format!("Another kind of filter than requested: {count} (the first: {path}: {reason})."));
        }
        if let Some(first) = self.orphans.first() {
            let count = grouped(self.orphans.len() as u64);
            findings
                .push(format!("Orphan sidecars, whose tables are gone: {count} (the first: {first}). Delete them."));
        }
        if self.per_table.iter().any(|table| table.overview.format.ends_with("table")) {
            let command = self.command_on_all("verify", "");
            findings.push(format!("Data blocks were not checked: `{command}` checks them."));
        }
        findings.extend(self.useless_reads());
        findings.extend(self.rates.iter().filter(|rate| rate.is_high()).take(LISTED).map(Rate::warning));
        findings.extend(self.settings.conclusion().map(|conclusion| sentence(&conclusion)));
        findings
    }
}

impl Report {
    /// Returns a sentence on the reads of an absent key, if they were measured.
    fn useless_reads(&self) -> Option<String> {
        let sum = |reads: fn(&LevelRow) -> Option<f64>| self.levels.iter().map(reads).sum::<Option<f64>>();
        let (reads, unfiltered) = (sum(|level| level.useless_reads)?, sum(|level| level.unfiltered_reads)?);
        let because = if unfiltered > 0.0 {
            format!(", {unfiltered:.3} of them because a filter is missing or cannot be used")
        } else {
            String::new()
        };
        Some(format!("On average, a lookup of an absent key reads {reads:.3} tables needlessly{because}."))
    }

    /// Writes a line and commands for each state and reason.
    fn write_groups(&self, f: &mut fmt::Formatter<'_>, remarks: &[Remark]) -> fmt::Result {
        for of_state in remarks.chunk_by(|one, other| one.state == other.state) {
            let groups = Group::of(of_state);
            for group in groups.iter().take(LISTED_GROUPS) {
                writeln!(f, "- {}", group.line())?;
                group.commands(&self.words).iter().try_for_each(|command| writeln!(f, "    {command}"))?;
                if of_state[0].state != State::Ok {
                    writeln!(f, "    {}", group.advice())?;
                }
            }
            let more: usize = groups.iter().skip(LISTED_GROUPS).map(|Group(tables)| tables.len()).sum();
            if more > 0 {
                let (more, state) = (counted(more as u64, "more table"), of_state[0].state.name());
                writeln!(
                    f,
                    "- {more}: {state}, for other reasons: {}",
                    self.command_on_all("inspect", " --only-problems")
                )?;
            }
        }
        Ok(())
    }
}

fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

/// Maximum number of rates in the summary.
const LISTED: usize = 10;

/// Maximum number of reasons in the summary, for each state.
const LISTED_GROUPS: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = counted(self.tables as u64, "table");
        let entries = self.entries.map_or_else(|| "an unknown number of".to_owned(), grouped);
        let bits = self.bits_per_key.map(|bits| format!(", {bits:.2} bits per key")).unwrap_or_default();
        writeln!(
            f,
            "{tables} of {}, {entries} entries; filters of {}{bits}\n",
            bytes(self.bytes),
            bytes(self.filter_bytes)
        )?;
        writeln!(f, "{}", figures(&levels::COLUMNS, &self.levels))?;
        if !self.rates.is_empty() {
            writeln!(f, "{}\n{}", figures(&rates::COLUMNS, &self.rates), rates::ABOUT)?;
        }
        writeln!(f, "{}\n", sentence(&self.absent_from))?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
        let (bad, _) = self.remarks();
        self.write_groups(f, bad)?;
        self.write_groups(f, &self.notes)?;
        match self.files.as_slice() {
            [] => writeln!(f, "\npass --out FOLDER to write the whole report as a page"),
            files => files.iter().try_for_each(|file| writeln!(f, "wrote {file}")),
        }
    }
}
