//! The current version, and how the next is made.

use core::fmt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use super::level::{LevelChange, OVERLAPPING};
use super::snapshot::Version;
use super::{VersionEdit, VersionError};
use crate::error::BlockError;
use crate::panics::lock;
use crate::sst::reader::Reader;
use crate::sst::{Table, TableId, TableStats};

/// The tables of a store, which change while they are read.
///
/// Readers take the [`current`](Self::current) [`Version`] and never wait, neither for an edit nor for each other. Two
/// reads of one version see the same tables; two reads of a set may see two versions, and so a state between them that
/// the store never had. Edits are applied one after the other.
///
/// What leaves the set is closed when the last version that has it is dropped, by whichever thread drops that.
///
/// [`VersionEdit`] has an example.
pub struct VersionSet {
    current: ArcSwap<Version>,
    writer: Mutex<Writer>,
}

/// What only edits need.
#[derive(Default)]
struct Writer {
    /// Where each table of the current version is.
    places: HashMap<TableId, Place>,
    /// Why no filter is used, if none is.
    problem: Option<BlockError>,
    /// What tables had counted when they left.
    left: TableStats,
    /// What tables had counted when they came.
    joined: TableStats,
}

#[derive(Clone)]
struct Place {
    level: u32,
    table: Arc<Table>,
}

impl VersionSet {
    /// A set without tables.
    #[must_use]
    pub fn new() -> Self {
        Self { current: ArcSwap::from_pointee(Version::default()), writer: Mutex::default() }
    }

    /// The current version. It stays as it is while the caller keeps it, and so do its tables.
    ///
    /// All threads that take the version count its owners in one place. For single lookups, [`read`](Self::read) takes
    /// less.
    #[must_use]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Reads the current version.
    ///
    /// ```
    /// use sstfilter::sst::VersionSet;
    ///
    /// let set = VersionSet::new();
    /// assert_eq!(set.read(|version| version.get(b"apple"))?, None);
    /// # Ok::<(), sstfilter::sst::TableError>(())
    /// ```
    pub fn read<T>(&self, read: impl FnOnce(&Version) -> T) -> T {
        read(&self.current.load())
    }

    /// Makes the version after `edit` the current one, and returns it. It shares with the one before what the edit does
    /// not touch.
    ///
    /// All tables of a version must have been opened for a hash of one identity, and extractors of the same names. If a
    /// filter nevertheless lacks a key of its own table, the hasher or an extractor is not what its identity or name
    /// says. From then on no version of the set uses filters: [`Version::filter_problem`] says so.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; the set has not changed then.
    pub fn apply(&self, edit: VersionEdit) -> Result<Arc<Version>, VersionError> {
        let mut writer = lock(&self.writer);
        let current = self.current();
        writer.check_ids(&edit)?;
        let reader = writer.reader_after(&edit, current.reader())?;
        let problem = writer.problem_after(&edit);
        let version = Arc::new(current.edited(writer.changes(&edit), reader, problem)?);
        let left = writer.commit(&edit, version.filter_problem());
        let before = self.current.swap(version.clone());
        drop(writer);
        // Only now: closing files takes time, and a caller's source may do anything when it is dropped.
        drop((left, before, current, edit));
        Ok(version)
    }

    /// What the tables have counted while they were in the set, those that have left it included. Versions that are
    /// older than the current one may still be read: what tables count for these after they have left is missing. Edits
    /// wait meanwhile.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let writer = lock(&self.writer);
        self.current().stats().merged(&writer.left).since(&writer.joined)
    }
}

impl Writer {
    /// An error unless each table that leaves is where the edit says, once, and each that comes has an id of its own.
    fn check_ids(&self, edit: &VersionEdit) -> Result<(), VersionError> {
        let mut leaving = HashSet::new();
        for (level, table) in edit.leaving() {
            let is_there = self.places.get(&table).is_some_and(|place| place.level == level);
            if !is_there || !leaving.insert(table) {
                return Err(VersionError::NotAtLevel { level, table });
            }
        }
        let mut joining = HashMap::new();
        for (level, table) in edit.joining() {
            let table = *table.table_id();
            let staying = self.places.get(&table).filter(|_| !leaving.contains(&table)).map(|place| place.level);
            if let Some(level) = staying.or(joining.insert(table, level)) {
                return Err(VersionError::DuplicateId { level, table });
            }
        }
        Ok(())
    }

    /// The reader of the next version, which is that of all its tables.
    fn reader_after(&self, edit: &VersionEdit, current: &Reader) -> Result<Reader, VersionError> {
        let is_emptied = edit.leaving().count() == self.places.len();
        let first = edit.joining().next().filter(|_| is_emptied);
        let reader = first.map_or(current, |(_, table)| &table.reader);
        match edit.joining().find(|(_, table)| !table.reader.has_identity_of(reader)) {
            Some((_, table)) => Err(VersionError::MixedReaders { table: *table.table_id() }),
            None => Ok(reader.clone()),
        }
    }

    /// A hasher or extractor that was once found not to be what it says stays under suspicion: filters of other tables
    /// may contain the keys known of them by chance.
    fn problem_after(&self, edit: &VersionEdit) -> Option<BlockError> {
        let contradicting = || edit.joining().find(|(_, table)| table.contradicts(&table.reader));
        let found = || contradicting().map(|(_, table)| BlockError::KnownKeyAbsent { hash: table.hash_identity() });
        self.problem.clone().or_else(found)
    }

    /// What a checked edit does to each level.
    fn changes(&self, edit: &VersionEdit) -> BTreeMap<u32, LevelChange> {
        let mut changes = BTreeMap::<u32, LevelChange>::new();
        let mut removed: BTreeMap<(u32, TableId), Arc<Table>> =
            edit.removed.iter().filter_map(|&(level, id)| Some(((level, id), self.table(id)?))).collect();
        for (level, table) in &edit.added {
            let change = changes.entry(*level).or_default();
            // Removed and added again: the place is kept, too, where it is the table's age.
            let again = (*level == OVERLAPPING).then(|| removed.remove(&(*level, *table.table_id()))).flatten();
            match again {
                Some(old) => change.replaced.push((old, table.clone())),
                None => change.added.push(table.clone()),
            }
        }
        for (&(level, id, ref table), old) in edit.replaced.iter().filter_map(|by| Some((by, self.table(by.1)?))) {
            if level == OVERLAPPING {
                changes.entry(level).or_default().replaced.push((old, table.clone()));
            } else {
                removed.insert((level, id), old);
                changes.entry(level).or_default().added.push(table.clone());
            }
        }
        for ((level, _), table) in removed {
            changes.entry(level).or_default().removed.push(table);
        }
        changes
    }

    fn table(&self, id: TableId) -> Option<Arc<Table>> {
        self.places.get(&id).map(|place| place.table.clone())
    }

    /// Takes note of an edit that was applied. Returns what has left, to be dropped by the caller.
    fn commit(&mut self, edit: &VersionEdit, problem: Option<&BlockError>) -> Vec<Place> {
        self.problem = problem.cloned();
        let left: Vec<Place> = edit.leaving().filter_map(|(_, id)| self.places.remove(&id)).collect();
        self.left = left.iter().fold(self.left, |sum, place| sum.merged(&place.table.stats()));
        for (level, table) in edit.joining() {
            self.joined = self.joined.merged(&table.stats());
            self.places.insert(*table.table_id(), Place { level, table: table.clone() });
        }
        left
    }
}

impl Default for VersionSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionSet").field("current", &self.current()).finish_non_exhaustive()
    }
}
