//! Tables: opened in constant time, probed by user key.

mod batch;
mod file;
mod info;
mod key_range;
mod keys;
mod layout;
mod leveldb;
mod once;
mod partitions;
mod pebble;
mod rocksdb;
mod rules;
mod verify;

pub use batch::{BatchAnswer, BatchAnswers, KeyBatch};
pub use info::{Coverage, FilterInfo, FilterUnit, UnitBytes};
pub use key_range::KeyRange;
pub use keys::UserKeys;
pub use verify::{BlockReport, BlockState, VerifyReport};

use crate::random_access::RandomAccess;

use crate::compression::Numbering;
use crate::error::{Error, Part};
use crate::filter::Filter;
use crate::format::checksum::ChecksumType;
use crate::format::footer::{Engine, Footer, MAX_FOOTER_BYTES};
use crate::format::properties::Properties;
use file::{TableFile, io_error, zeros};
use layout::{FilterLocation, Layout};
use leveldb::DataBlockFilters;
use once::LoadOnce;
use partitions::Partitions;
use rules::KeyRules;

/// What a table's filter says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The table has no entry of the key. [`Table::has_range_tombstones`] says whether it must be read all the same.
    Absent,
    /// The table may have one.
    MaybePresent,
    /// The filter cannot answer, and this is why. The table may have an entry.
    Unusable(Error),
}

impl Probe {
    /// True for [`Probe::Absent`] alone.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    const fn of(may_contain: bool) -> Self {
        if may_contain { Self::MaybePresent } else { Self::Absent }
    }
}

/// A table of RocksDB, LevelDB or Pebble.
///
/// Opening reads the footer, the metaindex and the properties. The first probe reads a full filter once and keeps it;
/// of a partitioned filter it reads the index, and then each partition once that a key falls into. Checksums are
/// compared before anything is believed. Threads share a table by reference.
///
/// ```no_run
/// use sstfilter_interop::{Probe, Table};
///
/// let table = Table::open(std::fs::File::open("/db/000123.sst")?)?;
/// match table.probe(b"key") {
///     Probe::Absent => println!("nothing to read"),
///     Probe::MaybePresent => println!("to be searched"),
///     Probe::Unusable(why) => println!("to be searched: {why}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Table<R> {
    file: TableFile<R>,
    footer: Footer,
    layout: Layout,
    filter: FilterState,
    trusts_unchecked: bool,
    /// Its database's comparator has been given, known here or not.
    is_comparator_stated: bool,
}

/// What has been read of a filter.
#[derive(Debug)]
enum FilterState {
    /// There is none, or none that can be used.
    None,
    Full(LoadOnce<Filter<Vec<u8>>>),
    Partitioned(LoadOnce<Partitions>),
    PerDataBlock(LoadOnce<DataBlockFilters>),
}

impl FilterState {
    fn of(place: &Result<FilterLocation, Error>) -> Self {
        match place {
            Ok(FilterLocation::Full(..)) => Self::Full(LoadOnce::default()),
            Ok(FilterLocation::Partitioned(..)) => Self::Partitioned(LoadOnce::default()),
            Ok(FilterLocation::PerDataBlock(..)) => Self::PerDataBlock(LoadOnce::default()),
            Err(_) => Self::None,
        }
    }
}

/// A filter that has been read, as far as it must be to answer.
enum Loaded<'a> {
    Full(&'a Filter<Vec<u8>>),
    Partitioned(&'a Partitions),
    PerDataBlock(&'a DataBlockFilters),
}

impl<R: RandomAccess> Table<R> {
    /// Opens a table, with one read of its footer, one of the metaindex and one of the properties, if it has any.
    ///
    /// # Errors
    ///
    /// [`Error::NotATable`], and whatever is wrong with the footer or the metaindex. A table whose properties or filter
    /// are damaged or not known is opened: its probes say why they cannot answer.
    pub fn open(reader: R) -> Result<Self, Error> {
        let bytes = reader.len().map_err(|error| io_error(Part::Footer, &error))?;
        let tail_bytes = bytes.min(MAX_FOOTER_BYTES as u64);
        let mut tail = zeros(tail_bytes, Part::Footer)?;
        reader.read_exact_at(&mut tail, bytes - tail_bytes).map_err(|error| io_error(Part::Footer, &error))?;
        let footer = Footer::parse(&tail, bytes)?;
        let numbering = match footer.engine {
            Engine::LevelDb => Numbering::LevelDb,
            Engine::Pebble => Numbering::Pebble,
            _ => Numbering::RocksDb { format_version: footer.format_version },
        };
        let mut file = TableFile { reader, checksums: footer.checksums, numbering, blocks_end: footer.offset };
        let metaindex = match footer.engine {
            Engine::Pebble => pebble::read_metaindex(&file, &footer)?,
            _ => layout::read_metaindex(&file, &footer)?,
        };
        let layout = match footer.engine {
            Engine::LevelDb if Layout::named(&metaindex, rocksdb::PROPERTIES_BLOCK).is_none() => {
                leveldb::layout(&footer, metaindex)
            }
            Engine::Pebble => pebble::layout(&file, &footer, metaindex),
            _ => {
                // RocksDB before its version 2.6 has LevelDB's footer, and codecs of its own.
                file.numbering = Numbering::RocksDb { format_version: footer.format_version };
                rocksdb::layout(&file, &footer, metaindex)
            }
        };
        let filter = FilterState::of(&layout.filter);
        Ok(Self { file, footer, layout, filter, trusts_unchecked: false, is_comparator_stated: false })
    }

    /// The same table, of a database that has this comparator, for what the table does not say of itself: LevelDB's
    /// tables do not name theirs, and Pebble's, from its version 2 on, do not say what the comparer called
    /// `leveldb.BytewiseComparator` splits keys into. Without this, their probes are [`Probe::Unusable`].
    ///
    /// State `leveldb.BytewiseComparator` for a database that was opened with its engine's own comparator. Stated of a
    /// Pebble database whose comparer has that name and another `Split`, or of a LevelDB database with another order,
    /// it loses keys. [`Manifest::comparator`](crate::Manifest::comparator) reads the name that a database stores; what
    /// a table says itself is not overruled.
    ///
    /// ```
    /// use sstfilter_interop::{Probe, Table};
    ///
    /// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/leveldb/6000-keys.ldb");
    /// let table = Table::open(std::fs::File::open(path)?)?;
    /// assert!(matches!(table.probe(b"00000000!"), Probe::Unusable(_)));
    /// let table = table.with_comparator("leveldb.BytewiseComparator");
    /// assert_eq!(table.probe(b"00000000!"), Probe::Absent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_comparator(mut self, comparator: &str) -> Self {
        self.layout.rules = self.rules_with(comparator);
        self.is_comparator_stated = true;
        self
    }

    fn rules_with(&self, comparator: &str) -> Result<KeyRules, Error> {
        let is_checked = self.checksum_type() != ChecksumType::None;
        let properties = self.layout.properties.as_ref().map_err(Clone::clone)?;
        KeyRules::of_table(self.layout.engine, properties, is_checked, Some(comparator))
    }

    /// The same table, with a filter that is believed although nothing in the file would show damage to it: for
    /// RocksDB's checksum type 0. Without this, the probes of such a table are [`Probe::Unusable`].
    #[must_use]
    pub const fn with_unchecked_filter(mut self) -> Self {
        self.trusts_unchecked = true;
        self
    }

    /// States `leveldb.BytewiseComparator` of a table without its database, if the filter may then contain each of its
    /// stored keys. Reads the whole table, unless the table says enough itself or a comparator has been stated.
    ///
    /// # Errors
    ///
    /// What is wrong with a data block, or with the order of its keys; why the filter cannot be read;
    /// [`Error::Unsupported`] where keys cannot be listed, for another comparator, and for a filter that is negative
    /// for a stored key. Then nothing is stated.
    pub fn take_comparator_from_keys(&mut self) -> Result<(), Error> {
        if self.layout.rules.is_ok() || self.layout.filter.is_err() || self.is_comparator_stated {
            return Ok(());
        }
        let bytewise = self.rules_with(rules::BYTEWISE);
        let unstated = core::mem::replace(&mut self.layout.rules, bytewise);
        let agreed = self.agrees_with_its_keys();
        if agreed.is_err() {
            self.layout.rules = unstated;
        }
        agreed
    }

    fn agrees_with_its_keys(&self) -> Result<(), Error> {
        self.rules()?;
        for key in self.user_keys() {
            match self.probe(&key?) {
                Probe::MaybePresent => {}
                Probe::Absent => {
                    let what = "a comparator that is not the default one, or splits keys,".into();
                    return Err(Error::Unsupported { part: Part::Properties, what });
                }
                // This key has not been checked, although the filter may be readable later.
                Probe::Unusable(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    /// The engine whose format it has.
    pub const fn engine(&self) -> Engine {
        self.layout.engine
    }

    /// The version of the format, as the footer has it. LevelDB has none, and RocksDB had none before its version 2.6:
    /// 0.
    pub const fn format_version(&self) -> u32 {
        self.footer.format_version
    }

    /// How its blocks are checked.
    pub const fn checksum_type(&self) -> ChecksumType {
        self.footer.checksums.kind
    }

    /// What it says of itself. LevelDB's tables say nothing.
    ///
    /// # Errors
    ///
    /// What is wrong with them: then nothing else is known either, and every key may be present.
    pub const fn checked_properties(&self) -> Result<&Properties, &Error> {
        self.layout.properties.as_ref()
    }

    /// What it says of itself, as far as it can be read: damaged properties are empty ones.
    pub fn properties(&self) -> &Properties {
        const NONE: &Properties = &Properties::EMPTY;
        self.layout.properties.as_ref().unwrap_or(NONE)
    }

    /// The names of the blocks in its metaindex.
    pub fn named_blocks(&self) -> impl Iterator<Item = (&[u8], crate::BlockHandle)> {
        self.layout.metaindex.iter().map(|block| (block.name.as_slice(), block.handle))
    }

    /// Whether it has deletions of whole ranges of keys. [`Probe::Absent`] says that it has no entry of a key, and
    /// nothing of these: a reader that skips the table for its filter must still apply them to older tables.
    pub const fn has_range_tombstones(&self) -> bool {
        self.layout.has_range_tombstones
    }

    /// What the filter says of a user key, without sequence number and without timestamp.
    pub fn probe(&self, key: &[u8]) -> Probe {
        self.try_probe(key).unwrap_or_else(Probe::Unusable)
    }

    fn try_probe(&self, key: &[u8]) -> Result<Probe, Error> {
        let rules = self.rules()?;
        let Some(added) = rules.added_of(key)? else { return Ok(Probe::MaybePresent) };
        match self.loaded()? {
            Loaded::Full(filter) => Ok(Probe::of(may_contain(filter, rules, added))),
            Loaded::Partitioned(partitions) => {
                let filter = partitions.filter(&self.file, partitions.partition_of(key))?;
                Ok(Probe::of(may_contain(filter, rules, added)))
            }
            Loaded::PerDataBlock(filters) => {
                let hash = crate::HashFunction::LevelDbBloomHash.hash(added);
                filters.may_contain(key, hash).map(Probe::of)
            }
        }
    }

    /// Whether the filter would have something of `key` if the table had the key. Of a key that its prefix extractor or
    /// comparer makes nothing of, it has nothing: such a key may be present, and its filter has not been probed for it.
    #[must_use]
    pub fn filter_covers(&self, key: &[u8]) -> bool {
        self.layout.rules.as_ref().is_ok_and(|rules| rules.added_of(key) != Ok(None))
    }

    /// Whether the table may have any key that begins with `prefix`, for a filter of prefixes.
    ///
    /// `prefix` should be what the table's extractor makes of a key, or longer. Of a shorter one the filter knows
    /// nothing.
    pub fn probe_prefix(&self, prefix: &[u8]) -> Probe {
        self.try_probe_prefix(prefix).unwrap_or_else(Probe::Unusable)
    }

    fn try_probe_prefix(&self, prefix: &[u8]) -> Result<Probe, Error> {
        let rules = self.rules()?;
        let Some(added) = rules.added_of_all(prefix)? else { return Ok(Probe::MaybePresent) };
        match self.loaded()? {
            Loaded::Full(filter) => Ok(Probe::of(may_contain(filter, rules, added))),
            Loaded::Partitioned(partitions) => {
                for partition in partitions.partitions_of_prefix(prefix) {
                    if may_contain(partitions.filter(&self.file, partition)?, rules, added) {
                        return Ok(Probe::MaybePresent);
                    }
                }
                Ok(Probe::Absent)
            }
            Loaded::PerDataBlock(_) => Ok(Probe::MaybePresent),
        }
    }

    /// Brings the whole filter into memory, checked. Probes then read nothing.
    ///
    /// # Errors
    ///
    /// What is wrong with the filter, or with its first part that something is wrong with.
    pub fn load_filter(&self) -> Result<(), Error> {
        self.rules()?;
        if let Loaded::Partitioned(partitions) = self.loaded()? {
            for partition in 0..partitions.handles().len() {
                partitions.filter(&self.file, partition)?;
            }
        }
        Ok(())
    }

    fn rules(&self) -> Result<&KeyRules, Error> {
        // A table without filter is one whatever else is not known of it.
        if let Err(Error::NoFilter) = self.layout.filter {
            return Err(Error::NoFilter);
        }
        if self.checksum_type() == ChecksumType::None && !self.trusts_unchecked {
            return Err(Error::Unsupported { part: Part::Filter, what: "a filter without a checksum".into() });
        }
        self.layout.rules.as_ref().map_err(Clone::clone)
    }

    fn loaded(&self) -> Result<Loaded<'_>, Error> {
        let place = self.layout.filter.as_ref().map_err(Clone::clone)?;
        // An index in an order that is not known looks damaged. The comparator is the reason, and needs no read.
        if self.engine() == Engine::LevelDb && self.is_comparator_stated {
            self.layout.rules.as_ref().map_err(Clone::clone)?;
        }
        match (&self.filter, *place) {
            (FilterState::Full(filter), FilterLocation::Full(handle, full)) => {
                filter.get_or_load(|| full.read(&self.file, handle)).map(Loaded::Full)
            }
            (FilterState::Partitioned(partitions), FilterLocation::Partitioned(handle, separators)) => {
                partitions.get_or_load(|| Partitions::read(&self.file, handle, separators)).map(Loaded::Partitioned)
            }
            (FilterState::PerDataBlock(filters), FilterLocation::PerDataBlock(handle, index)) => {
                filters.get_or_load(|| DataBlockFilters::read(&self.file, handle, index)).map(Loaded::PerDataBlock)
            }
            _ => Err(Error::NoFilter),
        }
    }
}

/// A filter without bits says "absent" only in a table without entries: a filter that was cut looks the same.
fn may_contain(filter: &Filter<Vec<u8>>, rules: &KeyRules, added: &[u8]) -> bool {
    if filter.kind() == crate::FilterKind::NoKeys {
        return !rules.no_entries;
    }
    filter.may_contain(added)
}
