//! Checks every byte of one file, and that its filters contain its keys.

use std::path::Path;

use bytes::Bytes;
use sstfilter::FilterBlock;
use sstfilter_interop::{BlockState, Coverage, Part};
use sstfilter_store::{FilterPart, sidecar_path};
use sstfilter_table::{FilterVerdict, Table, TableError, TableLocation, TablePart};

use super::verify_map::MapCheck;
use crate::file::blocks::{RangeBlock, Sidecar};
use crate::file::map::OpenMap;
use crate::file::names::table_of_sidecar;
use crate::file::open::{Body, Context, ForeignTable, open};
use crate::file::problem::{Problem, State, explained, in_options, state_of_error, state_of_filter};
use crate::file::walk::Found;
use crate::print::types::PathName;
use crate::print::{Outcome, record};
use crate::system::input;
use crate::words::escape::key_text;
use crate::words::group::without_path;
use crate::words::units::grouped;

record! {
    /// What `verify` found in a file.
    pub(crate) struct FileVerdict {
        pub(crate) path: PathName,
        pub(crate) state: State,
        pub(crate) problems: Vec<String>,
        /// damage to filters that a sound sidecar replaces
        pub(crate) replaced: Vec<String>,
        pub(crate) entries: Option<u64>,
        pub(crate) missing_entries: Option<u64>,
        pub(crate) partitions: Option<u64>,
        pub(crate) blocks_checked: Option<u64>,
        /// blocks that have no checksum or were not reached
        pub(crate) blocks_not_checked: Option<u64>,
        pub(crate) not_checked_because: Option<String>,
        pub(crate) keys_compared: Option<u64>,
        pub(crate) keys_not_compared_because: Option<String>,
        pub(crate) map_check: Option<MapCheck>,
    }
}

/// Verifies a file. Returns a map as well, whose entries can then be compared with keys.
pub(crate) fn verify(found: &Found, context: &Context) -> (FileVerdict, Option<OpenMap>) {
    let body = match open(found, context) {
        Ok(opened) => opened.body,
        Err(problem) => return (FileVerdict::of_problem(&found.path, &problem), None),
    };
    let mut verdict = FileVerdict { path: PathName(found.path.clone()), ..FileVerdict::default() };
    let verified = match body {
        Body::Table(table) => {
            verdict.verify_table(&table);
            Ok(())
        }
        Body::Foreign(table, _) => {
            verdict.verify_foreign(*table);
            Ok(())
        }
        Body::Block(block) => verify_block(&block).map(|keys| verdict.entries = Some(keys)),
        Body::Ranges(block) => {
            verdict.entries = Some(block.info.keys);
            block.verify().map_err(Into::into)
        }
        Body::Partitions(container) => {
            verdict.entries = Some(container.index.keys());
            verdict.partitions = Some(container.index.partitions().into());
            container.verify(container.index.file()).map_err(Into::into)
        }
        // Loading them has verified all of their bytes.
        Body::Layers(_) => Ok(()),
        Body::Sidecar(sidecar) => verdict.verify_sidecar(&sidecar, context),
        Body::Map(map) => match MapCheck::new(&map, context, &mut verdict.problems) {
            Ok(check) => {
                verdict.state = if verdict.problems.is_empty() { State::Ok } else { State::Damaged };
                verdict.map_check = Some(check);
                return (verdict, Some(*map));
            }
            Err(problem) => Err(problem),
        },
    };
    if let Err(problem) = verified {
        verdict.add_problem(&problem.into());
    }
    (verdict, None)
}

/// Returns the number of keys.
fn verify_block(block: &FilterBlock<Bytes>) -> anyhow::Result<u64> {
    block.verify()?;
    Ok(block.info().keys)
}

impl FileVerdict {
    pub(crate) fn outcome(&self) -> Outcome {
        if self.state == State::NotChecked { Outcome::NotChecked } else { self.state.outcome() }
    }

    /// Returns the verdict on a file that is known without opening it.
    pub(crate) fn of_problem(path: &Path, problem: &Problem) -> Self {
        let mut verdict = Self { path: PathName(path.to_owned()), ..Self::default() };
        verdict.add_problem(problem);
        verdict
    }

    fn add_problem(&mut self, problem: &Problem) {
        self.add(problem.state, &explained(&problem.reason));
    }

    pub(crate) fn add(&mut self, state: State, message: &str) {
        // What this program cannot read, it cannot check.
        let state = if state == State::Unusable { State::NotChecked } else { state };
        self.state = self.state.max(state);
        let message = without_path(message, &input::name(&self.path.0));
        match state {
            State::NotChecked => self.not_checked_because = Some(message),
            State::Stale => self.problems.push(format!("stale sidecar: {message}")),
            _ => self.problems.push(message),
        }
    }

    /// Adds a problem of a table or of its filters. A sound filter that this program cannot probe is no problem.
    fn add_of_table(&mut self, problem: &TableError) {
        match state_of_filter(problem) {
            State::Unusable => self.keys_not_compared_because = Some(in_options(problem)),
            state => self.add(state, &in_options(problem)),
        }
    }

    fn verify_table(&mut self, table: &Table) {
        let (report, damage) = table.verify_all();
        let sidecar = sidecar_path(&self.path.0);
        let is_in_sidecar = |at: &TableLocation| at.path.as_deref() == Some(sidecar.as_path());
        let is_replaced = table.uses_sidecar() && !damage.iter().filter_map(damaged_filter).any(is_in_sidecar);
        for problem in &damage {
            if is_replaced && damaged_filter(problem).is_some() {
                self.replaced.push(without_path(&in_options(problem), &input::name(&self.path.0)));
            } else {
                self.add_of_table(problem);
            }
        }
        self.entries = Some(report.entries);
        self.missing_entries = table.properties().entries.checked_sub(report.entries).filter(|&missing| missing > 0);
        self.partitions = Some(report.filter_partitions).filter(|&partitions| partitions > 0);
        self.blocks_checked = Some(report.data_blocks);
        for verdict in [report.sidecar, report.filter, report.range_filter] {
            match verdict {
                FilterVerdict::ContainsAll { keys } => self.keys_compared = self.keys_compared.max(Some(keys)),
                FilterVerdict::NotProbed { reason } => self.keys_not_compared_because = Some(in_options(&reason)),
                _ => {}
            }
        }
    }

    /// Verifies all filters of a sidecar, and that it is of the table next to it, if there is one. The verification of
    /// the table compares the filters with the keys.
    fn verify_sidecar(&mut self, sidecar: &Sidecar, context: &Context) -> anyhow::Result<()> {
        if let Some(container) = sidecar.container()? {
            self.partitions = Some(container.index.partitions().into());
            container.verify(Some(sidecar.metadata.file_id()))?;
        }
        if let Some(block) = sidecar.filter(FilterPart::Points) {
            verify_block(&FilterBlock::open_unverified(block)?)?;
        }
        if let Some(block) = sidecar.filter(FilterPart::Ranges) {
            RangeBlock::new(block)?.verify()?;
        }
        let Some(table) = table_of_sidecar(&self.path.0).filter(|table| table.is_file()) else { return Ok(()) };
        match open(&Found::alone(&table), context) {
            Ok(table) => {
                if let Body::Table(table) = table.body {
                    table.sidecar_problem().into_iter().for_each(|problem| self.add_of_table(problem));
                }
            }
            Err(problem) => self.add_problem(&problem),
        }
        Ok(())
    }

    fn verify_foreign(&mut self, mut table: ForeignTable) {
        // An error here is found again below.
        table.confirm_by_keys().ok();
        let report = table.verify();
        let (mut checked, mut unchecked) = (0, 0);
        for block in &report.blocks {
            match &block.state {
                BlockState::Damaged(problem) | BlockState::Unread(problem) => {
                    self.add(state_of_error(problem), &in_options(problem));
                    checked += 1;
                }
                // The footers of old formats have none.
                BlockState::NoChecksum if block.part == Part::Footer => {}
                BlockState::NoChecksum => unchecked += 1,
                _ => checked += 1,
            }
        }
        let not_reached = self.add_coverage(&table, report.coverage());
        self.blocks_checked = Some(checked);
        self.blocks_not_checked = not_reached.map(|blocks| blocks + unchecked);
        self.entries = table.properties().entries().or(Some(report.keys_checked).filter(|&keys| keys > 0));
        self.keys_compared = Some(report.keys_checked);
        self.keys_not_compared_because = report.keys_unchecked.as_ref().map(in_options);
        if let Some(example) = report.lost_examples.first() {
            let (lost, checked) = (grouped(report.keys_lost), grouped(report.keys_checked));
            let lost =
                format!("the filter is negative for {lost} of {checked} stored keys, such as {}", key_text(example));
            self.add(State::Damaged, &lost);
        }
    }

    /// Says what was not checked. Returns the number of blocks that were not reached, if it is known.
    fn add_coverage(&mut self, table: &ForeignTable, coverage: &Coverage) -> Option<u64> {
        match coverage {
            Coverage::NotReached { part, why, data_blocks } => {
                let blocks = match (part, data_blocks, table.properties().data_blocks()) {
                    (Part::PartitionIndex, ..) => "partitions of its filter".to_owned(),
                    (_, Some(blocks), Some(all)) => format!("{} of {} data blocks", grouped(*blocks), grouped(all)),
                    _ => "data blocks".to_owned(),
                };
                let is_damaged = state_of_error(why) == State::Damaged;
                let state = if is_damaged { State::Damaged } else { State::NotChecked };
                self.add(state, &format!("{blocks}: {}", in_options(why)));
                *data_blocks
            }
            Coverage::WithoutChecksums { blocks } => {
                let why = "have no checksum, so damage does not show";
                self.add(State::NotChecked, &format!("{} blocks {why}", grouped(*blocks)));
                Some(0)
            }
            _ => Some(0),
        }
    }

    /// Returns what is wrong with the file, or was not checked.
    pub(crate) fn findings(&self) -> Vec<String> {
        let missing = self.missing_entries.map(|missing| {
            let all = grouped(missing + self.entries.unwrap_or(0));
            format!("{} of {all} entries cannot be read: `get --salvage` prints the others", grouped(missing))
        });
        let not_checked = self.not_checked_because.iter().map(|why| format!("not checked: {why}"));
        self.problems.iter().cloned().chain(missing).chain(not_checked).collect()
    }

    /// Returns what else there is to say.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let replaced = self
            .replaced
            .iter()
            .map(|problem| format!("the filter in the table is damaged, but a sound sidecar replaces it: {problem}"));
        let is_new =
            |why: &&String| !self.not_checked_because.as_ref().is_some_and(|text| text.ends_with(why.as_str()));
        let not_compared = self.keys_not_compared_because.iter().filter(is_new);
        let not_compared = not_compared.map(|why| format!("not compared with all keys: {why}"));
        let map = self.map_check.iter().flat_map(|check| check.remarks(self.keys_compared));
        replaced.chain(not_compared).chain(map).collect()
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
    Some(at).filter(|_| is_filter && state_of_filter(problem) != State::Unread)
}
