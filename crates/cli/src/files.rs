//! Which files of a directory are tables, in which order, and how they are opened.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, anyhow, bail, ensure};
use sstfilter::KeyHasher;
use sstfilter_interop::{Engine, MAX_FOOTER_BYTES, recognize};
use sstfilter_store::FilterProblem;
use sstfilter_table::{Table, TableError, TableOptions, TableSet};

use crate::input::{self, RegularFile};
use crate::output::{Outcome, in_options};
use crate::progress::ReadProgress;
use crate::ranges::{self, RangePrefix};

/// The extension of table files.
const EXTENSION: &str = "sst";

/// The extension of files that hold a bare filter block.
const FILTER_EXTENSION: &str = "filter";

/// The extension of LevelDB's tables.
const LEVELDB_EXTENSION: &str = "ldb";

/// Bytes at the end of a file that tell what it is: 32 of ours, and the longest footer of another engine.
const TAIL_BYTES: u64 = MAX_FOOTER_BYTES as u64;

const TABLE_MAGIC: &[u8] = b"SSTFLTR";
const BLOCK_MAGIC: &[u8] = b"SF";
const PARTITIONS_MAGIC: &[u8] = b"SP";
const SIDECAR_MAGIC: &[u8] = b"SSTFLTSC";

/// The problem of a file that [`look_at`] does not recognize.
pub(crate) const NEITHER: &str = "neither a table nor a filter block: its last bytes have the magic number of neither, nor that of RocksDB, \
                                  LevelDB or Pebble";

/// What is wrong with a file that [`look_at`] does not recognize.
pub(crate) fn neither(path: &Path) -> String {
    let cut = if is_named_like_ours(path) { "; it may have been cut short" } else { "" };
    format!("{NEITHER}{cut}")
}

/// What a table of ours does not say itself, but its readers have to know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableReading<'a> {
    pub(crate) secret: Option<&'a KeyHasher>,
    /// Of hashed range filters.
    pub(crate) range_prefix: Option<RangePrefix>,
    /// Moved on by what is read.
    pub(crate) progress: Option<&'a ReadProgress>,
}

/// The name of table `number`, counted from 1.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.{EXTENSION}")
}

/// The number in a table's name: `000010.sst` and `10.sst` have the number 10.
pub(crate) fn table_number(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    let is_number = has_table_extension(path) && stem.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { stem.parse().ok() } else { None }
}

/// Whether the name is one that [`table_name`] gives.
pub(crate) fn is_numbered_by_us(path: &Path) -> bool {
    table_number(path).is_some_and(|number| path.file_name() == Some(OsStr::new(&table_name(number))))
}

/// Whether the name says that the file is a table or a filter block, whatever its bytes say: one that has been cut
/// short does not look like either.
pub(crate) fn is_named_like_ours(path: &Path) -> bool {
    is_named_like_table(path) || has_extension(path, FILTER_EXTENSION)
}

/// The same of tables alone, those of LevelDB included.
pub(crate) fn is_named_like_table(path: &Path) -> bool {
    has_table_extension(path) || has_extension(path, LEVELDB_EXTENSION)
}

pub(crate) fn has_table_extension(path: &Path) -> bool {
    has_extension(path, EXTENSION)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// The table that a sidecar of this name belongs to; there need be none.
pub(crate) fn table_beside(sidecar: &Path) -> Option<PathBuf> {
    table_of_sidecar(sidecar).filter(|table| has_table_extension(table))
}

/// The file that a sidecar of this name would be used for, whatever it is called.
pub(crate) fn table_of_sidecar(sidecar: &Path) -> Option<PathBuf> {
    has_extension(sidecar, FILTER_EXTENSION).then(|| sidecar.with_extension(""))
}

/// Whether it has the name of a temporary file of a writer that was killed, or of a directory of them.
pub(crate) fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // `tempfile` puts six letters and digits where it is told nothing else.
    let drawn = name.strip_prefix(".sstfilter-").and_then(|name| name.strip_suffix(".tmp"));
    drawn.is_some_and(|drawn| drawn.len() == 6 && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// The directory's files sorted by name, and everything else that has the name of a table, of a sidecar, or of what a
/// killed writer left: a table that cannot be read must be an error, because older tables would answer in its place.
pub(crate) fn list(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || format!("cannot read the directory {}", input::name(directory));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let is_named = has_table_extension(&path) || table_beside(&path).is_some() || is_leftover(&path);
        if is_named || may_be_file(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The file itself, or the files of a directory that are tables or filter blocks: by their bytes, or by their name if
/// they have been cut short. A sidecar belongs to the table that it is beside, and is not a file of its own. `skipped`
/// gets the others.
pub(crate) fn expand(path: &Path, skipped: &mut Vec<String>) -> anyhow::Result<Vec<PathBuf>> {
    if input::is_standard(path) {
        return Ok(vec![path.to_owned()]);
    }
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_chosen = |file: &PathBuf| {
        let is_recognized = || !matches!(look_at(file), Ok(Look::Neither));
        is_named_like_ours(file) || (!is_leftover(file) && is_recognized())
    };
    let mut files = list(path)?;
    files.retain(|file| !table_beside(file).is_some_and(|table| table.is_file()));
    let (chosen, others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_chosen);
    skipped.extend(others.iter().map(|file| input::name(file).into_owned()));
    ensure!(!chosen.is_empty(), "{} holds no table and no filter block", input::name(path));
    Ok(chosen)
}

/// Whether it is a regular file, or cannot be told. Temporary files may be gone since they were listed.
fn may_be_file(path: &Path) -> bool {
    fs::metadata(path).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |metadata| metadata.is_file())
}

/// The tables at `path`, newest first: all of a directory, or the one file that it is.
fn tables_newest_first(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot open {}", input::name(path)))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut tables: Vec<_> = list(path)?.into_iter().filter(|file| has_table_extension(file)).collect();
    if let Some(file) = tables.iter().find(|file| table_number(file).is_none()) {
        let (file, name) = (input::name(file), table_name(1));
        bail!("{file}: cannot tell how new it is: name it by number ({name}) or give the file itself");
    }
    let directory = input::name(path);
    ensure!(!tables.is_empty(), "{directory} holds no table (*.{EXTENSION}): build some with `sstfilter build`");
    tables.sort_by_cached_key(|file| Reverse((table_number(file), file.clone())));
    let have_one_number = |pair: &&[PathBuf]| table_number(&pair[0]) == table_number(&pair[1]);
    if let Some([newer, older]) = tables.windows(2).find(have_one_number) {
        bail!("{} and {} have the same number: cannot tell which is newer", input::name(newer), input::name(older));
    }
    Ok(tables)
}

/// The tables at `path`, newest first, and their paths; without a secret seed, probed with the hash that the newest was
/// built with.
pub(crate) fn open_set(path: &Path, reading: TableReading<'_>) -> anyhow::Result<(TableSet, Vec<PathBuf>)> {
    if input::is_standard(path) {
        return Ok((TableSet::new(vec![open_table(path, reading)?]), vec![path.to_owned()]));
    }
    let paths = tables_newest_first(path)?;
    match TableSet::open(&paths, &read_options(reading)) {
        Ok(set) => Ok((set, paths)),
        Err(problem) => Err(foreign_among(&paths).unwrap_or_else(|| problem.into())),
    }
}

/// The problem of the first table of another engine: what one of ours has instead says less.
fn foreign_among(paths: &[PathBuf]) -> Option<anyhow::Error> {
    paths.iter().find_map(|path| match look_at(path) {
        Ok(Look::Foreign(engine)) => Some(anyhow!(
            "{} is a table of {}: expected one of sstfilter (inspect, verify and probe take both)",
            input::name(path),
            engine.name()
        )),
        _ => None,
    })
}

/// Opens one table; that of standard input is read into memory.
pub(crate) fn open_table(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading))
}

fn open_table_with(file: &Path, options: &TableOptions) -> anyhow::Result<Table> {
    if input::is_standard(file) {
        return Ok(Table::open_source(input::whole(file)?, options)?);
    }
    let opened = Table::open(file, options);
    opened.map_err(|problem| foreign_among(&[file.to_owned()]).unwrap_or_else(|| about(file, problem)))
}

/// The problem of the file, which names it in a form that can be recognised.
fn about(file: &Path, problem: TableError) -> anyhow::Error {
    let name = input::name(file).into_owned();
    let is_named = in_options(&problem).contains(&name);
    let problem = anyhow::Error::from(problem);
    if is_named { problem } else { problem.context(name) }
}

/// The same, as if it had no sidecar.
pub(crate) fn open_table_alone(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading).without_sidecars())
}

/// How tables are read: with the secret seed, or else each with the hash that it describes.
pub(crate) fn read_options(reading: TableReading<'_>) -> TableOptions {
    let options = TableOptions::default();
    let options = match reading.secret {
        Some(hasher) => options.with_hasher(hasher.clone()),
        None => options,
    };
    let options = match reading.progress {
        Some(progress) => options.with_file_system(Arc::new(progress.clone())),
        None => options,
    };
    match reading.range_prefix {
        Some(prefix) => options.with_range_extractor(prefix.extractor()),
        None => options,
    }
}

/// Whether reading failed, which tells nothing about the bytes.
pub(crate) fn is_unread(problem: &TableError) -> bool {
    match problem {
        TableError::Io { .. } => true,
        TableError::Filter { source, .. } => {
            matches!(source, FilterProblem::Unreadable { .. })
        }
        _ => false,
    }
}

/// What a problem of a filter says of its table: nothing, if the filter was built for other readers.
pub(crate) fn outcome_of_filter(problem: &TableError) -> Outcome {
    if is_unread(problem) { Outcome::Failed } else { Outcome::from_sound(problem.is_foreign_filter()) }
}

/// What a file is by its last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Table,
    FilterBlock,
    /// The block of a range filter, without a table.
    RangeFilter,
    /// A filter in partitions, without a table.
    Partitions,
    /// A filter beside a table, made for it.
    Sidecar,
    /// A table of another engine.
    Foreign(Engine),
    Neither,
}

/// Tells what a file is by the magic number at its end, without reading the rest.
pub(crate) fn look_at(path: &Path) -> anyhow::Result<Look> {
    if input::is_standard(path) {
        return Ok(look_at_tail(&input::whole(path)?));
    }
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)))?;
    ensure!(!metadata.is_dir(), "{}: expected a file, got a directory", input::name(path));
    if !metadata.is_file() {
        return Ok(Look::Neither); // a pipe would be waited for
    }
    Ok(look_at_tail(&RegularFile::open(path)?.end(TAIL_BYTES)?))
}

/// The same from the last bytes of a file.
pub(crate) fn look_at_tail(tail: &[u8]) -> Look {
    let Some(last) = tail.last_chunk::<32>() else { return Look::Neither };
    if last[24..31] == *TABLE_MAGIC {
        Look::Table
    } else if last[20..28] == *SIDECAR_MAGIC {
        Look::Sidecar
    } else if last[26..28] == *BLOCK_MAGIC {
        if ranges::is_kind_of(last) { Look::RangeFilter } else { Look::FilterBlock }
    } else if last[26..28] == *PARTITIONS_MAGIC {
        Look::Partitions
    } else {
        recognize(tail).map_or(Look::Neither, Look::Foreign)
    }
}

/// Whether these are the first bytes of a regular file.
pub(crate) fn begins_with(path: &Path, bytes: &[u8]) -> anyhow::Result<bool> {
    let file = RegularFile::open(path)?;
    Ok(file.length >= bytes.len() as u64 && *file.read(0, bytes.len() as u64)? == *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_names_that_are_given() {
        assert_eq!(table_name(7), "000007.sst");
        assert_eq!(table_number(Path::new("d/000007.sst")), Some(7));
        assert_eq!(table_number(Path::new(&table_name(12_345_678))), Some(12_345_678));
        for name in ["7.sst", "10.sst", "0000000007.sst"] {
            assert!(table_number(Path::new(name)).is_some() && !is_numbered_by_us(Path::new(name)), "{name}");
        }
        assert!(is_numbered_by_us(Path::new("d/000007.sst")) && is_numbered_by_us(Path::new("1234567.sst")));
        for name in ["000007.tmp", "00000a.sst", ".sstfilter-000007.tmp", "+00007.sst", "sst", ".sst", "-7.sst"] {
            assert_eq!(table_number(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn only_a_writers_temporary_files_are_left_overs() {
        assert!(is_leftover(Path::new("d/.sstfilter-x9Yab0.tmp")));
        for name in ["000001.sst", "sstfilter-x9Yab0.tmp", ".sstfilter-x9Yab0", ".other.tmp", ".sstfilter-notes.tmp"] {
            assert!(!is_leftover(Path::new(name)), "{name}");
        }
    }
}
