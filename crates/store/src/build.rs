//! Builds all filters of one file from its keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::internal::Interruption;
use sstfilter::{
    BlockBuilder, BlockError, BlockIdentity, BuildContext, BuildReport, BuiltFilter, FallbackReason, FileId,
    KeyExtractor, KeyHash, KeyHasher, KeyParts, KindId, LoadContext,
};

use super::budget::FilterBudget;
use super::config::{Config, PointFilters};
use super::error::FilterProblem;
use super::identity::TableIdentity;
use super::metadata::{FilterMetadata, FilterPart, FilterSection, KeyBounds, check_of_extractor, check_of_hashes};
use super::partition::{PartitionIndex, PartitionedBuilder};
use super::sidecar;
use super::source::FilterSource;
use crate::checked::{checked, dropped};
use crate::codec::{LINE_BYTES, checksum_without_last};
use crate::ranges::{RangeBuilder, RangePolicy};

/// Builds the filters of one file: `(add_key | add_hash | add_range_tombstone)* finish`, keys in ascending order.
///
/// Add every key of the file, deleted keys too: a lookup that does not find a tombstone continues to older files, where
/// the key may still be. Keys may come in any order unless filters are in partitions cut by key range or the store has
/// range filters.
///
/// A faulty user-defined hash or extractor never fails the write of the file. After a panic, or if keys were out of
/// order, [`finish`](Self::finish) leaves out the affected filter, and its report says why.
///
/// Call the `with_*` methods before the first key; later calls have no effect.
#[derive(Debug)]
#[must_use]
pub struct FileFilterBuilder {
    config: Arc<Config>,
    file: FileId,
    /// The existing table, if the filters are for its sidecar.
    table: Option<TableIdentity>,
    context: BuildContext,
    keeps_hashes: bool,
    /// Created with the first key, when the engine has made all its settings.
    started: Option<Box<Started>>,
    /// Panics of the policy: the filters and the bounds lack the key that the policy was called for.
    interruption: Interruption,
}

/// Filters up to this size are hardly worth shrinking.
const SMALL_BYTES: u64 = 4 << 10;

/// A builder whose settings are complete.
#[derive(Debug)]
struct Started {
    /// The description so far.
    metadata: FilterMetadata,
    hasher: KeyHasher,
    parts: KeyParts,
    points: Points,
    ranges: Option<Box<RangeBuilder>>,
    /// Which point filters range filters replace.
    files_with_points: PointFilters,
    /// Whether the point filter can shrink.
    shrinks: bool,
    /// For each extractor, the first key that has a part; the extractor of ranges comes last.
    witnesses: Vec<Witness>,
    has_range_extractor: bool,
    /// The hashes of the smallest and the largest key, if the engine passed them.
    given: [Option<KeyHash>; 2],
    /// The hashes of all keys, if they are kept.
    hashes: Option<Vec<KeyHash>>,
    interruption: Interruption,
}

/// An extractor, and the first key that has a part by it, if any: only such keys show what the extractor does.
type Witness = (Arc<dyn KeyExtractor>, Option<Box<[u8]>>);

#[derive(Debug)]
enum Points {
    None,
    Whole(Box<dyn BlockBuilder>),
    Partitioned(Box<PartitionedBuilder>),
}

/// The finished filters of one file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltFilters {
    /// How the point filter was built; `None` if the store has no policy, the policy declined, or the range filter
    /// takes its place.
    pub point_report: Option<BuildReport>,
    /// How the range filter was built; `None` if the store has no range policy.
    pub range_report: Option<BuildReport>,
    metadata: FilterMetadata,
    /// In the order of the sections.
    filters: Vec<Bytes>,
    hashes: Option<Vec<KeyHash>>,
    table: Option<TableIdentity>,
}

impl FileFilterBuilder {
    pub(super) fn new(config: Arc<Config>, file: FileId, table: Option<TableIdentity>) -> Self {
        let filters = &config.reader.filters;
        // Without extractors that a filter cannot name.
        let mut context = filters.build_context(file).with_key_parts(filters.key_parts().without(&[]));
        context.shrinkable = config.budget.as_ref().is_some_and(FilterBudget::shrinks);
        let interruption = Interruption::default();
        Self { config, file, table, context, keeps_hashes: false, started: None, interruption }
    }

    fn with(mut self, set: impl FnOnce(&mut BuildContext)) -> Self {
        if self.started.is_none() {
            set(&mut self.context);
        }
        self
    }

    sstfilter::build_settings!();

    /// Sets everything that `context` says about the file, except its id, hasher and parts of keys, which the store
    /// determines. Filters are also shrinkable if the store has a budget.
    pub fn with_context(self, context: &BuildContext) -> Self {
        self.with(|own| {
            let BuildContext { hasher, key_parts, file_id, shrinkable, .. } = core::mem::replace(own, context.clone());
            (own.hasher, own.key_parts, own.file_id) = (hasher, key_parts, file_id);
            own.shrinkable |= shrinkable;
        })
    }

    #[inline]
    fn started(&mut self) -> &mut Started {
        self.started.get_or_insert_with(|| {
            self.interruption.enter();
            let mut started = Box::new(Started::new(&self.config, self.context.clone()));
            started.hashes = self.keeps_hashes.then(Vec::new);
            self.interruption.leave();
            started
        })
    }

    /// Adds a key: the bytes that lookups ask for, without a sequence number or a timestamp that they do not know.
    ///
    /// # Panics
    ///
    /// If the hash, an extractor or the policy panics. The file then gets no filter.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.started().add(key, None);
    }

    /// Adds a key that the engine has hashed with a hasher of the store's identity. The point filter then holds whole
    /// keys and no other parts, whatever the store's parts are.
    ///
    /// # Panics
    ///
    /// As for [`add_key`](Self::add_key).
    pub fn add_hash(&mut self, key: &[u8], hash: KeyHash) {
        let started = self.started();
        started.parts = KeyParts::whole_keys();
        started.add(key, Some(hash));
    }

    /// Adds a range tombstone: the file deletes all keys from `start` up to but excluding `end` in older files. The
    /// file is then a candidate for each of these keys, and for every range and prefix that overlaps them, and gets no
    /// range filter. If the engine orders keys differently, `start` may be above `end`: the range between the two by
    /// their bytes counts.
    ///
    /// At a level other than 0, cut range tombstones where the level's files end: a view
    /// [refuses](super::ViewError::Overlap) a file that deletes keys of its neighbours, because no order of the two is
    /// right for every engine.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) {
        self.started().add_range_tombstone(start, end);
    }

    /// Returns the id that the filters are bound to.
    pub const fn file_id(&self) -> FileId {
        self.file
    }

    /// Returns whether the file gets no filter, because neither policy wants one. Keys then only set the bounds of the
    /// file. Add no key, and the file is a candidate for every key; or add all, because keys outside of those that were
    /// added are absent, and maps compare the number of keys.
    #[must_use]
    pub fn builds_nothing(&mut self) -> bool {
        self.started().builds_nothing()
    }

    /// Returns the approximate bytes of the filters if they were finished now, for writers that cut files by size; 0
    /// before the first key.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.started.as_ref().map_or(0, |started| started.estimated_bytes())
    }

    /// Keeps the hashes of the keys for a file map ([`BuiltFilters::take_hashes`]), at 8 bytes each.
    pub fn keep_hashes(self) -> Self {
        Self { keeps_hashes: true, ..self }
    }

    /// Builds the filters.
    #[must_use]
    pub fn finish(self) -> BuiltFilters {
        let is_interrupted = self.interruption.has_happened();
        let Self { config, context, started, table, .. } = self;
        let mut started = started.unwrap_or_else(|| Box::new(Started::new(&config, context)));
        if is_interrupted {
            // The policy panicked before the key or range tombstone of that call reached the bounds.
            started.metadata.bounds = KeyBounds::Unknown;
            started.interruption.enter();
        }
        BuiltFilters { table, ..started.finish() }
    }
}

impl Started {
    fn new(config: &Config, context: BuildContext) -> Self {
        let Config { points, partitions, ranges, reader, .. } = config;
        let policy = reader.filters.policy();
        let files_with_points = *points;
        let points = match (points, partitions) {
            (PointFilters::None, _) => Points::None,
            (_, None) => policy.builder(&context).map_or(Points::None, Points::Whole),
            (_, Some(options)) => {
                Points::Partitioned(Box::new(PartitionedBuilder::new(policy.clone(), &context, *options)))
            }
        };
        // A description stores the length of a name in one byte, and without the name a reader does not use the range
        // filter.
        let has_short_name = |policy: &&RangePolicy| policy.extractor().is_none_or(|part| part.name().len() <= 255);
        let ranges = ranges.as_ref().filter(has_short_name);
        let range_extractor = ranges.and_then(RangePolicy::extractor);
        let extractors = context.key_parts.extractors().chain(range_extractor);
        let witnesses = extractors.map(|extractor| (extractor.clone(), None)).collect();
        let metadata = FilterMetadata::without_filters(context.hasher.identity(), KeyBounds::Empty);
        Self {
            metadata: FilterMetadata { file: context.file_id.unwrap_or_else(FileId::random), ..metadata },
            points,
            ranges: ranges.map(|policy| Box::new(policy.builder(&context))),
            files_with_points,
            shrinks: context.shrinkable,
            witnesses,
            has_range_extractor: range_extractor.is_some(),
            hasher: context.hasher,
            parts: context.key_parts,
            given: [None; 2],
            hashes: None,
            interruption: Interruption::default(),
        }
    }

    #[inline]
    fn add(&mut self, key: &[u8], hash: Option<KeyHash>) {
        self.metadata.keys_added += 1;
        // Bounds first: they include the key even if the engine's code panics below.
        let [is_smallest, is_largest] = self.metadata.bounds.include(key);
        if is_smallest {
            self.given[0] = hash;
        }
        if is_largest {
            self.given[1] = hash;
        }
        self.interruption.enter();
        if let Some(hashes) = &mut self.hashes {
            hashes.push(hash.unwrap_or_else(|| self.hasher.hash(key)));
        }
        for (extractor, witness) in self.witnesses.iter_mut().filter(|(_, witness)| witness.is_none()) {
            *witness = extractor.extract(key).map(|_| Box::from(key));
        }
        match (&mut self.points, hash) {
            (Points::None, _) => {}
            (Points::Whole(builder), None) => builder.add_key(key),
            (Points::Whole(builder), Some(hash)) => builder.add_hash(hash),
            (Points::Partitioned(builder), None) => builder.add_key(key),
            (Points::Partitioned(builder), Some(hash)) => builder.add_hash(key, hash),
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.add_key(key);
        }
        self.interruption.leave();
    }

    fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) {
        // An empty range deletes nothing; as a bound it would make the file a candidate for one more key.
        if start == end {
            return;
        }
        if let Some(ranges) = &mut self.ranges {
            // A range filter knows only keys, so it is not built.
            ranges.add_range_tombstone();
        }
        let after_start;
        let [start, end] = if start < end {
            [start, end]
        } else {
            // The start is deleted, whatever order the engine has.
            after_start = [start, b"\0"].concat();
            [end, &after_start]
        };
        let deleted = self.metadata.range_tombstones.get_or_insert_with(|| KeyBounds::Empty.into());
        deleted.include(start);
        deleted.include(end);
    }

    const fn builds_nothing(&self) -> bool {
        matches!(self.points, Points::None) && self.ranges.is_none()
    }

    /// Returns the low bits of an exact range filter, which answers for keys if the file has no point filter. Not if
    /// that would find keys by less than all of their bytes: a lookup may then pass other bytes than the file has.
    fn exact_low_bits(&self) -> Option<u32> {
        let finds_by_bytes = self.parts.has_whole_keys() && self.metadata.is_hashed_by_bytes();
        let may_answer = finds_by_bytes && self.files_with_points != PointFilters::All;
        self.ranges.as_ref().filter(|_| may_answer)?.exact_low_bits()
    }

    /// Returns whether the range filter takes the place of the point filter. By default a bitmap does, unless the point
    /// filter could be kept in memory in part, and the bitmap is not smaller than such a part.
    fn replaces_points(&self) -> bool {
        let (Some(low_bits), Some(ranges)) = (self.exact_low_bits(), &self.ranges) else { return false };
        let fits = match &self.points {
            Points::None => true,
            Points::Whole(builder) => {
                !self.shrinks || ranges.estimated_bytes() <= (builder.estimated_bytes() / 2).max(SMALL_BYTES)
            }
            Points::Partitioned(_) => false,
        };
        self.files_with_points == PointFilters::UnlessExact || low_bits == 0 && fits
    }

    fn estimated_bytes(&self) -> u64 {
        let points = match &self.points {
            Points::None => 0,
            Points::Whole(builder) => builder.estimated_bytes(),
            Points::Partitioned(builder) => builder.estimated_bytes(),
        };
        let points = if self.replaces_points() { 0 } else { points };
        // Saturating: a user-defined builder may claim any number.
        points.saturating_add(self.ranges.as_ref().map_or(0, |ranges| ranges.estimated_bytes() + LINE_BYTES as u64))
    }

    /// Returns the keys that show what the extractors do, without the smallest and the largest, which are known anyway.
    fn witnesses(&self) -> Vec<Box<[u8]>> {
        let ends = self.metadata.bounds.keys().unwrap_or_default();
        let mut keys: Vec<_> = self.witnesses.iter().filter_map(|(_, key)| key.clone()).collect();
        keys.retain(|key| !ends.contains(&&**key));
        keys.dedup();
        keys
    }

    /// Returns the checks of the hash and of each extractor, with its name, over the known keys.
    fn checks(&self) -> (u32, Vec<(String, u32)>) {
        let known = self.metadata.known_keys();
        let given = self.given.into_iter().chain(core::iter::repeat(None));
        let hashes = known.iter().zip(given).map(|(key, given)| given.unwrap_or_else(|| self.hasher.hash(key)));
        let extractors = self
            .witnesses
            .iter()
            .map(|(extractor, _)| (extractor.name().to_owned(), check_of_extractor(&**extractor, &known)));
        (check_of_hashes(hashes), extractors.collect())
    }

    /// Returns whether every partition that must hold a known key holds it, by the present hash and extractors.
    /// The checks in the description are made with these functions, but keys were added with the functions as they were
    /// then: a store that finds the checks right would probe partitions that lack its keys.
    fn holds_known_keys(&self, container: &Bytes) -> bool {
        let known = self.metadata.known_keys();
        let context = LoadContext::new(&self.hasher).with_key_parts(&self.parts).with_file_id(self.metadata.file);
        let part = |range| container.read(range).unwrap_or_default();
        let end = container.len() as u64;
        let checked = PartitionIndex::tail_bytes(container).and_then(|tail_bytes| {
            let tail = part(end.saturating_sub(tail_bytes)..end);
            let index = PartitionIndex::load(&tail, context.with_known_keys(&known))?;
            index.check_known_keys(|number| index.block_range(number).map(part))
        });
        !matches!(checked, Err(FilterProblem::Block(BlockError::KnownKeyAbsent { .. })))
    }

    fn finish(mut self) -> BuiltFilters {
        if self.builds_nothing() && self.metadata.keys_added == 0 {
            // No key had to be added, so the file may contain any.
            self.metadata.bounds = KeyBounds::Unknown;
        }
        self.metadata.witnesses = self.witnesses();
        let (is_exact, replaces_points) = (self.exact_low_bits().is_some(), self.replaces_points());
        let ranges = self.ranges.take().map(|builder| builder.finish());
        if replaces_points && ranges.as_ref().is_some_and(|ranges| ranges.block.is_some()) {
            self.points = Points::None;
        }
        let points = match core::mem::replace(&mut self.points, Points::None) {
            Points::None => None,
            Points::Whole(builder) => {
                let identity = BlockIdentity { hash: self.metadata.hash, file: Some(self.metadata.file) };
                Some((FilterPart::Points, checked(builder.finish(), &self.parts, identity)))
            }
            Points::Partitioned(builder) => Some((FilterPart::PartitionedPoints, builder.finish()))
                .filter(|(_, filter)| filter.block.is_some() || filter.report.reason != FallbackReason::None),
        };
        let is_container = |(part, _): &&(FilterPart, BuiltFilter)| *part == FilterPart::PartitionedPoints;
        let container = points.as_ref().filter(is_container).and_then(|(_, filter)| filter.block.as_ref());
        // After `finish` of the builders: the hash or an extractor may panic here for the first time.
        let checks = || (self.checks(), container.is_none_or(|container| self.holds_known_keys(container)));
        let is_whole = !self.interruption.has_happened();
        // A panic must not fail the write of the file, so the filters are left out instead.
        let checks = is_whole.then(|| catch_unwind(AssertUnwindSafe(checks)).ok()).flatten();
        let is_sound = checks.is_some();
        let ((hash_check, mut extractors), holds_known_keys) = checks.unwrap_or_default();
        self.metadata.hash_check = hash_check;
        let range_extractor = if self.has_range_extractor { extractors.pop() } else { None };
        let Self { metadata, parts, hashes, .. } = self;
        let hashes = hashes.filter(|_| is_whole);
        let mut built =
            BuiltFilters { point_report: None, range_report: None, metadata, filters: Vec::new(), hashes, table: None };
        if let Some((part, filter)) = points {
            let filter = if holds_known_keys { filter } else { dropped(filter) };
            // The description must not promise parts that the filter lacks: readers would probe for them.
            let held = parts.without(&filter.report.unstable_extractors);
            built.point_report = Some(built.add(part, filter, is_sound));
            if built.metadata.points().is_some() {
                extractors.retain(|(name, _)| held.extractors().any(|extractor| extractor.name() == name));
                (built.metadata.whole_keys, built.metadata.extractors) = (held.has_whole_keys(), extractors);
            }
        }
        if let Some(filter) = ranges {
            built.range_report = Some(built.add(FilterPart::Ranges, filter, is_sound));
            let has_ranges = built.metadata.ranges().is_some();
            built.metadata.range_extractor = range_extractor.filter(|_| has_ranges);
            if is_exact && built.metadata.points().is_none() {
                built.metadata.whole_keys = has_ranges;
            }
        }
        built
    }
}

impl BuiltFilters {
    /// Adds the filter if `is_sound`: it contains all keys, and their checks are known. Returns its report.
    fn add(&mut self, part: FilterPart, filter: BuiltFilter, is_sound: bool) -> BuildReport {
        let BuiltFilter { block, mut report, .. } = filter;
        if !is_sound {
            report = BuildReport::new(report.requested);
            report.reason = FallbackReason::Panicked;
        } else if let Some(block) = block {
            self.push(part, report.used.unwrap_or(KindId::from_code(0)), block);
        }
        report
    }

    fn push(&mut self, part: FilterPart, kind: KindId, filter: Bytes) {
        // The checksum of a partitioned filter covers only its top index, which contains those of the partitions.
        let tail_bytes = PartitionIndex::tail_bytes(&filter).ok().filter(|_| part == FilterPart::PartitionedPoints);
        let index_bytes = tail_bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
        let index_at = if index_bytes > 0 { filter.len().saturating_sub(index_bytes as usize) } else { 0 };
        let summed = filter.get(index_at..).unwrap_or_default();
        let end = self.metadata.sections.last().map_or(0, |section| section.range().end);
        self.metadata.sections.push(FilterSection {
            part,
            kind,
            // So that lines of 64 bytes lie on cache lines if the filter bytes do.
            offset: end.next_multiple_of(LINE_BYTES as u64),
            bytes: filter.len() as u64,
            index_bytes,
            checksum: checksum_without_last(summed),
        });
        self.filters.push(filter);
    }

    /// Takes over the range filter that was built before for the same file, unless a new one was built. `metadata` and
    /// `block` are its description and its bytes. It is left out if its checksum differs from the description, if it is
    /// bound to another file id, or if its known keys differ from those of the new filters.
    #[must_use]
    pub fn with_ranges_of(mut self, metadata: &FilterMetadata, block: Bytes) -> Self {
        let own = &self.metadata;
        let is_of_file = own.file == metadata.file && own.hash == metadata.hash && own.range_tombstones.is_none();
        let is_checked = own.hash_check == metadata.hash_check && own.known_keys() == metadata.known_keys();
        let section = metadata.ranges().filter(|section| section.check(&block).is_ok());
        if let Some(section) = section.filter(|_| is_of_file && is_checked && own.ranges().is_none()) {
            self.metadata.range_extractor.clone_from(&metadata.range_extractor);
            self.metadata.whole_keys |=
                self.metadata.points().is_none() && metadata.points().is_none() && metadata.whole_keys;
            self.push(FilterPart::Ranges, section.kind, block);
        }
        self
    }

    /// Returns the description that the engine stores.
    #[must_use]
    pub const fn metadata(&self) -> &FilterMetadata {
        &self.metadata
    }

    /// Returns the hashes of all keys, for `MapBuilder::add_file` of `sstfilter-map`; `None` unless
    /// they were [kept](FileFilterBuilder::keep_hashes), or after a panic in the engine's code.
    pub const fn take_hashes(&mut self) -> Option<Vec<KeyHash>> {
        self.hashes.take()
    }

    /// Returns the filter bytes and their description. Write the bytes unchanged, preferably at a multiple of 64 in the
    /// file. A file without filters has no bytes; its description still has the bounds of its keys.
    #[must_use]
    pub fn seal(self) -> (Bytes, FilterMetadata) {
        let Self { metadata, mut filters, .. } = self;
        // One filter needs no copy.
        if filters.len() < 2 {
            return (filters.pop().unwrap_or_default(), metadata);
        }
        let mut bytes = Vec::new();
        for (section, filter) in metadata.sections.iter().zip(filters) {
            bytes.resize(usize::try_from(section.offset).unwrap_or(bytes.len()), 0);
            bytes.extend_from_slice(&filter);
        }
        (bytes.into(), metadata)
    }

    /// Returns the table for whose [sidecar](super::FilterStore::sidecar_builder) the filters were built.
    #[must_use]
    pub const fn table(&self) -> Option<TableIdentity> {
        self.table
    }

    /// Returns the bytes of a sidecar, a file beside the table; `None` if there are no filters, or they were not built
    /// for a sidecar.
    #[must_use]
    pub fn seal_sidecar(self) -> Option<Bytes> {
        let table = self.table?;
        let (filters, metadata) = self.seal();
        if metadata.sections.is_empty() { None } else { sidecar::seal(&filters, &metadata, &table) }
    }
}
