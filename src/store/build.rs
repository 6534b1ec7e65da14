//! Building all filters of one file from its keys.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use super::identity::TableIdentity;
use super::metadata::{FileBounds, FilterMetadata, FilterPart, FilterSection, KeyChecks, KeyPartNames, KeySpan};
use super::partition::{PartitionIndex, PartitionOptions, PartitionedBuilder};
use super::sidecar;
use crate::block::{FallbackReason, LoadContext};
use crate::codec::{CHECKSUM_BYTES, LINE_BYTES, checksum};
use crate::error::BlockError;
use crate::hash::{HashIdentity, KeyExtractor, KeyHash, KeyHasher, KeyParts};
use crate::ids::{FileId, FilterKind};
use crate::panics::Interruption;
use crate::policy::{BuildContext, BuildReport, FilterBuilder, FilterPolicy};
use crate::range::{RangeBuilder, RangePolicy};

/// Builds the filters of one file: `(add_key | add_hash | add_range_tombstone)* finish`, keys in ascending order.
///
/// Add every key of the file, deleted ones too: a lookup that does not find a tombstone goes on to older files, where
/// the key may still be. Where filters are neither in partitions cut by key range nor for ranges, keys may come in any
/// order.
///
/// The engine's own hash and extractors never fail the file's write: after a panic, and where keys were out of order,
/// `finish` leaves out the filter concerned, and its report says why.
pub struct FileFilterBuilder {
    file: FileId,
    hash: HashIdentity,
    parts: KeyParts,
    points: Points,
    range_extractor: Option<String>,
    ranges: Option<Box<RangeBuilder>>,
    bounds: FileBounds,
    keys_added: u64,
    range_tombstones: Option<KeySpan>,
    /// For each extractor, and last for that of ranges, the first key that has a part.
    witnesses: Vec<Witness>,
    hasher: KeyHasher,
    /// The hashes of the smallest and the largest key, where the engine has given them.
    given: [Option<KeyHash>; 2],
    interruption: Interruption,
}

/// Whether filters can be checked for the parts of an extractor: only keys that have some show what it does.
struct Witness {
    extractor: Arc<dyn KeyExtractor>,
    key: Option<Box<[u8]>>,
}

enum Points {
    None,
    Whole(Box<dyn FilterBuilder>),
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
    /// The table whose keys were read for them, if that is known.
    table: Option<TableIdentity>,
}

impl FileFilterBuilder {
    pub(super) fn new(
        context: BuildContext,
        policy: Option<&Arc<dyn FilterPolicy>>,
        partitions: Option<PartitionOptions>,
        ranges: Option<&RangePolicy>,
    ) -> Self {
        let file = context.file_id.unwrap_or_else(FileId::random);
        let context = context.with_file_id(file);
        let points = match (policy, partitions) {
            (None, _) => Points::None,
            (Some(policy), None) => policy.builder(&context).map_or(Points::None, Points::Whole),
            (Some(policy), Some(options)) => {
                Points::Partitioned(Box::new(PartitionedBuilder::new(policy.clone(), &context, options)))
            }
        };
        // A description cannot have longer names, and a range filter is not used without.
        let has_short_name = |policy: &&RangePolicy| policy.extractor().is_none_or(|part| part.name().len() <= 255);
        let ranges = ranges.filter(has_short_name);
        let extractor = ranges.and_then(RangePolicy::extractor).map(|extractor| extractor.name().to_owned());
        let extractors = context.key_parts.extractors().chain(ranges.and_then(RangePolicy::extractor));
        let witnesses = extractors.map(|extractor| Witness { extractor: extractor.clone(), key: None }).collect();
        Self {
            witnesses,
            file,
            hash: context.hasher.identity(),
            hasher: context.hasher.clone(),
            given: [None; 2],
            points,
            ranges: ranges.map(|policy| Box::new(policy.builder(&context))),
            range_extractor: extractor,
            parts: context.key_parts,
            bounds: FileBounds::Empty,
            keys_added: 0,
            range_tombstones: None,
            interruption: Interruption::default(),
        }
    }

    /// Adds a key.
    ///
    /// # Panics
    ///
    /// If the engine's hash, extractor or policy does. No filter is built then.
    pub fn add_key(&mut self, key: &[u8]) {
        self.note_key(key, None);
        self.interruption.enter();
        self.find_witnesses(key);
        match &mut self.points {
            Points::None => {}
            Points::Whole(builder) => builder.add_key(key),
            Points::Partitioned(builder) => builder.add_key(key),
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.add_key(key);
        }
        self.interruption.leave();
    }

    /// Adds a key that the engine has hashed, by a hasher of the store's identity. The point filter then holds whole
    /// keys and no parts, whatever the store's parts are.
    ///
    /// # Panics
    ///
    /// As for [`add_key`](Self::add_key).
    pub fn add_hash(&mut self, key: &[u8], hash: KeyHash) {
        self.note_key(key, Some(hash));
        self.parts = KeyParts::whole_keys();
        self.interruption.enter();
        self.find_witnesses(key);
        match &mut self.points {
            Points::None => {}
            Points::Whole(builder) => builder.add_hash(hash),
            Points::Partitioned(builder) => builder.add_hash(key, hash),
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.add_key(key);
        }
        self.interruption.leave();
    }

    /// The file deletes all keys from `start` up to and without `end` in older files. It is then a candidate for each
    /// of these keys and for ranges and prefixes that meet them, and gets no range filter. In an order of the engine's
    /// own, `start` may be above `end`: what lies between the two by their bytes counts.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) {
        if start == end {
            return;
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.add_range_tombstone();
        }
        match &mut self.range_tombstones {
            Some(span) => {
                span.include(start);
                span.include(end);
            }
            None => self.range_tombstones = Some(KeySpan::new(start.min(end), start.max(end))),
        }
    }

    fn find_witnesses(&mut self, key: &[u8]) {
        for witness in self.witnesses.iter_mut().filter(|witness| witness.key.is_none()) {
            witness.key = witness.extractor.extract(key).map(|_| Box::from(key));
        }
    }

    fn note_key(&mut self, key: &[u8], hash: Option<KeyHash>) {
        self.keys_added += 1;
        let FileBounds::Keys(span) = &mut self.bounds else {
            (self.bounds, self.given) = (FileBounds::Keys(KeySpan::new(key, key)), [hash; 2]);
            return;
        };
        let is_end = [key < &span.smallest[..], key > &span.largest[..]];
        span.include(key);
        for (given, _) in self.given.iter_mut().zip(is_end).filter(|(_, is_end)| *is_end) {
            *given = hash;
        }
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
    pub const fn builds_nothing(&self) -> bool {
        matches!(self.points, Points::None) && self.ranges.is_none()
    }

    /// About how many bytes the filters would have if they were finished now, for writers that cut files by size.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
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
        let is_known =
            |key: &[u8]| self.bounds.keys().is_some_and(|span| *span.smallest == *key || *span.largest == *key);
        let mut keys: Vec<_> = self.witnesses.iter().filter_map(|witness| witness.key.clone()).collect();
        keys.retain(|key| !is_known(key));
        keys.dedup();
        keys
    }

    /// What the hash and each extractor, by name, make of the known keys.
    fn checks(&self, known: &[&[u8]]) -> (u32, Vec<(String, u32)>) {
        let given = self.given.into_iter().chain(core::iter::repeat(None));
        let hashes = known.iter().zip(given).map(|(key, given)| given.unwrap_or_else(|| self.hasher.hash(key)));
        let extractors = self.witnesses.iter().map(|Witness { extractor, .. }| {
            (extractor.name().to_owned(), KeyChecks::of_extractor(&**extractor, known))
        });
        (KeyChecks::of_hashes(hashes), extractors.collect())
    }

    /// Builds the filters.
    #[must_use]
    pub fn finish(self) -> BuiltFilters {
        // No key had to be added, so the file may have some.
        let are_bounds_unknown = self.builds_nothing() && self.keys_added == 0;
        let witnesses = self.witnesses();
        let ends = self.bounds.keys().map(|span| [&*span.smallest, &*span.largest]).into_iter().flatten();
        let known: Vec<&[u8]> = ends.chain(witnesses.iter().map(AsRef::as_ref)).collect();
        // The hash or an extractor may panic only now.
        let checks = if self.interruption.has_happened() {
            None
        } else {
            catch_unwind(AssertUnwindSafe(|| self.checks(&known))).ok()
        };
        let mut is_sound = checks.is_some();
        let (hash_check, named_checks) = checks.unwrap_or_default();
        let check_of = |name: &str| named_checks.iter().find(|(other, _)| other == name).map_or(0, |&(_, check)| check);
        let mut built = BuiltFilters {
            points: None,
            ranges: None,
            metadata: FilterMetadata {
                file: self.file,
                hash: self.hash,
                parts: KeyPartNames::NONE,
                range_extractor: None,
                checks: KeyChecks { hash: hash_check, extractors: Vec::new() },
                bounds: if are_bounds_unknown { FileBounds::Unknown } else { self.bounds },
                keys_added: self.keys_added,
                range_tombstones: self.range_tombstones,
                witnesses,
                sections: Vec::new(),
            },
            filters: Vec::new(),
            table: None,
        };
        let (block, report) = match self.points {
            Points::None => (None, None),
            Points::Whole(builder) => {
                let filter = builder.finish().checked(&self.parts, self.hash, self.file);
                (filter.block.map(|block| (FilterPart::Points, block, 0)), Some(filter.report))
            }
            Points::Partitioned(builder) => {
                let filter = builder.finish();
                let report = (filter.problem() != Some(FallbackReason::None)).then(|| filter.report());
                let known = built.metadata.known_keys();
                let context = LoadContext::new(&self.hasher).with_key_parts(&self.parts).with_file_id(self.file);
                let context = context.with_known_keys(&known);
                let block = filter.seal().filter(|_| is_sound).and_then(|container| {
                    let checked = catch_unwind(AssertUnwindSafe(|| checked_index_bytes(&container, context)));
                    is_sound = checked.is_ok();
                    Some((FilterPart::PartitionedPoints, container, checked.ok()??))
                });
                (block, report)
            }
        };
        if let Some((part, block, index_bytes)) = block.filter(|_| is_sound) {
            let report = report.as_ref();
            let held = self.parts.without(report.map_or(&[], |report| &report.unstable_extractors));
            built.metadata.parts = KeyPartNames::of(&held);
            built.metadata.checks.extractors =
                built.metadata.parts.extractors.iter().map(|name| check_of(name)).collect();
            built.push(part, report.and_then(|report| report.used), block, index_bytes);
        }
        built.points = report.map(|report| if is_sound { report } else { interrupted(&report) });
        if let Some(builder) = self.ranges {
            let filter = builder.finish();
            if let Some(block) = filter.block.filter(|_| is_sound) {
                let check = self.range_extractor.as_ref().and_then(|_| named_checks.last()).map(|&(_, check)| check);
                built.metadata.checks.extractors.extend(check);
                built.metadata.range_extractor = self.range_extractor;
                built.push(FilterPart::Ranges, filter.report.used, block, 0);
            }
            built.ranges = Some(if is_sound { filter.report } else { interrupted(&filter.report) });
        }
        built
    }
}

/// The length of a container's top index; `None` if a partition lacks a known key, because the hash or an extractor
/// gives something else for it than when it was added.
fn checked_index_bytes(container: &Bytes, context: LoadContext<'_>) -> Option<u32> {
    let index_bytes = u32::try_from(PartitionIndex::tail_bytes(container).ok()?).ok()?;
    let index_at = container.len().checked_sub(index_bytes as usize)?;
    let checked = PartitionIndex::load(&container.slice(index_at..), context).and_then(|index| {
        index.check_known_keys(|number| {
            let place = index.block_place(number)?;
            let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            Ok(container.get(start..end).unwrap_or_default())
        })
    });
    (!matches!(checked, Err(BlockError::KnownKeyAbsent { .. }))).then_some(index_bytes)
}

fn interrupted(report: &BuildReport) -> BuildReport {
    BuildReport { reason: FallbackReason::Interrupted, ..BuildReport::new(report.requested) }
}

impl BuiltFilters {
    fn push(&mut self, part: FilterPart, kind: Option<FilterKind>, filter: Bytes, index_bytes: u32) {
        let end = self.metadata.sections.last().map_or(0, |section| section.range().end);
        let summed = filter.get(filter.len().saturating_sub(index_bytes as usize)..).filter(|_| index_bytes > 0);
        let summed = summed.unwrap_or(&filter).split_last_chunk::<CHECKSUM_BYTES>().map_or(&[][..], |(sum, _)| sum);
        self.metadata.sections.push(FilterSection {
            part,
            kind: kind.unwrap_or(FilterKind::from_code(0)),
            // Lines of 64 bytes lie on cache lines where the file does.
            offset: end.next_multiple_of(LINE_BYTES as u64),
            bytes: filter.len() as u64,
            index_bytes,
            checksum: checksum(summed),
        });
        self.filters.push(filter);
    }

    /// With the range filter of the same file that was built before, whose `metadata` and `block` these are, unless
    /// there is a new one. It is left out if it is not the one described, is bound to another file id, or was checked
    /// by other known keys than the new filters have.
    #[must_use]
    pub fn with_ranges_of(mut self, metadata: &FilterMetadata, block: Bytes) -> Self {
        let own = &self.metadata;
        let is_of_file = own.file == metadata.file && own.hash == metadata.hash && own.range_tombstones.is_none();
        let is_checked = own.checks.hash == metadata.checks.hash && own.known_keys() == metadata.known_keys();
        let section = metadata.ranges().filter(|section| section.check(&block).is_ok());
        if let Some(section) = section.filter(|_| is_of_file && is_checked && own.ranges().is_none()) {
            let check = metadata.range_extractor.as_ref().and_then(|_| metadata.checks.extractors.last());
            self.metadata.checks.extractors.extend(check);
            self.metadata.range_extractor.clone_from(&metadata.range_extractor);
            self.push(FilterPart::Ranges, Some(section.kind), block, 0);
        }
        self
    }

    /// Notes the table whose keys were read.
    pub(crate) const fn of_table(mut self, table: TableIdentity) -> Self {
        self.table = Some(table);
        self
    }

    /// The table whose keys were read, if that is known.
    pub(crate) const fn table(&self) -> Option<TableIdentity> {
        self.table
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

impl fmt::Debug for FileFilterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileFilterBuilder")
            .field("file", &self.file)
            .field("keys_added", &self.keys_added)
            .finish_non_exhaustive()
    }
}
