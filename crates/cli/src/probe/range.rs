//! `sstfilter probe --range` and `--ranges`: which files may contain a key of a range, by their smallest and largest
//! keys and by their range filters.

use core::fmt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::{BlockError, KeyRange, KindId};
use sstfilter_interop::ManifestFile;
use sstfilter_range::RangeFilter;
use sstfilter_table::Table;

use super::ProbeArgs;
use super::file::Answers;
use super::listing::{self, Answer, Touched};
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{ForeignTable, Opened, Reading};
use crate::output::{Column, Outcome, Output, Text, explained, figures, in_options, note};
use crate::progress::Progress;
use crate::units::{counted, grouped};
use crate::{input, ranges};

/// The ends of a range.
#[derive(Debug)]
pub(crate) struct Ends {
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl Ends {
    fn new(lower: Vec<u8>, upper: Vec<u8>) -> anyhow::Result<Self> {
        ensure!(lower < upper, "expected LOWER below UPPER in the order of bytes (UPPER itself is not in the range)");
        Ok(Self { lower, upper })
    }

    pub(crate) fn parse(option: &str, ends: [&OsString; 2], format: KeysFormat) -> anyhow::Result<Self> {
        let end = |end: &OsString| {
            format.parse_argument(end).with_context(|| format!("{option} '{}'", Text(end.as_encoded_bytes().to_vec())))
        };
        Self::new(end(ends[0])?, end(ends[1])?).with_context(|| option.to_owned())
    }

    /// Reads the ranges of the file at `path`, or of standard input.
    pub(super) fn read(path: &Path, format: KeysFormat) -> anyhow::Result<Vec<Self>> {
        let lines = KeyLines::read(path, format, "--ranges")?;
        let is_paired = format == KeysFormat::Nul;
        let ends = lines.len();
        ensure!(!is_paired || ends.is_multiple_of(2), "--ranges: expected two ends for each range, got {ends} ends");
        let count = if is_paired { ends / 2 } else { ends };
        // Positions of ranges are kept as `u32`, like those of keys.
        ensure!(u32::try_from(count).is_ok(), "--ranges: expected less than 2^32 ranges: split the file");
        let separator = if is_paired { "NUL" } else { "tab" };
        let range = |number: usize| {
            let (lower, upper) = match lines.entry(if is_paired { 2 * number } else { number }) {
                (lower, _) if is_paired => (lower, lines.entry(2 * number + 1).0),
                line => line,
            };
            let (range, [from, to]) = (grouped(number as u64 + 1), [lower, upper].map(|end| Text(end.to_vec())));
            // No key is below the empty key, so no range ends there.
            ensure!(
                !upper.is_empty(),
                "--ranges: range {range}: expected LOWER and UPPER, separated by a {separator}, got '{from}' without UPPER"
            );
            let ends = Self::new(lower.to_vec(), upper.to_vec());
            ends.with_context(|| format!("--ranges: range {range}, from '{from}' to '{to}'"))
        };
        (0..count).map(range).collect()
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::from(self.lower.as_slice()..self.upper.as_slice())
    }

    /// Returns the range in the format of a file, without its terminator.
    fn encoded(&self, format: KeysFormat) -> Vec<u8> {
        let separator: &[u8] = if format == KeysFormat::Nul { b"\0" } else { b"\t" };
        [&format.encoded(&self.lower), separator, &format.encoded(&self.upper)].concat()
    }
}

/// What shows that a file contains no key of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SkippedBy {
    /// The smallest and largest key exclude the range.
    Keys,
    RangeFilter,
}

/// A file, and its answer for each range: `None` if the file may contain a key of the range.
struct Probed {
    format: &'static str,
    /// The map from keys to codes, `none` or `unusable`.
    range_filter: &'static str,
    /// Why the range filter has no answers.
    problem: Option<String>,
    outcome: Outcome,
    answers: Vec<Option<SkippedBy>>,
}

impl Probed {
    fn new(path: &Path, all: &[Ends], reading: Reading<'_>) -> Self {
        match Opened::open(path, reading) {
            Ok(Opened::RangeFilter(block)) => {
                let filter = block.load(&reading.context());
                let found = Self::of_filter("filter block", filter.as_ref());
                found.answering(all, |ends| {
                    let is_absent = filter.as_ref().is_ok_and(|filter| !filter.may_contain_range(ends.range()));
                    is_absent.then_some(SkippedBy::RangeFilter)
                })
            }
            Ok(Opened::Table(table)) => Self::of_table(&table, all),
            Ok(Opened::Foreign(table)) => Self::of_foreign(&table, reading.manifests.file(path).as_ref(), all),
            Ok(Opened::FilterBlock(_) | Opened::Partitions(_)) => Self::without_filter("filter block").silent(all),
            Err(unopened) => Self::unusable("none", explained(&unopened.reason), unopened.outcome).silent(all),
        }
    }

    fn of_table(table: &Table, all: &[Ends]) -> Self {
        let filters = table.filters();
        let found = match (filters.range_problem(), filters.range_filter()) {
            (Some(problem), _) => {
                Self::unusable("table", in_options(&problem), Outcome::from_sound(problem.is_foreign()))
            }
            (None, Some(filter)) => Self::of_filter("table", Ok(&filter)),
            (None, None) => Self::without_filter("table"),
        };
        let bounds = table.properties().filters.key_bounds();
        found.answering(all, |ends| {
            let is_within = bounds.is_some_and(|(smallest, largest)| {
                smallest < ends.upper.as_slice() && ends.lower.as_slice() <= largest
            });
            // The table checks its bounds before its filter, which is not probed outside of them.
            let answer = if is_within { SkippedBy::RangeFilter } else { SkippedBy::Keys };
            (!filters.may_contain_range(ends.range())).then_some(answer)
        })
    }

    /// Probes another engine's table, which has no range filter, by the bounds in its database's manifest.
    fn of_foreign(table: &ForeignTable, file: Option<&ManifestFile>, all: &[Ends]) -> Self {
        let range = file.and_then(|file| table.bounds(file));
        Self::without_filter(table.engine().name()).answering(all, |ends| {
            // Unknown bounds exclude nothing.
            let meets = range.as_ref().is_none_or(|range| range.meets(&ends.lower, &ends.upper));
            (!meets).then_some(SkippedBy::Keys)
        })
    }

    fn answering(self, all: &[Ends], answer: impl Fn(&Ends) -> Option<SkippedBy>) -> Self {
        Self { answers: all.iter().map(answer).collect(), ..self }
    }

    /// Answers that the file may contain a key of every range.
    fn silent(self, all: &[Ends]) -> Self {
        self.answering(all, |_| None)
    }

    fn of_filter<D: AsRef<[u8]>>(format: &'static str, filter: Result<&RangeFilter<D>, &BlockError>) -> Self {
        match filter {
            Ok(filter) => {
                let range_filter = ranges::map_name(&filter.info());
                Self { range_filter, problem: None, ..Self::without_filter(format) }
            }
            Err(problem) => Self::unusable(format, in_options(problem), ranges::outcome_of(problem)),
        }
    }

    fn without_filter(format: &'static str) -> Self {
        let problem = Some(format!("it has no {} filter", KindId::RANGE));
        Self { format, range_filter: "none", problem, outcome: Outcome::Yes, answers: Vec::new() }
    }

    fn unusable(format: &'static str, problem: String, outcome: Outcome) -> Self {
        Self { range_filter: "unusable", problem: Some(problem), outcome, ..Self::without_filter(format) }
    }

    fn count(&self, answer: Option<SkippedBy>) -> u64 {
        self.answers.iter().filter(|&&found| found == answer).count() as u64
    }

    /// Returns the file at `path` with its answers. A problem of its filter is left out if its bounds alone excluded
    /// every range.
    fn answered<A>(self, path: &Path, answers: A) -> FileAnswers<A> {
        let is_answered = self.outcome == Outcome::Yes && self.count(None) == 0;
        let Self { format, range_filter, problem, .. } = self;
        let problem = problem.filter(|_| !is_answered);
        FileAnswers { path: input::name(path).into_owned(), format, range_filter, answers, problem }
    }
}

#[derive(Debug, Serialize)]
struct FileAnswers<A> {
    path: String,
    format: &'static str,
    range_filter: &'static str,
    #[serde(flatten)]
    answers: A,
    /// Why the range filter excluded nothing.
    problem: Option<String>,
}

impl<A> FileAnswers<A> {
    /// Returns the problem in a line that names the file once.
    fn remark(&self) -> Option<String> {
        let (path, problem) = (&self.path, self.problem.as_ref()?);
        Some(if problem.contains(path) { problem.clone() } else { format!("{path}: {problem}") })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct RangeReport {
    lower: Text,
    /// Exclusive.
    upper: Text,
    tables: usize,
    /// Tables that may contain a key of the range.
    touched: usize,
    per_table: Vec<FileAnswers<OneAnswer>>,
}

#[derive(Debug, Serialize)]
struct OneAnswer {
    may_contain_range: bool,
    /// What shows that the file contains no key of the range; null if it may contain one.
    skipped_by: Option<SkippedBy>,
}

/// Probes all files for one range. The answer is no if a file is damaged, and a failure if one cannot be read; both may
/// contain a key of the range.
pub(super) fn run_one(paths: &[PathBuf], ends: Ends, reading: Reading<'_>) -> (Outcome, RangeReport) {
    let (mut outcome, mut per_table) = (Outcome::Yes, Vec::new());
    for path in paths {
        let found = Probed::new(path, core::slice::from_ref(&ends), reading);
        outcome = outcome.max(found.outcome);
        let skipped_by = found.answers.first().copied().flatten();
        per_table.push(found.answered(path, OneAnswer { may_contain_range: skipped_by.is_none(), skipped_by }));
    }
    let report = RangeReport {
        tables: per_table.len(),
        touched: per_table.iter().filter(|file| file.answers.may_contain_range).count(),
        per_table,
        lower: Text(ends.lower),
        upper: Text(ends.upper),
    };
    (outcome, report)
}

impl OneAnswer {
    const fn text(&self) -> &'static str {
        match self.skipped_by {
            None => "may be present",
            Some(SkippedBy::Keys) => "absent, by its smallest and largest key",
            Some(SkippedBy::RangeFilter) => "absent, by its range filter",
        }
    }
}

impl fmt::Display for RangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<FileAnswers<OneAnswer>>; 4] = [
            ("table", |file| listing::file_name(&file.path)),
            ("format", |file| file.format.to_owned()),
            ("range filter", |file| file.range_filter.to_owned()),
            ("answer", |file| file.answers.text().to_owned()),
        ];
        writeln!(f, "{}", figures(&columns, &self.per_table))?;
        self.per_table.iter().filter_map(FileAnswers::remark).try_for_each(|remark| writeln!(f, "{remark}"))?;
        let (tables, Self { lower, upper, touched, .. }) = (counted(self.tables as u64, "table"), self);
        writeln!(f, "from {lower} (inclusive) to {upper} (exclusive): {touched} of {tables} may contain a key")
    }
}

#[derive(Debug, Serialize)]
struct RangesReport {
    ranges: usize,
    tables: usize,
    ranges_touching_none: usize,
    min_tables_per_range: u32,
    mean_tables_per_range: f64,
    max_tables_per_range: u32,
    per_table: Vec<FileAnswers<Counts>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<Answer<SoughtRange>>>,
}

#[derive(Debug, Serialize)]
struct SoughtRange {
    lower: Text,
    upper: Text,
}

/// The number of ranges that a file may contain a key of, and what excludes the others.
#[derive(Debug, Serialize)]
struct Counts {
    skipped_by_keys: u64,
    skipped_by_range_filter: u64,
    positives: u64,
}

/// Probes all files for all ranges, and prints a summary or a listing.
pub(super) fn run_all(
    paths: &[PathBuf],
    all: &[Ends],
    args: &ProbeArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (mut outcome, mut per_table, mut answers) = (Outcome::Yes, Vec::new(), Vec::new());
    let (mut touched, mut progress) = (vec![0; all.len()], Progress::new("probing range filters", paths.len() as u64));
    for path in paths {
        let found = Probed::new(path, all, reading);
        outcome = outcome.max(found.outcome);
        let may_contain_range =
            Answers::from_positions((0..).zip(&found.answers).filter(|(_, answer)| answer.is_none()));
        may_contain_range.count_into(&mut touched);
        answers.push((may_contain_range, if found.problem.is_some() { Answers::All } else { Answers::NONE }));
        let counts = Counts {
            skipped_by_keys: found.count(Some(SkippedBy::Keys)),
            skipped_by_range_filter: found.count(Some(SkippedBy::RangeFilter)),
            positives: found.count(None),
        };
        per_table.push(found.answered(path, counts));
        progress.step();
    }
    let names: Vec<_> = per_table.iter().map(|file| file.path.clone()).collect();
    let tables =
        names.iter().zip(&answers).map(|(name, (positives, unanswered))| (name.as_str(), positives, unanswered));
    let found = Touched::new(&touched, tables, args.detail());
    match args.listing() {
        Some(listing) if !output.is_json => {
            per_table.iter().filter_map(FileAnswers::remark).for_each(|remark| note(&remark));
            listing.print(&found, |position| all[position].encoded(format), format, output)?;
            Ok(outcome)
        }
        listing => {
            let answers = listing.map(|listing| listing.answers(&found, |position| SoughtRange::new(&all[position])));
            output.report((outcome, RangesReport::new(&touched, per_table, answers)))
        }
    }
}

impl SoughtRange {
    fn new(ends: &Ends) -> Self {
        Self { lower: Text(ends.lower.clone()), upper: Text(ends.upper.clone()) }
    }
}

impl RangesReport {
    fn new(touched: &[u32], per_table: Vec<FileAnswers<Counts>>, answers: Option<Vec<Answer<SoughtRange>>>) -> Self {
        let sum: u64 = touched.iter().copied().map(u64::from).sum();
        Self {
            ranges: touched.len(),
            tables: per_table.len(),
            ranges_touching_none: touched.iter().filter(|&&tables| tables == 0).count(),
            min_tables_per_range: touched.iter().min().copied().unwrap_or_default(),
            mean_tables_per_range: sum as f64 / touched.len() as f64,
            max_tables_per_range: touched.iter().max().copied().unwrap_or_default(),
            per_table,
            answers,
        }
    }
}

impl fmt::Display for RangesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<FileAnswers<Counts>>; 6] = [
            ("table", |file| listing::file_name(&file.path)),
            ("format", |file| file.format.to_owned()),
            ("range filter", |file| file.range_filter.to_owned()),
            ("absent by its keys", |file| grouped(file.answers.skipped_by_keys)),
            ("by its filter", |file| grouped(file.answers.skipped_by_range_filter)),
            ("may be present", |file| grouped(file.answers.positives)),
        ];
        writeln!(f, "{}", figures(&columns, &self.per_table))?;
        self.per_table.iter().filter_map(FileAnswers::remark).try_for_each(|remark| writeln!(f, "{remark}"))?;
        let (ranges, tables) = (counted(self.ranges as u64, "range"), counted(self.tables as u64, "table"));
        writeln!(f, "{ranges} over {tables}")?;
        let Self { mean_tables_per_range: mean, min_tables_per_range: min, max_tables_per_range: max, .. } = self;
        writeln!(f, "tables touched per range: {mean:.3} on average ({min} to {max})")?;
        let none = grouped(self.ranges_touching_none as u64);
        writeln!(f, "ranges certainly without a key in any table: {none}")
    }
}
