//! The filters of one open file.

use core::fmt;
use core::ops::Bound;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use super::budget::{self, File, FilterResidency, Held, HeldFilter, Matching, POINTS, Pool, RANGES, Unit};
use super::chunk::ChunkCounts;
use super::config::Config;
use super::error::FilterProblem;
use super::metadata::{FileBounds, FilterMetadata, FilterPart};
use super::partition::{PartitionCut, PartitionIndex};
use super::read::{FilterRead, FilterSource, Loaded, read_all};
use super::reader::{Reader, SharedParts};
use super::stats::FileStats;
use crate::block::{FilterBlock, LookupOutcome};
use crate::codec::{CHECKSUM_BYTES, checksum};
use crate::error::BlockError;
use crate::hash::{HashId, KeyHash};
use crate::kernel::prefetch::prefetch;
use crate::panics::lock;
use crate::range::{KeyRange, NextKey, RangeContext, RangeFilter, RangeInfo, RangeMap};
use crate::stats::FilterCounters;

/// What a filter says about one key, prefix or range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileProbe {
    /// Nothing that is looked for is in the file: skip it.
    Absent,
    /// The file may have it.
    MaybePresent,
    /// The filter is not in memory, so the file may have it.
    NotLoaded,
    /// There is no filter that could tell, so the file may have it: [`FileFilters::problem`] says why, unless the file
    /// has no filter, or range tombstones around the key.
    Unusable,
}

impl FileProbe {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// The filters of one open file, and what they have counted. Threads share it by reference; dropped, it gives its memory
/// back.
///
/// An engine keeps one beside each open file, and puts the file into a [`FilterView`](super::FilterView), which probes
/// the filters of all files. One that goes through its files by itself can also probe them here. It then records what
/// became of each answer ([`record_lookup`](Self::record_lookup)), from which rates and budgets follow; lookups in a
/// view do so themselves.
pub struct FileFilters {
    state: Arc<FileState>,
    /// In the budget's registry, for files with filters.
    slot: Option<u64>,
}

/// What lookups, views and reads under way share of an open file. What probes read of it lies in the first two cache
/// lines.
#[repr(C, align(64))]
pub(super) struct FileState {
    config: Arc<Config>,
    units: Arc<File>,
    /// The parts of keys that the point filter holds and the store knows.
    shared: SharedParts,
    has_range_tombstones: bool,
    /// The point filter, where all of it stays in memory as long as the file is open: lookups follow two pointers less
    /// than to its unit's.
    resident: Option<FilterBlock<Bytes>>,
    metadata: Arc<FilterMetadata>,
    points: Usable,
    ranges: Usable,
    /// The top index of a partitioned filter, once it was read.
    index: OnceLock<Box<PartitionIndex>>,
    source: Option<Arc<dyn FilterSource>>,
    /// The chunks of views that count lookups for the file, each with the file's place in it.
    chunks: Mutex<Vec<(Arc<ChunkCounts>, u32)>>,
}

/// Whether a filter can be probed, by what the description says.
type Usable = Result<FilterPart, Option<Box<FilterProblem>>>;

/// What a probe has found, and of which unit, so that its outcome can be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) probe: FileProbe,
    unit: u32,
}

impl Answer {
    const fn of(probe: FileProbe) -> Self {
        Self { probe, unit: POINTS }
    }

    /// That of a file that is a candidate after the filters of a group were probed for `key`.
    #[inline]
    pub(super) fn of_group(file: &FileState, key: &[u8]) -> Self {
        let has_part = || file.shared.has_whole_keys() || file.reader().point_hashes(file.shared, key).next().is_some();
        Self::of(if file.resident.is_some() && has_part() { FileProbe::MaybePresent } else { FileProbe::Unusable })
    }
}

impl FileFilters {
    pub(super) fn open(
        config: &Arc<Config>,
        metadata: Arc<FilterMetadata>,
        source: Option<Arc<dyn FilterSource>>,
    ) -> Self {
        let shared = config.reader.parts_shared_with(&metadata.parts).ok();
        let shared = shared.map(|shared| config.reader.confirmed_by(shared, &metadata.known_keys()));
        let mut state = FileState {
            config: config.clone(),
            shared: shared.unwrap_or_else(|| config.reader.all_parts()),
            points: Err(None),
            ranges: Err(None),
            index: OnceLock::new(),
            resident: None,
            has_range_tombstones: metadata.range_tombstones.is_some(),
            units: Arc::default(),
            source,
            metadata,
            chunks: Mutex::default(),
        };
        let (points, ranges) = (state.metadata.points(), state.metadata.ranges());
        let usable =
            |part, checked: Result<(), FilterProblem>| checked.map(|()| part).map_err(|problem| Some(problem.into()));
        state.points = points.map_or(Err(None), |section| usable(section.part, state.check_points()));
        state.ranges = ranges.map_or(Err(None), |section| usable(section.part, state.check_ranges()));
        let mut units = File::new(ranges.filter(|_| state.ranges.is_ok()).map(|section| section.bytes));
        // One that cannot be used counts that.
        units.range_counters = ranges.map(|_| Box::new(FilterCounters::new()));
        if let (Ok(FilterPart::Points), Some(section)) = (&state.points, points) {
            units.set_points(core::iter::once(section.bytes));
        }
        state.units = Arc::new(units);
        let state = Arc::new(state);
        let has_filters = state.points.is_ok() || state.ranges.is_ok();
        let slot = has_filters.then(|| state.pool().add(&state.units));
        // Before the source is called, which may panic: dropped, the file leaves the budget.
        let mut file = Self { state, slot };
        file.state.read_at_open();
        let resident = file.state.held_at_open();
        // Nobody else has it yet.
        if let Some(state) = Arc::get_mut(&mut file.state) {
            state.resident = resident;
        }
        file
    }

    pub(super) fn unfiltered(config: &Arc<Config>, bounds: FileBounds) -> Self {
        Self::open(config, FilterMetadata::without_filters(config.reader.hasher.identity(), bounds).into(), None)
    }

    #[inline]
    pub(super) fn state(&self) -> &Arc<FileState> {
        &self.state
    }

    /// What the filters are, as it was opened.
    #[must_use]
    pub fn metadata(&self) -> &FilterMetadata {
        &self.state.metadata
    }

    /// Probes the point filter for a key, and counts the answer. A key outside of the file's bounds is absent; that is
    /// counted apart. A filter that is not in memory is loaded first, if it has a source and its turn has come.
    #[must_use]
    pub fn probe(&self, key: &[u8]) -> FileProbe {
        let state = &self.state;
        if !state.covers(key) {
            state.units.counters.add_beside_answers(1, 0);
            return FileProbe::Absent;
        }
        state.probe_key(key, || state.hash(key)).probe
    }

    /// Probes the range filter, whatever the file's smallest and largest keys say, and counts the answer.
    #[must_use]
    pub fn probe_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> FileProbe {
        self.state.probe_range(range.into()).probe
    }

    /// Whether the file may have a key that begins with `prefix`, by its bounds and its filters. Probes are counted.
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        let upper = KeyRange::end_of_prefix(prefix);
        let range = KeyRange { lower: Bound::Included(prefix), upper: upper.as_ref().map(Vec::as_slice) };
        let state = &self.state;
        // Before any filter: none knows what the file deletes.
        state.overlaps(range)
            && (state.surely_meets(range) || state.may_contain_prefix(prefix) && state.may_contain_range(range))
    }

    /// Whether the file may have a key in `range`, by its bounds and its range filter. A probe is counted.
    #[must_use]
    pub fn may_contain_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> bool {
        let range = range.into();
        self.state.overlaps(range) && self.state.may_contain_range(range)
    }

    /// Records whether the file had the key for which [`probe`](Self::probe) answered. Call it once for each answer that
    /// is not "absent".
    pub fn record_lookup(&self, key: &[u8], probe: FileProbe, outcome: LookupOutcome) {
        self.state.units.counters.add_beside_answers(0, 1);
        let unit = if probe == FileProbe::NotLoaded { self.state.unit_of(key) } else { POINTS };
        self.state.record(Answer { probe, unit }, outcome == LookupOutcome::Found);
    }

    /// What is still to be read for a lookup of `key`; `None` if nothing is, or another lookup has it in hand.
    pub fn read_for(&self, key: &[u8]) -> Option<FilterRead> {
        self.state.read_for(key)
    }

    /// Why the point filter, or else the range filter, is not used, or could not be read when it was last tried; `None`
    /// if there is nothing wrong.
    #[must_use]
    pub fn problem(&self) -> Option<FilterProblem> {
        self.point_problem().or_else(|| self.range_problem())
    }

    /// Why the point filter is not used.
    #[must_use]
    pub fn point_problem(&self) -> Option<FilterProblem> {
        self.problem_of(&self.state.points, budget::point_failure)
    }

    /// Why the range filter is not used.
    #[must_use]
    pub fn range_problem(&self) -> Option<FilterProblem> {
        self.problem_of(&self.state.ranges, budget::range_failure)
    }

    fn problem_of(
        &self,
        usable: &Usable,
        failure: impl FnOnce(&File) -> Option<Arc<FilterProblem>>,
    ) -> Option<FilterProblem> {
        match usable {
            Err(problem) => problem.as_deref().cloned(),
            Ok(_) => {
                let failed = failure(&self.state.units).map(|problem| (*problem).clone());
                failed.or_else(|| self.state.config.trust.problem().cloned().map(Into::into))
            }
        }
    }

    /// The point filter's block, if all of it stays in memory as long as the file is open.
    #[must_use]
    pub fn block(&self) -> Option<&FilterBlock<Bytes>> {
        self.state.resident()
    }

    /// The range filter, if it is in memory.
    #[must_use]
    pub fn range_filter(&self) -> Option<RangeFilter<Bytes>> {
        let held = self.state.units.unit(RANGES)?.held();
        match held.as_deref() {
            Some(Held::Block(held)) => held.filter.ranges().cloned(),
            _ => None,
        }
    }

    /// The top index of a partitioned filter, once it was read.
    #[must_use]
    pub fn partitions(&self) -> Option<&PartitionIndex> {
        self.state.partitions()
    }

    /// How much of the filters is in memory, and why.
    #[must_use]
    pub fn residency(&self) -> FilterResidency {
        FilterResidency::of(&self.state.units)
    }

    /// What was counted for the file, in all views that it is or was in.
    #[must_use]
    pub fn stats(&self) -> FileStats {
        self.state.stats()
    }
}

impl Drop for FileFilters {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.state.pool().remove(slot);
        }
    }
}

impl AsRef<Self> for FileFilters {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Debug for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileState").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl fmt::Debug for FileFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileFilters")
            .field("metadata", &self.state.metadata)
            .field("residency", &self.residency())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Loading.
impl FileState {
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.config.budget.as_ref().unwrap_or(&self.config.unlimited).pool
    }

    pub(super) fn units(&self) -> &File {
        &self.units
    }

    fn reader(&self) -> &Reader {
        &self.config.reader
    }

    /// Whether the point filter can be probed, by what the description says.
    fn check_points(&self) -> Result<(), FilterProblem> {
        self.reader().parts_shared_with(&self.metadata.parts)?;
        if self.shared.is_empty() {
            return Err(BlockError::PartNotHeld.into());
        }
        let (expected, got) = (self.reader().hasher.identity(), self.metadata.hash);
        if expected == got { Ok(()) } else { Err(BlockError::HashMismatch { expected, got }.into()) }
    }

    /// By name, which the block has only a checksum of.
    fn check_ranges(&self) -> Result<(), FilterProblem> {
        let Some(held) = &self.metadata.range_extractor else { return Ok(()) };
        let own = self.reader().range_extractor.as_ref().map(|extractor| extractor.name());
        if own == Some(held) {
            return Ok(());
        }
        let expected = own.map_or_else(|| "none".to_owned(), |name| format!("'{name}'"));
        Err(FilterProblem::Parts { expected, got: format!("'{held}'") })
    }

    /// Reads what is to be in memory from now on: without a budget, filters in one block; and top indexes.
    fn read_at_open(self: &Arc<Self>) {
        self.read_index();
        let Some(source) = self.source.as_deref().filter(|_| self.config.budget.is_none()) else { return };
        for number in [POINTS, RANGES] {
            let is_wanted = number == RANGES || matches!(self.points, Ok(FilterPart::Points));
            if is_wanted && self.units.unit(number).is_some() {
                read_all(source, || self.begin(number), &|_| true);
            }
        }
    }

    /// The point filter that stays in memory.
    fn held_at_open(&self) -> Option<FilterBlock<Bytes>> {
        let is_whole = self.config.budget.is_none() && matches!(self.points, Ok(FilterPart::Points));
        let held = self.units.unit(POINTS).filter(|_| is_whole)?.held();
        match held.as_deref() {
            Some(Held::Block(held)) => held.filter.points().cloned(),
            _ => None,
        }
    }

    /// Reads the top index, if that is to be read now and there is a source.
    fn read_index(self: &Arc<Self>) {
        if let Some(source) = &self.source
            && let Some(read) = self.begin_index()
        {
            let bytes = source.read(read.range());
            read.complete(bytes);
        }
    }

    /// The whole point filter. It must hold keys that the file has.
    fn load_points(&self, bytes: Bytes) -> Result<FilterBlock<Bytes>, FilterProblem> {
        let (known, parts) = (self.metadata.known_keys(), self.reader().key_parts_of(self.shared));
        let context = self.reader().context_of(&parts).with_file_id(self.metadata.file).with_known_keys(&known);
        let block = FilterBlock::load(bytes.clone(), context).map_err(|problem| {
            let outdated = self.check_current(FilterPart::Points, &bytes, &problem).err();
            outdated.unwrap_or_else(|| self.judged(problem))
        })?;
        self.check_sum(FilterPart::Points, block.checksum_without_last())?;
        Ok(block)
    }

    fn load_ranges(&self, bytes: Bytes) -> Result<RangeFilter<Bytes>, FilterProblem> {
        let known = self.metadata.known_keys();
        let mut context = RangeContext::new(&self.reader().hasher).with_file_id(self.metadata.file);
        if let Some(extractor) = &self.reader().range_extractor {
            context = context.with_extractor(extractor.clone());
        }
        let filter = RangeFilter::load(bytes.clone(), &context.with_known_keys(&known)).map_err(|problem| {
            // Ordered codes need neither hasher nor extractor, and equal public seeds are equal hashes.
            let is_reader_to_blame = RangeInfo::of_block(&bytes).is_ok_and(|info| match info.map {
                RangeMap::Hashed { extractor_checksum, .. } => {
                    extractor_checksum.is_some() || info.hash.id != HashId::Xxh3
                }
                RangeMap::Ordered { .. } => false,
            });
            match self.check_current(FilterPart::Ranges, &bytes, &problem) {
                Err(outdated) => outdated,
                Ok(()) if is_reader_to_blame => self.judged_with(problem),
                Ok(()) => problem.into(),
            }
        })?;
        self.check_sum(FilterPart::Ranges, filter.checksum_without_last())?;
        Ok(filter)
    }

    /// Compares what was read with the description: a block of the same file from another time is sound by itself.
    fn check_sum(&self, part: FilterPart, got: u32) -> Result<(), FilterProblem> {
        let expected = self.metadata.section(&[part]).map_or(0, |section| section.checksum);
        if expected == got { Ok(()) } else { Err(FilterProblem::Checksum { what: "filter", expected, got }) }
    }

    /// An error for a filter without a known key that is not the one described: the file had other keys then, and the
    /// hasher is not to blame.
    fn check_current(&self, part: FilterPart, bytes: &Bytes, problem: &BlockError) -> Result<(), FilterProblem> {
        if !matches!(problem, BlockError::KnownKeyAbsent { .. }) {
            return Ok(());
        }
        let covered = bytes.split_last_chunk::<CHECKSUM_BYTES>().map_or(&bytes[..], |(covered, _)| covered);
        self.check_sum(part, checksum(covered))
    }

    /// A filter that lacks a key of its file, and is not wrong itself, shows that the hasher or an extractor is.
    fn judged(&self, problem: BlockError) -> FilterProblem {
        if self.reader().is_known_by_identity(self.shared) { problem.into() } else { self.judged_with(problem) }
    }

    fn judged_with(&self, problem: BlockError) -> FilterProblem {
        if matches!(problem, BlockError::KnownKeyAbsent { .. }) {
            self.config.trust.end(&problem);
        }
        problem.into()
    }

    pub(super) fn load_index(&self, tail: &[u8]) -> Result<(), FilterProblem> {
        let Some(section) = self.metadata.points() else { return Ok(()) };
        let parts = self.reader().key_parts_of(self.shared);
        // Of whole keys under a public seed, equal identities prove equal hashes.
        let is_proven = self.reader().is_known_by_identity(self.shared);
        let known = if is_proven { Vec::new() } else { self.metadata.known_keys() };
        let context = self.reader().context_of(&parts).with_file_id(self.metadata.file).with_known_keys(&known);
        let loaded = PartitionIndex::load(tail, context)?;
        let covered = tail.split_last_chunk::<CHECKSUM_BYTES>().map_or(tail, |(covered, _)| covered);
        self.check_sum(FilterPart::PartitionedPoints, checksum(covered))?;
        if loaded.container_bytes() != section.bytes {
            let (expected, got) = (section.bytes, loaded.container_bytes());
            return Err(FilterProblem::Length { what: "partitioned filter", expected, got });
        }
        let index = self.index.get_or_init(|| Box::new(loaded));
        self.units.set_points(index.block_bytes().map(u64::from));
        Ok(())
    }

    /// Looks for the known keys in a partition that must hold some.
    pub(super) fn check_known_keys(&self, partition: u32, bytes: Bytes) -> Result<(), FilterProblem> {
        let Some(index) = self.partitions() else { return Ok(()) };
        match index.open(partition, bytes).map(drop) {
            // Others are still to be read.
            Err(BlockError::KnownKeysUnchecked { .. }) => Ok(()),
            checked => checked.map_err(|problem| self.judged_with(problem)),
        }
    }

    pub(super) fn load_unit(&self, number: u32, bytes: Bytes) -> Loaded {
        match (number.checked_sub(POINTS), self.partitions()) {
            (None, _) => self.load_ranges(bytes).map(|filter| HeldFilter::Ranges(Box::new(filter))),
            (Some(_), None) => self.load_points(bytes).map(HeldFilter::Points),
            (Some(partition), Some(index)) => Ok(HeldFilter::Points(index.open(partition, bytes)?)),
        }
    }

    fn partitions(&self) -> Option<&PartitionIndex> {
        self.index.get().map(AsRef::as_ref)
    }

    /// The read of the top index, if that is to be read now.
    fn begin_index(self: &Arc<Self>) -> Option<FilterRead> {
        let section = self.metadata.points().filter(|_| matches!(self.points, Ok(FilterPart::PartitionedPoints)))?;
        let is_needed = self.index.get().is_none() && self.units.begin_preparing();
        is_needed.then(|| FilterRead::of_index(self, section.index_range()))
    }

    /// The next read that brings the unit into memory. `None` if it should not be there, or another thread is at it, or
    /// it could not be read lately.
    fn begin(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
        if self.config.trust.problem().is_some() {
            return None;
        }
        let section = if number == RANGES { self.metadata.ranges() } else { self.metadata.points() }?;
        if number == RANGES || section.part == FilterPart::Points {
            return Some(FilterRead::of_unit(self, self.pool().begin(&self.units, number)?, section.range()));
        }
        let Some(index) = self.partitions() else { return self.begin_index() };
        let within = |partition| {
            let range = index.block_place(partition).ok()?;
            Some(section.offset + range.start..section.offset + range.end)
        };
        if let Some(unchecked) = index.unchecked_partitions().next() {
            let range = within(unchecked)?;
            return self.units.begin_preparing().then(|| FilterRead::of_known_keys(self, unchecked, range));
        }
        index.known_keys_verdict().ok()?;
        let range = within(number - POINTS)?;
        Some(FilterRead::of_unit(self, self.pool().begin(&self.units, number)?, range))
    }

    /// The next read for a lookup of a key.
    pub(super) fn read_for(self: &Arc<Self>, key: &[u8]) -> Option<FilterRead> {
        self.read_for_unit(self.unit_of(key))
    }

    /// The next read for a scan of a range.
    pub(super) fn read_for_range(self: &Arc<Self>) -> Option<FilterRead> {
        self.read_for_unit(RANGES)
    }

    /// The next read for a scan of a prefix, of the first part that can hold a key with it.
    pub(super) fn read_for_prefix(self: &Arc<Self>, prefix: &[u8]) -> Option<FilterRead> {
        let hash = self.reader().prefix_hashes(self.shared, prefix).next()?;
        let place = self.partitions().and_then(|index| index.places_with_part(prefix, hash).next());
        self.read_for_unit(place.map_or(0, |place| place.number) + POINTS)
    }

    fn read_for_unit(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
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

    /// The unit of the point filter that the key is in.
    fn unit_of(&self, key: &[u8]) -> u32 {
        let Some(index) = self.partitions() else { return POINTS };
        let hash = self.reader().point_hashes(self.shared, key).next();
        hash.map_or(POINTS, |hash| index.place_of_hash(key, hash).number + POINTS)
    }
}

/// Probing.
impl FileState {
    pub(super) fn metadata(&self) -> &FilterMetadata {
        &self.metadata
    }

    pub(super) const fn shared(&self) -> SharedParts {
        self.shared
    }

    pub(super) const fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones
    }

    /// The hash of a whole key by the hasher of the store that opened the file.
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        self.reader().hasher.hash(key)
    }

    /// Whether a store of this configuration opened the file.
    #[inline]
    pub(super) fn is_from(&self, config: &Arc<Config>) -> bool {
        Arc::ptr_eq(&self.config, config)
    }

    /// Whether a store of this reader makes the probes for the file.
    pub(super) fn is_of(&self, config: &Config) -> bool {
        let is_same = || {
            let other = &config.reader;
            self.reader().is_same(other)
                && (Arc::ptr_eq(&self.config.trust, &config.trust) || other.is_known_by_identity(self.shared))
        };
        Arc::ptr_eq(&self.config.reader, &config.reader) && Arc::ptr_eq(&self.config.trust, &config.trust) || is_same()
    }

    /// The point filter, where views may keep it beside those of other files.
    #[inline]
    pub(super) fn resident(&self) -> Option<&FilterBlock<Bytes>> {
        self.resident.as_ref()
    }

    /// Whether there is a point filter, usable or not.
    pub(super) fn has_points(&self) -> bool {
        self.metadata.points().is_some()
    }

    /// Whether the point filter is there and can never be probed.
    pub(super) const fn is_unusable(&self) -> bool {
        matches!(self.points, Err(Some(_)))
    }

    /// Whether the key is within the file's bounds, or deleted by a range tombstone of it.
    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.metadata.bounds.hold(key) || self.deletes(key)
    }

    /// Whether a range tombstone of the file may delete the key, so that the file is read whatever its filter says.
    fn deletes(&self, key: &[u8]) -> bool {
        self.metadata.range_tombstones.as_ref().is_some_and(|span| span.holds(key))
    }

    pub(super) fn overlaps(&self, range: KeyRange<'_>) -> bool {
        self.deletes_in(range) || self.metadata.bounds.overlap(range)
    }

    fn deletes_in(&self, range: KeyRange<'_>) -> bool {
        self.metadata.range_tombstones.as_ref().is_some_and(|span| span.overlaps(range))
    }

    /// Whether the file certainly has something in the range, so that there is nothing to learn from its filter.
    pub(super) fn surely_meets(&self, range: KeyRange<'_>) -> bool {
        self.deletes_in(range) || self.metadata.known_keys().iter().any(|key| range.contains(key))
    }

    /// Prefetches what finds the filter.
    #[inline]
    pub(super) fn prefetch(&self) {
        let start: *const u8 = core::ptr::from_ref(self).cast();
        prefetch(start);
        prefetch(start.wrapping_add(64));
    }

    /// Prefetches what a probe reads, if all of the filter is in memory and holds whole keys.
    #[inline]
    pub(super) fn prefetch_probe(&self, whole: impl FnOnce() -> KeyHash) {
        if let Some(block) = self.resident().filter(|_| self.shared.has_whole_keys()) {
            block.prefetch(whole());
            self.units.counters.prefetch();
        }
    }

    /// Probes for a key within the file's bounds, and counts the answer. `whole` is the hash of the whole key.
    #[inline]
    pub(super) fn probe_key(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        let is_plain = self.shared.has_whole_keys() && !self.has_range_tombstones();
        match self.resident().filter(|_| is_plain && self.config.trust.problem().is_none()) {
            Some(block) => {
                let may_contain = block.may_contain(whole());
                self.units.counters.add_answer(may_contain);
                Answer::of(if may_contain { FileProbe::MaybePresent } else { FileProbe::Absent })
            }
            None => self.probe_unplainly(key, whole),
        }
    }

    /// The same for a filter that is not all in memory, or is probed for parts of the key, or cannot be probed.
    #[inline(never)]
    fn probe_unplainly(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        if self.deletes(key) {
            // Not probed for: whatever becomes of it says nothing about the filter.
            return Answer::of(FileProbe::Unusable);
        }
        if let Some(answer) = self.unusable(&self.points, POINTS) {
            return answer;
        }
        if self.shared.has_whole_keys() {
            return self.probe_hashes(key, &[whole()]);
        }
        let hashes: Vec<KeyHash> = self.reader().point_hashes(self.shared, key).collect();
        // A key outside the domains of all extractors is not probed for.
        if hashes.is_empty() { Answer::of(FileProbe::Unusable) } else { self.probe_hashes(key, &hashes) }
    }

    /// The answer where a filter cannot be probed: there is none, which is not counted, or it is not used.
    fn unusable(&self, usable: &Usable, unit: u32) -> Option<Answer> {
        let is_there = match usable {
            Ok(_) if self.config.trust.problem().is_none() => return None,
            Err(None) => false,
            Ok(_) | Err(Some(_)) => true,
        };
        if is_there {
            self.units.counters_of(unit).add_unusable(1);
        }
        Some(Answer { probe: FileProbe::Unusable, unit })
    }

    /// Probes for a key by all hashes that a filter with it has.
    fn probe_hashes(self: &Arc<Self>, key: &[u8], hashes: &[KeyHash]) -> Answer {
        let probe = |number, hashes: &[KeyHash]| {
            self.probe_unit(number, &|held| {
                held.points().is_none_or(|block| hashes.iter().all(|&hash| block.may_contain_added(hash)))
            })
        };
        let index = match self.partitions_to_probe() {
            Ok(index) => index,
            Err(answer) => return answer,
        };
        match index {
            None => probe(POINTS, hashes),
            Some(index) if index.cut() == PartitionCut::KeyRange => {
                probe(hashes.first().map_or(0, |&hash| index.place_of_hash(key, hash).number) + POINTS, hashes)
            }
            Some(index) => {
                // Each in the partition of its own.
                let places = hashes.iter().map(|&hash| index.place_of_hash(key, hash));
                let mut answers = places.map(|place| probe(place.number + POINTS, &[place.hash]));
                let mut last = answers.next();
                while let Some(answer) = last.filter(|answer| !answer.probe.is_absent()) {
                    match answers.next() {
                        Some(next) => last = Some(next),
                        None => return answer,
                    }
                }
                last.unwrap_or(Answer::of(FileProbe::Unusable))
            }
        }
    }

    /// The partitions of a partitioned filter, whose top index is read before if it is not in memory. Until it is, nobody
    /// knows which partition to probe, nor with which hash.
    fn partitions_to_probe(self: &Arc<Self>) -> Result<Option<&PartitionIndex>, Answer> {
        if !matches!(self.points, Ok(FilterPart::PartitionedPoints)) {
            return Ok(None);
        }
        if self.partitions().is_none() {
            self.read_index();
        }
        self.partitions().map(Some).ok_or_else(|| self.answer_without_index())
    }

    #[cold]
    fn answer_without_index(&self) -> Answer {
        self.pool().count_probes(1);
        if self.units.failure().is_some() {
            self.units.counters.add_unusable(1);
            return Answer::of(FileProbe::Unusable);
        }
        self.units.counters.add_not_loaded(1);
        Answer::of(FileProbe::NotLoaded)
    }

    /// Probes a unit, and counts the answer. It is loaded before if it should be in memory, or larger, and the file has a
    /// source.
    fn probe_unit(self: &Arc<Self>, number: u32, may_match: Matching<'_>) -> Answer {
        let positive = || {
            self.units.counters_of(number).add_answer(true);
            Answer { probe: FileProbe::MaybePresent, unit: number }
        };
        let unit = self.units.unit(number);
        match unit.map(Unit::held).as_ref().and_then(|held| held.as_deref()) {
            Some(Held::Block(held)) if !may_match(&held.filter) => return self.absent(number),
            Some(Held::Block(_)) if unit.is_some_and(Unit::is_as_planned) => return positive(),
            // A partition without a filter.
            None if unit.is_none() && self.partitions().is_some() => return positive(),
            _ => {}
        }
        self.load_and_probe(number, may_match)
    }

    /// The answer where there is no block, or a larger one could be better than "may be present".
    #[cold]
    #[inline(never)]
    fn load_and_probe(self: &Arc<Self>, number: u32, may_match: Matching<'_>) -> Answer {
        let source = self.source.as_deref();
        let loaded = source.and_then(|source| read_all(source, || self.begin(number), may_match));
        let unit = self.units.unit(number);
        let held = unit.map(Unit::held);
        let probe = match (loaded, held.as_ref().and_then(|held| held.as_deref())) {
            (Some(false), _) => return self.absent(number),
            (Some(true), _) | (None, Some(Held::Block(_))) => FileProbe::MaybePresent,
            (None, Some(Held::Failed(_))) => FileProbe::Unusable,
            (None, None) if number != RANGES && self.units.failure().is_some() => FileProbe::Unusable,
            (None, None) => FileProbe::NotLoaded,
        };
        let counters = self.units.counters_of(number);
        match (probe, unit) {
            (FileProbe::MaybePresent, _) => counters.add_answer(true),
            (FileProbe::NotLoaded, Some(unit)) => unit.count_unanswered(),
            (FileProbe::NotLoaded, None) => counters.add_not_loaded(1),
            _ => counters.add_unusable(1),
        }
        self.pool().count_probes(1);
        Answer { probe, unit: number }
    }

    #[inline]
    fn absent(&self, number: u32) -> Answer {
        match self.units.unit(number) {
            Some(unit) if unit.count_negative() => {
                if unit.is_full() {
                    self.units.collect(number, unit);
                }
                self.pool().count_probes(Unit::MANY_NEGATIVES);
            }
            _ => {}
        }
        Answer { probe: FileProbe::Absent, unit: number }
    }

    /// Records what became of an answer that was not "absent".
    pub(super) fn record(&self, answer: Answer, is_found: bool) {
        let counters = self.units.counters_of(answer.unit);
        match answer.probe {
            // Of parts of keys, a missing key says nothing about its part.
            FileProbe::MaybePresent if is_found || self.shared.has_whole_keys() || answer.unit == RANGES => {
                counters.add_outcome(is_found);
            }
            // No filter would have prevented the read.
            FileProbe::NotLoaded if is_found && self.units.unit(answer.unit).is_some_and(Unit::discount_unanswered) => {
                counters.add_not_loaded(1);
            }
            _ => {}
        }
    }

    /// Whether the point filter may hold the parts that all keys with the prefix have in common.
    pub(super) fn may_contain_prefix(self: &Arc<Self>, prefix: &[u8]) -> bool {
        if self.points.is_err() || self.config.trust.problem().is_some() {
            return true;
        }
        let may_hold = |number, hash: KeyHash| {
            let answer =
                self.probe_unit(number, &|held| held.points().is_none_or(|block| block.may_contain_added(hash)));
            !answer.probe.is_absent()
        };
        let mut hashes = self.reader().prefix_hashes(self.shared, prefix);
        hashes.all(|hash| match self.partitions_to_probe() {
            Err(_) => true,
            Ok(None) => may_hold(POINTS, hash),
            Ok(Some(index)) => {
                index.places_with_part(prefix, hash).any(|place| may_hold(place.number + POINTS, place.hash))
            }
        })
    }

    /// Whether the file may have a key in a range that its bounds overlap.
    fn may_contain_range(self: &Arc<Self>, range: KeyRange<'_>) -> bool {
        self.surely_meets(range) || !self.probe_range(range).probe.is_absent()
    }

    /// Whether a scan can probe the range filter.
    pub(super) const fn has_ranges(&self) -> bool {
        self.ranges.is_ok()
    }

    /// Probes the range filter, and counts the answer.
    pub(super) fn probe_range(self: &Arc<Self>, range: KeyRange<'_>) -> Answer {
        let answer = self.unusable(&self.ranges, RANGES);
        answer.unwrap_or_else(|| {
            self.probe_unit(RANGES, &|held| held.ranges().is_none_or(|filter| filter.may_hold(range)))
        })
    }

    /// A lower bound of the file's first key that is not below `start`: `start` itself unless the range filter is in
    /// memory and knows better.
    pub(super) fn seek_hint(&self, start: &[u8]) -> NextKey {
        let held = self.units.unit(RANGES).map(Unit::held).filter(|_| self.config.trust.problem().is_none());
        match held.as_ref().and_then(|held| held.as_deref()) {
            Some(Held::Block(held)) if let Some(filter) = held.filter.ranges() => filter.first_at_least(start),
            _ => NextKey::AtLeast(start.to_vec()),
        }
    }

    /// Counts that the file has no key from the start of a range on.
    pub(super) fn count_range_negative(&self) {
        self.units.counters_of(RANGES).add_answer(false);
    }
}

/// Counting.
impl FileState {
    pub(super) fn counters(&self) -> &FilterCounters {
        &self.units.counters
    }

    /// Lookups are counted for the file by a chunk, at its place in it.
    pub(super) fn enter(&self, counts: &Arc<ChunkCounts>, place: u32) {
        lock(&self.chunks).push((counts.clone(), place));
    }

    /// A chunk counts no more. What it has counted is moved and the chunk forgotten in one step, so that sums miss
    /// nothing and count nothing twice.
    pub(super) fn leave(&self, counts: &Arc<ChunkCounts>, counted: &FileStats) {
        let mut chunks = lock(&self.chunks);
        chunks.retain(|(other, _)| !Arc::ptr_eq(other, counts));
        self.units.counters.add_stats(counted);
        drop(chunks);
    }

    pub(super) fn stats(&self) -> FileStats {
        let chunks = lock(&self.chunks);
        let mut stats = self.units.counters.file_stats();
        for (counts, place) in &*chunks {
            stats = stats.merged(&counts.of(*place));
        }
        drop(chunks);
        stats.ranges = self.units.range_counters.as_ref().map(|counters| counters.snapshot(true)).unwrap_or_default();
        for (number, unit) in self.units.units() {
            let counted = unit.counted();
            let filter = if number == RANGES { &mut stats.ranges } else { &mut stats.filter };
            filter.negatives += counted.negatives;
            filter.not_loaded += counted.unanswered;
        }
        stats
    }
}
