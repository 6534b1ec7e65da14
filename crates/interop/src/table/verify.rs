//! Everything that a table's checksums and keys can tell about damage.

use crate::random_access::RandomAccess;

use super::keys::{BlockKeys, IndexWalk, Met, without_dictionary};
use super::layout::{DataLocation, FilterLocation};
use super::partitions::in_file_order;
use super::pebble::{self, IndexedBlock};
use super::rules::KeyRules;
use super::{Loaded, Probe, Table, rocksdb};
use crate::error::{Error, Part};
use crate::filter::FilterKind;
use crate::format::checksum::ChecksumType;
use crate::format::footer::Engine;
use crate::format::handle::{BlockHandle, TRAILER_BYTES};
use crate::format::pebble_footer;
use crate::format::properties::name;

/// What is known of a block's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockState {
    /// Its checksum holds, and it says nothing that cannot be.
    Sound,
    /// Nothing is wrong with it, as far as can be told without a checksum.
    NoChecksum,
    /// Its checksum holds, or it has none; its meaning is not known here.
    Unsupported(Error),
    /// It could not be read. This says nothing about its bytes.
    Unread(Error),
    /// Its bytes are not those that were written.
    Damaged(Error),
}

/// One block, or the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockReport {
    /// What it is.
    pub part: Part,
    /// Where it begins.
    pub offset: u64,
    /// Its bytes, trailer included.
    pub bytes: u64,
    /// What is known of it.
    pub state: BlockState,
}

/// What [`Table::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Footer, metaindex, the blocks that it names, partitions of the filter, index blocks and data blocks.
    pub blocks: Vec<BlockReport>,
    /// Distinct user keys that were probed.
    pub keys_checked: u64,
    /// Those of them for which the filter says "absent": each is an entry that readers cannot find.
    pub keys_lost: u64,
    /// The first of these, at most [`VerifyReport::MAX_EXAMPLES`].
    pub lost_examples: Vec<Vec<u8>>,
    /// Why some or all keys were not probed: the first reason. A table without filter has nothing to probe, and no
    /// reason.
    pub keys_unchecked: Option<Error>,
}

impl VerifyReport {
    /// How many lost keys are shown.
    pub const MAX_EXAMPLES: usize = 16;

    /// No block is damaged or could not be read, and no key is lost.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let bad = |state: &BlockState| matches!(state, BlockState::Damaged(_) | BlockState::Unread(_));
        self.keys_lost == 0 && !self.blocks.iter().any(|block| bad(&block.state))
    }

    /// The blocks that are damaged.
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

/// What an error says of the block that it is about.
fn state_of(error: Error) -> BlockState {
    match error {
        Error::Io { .. } => BlockState::Unread(error),
        Error::Unsupported { .. } | Error::NoFilter => BlockState::Unsupported(error),
        _ => BlockState::Damaged(error),
    }
}

impl<R: RandomAccess> Table<R> {
    /// Compares every checksum, and probes the filter for every stored key. Reads the whole table; goes on behind
    /// damage.
    ///
    /// In format versions up to 5 and in LevelDB's tables, the footer has no checksum. What is wrong with it shows in
    /// the blocks it leads to, in bytes that should be zero, or in a version that contradicts the blocks. A version can
    /// be damaged into another one that says the same of this table: FORMATS.md names the cases. No answer depends on
    /// it.
    pub fn verify(&self) -> VerifyReport {
        let mut report = VerifyReport::default();
        self.verify_footer(&mut report);
        let metaindex = self.footer.metaindex;
        // Opening has compared it.
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
        report
    }

    /// Data blocks of columns, whose keys are not read: their checksums alone.
    fn verify_columns(&self, report: &mut VerifyReport) {
        let mut last = None;
        for IndexedBlock { part, handle, result } in
            pebble::blocks_of_columns(&self.file, &self.footer, self.properties())
        {
            let result = result.and_then(|()| {
                in_file_order(last.replace(handle), handle).map_err(|problem| Error::Malformed {
                    part: Part::Index,
                    offset: handle.offset,
                    problem,
                })?;
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

    fn verify_footer(&self, report: &mut VerifyReport) {
        let footer = &self.footer;
        let (offset, bytes) = (footer.offset, footer.bytes);
        let has_checksum = match footer.engine {
            Engine::Pebble => pebble_footer::has_checksum(footer.format_version),
            _ => footer.checksums.base_context != 0 && self.checksum_type() != ChecksumType::None,
        };
        let problem = if footer.padding_is_damaged {
            Some("expected zeros behind its fields".into())
        } else {
            self.contradiction()
        };
        let state = match problem {
            Some(problem) => BlockState::Damaged(Error::Malformed { part: Part::Footer, offset, problem }),
            None if has_checksum => BlockState::Sound,
            None => BlockState::NoChecksum,
        };
        report.blocks.push(BlockReport { part: Part::Footer, offset, bytes, state });
    }

    /// What the blocks say that the footer's format version does not allow. The version decides what a writer does; a
    /// reader goes by what the blocks say.
    fn contradiction(&self) -> Option<String> {
        match self.engine() {
            Engine::RocksDb => self.contradiction_of_rocksdb(),
            Engine::Pebble => pebble::contradiction(&self.footer, self.checked_properties().ok()?),
            Engine::LevelDb => None,
        }
    }

    fn contradiction_of_rocksdb(&self) -> Option<String> {
        let version = self.format_version();
        let needs = |least: u32, what: &str| {
            (version < least).then(|| format!("expected format version {least} or more for {what}, got {version}"))
        };
        let is_on = |name: &str| self.properties().number(name) == Some(1);
        if is_on(name::INDEX_KEY_IS_USER_KEY)
            && !self.has_index_without_keys()
            && let Some(problem) = needs(3, "index keys without sequence number")
        {
            return Some(problem);
        }
        if is_on(name::INDEX_VALUE_IS_DELTA_ENCODED)
            && let Some(problem) = needs(4, "differences of block handles")
        {
            return Some(problem);
        }
        match self.first_filter_kind()? {
            FilterKind::LegacyBloom if version >= 5 => {
                Some(format!("expected format version 4 or less for its filter, got {version}"))
            }
            // With a Ribbon policy, a table of any version may have either.
            FilterKind::FastLocalBloom if self.properties().filter_policy() == Some("bloomfilter") => {
                needs(5, "its filter")
            }
            _ => None,
        }
    }

    /// RocksDB settles whether a partitioned index has user keys when it adds the first: of a table of range tombstones
    /// alone, the property says so in all versions.
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

    /// In the order of the file. A block that overlaps the one before is not read: else many names for one long block
    /// would make this take its length many times.
    fn verify_named_blocks(&self, report: &mut VerifyReport) {
        let mut blocks: Vec<_> =
            self.layout.metaindex.iter().map(|block| (block.handle, block.name.as_slice())).collect();
        blocks.sort_unstable();
        let mut last = None;
        for (handle, name) in blocks {
            let part = part_of(name);
            // The walk through the index comes to it.
            if part == Part::Index {
                continue;
            }
            let result = in_file_order(last, handle)
                .map_err(|problem| Error::Malformed { part: Part::Metaindex, offset: handle.offset, problem })
                .and_then(|()| {
                    last = Some(handle);
                    self.verify_named(part, handle)
                });
            report.blocks.push(self.block(part, handle, result));
        }
    }

    fn verify_named(&self, part: Part, handle: BlockHandle) -> Result<(), Error> {
        match (part, &self.layout.filter, &self.layout.properties) {
            // Its checksum may be that of the table before it was ingested.
            (Part::Properties, _, Err(error)) => Err(error.clone()),
            (Part::Properties, ..) => Ok(()),
            (
                Part::Filter | Part::PartitionIndex,
                Ok(FilterLocation::Full(place, _) | FilterLocation::PerDataBlock(place, _)),
                _,
            ) if *place == handle => {
                self.checked(part, handle)?;
                self.loaded().map(drop).or_else(|error| blame(error, part))
            }
            (Part::PartitionIndex, Ok(FilterLocation::Partitioned(place, _)), _) if *place == handle => {
                self.checked(part, handle)?;
                self.loaded().map(drop)
            }
            (Part::Filter | Part::PartitionIndex, Err(error @ Error::Unsupported { .. }), _) => {
                self.checked(part, handle)?;
                Err(error.clone())
            }
            _ => self.checked(part, handle),
        }
    }

    fn checked(&self, part: Part, handle: BlockHandle) -> Result<(), Error> {
        self.file.stored(handle, part)?.checked(self.file.checksums).map(drop)
    }

    fn verify_partitions(&self, report: &mut VerifyReport) {
        let Ok(Loaded::Partitioned(partitions)) = self.loaded() else { return };
        for (partition, &handle) in partitions.handles().iter().enumerate() {
            // What has been read before is read again: memory is not what is verified.
            let result =
                self.checked(Part::Partition, handle).and_then(|()| partitions.filter(&self.file, partition).map(drop));
            report.blocks.push(self.block(Part::Partition, handle, result));
        }
    }

    fn verify_data(&self, place: &DataLocation, report: &mut VerifyReport) {
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
        if keys.is_complete {
            self.verify_entry_count(keys.entries, report);
        }
    }

    /// An index that leads to other blocks than it was written for shows in the number of entries, even where nothing
    /// has a checksum.
    fn verify_entry_count(&self, found: u64, report: &mut VerifyReport) {
        let Some(expected) = self.entries_of_data_blocks().filter(|&expected| expected != found) else { return };
        let Some(block) = report.blocks.iter_mut().find(|block| block.part == Part::Properties) else { return };
        if matches!(block.state, BlockState::Sound | BlockState::NoChecksum) {
            let problem = format!("expected the {found} entries of the data blocks, got {expected}");
            block.state =
                BlockState::Damaged(Error::Malformed { part: Part::Properties, offset: block.offset, problem });
        }
    }

    /// As the properties have it. Range tombstones count as entries, and are in a block of their own. Before RocksDB
    /// counted them apart, a table with some did not say how many entries its data blocks have.
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
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        self.checked(Part::Data, handle).inspect_err(|error| report.leave_unchecked(error.clone()))?;
        if !keys.is_consistent {
            return Ok(());
        }
        let read = self.file.decompressed(handle, Part::Data).and_then(|contents| {
            let mut block = BlockKeys::new(contents, keys.place, handle.offset);
            while let Some(key) = block.next() {
                keys.check(key?, report);
            }
            Ok(())
        });
        match read {
            // The block is what was written, in a codec that is not known or with keys that are too long.
            Err(error @ Error::Unsupported { .. }) => {
                keys.is_complete = false;
                report.leave_unchecked(error);
                Ok(())
            }
            Err(error) => {
                report.leave_unchecked(error.clone());
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }
}

/// An error of another part that a filter needs says nothing of the filter block.
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

/// What a block is, by its name in the metaindex.
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
    table: &'a Table<R>,
    place: &'a DataLocation,
    rules: Option<&'a KeyRules>,
    is_consistent: bool,
    /// All entries have been met so far.
    is_complete: bool,
    entries: u64,
    last_key: Option<Vec<u8>>,
    last_prefix: Vec<u8>,
}

impl<'a, R: RandomAccess> KeyCheck<'a, R> {
    fn new(table: &'a Table<R>, place: &'a DataLocation, report: &mut VerifyReport) -> Self {
        let possible = match &table.layout.filter {
            Err(Error::NoFilter) => Err(None),
            Err(error) => Err(Some(error.clone())),
            Ok(_) => without_dictionary(place).map_err(Some),
        };
        let is_consistent = possible.is_ok();
        if let Err(Some(reason)) = possible {
            report.leave_unchecked(reason);
        }
        let rules = table.layout.rules.as_ref().ok();
        let is_complete = is_consistent;
        Self { table, place, rules, is_consistent, is_complete, entries: 0, last_key: None, last_prefix: Vec::new() }
    }

    fn check(&mut self, key: &[u8], report: &mut VerifyReport) {
        self.entries += 1;
        // Versions of a key follow each other.
        if self.last_key.as_deref() == Some(key) {
            return;
        }
        self.last_key = Some(key.to_vec());
        match self.table.probe(key) {
            Probe::Absent => report.lose(key),
            Probe::MaybePresent if self.prefix_is_lost(key) => report.lose(key),
            Probe::MaybePresent => {}
            Probe::Unusable(reason) => return report.leave_unchecked(reason),
        }
        report.keys_checked += 1;
    }

    /// Whether a search by the key's prefix would miss it.
    fn prefix_is_lost(&mut self, key: &[u8]) -> bool {
        let Some(Ok(extractor)) = self.rules.and_then(|rules| rules.prefixes.as_ref()) else { return false };
        let Some(prefix) = extractor.prefix(key).filter(|prefix| *prefix != self.last_prefix) else { return false };
        self.last_prefix.clear();
        self.last_prefix.extend_from_slice(prefix);
        self.table.probe_prefix(prefix).is_absent()
    }
}
