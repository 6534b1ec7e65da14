//! Opens any file that the program can read. Nothing else does.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, RandomAccess};
use sstfilter_interop::{Engine, Error, ForeignTable as EngineTable};
use sstfilter_range::RangeInfo;
use sstfilter_store::{FilterMetadata, PartitionIndex};
use sstfilter_table::{Table, TableOptions};

use super::blocks::{Container, Layers, RangeBlock, Sidecar, load_index};
pub(crate) use super::context::Context;
use super::database::{Database, Standing, directory_of, is_not_found};
use super::look::{END_BYTES, Format, look_at, look_at_end, neither};
use super::map::OpenMap;
use super::problem::{Problem, State};
use super::walk::Found;
use crate::print::words;
use crate::system::input::{self, RegularFile};

/// A file whose frame is sound; its contents may be damaged.
pub(crate) struct Opened {
    pub(crate) found: Found,
    pub(crate) bytes: u64,
    pub(crate) format: Format,
    pub(crate) body: Body,
}

/// The contents of a file.
pub(crate) enum Body {
    /// A table of this library, with its sidecar.
    Table(Box<Table>),
    /// A table of RocksDB, LevelDB or Pebble.
    Foreign(Box<ForeignTable>, Option<StatedComparator>),
    /// A filter block. Its payload has not been verified.
    Block(Box<FilterBlock<Bytes>>),
    /// A partitioned filter. Its top index has been verified, its partitions have not.
    Partitions(Box<Container>),
    /// The block of a range filter. Its payload has not been verified.
    Ranges(Box<RangeBlock>),
    /// Filters that answer as one. All of their bytes have been verified.
    Layers(Box<Layers>),
    /// Filters of one table.
    Sidecar(Box<Sidecar>),
    Map(Box<OpenMap>),
}

/// A table of another engine, in a file or in memory.
pub(crate) type ForeignTable = EngineTable<Box<dyn RandomAccess>>;

/// A comparator that a table does not name itself.
#[derive(Clone, Debug)]
pub(crate) struct StatedComparator {
    pub(crate) name: String,
    pub(crate) from: Origin,
}

words! {
    /// Where a fact about a file is from.
    pub(crate) enum Origin {
        Table = "table",
        Sidecar = "sidecar",
        Manifest = "MANIFEST",
        Keys = "keys",
        Option = "option",
    }
}

impl Opened {
    /// Returns the level that the table or the manifest records.
    pub(crate) fn level(&self) -> Option<u32> {
        match &self.body {
            Body::Table(table) => table.properties().level,
            _ => self.found.level(),
        }
    }

    /// Returns the column family that the manifest or the table names.
    pub(crate) fn family(&self) -> Option<String> {
        let named = self.found.family().map(str::to_owned);
        named.or_else(|| match &self.body {
            Body::Foreign(table, _) => table.properties().column_family().map(|(_, name)| name.to_owned()),
            _ => None,
        })
    }
}

/// Opens a file. All messages name it. The filter of another engine's table whose comparator is not known is not used.
pub(crate) fn open(found: &Found, context: &Context) -> Result<Opened, Problem> {
    let opened = body_of(&found.path, found, context);
    let (bytes, format, body) = opened.map_err(|problem| gone(found, problem))?;
    Ok(Opened { found: found.clone(), bytes, format, body })
}

/// Opens a file for probing: if nothing names the comparator of another engine's table, or its filter policy is not
/// known, all keys are read, which may confirm them.
pub(crate) fn open_to_probe(found: &Found, context: &Context) -> Result<Opened, Problem> {
    let mut opened = open(found, context)?;
    if let Body::Foreign(table, stated) = &mut opened.body {
        // Also with a stated comparator: a filter of an unknown policy has to be positive for all keys.
        let from_keys = comparator_from_keys(table).with_context(|| input::name(&found.path).into_owned());
        let from_keys = from_keys?;
        *stated = stated.take().or(from_keys);
    }
    Ok(opened)
}

/// Tells a table that a running engine has removed since it was listed from one that is missing.
fn gone(found: &Found, problem: Problem) -> Problem {
    if !matches!(found.standing, Standing::Live(_)) || !is_not_found(&problem.reason) {
        return problem;
    }
    let database = directory_of(&found.path).map(|directory| Database::read(directory).0);
    let name = input::name(&found.path);
    match database.map(|database| database.standing(&found.path)) {
        Some(Standing::NotLive(why)) => Problem::new(State::NotLive, anyhow!("{name}: {why}")),
        Some(Standing::Live(file)) if file.path > 0 => {
            let elsewhere = "in another directory of its database (db_paths), where this program does not look";
            Problem::new(State::Unread, anyhow!("{name}: {elsewhere}"))
        }
        Some(Standing::Live(_)) => {
            Problem::new(State::Damaged, anyhow!("{name}: the manifest of its database names it, and it is gone"))
        }
        _ => problem,
    }
}

fn body_of(path: &Path, found: &Found, context: &Context) -> Result<(u64, Format, Body), Problem> {
    let name = || input::name(path).into_owned();
    let look = look(path).map_err(|reason| Problem::new(State::Unread, reason))?;
    let body = match look {
        Format::Table => Body::Table(Box::new(open_table(path, context)?)),
        _ if look.engine().is_some() => {
            let (table, stated) = foreign(path, found, context).with_context(name)?;
            Body::Foreign(Box::new(table), stated)
        }
        Format::FileMap => Body::Map(Box::new(OpenMap::open(path)?)),
        Format::Other => return Err(Problem::new(State::Damaged, anyhow!("{}: {}", name(), neither(path)))),
        _ => whole(path).and_then(|bytes| body_of_filters(look, bytes)).with_context(name)?,
    };
    Ok((RegularFile::open(path)?.length, look, body))
}

fn body_of_filters(look: Format, bytes: Bytes) -> anyhow::Result<Body> {
    Ok(match look {
        Format::FilterBlock => Body::Block(Box::new(FilterBlock::open_unverified(bytes)?)),
        Format::RangeFilter => Body::Ranges(Box::new(RangeBlock::new(bytes)?)),
        Format::PartitionedFilter => {
            let container = Container::open(bytes)?.context("the end of a partitioned filter is cut short")?;
            Body::Partitions(Box::new(container))
        }
        Format::Layers => Body::Layers(Box::new(Layers::load(&bytes)?)),
        _ => Body::Sidecar(Box::new(Sidecar::new(bytes)?)),
    })
}

/// Recognizes the file by its last bytes. Fails for a pipe or a device, which has no end to look at.
fn look(path: &Path) -> anyhow::Result<Format> {
    let look = look_at(path)?;
    let has_end = look != Format::Other || input::length(path).is_some() || input::is_standard(path);
    ensure!(has_end, "{}: expected a file, got a pipe or a device", input::name(path));
    Ok(look)
}

/// Opens one table of this library, with its sidecar; a table from standard input is read into memory.
pub(crate) fn open_table(path: &Path, context: &Context) -> anyhow::Result<Table> {
    open_table_with(path, &context.table_options())
}

/// Opens one table and ignores its sidecar.
pub(crate) fn open_table_alone(path: &Path, context: &Context) -> anyhow::Result<Table> {
    open_table_with(path, &context.table_options().without_sidecars())
}

fn open_table_with(path: &Path, options: &TableOptions) -> anyhow::Result<Table> {
    if input::is_standard(path) {
        return Ok(Table::open_source(input::whole_standard_input()?, options)?);
    }
    Table::open(path, options).map_err(|problem| {
        let name = input::name(path).into_owned();
        let is_named = problem.to_string().contains(&name);
        let problem = anyhow::Error::from(problem);
        if is_named { problem } else { problem.context(name) }
    })
}

/// Fails unless the file at `path` is a table of this library.
pub(crate) fn ensure_own_table(path: &Path) -> anyhow::Result<()> {
    let (name, format) = (input::name(path), look(path)?);
    if let Some(engine) = format.engine() {
        let advice =
            "`probe` shows which tables may contain a key, and `get TABLE --keys-only` prints the keys of one table";
        bail!("{name}: expected a table of sstfilter, got one of {engine}: {advice}");
    }
    match format {
        Format::Table => Ok(()),
        Format::Other => bail!("{name}: {}", neither(path)),
        Format::FileMap => bail!("{name}: expected a table, got a file map"),
        _ => bail!("{name}: expected a table, got a filter"),
    }
}

/// Opens a table of another engine. If the table does not name its comparator, it comes from the command line or from
/// its database's manifest; without either, the filter cannot be used.
fn foreign(path: &Path, found: &Found, context: &Context) -> anyhow::Result<(ForeignTable, Option<StatedComparator>)> {
    let source = RegularFile::open(path)?.source;
    let table = EngineTable::open(match &context.progress {
        Some(progress) => progress.watch(source),
        None => source,
    })?;
    let table = if context.unchecked_filters { table.with_unchecked_filter() } else { table };
    Ok(match stated_comparator(found, table.engine(), context) {
        Some(stated) => (table.with_comparator(&stated.name), Some(stated)),
        None => (table, None),
    })
}

fn stated_comparator(found: &Found, engine: Engine, context: &Context) -> Option<StatedComparator> {
    // First, because the user may know better than a manifest.
    if let Some(name) = &context.comparator {
        return Some(StatedComparator { name: name.clone(), from: Origin::Option });
    }
    // Tables of the other engines name their comparator.
    if engine != Engine::LevelDb {
        return None;
    }
    let name = found.database.as_ref()?.comparator(&found.standing)?.to_owned();
    Some(StatedComparator { name, from: Origin::Manifest })
}

/// Infers a table's comparator from its keys. Fails only if the table cannot be read.
fn comparator_from_keys(table: &mut ForeignTable) -> Result<Option<StatedComparator>, Error> {
    match table.confirm_by_keys() {
        // Bytes that could not be read must not pass for a table that only needs a comparator.
        Err(unread @ Error::Io { .. }) => Err(unread),
        Ok(()) if table.engine() == Engine::LevelDb && table.load_filter().is_ok() => {
            Ok(Some(StatedComparator { name: "leveldb.BytewiseComparator".to_owned(), from: Origin::Keys }))
        }
        // The probe that follows reports other errors with more detail.
        Ok(()) | Err(_) => Ok(None),
    }
}

/// Reads all bytes of a filter without a table. Standard input is kept, so that this can be called again.
///
/// Reads the end of the file first, which records the length of the filter: a sparse file of any length takes no space
/// on disk, but would take memory.
pub(crate) fn whole(path: &Path) -> anyhow::Result<Bytes> {
    if input::is_standard(path) {
        return input::whole_standard_input();
    }
    let file = RegularFile::open(path)?;
    let expected = claimed_bytes(path, &file)?;
    if expected != file.length {
        return Err(BlockError::Length { expected, got: file.length }.into());
    }
    file.end(expected)
}

/// Returns the length that the end of a filter without a table records.
fn claimed_bytes(path: &Path, file: &RegularFile) -> anyhow::Result<u64> {
    let end = file.end(END_BYTES)?;
    match look_at_end(path, &end) {
        Format::FilterBlock => claimed_by_block(FilterBlock::open_unverified(&end).map(drop), &end),
        Format::RangeFilter => claimed_by_block(RangeInfo::of_block(&end).map(drop), &end),
        Format::Layers => claimed_by_block(Layers::load(&end).map(drop), &end),
        Format::PartitionedFilter => {
            let tail = file.end(PartitionIndex::tail_bytes(&end)?)?;
            Ok(load_index(&tail)?.container_bytes())
        }
        Format::Sidecar => {
            let tail = file.end(FilterMetadata::sidecar_tail_bytes(&end)?)?;
            FilterMetadata::of_any_sidecar(&tail, file.length)?;
            Ok(file.length)
        }
        _ => Ok(file.length),
    }
}

/// Returns the length of the block that ends with `end`, from the error of a reader that takes `end` for the whole
/// block.
fn claimed_by_block(opened: Result<(), BlockError>, end: &[u8]) -> anyhow::Result<u64> {
    match opened {
        Err(BlockError::Length { expected, .. }) => Ok(expected),
        opened => Ok(opened.map(|()| end.len() as u64)?),
    }
}
