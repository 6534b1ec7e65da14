//! `sstfilter probe --range`: which files may hold a key between two ends, by their range filters.

use core::fmt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;
use sstfilter::{BlockError, KindId};
use sstfilter_interop::ManifestFile;
use sstfilter_range::{KeyRange, RangeFilter};
use sstfilter_table::Table;

use super::listing;
use crate::lines::KeysFormat;
use crate::opened::{ForeignTable, Opened, Reading};
use crate::output::{Column, Outcome, Text, explained, figures, in_options};
use crate::units::counted;
use crate::{input, ranges};

#[derive(Debug, Serialize)]
pub(super) struct RangeReport {
    lower: Text,
    /// The range ends before it.
    upper: Text,
    tables: usize,
    /// Tables that may hold a key of the range.
    touched: usize,
    per_table: Vec<FileAnswer>,
}

#[derive(Debug, Serialize)]
struct FileAnswer {
    path: String,
    format: &'static str,
    /// How keys became codes; `none` or `unusable`.
    range_filter: &'static str,
    may_contain_range: bool,
    /// Why there is no answer but "may be present".
    problem: Option<String>,
    #[serde(skip)]
    outcome: Outcome,
}

/// The ends of `--range`.
#[derive(Debug)]
pub(crate) struct Ends {
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl Ends {
    pub(crate) fn parse(option: &str, ends: [&OsString; 2], format: KeysFormat) -> anyhow::Result<Self> {
        let end = |end: &OsString| {
            format.parse_argument(end).with_context(|| format!("{option} '{}'", Text(end.as_encoded_bytes().to_vec())))
        };
        let (lower, upper) = (end(ends[0])?, end(ends[1])?);
        ensure!(lower < upper, "{option}: expected LOWER below UPPER, before which the range ends");
        Ok(Self { lower, upper })
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::from(self.lower.as_slice()..self.upper.as_slice())
    }
}

/// The answer is no when a file is damaged, and a failure when one cannot be read; both may hold a key of the range.
pub(super) fn run(paths: &[PathBuf], ends: Ends, reading: Reading<'_>) -> (Outcome, RangeReport) {
    let answers: Vec<_> = paths.iter().map(|path| FileAnswer::new(path, &ends, reading)).collect();
    let outcome = answers.iter().map(|answer| answer.outcome).max().unwrap_or(Outcome::Yes);
    let touched = answers.iter().filter(|answer| answer.may_contain_range).count();
    let report = RangeReport {
        tables: answers.len(),
        touched,
        per_table: answers,
        lower: Text(ends.lower),
        upper: Text(ends.upper),
    };
    (outcome, report)
}

impl FileAnswer {
    fn new(path: &Path, ends: &Ends, reading: Reading<'_>) -> Self {
        let answer = match Opened::open(path, reading) {
            Ok(Opened::RangeFilter(block)) => Self::of_filter("filter block", block.load(reading).as_ref(), ends),
            Ok(Opened::Table(table)) => Self::of_table(&table, ends),
            Ok(Opened::Foreign(table)) => Self::of_foreign(&table, reading.manifests.file(path).as_ref(), ends),
            Ok(Opened::FilterBlock(_) | Opened::Partitions(_)) => Self::without_filter("filter block"),
            Err(unopened) => Self::unusable("none", explained(&unopened.reason), unopened.outcome),
        };
        Self { path: input::name(path).into_owned(), ..answer }
    }

    /// The smallest and the largest key answer, too.
    fn of_table(table: &Table, ends: &Ends) -> Self {
        let found = match (table.filters().range_problem(), table.filters().range_filter()) {
            (Some(problem), _) => {
                Self::unusable("table", in_options(&problem), Outcome::from_sound(problem.is_foreign()))
            }
            (None, Some(filter)) => Self::of_filter("table", Ok(&filter), ends),
            (None, None) => Self::without_filter("table"),
        };
        let may_contain_range = found.may_contain_range && table.filters().may_contain_range(ends.range());
        found.within(may_contain_range)
    }

    /// It has no range filter, but its database's manifest may have its bounds.
    fn of_foreign(table: &ForeignTable, file: Option<&ManifestFile>, ends: &Ends) -> Self {
        let range = file.and_then(|file| table.key_range(file));
        let meets = range.is_none_or(|range| range.meets(&ends.lower, &ends.upper));
        Self::without_filter(table.engine().name()).within(meets)
    }

    /// The same with the answer of the bounds, which needs no filter if it is no.
    fn within(self, may_contain_range: bool) -> Self {
        let is_answered = self.outcome == Outcome::Yes && !may_contain_range;
        let problem = self.problem.filter(|_| !is_answered);
        Self { may_contain_range, problem, ..self }
    }

    fn of_filter<D: AsRef<[u8]>>(
        format: &'static str,
        filter: Result<&RangeFilter<D>, &BlockError>,
        ends: &Ends,
    ) -> Self {
        match filter {
            Ok(filter) => Self {
                range_filter: ranges::map_name(&filter.info()),
                may_contain_range: filter.may_contain_range(ends.range()),
                problem: None,
                ..Self::without_filter(format)
            },
            Err(problem) => Self::unusable(format, in_options(problem), ranges::outcome_of(problem)),
        }
    }

    fn without_filter(format: &'static str) -> Self {
        let problem = Some(format!("it has no {} filter", KindId::RANGE));
        let (range_filter, outcome) = ("none", Outcome::Yes);
        Self { path: String::new(), format, range_filter, may_contain_range: true, problem, outcome }
    }

    fn unusable(format: &'static str, problem: String, outcome: Outcome) -> Self {
        Self { range_filter: "unusable", problem: Some(problem), outcome, ..Self::without_filter(format) }
    }
}

impl fmt::Display for RangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<FileAnswer>; 4] = [
            ("table", |file| listing::file_name(&file.path)),
            ("format", |file| file.format.to_owned()),
            ("range filter", |file| file.range_filter.to_owned()),
            ("answer", |file| if file.may_contain_range { "may be present" } else { "absent" }.to_owned()),
        ];
        writeln!(f, "{}", figures(&columns, &self.per_table))?;
        for file in &self.per_table {
            if let Some(problem) = &file.problem {
                let path = if problem.contains(&file.path) { String::new() } else { format!("{}: ", file.path) };
                writeln!(f, "{path}{problem}")?;
            }
        }
        let (tables, Self { lower, upper, touched, .. }) = (counted(self.tables as u64, "table"), self);
        writeln!(f, "from {lower} up to, but without {upper}: {touched} of {tables} may hold a key")
    }
}
