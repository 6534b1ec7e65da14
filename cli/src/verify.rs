//! `sstfilter verify`: everything read, every checksum compared, all damage listed.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use sstfilter::sst::{FilterVerdict, Table, TableError};
use sstfilter::{FilterBlock, KeyHasher};

use crate::files::{self, Look};
use crate::output::{Outcome, explained, in_options};
use crate::{input, progress, units};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Tables, bare filter blocks, or directories of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
pub(crate) struct VerifyReport {
    sound: bool,
    checked: usize,
    damaged: usize,
    unreadable: usize,
    entries: u64,
    files: Vec<FileVerdict>,
    /// Files of directories that are neither tables nor filter blocks.
    skipped: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct FileVerdict {
    path: String,
    entries: u64,
    problems: Vec<String>,
    /// Why the filter was not compared with the keys, where it was not.
    filter_not_asked: Option<String>,
    #[serde(skip)]
    is_unreadable: bool,
}

/// The answer is no when anything is damaged.
pub(crate) fn run(args: &VerifyArgs, secret: Option<&KeyHasher>) -> (Outcome, VerifyReport) {
    let (mut skipped, mut verdicts, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    for path in &args.paths {
        match files::expand(path, &mut skipped) {
            Ok(files) => chosen.extend(files),
            Err(problem) => verdicts.push(FileVerdict::unreadable(path, &problem)),
        }
    }
    let length = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let progress = progress::bytes("verifying", chosen.iter().map(length).sum());
    for file in &chosen {
        verdicts.push(FileVerdict::new(file, secret));
        progress.inc(length(file));
    }
    let report = VerifyReport::new(verdicts, skipped);
    let outcome = if report.unreadable > 0 { Outcome::Failed } else { Outcome::from_sound(report.sound) };
    (outcome, report)
}

impl FileVerdict {
    fn new(path: &Path, secret: Option<&KeyHasher>) -> Self {
        let mut verdict = Self { path: input::name(path).into_owned(), ..Self::default() };
        match files::look_at(path) {
            Err(problem) => return Self::unreadable(path, &problem),
            Ok(Look::FilterBlock) => verdict.verify_block(path),
            Ok(Look::Neither) if !files::has_table_extension(path) => verdict.problems.push(files::NEITHER.to_owned()),
            Ok(Look::Table | Look::Neither) => match files::open_table(path, secret) {
                Err(problem) => match problem.downcast_ref() {
                    Some(problem) => verdict.add(problem),
                    None => return Self::unreadable(path, &problem),
                },
                Ok(table) => verdict.verify_table(&table),
            },
        }
        verdict
    }

    fn unreadable(path: &Path, problem: &anyhow::Error) -> Self {
        let problems = vec![explained(problem)];
        Self { path: input::name(path).into_owned(), problems, is_unreadable: true, ..Self::default() }
    }

    fn verify_block(&mut self, path: &Path) {
        let verify = |data| {
            let block = FilterBlock::open_unverified(data)?;
            block.verify().map(|()| block.info().keys)
        };
        match input::whole(path).map(verify) {
            Ok(Ok(keys)) => self.entries = keys,
            Ok(Err(problem)) => self.problems.push(problem.to_string()),
            Err(error) => {
                self.is_unreadable = true;
                self.problems.push(explained(&error));
            }
        }
    }

    /// Of an unsound table, filter, index and data are checked one by one, so that damage to one does not hide damage
    /// to another.
    fn verify_table(&mut self, table: &Table) {
        match table.verify() {
            Ok(report) => {
                self.entries = report.entries;
                if let FilterVerdict::NotProbed { reason } = report.filter {
                    self.filter_not_asked = Some(in_options(&reason));
                }
            }
            Err(first) => {
                self.add(&first);
                table.filter_problem().into_iter().for_each(|problem| self.add(problem));
                table.iter().find_map(Result::err).iter().for_each(|problem| self.add(problem));
            }
        }
    }

    fn add(&mut self, problem: &TableError) {
        self.is_unreadable |= files::is_unread(problem);
        let problem = in_options(problem);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl VerifyReport {
    fn new(files: Vec<FileVerdict>, skipped: Vec<String>) -> Self {
        let unreadable = files.iter().filter(|file| file.is_unreadable).count();
        let unsound = files.iter().filter(|file| !file.problems.is_empty()).count();
        Self {
            sound: unsound == 0,
            checked: files.len() - unreadable,
            damaged: unsound - unreadable,
            unreadable,
            entries: files.iter().map(|file| file.entries).sum(),
            files,
            skipped,
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            for problem in &file.problems {
                // Most problems name the file themselves.
                let path = if problem.contains(&file.path) { String::new() } else { format!("{}: ", file.path) };
                writeln!(f, "{path}{problem}")?;
            }
        }
        for file in &self.files {
            if let Some(reason) = &file.filter_not_asked {
                writeln!(f, "{}: sound, but the filter was not compared with the keys: {reason}", file.path)?;
            }
        }
        for file in &self.skipped {
            let is_leftover = files::is_leftover(Path::new(file));
            let why = if is_leftover { "left over by a build that was killed" } else { files::NEITHER };
            writeln!(f, "{file}: skipped: {why}")?;
        }
        let (files, entries) = (units::counted(self.checked as u64, "file"), units::grouped(self.entries));
        let Self { damaged, unreadable, .. } = self;
        writeln!(f, "{files} checked, {entries} entries: {damaged} damaged, {unreadable} unreadable")
    }
}
