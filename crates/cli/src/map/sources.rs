//! The files that maps cover: tables and lists of keys, with their ids. No id rests on a file's name alone.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use sstfilter::{FileId, KeyHash, KeyHasher};
use sstfilter_table::Table;

use crate::files::{self, Found, Look};
use crate::groups;
use crate::input::{self, RegularFile};
use crate::left_out::LeftOut;
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{self, ForeignTable, Reading};
use crate::output::{Outcome, explained, note};
use crate::units::{counted, grouped};

/// The treatment of a file that is no table.
const ABOUT_LISTS: &str = "for files of keys, pass --key-lists";

/// The files of a store, for commands that read maps.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// Tables, or directories of them, as for `map build`
    #[arg(long, value_name = "PATH", num_args = 1..)]
    tables: Vec<PathBuf>,

    /// Lists of keys, or directories of them, as for `map build`
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,
}

impl FileArgs {
    pub(super) fn sources(&self) -> anyhow::Result<Vec<Source>> {
        find(&self.tables, &self.key_lists)
    }

    /// Returns the names of the files by their fingerprints. A file without a readable id has none: it is left out.
    pub(super) fn names(&self, reading: Reading<'_>) -> anyhow::Result<(HashMap<u64, String>, Vec<LeftOut>)> {
        let (mut names, mut left_out) = (HashMap::new(), Vec::new());
        for source in self.sources()? {
            match source.open(reading) {
                Ok(open) => drop(names.insert(open.id.fingerprint(), input::name(&source.path).into_owned())),
                Err(left) => left_out.push(left),
            }
        }
        Ok((names, left_out))
    }
}

/// Parses a fingerprint, as reports show ids.
pub(super) fn parse_fingerprint(text: &str) -> Result<FileId, String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16);
    // Checked first, because `from_str_radix` accepts a sign.
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let fingerprint = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let expected = || format!("expected a fingerprint, 0x and 16 hexadecimal digits, got '{text}'");
    fingerprint.map(FileId::from_fingerprint).ok_or_else(expected)
}

/// Bytes of a list in memory while it is hashed.
const HASHED_BYTES: usize = 1 << 20;

/// Returns the id of a list of keys: the fingerprint that its name states, up to a dot, or else the hash of the name
/// and of the contents, because a name comes back with other contents.
fn id_of_list(path: &Path) -> anyhow::Result<FileId> {
    // Opened in any case: a pipe would be read here, and not again for its keys.
    let file = RegularFile::open(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let stem = name.to_str().and_then(|name| name.split('.').next()).unwrap_or_default();
    if let Ok(stated) = parse_fingerprint(stem) {
        return Ok(stated);
    }
    let mut id = 0;
    let mut add = |bytes: &[u8]| id = KeyHasher::default().hash(&[&u64::to_le_bytes(id), bytes].concat()).get();
    add(name.as_encoded_bytes());
    for offset in (0..file.length).step_by(HASHED_BYTES) {
        add(&file.read(offset, (file.length - offset).min(HASHED_BYTES as u64))?);
    }
    Ok(FileId::from_fingerprint(id))
}

/// A file with keys.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    is_list: bool,
}

/// Returns the tables, and the lists of keys, of files and directories, each once.
pub(super) fn find(tables: &[PathBuf], lists: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let found = Found::of(tables).map_err(|problem| match problem.downcast_ref::<io::Error>() {
        Some(_) => problem,
        None => problem.context(ABOUT_LISTS),
    })?;
    files::orphans_line(&found.orphans).iter().for_each(|line| note(line));
    if !found.skipped.is_empty() {
        let skipped = found.skipped.iter().map(String::as_str);
        note(&groups::line("skipped: no table", "file", skipped));
    }
    let is_filter = |path: &PathBuf| {
        let look = files::look_at(path);
        matches!(look, Ok(Look::FilterBlock | Look::RangeFilter | Look::Partitions | Look::Sidecar))
    };
    let (filters, tables): (Vec<_>, Vec<_>) = found.files.into_iter().partition(is_filter);
    if !filters.is_empty() {
        let names: Vec<_> = filters.iter().map(|path| input::name(path)).collect();
        note(&groups::line("skipped: a filter, which has no keys", "file", names.iter().map(AsRef::as_ref)));
    }
    let mut sources: Vec<_> = tables.into_iter().map(|path| Source { path, is_list: false }).collect();
    let mut met = files::Met::default();
    for path in lists {
        ensure!(!input::is_standard(path), "standard input: expected a file of keys, because its id needs a name");
        let files = if files::is_directory(path)? { files::list(path)? } else { vec![path.clone()] };
        let files = files.into_iter().filter(|path| !files::is_leftover(path) && met.is_first(path));
        sources.extend(files.map(|path| Source { path, is_list: true }));
    }
    Ok(sources)
}

/// A file whose id is known, and whose keys can be read.
pub(super) struct OpenSource<'a> {
    pub(super) id: FileId,
    path: &'a Path,
    keys: Keys,
}

enum Keys {
    Table(Box<Table>),
    Foreign(Box<ForeignTable>),
    List,
}

impl Source {
    pub(super) fn bytes(&self) -> u64 {
        input::length(&self.path).unwrap_or(0)
    }

    pub(super) fn left_out(&self, problem: &anyhow::Error) -> LeftOut {
        LeftOut::new(&self.path, &explained(problem), opened::outcome_of(problem))
    }

    pub(super) fn open(&self, reading: Reading<'_>) -> Result<OpenSource<'_>, LeftOut> {
        let path = self.path.as_path();
        let left_out = |problem| self.left_out(&problem);
        let open = |id, keys| OpenSource { id, path, keys };
        if self.is_list {
            return Ok(open(id_of_list(path).map_err(left_out)?, Keys::List));
        }
        let keys = self.open_table(reading).map_err(left_out)?;
        match &keys {
            Keys::Table(table) => Ok(open(table.properties().filters.file_id(), keys)),
            // A reader that skipped the table would miss its range tombstones.
            Keys::Foreign(table) if table.has_range_tombstones() => {
                let why = "it has range tombstones, which a map does not know: always read it";
                Err(LeftOut::new(path, why, Outcome::Yes))
            }
            Keys::Foreign(table) => {
                let fingerprint = table.fingerprint().map_err(|problem| left_out(problem.into()))?;
                Ok(open(FileId::from_fingerprint(fingerprint), keys))
            }
            Keys::List => Ok(open(id_of_list(path).map_err(left_out)?, keys)),
        }
    }

    fn open_table(&self, reading: Reading<'_>) -> anyhow::Result<Keys> {
        match files::look_at(&self.path)? {
            // Its sidecar says nothing about its keys.
            Look::Table => Ok(Keys::Table(Box::new(files::open_table_alone(&self.path, reading.of_tables())?))),
            Look::Foreign(_) => Ok(Keys::Foreign(Box::new(opened::foreign(&self.path, reading)?.0))),
            Look::Map => Err(files::is_a_map(&self.path)),
            _ => bail!("{}: {ABOUT_LISTS}", files::neither(&self.path)),
        }
    }

    /// Returns the id of the file and the hashes of all its keys, of deleted ones too.
    pub(super) fn hashes(
        &self,
        hasher: &KeyHasher,
        format: KeysFormat,
        reading: Reading<'_>,
    ) -> Result<(FileId, Vec<KeyHash>), LeftOut> {
        let open = self.open(reading)?;
        let mut hashes = Vec::new();
        open.for_each_key(format, &mut |key| hashes.push(hasher.hash(key)))
            .map_err(|problem| self.left_out(&problem))?;
        hashes.shrink_to_fit();
        Ok((open.id, hashes))
    }

    /// Returns the hasher of a table of sstfilter; `None` for other files, and for tables that cannot be opened.
    pub(super) fn own_hasher(&self, reading: Reading<'_>) -> anyhow::Result<Option<KeyHasher>> {
        // Looked at first: a store may have 100,000 tables of another engine.
        let is_own = !self.is_list && matches!(files::look_at(&self.path), Ok(Look::Table));
        let Some(Ok(Keys::Table(table))) = is_own.then(|| self.open_table(reading)) else { return Ok(None) };
        let (described, hasher) = (table.properties().filters.hash_identity(), table.store().filters().hasher());
        let name = input::name(&self.path);
        ensure!(
            hasher.identity() == described,
            "{name}: its keys are hashed by {described}: pass the seed with --secret-seed-file"
        );
        Ok(Some(hasher.clone()))
    }
}

impl OpenSource<'_> {
    /// Calls `visit` with each key. A table's key may come several times.
    pub(super) fn for_each_key(&self, format: KeysFormat, visit: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
        match &self.keys {
            Keys::Table(table) => {
                let mut entries = 0;
                for entry in table.iter() {
                    visit(&entry?.key);
                    entries += 1;
                }
                let expected = table.properties().entries;
                let (got, expected_text) = (counted(entries, "key"), grouped(expected));
                ensure!(entries == expected, "expected {expected_text} keys, as the table records, got {got}");
            }
            Keys::Foreign(table) => {
                for key in table.user_keys() {
                    visit(&key.with_context(|| input::name(self.path).into_owned())?);
                }
            }
            Keys::List => {
                // Not those whose magic number has two bytes: a key may end with them.
                let is_table = matches!(files::look_at(self.path)?, Look::Table | Look::Foreign(_));
                ensure!(!is_table, "a table, expected a file of keys: pass tables without --key-lists");
                KeyLines::read(self.path, format, "--key-lists")?.iter().for_each(|(key, _)| visit(key));
            }
        }
        Ok(())
    }
}
