//! A table's filter: usable, or never in the way of a read.

use std::sync::Arc;

use bytes::Bytes;

use super::format::{BlockHandle, FilterHandle};
use super::io::TableFile;
use super::table_partitions::TablePartitions;
use super::table_parts::TableParts;
use super::table_source::{FilterPlace, TableFilterSource, WholeFile};
use super::{ReadOptions, TableError, TableLocation};
use crate::block::{FilterBlock, FilterReader, LookupOutcome};
use crate::budget::{BudgetedFilter, BudgetedProbe, FileBudget};
use crate::error::BlockError;
use crate::hash::KeyHash;
use crate::stats::{CountedBySet, FilterStats};
use crate::store::reader::{Reader, SharedParts};

/// The filter of an open table, or why there is none to probe.
#[derive(Debug)]
pub(crate) struct TableFilter {
    held: Held,
    /// Boxed, because hardly any table has one.
    problem: Option<Box<TableError>>,
}

/// What of a filter is in memory.
#[derive(Debug)]
enum Held {
    /// All of it, as long as the table is open. Boxed, because most tables of a large store have no such filter.
    Resident(Box<FilterReader<Bytes>>),
    /// What a budget has room for.
    Budgeted(BudgetedFilter),
}

/// What a lookup's probe has found.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The table does not have the key.
    Absent,
    /// It may have it. The filter wants to know the outcome.
    MaybePresent,
    /// The same, of a filter under a budget.
    Budgeted(BudgetedProbe),
    /// It may have it, because no filter was probed.
    NotProbed,
}

impl Answer {
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl TableFilter {
    /// A whole filter, that of a table or of its sidecar.
    pub(crate) fn of_block(block: FilterBlock<Bytes>) -> Self {
        Self { held: Held::Resident(Box::new(FilterReader::of_shared_parts(block))), problem: None }
    }

    /// Reads the filter, or as much of it as says what it is if the rest comes under a budget. Whatever is wrong with
    /// it makes an unusable filter.
    pub(crate) fn open(
        file: &Arc<TableFile>,
        filter: FilterHandle,
        parts: &TableParts,
        reader: &Arc<Reader>,
        options: &ReadOptions,
    ) -> Self {
        let shared = reader
            .parts_shared_with(&parts.properties.writer.key_parts)
            .map_err(|source| refused(file, filter, source));
        let opened = shared.and_then(|shared| match (filter, &options.budget) {
            (FilterHandle::Whole(handle), None) => Self::read_whole(file, handle, parts, (reader, shared)),
            _ => Self::register(file, filter, parts, (reader, shared), options),
        });
        opened.unwrap_or_else(Self::unusable)
    }

    fn unusable(problem: TableError) -> Self {
        let reason = match &problem {
            TableError::Filter { source, .. } => source.clone(),
            other => BlockError::Unreadable { reason: other.to_string() },
        };
        Self { held: Held::Resident(Box::new(FilterReader::unusable(reason))), problem: Some(Box::new(problem)) }
    }

    fn read_whole(
        file: &TableFile,
        handle: BlockHandle,
        parts: &TableParts,
        (reader, shared): (&Reader, SharedParts),
    ) -> Result<Self, TableError> {
        let filter = FilterHandle::Whole(handle);
        let contents = parts.read_filter(file, filter)?;
        let known: Vec<&[u8]> = parts.properties.bounds().collect();
        let key_parts = reader.key_parts_of(shared);
        let context = reader.context_of(&key_parts).with_known_keys(&known);
        let block = FilterBlock::load(contents, context).map_err(|source| refused(file, filter, source))?;
        Ok(Self::of_block(block))
    }

    /// Reads the top index of a partitioned filter, or the end of a whole one, and leaves the rest to the budget.
    fn register(
        file: &Arc<TableFile>,
        filter: FilterHandle,
        parts: &TableParts,
        (reader, shared): (&Arc<Reader>, SharedParts),
        options: &ReadOptions,
    ) -> Result<Self, TableError> {
        let key_parts = reader.key_parts_of(shared);
        // Of whole keys under a public seed, equal identities prove equal hashes.
        let has_known = !reader.is_known_by_identity(shared);
        let known: Vec<&[u8]> = parts.properties.bounds().filter(|_| has_known).collect();
        let context = reader.context_of(&key_parts).with_known_keys(&known);
        let place = match filter {
            FilterHandle::Partitioned(handle) => {
                FilterPlace::Partitions(TablePartitions::read(file, parts, handle, context)?)
            }
            FilterHandle::Whole(handle) => {
                let end = parts.read_filter_end(file, handle)?;
                let checked = FilterBlock::check_end(&end, handle.contents_bytes, context);
                checked.map_err(|source| refused(file, filter, source))?;
                let file = WholeFile::Table { handle, table_id: parts.footer.table_id };
                let known = known.iter().flat_map(|key| reader.key_hashes(shared, key));
                FilterPlace::whole(file, reader, known)
            }
        };
        let source = TableFilterSource::new(Arc::clone(file), place);
        // Now, and not when it is first probed: in a set, one such table shows that the filters of no table can be
        // trusted.
        source.check_known_keys().map_err(|source| refused(file, filter, source))?;
        Ok(Self::registered(source, options))
    }

    /// The filter that comes from `source` as a budget has room for it.
    pub(crate) fn registered(source: TableFilterSource, options: &ReadOptions) -> Self {
        let budget = options.budget.as_ref().unwrap_or(&options.partitions_in_memory);
        Self { held: Held::Budgeted(budget.register(source.layout(), Arc::new(source))), problem: None }
    }

    /// The filter that is at this place, no longer used for this reason.
    pub(crate) fn disable(&mut self, at: TableLocation, reason: BlockError) {
        if self.problem.is_none() {
            *self = Self::unusable(TableError::Filter { at, source: reason });
        }
    }

    /// The whole filter, if it stays in memory.
    pub(crate) fn resident(&self) -> Option<&FilterReader<Bytes>> {
        match &self.held {
            Held::Resident(reader) => Some(reader),
            Held::Budgeted(_) => None,
        }
    }

    /// Whether it is under a budget, so that a set cannot keep a copy of it.
    pub(crate) fn is_budgeted(&self) -> bool {
        matches!(self.held, Held::Budgeted(_))
    }

    /// How much of the filter is in memory, if that changes.
    pub(crate) fn budget(&self) -> Option<FileBudget> {
        match &self.held {
            Held::Resident(_) => None,
            Held::Budgeted(filter) => Some(filter.state()),
        }
    }

    /// The filter, if it has partitions.
    pub(crate) fn partitioned(&self) -> Option<&BudgetedFilter> {
        match &self.held {
            Held::Budgeted(filter) if filter.partitions().is_some() => Some(filter),
            Held::Budgeted(_) | Held::Resident(_) => None,
        }
    }

    /// Why the filter is not used.
    pub(crate) fn problem(&self) -> Option<&TableError> {
        self.problem.as_deref()
    }

    /// Why the filter is not used, by value.
    pub(crate) fn into_problem(self) -> Option<TableError> {
        self.problem.map(|problem| *problem)
    }

    /// Probes for a key by its hash, and counts the answer.
    pub(crate) fn probe(&self, key: &[u8], hash: KeyHash) -> Answer {
        match &self.held {
            Held::Resident(reader) if reader.probe_added(hash).is_absent() => Answer::Absent,
            Held::Resident(_) => Answer::MaybePresent,
            Held::Budgeted(filter) => match filter.probe_added(key, hash) {
                BudgetedProbe::Absent => Answer::Absent,
                other => Answer::Budgeted(other),
            },
        }
    }

    /// Counts a positive that a set of tables found when it probed the block itself.
    pub(crate) fn count_positive(&self) -> Answer {
        if let Held::Resident(reader) = &self.held {
            reader.count_positive();
        }
        Answer::MaybePresent
    }

    /// Whether the filter may contain the key of a hash; `true` if it cannot be used. Under a budget, this is a probe
    /// like all others; otherwise it is not counted.
    pub(crate) fn may_contain(&self, key: &[u8], hash: KeyHash) -> bool {
        match &self.held {
            Held::Resident(reader) => reader.block().map_or(true, |block| block.may_contain_added(hash)),
            Held::Budgeted(filter) => !filter.probe_added(key, hash).is_absent(),
        }
    }

    /// The same for the keys with a prefix, by the hash that stands for it.
    pub(crate) fn may_contain_prefix(&self, prefix: &[u8], hash: KeyHash) -> bool {
        match &self.held {
            Held::Resident(_) => self.may_contain(prefix, hash),
            Held::Budgeted(filter) => !filter.probe_part(prefix, hash).is_absent(),
        }
    }

    /// Counts what came of an answer that was not "absent".
    pub(crate) fn record_lookup(&self, answer: &Answer, outcome: LookupOutcome) {
        match (&self.held, answer) {
            (Held::Resident(reader), Answer::MaybePresent) => reader.record_lookup(outcome),
            (Held::Budgeted(filter), Answer::Budgeted(probe)) => filter.record_lookup(probe, outcome),
            _ => {}
        }
    }

    /// From now on, includes the answers that a set counts.
    pub(crate) fn enter_set(&mut self, negatives: CountedBySet) {
        match &mut self.held {
            Held::Resident(reader) => reader.enter_set(negatives),
            // It is probed table by table, and counts by itself.
            Held::Budgeted(_) => {}
        }
    }

    pub(crate) fn stats(&self) -> FilterStats {
        match &self.held {
            Held::Resident(reader) => reader.stats(),
            Held::Budgeted(filter) => filter.stats(),
        }
    }
}

/// A filter that is not used for this reason.
fn refused(file: &TableFile, filter: FilterHandle, source: BlockError) -> TableError {
    TableError::Filter { at: file.location(filter.part(), filter.block().offset), source }
}
