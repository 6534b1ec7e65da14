//! The filters of one open file.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;

use super::budget::{self, File, FilterResidency, Held, HeldFilter, Matching, Pool, RANGES, Unit};
use super::chunk::ChunkCounts;
use super::config::Config;
use super::error::FilterProblem;
use super::metadata::{FileBounds, FilterMetadata, FilterPart, FilterSection, KeyPartNames};
use super::partition::PartitionIndex;
use super::read::{FilterRead, FilterSource, Loaded, read_all};
use super::reader::{Reader, SharedParts};
use super::stats::FileStats;
use crate::block::{FilterBlock, LookupOutcome};
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
    /// There is no filter that could tell, so the file may have it: [`FileFilters::problem`] says why.
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
    /// In the budget's registry, for filters that come into memory later.
    slot: Option<u32>,
}

/// What lookups, views and reads under way share of an open file.
pub(super) struct FileState {
    config: Arc<Config>,
    metadata: FilterMetadata,
    /// The parts of keys that the point filter holds and the store knows.
    shared: SharedParts,
    points: Points,
    ranges: Ranges,
    units: Arc<File>,
    source: Option<Arc<dyn FilterSource>>,
    /// The chunks of views that count lookups for the file, each with the file's place in it.
    chunks: Mutex<Vec<(Arc<ChunkCounts>, u32)>>,
}

/// The point filter. Boxed where it is rare, because a large store has many open files.
enum Points {
    None,
    Unusable(Box<FilterProblem>),
    /// All of it, as long as the file is open.
    Resident(Box<FilterBlock<Bytes>>),
    /// A unit that comes into memory when it is probed.
    Whole,
    Partitioned(OnceLock<Box<PartitionIndex>>),
}

enum Ranges {
    None,
    Unusable(Box<FilterProblem>),
    Resident(Box<RangeFilter<Bytes>>),
    /// A unit that comes into memory when it is probed.
    Whole,
}

/// What a probe has found, and of which unit, so that its outcome can be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) probe: FileProbe,
    unit: u32,
}

impl Answer {
    const fn of(probe: FileProbe) -> Self {
        Self { probe, unit: RANGES + 1 }
    }

    /// That of a file that is a candidate after the filters of a group were probed.
    #[inline]
    pub(super) fn of_group(file: &FileState) -> Self {
        Self::of(if file.resident().is_some() { FileProbe::MaybePresent } else { FileProbe::Unusable })
    }
}

impl FileFilters {
    pub(super) fn open(config: &Arc<Config>, metadata: FilterMetadata, source: Option<Arc<dyn FilterSource>>) -> Self {
        let shared = config.reader.parts_shared_with(&metadata.parts).ok();
        let shared = shared.map(|shared| config.reader.confirmed_by(shared, &metadata.known_keys()));
        let is_resident = config.budget.is_none() && source.is_some();
        let mut state = FileState {
            config: config.clone(),
            shared: shared.unwrap_or_else(|| config.reader.all_parts()),
            points: Points::None,
            ranges: Ranges::None,
            units: Arc::default(),
            source,
            metadata,
            chunks: Mutex::default(),
        };
        state.points = match state.metadata.points() {
            None => Points::None,
            Some(section) => match (state.check_points(), section.part) {
                (Err(problem), _) => Points::Unusable(Box::new(problem)),
                (Ok(()), FilterPart::PartitionedPoints) => Points::Partitioned(OnceLock::new()),
                (Ok(()), _) if is_resident => {
                    match state.read_now(section).and_then(|bytes| state.load_points(bytes)) {
                        Ok(block) => Points::Resident(Box::new(block)),
                        Err(problem) => Points::Unusable(Box::new(problem)),
                    }
                }
                (Ok(()), _) => Points::Whole,
            },
        };
        state.ranges = match state.metadata.ranges() {
            None => Ranges::None,
            Some(section) => match state.check_ranges() {
                Err(problem) => Ranges::Unusable(Box::new(problem)),
                Ok(()) if is_resident => match state.read_now(section).and_then(|bytes| state.load_ranges(bytes)) {
                    Ok(filter) => Ranges::Resident(Box::new(filter)),
                    Err(problem) => Ranges::Unusable(Box::new(problem)),
                },
                Ok(()) => Ranges::Whole,
            },
        };
        let lazy_ranges = state.metadata.ranges().filter(|_| matches!(state.ranges, Ranges::Whole));
        let mut units = File::new(lazy_ranges.map(|section| section.bytes));
        units.range_counters = state.metadata.ranges().map(|_| Box::new(FilterCounters::new()));
        if let (Points::Whole, Some(section)) = (&state.points, state.metadata.points()) {
            units.set_points(core::iter::once(section.bytes));
        }
        state.units = Arc::new(units);
        let is_lazy = matches!(state.points, Points::Whole | Points::Partitioned(_)) || lazy_ranges.is_some();
        let state = Arc::new(state);
        let slot = is_lazy.then(|| state.pool().add(&state.units));
        if let Some(source) = &state.source
            && let Some(read) = state.begin_index()
        {
            let bytes = source.read(read.range());
            read.complete(bytes);
        }
        Self { state, slot }
    }

    pub(super) fn unfiltered(config: &Arc<Config>, bounds: FileBounds) -> Self {
        let metadata = FilterMetadata {
            file: crate::ids::FileId::from_fingerprint(0),
            hash: config.reader.hasher.identity(),
            parts: KeyPartNames::NONE,
            range_extractor: None,
            bounds,
            keys_added: 0,
            range_tombstones: None,
            witnesses: Vec::new(),
            sections: Vec::new(),
        };
        Self::open(config, metadata, None)
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
            state.units.counters.add_bound_skip();
            return FileProbe::Absent;
        }
        state.probe_key(key, || state.reader().hasher.hash(key)).probe
    }

    /// Probes the range filter, whatever the file's smallest and largest keys say, and counts the answer.
    #[must_use]
    pub fn probe_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> FileProbe {
        self.state.probe_range(range.into()).probe
    }

    /// Whether the file may have a key that begins with `prefix`. Counted only where a filter that is not in memory is
    /// probed.
    #[must_use]
    pub fn may_contain_prefix(&self, prefix: &[u8]) -> bool {
        let upper = KeyRange::end_of_prefix(prefix);
        let upper = upper.as_ref().map(Vec::as_slice);
        let range = KeyRange { lower: core::ops::Bound::Included(prefix), upper };
        self.state.may_contain_prefix(prefix) && self.may_contain_range(range)
    }

    /// Whether the file may have a key in `range`. Counted only where a filter that is not in memory is probed.
    #[must_use]
    pub fn may_contain_range<'a>(&self, range: impl Into<KeyRange<'a>>) -> bool {
        let range = range.into();
        let state = &self.state;
        state.overlaps(range) && (state.surely_meets(range) || state.may_contain_range(range))
    }

    /// Records whether the file had the key for which [`probe`](Self::probe) answered. Call it once for each answer that
    /// is not "absent".
    pub fn record_lookup(&self, key: &[u8], probe: FileProbe, outcome: LookupOutcome) {
        let unit = if probe == FileProbe::NotLoaded { self.state.unit_of(key) } else { RANGES + 1 };
        self.state.record(Answer { probe, unit }, outcome == LookupOutcome::Found);
    }

    /// What is still to be read for a lookup of `key`; `None` if nothing is, or another lookup has it in hand.
    pub fn read_for(&self, key: &[u8]) -> Option<FilterRead> {
        FileState::read_for(&self.state, key)
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
        let state = &self.state;
        match &state.points {
            Points::None => None,
            Points::Unusable(problem) => Some((**problem).clone()),
            _ => state
                .config
                .trust
                .problem()
                .map(|problem| problem.clone().into())
                .or_else(|| budget::point_failure(&state.units).map(|problem| (*problem).clone())),
        }
    }

    /// Why the range filter is not used.
    #[must_use]
    pub fn range_problem(&self) -> Option<FilterProblem> {
        let state = &self.state;
        match &state.ranges {
            Ranges::None => None,
            Ranges::Unusable(problem) => Some((**problem).clone()),
            Ranges::Resident(_) | Ranges::Whole => {
                budget::range_failure(&state.units).map(|problem| (*problem).clone())
            }
        }
    }

    /// The point filter's block, if all of it is in memory as long as the file is open.
    #[must_use]
    pub fn block(&self) -> Option<&FilterBlock<Bytes>> {
        match &self.state.points {
            Points::Resident(block) => Some(block),
            _ => None,
        }
    }

    /// The range filter, if it is in memory as long as the file is open.
    #[must_use]
    pub fn range_filter(&self) -> Option<&RangeFilter<Bytes>> {
        match &self.state.ranges {
            Ranges::Resident(filter) => Some(filter),
            _ => None,
        }
    }

    /// The top index of a partitioned filter, once it was read.
    #[must_use]
    pub fn partitions(&self) -> Option<&PartitionIndex> {
        self.state.partitions()
    }

    /// How much of the filters that come into memory when they are probed is there, and why. All that stays in memory as
    /// long as the file is open is not in it.
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
            .field("problem", &self.problem())
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

    fn read_now(&self, section: &FilterSection) -> Result<Bytes, FilterProblem> {
        let unreadable = |reason: String| FilterProblem::Unreadable { reason };
        let source = self.source.as_ref().ok_or_else(|| unreadable("there is no source".into()))?;
        source.read(section.range()).map_err(|error| unreadable(error.to_string()))
    }

    /// The whole point filter. It must hold the file's smallest and largest key.
    fn load_points(&self, bytes: Bytes) -> Result<FilterBlock<Bytes>, FilterProblem> {
        let (known, parts) = (self.metadata.known_keys(), self.reader().key_parts_of(self.shared));
        let context = self.reader().context_of(&parts).with_file_id(self.metadata.file).with_known_keys(&known);
        let block = FilterBlock::load(bytes.clone(), context).map_err(|problem| match self.metadata.points() {
            Some(section) if let Err(damage) = believed(section, &bytes, &problem) => damage,
            _ => self.judged(problem),
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
            if let Some(section) = self.metadata.ranges()
                && let Err(damage) = believed(section, &bytes, &problem)
            {
                return damage;
            }
            // Ordered codes need neither hasher nor extractor, and equal public seeds are equal hashes.
            let is_reader_to_blame = RangeInfo::of_block(&bytes).is_ok_and(|info| match info.map {
                RangeMap::Hashed { extractor_checksum, .. } => {
                    extractor_checksum.is_some() || info.hash.id != HashId::Xxh3
                }
                RangeMap::Ordered { .. } => false,
            });
            if is_reader_to_blame { self.judged_with(problem) } else { problem.into() }
        })?;
        self.check_sum(FilterPart::Ranges, filter.checksum_without_last())?;
        Ok(filter)
    }

    /// Compares what was read with the description: a block of the same file from another time is sound by itself.
    fn check_sum(&self, part: FilterPart, got: u32) -> Result<(), FilterProblem> {
        self.metadata.section(&[part]).map_or(Ok(()), |section| section.check_sum(got))
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
        let (Points::Partitioned(index), Some(section)) = (&self.points, self.metadata.points()) else {
            return Ok(());
        };
        let parts = self.reader().key_parts_of(self.shared);
        // Of whole keys under a public seed, equal identities prove equal hashes.
        let is_proven = self.reader().is_known_by_identity(self.shared);
        let known = if is_proven { Vec::new() } else { self.metadata.known_keys() };
        let context = self.reader().context_of(&parts).with_file_id(self.metadata.file).with_known_keys(&known);
        let loaded = PartitionIndex::load(tail, context).map_err(|problem| {
            believed(section, tail, &problem).err().unwrap_or_else(|| problem.into())
        })?;
        section.check(tail)?;
        if loaded.container_bytes() != section.bytes {
            let (expected, got) = (section.bytes, loaded.container_bytes());
            return Err(FilterProblem::Length { what: "partitioned filter", expected, got });
        }
        let index = index.get_or_init(|| Box::new(loaded));
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
        match (number.checked_sub(RANGES + 1), self.partitions()) {
            (None, _) => self.load_ranges(bytes).map(|filter| HeldFilter::Ranges(Box::new(filter))),
            (Some(_), None) => self.load_points(bytes).map(HeldFilter::Points),
            (Some(partition), Some(index)) => Ok(HeldFilter::Points(index.open(partition, bytes)?)),
        }
    }

    fn partitions(&self) -> Option<&PartitionIndex> {
        match &self.points {
            Points::Partitioned(index) => index.get().map(AsRef::as_ref),
            _ => None,
        }
    }

    /// The next read before a unit of the point filter can be loaded, if there is one: its top index.
    fn begin_index(self: &Arc<Self>) -> Option<FilterRead> {
        let (Points::Partitioned(index), Some(section)) = (&self.points, self.metadata.points()) else { return None };
        let is_needed = index.get().is_none() && self.units.begin_preparing();
        is_needed.then(|| FilterRead::of_index(self, section.index_range()))
    }

    /// The next read that brings the unit into memory. `None` if it should not be there, or another thread is at it, or
    /// it could not be read lately.
    fn begin(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
        if self.config.trust.problem().is_some() {
            return None;
        }
        let (section, range) = match number {
            RANGES => self.metadata.ranges().map(|section| (section, section.range()))?,
            _ => self.metadata.points().map(|section| (section, section.range()))?,
        };
        let within = |range: core::ops::Range<u64>| section.offset + range.start..section.offset + range.end;
        if number == RANGES || !matches!(self.points, Points::Partitioned(_)) {
            return Some(FilterRead::of_unit(self, self.pool().begin(&self.units, number)?, range));
        }
        let Some(index) = self.partitions() else { return self.begin_index() };
        if let Some(unchecked) = index.unchecked_partitions().next() {
            let range = within(index.block_place(unchecked).ok()?);
            return self.units.begin_preparing().then(|| FilterRead::of_known_keys(self, unchecked, range));
        }
        index.known_keys_verdict().ok()?;
        let range = within(index.block_place(number - RANGES - 1).ok()?);
        Some(FilterRead::of_unit(self, self.pool().begin(&self.units, number)?, range))
    }

    pub(super) fn read_for(this: &Arc<Self>, key: &[u8]) -> Option<FilterRead> {
        this.read_for_unit(this.unit_of(key))
    }

    fn read_for_unit(self: &Arc<Self>, number: u32) -> Option<FilterRead> {
        let is_held = |unit: &Unit| match unit.held().as_deref() {
            Some(Held::Block(held)) => held.bytes >= unit.planned_bytes(),
            _ => false,
        };
        let is_wanted = match self.units.unit(number) {
            Some(unit) => !is_held(unit),
            None => matches!(&self.points, Points::Partitioned(index) if index.get().is_none()),
        };
        if is_wanted && number != RANGES || is_wanted && matches!(self.ranges, Ranges::Whole) {
            self.begin(number)
        } else {
            None
        }
    }

    /// The unit of the point filter that the key is in.
    fn unit_of(&self, key: &[u8]) -> u32 {
        let Some(index) = self.partitions() else { return RANGES + 1 };
        let hash = self.reader().point_hashes(self.shared, key).next();
        hash.map_or(RANGES + 1, |hash| index.place_of_hash(key, hash).number + RANGES + 1)
    }
}

/// An error that blames the release, or how the store is configured, is believed only of the bytes that were written.
fn believed(section: &FilterSection, bytes: &[u8], problem: &BlockError) -> Result<(), FilterProblem> {
    let of_block = FilterProblem::from(problem.clone());
    let is_known_key_absent = matches!(problem, BlockError::KnownKeyAbsent { .. });
    let blames = is_known_key_absent || of_block.is_unknown() || of_block.is_foreign();
    if blames { section.check(bytes) } else { Ok(()) }
}

/// Probing.
impl FileState {
    /// Whether the key is within the file's bounds, or deleted by a range tombstone of it.
    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.metadata.bounds.hold(key) || self.deletes(key)
    }

    /// Whether a range tombstone of the file may delete the key, so that the file is read whatever its filter says.
    #[inline]
    pub(super) fn deletes(&self, key: &[u8]) -> bool {
        self.metadata.range_tombstones.as_ref().is_some_and(|span| span.holds(key))
    }

    pub(super) fn overlaps(&self, range: KeyRange<'_>) -> bool {
        let is_deleted = self.metadata.range_tombstones.as_ref().is_some_and(|span| span.overlaps(range));
        is_deleted || self.metadata.bounds.overlap(range)
    }

    /// Whether the file certainly has something in the range, so that there is nothing to learn from its filter.
    pub(super) fn surely_meets(&self, range: KeyRange<'_>) -> bool {
        let known = self.metadata.known_keys();
        let is_deleted = self.metadata.range_tombstones.as_ref().is_some_and(|span| span.overlaps(range));
        is_deleted || known.iter().any(|key| range.contains(key))
    }

    pub(super) const fn has_range_tombstones(&self) -> bool {
        self.metadata.range_tombstones.is_some()
    }

    /// Whether a store of this reader makes the probes for the file.
    pub(super) fn is_of(&self, reader: &Arc<Reader>) -> bool {
        Arc::ptr_eq(&self.config.reader, reader)
    }

    /// Prefetches what finds the filter.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
    }

    /// Prefetches what a probe reads, if all of the filter is in memory and holds whole keys.
    #[inline]
    pub(super) fn prefetch_probe(&self, whole: impl FnOnce() -> KeyHash) {
        if let Points::Resident(block) = &self.points
            && self.shared.has_whole_keys()
        {
            block.prefetch(whole());
            self.units.counters.prefetch();
        }
    }

    pub(super) const fn metadata(&self) -> &FilterMetadata {
        &self.metadata
    }

    pub(super) const fn shared(&self) -> SharedParts {
        self.shared
    }

    /// The point filter, where views may keep it beside those of other files.
    pub(super) fn resident(&self) -> Option<&FilterBlock<Bytes>> {
        match &self.points {
            Points::Resident(block) => Some(block),
            _ => None,
        }
    }

    /// Whether there is no filter that a lookup could probe, now or later.
    pub(super) const fn has_no_points(&self) -> bool {
        matches!(self.points, Points::None)
    }

    /// Whether the point filter is there and can never be probed.
    pub(super) const fn is_unusable(&self) -> bool {
        matches!(self.points, Points::Unusable(_))
    }

    /// Probes for a key within the file's bounds, and counts the answer. `whole` is the hash of the whole key.
    #[inline]
    pub(super) fn probe_key(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        if self.deletes(key) {
            return Answer::of(FileProbe::MaybePresent);
        }
        match &self.points {
            Points::Resident(block) if self.shared.has_whole_keys() && self.config.trust.problem().is_none() => {
                let hash = whole();
                self.counted(block.may_contain(hash))
            }
            Points::None => Answer::of(FileProbe::Unusable),
            _ => self.probe_parts(key, whole),
        }
    }

    /// The same for a filter that is not all in memory, or is probed for parts of the key.
    #[inline(never)]
    fn probe_parts(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        if self.is_unusable() || self.config.trust.problem().is_some() {
            self.units.counters.add_unusable(1);
            return Answer::of(FileProbe::Unusable);
        }
        if self.shared.has_whole_keys() {
            return self.probe_hash(key, whole());
        }
        let mut hashes = self.reader().point_hashes(self.shared, key);
        // A key outside the domains of all extractors is not probed for.
        let Some(mut decisive) = hashes.next() else { return Answer::of(FileProbe::Unusable) };
        if let Points::Resident(block) = &self.points {
            return self.counted(block.may_contain_added(decisive) && hashes.all(|hash| block.may_contain_added(hash)));
        }
        // One answer is counted: the last.
        for next in hashes {
            if self.is_absent_in_memory(key, decisive) {
                break;
            }
            decisive = next;
        }
        self.probe_hash(key, decisive)
    }

    #[inline]
    fn counted(&self, may_contain: bool) -> Answer {
        self.units.counters.add_answer(may_contain);
        Answer::of(if may_contain { FileProbe::MaybePresent } else { FileProbe::Absent })
    }

    fn probe_hash(self: &Arc<Self>, key: &[u8], hash: KeyHash) -> Answer {
        match (&self.points, self.partitions()) {
            (Points::Resident(block), _) => self.counted(block.may_contain_added(hash)),
            (_, None) => self.probe_points(RANGES + 1, hash),
            (_, Some(index)) => {
                let place = index.place_of_hash(key, hash);
                self.probe_points(place.number + RANGES + 1, place.hash)
            }
        }
    }

    fn probe_points(self: &Arc<Self>, number: u32, hash: KeyHash) -> Answer {
        self.probe_unit(number, &|held| match held {
            HeldFilter::Points(block) => block.may_contain_added(hash),
            HeldFilter::Ranges(_) => true,
        })
    }

    /// Whether the filter is in memory, and lacks the hash. Not counted.
    fn is_absent_in_memory(&self, key: &[u8], hash: KeyHash) -> bool {
        let place = self.partitions().map(|index| index.place_of_hash(key, hash));
        let (number, hash) = place.map_or((0, hash), |place| (place.number, place.hash));
        let unit = self.units.unit(number + RANGES + 1);
        matches!(unit.map(Unit::held).as_ref().and_then(|held| held.as_deref()),
            Some(Held::Block(held)) if matches!(&held.filter, HeldFilter::Points(block) if !block.may_contain_added(hash)))
    }

    /// Probes a unit, and counts the answer. It is loaded before if it should be in memory, or larger, and the file has a
    /// source.
    fn probe_unit(self: &Arc<Self>, number: u32, may_match: Matching<'_>) -> Answer {
        let counters = self.units.counters_of(number);
        let positive = || {
            counters.add_answer(true);
            Answer { probe: FileProbe::MaybePresent, unit: number }
        };
        let Some(unit) = self.units.unit(number) else {
            // The top index is not here, or the partition has no filter.
            if self.partitions().is_some() || number == RANGES {
                return positive();
            }
            return self.load_and_probe(number, None, may_match);
        };
        if let Some(Held::Block(held)) = unit.held().as_deref() {
            if !may_match(&held.filter) {
                return self.absent(number, unit);
            }
            if held.bytes >= unit.planned_bytes() {
                return positive();
            }
        }
        self.load_and_probe(number, Some(unit), may_match)
    }

    /// The answer where there is no block, or a larger one could be better than "may be present".
    #[cold]
    #[inline(never)]
    fn load_and_probe(self: &Arc<Self>, number: u32, unit: Option<&Unit>, may_match: Matching<'_>) -> Answer {
        let source = self.source.as_deref();
        let loaded = source.and_then(|source| read_all(source, || self.begin(number), may_match));
        let counters = self.units.counters_of(number);
        let is_held = || unit.is_some_and(|unit| matches!(unit.held().as_deref(), Some(Held::Block(_))));
        let has_failed = || {
            let failed = unit.is_some_and(|unit| matches!(unit.held().as_deref(), Some(Held::Failed(_))));
            failed || (number != RANGES && self.units.failure().is_some())
        };
        let probe = match loaded {
            Some(false) => return unit.map_or(Answer::of(FileProbe::Absent), |unit| self.absent(number, unit)),
            Some(true) => FileProbe::MaybePresent,
            None if is_held() => FileProbe::MaybePresent,
            None if has_failed() => FileProbe::Unusable,
            None => FileProbe::NotLoaded,
        };
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
    fn absent(&self, number: u32, unit: &Unit) -> Answer {
        if unit.count_negative() {
            if unit.is_full() {
                self.units.collect(number, unit);
            }
            self.pool().count_probes(Unit::MANY_NEGATIVES);
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
            FileProbe::NotLoaded if is_found => {
                // No filter would have prevented the read.
                if self.units.unit(answer.unit).is_some_and(Unit::discount_unanswered) {
                    counters.add_not_loaded(1);
                }
            }
            _ => {}
        }
    }

    /// Whether the point filter may hold the parts that all keys with the prefix have in common. Counted only where it
    /// is not all in memory.
    pub(super) fn may_contain_prefix(self: &Arc<Self>, prefix: &[u8]) -> bool {
        if matches!(self.points, Points::None | Points::Unusable(_)) || self.config.trust.problem().is_some() {
            return true;
        }
        let mut hashes = self.reader().prefix_hashes(self.shared, prefix);
        hashes.all(|hash| match (&self.points, self.partitions()) {
            (Points::Resident(block), _) => block.may_contain_added(hash),
            (_, None) => !self.probe_points(RANGES + 1, hash).probe.is_absent(),
            (_, Some(index)) => {
                let mut places = index.places_with_part(prefix, hash);
                places.any(|place| !self.probe_points(place.number + RANGES + 1, place.hash).probe.is_absent())
            }
        })
    }

    /// Whether a scan can probe the range filter.
    pub(super) fn has_ranges(&self) -> bool {
        matches!(self.ranges, Ranges::Resident(_) | Ranges::Whole)
    }

    /// Probes the range filter, and counts the answer.
    pub(super) fn probe_range(self: &Arc<Self>, range: KeyRange<'_>) -> Answer {
        let counters = self.units.counters_of(RANGES);
        match &self.ranges {
            Ranges::None => Answer { probe: FileProbe::Unusable, unit: RANGES },
            Ranges::Unusable(_) => {
                counters.add_unusable(1);
                Answer { probe: FileProbe::Unusable, unit: RANGES }
            }
            _ if self.config.trust.problem().is_some() => {
                counters.add_unusable(1);
                Answer { probe: FileProbe::Unusable, unit: RANGES }
            }
            Ranges::Resident(filter) => {
                let may_contain = filter.may_hold(range);
                counters.add_answer(may_contain);
                let probe = if may_contain { FileProbe::MaybePresent } else { FileProbe::Absent };
                Answer { probe, unit: RANGES }
            }
            Ranges::Whole => self.probe_unit(RANGES, &|held| match held {
                HeldFilter::Ranges(filter) => filter.may_hold(range),
                HeldFilter::Points(_) => true,
            }),
        }
    }

    /// Whether the range filter may hold a key in the range. Counted only where it is not always in memory.
    fn may_contain_range(self: &Arc<Self>, range: KeyRange<'_>) -> bool {
        match &self.ranges {
            Ranges::Resident(filter) if self.config.trust.problem().is_none() => filter.may_hold(range),
            Ranges::Whole => !self.probe_range(range).probe.is_absent(),
            _ => true,
        }
    }

    /// A lower bound of the file's first key that is not below `start`: `start` itself unless the range filter is in
    /// memory and knows better.
    pub(super) fn seek_hint(&self, start: &[u8]) -> NextKey {
        if self.config.trust.problem().is_some() {
            return NextKey::AtLeast(start.to_vec());
        }
        let held = self.units.unit(RANGES).map(Unit::held);
        match (&self.ranges, held.as_ref().and_then(|held| held.as_deref())) {
            (Ranges::Resident(filter), _) => filter.first_at_least(start),
            (_, Some(Held::Block(held))) if let HeldFilter::Ranges(filter) = &held.filter => {
                filter.first_at_least(start)
            }
            _ => NextKey::AtLeast(start.to_vec()),
        }
    }

    /// Counts that the file has no key from the start of a range on.
    pub(super) fn count_range_negative(&self) {
        self.units.counters_of(RANGES).add_answer(false);
    }

    /// The next read for a scan of a prefix, of the first part that can hold a key with it.
    pub(super) fn read_for_prefix(this: &Arc<Self>, prefix: &[u8]) -> Option<FilterRead> {
        let hash = this.reader().prefix_hashes(this.shared, prefix).next()?;
        let place = this.partitions().and_then(|index| index.places_with_part(prefix, hash).next());
        this.read_for_unit(place.map_or(0, |place| place.number) + RANGES + 1)
    }

    pub(super) fn read_for_range(this: &Arc<Self>) -> Option<FilterRead> {
        this.read_for_unit(RANGES)
    }
}

/// Counting.
impl FileState {
    pub(super) fn counters(&self) -> &FilterCounters {
        &self.units.counters
    }

    /// Lookups are counted for the file by a chunk, at its place in it.
    pub(super) fn enter(&self, counts: &Arc<ChunkCounts>, place: u32) {
        self.lock_chunks().push((counts.clone(), place));
    }

    /// A chunk counts no more. What it has counted is moved and the chunk forgotten in one step, so that sums miss
    /// nothing and count nothing twice.
    pub(super) fn leave(&self, counts: &Arc<ChunkCounts>, counted: &FileStats) {
        let mut chunks = self.lock_chunks();
        chunks.retain(|(other, _)| !Arc::ptr_eq(other, counts));
        self.units.counters.add_stats(counted);
        drop(chunks);
    }

    pub(super) fn stats(&self) -> FileStats {
        let chunks = self.lock_chunks();
        let mut stats = self.units.counters.file_stats();
        for (counts, place) in &*chunks {
            stats = stats.merged(&counts.of(*place));
        }
        drop(chunks);
        if let Some(counters) = &self.units.range_counters {
            stats.ranges = counters.snapshot(true);
        }
        for (number, unit) in self.units.units() {
            let counted = unit.counted();
            let filter = if number == RANGES { &mut stats.ranges } else { &mut stats.filter };
            filter.negatives += counted.negatives;
            filter.not_loaded += counted.unanswered;
        }
        stats
    }

    fn lock_chunks(&self) -> MutexGuard<'_, Vec<(Arc<ChunkCounts>, u32)>> {
        lock(&self.chunks)
    }
}
