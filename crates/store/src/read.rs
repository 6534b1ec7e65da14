//! Reads of filter bytes: requested by lookups, done by the engine or its source, then verified.

use core::fmt;
use core::ops::Range;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, LoadContext};

use super::budget::{Held, HeldFilter, INDEX, Matching, POINTS, RANGES, Reservation};
use super::error::FilterProblem;
use super::metadata::{FilterPart, FilterSection};
use super::ongoing::Waiter;
use super::pages::PageRead;
use super::partition::PartitionIndex;
use super::ranges;
use super::source::FilterSource;
use super::state::FileState;

/// The reads that filters still need for a lookup, each with its file.
#[must_use = "no other lookup can load these filters while the reads exist"]
pub struct FilterReads<'a, F> {
    /// Reads for this lookup to perform.
    pub pending: Vec<(&'a Arc<F>, PendingRead)>,
    /// Reads that other lookups are performing. Empty while there are `pending` ones: lookups that waited for each
    /// other before they had performed their own reads would wait forever.
    pub ongoing: Vec<(&'a Arc<F>, OngoingRead)>,
    /// Reads of pages of maps, for this lookup to perform. Empty unless the view has maps that are read by page
    /// (`FilterView::with_paged_maps`, feature `maps`).
    pub pages: Vec<PageRead>,
}

impl<'a, F> FilterReads<'a, F> {
    pub(super) fn of(reads: impl Iterator<Item = (&'a Arc<F>, FilterRead)>) -> Self {
        let mut all = Self { pending: Vec::new(), ongoing: Vec::new(), pages: Vec::new() };
        for (file, read) in reads {
            match read {
                FilterRead::Pending(read) => all.pending.push((file, read)),
                FilterRead::Ongoing(read) => all.ongoing.push((file, read)),
            }
        }
        if !all.pending.is_empty() {
            all.ongoing.clear();
        }
        all
    }

    /// Returns whether the lookup needs no more reads, its own or those of others.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.ongoing.is_empty() && self.pages.is_empty()
    }
}

impl<F> fmt::Debug for FilterReads<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pending, ongoing) = (self.pending.len(), self.ongoing.len());
        f.debug_struct("FilterReads")
            .field("pending", &pending)
            .field("ongoing", &ongoing)
            .field("pages", &self.pages)
            .finish()
    }
}

/// A read that a lookup needs.
pub(super) enum FilterRead {
    Pending(PendingRead),
    Ongoing(OngoingRead),
}

impl FilterRead {
    /// Returns the read, unless another lookup performs it.
    pub(super) fn pending(self) -> Option<PendingRead> {
        if let Self::Pending(read) = self { Some(read) } else { None }
    }
}

/// A read that another lookup is performing: a future that is ready once that lookup has completed or dropped it. Then
/// ask for the reads again: if it was dropped, one of the lookups that waited gets it. If it was completed with an
/// error, one of them gets it once more, and after a second error all go on without the filter.
#[must_use = "futures do nothing unless they are awaited"]
pub struct OngoingRead {
    file: Arc<FileState>,
    number: u32,
    /// From the first poll on.
    waiter: Option<Waiter>,
}

impl Future for OngoingRead {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The executor's code, outside of the lock.
        let waker = context.waker().clone();
        let waiter = *self.waiter.get_or_insert_with(Waiter::new);
        if self.file.ongoing.wait(self.number, waiter, waker) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for OngoingRead {
    fn drop(&mut self) {
        // A read may take for ever, while lookups with a timeout come and go.
        if let Some(waiter) = self.waiter {
            self.file.ongoing.cancel(self.number, waiter);
        }
    }
}

impl fmt::Debug for OngoingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OngoingRead").finish_non_exhaustive()
    }
}

/// A read of one file's filters that a lookup needs. Read the bytes and [complete](Self::complete) it, or drop it: then
/// the filter is not loaded, and another lookup can request it.
///
/// It owns everything it needs, and may outlive the lookup, the view and the file. While it exists, memory for its
/// filter is reserved, and no other lookup requests the same bytes.
#[must_use = "no other lookup can load this filter while this exists"]
pub struct PendingRead {
    file: Arc<FileState>,
    range: Range<u64>,
    /// The number of the unit, or [`INDEX`].
    number: u32,
    step: Option<Step>,
}

enum Step {
    /// The top index of a partitioned filter.
    Index,
    /// The unit, and the memory for it.
    Unit(Reservation),
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
        let (number, is_unreadable) = (self.number, bytes.is_err());
        let bytes = bytes.and_then(|bytes| match (self.range.end - self.range.start, bytes.len() as u64) {
            (expected, got) if expected == got => Ok(bytes),
            (expected, got) => Err(FilterProblem::Length { what: "part of a filter", expected, got }),
        });
        let answer = match self.step.as_ref()? {
            Step::Unit(_) => {
                let loaded = bytes.and_then(|bytes| self.file.load_unit(number, bytes));
                let unit = self.file.units.unit(number)?;
                // Taken after the load: if that panics, `drop` still sees the step.
                let Some(Step::Unit(reservation)) = self.step.take() else { return None };
                self.file.pool().complete(unit, reservation, loaded, may_match)
            }
            Step::Index => {
                let got = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                let read = bytes.and_then(|bytes| self.file.load_index(&bytes));
                self.file.pool().count_read(got, read.is_ok());
                // Only now: if a hasher or extractor panics, `drop` still sees the step.
                self.step = None;
                self.file.units.end_index(Some(read));
                None
            }
        };
        if is_unreadable && self.file.ongoing.is_awaited(number) {
            self.file.units.retry_first_failure(number);
        }
        // `drop` wakes the lookups that wait.
        answer
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        // A dropped read is retried at once; one that panicked only after the usual pause.
        let panicked = || FilterProblem::Unreadable { reason: "the engine's code panicked".into() };
        let problem = std::thread::panicking().then(panicked);
        match self.step.take() {
            Some(Step::Unit(reservation)) => {
                if let Some(unit) = self.file.units.unit(self.number) {
                    self.file.pool().abandon(unit, reservation, problem);
                }
            }
            Some(Step::Index) => self.file.units.end_index(problem.map(Err)),
            None => {}
        }
        // After the end of the read, so that a lookup that wakes can take it over.
        self.file.ongoing.end(self.number);
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
        let is_last = read.number != INDEX;
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
    /// filter that answers for keys if it stays.
    pub(super) fn read_at_open(self: &Arc<Self>) -> Option<Arc<Held>> {
        self.read_index();
        let source = self.source.as_deref().filter(|_| self.config.budget.is_none())?;
        let has_block = matches!(self.points, Ok(FilterPart::Points));
        for number in [POINTS, RANGES] {
            if (number == RANGES || has_block) && self.units.unit(number).is_some() {
                read_all(source, || self.begin(number)?.pending(), &|_| true);
            }
        }
        let number = match self.points {
            Ok(FilterPart::Points) => POINTS,
            Ok(FilterPart::Ranges) => RANGES,
            _ => return None,
        };
        self.units.unit(number)?.held_arc().filter(|held| held.failure().is_none())
    }

    /// Reads the top index, if it is needed now and there is a source.
    pub(super) fn read_index(self: &Arc<Self>) {
        if let Some(source) = &self.source
            && let Some(read) = self.begin_index().and_then(FilterRead::pending)
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
    fn begin_index(self: &Arc<Self>) -> Option<FilterRead> {
        let section = self.metadata.points().filter(|_| matches!(self.points, Ok(FilterPart::PartitionedPoints)))?;
        // `begin_index` last, because it takes the right to read.
        let step = || (self.index.get().is_none() && self.units.begin_index()).then_some(Step::Index);
        self.begin_step(INDEX, section.index_range(), step)
    }

    /// Returns the ongoing read of the unit or the index, or else a new one if `step` begins it.
    fn begin_step(
        self: &Arc<Self>,
        number: u32,
        range: Range<u64>,
        step: impl FnOnce() -> Option<Step>,
    ) -> Option<FilterRead> {
        let file = self.clone();
        match self.ongoing.begin(number, step) {
            Ok(step) => step.map(|step| FilterRead::Pending(PendingRead { file, range, number, step: Some(step) })),
            Err(()) => Some(FilterRead::Ongoing(OngoingRead { file, number, waiter: None })),
        }
    }

    /// Returns the next read that brings the unit into memory. `None` if the unit should not be in memory, or a recent
    /// read failed.
    pub(super) fn begin(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
        // No filter is used any more, so none is worth a read.
        if self.config.trust.get().is_some() {
            return None;
        }
        let section = if number == RANGES { self.metadata.ranges() } else { self.metadata.points() }?;
        let range = if number == RANGES || section.part == FilterPart::Points {
            section.range()
        } else {
            let index = match self.partitions() {
                Some(index) => index,
                None => match self.begin_index() {
                    Some(read) => return Some(read),
                    // It may have come meanwhile.
                    None => self.partitions()?,
                },
            };
            let range = index.block_range(number - POINTS).ok()?;
            section.offset + range.start..section.offset + range.end
        };
        let unit = self.units.unit(number)?;
        self.begin_step(number, range, || self.pool().begin(unit).map(Step::Unit))
    }

    /// Returns the next read for a scan of a prefix, for the first part that can hold a key with it.
    pub(super) fn read_for_prefix(self: &Arc<Self>, prefix: &[u8]) -> Option<FilterRead> {
        let hash = self.reader().prefix_hashes(self.shared, prefix).next()?;
        let place = self.partitions().and_then(|index| index.places_with_part(prefix, hash).next());
        self.read_for_unit(place.map_or(0, |(number, _)| number) + POINTS)
    }

    /// Returns the next read for a lookup of the key, its own rather than one of another lookup.
    pub(super) fn read_for_key(self: &Arc<Self>, key: &[u8]) -> Option<FilterRead> {
        let mut reads = self.units_of(key).filter_map(|number| self.read_for_unit(number));
        match reads.next()? {
            FilterRead::Ongoing(read) => {
                let own = reads.find_map(FilterRead::pending);
                Some(own.map_or(FilterRead::Ongoing(read), FilterRead::Pending))
            }
            own @ FilterRead::Pending(_) => Some(own),
        }
    }

    /// Returns the next read for a lookup or scan that probes the unit.
    pub(super) fn read_for_unit(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
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
