//! The files that a command is about: those that were passed, and those of directories and databases.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, bail};

use super::database::{Database, EngineFile, REPLACED, Standing, directory_of, is_not_found};
use super::look::{Format, list, look_at};
use super::names::{engine_number, has_table_extension, is_leftover, is_named_like_table, table_of_sidecar};
use super::problem::{ORPHAN, Problem, explained};
use crate::system::input;
use crate::words::group;
use crate::words::units::counted;

/// A file, and what its database says about it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The database of its directory, if that is one.
    pub(crate) database: Option<Arc<Database>>,
    pub(crate) standing: Standing,
}

impl Found {
    /// Returns the file at `path` as if its directory was no database.
    pub(crate) fn alone(path: &Path) -> Self {
        Self { path: path.to_owned(), database: None, standing: Standing::Unknown }
    }

    /// Returns the column family that the manifest names.
    pub(crate) fn family(&self) -> Option<&str> {
        let Standing::Live(file) = &self.standing else { return None };
        self.database.as_ref()?.family(file)
    }

    /// Returns the level that the manifest names.
    pub(crate) fn level(&self) -> Option<u32> {
        match &self.standing {
            Standing::Live(file) => Some(file.level),
            Standing::Unknown | Standing::NotLive(_) => None,
        }
    }
}

/// The files that paths lead to, each once.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The files that were passed, and the tables and filter blocks of directories.
    pub(crate) files: Vec<Found>,
    /// Tables that their database does not use. No figure counts them.
    pub(crate) not_live: Vec<Found>,
    /// Files of databases that are no tables.
    pub(crate) engine_files: BTreeMap<EngineFile, u64>,
    /// Bytes of logs, which may have entries that no table has yet.
    log_bytes: u64,
    /// Sidecars whose tables are gone. No reader uses them.
    pub(crate) orphans: Vec<PathBuf>,
    /// Other files of directories.
    pub(crate) others: Vec<PathBuf>,
    /// Manifests that cannot be read.
    pub(crate) problems: Vec<(PathBuf, Problem)>,
    pub(crate) databases: Vec<Arc<Database>>,
}

impl Walk {
    /// Finds the files. Tables and filter blocks are recognized by their bytes, or by their name if they were cut
    /// short. A sidecar next to its table is not listed: it is reported with the table.
    pub(crate) fn of(paths: &[PathBuf]) -> anyhow::Result<Self> {
        if paths.iter().all(|path| is_directory(path).is_err()) {
            paths.first().map(|path| is_directory(path)).transpose()?;
        }
        Self::of_any(paths)
    }

    /// Like [`of`](Self::of), even if all paths are gone.
    fn of_any(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut walker = Walker::default();
        paths.iter().try_for_each(|path| walker.add(path))?;
        let Walker { mut walk, whole, .. } = walker;
        walk.add_unlisted(Some(&whole));
        // Whoever passes a file by its name asks about it: what replaced a table may not be among these. A table that
        // is being written is none yet, unless there is no other.
        let is_named = |path: &Path| directory_of(path).is_some_and(|directory| !whole.contains(&canonical(directory)));
        let is_alone = walk.files.is_empty();
        let is_meant = |found: &mut Found| {
            let is_complete = || !matches!(look_at(&found.path), Ok(Format::Other));
            let is_replaced = matches!(found.standing, Standing::NotLive(REPLACED));
            is_named(&found.path) && (is_alone || is_replaced || is_complete())
        };
        walk.files.extend(walk.not_live.extract_if(.., is_meant).collect::<Vec<_>>());
        let others: Vec<_> = walk.others.extract_if(.., |path| is_named(path)).collect();
        walk.files.extend(others.iter().map(|path| Found::alone(path)));
        Ok(walk)
    }

    /// Walks again, because a running engine has removed tables since, and adds and returns the files that are new:
    /// also those that have replaced a table that was passed by its name.
    pub(crate) fn walk_again(&mut self, paths: &[PathBuf]) -> anyhow::Result<Vec<Found>> {
        let known: HashSet<_> = self.files.iter().map(|found| found.path.clone()).collect();
        let mut newer = Self::of_any(paths)?;
        newer.add_unlisted(None);
        newer.files.retain(|found| !known.contains(&found.path));
        self.files.extend(newer.files.iter().cloned());
        self.problems.append(&mut newer.problems);
        Ok(newer.files)
    }

    /// Adds live tables that no directory has listed: a running engine has just written them, or they are gone. They
    /// may have keys. `whole` are the databases that are meant, if not all.
    fn add_unlisted(&mut self, whole: Option<&HashSet<PathBuf>>) {
        let is_meant =
            |database: &&Arc<Database>| whole.is_none_or(|all| all.contains(&canonical(&database.directory)));
        for database in self.databases.iter().filter(is_meant) {
            let is_here = |found: &&Found| found.database.as_ref().is_some_and(|other| Arc::ptr_eq(other, database));
            let numbers = self.files.iter().filter(is_here).filter_map(|found| engine_number(&found.path)).collect();
            let found = |(path, standing)| Found { path, database: Some(Arc::clone(database)), standing };
            let unlisted: Vec<_> = database.others(&numbers).into_iter().map(found).collect();
            self.files.extend(unlisted);
        }
    }

    /// Fails if there is nothing but orphans.
    pub(crate) fn ensure_files(&self) -> anyhow::Result<()> {
        if let ([], [orphan, ..]) = (&self.files[..], &self.orphans[..]) {
            bail!("no table, only orphans: {}: {ORPHAN}", input::name(orphan));
        }
        Ok(())
    }

    /// Returns what is wrong with manifests.
    pub(crate) fn problem_lines(&self) -> Vec<String> {
        let line =
            |(path, problem): &(PathBuf, Problem)| format!("{}: {}", input::name(path), explained(&problem.reason));
        self.problems.iter().map(line).collect()
    }

    /// Returns what a command says about files that it does not count: one line for each sort of files.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut add = |what: &str, paths: Vec<&Path>| {
            let names: Vec<_> = paths.into_iter().map(input::name).collect();
            if !names.is_empty() {
                notes.push(group::line(what, "file", &names));
            }
        };
        let why = |found: &&Found| match found.standing {
            Standing::NotLive(why) => why,
            Standing::Unknown | Standing::Live(_) => "",
        };
        for (why, files) in group::by(&self.not_live, |found| why(&found)) {
            let what = format!("not in the live version of the database, so not counted: {why}");
            add(&what, files.into_iter().map(|found| found.path.as_path()).collect());
        }
        add(&format!("orphan: {ORPHAN}"), self.orphans.iter().map(AsRef::as_ref).collect());
        if self.files.is_empty() && !self.databases.is_empty() {
            notes.push("no tables: the database is empty, or all of its data is in the log".to_owned());
        }
        let engine_files = EngineFile::line(&self.engine_files);
        notes.extend(engine_files.map(|files| format!("files of the engine, not tables: {files}")));
        notes.extend(self.unread_log());
        notes
    }

    /// Returns a line on logs that have entries.
    pub(crate) fn unread_log(&self) -> Option<String> {
        let bytes = Some(self.log_bytes).filter(|bytes| *bytes > 0).map(|bytes| counted(bytes, "byte"))?;
        Some(format!("the log has {bytes} that were not read: it may have the newest entries"))
    }
}

#[derive(Default)]
struct Walker {
    walk: Walk,
    /// Two paths may lead to one file, as `DIR` and `DIR/000001.sst` do.
    met: HashSet<PathBuf>,
    /// Files that do not count, by their own names.
    passed_over: HashSet<PathBuf>,
    by_directory: HashMap<PathBuf, Option<Arc<Database>>>,
    /// Directories that were passed, or of which files were that only `DB/*` passes.
    whole: HashSet<PathBuf>,
}

impl Walker {
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_directory = match is_directory(path) {
            // Opening it says so, unless a running engine has removed it since a shell listed it.
            Err(error) if is_not_found(&error) => is_directory(path).unwrap_or(false),
            is_directory => is_directory?,
        };
        if !is_directory {
            self.add_file(path, true);
            return Ok(());
        }
        self.whole.insert(canonical(path));
        // A directory that comes again would add its other files again.
        if !self.is_first(path) {
            return Ok(());
        }
        let files = list(path)?;
        // Only now: see `Database::read`.
        let is_database = self.database_in(path).is_some();
        let was_met = files.iter().any(|file| self.met.contains(&canonical(file)));
        let (found, others) = (self.found(), self.walk.others.len());
        files.iter().for_each(|file| self.add_file(file, false));
        if is_database || was_met || self.found() > found {
            return Ok(());
        }
        let below = directories_below(path);
        if !below.is_empty() {
            let (name, below) = (input::name(path), group::named(&below));
            bail!("{name}: no table here, but in directories below it: pass {below}");
        }
        let others = match self.walk.others.len() - others {
            0 => "it is empty".to_owned(),
            others => counted(others as u64, "other file"),
        };
        bail!("{}: no table and no filter ({others})", input::name(path))
    }

    /// Returns the number of files that are tables or filters.
    fn found(&self) -> usize {
        self.walk.files.len() + self.walk.not_live.len() + self.walk.orphans.len()
    }

    fn add_file(&mut self, path: &Path, is_passed: bool) {
        let database = directory_of(path).and_then(|directory| self.database_in(directory));
        let engine_file = database.as_ref().and_then(|_| EngineFile::of_name(path));
        let role = Role::of(path);
        // A sidecar is reported with its table, unless it was passed. A running engine may have removed a file.
        let is_removed = || fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let is_gone = || !is_passed && role == Role::File && !is_named_like_table(path) && is_removed();
        if (role == Role::Sidecar && !is_passed) || is_gone() {
            return;
        }
        let standing = database.as_ref().map_or(Standing::Unknown, |database| standing(database, path));
        let is_live = !matches!(standing, Standing::NotLive(_));
        // What does not count must not hide the file that a link leads to.
        let is_first = if is_live { self.is_first(path) } else { self.passed_over.insert(path_in_directory(path)) };
        if !is_first {
            return;
        }
        let is_meant = is_passed && database.is_none();
        if let Some(file) = engine_file {
            self.whole.extend(directory_of(path).map(canonical));
            *self.walk.engine_files.entry(file).or_default() += 1;
            let is_log = file == EngineFile::Wal;
            self.walk.log_bytes += if is_log { input::length(path).unwrap_or_default() } else { 0 };
        } else if role == Role::Orphan {
            self.walk.orphans.push(path.to_owned());
        } else if role == Role::Other && !is_meant {
            self.walk.others.push(path.to_owned());
        } else {
            let files = if is_live { &mut self.walk.files } else { &mut self.walk.not_live };
            files.push(Found { path: path.to_owned(), database, standing });
        }
    }

    /// Returns the database in a directory, which is read once.
    fn database_in(&mut self, directory: &Path) -> Option<Arc<Database>> {
        let canonical = canonical(directory);
        if let Some(database) = self.by_directory.get(&canonical) {
            return database.clone();
        }
        let database = Database::is_in(directory).then(|| {
            let (database, problem) = Database::read(directory);
            self.walk.problems.extend(problem);
            Arc::new(database)
        });
        self.walk.databases.extend(database.clone());
        self.by_directory.insert(canonical, database.clone());
        database
    }

    /// Whether the file at `path` is met for the first time.
    fn is_first(&mut self, path: &Path) -> bool {
        self.met.insert(canonical(path))
    }
}

/// Returns the names of the directories in a directory that have tables or a database.
fn directories_below(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_table = |path: &PathBuf| {
        let mut files = fs::read_dir(path).into_iter().flatten().flatten();
        Database::is_in(path) || files.any(|file| is_named_like_table(&file.path()))
    };
    let mut names: Vec<_> = entries.filter(has_table).map(|path| input::name(&path).into_owned()).collect();
    names.sort();
    names
}

fn canonical(path: &Path) -> PathBuf {
    // Standard input and missing files have no canonical path.
    let canonical = fs::canonicalize(path).ok().filter(|_| !input::is_standard(path));
    canonical.unwrap_or_else(|| path.to_owned())
}

/// Returns the path of a file in the canonical path of its directory.
fn path_in_directory(path: &Path) -> PathBuf {
    let directory = directory_of(path).map(canonical).unwrap_or_default();
    path.file_name().map_or_else(|| directory.clone(), |name| directory.join(name))
}

/// Returns what the manifest says about a file. It knows only the tables of its engine: a table of this library, or a
/// filter without a table, beside them is not live, nor is it a rest.
fn standing(database: &Database, path: &Path) -> Standing {
    let standing = database.standing(path);
    let is_of_engine = || is_named_like_table(path) && !matches!(look_at(path), Ok(Format::Table));
    if matches!(standing, Standing::Live(_)) || is_of_engine() { standing } else { Standing::Unknown }
}

/// Whether the path is that of a directory, and not of a file or standard input.
pub(crate) fn is_directory(path: &Path) -> anyhow::Result<bool> {
    let metadata = || fs::metadata(path).with_context(|| format!("cannot read {}", input::name(path)));
    Ok(!input::is_standard(path) && metadata()?.is_dir())
}

/// The role of a file in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A table, a filter without a table, or a map.
    File,
    /// A sidecar next to its table, which is reported together with the table.
    Sidecar,
    Orphan,
    Other,
}

impl Role {
    fn of(file: &Path) -> Self {
        // The name comes first: a file that was cut short has lost the bytes that identify it.
        if is_named_like_table(file) || input::is_standard(file) {
            return Self::File;
        }
        let look = look_at(file).ok();
        let is_sidecar = look == Some(Format::Sidecar);
        match table_of_sidecar(file) {
            Some(table) if table.is_file() && (is_sidecar || has_table_extension(&table)) => Self::Sidecar,
            Some(table) if is_sidecar || (look == Some(Format::Other) && has_table_extension(&table)) => Self::Orphan,
            None if is_leftover(file) || look == Some(Format::Other) => Self::Other,
            // A filter block without a table may have any name.
            _ => Self::File,
        }
    }
}

/// Whether the file is a sidecar without its table.
pub(crate) fn is_orphan(file: &Path) -> bool {
    Role::of(file) == Role::Orphan
}
