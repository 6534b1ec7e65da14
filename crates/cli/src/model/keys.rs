//! The keys and ids of files: of tables, and of lists of keys, which maps cover as well. No id rests on a file's name
//! alone.

use core::ops::ControlFlow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use sstfilter::{FileId, KeyHash, KeyHasher};

use crate::file::context::{Context, KeysFormat};
use crate::file::key_list::KeyLines;
use crate::file::look::{Format, list, look_at, may_be_table};
use crate::file::names::is_leftover;
use crate::file::open::{Body, Opened, open};
use crate::file::problem::{Problem, State};
use crate::file::walk::{Found, is_directory};
use crate::system::input::{self, RegularFile};
use crate::words::units::{counted, grouped};

/// Bytes of a list in memory while it is hashed.
const HASHED_BYTES: usize = 1 << 20;

/// Calls `visit` with each key of a table, ascending, until it breaks. A key of several entries comes several times,
/// and deleted keys come, too. Fails at the first damage, and for a file without keys.
pub(crate) fn for_each_key(opened: &Opened, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> anyhow::Result<()> {
    let name = || input::name(&opened.found.path);
    match &opened.body {
        Body::Table(table) => {
            let mut entries = 0;
            for entry in table.iter() {
                if visit(&entry?.key).is_break() {
                    return Ok(());
                }
                entries += 1;
            }
            let expected = table.properties().entries;
            let (name, got) = (name(), counted(entries, "key"));
            let of_table = grouped(expected);
            ensure!(entries == expected, "{name}: expected {of_table} keys, as the table records, got {got}");
        }
        Body::Foreign(table, _) => {
            for key in table.user_keys() {
                if visit(&key.with_context(|| name().into_owned())?).is_break() {
                    return Ok(());
                }
            }
        }
        Body::Map(_) => bail!("{}: expected a table, got a file map", name()),
        _ => bail!("{} is a filter, which has no keys to list: pass a table", name()),
    }
    Ok(())
}

/// Returns the id of a table, by which maps and sidecars know it.
pub(crate) fn file_id(opened: &Opened) -> Result<FileId, Problem> {
    match &opened.body {
        Body::Table(table) => Ok(table.properties().filters.file_id()),
        Body::Foreign(table, _) => {
            let fingerprint = table.fingerprint().map_err(anyhow::Error::from);
            Ok(FileId::from_fingerprint(fingerprint.with_context(|| input::name(&opened.found.path).into_owned())?))
        }
        _ => Err(anyhow!("{}: expected a table or a list of keys", input::name(&opened.found.path)).into()),
    }
}

/// Returns an id as messages, reports and options show it.
pub(crate) fn id_text(id: FileId) -> String {
    format!("{:#018x}", id.fingerprint())
}

/// Parses a fingerprint, as reports show ids.
pub(crate) fn parse_fingerprint(text: &str) -> Result<FileId, String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16);
    // Checked first, because `from_str_radix` accepts a sign.
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let fingerprint = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let expected = || format!("expected a fingerprint, 0x and 16 hexadecimal digits, got '{text}'");
    fingerprint.map(FileId::from_fingerprint).ok_or_else(expected)
}

/// A file that a map may cover.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) found: Found,
    is_list: bool,
}

/// A file whose id is known, and whose keys can be read.
pub(crate) struct OpenSource {
    pub(crate) id: FileId,
    keys: Keys,
}

enum Keys {
    Table(Opened),
    List(PathBuf, KeysFormat),
}

impl Source {
    /// Returns the tables among files, with what may have been one, and the paths of the others.
    pub(crate) fn tables(files: &[Found]) -> (Vec<Self>, Vec<&Path>) {
        let (tables, others): (Vec<_>, Vec<_>) = files.iter().partition(|found| may_be_table(&found.path));
        let tables = tables.into_iter().map(|found| Self { found: found.clone(), is_list: false });
        (tables.collect(), others.into_iter().map(|found| found.path.as_path()).collect())
    }

    pub(crate) fn is_list(&self) -> bool {
        self.is_list
    }

    /// Returns the lists of keys of files and directories, each once.
    pub(crate) fn lists(paths: &[PathBuf]) -> anyhow::Result<Vec<Self>> {
        let (mut lists, mut met) = (Vec::new(), HashSet::new());
        for path in paths {
            ensure!(!input::is_standard(path), "standard input: expected a file of keys, because its id needs a name");
            let files = if is_directory(path)? { list(path)? } else { vec![path.clone()] };
            for path in files {
                let canonical = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                if !is_leftover(&path) && met.insert(canonical) {
                    lists.push(Self { found: Found::alone(&path), is_list: true });
                }
            }
        }
        Ok(lists)
    }

    pub(crate) fn bytes(&self) -> u64 {
        input::length(&self.found.path).unwrap_or(0)
    }

    pub(crate) fn open(&self, context: &Context) -> Result<OpenSource, Problem> {
        let path = &self.found.path;
        if self.is_list {
            return Ok(OpenSource { id: id_of_list(path)?, keys: Keys::List(path.clone(), context.keys_format) });
        }
        let opened = open(&self.found, context)?;
        Ok(OpenSource { id: file_id(&opened)?, keys: Keys::Table(opened) })
    }

    /// Returns the hasher of a table of this library; `None` for other files, and for tables that cannot be opened.
    pub(crate) fn own_hasher(&self, context: &Context) -> anyhow::Result<Option<KeyHasher>> {
        // Looked at first: a store may have 100,000 tables of another engine.
        let is_own = !self.is_list && matches!(look_at(&self.found.path), Ok(Format::Table));
        let opened = is_own.then(|| open(&self.found, context).ok()).flatten();
        let Some(Opened { body: Body::Table(table), .. }) = opened else { return Ok(None) };
        let (described, hasher) = (table.properties().filters.hash_identity(), table.store().filters().hasher());
        let name = input::name(&self.found.path);
        let is_known = hasher.identity() == described;
        ensure!(is_known, "{name}: its keys are hashed by {described}: pass the seed with --secret-seed-file");
        Ok(Some(hasher.clone()))
    }

    /// Returns the id of the file and the hashes of all its keys. Refuses tables that a map must not cover.
    pub(crate) fn hashes(&self, hasher: &KeyHasher, context: &Context) -> Result<(FileId, Vec<KeyHash>), Problem> {
        let open = self.open(context)?;
        if let Keys::Table(opened) = &open.keys
            && let Some(why) = why_not_mapped(opened)
        {
            return Err(Problem::new(
                State::Unusable,
                anyhow!("{}: {why}: always read it", input::name(&self.found.path)),
            ));
        }
        let mut hashes = Vec::new();
        open.for_each_key(&mut |key| {
            hashes.push(hasher.hash(key));
            ControlFlow::Continue(())
        })?;
        hashes.shrink_to_fit();
        Ok((open.id, hashes))
    }
}

/// Returns why lookups must read a table whatever a map says.
pub(crate) fn why_not_mapped(opened: &Opened) -> Option<String> {
    let Body::Foreign(table, stated) = &opened.body else { return None };
    if table.has_range_tombstones() {
        return Some("it has range tombstones, which a map does not know".to_owned());
    }
    let name = table.properties().comparator().or(stated.as_ref().map(|stated| stated.name.as_str()));
    let Some(name) = name else { return Some("its comparator is unknown: state it with --comparator".to_owned()) };
    // These may end in the name of a suffix that is no part of the key.
    let is_bytewise = ["leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator"];
    let is_bytewise = is_bytewise.iter().any(|bytewise| name.starts_with(bytewise));
    (!is_bytewise)
        .then(|| format!("its comparator {name:?} may treat different bytes as one key, which a map does not know"))
}

impl OpenSource {
    /// Calls `visit` with each key until it breaks.
    pub(crate) fn for_each_key(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> anyhow::Result<()> {
        match &self.keys {
            Keys::Table(opened) => for_each_key(opened, visit),
            Keys::List(path, format) => {
                let lines = KeyLines::read(path, *format, "--key-lists")?;
                let _ = lines.iter().try_for_each(|(key, _)| visit(key));
                Ok(())
            }
        }
    }
}

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
