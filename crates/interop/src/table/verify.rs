//! Verifies a table: compares its checksums, and probes the filter for its keys.

use sstfilter::RandomAccess;

use super::keys::{BlockKeys, IndexWalk, Met, contents_of};
use super::layout::DataLocation;
use super::partitions::in_file_order;
use super::pebble::{self, IndexedBlock};
use super::rules::KeyRules;
use super::{ForeignTable, Loaded, rocksdb};
use crate::error::{Error, Part};
use crate::filter::FilterKind;
use crate::format::checksum::ChecksumType;
use crate::format::footer::{self, Engine};
use crate::format::handle::{BlockHandle, TRAILER_BYTES};
use crate::format::properties::name;

/// The state of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockState {
    /// Its checksum holds, and its contents are consistent.
    Sound,
    /// It has no checksum, and no damage is visible.
    NoChecksum,
    /// Its checksum holds or is absent, but this crate does not know its meaning.
    Unsupported(Error),
    /// It could not be read. Its bytes may be sound.
    Unread(Error),
    /// Its bytes are not those that were written.
    Damaged(Error),
}

/// The report on one block, or on the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockReport {
    /// The part of the table.
    pub part: Part,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes, including the trailer.
    pub bytes: u64,
    /// Its state.
    pub state: BlockState,
}

/// How much of a table [`ForeignTable::verify`] has verified, whatever it found there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coverage {
    /// The checksums of all blocks that the metaindex, the index and the filter name. Pebble's value blocks, which an
    /// index of their own names, are not among them.
    #[default]
    Complete,
    /// Not all blocks: a part that names others could not be read.
    NotReached {
        /// That part.
        part: Part,
        /// Why it could not be read.
        why: Error,
        /// How many data blocks were not reached. `None` if the table does not record how many it has.
        data_blocks: Option<u64>,
    },
    /// All blocks, but none has a checksum, so damage may not show.
    WithoutChecksums {
        /// How many blocks there are.
        blocks: u64,
    },
}

/// The result of [`ForeignTable::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignReport {
    /// The footer, the metaindex, the blocks that it names, partitions of the filter, index blocks and data blocks.
    pub blocks: Vec<BlockReport>,
    /// Distinct user keys that were probed.
    pub keys_checked: u64,
    /// Probed keys for which the filter is negative: readers cannot find them.
    pub keys_lost: u64,
    /// The first lost keys, at most [`ForeignReport::MAX_EXAMPLES`].
    pub lost_examples: Vec<Vec<u8>>,
    /// The first reason why keys were not probed. A table without a filter has nothing to probe, and no reason.
    pub keys_unchecked: Option<Error>,
    coverage: Coverage,
}

impl ForeignReport {
    /// The maximum number of lost keys shown.
    pub const MAX_EXAMPLES: usize = 16;

    /// Returns whether no block is damaged or unreadable, and no key is lost. [`ForeignReport::coverage`] says whether
    /// that concerns all blocks.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let bad = |state: &BlockState| matches!(state, BlockState::Damaged(_) | BlockState::Unread(_));
        self.keys_lost == 0 && !self.blocks.iter().any(|block| bad(&block.state))
    }

    /// Returns how much of the table was verified.
    #[must_use]
    pub const fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns the damaged blocks.
    pub fn damaged(&self) -> impl Iterator<Item = &BlockReport> {
        self.blocks.iter().filter(|block| matches!(block.state, BlockState::Damaged(_)))
    }

    fn leave_unchecked(&mut self, reason: Error) {
        self.keys_unchecked.get_or_insert(reason);
    }

    fn lose(&mut self, key: &[u8]) {
        self.keys_lost += 1;
        if self.lost_examples.len() < Self::MAX_EXAMPLES {
            self.lost_examples.push(key.to_vec());
        }
    }
}

/// Returns the state of a block with this error.
fn state_of(error: Error) -> BlockState {
    match error {
        Error::Io { .. } => BlockState::Unread(error),
        Error::Unsupported { .. } | Error::NoFilter => BlockState::Unsupported(error),
        _ => BlockState::Damaged(error),
    }
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Compares every checksum, and probes the filter for every stored key. Reads the whole table, and continues behind
    /// damage.
    ///
    /// In format versions up to 5 and in LevelDB's tables, the footer has no checksum. Its damage shows in the blocks
    /// it leads to, in bytes that should be zero, or in a version that contradicts the blocks. A damaged version can
    /// also be another valid one for the table; FORMATS.md names the cases. No answer depends on it.
    pub fn verify(&self) -> ForeignReport {
        let mut report = ForeignReport::default();
        self.verify_footer(&mut report);
        let metaindex = self.footer.metaindex;
        // `open` has compared its checksum.
        report.blocks.push(self.block(Part::Metaindex, metaindex, Ok(())));
        self.verify_named_blocks(&mut report);
        self.verify_partitions(&mut report);
        match &self.layout.data {
            Ok(place) => self.verify_data(place, &mut report),
            Err(reason) => {
                report.leave_unchecked(reason.clone());
                self.verify_columns(&mut report);
            }
        }
        report.coverage = self.coverage_of(&report);
        report
    }

    fn coverage_of(&self, report: &ForeignReport) -> Coverage {
        if let Some((part, why)) = self.first_unread_index(report) {
            let met = report.blocks.iter().filter(|block| block.part == Part::Data).count() as u64;
            let data_blocks = self.properties().data_blocks().map(|all| all.saturating_sub(met));
            return Coverage::NotReached { part, why, data_blocks };
        }
        if let Some(why) = self.unread_partitions() {
            return Coverage::NotReached { part: Part::PartitionIndex, why, data_blocks: Some(0) };
        }
        if self.checksum_type() != ChecksumType::None {
            return Coverage::Complete;
        }
        let is_unchecked = |block: &&BlockReport| block.part != Part::Footer && block.state == BlockState::NoChecksum;
        Coverage::WithoutChecksums { blocks: report.blocks.iter().filter(is_unchecked).count() as u64 }
    }

    /// Returns the first part that leads to data blocks and could not be read.
    fn first_unread_index(&self, report: &ForeignReport) -> Option<(Part, Error)> {
        let mut indexes = report.blocks.iter().filter(|block| block.part == Part::Index).peekable();
        // Without an index, there is a reason why it could not be located.
        if indexes.peek().is_none() {
            return self.layout.data.as_ref().err().map(|reason| (Part::Index, reason.clone()));
        }
        indexes.find_map(|block| match &block.state {
            BlockState::Sound | BlockState::NoChecksum => None,
            BlockState::Unsupported(why) | BlockState::Unread(why) | BlockState::Damaged(why) => {
                Some((Part::Index, why.clone()))
            }
        })
    }

    /// Returns why the partitions of a filter were not reached.
    fn unread_partitions(&self) -> Option<Error> {
        let is_partitioned = |name: &[u8]| part_of(name) == Part::PartitionIndex;
        if !self.layout.metaindex.iter().any(|block| is_partitioned(&block.name)) {
            return None;
        }
        self.loaded().err()
    }

    /// Compares the checksums of columnar data blocks, whose keys this crate does not read.
    fn verify_columns(&self, report: &mut ForeignReport) {
        let mut last = None;
        for IndexedBlock { part, handle, result } in
            pebble::blocks_of_columns(&self.file, &self.footer, self.properties())
        {
            let result = result.and_then(|()| {
                in_file_order(last.replace(handle), handle)
                    .map_err(|problem| Error::malformed(Part::Index, handle.offset, problem))?;
                self.checked(part, handle)
            });
            report.blocks.push(self.block(part, handle, result));
        }
    }

    fn block(&self, part: Part, handle: BlockHandle, result: Result<(), Error>) -> BlockReport {
        let state = match result {
            Ok(()) if self.checksum_type() == ChecksumType::None => BlockState::NoChecksum,
            Ok(()) => BlockState::Sound,
            Err(error) => state_of(error),
        };
        BlockReport { part, offset: handle.offset, bytes: handle.size.saturating_add(TRAILER_BYTES), state }
    }

    fn verify_footer(&self, report: &mut ForeignReport) {
        let footer = &self.footer;
        let (offset, bytes) = (footer.offset, footer.bytes);
        let has_checksum = match footer.engine {
            Engine::Pebble => footer::pebble::has_checksum(footer.format_version),
            _ => footer.checksums.base_context != 0 && self.checksum_type() != ChecksumType::None,
        };
        let padding = footer.padding_is_damaged.then(|| "expected zeros behind its fields".into());
        let problem = padding.or_else(|| self.contradiction());
        let state = match problem {
            Some(problem) => BlockState::Damaged(Error::malformed(Part::Footer, offset, problem)),
            None if has_checksum => BlockState::Sound,
            None => BlockState::NoChecksum,
        };
        report.blocks.push(BlockReport { part: Part::Footer, offset, bytes, state });
    }

    /// Returns a contradiction between the blocks and the footer's format version. The version decides how a writer
    /// encodes; a reader follows the blocks.
    fn contradiction(&self) -> Option<String> {
        match self.engine() {
            Engine::RocksDb => self.contradiction_of_rocksdb(),
            Engine::Pebble => pebble::contradiction(&self.footer, self.checked_properties().ok()?),
            Engine::LevelDb => None,
        }
    }

    fn contradiction_of_rocksdb(&self) -> Option<String> {
        let version = self.format_version();
        // A writer uses a feature only from the version on that introduced it.
        let needs = |least: u32, what| {
            (version < least).then(|| format!("expected format version {least} or more for {what}, got {version}"))
        };
        let is_on = |name: &str| self.properties().number(name) == Some(1);
        let has_user_keys = is_on(name::INDEX_KEY_IS_USER_KEY) && !self.has_index_without_keys();
        let of_keys = has_user_keys.then(|| needs(3, "index keys without sequence number"));
        let of_values = is_on(name::INDEX_VALUE_IS_DELTA_ENCODED).then(|| needs(4, "differences of block handles"));
        if let Some(problem) = of_keys.flatten().or(of_values.flatten()) {
            return Some(problem);
        }
        match self.first_filter_kind()? {
            FilterKind::LegacyBloom if version >= 5 => {
                Some(format!("expected format version 4 or less for its filter, got {version}"))
            }
            // A Ribbon policy may write either kind in any version.
            FilterKind::FastLocalBloom if self.properties().filter_policy() == Some("bloomfilter") => {
                needs(5, "its filter")
            }
            _ => None,
        }
    }

    /// Returns whether a partitioned index has no keys. RocksDB decides about user keys when it adds the first; in a
    /// table of range tombstones only, the property is 1 in every version.
    fn has_index_without_keys(&self) -> bool {
        let has_two_levels = self.layout.data.as_ref().is_ok_and(|place| place.index.two_levels);
        has_two_levels && self.properties().data_blocks() == Some(0)
    }

    fn first_filter_kind(&self) -> Option<FilterKind> {
        match self.loaded().ok()? {
            Loaded::Full(filter) => Some(filter.kind()),
            Loaded::Partitioned(partitions) => Some(partitions.filter(&self.file, 0).ok()?.kind()),
            Loaded::PerDataBlock(_) => None,
        }
    }

    /// Checks the named blocks in file order. An overlapping block is not read: otherwise many names for one long block
    /// would make this read it many times.
    fn verify_named_blocks(&self, report: &mut ForeignReport) {
        let mut blocks: Vec<_> =
            self.layout.metaindex.iter().map(|block| (block.handle, block.name.as_slice())).collect();
        // The metaindex is in the order of names; overlaps show only in file order.
        blocks.sort_unstable();
        let mut last = None;
        for (handle, name) in blocks {
            let part = part_of(name);
            // `verify_data` reports the index.
            if part == Part::Index {
                continue;
            }
            let result = in_file_order(last, handle)
                .map_err(|problem| Error::malformed(Part::Metaindex, handle.offset, problem))
                .and_then(|()| {
                    last = Some(handle);
                    self.verify_named(part, handle)
                });
            report.blocks.push(self.block(part, handle, result));
        }
    }

    fn verify_named(&self, part: Part, handle: BlockHandle) -> Result<(), Error> {
        if part == Part::Properties {
            // Not compared again: the checksum may be from before the table was ingested, which `open` took into
            // account.
            return self.layout.properties.as_ref().map(drop).map_err(Clone::clone);
        }
        self.checked(part, handle)?;
        match &self.layout.filter {
            _ if !matches!(part, Part::Filter | Part::PartitionIndex) => Ok(()),
            Ok(place) if place.handle() == handle => self.loaded().map(drop).or_else(|error| blame(error, part)),
            Err(error @ Error::Unsupported { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn checked(&self, part: Part, handle: BlockHandle) -> Result<(), Error> {
        self.file.checked(handle, part).map(drop)
    }

    fn verify_partitions(&self, report: &mut ForeignReport) {
        let Ok(Loaded::Partitioned(partitions)) = self.loaded() else { return };
        for (partition, &handle) in partitions.handles().iter().enumerate() {
            // Read again even if it is in memory: the file is what is verified.
            let result =
                self.checked(Part::Partition, handle).and_then(|()| partitions.filter(&self.file, partition).map(drop));
            report.blocks.push(self.block(Part::Partition, handle, result));
        }
    }

    fn verify_data(&self, place: &DataLocation, report: &mut ForeignReport) {
        let mut keys = KeyCheck::new(self, place, report);
        let mut walk = IndexWalk::new(place.index);
        while let Some(met) = walk.next(&self.file) {
            let (part, handle, result) = match met {
                Ok(Met::Index(handle)) => (Part::Index, handle, Ok(())),
                Ok(Met::Data(handle)) => (Part::Data, handle, self.verify_data_block(handle, &mut keys, report)),
                Err((handle, error)) => {
                    report.leave_unchecked(error.clone());
                    (Part::Index, handle, Err(error))
                }
            };
            keys.is_complete &= result.is_ok();
            report.blocks.push(self.block(part, handle, result));
        }
        // A count of some blocks would blame the properties for other damage.
        if keys.is_complete {
            self.verify_entry_count(keys.entries, report);
        }
    }

    /// Compares the number of entries. It exposes an index that leads to the wrong blocks, even without checksums.
    fn verify_entry_count(&self, found: u64, report: &mut ForeignReport) {
        let Some(expected) = self.entries_of_data_blocks().filter(|&expected| expected != found) else { return };
        let Some(block) = report.blocks.iter_mut().find(|block| block.part == Part::Properties) else { return };
        if matches!(block.state, BlockState::Sound | BlockState::NoChecksum) {
            let problem = format!("expected the {found} entries of the data blocks, got {expected}");
            block.state = BlockState::Damaged(Error::malformed(Part::Properties, block.offset, problem));
        }
    }

    /// Returns the number of data blocks' entries, from the properties. They count range tombstones, which are in a
    /// separate block, as entries. Older versions of RocksDB stored no count of range tombstones, so for a table with
    /// some the number is unknown.
    fn entries_of_data_blocks(&self) -> Option<u64> {
        let properties = self.properties();
        let range_deletions = match properties.range_deletions() {
            None if self.has_range_tombstones() => return None,
            range_deletions => range_deletions.unwrap_or(0),
        };
        properties.entries()?.checked_sub(range_deletions)
    }

    fn verify_data_block(
        &self,
        handle: BlockHandle,
        keys: &mut KeyCheck<'_, R>,
        report: &mut ForeignReport,
    ) -> Result<(), Error> {
        let block = self.file.checked(handle, Part::Data);
        let block = block.inspect_err(|error| report.leave_unchecked(error.clone()))?;
        // Without a usable filter, only the checksum can be verified.
        if !keys.has_filter {
            return Ok(());
        }
        let read = contents_of(block, &self.file, keys.place).and_then(|contents| {
            let mut block = BlockKeys::new(contents, keys.place, handle.offset);
            while let Some(key) = block.next() {
                keys.check(key?, report);
            }
            Ok(())
        });
        let Err(error) = read else { return Ok(()) };
        report.leave_unchecked(error.clone());
        // The checksum held, so the block is as written, in an unknown codec, with a dictionary or too long keys.
        if matches!(error, Error::Unsupported { .. }) {
            keys.is_complete = false;
            return Ok(());
        }
        Err(error)
    }
}

/// Drops an error of another part, which is not the filter block's.
fn blame(error: Error, part: Part) -> Result<(), Error> {
    match &error {
        Error::Checksum { part: other, .. }
        | Error::Malformed { part: other, .. }
        | Error::Unsupported { part: other, .. }
            if *other != part =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

/// Returns the part of a block, by its name in the metaindex.
fn part_of(name: &[u8]) -> Part {
    if name.starts_with(b"partitionedfilter.") {
        return Part::PartitionIndex;
    }
    if name.starts_with(b"fullfilter.") || name.starts_with(b"filter.") {
        return Part::Filter;
    }
    match name {
        rocksdb::PROPERTIES_BLOCK => Part::Properties,
        rocksdb::INDEX_BLOCK => Part::Index,
        rocksdb::DICTIONARY_BLOCK => Part::CompressionDictionary,
        _ if rocksdb::RANGE_TOMBSTONE_BLOCKS.contains(&name) => Part::RangeTombstones,
        _ => Part::Other,
    }
}

/// Probes the filter for stored keys.
struct KeyCheck<'a, R> {
    table: &'a ForeignTable<R>,
    place: &'a DataLocation,
    has_filter: bool,
    /// Whether all entries so far have been counted.
    is_complete: bool,
    entries: u64,
    last_key: Option<Vec<u8>>,
    last_prefix: Vec<u8>,
}

impl<'a, R: RandomAccess> KeyCheck<'a, R> {
    fn new(table: &'a ForeignTable<R>, place: &'a DataLocation, report: &mut ForeignReport) -> Self {
        let has_filter = table.layout.filter.is_ok();
        if let Err(reason) = &table.layout.filter
            && *reason != Error::NoFilter
        {
            report.leave_unchecked(reason.clone());
        }
        Self { table, place, has_filter, is_complete: has_filter, entries: 0, last_key: None, last_prefix: Vec::new() }
    }

    fn check(&mut self, key: &[u8], report: &mut ForeignReport) {
        self.entries += 1;
        // Versions of a key are adjacent; one probe is enough.
        if self.last_key.as_deref() == Some(key) {
            return;
        }
        self.last_key = Some(key.to_vec());
        match self.table.try_probe(key) {
            Ok(may_contain) if !may_contain || self.prefix_is_lost(key) => report.lose(key),
            Ok(_) => {}
            Err(reason) => return report.leave_unchecked(reason),
        }
        report.keys_checked += 1;
    }

    /// Returns whether a search by the key's prefix would miss it.
    fn prefix_is_lost(&mut self, key: &[u8]) -> bool {
        let Ok(KeyRules { prefixes: Some(Ok(extractor)), .. }) = &self.table.layout.rules else { return false };
        let Some(prefix) = extractor.prefix(key).filter(|prefix| *prefix != self.last_prefix) else { return false };
        self.last_prefix.clear();
        self.last_prefix.extend_from_slice(prefix);
        self.table.probe_prefix(prefix).is_absent()
    }
}
