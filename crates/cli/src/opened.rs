//! Opens any file that the program can read, by the format that its bytes identify.

use core::ops::ControlFlow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter::{FilterBlock, KeyHasher};
use sstfilter_interop::{Engine, Error, Manifest, ManifestFile};
use sstfilter_store::FilterPart;
use sstfilter_table::{FileSystem, LocalFileSystem, Table};

pub(crate) use crate::file::blocks::Sidecar;
use crate::file::open::whole;
use crate::files::{self, Look, TableReading};
use crate::input::{self, RegularFile};
use crate::output::Outcome;
use crate::partitions::Container;
use crate::parts::NO_WHOLE_KEYS;
use crate::progress::ReadProgress;
use crate::ranges::{self, RangeBlock, RangePrefix};

/// A file whose frame is sound; its contents may be damaged.
pub(crate) enum Opened {
    /// A table of this library.
    Table(Box<Table>),
    /// A filter block without a table. Its payload has not been verified.
    FilterBlock(Box<FilterBlock<Bytes>>),
    /// A range filter's block without a table. Its payload has not been verified.
    RangeFilter(Box<RangeBlock>),
    /// A partitioned filter without a table. Its top index has been verified, its partitions have not.
    Partitions(Box<Container>),
    /// A table of RocksDB, LevelDB or Pebble.
    Foreign(Box<ForeignTable>),
}

/// A table of another engine, in a file or in memory.
pub(crate) type ForeignTable = sstfilter_interop::ForeignTable<Box<dyn RandomAccess>>;

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    /// `No` for damage; `Failed` if the file could not be read, so that nothing is known about its bytes.
    pub(crate) outcome: Outcome,
    pub(crate) reason: anyhow::Error,
}

impl From<anyhow::Error> for Unopened {
    fn from(reason: anyhow::Error) -> Self {
        Self { outcome: outcome_of(&reason), reason }
    }
}

impl Opened {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path, reading: Reading<'_>) -> Result<Self, Unopened> {
        let look = look_at(path).map_err(|reason| Unopened { outcome: Outcome::Failed, reason })?;
        Self::open_as(look, path, reading).map_err(Unopened::from)
    }

    /// Opens the file at `path` for probing: takes the comparator of another engine's table from its keys if nothing
    /// names it.
    pub(crate) fn open_to_probe(path: &Path, reading: Reading<'_>) -> Result<Self, Unopened> {
        let mut opened = Self::open(path, reading)?;
        if let Self::Foreign(table) = &mut opened {
            let taken = comparator_from_keys(table).with_context(|| input::name(path).into_owned());
            taken.map_err(Unopened::from)?;
        }
        Ok(opened)
    }

    fn open_as(look: Look, path: &Path, reading: Reading<'_>) -> anyhow::Result<Self> {
        match look {
            Look::Table => Ok(Self::Table(Box::new(files::open_table(path, reading.of_tables())?))),
            Look::FilterBlock => {
                let block = FilterBlock::open_unverified(whole(path)?);
                Ok(Self::FilterBlock(Box::new(block.with_context(|| input::name(path).into_owned())?)))
            }
            Look::RangeFilter => Ok(Self::RangeFilter(Box::new(ranges::read_named(path)?))),
            Look::Partitions => {
                let container = container(path).with_context(|| input::name(path).into_owned());
                Ok(Self::Partitions(Box::new(container?)))
            }
            Look::Sidecar => filter_of_sidecar(path),
            Look::Foreign(_) => {
                let table = foreign(path, reading).with_context(|| input::name(path).into_owned());
                Ok(Self::Foreign(Box::new(table?.0)))
            }
            Look::Map => Err(files::is_a_map(path)),
            Look::Layers | Look::Neither => bail!("{}: {}", input::name(path), files::neither(path)),
        }
    }
}

/// Opens the point filter of the sidecar at `path`, whole or partitioned; if it has none, its range filter.
fn filter_of_sidecar(path: &Path) -> anyhow::Result<Opened> {
    let context = || input::name(path).into_owned();
    let sidecar = Sidecar::new(whole(path)?).with_context(context)?;
    let (container, points) = (sidecar.container().with_context(context)?, sidecar.filter(FilterPart::Points));
    if container.is_none()
        && points.is_none()
        && let Some(filter) = sidecar.filter(FilterPart::Ranges)
    {
        return Ok(Opened::RangeFilter(Box::new(RangeBlock::new(filter).with_context(context)?)));
    }
    let has_whole_keys = sidecar.metadata.has_whole_keys();
    ensure!(has_whole_keys, "{}: {NO_WHOLE_KEYS}", context());
    if let Some(container) = container {
        return Ok(Opened::Partitions(Box::new(container)));
    }
    let block = FilterBlock::open_unverified(points.unwrap_or_default()).with_context(context)?;
    Ok(Opened::FilterBlock(Box::new(block)))
}

/// Opens the partitioned filter at `path`, without a table.
pub(crate) fn container(path: &Path) -> anyhow::Result<Container> {
    Container::open(whole(path)?)?.context("the end of a partitioned filter is cut short")
}

/// What is known about tables before they are read, from the command line and from their databases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) secret: Option<&'a KeyHasher>,
    /// The database's comparator, for tables that do not describe it fully.
    pub(crate) comparator: Option<&'a str>,
    /// Prefix of the range filters to be probed.
    pub(crate) range_prefix: Option<RangePrefix>,
    pub(crate) manifests: &'a Manifests,
    /// Whether filters without a checksum are used.
    pub(crate) unchecked_filters: bool,
    /// Advanced by each read of a table.
    pub(crate) progress: Option<&'a ReadProgress>,
}

impl<'a> Reading<'a> {
    pub(crate) fn context(self) -> crate::file::open::Context {
        crate::file::open::Context {
            secret: self.secret.cloned(),
            comparator: self.comparator.map(str::to_owned),
            range_prefix: self.range_prefix,
            unchecked_filters: self.unchecked_filters,
            progress: self.progress.cloned(),
            options: String::new(),
        }
    }

    /// Returns the part that applies to tables of this library.
    pub(crate) fn of_tables(self) -> TableReading<'a> {
        TableReading { secret: self.secret, range_prefix: self.range_prefix, progress: self.progress }
    }
}

/// The manifests of databases, each read once for all tables of its database.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    by_directory: Mutex<HashMap<PathBuf, Option<Arc<Manifest>>>>,
}

impl Manifests {
    /// Returns the manifest of the database that the table at `path` belongs to, if it can be read. Other threads wait
    /// for the read, because they need the same manifest.
    pub(crate) fn beside(&self, path: &Path) -> Option<Arc<Manifest>> {
        // The parent of `-` would be the current directory, which standard input does not come from.
        let directory = path.parent().filter(|_| !input::is_standard(path))?;
        let mut read = self.by_directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manifest) = read.get(directory) {
            return manifest.clone();
        }
        let manifest = manifest_in(directory).map(Arc::new);
        // A missing manifest is remembered as well: the directory may have ten thousand tables.
        read.insert(directory.to_owned(), manifest.clone());
        manifest
    }
}

impl Manifests {
    /// Returns the entry of the table at `path` in its database's manifest.
    pub(crate) fn file(&self, path: &Path) -> Option<ManifestFile> {
        self.beside(path)?.file(path.file_stem()?.to_str()?.parse().ok()?).cloned()
    }

    /// Returns the level of the table at `path` by its database's manifest.
    pub(crate) fn level(&self, path: &Path) -> Option<u32> {
        self.file(path).map(|file| file.level)
    }
}

/// A comparator that a table does not name itself.
#[derive(Clone, Debug)]
pub(crate) struct TakenComparator {
    pub(crate) name: String,
    pub(crate) from: Origin,
}

/// The source of a table's comparator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Option,
    Manifest,
    Keys,
}

impl Origin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Option => "--comparator",
            Self::Manifest => "its database's manifest",
            Self::Keys => "its keys, which agree with it",
        }
    }
}

/// Opens a table of another engine. If the table does not name its comparator, it comes from the command line or from
/// its database's manifest; without either, the filter cannot be used.
pub(crate) fn foreign(path: &Path, reading: Reading<'_>) -> anyhow::Result<(ForeignTable, Option<TakenComparator>)> {
    let source = source(path)?;
    let table = ForeignTable::open(match reading.progress {
        Some(progress) => progress.watch(source),
        None => source,
    })?;
    let table = if reading.unchecked_filters { table.with_unchecked_filter() } else { table };
    Ok(match stated_comparator(path, table.engine(), reading) {
        Some(taken) => (table.with_comparator(&taken.name), Some(taken)),
        None => (table, None),
    })
}

fn stated_comparator(path: &Path, engine: Engine, reading: Reading<'_>) -> Option<TakenComparator> {
    // First, because the user may know better than a manifest.
    if let Some(name) = reading.comparator {
        return Some(TakenComparator { name: name.to_owned(), from: Origin::Option });
    }
    // Tables of the other engines name their comparator.
    if engine != Engine::LevelDb {
        return None;
    }
    let manifest = reading.manifests.beside(path)?;
    Some(TakenComparator { name: manifest.comparator()?.to_owned(), from: Origin::Manifest })
}

/// Opens a table of another engine for probing. If nothing names its comparator or its filter policy is not known, all
/// keys are read, which may confirm them.
pub(crate) fn foreign_to_probe(
    path: &Path,
    reading: Reading<'_>,
) -> anyhow::Result<(ForeignTable, Option<TakenComparator>)> {
    let (mut table, stated) = foreign(path, reading)?;
    // Also with a stated comparator: a filter of an unknown policy has to be positive for all keys.
    let from_keys = comparator_from_keys(&mut table)?;
    Ok((table, stated.or(from_keys)))
}

/// Infers a table's comparator from its keys. Fails only if the table cannot be read.
fn comparator_from_keys(table: &mut ForeignTable) -> Result<Option<TakenComparator>, Error> {
    match table.confirm_by_keys() {
        // Bytes that could not be read must not pass for a table that only needs a comparator.
        Err(unread @ Error::Io { .. }) => Err(unread),
        Ok(()) if table.engine() == Engine::LevelDb && table.load_filter().is_ok() => {
            Ok(Some(TakenComparator { name: "leveldb.BytewiseComparator".to_owned(), from: Origin::Keys }))
        }
        // The probe that follows reports other errors with more detail.
        Ok(()) | Err(_) => Ok(None),
    }
}

fn manifest_in(directory: &Path) -> Option<Manifest> {
    let current = directory.join("CURRENT");
    // A regular file of a few bytes: a pipe would block, and a huge file would fill memory.
    let current = RegularFile::open(&current).ok().filter(|file| file.length <= MAX_CURRENT_BYTES)?;
    let current = current.end(MAX_CURRENT_BYTES).ok()?;
    let name = core::str::from_utf8(&current).ok()?.trim_end_matches('\n');
    // CURRENT may be damaged or hostile: its contents must not lead out of the directory.
    if !name.starts_with("MANIFEST-") || name.contains(['/', '\\']) {
        return None;
    }
    let manifest = directory.join(name);
    Manifest::parse(&RegularFile::open(&manifest).ok()?.up_to_hole().ok()?).ok()
}

/// Limit on the file CURRENT, which contains `MANIFEST-`, a number and a line feed.
const MAX_CURRENT_BYTES: u64 = 64;

/// Opens the bytes of a table, which are read on demand.
fn source(path: &Path) -> anyhow::Result<Box<dyn RandomAccess>> {
    if input::is_standard(path) {
        return Ok(Box::new(whole(path)?));
    }
    LocalFileSystem.open(path).with_context(|| format!("cannot read {}", input::name(path)))
}

/// Recognizes the file by its last bytes. Fails for a pipe or a device, which has no end to look at.
fn look_at(path: &Path) -> anyhow::Result<Look> {
    let look = files::look_at(path)?;
    let has_end = look != Look::Neither || input::length(path).is_some() || input::is_standard(path);
    ensure!(has_end, "{}: expected a file, got a pipe or a device", input::name(path));
    Ok(look)
}

/// Distinguishes a failure to read from bytes that are not a table.
pub(crate) fn outcome_of(reason: &anyhow::Error) -> Outcome {
    // First, because these errors themselves distinguish damage from what is only not supported.
    let of_foreign = reason.downcast_ref().map(outcome_of_foreign);
    let is_unread = reason.chain().any(<dyn core::error::Error>::is::<std::io::Error>);
    of_foreign.unwrap_or(if is_unread { Outcome::Failed } else { Outcome::No })
}

/// Returns what an error of another engine's table means for its file: no damage if the file is only not understood.
pub(crate) fn outcome_of_foreign(error: &Error) -> Outcome {
    match error {
        Error::Io { .. } => Outcome::Failed,
        Error::NoFilter | Error::Unsupported { .. } => Outcome::Yes,
        _ => Outcome::No,
    }
}

/// Calls `visit` with each key of the table at `path`, ascending, until it breaks. The table may be of any engine.
///
/// Fails on a bare filter block, which has no keys, and at the first damage.
pub(crate) fn for_each_key(
    path: &Path,
    reading: Reading<'_>,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    match Opened::open(path, reading).map_err(|unopened| unopened.reason)? {
        Opened::Table(table) => {
            for entry in table.iter() {
                if visit(&entry?.key).is_break() {
                    break;
                }
            }
            Ok(())
        }
        Opened::Foreign(table) => {
            for key in table.user_keys() {
                if visit(&key.with_context(|| input::name(path).into_owned())?).is_break() {
                    break;
                }
            }
            Ok(())
        }
        Opened::FilterBlock(_) | Opened::RangeFilter(_) | Opened::Partitions(_) => {
            bail!("{} is a filter block, which has no keys to list: pass a table", input::name(path))
        }
    }
}

#[cfg(test)]
mod tests {
    //! The failures guarded against: a manifest of megabytes that is read for each of ten thousand tables, and a table
    //! of gigabytes whose keys are all read although its filter is not probed.

    use sstfilter::Probe;

    use std::fs;

    use super::*;

    const LONE_TABLE: &str = "../interop/fixtures/leveldb/6000-keys.ldb";
    const ABSENT: &[u8] = b"00000000!";

    fn probed(opened: &Opened) -> Probe {
        let Opened::Foreign(table) = opened else { panic!("not a table of LevelDB") };
        table.probe(ABSENT)
    }

    #[test]
    fn the_keys_of_a_table_are_read_for_its_comparator_only_if_its_filter_is_probed() {
        let manifests = Manifests::default();
        let reading = Reading {
            secret: None,
            comparator: None,
            range_prefix: None,
            manifests: &manifests,
            unchecked_filters: false,
            progress: None,
        };
        let path = Path::new(LONE_TABLE);
        assert!(matches!(probed(&Opened::open(path, reading).unwrap()), Probe::Unusable));
        assert_eq!(probed(&Opened::open_to_probe(path, reading).unwrap()), Probe::Absent);
    }

    #[test]
    fn a_manifest_is_read_once_for_all_tables_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let table = |name: &str| directory.path().join(name);
        fs::write(table("CURRENT"), "MANIFEST-000002\n").unwrap();
        // One record: the comparator `idb_cmp1`.
        let record = b"\xf6\xd0\x17\xc7\x0a\x00\x01\x01\x08\x69\x64\x62\x5f\x63\x6d\x70\x31";
        fs::write(table("MANIFEST-000002"), record).unwrap();
        let manifests = Manifests::default();
        let first = manifests.beside(&table("000007.ldb")).unwrap();
        assert_eq!(first.comparator(), Some("idb_cmp1"));
        fs::remove_file(table("MANIFEST-000002")).unwrap();
        assert!(Arc::ptr_eq(&first, &manifests.beside(&table("000008.ldb")).unwrap()));
        assert!(Manifests::default().beside(&table("000007.ldb")).is_none());
    }
}
