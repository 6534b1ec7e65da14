//! What is printed when the report is written.

use core::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::articles::Verdict;
use super::data::Report;
use crate::units::counted;

/// The report in a few lines.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    files: Vec<PathBuf>,
    filters: Vec<&'static str>,
    figures: usize,
    article_rows: usize,
    article_rows_that_differ: usize,
    omissions: usize,
    findings: Vec<String>,
    seconds: f64,
}

impl Summary {
    pub(super) fn new(report: &Report, files: Vec<PathBuf>) -> Self {
        Self {
            files,
            filters: report.filters.iter().map(|filter| filter.name).collect(),
            figures: report.rates.len() + report.by_keys.len() + report.overfill.len(),
            article_rows: report.articles.len(),
            article_rows_that_differ: report.articles.iter().filter(|row| row.verdict == Verdict::Differs).count(),
            omissions: report.omissions.len(),
            findings: report.findings.clone(),
            seconds: report.seconds,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} in {:.0} s: {}\n",
            counted(self.filters.len() as u64, "filter"),
            self.seconds,
            self.filters.join(", ")
        )?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "- {finding}"))?;
        let (rows, differing) = (counted(self.article_rows as u64, "published figure"), self.article_rows_that_differ);
        writeln!(f, "- {rows} measured; {differing} of them differ from ours.")?;
        if self.omissions > 0 {
            let figures = counted(self.omissions as u64, "figure");
            writeln!(f, "- {figures} left out, with the reason in the report.")?;
        }
        writeln!(f)?;
        self.files.iter().try_for_each(|file| writeln!(f, "wrote {}", file.display()))
    }
}
