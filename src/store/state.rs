//! What lookups, views and reads under way share of an open file, and what was counted for it.

use core::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use super::budget::{File, Held, POINTS, Pool, RANGES, Unit};
use super::config::Config;
use super::counts::ChunkCounts;
use super::error::FilterProblem;
use super::metadata::{FilterMetadata, FilterPart, KeyChecks};
use super::partition::PartitionIndex;
use super::reader::{Reader, SharedParts};
use super::source::FilterSource;
use super::stats::FileStats;
use crate::block::FilterBlock;
use crate::error::BlockError;
use crate::hash::{KeyExtractor, KeyHash};
use crate::panics::lock;
use crate::range::KeyRange;
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
    /// There is no filter that could tell, so the file may have it:
    /// [`FileFilters::problem`](super::FileFilters::problem) says why, unless the file has no filter, or range
    /// tombstones around the key.
    Unusable,
}

impl FileProbe {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// What lookups, views and reads under way share of an open file. What probes read of it comes first.
#[repr(C)]
pub(super) struct FileState {
    pub(super) config: Arc<Config>,
    pub(super) units: Arc<File>,
    /// The parts of keys that the point filter holds and the store knows.
    pub(super) shared: SharedParts,
    pub(super) has_range_tombstones: bool,
    /// The point filter, where all of it stays in memory as long as the file is open: lookups follow one pointer less
    /// than to its unit's. Rejected: the block in here, which is two nanoseconds faster, and makes files without 300
    /// bytes larger.
    pub(super) resident: Option<Arc<Held>>,
    pub(super) metadata: Arc<FilterMetadata>,
    pub(super) points: Usable,
    pub(super) ranges: Usable,
    /// The top index of a partitioned filter, once it was read.
    pub(super) index: OnceLock<Box<PartitionIndex>>,
    pub(super) source: Option<Arc<dyn FilterSource>>,
    /// The chunks of views that count lookups for the file, each with the file's place in it.
    pub(super) chunks: Mutex<Vec<(Arc<ChunkCounts>, u32)>>,
}

/// Whether a filter can be probed, by what the description says.
pub(super) type Usable = Result<FilterPart, Option<Box<FilterProblem>>>;

/// What a probe has found, and of which unit, so that its outcome can be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) probe: FileProbe,
    pub(super) unit: u32,
}

impl Answer {
    pub(super) const fn of(probe: FileProbe) -> Self {
        Self { probe, unit: POINTS }
    }

    /// That of a file that is a candidate after the filters of a group were probed for `key`.
    #[inline]
    pub(super) fn of_group(file: &FileState, key: &[u8]) -> Self {
        let has_part = || file.shared.has_whole_keys() || file.reader().point_hashes(file.shared, key).next().is_some();
        Self::of(if file.resident.is_some() && has_part() { FileProbe::MaybePresent } else { FileProbe::Unusable })
    }
}

impl FileState {
    pub(super) fn new(
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
        let mut units = File::new(ranges.filter(|_| state.ranges.is_ok()).map_or(0, |section| section.bytes));
        // One that cannot be used counts that.
        units.range_counters = ranges.map(|_| Box::new(FilterCounters::default()));
        if let (Ok(FilterPart::Points), Some(section)) = (&state.points, points) {
            units.set_points(core::iter::once(section.bytes));
        }
        state.units = Arc::new(units);
        if state.has_reader_changed() {
            state.config.trust.end(FilterProblem::ReaderChanged { hash: state.metadata.hash });
        }
        state
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.config.budget.as_ref().unwrap_or(&self.config.unlimited).pool
    }

    pub(super) fn units(&self) -> &File {
        &self.units
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.config.reader
    }

    /// Whether the point filter can be probed, by what the description says.
    pub(super) fn check_points(&self) -> Result<(), FilterProblem> {
        self.reader().parts_shared_with(&self.metadata.parts)?;
        if self.shared.is_empty() {
            return Err(BlockError::PartNotHeld.into());
        }
        let (expected, got) = (self.reader().hasher.identity(), self.metadata.hash);
        if expected == got { Ok(()) } else { Err(BlockError::HashMismatch { expected, got }.into()) }
    }

    /// Whether the hash, or an extractor, gives others for the file's known keys than when the filters were built,
    /// though it has the same name; or the engine has added hashes of another function.
    fn has_reader_changed(&self) -> bool {
        let (metadata, reader, known) = (&self.metadata, self.reader(), self.metadata.known_keys());
        if metadata.sections.is_empty() || known.is_empty() {
            return false;
        }
        let is_hash_claimed = metadata.hash == reader.hasher.identity();
        let hashes = known.iter().map(|key| reader.hasher.hash(key));
        let of_points = metadata.parts.extractors.iter().map(|name| {
            let mut own = reader.parts.extractors();
            own.find(|extractor| extractor.name() == name)
        });
        let of_ranges = metadata.range_extractor.iter().map(|name| {
            let own = reader.range_extractor.as_ref();
            own.filter(|extractor| extractor.name() == name)
        });
        let has_changed = |(extractor, check): (Option<&Arc<dyn KeyExtractor>>, &u32)| {
            extractor.is_some_and(|extractor| KeyChecks::of_extractor(&**extractor, &known) != *check)
        };
        is_hash_claimed && KeyChecks::of_hashes(hashes) != metadata.checks.hash
            || of_points.chain(of_ranges).zip(&metadata.checks.extractors).any(has_changed)
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

    pub(super) fn partitions(&self) -> Option<&PartitionIndex> {
        self.index.get().map(AsRef::as_ref)
    }

    /// The unit of the point filter that the key is in.
    pub(super) fn unit_of(&self, key: &[u8]) -> u32 {
        let Some(index) = self.partitions() else { return POINTS };
        let hash = self.reader().point_hashes(self.shared, key).next();
        hash.map_or(POINTS, |hash| index.place_of_hash(key, hash).0 + POINTS)
    }
}

/// What the file has.
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
        self.resident.as_deref()?.points()
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
    pub(super) fn deletes(&self, key: &[u8]) -> bool {
        self.metadata.range_tombstones.as_ref().is_some_and(|span| span.holds(key))
    }

    pub(super) fn overlaps(&self, range: KeyRange<'_>) -> bool {
        self.deletes_in(range) || self.metadata.bounds.overlap(range)
    }

    pub(super) fn deletes_in(&self, range: KeyRange<'_>) -> bool {
        self.metadata.range_tombstones.as_ref().is_some_and(|span| span.overlaps(range))
    }

    /// Whether the file certainly has something in the range, so that there is nothing to learn from its filter.
    pub(super) fn surely_meets(&self, range: KeyRange<'_>) -> bool {
        self.deletes_in(range) || self.metadata.known_keys().iter().any(|key| range.contains(key))
    }

    /// Whether a scan can probe the range filter.
    pub(super) const fn has_ranges(&self) -> bool {
        self.ranges.is_ok()
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
}

impl fmt::Debug for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileState").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}
