//! Reads of filter bytes: requested by lookups, done by the engine or its source, then verified.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, LoadContext};

use super::budget::{Held, HeldFilter, Matching, POINTS, RANGES, Reservation};
use super::error::FilterProblem;
use super::metadata::{FilterPart, FilterSection};
use super::partition::PartitionIndex;
use super::ranges;
use super::source::FilterSource;
use super::state::FileState;

/// A read of one file's filters that a lookup needs. Read the bytes and [complete](Self::complete) it, or drop it: then
/// the filter is not loaded, and another lookup can request it.
///
/// It owns everything it needs, and may outlive the lookup, the view and the file. While it exists, memory for its
/// filter is reserved, and no other lookup requests the same bytes.
#[must_use = "no other lookup can load this filter while this exists"]
pub struct PendingRead {
    file: Arc<FileState>,
    range: Range<u64>,
    step: Option<Step>,
}

enum Step {
    /// The top index of a partitioned filter.
    Index,
    /// The unit of this number, and the memory for it.
    Unit(u32, Reservation),
}

impl PendingRead {
    /// Returns the range of the bytes, counted from the first of the file's filter bytes.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Takes the bytes, or the error of the read, and verifies them. If they are not the bytes that were written, the
    /// filter answers "may be present", and is tried again rarely. Name the error type if the compiler cannot infer it:
    /// `Ok::<_, std::io::Error>(bytes)`.
    pub fn complete(self, bytes: Result<Bytes, impl fmt::Display>) {
        self.complete_with(bytes, &|_| true);
    }

    /// Completes the read, and returns what `may_match` returns for the filter, whether or not it stays in memory;
    /// `None` if the filter cannot be used, or this was not the last step.
    pub(super) fn complete_with(
        mut self,
        bytes: Result<Bytes, impl fmt::Display>,
        may_match: Matching<'_>,
    ) -> Option<bool> {
        let bytes = bytes.map_err(|error| FilterProblem::Unreadable { reason: error.to_string() });
        let bytes = bytes.and_then(|bytes| match (self.range.end - self.range.start, bytes.len() as u64) {
            (expected, got) if expected == got => Ok(bytes),
            (expected, got) => Err(FilterProblem::Length { what: "part of a filter", expected, got }),
        });
        let read = match self.step.as_ref()? {
            &Step::Unit(number, _) => {
                let loaded = bytes.and_then(|bytes| self.file.load_unit(number, bytes));
                let unit = self.file.units.unit(number)?;
                // Taken after the load: if that panics, `drop` still sees the step.
                let Some(Step::Unit(_, reservation)) = self.step.take() else { return None };
                return self.file.pool().complete(unit, reservation, loaded, may_match);
            }
            Step::Index => {
                let got = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                let read = bytes.and_then(|bytes| self.file.load_index(&bytes));
                self.file.pool().count_read(got, read.is_ok());
                read
            }
        };
        // Only now: if a hasher or extractor panics, `drop` still sees the step.
        self.step = None;
        self.file.units.end_index(Some(read));
        None
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        // A dropped read is retried at once; one that panicked only after the usual pause.
        let panicked = || FilterProblem::Unreadable { reason: "the engine's code panicked".into() };
        let problem = std::thread::panicking().then(panicked);
        match self.step.take() {
            Some(Step::Unit(number, reservation)) => {
                if let Some(unit) = self.file.units.unit(number) {
                    self.file.pool().abandon(unit, reservation, problem);
                }
            }
            Some(Step::Index) => self.file.units.end_index(problem.map(Err)),
            None => {}
        }
    }
}

impl fmt::Debug for PendingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRead").field("range", &self.range).finish_non_exhaustive()
    }
}

/// Reads for one lookup until the unit is read, or no read is left for it.
pub(super) fn read_all(
    source: &dyn FilterSource,
    mut next: impl FnMut() -> Option<PendingRead>,
    may_match: Matching<'_>,
) -> Option<bool> {
    loop {
        let read = next()?;
        // A top index may come first; the unit is always the last step.
        let is_last = matches!(read.step, Some(Step::Unit(..)));
        let bytes = source.read(read.range());
        let answer = read.complete_with(bytes, may_match);
        if is_last {
            return answer;
        }
    }
}

/// A unit's filter, loaded from storage.
pub(super) type Loaded = Result<HeldFilter, FilterProblem>;

/// Loading.
impl FileState {
    /// Reads what must be in memory from now on: top indexes, and without a budget, filters in one block. Returns the
    /// point filter if it stays.
    pub(super) fn read_at_open(self: &Arc<Self>) -> Option<Arc<Held>> {
        self.read_index();
        let source = self.source.as_deref().filter(|_| self.config.budget.is_none())?;
        let has_block = matches!(self.points, Ok(FilterPart::Points));
        for number in [POINTS, RANGES] {
            if (number == RANGES || has_block) && self.units.unit(number).is_some() {
                read_all(source, || self.begin(number), &|_| true);
            }
        }
        let held = self.units.unit(POINTS).filter(|_| has_block)?.held_arc()?;
        held.points().is_some().then_some(held)
    }

    /// Reads the top index, if it is needed now and there is a source.
    pub(super) fn read_index(self: &Arc<Self>) {
        if let Some(source) = &self.source
            && let Some(read) = self.begin_index()
        {
            let bytes = source.read(read.range());
            read.complete(bytes);
        }
    }

    fn load_index(&self, tail: &[u8]) -> Result<(), FilterProblem> {
        let Some(section) = self.metadata.points() else { return Ok(()) };
        let parts = self.reader().key_parts_of(self.shared);
        let context = self.reader().context_of(&parts).with_file_id(self.metadata.file);
        let loaded = load_index(section, tail, context)?;
        // Units before the index: without them, every partition would seem to have no filter.
        self.units.set_points(loaded.block_bytes().map(u64::from));
        self.index.get_or_init(|| Box::new(loaded));
        Ok(())
    }

    /// Loads a unit. A filter in one block must hold the known keys, otherwise it was built wrong. It must also have
    /// the checksum in the description: a block of the same file from another time is sound by itself.
    fn load_unit(&self, number: u32, bytes: Bytes) -> Loaded {
        if let (Some(partition), Some(index)) = (number.checked_sub(POINTS), self.partitions()) {
            // Not compared with the description: the index has the checksums of its partitions, and was compared
            // itself.
            return Ok(HeldFilter::Points(index.open(partition, bytes)?));
        }
        let (known, reader) = (self.metadata.known_keys(), self.reader());
        let parts = reader.key_parts_of(self.shared);
        let context = reader.context_of(&parts);
        let context = context.with_file_id(self.metadata.file).with_known_keys(&known);
        let (section, loaded) = if number == RANGES {
            let loaded = ranges::load(bytes.clone(), context, reader.range_extractor.as_ref());
            let summed = loaded.map(|filter| (filter.checksum_without_last(), HeldFilter::Ranges(Box::new(filter))));
            (self.metadata.ranges(), summed)
        } else {
            let loaded = FilterBlock::load(bytes.clone(), context);
            (self.metadata.points(), loaded.map(|block| (block.checksum_without_last(), HeldFilter::Points(block))))
        };
        let (sum, filter) = loaded.map_err(|problem| believed(section, &bytes, problem.into()))?;
        section.map_or(Ok(()), |section| section.check_sum(sum))?;
        if filter.points().is_some_and(FilterBlock::is_overfull) {
            self.is_overfull.store(true, Ordering::Relaxed);
        }
        Ok(filter)
    }

    /// Returns the read of the top index, if it is needed now.
    fn begin_index(self: &Arc<Self>) -> Option<PendingRead> {
        let section = self.metadata.points().filter(|_| matches!(self.points, Ok(FilterPart::PartitionedPoints)))?;
        // `begin_index` last, because it takes the right to read.
        let is_needed = self.index.get().is_none() && self.units.begin_index();
        is_needed.then(|| PendingRead { file: self.clone(), range: section.index_range(), step: Some(Step::Index) })
    }

    /// Returns the next read that brings the unit into memory. `None` if the unit should not be in memory, another
    /// thread is loading it, or a recent read failed.
    pub(super) fn begin(self: &Arc<Self>, number: u32) -> Option<PendingRead> {
        // No filter is used any more, so none is worth a read.
        if self.config.trust.get().is_some() {
            return None;
        }
        let section = if number == RANGES { self.metadata.ranges() } else { self.metadata.points() }?;
        let range = if number == RANGES || section.part == FilterPart::Points {
            section.range()
        } else {
            let Some(index) = self.partitions() else { return self.begin_index() };
            let range = index.block_range(number - POINTS).ok()?;
            section.offset + range.start..section.offset + range.end
        };
        let step = Some(Step::Unit(number, self.pool().begin(self.units.unit(number)?)?));
        Some(PendingRead { file: self.clone(), range, step })
    }

    /// Returns the next read for a scan of a prefix, for the first part that can hold a key with it.
    pub(super) fn read_for_prefix(self: &Arc<Self>, prefix: &[u8]) -> Option<PendingRead> {
        let hash = self.reader().prefix_hashes(self.shared, prefix).next()?;
        let place = self.partitions().and_then(|index| index.places_with_part(prefix, hash).next());
        self.read_for_unit(place.map_or(0, |(number, _)| number) + POINTS)
    }

    /// Returns the next read for a lookup of the key.
    pub(super) fn read_for_key(self: &Arc<Self>, key: &[u8]) -> Option<PendingRead> {
        self.units_of(key).find_map(|number| self.read_for_unit(number))
    }

    /// Returns the next read for a lookup or scan that probes the unit.
    pub(super) fn read_for_unit(self: &Arc<Self>, number: u32) -> Option<PendingRead> {
        let usable = if number == RANGES { &self.ranges } else { &self.points };
        if usable.is_err() {
            return None;
        }
        match self.units.unit(number) {
            Some(unit) if unit.is_as_planned() => None,
            None if number == RANGES || self.partitions().is_some() => None,
            _ => self.begin(number),
        }
    }
}

/// Loads the top index at the start of `tail`, if it is the one in the description.
pub(super) fn load_index(
    section: &FilterSection,
    tail: &[u8],
    context: LoadContext<'_>,
) -> Result<PartitionIndex, FilterProblem> {
    let loaded = written(section, tail, PartitionIndex::load(tail, context))?;
    let (expected, got) = (section.bytes, loaded.container_bytes());
    if expected == got { Ok(loaded) } else { Err(FilterProblem::Length { what: "partitioned filter", expected, got }) }
}

/// Returns what was made of bytes, if they match the description.
pub(super) fn written<T>(
    section: &FilterSection,
    bytes: &[u8],
    made: Result<T, impl Into<FilterProblem>>,
) -> Result<T, FilterProblem> {
    let made = made.map_err(|problem| believed(Some(section), bytes, problem.into()))?;
    section.check(bytes).map(|()| made)
}

/// Returns damage instead of a problem that blames the release or the store's configuration, unless the bytes are those
/// that were written.
fn believed(section: Option<&FilterSection>, bytes: &[u8], problem: FilterProblem) -> FilterProblem {
    let is_known_key_absent = matches!(problem, FilterProblem::Block(BlockError::KnownKeyAbsent { .. }));
    let blames = is_known_key_absent || problem.is_unknown() || problem.is_foreign();
    let damage = section.filter(|_| blames).and_then(|section| section.check(bytes).err());
    damage.unwrap_or(problem)
}
