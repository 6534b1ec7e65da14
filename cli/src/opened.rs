//! Any file that the program can read, opened by what its bytes say it is.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use sstfilter::sst::{FileSystem, LocalFileSystem, RandomAccess, Table};
use sstfilter::{FilterBlock, KeyHasher};
use sstfilter_interop::{Engine, Error, Manifest};

use crate::files::{self, Look};
use crate::input;
use crate::output::Outcome;

/// A file of which at least the frame is sound.
pub(crate) enum Opened {
    /// A table of this library.
    Table(Box<Table>),
    /// A filter block without a table. Its payload has not been verified.
    FilterBlock(Box<FilterBlock<Bytes>>),
    /// A table of RocksDB, LevelDB or Pebble.
    Foreign(Box<ForeignTable>),
}

/// A table of another engine, in a file or in memory.
pub(crate) type ForeignTable = sstfilter_interop::Table<Box<dyn RandomAccess>>;

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) struct Unopened {
    /// Damage, or a failure to read, which tells nothing about the bytes.
    pub(crate) outcome: Outcome,
    pub(crate) reason: anyhow::Error,
}

impl Opened {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path, reading: Reading<'_>) -> Result<Self, Unopened> {
        let look = look_at(path).map_err(|reason| Unopened { outcome: Outcome::Failed, reason })?;
        Self::open_as(look, path, reading).map_err(|reason| Unopened { outcome: outcome_of(&reason), reason })
    }

    fn open_as(look: Look, path: &Path, reading: Reading<'_>) -> anyhow::Result<Self> {
        match look {
            Look::Table => Ok(Self::Table(Box::new(files::open_table(path, reading.secret)?))),
            Look::FilterBlock => {
                let block = FilterBlock::open_unverified(input::whole(path)?);
                Ok(Self::FilterBlock(Box::new(block.with_context(|| input::name(path).into_owned())?)))
            }
            Look::Foreign(_) => {
                let table = foreign(path, reading).with_context(|| input::name(path).into_owned());
                Ok(Self::Foreign(Box::new(table?)))
            }
            Look::Neither => bail!("{}: {}", input::name(path), files::neither(path)),
        }
    }
}

/// What the options of the command line say about reading tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading<'a> {
    pub(crate) secret: Option<&'a KeyHasher>,
    /// Of the database, for tables that do not say enough of theirs.
    pub(crate) comparator: Option<&'a str>,
}

/// A comparator that a table does not name itself.
#[derive(Clone, Debug)]
pub(crate) struct TakenComparator {
    pub(crate) name: String,
    pub(crate) from: Origin,
}

/// Where the comparator of a table is taken from.
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

/// A table of another engine, opened as [`foreign_with_comparator`] does.
pub(crate) fn foreign(path: &Path, reading: Reading<'_>) -> anyhow::Result<ForeignTable> {
    foreign_with_comparator(path, reading).map(|(table, _)| table)
}

/// A table of another engine. What it does not say of itself is taken from the command line, or from its database's
/// manifest, or else from its keys, all of which are read then. What none of them says is the reason why its filter
/// cannot be used.
pub(crate) fn foreign_with_comparator(
    path: &Path,
    reading: Reading<'_>,
) -> anyhow::Result<(ForeignTable, Option<TakenComparator>)> {
    let mut table = ForeignTable::open(source(path)?)?;
    if let Some(name) = reading.comparator {
        let taken = TakenComparator { name: name.to_owned(), from: Origin::Option };
        return Ok((table.with_comparator(name), Some(taken)));
    }
    if table.engine() == Engine::LevelDb
        && let Some(name) = manifest_beside(path).as_ref().and_then(Manifest::comparator)
    {
        let taken = TakenComparator { name: name.to_owned(), from: Origin::Manifest };
        return Ok((table.with_comparator(name), Some(taken)));
    }
    // Its error says less than a probe does.
    let agrees = table.take_comparator_from_keys().is_ok();
    let is_taken = agrees && table.engine() == Engine::LevelDb && table.load_filter().is_ok();
    let taken = TakenComparator { name: "leveldb.BytewiseComparator".to_owned(), from: Origin::Keys };
    Ok((table, is_taken.then_some(taken)))
}

/// The manifest of the database that a table lies in, if it has one that can be read.
pub(crate) fn manifest_beside(path: &Path) -> Option<Manifest> {
    let current = path.with_file_name("CURRENT");
    let name = fs::read_to_string(current).ok().filter(|name| name.len() <= MAX_CURRENT_BYTES)?;
    let name = name.trim_end_matches('\n');
    if !name.starts_with("MANIFEST-") || name.contains(['/', '\\']) {
        return None;
    }
    Manifest::parse(&fs::read(path.with_file_name(name)).ok()?).ok()
}

/// The file CURRENT holds `MANIFEST-`, a number and a line feed.
const MAX_CURRENT_BYTES: usize = 64;

/// The bytes of a table, read when they are needed.
fn source(path: &Path) -> anyhow::Result<Box<dyn RandomAccess>> {
    if input::is_standard(path) {
        return Ok(Box::new(input::whole(path)?));
    }
    LocalFileSystem.open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What the file is by its last bytes, if it has any: a pipe or a device has no end to look at.
fn look_at(path: &Path) -> anyhow::Result<Look> {
    let look = files::look_at(path)?;
    let has_end = look != Look::Neither || input::length(path).is_some() || input::is_standard(path);
    ensure!(has_end, "{}: expected a file, got a pipe or a device", path.display());
    Ok(look)
}

/// Tells a failure to read from bytes that are no table.
pub(crate) fn outcome_of(reason: &anyhow::Error) -> Outcome {
    let of_foreign = reason.downcast_ref().map(outcome_of_foreign);
    let is_unread = reason.chain().any(<dyn core::error::Error>::is::<std::io::Error>);
    of_foreign.unwrap_or(if is_unread { Outcome::Failed } else { Outcome::No })
}

/// What an error of another engine's table says of its file: nothing, if the file is merely not understood.
pub(crate) fn outcome_of_foreign(error: &Error) -> Outcome {
    match error {
        Error::Io { .. } => Outcome::Failed,
        Error::NoFilter | Error::Unsupported { .. } => Outcome::Yes,
        _ => Outcome::No,
    }
}

/// Calls `visit` with each key of the table at `path`, ascending: one of this library or of another engine.
///
/// Fails on a bare filter block, which has no keys, and on the first damage.
#[allow(dead_code, reason = "for commands that take keys from tables")]
pub(crate) fn for_each_key(path: &Path, reading: Reading<'_>, visit: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
    match Opened::open(path, reading).map_err(|unopened| unopened.reason)? {
        Opened::Table(table) => {
            for entry in table.iter() {
                visit(&entry?.key);
            }
            Ok(())
        }
        Opened::Foreign(table) => {
            for key in table.user_keys() {
                visit(&key.with_context(|| input::name(path).into_owned())?);
            }
            Ok(())
        }
        Opened::FilterBlock(_) => {
            bail!("{} is a filter block, which has no keys to list: give a table", input::name(path))
        }
    }
}
