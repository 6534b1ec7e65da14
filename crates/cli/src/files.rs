//! Finds the tables of a directory, orders them, and opens them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, anyhow, bail, ensure};
use sstfilter::{BlockError, FilterBlock, KeyHasher};
use sstfilter_interop::{Engine, recognize};
use sstfilter_map::MapIndex;
use sstfilter_store::{FilterMetadata, FilterProblem, PartitionIndex};
use sstfilter_table::{Table, TableError, TableOptions, TableSet};

use crate::groups;
use crate::input::{self, RegularFile};
use crate::output::{Outcome, in_options};
use crate::progress::ReadProgress;
use crate::ranges::{self, RangePrefix};
use crate::units::counted;

/// The extension of table files.
const EXTENSION: &str = "sst";

/// The extension of files that hold a bare filter block.
const FILTER_EXTENSION: &str = "filter";

/// The extension of LevelDB's tables.
const LEVELDB_EXTENSION: &str = "ldb";

/// Bytes at the end of a file that identify its format and length, except for the names and bounds that some filters
/// end with. No engine's footer is longer.
pub(crate) const END_BYTES: u64 = 4 << 10;

const TABLE_MAGIC: &[u8] = b"SSTFLTR";
const BLOCK_MAGIC: &[u8] = b"SF";
const PARTITIONS_MAGIC: &[u8] = b"SP";
const MAP_MAGIC: &[u8] = b"SM";
const SIDECAR_MAGIC: &[u8] = b"SC";

/// Message for a file that [`look_at`] does not recognize.
pub(crate) const NEITHER: &str =
    "neither a table nor a filter block: it does not end with a magic number of sstfilter, RocksDB, LevelDB or Pebble";

/// Returns the error for a file map in the place of a table or a filter. It is no damage, so it is an error of the
/// system's kind.
pub(crate) fn is_a_map(path: &Path) -> anyhow::Error {
    let message = format!("{}: a file map, neither a table nor a filter: use `sstfilter map`", input::name(path));
    io::Error::new(io::ErrorKind::InvalidInput, message).into()
}

/// Returns the message for a file that [`look_at`] does not recognize.
pub(crate) fn neither(path: &Path) -> String {
    let cut = if is_named_like_ours(path) { "; it may have been cut short" } else { "" };
    format!("{NEITHER}{cut}")
}

/// Facts about a table of this library that the table does not record, but its reader needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableReading<'a> {
    pub(crate) secret: Option<&'a KeyHasher>,
    /// Prefix of hashed range filters.
    pub(crate) range_prefix: Option<RangePrefix>,
    /// Advanced by each read.
    pub(crate) progress: Option<&'a ReadProgress>,
}

/// Returns the name of table `number`; the first is 1.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.{EXTENSION}")
}

/// Returns the number in a table's name: 10 for `000010.sst` and `10.sst`.
pub(crate) fn table_number(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    // Only digits, because `parse` accepts a sign.
    let is_number = has_table_extension(path) && stem.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { stem.parse().ok() } else { None }
}

/// Whether [`table_name`] returns this name.
pub(crate) fn is_numbered_by_us(path: &Path) -> bool {
    table_number(path).is_some_and(|number| path.file_name() == Some(OsStr::new(&table_name(number))))
}

/// Whether the name is that of a table or a filter block. The bytes do not tell for a file that was cut short.
pub(crate) fn is_named_like_ours(path: &Path) -> bool {
    is_named_like_table(path) || has_extension(path, FILTER_EXTENSION)
}

/// Whether the name is that of a table, including LevelDB's.
pub(crate) fn is_named_like_table(path: &Path) -> bool {
    has_table_extension(path) || has_extension(path, LEVELDB_EXTENSION)
}

pub(crate) fn has_table_extension(path: &Path) -> bool {
    has_extension(path, EXTENSION)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Returns the path of the table that a sidecar of this name belongs to, whether or not that table exists.
pub(crate) fn table_beside(sidecar: &Path) -> Option<PathBuf> {
    table_of_sidecar(sidecar).filter(|table| has_table_extension(table))
}

/// Returns the file that a sidecar of this name would be used for, whatever that file's extension.
pub(crate) fn table_of_sidecar(sidecar: &Path) -> Option<PathBuf> {
    has_extension(sidecar, FILTER_EXTENSION).then(|| sidecar.with_extension(""))
}

/// Whether the name is that of a temporary file, or directory of such files, that a killed writer left.
pub(crate) fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    // By default, `tempfile` inserts six random letters and digits.
    let drawn = name.strip_prefix(".sstfilter-").and_then(|name| name.strip_suffix(".tmp"));
    drawn.is_some_and(|drawn| drawn.len() == 6 && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Returns the directory's files sorted by name, and every other entry with the name of a table, a sidecar, or a
/// leftover of a killed writer: an unreadable table must be an error, because older tables would answer in its place.
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
    // Systems list a directory in any order, and output must be the same in each run.
    files.sort();
    Ok(files)
}

/// The files that were met so far. Two paths may lead to one file, as `DIR` and `DIR/000001.sst` do.
#[derive(Default)]
pub(crate) struct Met(HashSet<PathBuf>);

impl Met {
    /// Whether the file at `path` is met for the first time.
    pub(crate) fn is_first(&mut self, path: &Path) -> bool {
        // Standard input and missing files have no canonical path.
        let canonical = fs::canonicalize(path).ok().filter(|_| !input::is_standard(path));
        self.0.insert(canonical.unwrap_or_else(|| path.to_owned()))
    }
}

/// The files that paths lead to, each once.
#[derive(Default)]
pub(crate) struct Found {
    /// The files that were passed, and the tables and filter blocks of directories.
    pub(crate) files: Vec<PathBuf>,
    /// Sidecars whose tables are gone. No reader uses them.
    pub(crate) orphans: Vec<PathBuf>,
    /// Other files of directories.
    pub(crate) skipped: Vec<String>,
    met: Met,
}

impl Found {
    pub(crate) fn of(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        paths.iter().try_for_each(|path| found.add(path))?;
        Ok(found)
    }

    /// Adds the file itself, or the files of a directory. Tables and filter blocks are recognized by their bytes, or by
    /// their name if they were cut short. A sidecar next to its table is not added.
    pub(crate) fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_directory = is_directory(path)?;
        // A directory that comes again would add its other files to `skipped` again.
        if !self.met.is_first(path) {
            return Ok(());
        }
        if !is_directory {
            let files = if is_orphan(path) { &mut self.orphans } else { &mut self.files };
            files.push(path.to_owned());
            return Ok(());
        }
        let (mut is_empty, skipped) = (true, self.skipped.len());
        for file in list(path)? {
            let role = Role::of(&file);
            is_empty &= !matches!(role, Role::File | Role::Orphan);
            match role {
                Role::File if self.met.is_first(&file) => self.files.push(file),
                Role::Orphan if self.met.is_first(&file) => self.orphans.push(file),
                Role::Other => self.skipped.push(input::name(&file).into_owned()),
                Role::File | Role::Orphan | Role::Sidecar => {}
            }
        }
        let others = match self.skipped.len() - skipped {
            0 => "no files".to_owned(),
            others => counted(others as u64, "other file"),
        };
        ensure!(
            !is_empty,
            "{} contains no table and no filter block, but {others}: pass the directory with the tables (subdirectories \
             are not searched)",
            input::name(path)
        );
        Ok(())
    }

    /// Fails if there is nothing but orphans.
    pub(crate) fn ensure_files(&self) -> anyhow::Result<()> {
        if let ([], [orphan, ..]) = (&self.files[..], &self.orphans[..]) {
            bail!("no table, only orphans: {}: {ORPHAN}", input::name(orphan));
        }
        Ok(())
    }
}

/// Whether the path is that of a directory, and not of a file or standard input.
pub(crate) fn is_directory(path: &Path) -> anyhow::Result<bool> {
    let metadata = || fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)));
    Ok(!input::is_standard(path) && metadata()?.is_dir())
}

/// The role of a file in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A table, or a filter block without a table.
    File,
    /// A sidecar next to its table, which is reported together with the table.
    Sidecar,
    Orphan,
    Other,
}

impl Role {
    fn of(file: &Path) -> Self {
        // The name comes first: a file that was cut short has lost the bytes that identify it.
        if is_named_like_table(file) {
            return Self::File;
        }
        let look = look_at(file).ok();
        let is_sidecar = look == Some(Look::Sidecar);
        match table_of_sidecar(file) {
            Some(table) if table.is_file() && (is_sidecar || has_table_extension(&table)) => Self::Sidecar,
            Some(table) if is_sidecar || (look == Some(Look::Neither) && has_table_extension(&table)) => Self::Orphan,
            None if is_leftover(file) || matches!(look, Some(Look::Neither | Look::Map)) => Self::Other,
            // A filter block without a table may have any name.
            _ => Self::File,
        }
    }
}

/// Whether the file is a sidecar without its table.
pub(crate) fn is_orphan(file: &Path) -> bool {
    !input::is_standard(file) && Role::of(file) == Role::Orphan
}

/// Explains an orphan, and says what to do.
pub(crate) const ORPHAN: &str = "the table is gone, so no reader uses the sidecar: delete it";

/// Returns a line that names the first of these orphans, if there are any.
pub(crate) fn orphans_line(orphans: &[PathBuf]) -> Option<String> {
    let names: Vec<_> = orphans.iter().map(|orphan| input::name(orphan)).collect();
    let line = || groups::line(&format!("orphan: {ORPHAN}"), "file", names.iter().map(AsRef::as_ref));
    (!names.is_empty()).then(line)
}

/// Whether the path is a regular file or cannot be checked. A temporary file may have gone since it was listed.
fn may_be_file(path: &Path) -> bool {
    fs::metadata(path).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |metadata| metadata.is_file())
}

/// Returns the tables at `path`, newest first: those of a directory, or the file itself.
fn tables_newest_first(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot open {}", input::name(path)))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut tables: Vec<_> = list(path)?.into_iter().filter(|file| has_table_extension(file)).collect();
    if let Some(file) = tables.iter().find(|file| table_number(file).is_none()) {
        let (file, name) = (input::name(file), table_name(1));
        bail!("{file}: cannot tell its age without a number: rename it ({name}) or pass the file itself");
    }
    let directory = input::name(path);
    ensure!(!tables.is_empty(), "{directory} contains no table (*.{EXTENSION}): build some with `sstfilter build`");
    // By number, not by name: `10.sst` is newer than `9.sst`. The path keeps the order of equal numbers, an error
    // below, the same in each run.
    tables.sort_by_cached_key(|file| Reverse((table_number(file), file.clone())));
    let have_one_number = |pair: &&[PathBuf]| table_number(&pair[0]) == table_number(&pair[1]);
    if let Some([newer, older]) = tables.windows(2).find(have_one_number) {
        bail!("{} and {} have the same number: cannot tell which is newer", input::name(newer), input::name(older));
    }
    Ok(tables)
}

/// Opens the tables at `path`, newest first, and returns them with their paths. Without a secret seed, the set probes
/// with the hash of the newest table.
pub(crate) fn open_set(path: &Path, reading: TableReading<'_>) -> anyhow::Result<(TableSet, Vec<PathBuf>)> {
    if input::is_standard(path) {
        return Ok((TableSet::new([(0, open_table(path, reading)?)])?, vec![path.to_owned()]));
    }
    // Tables of other engines are the likely reason if the names do not tell an order.
    let paths = tables_newest_first(path).map_err(|problem| foreign_in(path).unwrap_or(problem))?;
    match TableSet::open((0..).zip(paths.iter().rev()), &read_options(reading)) {
        Ok(set) => Ok((set, paths)),
        // Looked for only after a failure, so that sound tables are not opened twice.
        Err(problem) => Err(foreign_among(&paths).unwrap_or_else(|| problem.into())),
    }
}

/// Returns an error about the first table of another engine, which says more than an error about ours.
fn foreign_among(paths: &[PathBuf]) -> Option<anyhow::Error> {
    paths.iter().find_map(|path| match look_at(path) {
        Ok(Look::Foreign(engine)) => Some(anyhow!(
            "{}: expected a table of sstfilter, got one of {}, whose values this program cannot read: `probe` shows \
             which tables may contain a key, and `dump --keys-only` prints the keys of a table",
            input::name(path),
            engine.name()
        )),
        _ => None,
    })
}

/// Returns an error about the first table of another engine in a directory.
fn foreign_in(directory: &Path) -> Option<anyhow::Error> {
    foreign_among(&list(directory).ok()?)
}

/// Opens one table; a table from standard input is read into memory.
pub(crate) fn open_table(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading))
}

fn open_table_with(file: &Path, options: &TableOptions) -> anyhow::Result<Table> {
    if input::is_standard(file) {
        return Ok(Table::open_source(input::whole(file)?, options)?);
    }
    // Looked at only after a failure, because nearly all tables are sstfilter's.
    let opened = Table::open(file, options);
    opened.map_err(|problem| foreign_among(&[file.to_owned()]).unwrap_or_else(|| about(file, problem)))
}

/// Adds the file's name to the problem, unless its message contains the name.
fn about(file: &Path, problem: TableError) -> anyhow::Error {
    let name = input::name(file).into_owned();
    let is_named = in_options(&problem).contains(&name);
    let problem = anyhow::Error::from(problem);
    if is_named { problem } else { problem.context(name) }
}

/// Opens one table and ignores its sidecar.
pub(crate) fn open_table_alone(file: &Path, reading: TableReading<'_>) -> anyhow::Result<Table> {
    open_table_with(file, &read_options(reading).without_sidecars())
}

/// Returns the options for reading tables: with the secret seed, or else with the hash that each table records.
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

/// Whether reading failed, so that nothing is known about the bytes.
pub(crate) fn is_unread(problem: &TableError) -> bool {
    match problem {
        TableError::Io { .. } => true,
        TableError::Filter { source, .. } => {
            matches!(source, FilterProblem::Unreadable { .. })
        }
        _ => false,
    }
}

/// Whether a sidecar is not used because it is of another table. This is not damage.
pub(crate) fn is_stale(problem: &TableError) -> bool {
    matches!(problem, TableError::Filter { source: FilterProblem::OtherTable { .. }, .. })
}

/// Whether the table next to this sidecar ignores it, because it is of another table.
pub(crate) fn is_stale_sidecar(sidecar: &Path, reading: TableReading<'_>) -> bool {
    let table = table_of_sidecar(sidecar).filter(|table| table.is_file());
    let table = table.and_then(|table| open_table(&table, reading).ok());
    table.is_some_and(|table| table.sidecar_problem().is_some_and(is_stale))
}

/// Explains a stale sidecar.
pub(crate) const STALE: &str = "the sidecar is of another table, or of an earlier table of this name, and is ignored";

/// Returns what a filter's problem means for its table: nothing is wrong if the filter was built for other readers.
pub(crate) fn outcome_of_filter(problem: &TableError) -> Outcome {
    if is_unread(problem) { Outcome::Failed } else { Outcome::from_sound(problem.is_foreign_filter()) }
}

/// The format of a file, recognized by its last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Table,
    FilterBlock,
    /// The block of a range filter, without a table.
    RangeFilter,
    /// A partitioned filter without a table.
    Partitions,
    /// A file of filters made for one table.
    Sidecar,
    /// A file map.
    Map,
    /// A table of another engine.
    Foreign(Engine),
    Neither,
}

/// Recognizes a file by its end, without reading the rest.
pub(crate) fn look_at(path: &Path) -> anyhow::Result<Look> {
    if input::is_standard(path) {
        return Ok(look_at_end(path, &input::whole(path)?));
    }
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)))?;
    ensure!(!metadata.is_dir(), "{}: expected a file, got a directory", input::name(path));
    if !metadata.is_file() {
        return Ok(Look::Neither); // reading a pipe would block
    }
    Ok(look_at_end(path, &RegularFile::open(path)?.end(END_BYTES)?))
}

/// Recognizes a file by its last [`END_BYTES`] or more.
///
/// A magic number of seven or eight bytes shows what a file is, or was before it was damaged. One of two bytes does
/// not: a text may end with SMITH. So the checksum of the end must hold as well; or it would hold with one bit flipped,
/// or the file is named as a filter: then the file is damaged. Any other file is not recognized.
pub(crate) fn look_at_end(path: &Path, end: &[u8]) -> Look {
    let look = look_at_magic(end);
    let has_short_magic = !matches!(look, Look::Table | Look::Sidecar | Look::Foreign(_));
    let is_recognized = || is_own(look, end) || has_extension(path, FILTER_EXTENSION);
    if has_short_magic && !is_recognized() { Look::Neither } else { look }
}

/// Whether checksums show that the program wrote the regular file, and what they allow it to be. Only such a file is
/// replaced.
pub(crate) fn is_own_file(path: &Path, looks: &[Look]) -> anyhow::Result<bool> {
    let end = RegularFile::open(path)?.end(END_BYTES)?;
    let look = look_at_magic(&end);
    Ok(looks.contains(&look) && is_own(look, &end))
}

/// Bits at the end of a file that are flipped to recognize it, one at a time. By chance, one in four million files with
/// the same magic number is then recognized.
const FLIPPED_BITS: usize = 1_024;

/// Whether the checksum of a file's end holds, or would if one of its last bits were flipped.
fn is_own(look: Look, end: &[u8]) -> bool {
    if has_checksum(look, end) {
        return true;
    }
    // No checksum covers more of the end.
    let mut flipped = end.last_chunk::<{ 4 << 10 }>().map_or(end, |end| end.as_slice()).to_vec();
    let bits = 8 * flipped.len();
    (bits.saturating_sub(FLIPPED_BITS)..bits).any(|bit| {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let has_checksum = has_checksum(look, &flipped);
        flipped[bit / 8] ^= 1 << (bit % 8);
        has_checksum
    })
}

/// Whether the checksum of a file's end holds.
fn has_checksum(look: Look, end: &[u8]) -> bool {
    match look {
        // Both kinds of blocks have this trailer. Only these errors are found before its checksum is compared.
        Look::FilterBlock | Look::RangeFilter => !matches!(
            FilterBlock::open_unverified(end),
            Err(BlockError::TooShort { .. }
                | BlockError::Magic { .. }
                | BlockError::Version { .. }
                | BlockError::Field { field: "flags", .. }
                | BlockError::TrailerChecksum { .. })
        ),
        Look::Partitions => PartitionIndex::tail_bytes(end).is_ok(),
        Look::Map => MapIndex::end_bytes(end).is_ok(),
        Look::Sidecar => FilterMetadata::sidecar_tail_bytes(end).is_ok(),
        // The footer's checksum is in its bytes 52 to 55, behind what it covers.
        Look::Table => end.last_chunk::<64>().is_some_and(|footer| {
            let (covered, rest) = footer.split_at(52);
            rest.starts_with(&crc32c::crc32c(covered).to_le_bytes())
        }),
        Look::Foreign(_) | Look::Neither => false,
    }
}

/// Recognizes a file by the magic number in its last bytes.
fn look_at_magic(tail: &[u8]) -> Look {
    // Every known format ends with a trailer or footer of at least 32 bytes.
    let Some(last) = tail.last_chunk::<32>() else { return Look::Neither };
    if last[24..31] == *TABLE_MAGIC {
        Look::Table
    } else if last[26..28] == *SIDECAR_MAGIC {
        Look::Sidecar
    } else if last[26..28] == *BLOCK_MAGIC {
        if ranges::is_kind_of(last) { Look::RangeFilter } else { Look::FilterBlock }
    } else if last[26..28] == *PARTITIONS_MAGIC {
        Look::Partitions
    } else if last[26..28] == *MAP_MAGIC {
        Look::Map
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
