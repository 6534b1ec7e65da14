//! `sstfilter verify`: reads everything, compares every checksum, and lists all damage.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use sstfilter::{BlockError, FilterBlock};
use sstfilter_interop::{BlockState, Engine, Error};
use sstfilter_store::{FilterPart, FilterProblem, sidecar_path};
use sstfilter_table::{FilterVerdict, Table, TableError, TableLocation, TablePart};

use crate::files::{self, Found, Look};
use crate::groups::without_path;
use crate::opened::{self, Reading, Sidecar};
use crate::output::{Outcome, Text, explained, in_options};
use crate::progress::ReadProgress;
use crate::ranges::RangeBlock;
use crate::{input, units};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), bare filter blocks, or directories of them (not searched
    /// recursively). LevelDB's tables take their comparator from the MANIFEST next to them
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
    /// Partitions of all filters.
    partitions: u64,
    /// Number of sidecars that were made for another table.
    stale: usize,
    files: Vec<FileVerdict>,
    /// Sidecars without a table, which no reader uses.
    orphans: Vec<String>,
    /// Files of directories that are neither tables nor filter blocks.
    skipped: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct FileVerdict {
    path: String,
    /// Sound entries.
    entries: u64,
    /// Entries of a damaged table that could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries_missing: Option<u64>,
    /// Partitions of its filters.
    partitions: u64,
    problems: Vec<String>,
    /// Damage to the table's own filters, which those of a sound sidecar replace.
    replaced: Vec<String>,
    /// Why the sidecar is ignored, if it was made for another table; else null.
    stale_sidecar: Option<String>,
    /// Why the filter was not compared with the keys; null if it was.
    filter_not_asked: Option<String>,
    /// The engine that wrote the table, unless it is this library.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    /// Distinct keys of another engine's table that its filter was probed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys_probed: Option<u64>,
    /// The blocks of another engine's table.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<BlockCounts>,
    #[serde(skip)]
    is_unreadable: bool,
    #[serde(skip)]
    is_orphan: bool,
}

/// The number of blocks of another engine's table in each state.
#[derive(Debug, Default, Serialize)]
struct BlockCounts {
    sound: u64,
    /// Blocks without a checksum and without visible damage.
    without_checksum: u64,
    /// Blocks of an unknown format, with matching checksums.
    not_understood: u64,
    damaged: u64,
}

/// Verifies all files. The answer is no if anything is damaged, or if a sidecar was made for another table.
pub(crate) fn run(args: &VerifyArgs, reading: Reading<'_>) -> (Outcome, VerifyReport) {
    let (mut found, mut verdicts) = (Found::default(), Vec::new());
    for path in &args.paths {
        if let Err(problem) = found.add(path) {
            verdicts.push(FileVerdict::unreadable(path, &problem));
        }
    }
    let Found { files: mut chosen, orphans, skipped, .. } = found;
    chosen.extend(orphans);
    let length = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let progress = ReadProgress::new("verifying", chosen.iter().map(length).sum());
    let reading = Reading { progress: Some(&progress), ..reading };
    for file in &chosen {
        progress.begin(length(file));
        verdicts.push(FileVerdict::new(file, reading));
    }
    // Fills the bar to the end of the last file.
    progress.begin(0);
    let report = VerifyReport::new(verdicts, skipped);
    // An unread file outweighs damage, because its state is unknown.
    let outcome = if report.unreadable > 0 { Outcome::Failed } else { Outcome::from_sound(report.sound) };
    (outcome, report)
}

/// Whether the input has an end; a pipe or a device has none.
fn has_end(path: &Path) -> bool {
    input::is_standard(path) || input::length(path).is_some()
}

impl FileVerdict {
    fn new(path: &Path, reading: Reading<'_>) -> Self {
        let mut verdict = Self { path: input::name(path).into_owned(), ..Self::default() };
        match files::look_at(path) {
            Err(problem) => return Self::unreadable(path, &problem),
            Ok(Look::FilterBlock) => verdict.verify_block(path, point_filter_keys),
            Ok(Look::RangeFilter) => verdict.verify_block(path, range_filter_keys),
            Ok(Look::Partitions) => verdict.verify_partitions(path),
            Ok(Look::Sidecar) => verdict.verify_sidecar(path, reading),
            Ok(Look::Foreign(engine)) => verdict.verify_foreign(path, engine, reading),
            Ok(Look::Map) => return Self::unreadable(path, &files::is_a_map(path)),
            Ok(Look::Layers | Look::Neither) if !files::has_table_extension(path) || has_end(path) => {
                verdict.problems.push(files::neither(path));
            }
            // A pipe named like a table ends up here: the table's reader refuses it instead of waiting for it.
            Ok(Look::Table | Look::Layers | Look::Neither) => match files::open_table(path, reading.of_tables()) {
                Err(problem) => match problem.downcast_ref() {
                    Some(problem) => verdict.add(problem),
                    None => return Self::unreadable(path, &problem),
                },
                Ok(table) => verdict.verify_table(&table, path),
            },
        }
        verdict
    }

    fn unreadable(path: &Path, problem: &anyhow::Error) -> Self {
        let problems = vec![explained(problem)];
        Self { path: input::name(path).into_owned(), problems, is_unreadable: true, ..Self::default() }
    }

    /// Verifies a block with `verify`, which returns the number of its keys.
    fn verify_block(&mut self, path: &Path, verify: fn(Bytes) -> Result<u64, BlockError>) {
        match crate::file::open::whole(path).map(verify) {
            Ok(Ok(keys)) => self.entries = keys,
            Ok(Err(problem)) => self.problems.push(problem.to_string()),
            Err(error) => {
                self.is_unreadable = opened::outcome_of(&error) == Outcome::Failed;
                self.problems.push(explained(&error));
            }
        }
    }

    /// Verifies all partitions of a filter without a table, and all bytes between them.
    fn verify_partitions(&mut self, path: &Path) {
        let verified = opened::container(path).and_then(|container| {
            (self.entries, self.partitions) = (container.index.keys(), container.index.partitions().into());
            Ok(container.verify(container.index.file())?)
        });
        if let Err(problem) = verified {
            self.is_unreadable = opened::outcome_of(&problem) == Outcome::Failed;
            self.problems.push(explained(&problem));
        }
    }

    /// Verifies a sidecar's checksums, and whether it was made for the table next to it, if there is one. The
    /// verification of the table compares the filter with the keys.
    fn verify_sidecar(&mut self, path: &Path, reading: Reading<'_>) {
        match crate::file::open::whole(path).and_then(Sidecar::new) {
            Ok(sidecar) => {
                let verified = self.verify_filters(&sidecar);
                self.problems.extend(verified.err().map(|problem| problem.to_string()));
            }
            Err(problem) => {
                // A `FilterProblem` is damage; any other error is a failure to read.
                self.is_unreadable = !problem.is::<FilterProblem>();
                return self.problems.push(explained(&problem));
            }
        }
        self.is_orphan = files::is_orphan(path);
        let Some(table) = files::table_of_sidecar(path).filter(|table| table.is_file()) else { return };
        match files::open_table(&table, reading.of_tables()) {
            Ok(table) => table.sidecar_problem().into_iter().for_each(|problem| self.add_of_sidecar(problem)),
            Err(problem) => self.problems.push(explained(&problem)),
        }
    }

    fn verify_filters(&mut self, sidecar: &Sidecar) -> Result<(), FilterProblem> {
        if let Some(container) = sidecar.container()? {
            self.partitions = container.index.partitions().into();
            container.verify(Some(sidecar.metadata.file_id()))?;
        }
        let keys: [(_, fn(Bytes) -> _); 2] =
            [(FilterPart::Points, point_filter_keys), (FilterPart::Ranges, range_filter_keys)];
        for (part, keys) in keys {
            sidecar.filter(part).map_or(Ok(0), keys)?;
        }
        Ok(())
    }

    /// Adds a sidecar's problem. A sidecar that was built for other readers is sound.
    fn add_of_sidecar(&mut self, problem: &TableError) {
        if problem.is_foreign_filter() {
            self.filter_not_asked = Some(in_options(problem));
        } else {
            self.add(problem);
        }
    }

    fn verify_table(&mut self, table: &Table, path: &Path) {
        let (report, damage) = table.verify_all();
        let sidecar = sidecar_path(path);
        let is_in_sidecar = |at: &TableLocation| at.path.as_deref() == Some(sidecar.as_path());
        let is_replaced = table.uses_sidecar() && !damage.iter().filter_map(damaged_filter).any(is_in_sidecar);
        for problem in &damage {
            if is_replaced && damaged_filter(problem).is_some() {
                self.replaced.push(in_options(problem));
            } else {
                self.add(problem);
            }
        }
        self.entries = report.entries;
        self.entries_missing = table.properties().entries.checked_sub(report.entries).filter(|&missing| missing > 0);
        self.partitions = report.filter_partitions;
        for verdict in [report.sidecar, report.filter, report.range_filter] {
            if let FilterVerdict::NotProbed { reason } = verdict {
                self.filter_not_asked = Some(in_options(&reason));
            }
        }
    }

    fn add_unopened(&mut self, reason: &anyhow::Error) {
        let Some(problem) = reason.downcast_ref() else {
            self.is_unreadable = true;
            return self.problems.push(explained(reason));
        };
        self.add_foreign(problem);
        // Nothing of a file with an unknown version was verified, so it counts as unreadable.
        self.is_unreadable |= self.problems.is_empty();
        self.problems.extend(self.filter_not_asked.take());
    }

    /// Verifies every checksum of another engine's table, and compares its filter with its keys if they can be read.
    fn verify_foreign(&mut self, path: &Path, engine: Engine, reading: Reading<'_>) {
        self.engine = Some(engine.name());
        let mut table = match opened::foreign(path, reading) {
            Ok((table, _)) => table,
            Err(reason) => return self.add_unopened(&reason),
        };
        // An error here is found again below.
        table.confirm_by_keys().ok();
        let report = table.verify();
        let mut blocks = BlockCounts::default();
        for block in &report.blocks {
            match &block.state {
                BlockState::Sound => blocks.sound += 1,
                BlockState::NoChecksum => blocks.without_checksum += 1,
                BlockState::Unsupported(_) => blocks.not_understood += 1,
                BlockState::Damaged(problem) | BlockState::Unread(problem) => {
                    blocks.damaged += 1;
                    self.add_foreign(problem);
                }
                _ => {}
            }
        }
        self.add_lost(&report);
        self.blocks = Some(blocks);
        self.entries = table.properties().entries().unwrap_or(report.keys_checked);
        self.keys_probed = Some(report.keys_checked);
        self.filter_not_asked = report.keys_unchecked.as_ref().map(in_options);
    }

    fn add_lost(&mut self, report: &sstfilter_interop::ForeignReport) {
        if let Some(example) = report.lost_examples.first() {
            let (lost, checked) = (units::grouped(report.keys_lost), units::grouped(report.keys_checked));
            let example = Text(example.clone());
            self.problems
                .push(format!("the filter is negative for {lost} of {checked} stored keys, such as {example}"));
        }
    }

    fn add_foreign(&mut self, problem: &Error) {
        match opened::outcome_of_foreign(problem) {
            Outcome::Yes => self.filter_not_asked = Some(in_options(problem)),
            outcome => {
                self.is_unreadable |= outcome == Outcome::Failed;
                self.problems.push(problem.to_string());
            }
        }
    }

    fn add(&mut self, problem: &TableError) {
        if let TableError::Filter { source, .. } = problem
            && files::is_stale(problem)
        {
            self.stale_sidecar = Some(in_options(source));
            return;
        }
        self.is_unreadable |= files::is_unread(problem);
        self.problems.push(in_options(problem));
    }
}

/// Returns the location of a damaged filter; `None` if something else is damaged, or could not be read.
fn damaged_filter(problem: &TableError) -> Option<&TableLocation> {
    let (TableError::Checksum { at, .. }
    | TableError::Corrupt { at, .. }
    | TableError::Filter { at, .. }
    | TableError::FalseNegative { at, .. }) = problem
    else {
        return None;
    };
    let is_filter = matches!(at.part, TablePart::Filter | TablePart::FilterIndex | TablePart::RangeFilter);
    Some(at).filter(|_| is_filter && !files::is_unread(problem))
}

fn point_filter_keys(block: Bytes) -> Result<u64, BlockError> {
    let block = FilterBlock::open_unverified(block)?;
    block.verify().map(|()| block.info().keys)
}

fn range_filter_keys(block: Bytes) -> Result<u64, BlockError> {
    let block = RangeBlock::new(block)?;
    block.verify().map(|()| block.info.keys)
}

impl VerifyReport {
    fn new(files: Vec<FileVerdict>, skipped: Vec<String>) -> Self {
        // A damaged orphan counts as damaged.
        let is_orphan = |file: &FileVerdict| file.is_orphan && file.problems.is_empty();
        let (orphans, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_orphan);
        let unreadable = files.iter().filter(|file| file.is_unreadable).count();
        let unsound = files.iter().filter(|file| !file.problems.is_empty()).count();
        Self {
            sound: unsound == 0 && files.iter().all(|file| file.stale_sidecar.is_none()),
            checked: files.len() - unreadable,
            damaged: unsound - unreadable,
            unreadable,
            entries: files.iter().map(|file| file.entries).sum(),
            partitions: files.iter().map(|file| file.partitions).sum(),
            stale: files.iter().filter(|file| file.stale_sidecar.is_some()).count(),
            files,
            orphans: orphans.into_iter().map(|file| file.path).collect(),
            skipped,
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            for problem in &file.problems {
                writeln!(f, "{}: {}", file.path, without_path(problem, &file.path))?;
            }
            if let Some(missing) = file.entries_missing {
                let (missing, all) = (units::grouped(missing), units::grouped(file.entries + missing));
                writeln!(
                    f,
                    "{}: {missing} of {all} entries cannot be read: `dump --salvage` prints the others",
                    file.path
                )?;
            }
            for problem in &file.replaced {
                let problem = without_path(problem, &file.path);
                writeln!(
                    f,
                    "{}: the table's own filter is damaged, but a sound sidecar replaces it: {problem}",
                    file.path
                )?;
            }
            if let Some(problem) = &file.stale_sidecar {
                writeln!(f, "{}: stale sidecar: {problem}", file.path)?;
            }
        }
        for file in &self.files {
            if let Some(reason) = &file.filter_not_asked {
                let sound = if file.problems.is_empty() { "sound, but the" } else { "the" };
                let keys = if file.keys_probed.unwrap_or(0) > 0 { "all keys" } else { "the keys" };
                writeln!(f, "{}: {sound} filter was not compared with {keys}: {reason}", file.path)?;
            }
        }
        for file in &self.orphans {
            writeln!(f, "{file}: orphan: {}", files::ORPHAN)?;
        }
        for file in &self.skipped {
            let is_leftover = files::is_leftover(Path::new(file));
            let why = if is_leftover { "left by a command that was killed, or is running" } else { files::NEITHER };
            writeln!(f, "{file}: skipped: {why}")?;
        }
        let (files, entries) = (units::counted(self.checked as u64, "file"), units::grouped(self.entries));
        let Self { damaged, unreadable, .. } = self;
        let partitions = match self.partitions {
            0 => String::new(),
            partitions => format!(", {}", units::counted(partitions, "partition")),
        };
        let counted = |count: usize, what| match count as u64 {
            0 => String::new(),
            count => format!(", {}", units::counted(count, what)),
        };
        let replaced = self.files.iter().filter(|file| !file.replaced.is_empty()).count();
        let replaced = counted(replaced, "damaged filter") + if replaced > 0 { " replaced by a sidecar" } else { "" };
        let (stale, orphans) = (counted(self.stale, "stale sidecar"), counted(self.orphans.len(), "orphan"));
        writeln!(
            f,
            "{files} checked, {entries} entries{partitions}: {damaged} damaged, {unreadable} \
             unreadable{replaced}{stale}{orphans}"
        )
    }
}
