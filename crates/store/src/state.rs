//! What is known of an open file: which of its filters can be used (one of another hash cannot), and what lookups
//! counted, false positives included.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use sstfilter::KeyRange;
use sstfilter::internal::Ending;
use sstfilter::internal::locks::lock;
use sstfilter::{BlockError, FileId, FilterBlock, KeyExtractor, Probe};

use super::budget::{File, Held, POINTS, Pool, RANGES, Unit};
use super::config::Config;
use super::counts::ChunkCounts;
use super::error::FilterProblem;
use super::metadata::{FilterMetadata, FilterPart, FilterSection, check_of_extractor, check_of_hashes};
use super::ongoing::Ongoing;
use super::partition::PartitionIndex;
use super::ranges::{self, RangeFilter};
use super::reader::{Reader, SharedParts};
use super::source::FilterSource;
use super::stats::FileStats;

/// The state of an open file that lookups, views and pending reads share. Fields that probes read come first.
#[repr(C)]
pub(super) struct FileState {
    pub(super) config: Arc<Config>,
    pub(super) units: Arc<File>,
    /// The parts of keys that the point filter holds and the store knows.
    pub(super) shared: SharedParts,
    pub(super) has_range_tombstones: bool,
    /// The engine had no hashes of the file for a map. Here it takes no byte more.
    pub(super) is_without_map: AtomicBool,
    /// A filter that was loaded has far more keys than its size is for.
    pub(super) is_overfull: AtomicBool,
    /// The filter that answers for keys, if all of it stays in memory as long as the file is open: lookups follow one
    /// pointer less than through its unit. Rejected: storing the block inline, which is two nanoseconds faster, but
    /// costs files without a resident filter 300 bytes.
    pub(super) resident: Option<Arc<Held>>,
    pub(super) metadata: Arc<FilterMetadata>,
    pub(super) points: Usable,
    pub(super) ranges: Usable,
    /// The top index of a partitioned filter, once it has been read.
    pub(super) index: OnceLock<Box<PartitionIndex>>,
    pub(super) source: Option<Arc<dyn FilterSource>>,
    pub(super) ongoing: Ongoing,
    /// The chunks of views that count lookups for the file, each with the file's slot in it.
    pub(super) chunks: Mutex<Vec<(Arc<ChunkCounts>, usize)>>,
}

/// Whether a filter can be probed, according to the description.
pub(super) type Usable = Result<FilterPart, Option<Box<FilterProblem>>>;

/// The result of a probe, and its unit, for counting the outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) probe: Probe,
    pub(super) unit: u32,
}

impl Answer {
    pub(super) const fn of(probe: Probe) -> Self {
        Self { probe, unit: POINTS }
    }

    /// Returns the answer of a file that is a candidate after the filters of a group were probed for `key`.
    #[inline]
    pub(super) fn of_group(file: &FileState, key: &[u8]) -> Self {
        let has_part = || file.shared.has_whole_keys() || file.reader().point_hashes(file.shared, key).next().is_some();
        Self::of(if file.resident.is_some() && has_part() { Probe::MaybePresent } else { Probe::Unusable })
    }
}

impl FileState {
    pub(super) fn new(
        config: &Arc<Config>,
        metadata: Arc<FilterMetadata>,
        source: Option<Arc<dyn FilterSource>>,
    ) -> Self {
        let shared = config.reader.parts_shared_with(&metadata);
        let confirmed = shared.as_ref().ok().map(|shared| config.reader.confirmed_by(*shared, &metadata.known_keys()));
        let mut state = FileState {
            config: config.clone(),
            shared: confirmed.unwrap_or_default(),
            points: Err(None),
            ranges: Err(None),
            index: OnceLock::new(),
            resident: None,
            has_range_tombstones: metadata.range_tombstones.is_some(),
            units: Arc::default(),
            source,
            metadata,
            is_without_map: AtomicBool::new(false),
            is_overfull: AtomicBool::new(false),
            ongoing: Ongoing::default(),
            chunks: Mutex::default(),
        };
        let (points, ranges) = (state.metadata.of_keys(), state.metadata.ranges());
        let usable = |section: &FilterSection, checked: Result<(), FilterProblem>| {
            // An empty section is never read, so no later check would reject it.
            let too_short =
                BlockError::TooShort { expected: Ending::bytes_after_parts(false) as u64, got: section.bytes };
            let checked = if section.bytes == 0 { Err(too_short.into()) } else { checked };
            checked.map(|()| section.part).map_err(|problem| Some(problem.into()))
        };
        state.points = points.map_or(Err(None), |section| usable(section, state.check_points(section.part, shared)));
        state.ranges = ranges.map_or(Err(None), |section| usable(section, state.check_ranges()));
        if state.is_exact() && state.ranges.is_err() {
            state.points = state.ranges.clone();
        }
        let mut units = File::new(ranges.filter(|_| state.ranges.is_ok()).map_or(0, |section| section.bytes));
        // A filter that cannot be used counts that, too. What an exact one answers counts as for the point filter that
        // it replaces.
        units.range_counters = ranges.filter(|_| !state.is_exact()).map(|_| Box::default());
        if let (Ok(FilterPart::Points), Some(section)) = (&state.points, points) {
            units.set_points(core::iter::once(section.bytes));
        }
        state.units = Arc::new(units);
        if state.has_reader_changed() {
            // The first problem stays: threads may open files at the same time.
            let (hash, file) = (state.metadata.hash, state.metadata.file_id());
            let _ = state.config.trust.set(FilterProblem::ReaderChanged { hash, file });
        }
        state
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.config.budget.as_ref().unwrap_or(&self.config.unlimited).pool
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.config.reader
    }

    /// Checks whether the filter that answers for keys can be probed, according to the description.
    fn check_points(&self, part: FilterPart, shared: Result<SharedParts, BlockError>) -> Result<(), FilterProblem> {
        shared?;
        // No known key has confirmed any of the shared parts; or a range filter is there, which knows no parts.
        if self.shared == SharedParts::default() || part == FilterPart::Ranges && !self.shared.has_whole_keys() {
            return Err(BlockError::PartNotHeld.into());
        }
        let (expected, got) = (self.reader().filters.hasher().identity(), self.metadata.hash);
        if expected == got { Ok(()) } else { Err(BlockError::HashMismatch { expected, got }.into()) }
    }

    /// Returns whether the hash or an extractor returns other values for the file's known keys than when the filters
    /// were built, under the same name, or whether the engine added hashes of another function.
    fn has_reader_changed(&self) -> bool {
        let (metadata, reader, known) = (&self.metadata, self.reader(), self.metadata.known_keys());
        // No filter can lose a key, or no key can show a change.
        if metadata.sections.is_empty() || known.is_empty() {
            return false;
        }
        // A hash of another identity has not changed; `check_points` refuses its filter.
        let is_hash_claimed = metadata.hash == reader.filters.hasher().identity();
        let hashes = known.iter().map(|key| reader.filters.hash(key));
        let ranges = reader.range_extractor.as_ref();
        let of_points = metadata
            .extractors
            .iter()
            .flat_map(|named| reader.filters.key_parts().extractors().map(move |own| (own, named)));
        let of_ranges = metadata.range_extractor.iter().filter_map(|named| ranges.map(|own| (own, named)));
        let has_changed = |(own, (name, check)): (&Arc<dyn KeyExtractor>, &(String, u32))| {
            own.name() == name && check_of_extractor(&**own, &known) != *check
        };
        is_hash_claimed && check_of_hashes(hashes) != metadata.hash_check || of_points.chain(of_ranges).any(has_changed)
    }

    /// Compares the extractor by name, because the block contains only a checksum of the name.
    fn check_ranges(&self) -> Result<(), FilterProblem> {
        if let Some(problem) = ranges::UNSUPPORTED {
            return Err(problem.into());
        }
        let Some(held) = self.metadata.range_extractor() else { return Ok(()) };
        let own = self.reader().range_extractor.as_ref().map(|extractor| extractor.name());
        if own == Some(held) {
            return Ok(());
        }
        let expected = own.map_or_else(|| "ranges of whole keys".to_owned(), |name| format!("ranges within '{name}'"));
        Err(BlockError::ExtractorMismatch { expected, got: format!("ranges within '{held}'") }.into())
    }

    pub(super) fn partitions(&self) -> Option<&PartitionIndex> {
        self.index.get().map(AsRef::as_ref)
    }

    /// Returns the units of the point filter that are probed for the key: one for each part of it if partitions are cut
    /// by hash. Until the top index has been read, that is the first unit.
    pub(super) fn units_of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let unit = |hash| self.partitions().map_or(POINTS, |index| index.locate_hash(key, hash).0 + POINTS);
        let exact = self.is_exact().then_some(RANGES);
        let hashes = exact.is_none().then(|| self.reader().point_hashes(self.shared, key));
        exact.into_iter().chain(hashes.into_iter().flatten().map(unit))
    }
}

/// Keys of the file.
impl FileState {
    /// Returns the smallest key that the file has or deletes, if that is known and there is any.
    pub(super) fn smallest_key(&self) -> Option<&[u8]> {
        self.metadata.span().map(|(smallest, _)| smallest)
    }

    /// Returns whether a store of this configuration computes the probes for the file.
    pub(super) fn is_of(&self, config: &Config) -> bool {
        let is_same = || self.reader().is_same(&config.reader) && config.reader.is_known_by_identity(self.shared);
        // Clones share their trust until a setting that affects probes changes.
        Arc::ptr_eq(&self.config.trust, &config.trust) || is_same()
    }

    /// Returns whether the range filter answers for keys, too.
    pub(super) const fn is_exact(&self) -> bool {
        matches!(self.points, Ok(FilterPart::Ranges))
    }

    /// Returns the range filter, if it answers for keys, and views may group it with those of other files.
    pub(super) fn resident_exact(&self) -> Option<&RangeFilter> {
        self.resident.as_deref()?.ranges()
    }

    /// Returns the point filter, if views may group it with those of other files.
    #[inline]
    pub(super) fn resident(&self) -> Option<&FilterBlock<Bytes>> {
        self.resident.as_deref()?.points()
    }

    /// Returns whether the key is within the file's bounds, or deleted by one of its range tombstones.
    #[inline]
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.metadata.bounds.hold(key) || self.deletes(key)
    }

    /// Returns whether a range tombstone of the file may delete the key, so that the file must be read whatever its
    /// filter answers.
    pub(super) fn deletes(&self, key: &[u8]) -> bool {
        self.has_range_tombstones && self.metadata.deletes(key)
    }

    /// Returns the id by which maps may cover the file; `None` for a file with range tombstones, which deletes keys
    /// that no map has, and for one without an id of its own.
    pub(super) fn id_in_maps(&self) -> Option<FileId> {
        let id = self.metadata.file_id();
        (!self.has_range_tombstones && id.fingerprint() != 0).then_some(id)
    }

    /// Returns whether a new map may cover the file.
    pub(super) fn is_for_maps(&self) -> bool {
        self.id_in_maps().is_some() && !self.is_without_map.load(Ordering::Relaxed)
    }

    pub(super) fn overlaps(&self, range: KeyRange<'_>) -> bool {
        self.metadata.deletes_in(range) || self.metadata.bounds.overlap(range)
    }

    /// Returns whether the file certainly has something in the range, so that its filter has nothing to add.
    pub(super) fn surely_meets(&self, range: KeyRange<'_>) -> bool {
        self.metadata.deletes_in(range) || self.metadata.known_keys().iter().any(|key| range.contains(key))
    }
}

/// Counting.
impl FileState {
    /// Adds a chunk that counts lookups for the file, at its slot in it.
    pub(super) fn enter(&self, counts: &Arc<ChunkCounts>, place: usize) {
        lock(&self.chunks).push((counts.clone(), place));
    }

    /// Removes a chunk. Its counts are moved and the chunk is forgotten under one lock, so that sums miss nothing and
    /// count nothing twice.
    pub(super) fn leave(&self, counts: &Arc<ChunkCounts>, counted: &FileStats) {
        let mut chunks = lock(&self.chunks);
        chunks.retain(|(other, _)| !Arc::ptr_eq(other, counts));
        counted.add_to(&self.units.counters);
        drop(chunks);
    }

    pub(super) fn stats(&self) -> FileStats {
        // Locked until all chunks are summed: a chunk that left in between would be counted twice or not at all.
        let chunks = lock(&self.chunks);
        let mut stats = FileStats::of(&self.units.counters);
        for counted in chunks.iter().filter_map(|(counts, place)| counts.all().nth(*place)) {
            stats = stats.merged(&counted);
        }
        drop(chunks);
        stats.ranges = self.units.range_counters.as_ref().map(|counters| counters.snapshot(true)).unwrap_or_default();
        stats.overfull = self.is_overfull.load(Ordering::Relaxed).into();
        for (number, unit) in self.units.units() {
            let counted = unit.counted();
            let is_of_ranges = number == RANGES && self.units.range_counters.is_some();
            let filter = if is_of_ranges { &mut stats.ranges } else { &mut stats.filter };
            filter.negatives += counted.negatives;
            filter.not_loaded += counted.unanswered;
        }
        stats
    }

    /// Records the outcome of an answer to a scan of a prefix that was not "absent".
    pub(super) fn record_prefix(&self, answer: Answer, is_found: bool) {
        if answer.probe == Probe::MaybePresent {
            // A scan of the prefix is about the part itself, also in a filter without whole keys.
            self.units.counters_of(answer.unit).add_outcome(is_found);
        } else {
            self.record(answer, is_found);
        }
    }

    /// Records the outcome of an answer that was not "absent".
    pub(super) fn record(&self, answer: Answer, is_found: bool) {
        let counters = self.units.counters_of(answer.unit);
        match answer.probe {
            // For parts of keys, a missing key says nothing about its part.
            Probe::MaybePresent if is_found || self.shared.has_whole_keys() || answer.unit == RANGES => {
                counters.add_outcome(is_found);
            }
            // The key was there, so no filter would have prevented the read.
            Probe::NotLoaded if is_found && self.units.unit(answer.unit).is_some_and(Unit::discount_unanswered) => {
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
