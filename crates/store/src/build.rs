//! Building all filters of one file from its keys.

use core::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::internal::Interruption;
use sstfilter::{
    BlockBuilder, BlockError, BlockIdentity, BuildContext, BuildPurpose, BuildReport, BuiltFilter, FallbackReason,
    FileId, KeyExtractor, KeyHash, KeyHasher, KeyParts, KindId, LoadContext,
};
use sstfilter_range::{RangeBuilder, RangePolicy};

use super::config::Config;
use super::identity::TableIdentity;
use super::metadata::{FilterMetadata, FilterPart, FilterSection, KeyBounds, check_of_extractor, check_of_hashes};
use super::partition::{PartitionError, PartitionIndex, PartitionedBuilder};
use super::sidecar;
use crate::checked::{checked, refused};
use crate::codec::{LINE_BYTES, checksum_without_last};

/// Builds the filters of one file: `(add_key | add_hash | add_range_tombstone)* finish`, keys in ascending order.
///
/// Add every key of the file, deleted ones too: a lookup that does not find a tombstone goes on to older files, where
/// the key may still be. Where filters are neither in partitions cut by key range nor for ranges, keys may come in any
/// order.
///
/// The engine's own hash and extractors never fail the file's write: after a panic, and where keys were out of order,
/// `finish` leaves out the filter concerned, and its report says why.
///
/// What is known of the file is set first: `with_*` before the first key. Afterwards, settings have no effect.
#[derive(Debug)]
pub struct FileFilterBuilder {
    config: Arc<Config>,
    file: FileId,
    context: BuildContext,
    /// Made with the first key, when all is known that the engine says about the file.
    started: Option<Box<Started>>,
    /// Of the policy: what it was called for is then lost to the filters and to the bounds.
    interruption: Interruption,
}

/// A builder that has got its settings.
#[derive(Debug)]
struct Started {
    /// What is known of the file so far.
    metadata: FilterMetadata,
    hasher: KeyHasher,
    parts: KeyParts,
    points: Points,
    ranges: Option<Box<RangeBuilder>>,
    /// For each extractor, and last for that of ranges, the first key that has a part.
    witnesses: Vec<Witness>,
    has_range_extractor: bool,
    /// The hashes of the smallest and the largest key, where the engine has given them.
    given: [Option<KeyHash>; 2],
    interruption: Interruption,
}

/// An extractor, and a key that has a part by it, if one was added: only such keys show what the extractor does.
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
    /// How the point filter was built; `None` where the store has no policy, or the policy declined.
    pub points: Option<BuildReport>,
    /// How the range filter was built; `None` where the store has none.
    pub ranges: Option<BuildReport>,
    metadata: FilterMetadata,
    /// In the order of the sections.
    filters: Vec<Bytes>,
}

impl FileFilterBuilder {
    pub(super) fn new(config: Arc<Config>, file: FileId) -> Self {
        let filters = &config.reader.filters;
        let context = filters.build_context(file).with_key_parts(filters.key_parts().without(&[]));
        Self { config, file, context, started: None, interruption: Interruption::default() }
    }

    fn with(mut self, change: impl FnOnce(BuildContext) -> BuildContext) -> Self {
        if self.started.is_none() {
            self.context = change(self.context);
        }
        self
    }

    /// Sets why the file is written: [`BuildPurpose::Flush`] unless set.
    #[must_use]
    pub fn with_purpose(self, purpose: BuildPurpose) -> Self {
        self.with(|context| context.with_purpose(purpose))
    }

    /// Sets the level that the file goes to.
    #[must_use]
    pub fn with_level(self, level: u32) -> Self {
        self.with(|context| context.with_level(level))
    }

    /// Says that the file goes to the bottommost level: no older file can hold its keys.
    #[must_use]
    pub fn at_bottommost_level(self) -> Self {
        self.with(BuildContext::at_bottommost_level)
    }

    /// Sets the number of distinct keys to come, or an upper bound.
    #[must_use]
    pub fn with_expected_keys(self, keys: u64) -> Self {
        self.with(|context| context.with_expected_keys(keys))
    }

    /// Limits the memory that building uses beside the hashes and the finished filters.
    #[must_use]
    pub fn with_memory_budget(self, bytes: u64) -> Self {
        self.with(|context| context.with_memory_budget(bytes))
    }

    /// Builds the filters on up to `threads` threads: see [`BuildContext::with_threads`].
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        self.with(|context| context.with_threads(threads))
    }

    /// Sets all that `context` says about the file, but not its id, hasher and parts of keys: these are the store's.
    #[must_use]
    pub fn with_context(self, context: &BuildContext) -> Self {
        self.with(|own| {
            let (hasher, key_parts, file_id) = (own.hasher, own.key_parts, own.file_id);
            let mut context = context.clone();
            (context.hasher, context.key_parts, context.file_id) = (hasher, key_parts, file_id);
            context
        })
    }

    #[inline]
    fn started(&mut self) -> &mut Started {
        self.started.get_or_insert_with(|| {
            self.interruption.enter();
            let started = Box::new(Started::new(&self.config, self.context.clone()));
            self.interruption.leave();
            started
        })
    }

    /// Adds a key.
    ///
    /// # Panics
    ///
    /// If the engine's hash, extractor or policy does. No filter is built then.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.started().add(key, None);
    }

    /// Adds a key that the engine has hashed, by a hasher of the store's identity. The point filter then holds whole
    /// keys and no parts, whatever the store's parts are.
    ///
    /// # Panics
    ///
    /// As for [`add_key`](Self::add_key).
    pub fn add_hash(&mut self, key: &[u8], hash: KeyHash) {
        let started = self.started();
        started.parts = KeyParts::whole_keys();
        started.add(key, Some(hash));
    }

    /// The file deletes all keys from `start` up to and without `end` in older files. It is then a candidate for each
    /// of these keys and for ranges and prefixes that meet them, and gets no range filter. In an order of the engine's
    /// own, `start` may be above `end`: what lies between the two by their bytes counts.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) {
        self.started().add_range_tombstone(start, end);
    }

    /// The id that the filters are bound to.
    #[must_use]
    pub const fn file_id(&self) -> FileId {
        self.file
    }

    /// Whether there will be no filter, because neither policy wants one. Keys then serve the file's bounds alone. Add
    /// either none, which makes the file a candidate for every key, or at least the smallest and the largest: keys
    /// outside of those that were added are absent.
    #[must_use]
    pub fn builds_nothing(&mut self) -> bool {
        self.started().builds_nothing()
    }

    /// About how many bytes the filters would have if they were finished now, for writers that cut files by size; 0
    /// before the first key.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.started.as_ref().map_or(0, |started| started.estimated_bytes())
    }

    /// Builds the filters.
    #[must_use]
    pub fn finish(self) -> BuiltFilters {
        let is_interrupted = self.interruption.has_happened();
        let Self { config, context, started, .. } = self;
        let mut started = started.unwrap_or_else(|| Box::new(Started::new(&config, context)));
        if is_interrupted {
            // Nobody took note of the key or range tombstone that the policy was called for.
            started.metadata.bounds = KeyBounds::Unknown;
            started.interruption.enter();
        }
        started.finish()
    }
}

impl Started {
    fn new(config: &Config, context: BuildContext) -> Self {
        let Config { builds_points, partitions, ranges, reader, .. } = config;
        let policy = reader.filters.policy();
        let points = match (builds_points, partitions) {
            (false, _) => Points::None,
            (true, None) => policy.builder(&context).map_or(Points::None, Points::Whole),
            (true, Some(options)) => {
                Points::Partitioned(Box::new(PartitionedBuilder::new(policy.clone(), &context, *options)))
            }
        };
        // A description cannot have longer names, and a range filter is not used without.
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
            witnesses,
            has_range_extractor: range_extractor.is_some(),
            hasher: context.hasher,
            parts: context.key_parts,
            given: [None; 2],
            interruption: Interruption::default(),
        }
    }

    #[inline]
    fn add(&mut self, key: &[u8], hash: Option<KeyHash>) {
        self.metadata.keys_added += 1;
        let is_end = self.metadata.bounds.include(key);
        for (given, _) in self.given.iter_mut().zip(is_end).filter(|(_, is_end)| *is_end) {
            *given = hash;
        }
        self.interruption.enter();
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
        if start == end {
            return;
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.add_range_tombstone();
        }
        self.metadata.range_tombstones.include(start);
        self.metadata.range_tombstones.include(end);
    }

    const fn builds_nothing(&self) -> bool {
        matches!(self.points, Points::None) && self.ranges.is_none()
    }

    fn estimated_bytes(&self) -> u64 {
        let points = match &self.points {
            Points::None => 0,
            Points::Whole(builder) => builder.estimated_bytes(),
            Points::Partitioned(builder) => builder.estimated_bytes(),
        };
        // Saturating: an engine's own builder may claim anything.
        points.saturating_add(self.ranges.as_ref().map_or(0, |ranges| ranges.estimated_bytes() + LINE_BYTES as u64))
    }

    /// Keys that have the extractors' parts, but for the smallest and the largest, which are known anyway.
    fn witnesses(&self) -> Vec<Box<[u8]>> {
        let ends = self.metadata.bounds.keys().unwrap_or_default();
        let mut keys: Vec<_> = self.witnesses.iter().filter_map(|(_, key)| key.clone()).collect();
        keys.retain(|key| !ends.contains(&&**key));
        keys.dedup();
        keys
    }

    /// What the hash and each extractor, by name, make of the known keys.
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

    /// Whether every partition that must hold a known key does, by the hash and the extractors as they are now. The
    /// description's checks are made with these, and keys were added with what they were then: a store that finds the
    /// checks right would probe partitions that lack its keys.
    fn holds_known_keys(&self, container: &Bytes) -> bool {
        let known = self.metadata.known_keys();
        let context = LoadContext::new(&self.hasher).with_key_parts(&self.parts).with_file_id(self.metadata.file);
        let checked = PartitionIndex::tail_bytes(container).and_then(|tail_bytes| {
            let index_at = (container.len() as u64).saturating_sub(tail_bytes);
            let part = |place: Range<u64>| {
                let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                container.get(start..end).unwrap_or_default()
            };
            let tail = part(index_at..container.len() as u64);
            let index = PartitionIndex::load(tail, context.with_known_keys(&known))?;
            index.check_known_keys(|number| index.block_range(number).map(part))
        });
        !matches!(checked, Err(PartitionError::Block(BlockError::KnownKeyAbsent { .. })))
    }

    fn finish(mut self) -> BuiltFilters {
        if self.builds_nothing() && self.metadata.keys_added == 0 {
            // No key had to be added, so the file may have some.
            self.metadata.bounds = KeyBounds::Unknown;
        }
        self.metadata.witnesses = self.witnesses();
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
        // The hash or an extractor may panic only now.
        let checks = || (self.checks(), container.is_none_or(|container| self.holds_known_keys(container)));
        let is_whole = !self.interruption.has_happened();
        let checks = is_whole.then(|| catch_unwind(AssertUnwindSafe(checks)).ok()).flatten();
        let is_sound = checks.is_some();
        let ((hash_check, mut extractors), holds_known_keys) = checks.unwrap_or_default();
        self.metadata.hash_check = hash_check;
        let range_extractor = if self.has_range_extractor { extractors.pop() } else { None };
        let Self { metadata, parts, ranges, .. } = self;
        let mut built = BuiltFilters { points: None, ranges: None, metadata, filters: Vec::new() };
        if let Some((part, filter)) = points {
            let filter = if holds_known_keys { filter } else { refused(filter) };
            let held = parts.without(&filter.report.unstable_extractors);
            built.points = Some(built.add(part, filter, is_sound));
            if built.metadata.points().is_some() {
                extractors.retain(|(name, _)| held.extractors().any(|extractor| extractor.name() == name));
                (built.metadata.whole_keys, built.metadata.extractors) = (held.has_whole_keys(), extractors);
            }
        }
        if let Some(builder) = ranges {
            built.ranges = Some(built.add(FilterPart::Ranges, builder.finish(), is_sound));
            built.metadata.range_extractor = range_extractor.filter(|_| built.metadata.ranges().is_some());
        }
        built
    }
}

impl BuiltFilters {
    /// Adds a filter if `is_sound`: it has all keys, and their checks are known. Returns its report.
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
        let tail_bytes = PartitionIndex::tail_bytes(&filter).ok().filter(|_| part == FilterPart::PartitionedPoints);
        let index_bytes = tail_bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
        let index_at = if index_bytes > 0 { filter.len().saturating_sub(index_bytes as usize) } else { 0 };
        let summed = filter.get(index_at..).unwrap_or_default();
        let end = self.metadata.sections.last().map_or(0, |section| section.range().end);
        self.metadata.sections.push(FilterSection {
            part,
            kind,
            // Lines of 64 bytes lie on cache lines where the file does.
            offset: end.next_multiple_of(LINE_BYTES as u64),
            bytes: filter.len() as u64,
            index_bytes,
            checksum: checksum_without_last(summed),
        });
        self.filters.push(filter);
    }

    /// With the range filter of the same file that was built before, whose `metadata` and `block` these are, unless
    /// there is a new one. It is left out if it is not the one described, is bound to another file id, or was checked
    /// by other known keys than the new filters have.
    #[must_use]
    pub fn with_ranges_of(mut self, metadata: &FilterMetadata, block: Bytes) -> Self {
        let own = &self.metadata;
        let is_of_file =
            own.file == metadata.file && own.hash == metadata.hash && own.range_tombstones == KeyBounds::Empty;
        let is_checked = own.hash_check == metadata.hash_check && own.known_keys() == metadata.known_keys();
        let section = metadata.ranges().filter(|section| section.check(&block).is_ok());
        if let Some(section) = section.filter(|_| is_of_file && is_checked && own.ranges().is_none()) {
            self.metadata.range_extractor.clone_from(&metadata.range_extractor);
            self.push(FilterPart::Ranges, section.kind, block);
        }
        self
    }

    /// What the engine keeps about the filters.
    #[must_use]
    pub const fn metadata(&self) -> &FilterMetadata {
        &self.metadata
    }

    /// The filter bytes, to be written unchanged, preferably at a multiple of 64 in the file, and their description. A
    /// file without filters has no bytes, and its description says which keys it has.
    #[must_use]
    pub fn seal(self) -> (Bytes, FilterMetadata) {
        let Self { metadata, mut filters, .. } = self;
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

    /// The bytes of a file beside `table`, which exists already, with these filters for it; `None` if there are none.
    /// They are bound to the table's id, whatever id the builder had.
    ///
    /// They take the place of the table's own description. So the builder must have got all of the table's keys,
    /// deleted ones too. It must also have got the table's range tombstones: nothing notices a forgotten one, and what
    /// it deletes comes back.
    #[must_use]
    pub fn seal_as_sidecar(self, table: &TableIdentity) -> Option<Bytes> {
        let (filters, metadata) = self.seal();
        if metadata.sections.is_empty() { None } else { sidecar::seal(&filters, &metadata, table) }
    }
}
