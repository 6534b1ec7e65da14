//! Tables: opened in constant time, probed by user key.

mod batch;
mod bounds;
mod file;
mod identity;
mod info;
mod keys;
mod layout;
mod leveldb;
mod once;
mod partitions;
mod pebble;
mod rocksdb;
mod rules;
mod verify;

pub use batch::{BatchAnswers, KeyBatch};
pub use bounds::TableBounds;
pub use info::{FilterInfo, FilterUnit, KeyCoverage, UnitBytes};
pub use keys::UserKeys;
pub use verify::{BlockReport, BlockState, Coverage, ForeignReport};

use sstfilter::{Probe, RandomAccess};

use crate::compression::Numbering;
use crate::error::{Error, Part};
use crate::filter::Filter;
use crate::format::checksum::ChecksumType;
use crate::format::footer::{Engine, Footer, MAX_FOOTER_BYTES};
use crate::format::properties::Properties;
use crate::hash::HashFunction;
use file::{TableFile, io_error, zeros};
use layout::{FilterLocation, Layout};
use leveldb::DataBlockFilters;
use once::LoadOnce;
use partitions::Partitions;
use rules::KeyRules;

/// The answer of a filter that may contain the key.
fn answer(may_contain: bool) -> Probe {
    if may_contain { Probe::MaybePresent } else { Probe::Absent }
}

/// A table of RocksDB, LevelDB or Pebble.
///
/// Opening reads the footer, the metaindex and the properties. The first probe reads a full filter and keeps it. Of a
/// partitioned filter, the first probe reads the index, and each partition is read when a key first falls into it.
/// Checksums are compared before bytes are interpreted. Threads share a table by reference.
///
/// ```no_run
/// use sstfilter::Probe;
/// use sstfilter_interop::ForeignTable;
///
/// let table = ForeignTable::open(std::fs::File::open("/db/000123.sst")?)?;
/// match table.probe(b"key") {
///     Probe::Absent => println!("nothing to read"),
///     Probe::Unusable => println!("to be searched: {:?}", table.try_probe(b"key")),
///     _ => println!("to be searched"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ForeignTable<R> {
    file: TableFile<R>,
    footer: Footer,
    layout: Layout,
    filter: LoadOnce<Loaded>,
    trusts_unchecked: bool,
    /// Whether the caller has stated the database's comparator, known to this crate or not.
    is_comparator_stated: bool,
}

/// A filter that has been read as far as a probe needs it.
#[derive(Debug)]
enum Loaded {
    Full(Filter<Vec<u8>>),
    Partitioned(Partitions),
    PerDataBlock(DataBlockFilters),
}

impl Loaded {
    fn read<R: RandomAccess>(file: &TableFile<R>, place: FilterLocation) -> Result<Self, Error> {
        Ok(match place {
            FilterLocation::Full(handle, full) => Self::Full(full.read(file, handle)?),
            FilterLocation::Partitioned(handle, separators) => {
                Self::Partitioned(Partitions::read(file, handle, separators)?)
            }
            FilterLocation::PerDataBlock(handle, index, tail) => {
                Self::PerDataBlock(DataBlockFilters::read(file, handle, index, tail)?)
            }
        })
    }
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Opens a table with one read each of the footer, the metaindex and the properties, if it has any.
    ///
    /// # Errors
    ///
    /// [`Error::NotATable`], and errors of the footer or the metaindex. A table with damaged or unknown properties or
    /// filter does open; its probes return the reason.
    pub fn open(reader: R) -> Result<Self, Error> {
        let bytes = reader.len().map_err(|error| io_error(Part::Footer, &error))?;
        // One read of the longest footer costs less than a second read after the engine is known.
        let tail_bytes = bytes.min(MAX_FOOTER_BYTES as u64);
        let mut tail = zeros(tail_bytes, Part::Footer)?;
        reader.read_exact_at(&mut tail, bytes - tail_bytes).map_err(|error| io_error(Part::Footer, &error))?;
        let footer = Footer::parse(&tail, bytes)?;
        let of_rocksdb = Numbering::RocksDb { format_version: footer.format_version };
        let numbering = match footer.engine {
            Engine::LevelDb => Numbering::LevelDb,
            Engine::Pebble => Numbering::Pebble,
            Engine::RocksDb => of_rocksdb,
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
                // RocksDB before version 2.6 has LevelDB's footer, but its own codec numbers.
                file.numbering = of_rocksdb;
                rocksdb::layout(&file, &footer, metaindex)
            }
        };
        let filter = LoadOnce::default();
        Ok(Self { file, footer, layout, filter, trusts_unchecked: false, is_comparator_stated: false })
    }

    /// States the comparator of the table's database. LevelDB's tables do not name theirs. Pebble's tables, from
    /// version 2 on, do not store how the comparer named `leveldb.BytewiseComparator` splits keys. Until the comparator
    /// is stated, their probes return [`Probe::Unusable`].
    ///
    /// State `leveldb.BytewiseComparator` for a database that uses its engine's default comparator. If it is stated for
    /// a Pebble database whose comparer has that name but another `Split`, or for a LevelDB database with another
    /// order, probes lose keys. [`Manifest::comparator`](crate::Manifest::comparator) reads the name that a database
    /// stores. A name that the table stores itself takes precedence.
    ///
    /// ```
    /// use sstfilter::Probe;
    /// use sstfilter_interop::ForeignTable;
    ///
    /// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/leveldb/6000-keys.ldb");
    /// let table = ForeignTable::open(std::fs::File::open(path)?)?;
    /// assert_eq!(table.probe(b"00000000!"), Probe::Unusable);
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

    /// Trusts a filter without a checksum (RocksDB's checksum type 0), whose damage nothing in the file would show. By
    /// default, probes of such a table return [`Probe::Unusable`].
    #[must_use]
    pub const fn with_unchecked_filter(mut self) -> Self {
        self.trusts_unchecked = true;
        self
    }

    /// Uses a filter about which the table does not say enough, if it is positive for each of the stored keys: takes
    /// `leveldb.BytewiseComparator` for the comparator unless one is recorded or stated, and the bytes of a filter for
    /// what they look like if its policy is not known by its name. Reads the whole table unless all of this is known.
    ///
    /// # Errors
    ///
    /// Errors of data blocks, of the order of their keys, and of the filter. [`Error::Unsupported`] if keys cannot be
    /// listed, for another comparator, and for a filter that is negative for a stored key. After an error, nothing has
    /// changed.
    pub fn confirm_by_keys(&mut self) -> Result<(), Error> {
        let needs_comparator = self.layout.rules.is_err() && !self.is_comparator_stated;
        let needs_policy = self.layout.unconfirmed.is_some();
        if !needs_policy && (!needs_comparator || self.layout.filter.is_err()) {
            return Ok(());
        }
        // Taken before the check, because `probe` needs them; taken back if a key disagrees.
        let (rules, filter) = (self.layout.rules.clone(), self.layout.filter.clone());
        if needs_comparator {
            self.layout.rules = self.rules_with(rules::BYTEWISE);
        }
        if let Some(place) = self.layout.unconfirmed.take() {
            self.set_filter(Ok(place));
        }
        let agreed = self.agrees_with_its_keys();
        if agreed.is_err() {
            self.layout.unconfirmed = self.layout.filter.as_ref().ok().copied().filter(|_| needs_policy);
            self.layout.rules = rules;
            self.set_filter(filter);
        }
        agreed
    }

    fn set_filter(&mut self, place: Result<FilterLocation, Error>) {
        self.filter = LoadOnce::default();
        self.layout.filter = place;
    }

    fn agrees_with_its_keys(&self) -> Result<(), Error> {
        let has_prefixes = self.rules()?.prefixes.is_some();
        for key in self.user_keys() {
            let key = key?;
            // An error even if it is a passing one: this key has not been checked.
            if !self.try_probe(&key)? || (has_prefixes && !self.try_probe_prefix(&key)?) {
                let what = "a comparator or filter policy that is not the engine's own, or splits keys,";
                return Err(Error::unsupported(Part::Properties, what));
            }
        }
        Ok(())
    }

    /// Returns the engine whose format the table has.
    pub const fn engine(&self) -> Engine {
        self.layout.engine
    }

    /// Returns the format version in the footer, or 0 for LevelDB and for RocksDB before version 2.6, which store none.
    pub const fn format_version(&self) -> u32 {
        self.footer.format_version
    }

    /// Returns the checksum type of the blocks.
    pub const fn checksum_type(&self) -> ChecksumType {
        self.footer.checksums.kind
    }

    /// Returns the properties, or their error. LevelDB's tables have no properties.
    ///
    /// # Errors
    ///
    /// The error of the properties block. The filter is then unusable.
    pub const fn checked_properties(&self) -> Result<&Properties, &Error> {
        self.layout.properties.as_ref()
    }

    /// Returns the properties; damaged ones are empty.
    pub fn properties(&self) -> &Properties {
        const NONE: &Properties = &Properties::EMPTY;
        self.layout.properties.as_ref().unwrap_or(NONE)
    }

    /// Returns the names and handles of the blocks in the metaindex.
    pub fn named_blocks(&self) -> impl Iterator<Item = (&[u8], crate::BlockHandle)> {
        self.layout.metaindex.iter().map(|block| (block.name.as_slice(), block.handle))
    }

    /// Returns whether the table deletes ranges of keys. [`Probe::Absent`] does not cover range tombstones: a reader
    /// that skips the table must still apply them to older tables.
    pub const fn has_range_tombstones(&self) -> bool {
        self.layout.has_range_tombstones
    }

    /// Probes the filter for a user key, without sequence number and without timestamp.
    pub fn probe(&self, key: &[u8]) -> Probe {
        self.try_probe(key).map_or(Probe::Unusable, answer)
    }

    /// Probes the filter for a user key: true means [`Probe::MaybePresent`], and false [`Probe::Absent`].
    ///
    /// # Errors
    ///
    /// Why the filter cannot answer. The table may then have an entry of the key.
    pub fn try_probe(&self, key: &[u8]) -> Result<bool, Error> {
        let rules = self.rules()?;
        let Some(added) = rules.added_of(key)? else { return Ok(true) };
        match self.loaded()? {
            Loaded::Full(filter) => Ok(may_contain(filter, rules, added)),
            Loaded::Partitioned(partitions) => {
                let filter = partitions.filter(&self.file, partitions.partition_of(key))?;
                Ok(may_contain(filter, rules, added))
            }
            Loaded::PerDataBlock(filters) => filters.may_contain(key, HashFunction::LevelDbBloomHash.hash(added)),
        }
    }

    /// Returns whether the filter can answer for `key`. If the prefix extractor or comparer finds no prefix in a key,
    /// the engine adds nothing for it, and [`ForeignTable::probe`] returns [`Probe::MaybePresent`] without a look at
    /// the filter.
    #[must_use]
    pub fn filter_covers(&self, key: &[u8]) -> bool {
        self.layout.rules.as_ref().is_ok_and(|rules| rules.added_of(key) != Ok(None))
    }

    /// Probes a filter of prefixes for any key that begins with `prefix`.
    ///
    /// Pass the table's extractor's prefix of a key, or a longer one. A shorter one may always be present.
    pub fn probe_prefix(&self, prefix: &[u8]) -> Probe {
        self.try_probe_prefix(prefix).map_or(Probe::Unusable, answer)
    }

    fn try_probe_prefix(&self, prefix: &[u8]) -> Result<bool, Error> {
        let rules = self.rules()?;
        let Some(added) = rules.added_of_all(prefix)? else { return Ok(true) };
        match self.loaded()? {
            Loaded::Full(filter) => Ok(may_contain(filter, rules, added)),
            Loaded::Partitioned(partitions) => {
                for partition in partitions.partitions_of_prefix(prefix) {
                    if may_contain(partitions.filter(&self.file, partition)?, rules, added) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Loaded::PerDataBlock(_) => Ok(true),
        }
    }

    /// Reads and checks the whole filter. Later probes read nothing.
    ///
    /// # Errors
    ///
    /// The error of the filter, or of its first unusable part.
    pub fn load_filter(&self) -> Result<(), Error> {
        self.rules()?;
        match self.loaded()? {
            Loaded::Partitioned(partitions) => partitions.filters(&self.file).try_for_each(|filter| filter.map(drop)),
            _ => Ok(()),
        }
    }

    fn rules(&self) -> Result<&KeyRules, Error> {
        // First, because "no filter" is the clearest reason, even if other parts are unknown.
        if let Err(Error::NoFilter) = self.layout.filter {
            return Err(Error::NoFilter);
        }
        if self.checksum_type() == ChecksumType::None && !self.trusts_unchecked {
            return Err(Error::unsupported(Part::Filter, "a filter without a checksum"));
        }
        self.layout.rules.as_ref().map_err(Clone::clone)
    }

    fn loaded(&self) -> Result<&Loaded, Error> {
        let place = self.layout.filter.clone()?;
        // An index in an unknown order looks damaged. The stated comparator is the true reason, and needs no read.
        if self.engine() == Engine::LevelDb && self.is_comparator_stated {
            self.layout.rules.as_ref().map_err(Clone::clone)?;
        }
        self.filter.get_or_load(|| Loaded::read(&self.file, place))
    }
}

/// Probes a filter. A filter without bits is negative only in a table without entries, because a truncated filter looks
/// identical.
fn may_contain(filter: &Filter<Vec<u8>>, rules: &KeyRules, added: &[u8]) -> bool {
    if filter.kind() == crate::FilterKind::NoKeys {
        return !rules.no_entries;
    }
    filter.may_contain(added)
}
