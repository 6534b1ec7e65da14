//! What changes from one version to the next.

use std::sync::Arc;

use crate::sst::{Table, TableId};

/// Tables that come and go at once: what a flush or a compaction does to a store.
///
/// All removals of an edit come before its additions, in whatever order they were called. So a table moves to another
/// level, or makes place for one of the same range, within one edit.
///
/// At level 0 the order of tables is their age. Added tables are newer than those that are there, and of two that one
/// edit adds, the later is the newer. A table that is removed and added again at level 0 keeps its place, and
/// [`replace`](Self::replace) gives its place to another table.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use sstfilter::sst::{ReadOptions, Table, TableBuilder, TableOptions, VersionEdit, VersionSet};
///
/// let table = |key: &[u8], value: &[u8]| -> Result<Arc<Table>, sstfilter::sst::TableError> {
///     let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default())?;
///     builder.add(key, value)?;
///     Ok(Arc::new(Table::open_source(Bytes::from(builder.finish()?.0), &ReadOptions::default())?))
/// };
/// let (old, new) = (table(b"apple", b"1")?, table(b"apple", b"2")?);
/// let set = VersionSet::new();
/// set.apply(VersionEdit::new().add(0, old.clone()).add(0, new.clone()))?;
/// assert_eq!(set.current().get(b"apple")?, Some(Bytes::from_static(b"2")));
///
/// // A compaction: both tables become one at level 1.
/// let merged = table(b"apple", b"2")?;
/// let edit = VersionEdit::new().remove(0, *old.table_id()).remove(0, *new.table_id()).add(1, merged);
/// let version = set.apply(edit)?;
/// assert_eq!((version.tables(0).count(), version.tables(1).count()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VersionEdit {
    /// Levels and ids.
    pub(super) removed: Vec<(u32, TableId)>,
    /// Levels and tables, in the order of calls.
    pub(super) added: Vec<(u32, Arc<Table>)>,
    /// Levels, ids, and the tables that take their places.
    pub(super) replaced: Vec<(u32, TableId, Arc<Table>)>,
}

impl VersionEdit {
    /// An edit that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a table to a level; at level 0 it becomes the newest.
    #[must_use]
    pub fn add(mut self, level: u32, table: Arc<Table>) -> Self {
        self.added.push((level, table));
        self
    }

    /// Removes a table from the level where it is.
    #[must_use]
    pub fn remove(mut self, level: u32, table: TableId) -> Self {
        self.removed.push((level, table));
        self
    }

    /// Removes a table, and adds another in its place. At level 0 that is its age: where neighbours are merged into one
    /// table, replace one of them by it and remove the others. A table that was opened again may have the old one's id.
    #[must_use]
    pub fn replace(mut self, level: u32, table: TableId, by: Arc<Table>) -> Self {
        self.replaced.push((level, table, by));
        self
    }

    /// Whether the edit changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.replaced.is_empty()
    }

    /// The tables that leave their places.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (u32, TableId)> {
        self.removed.iter().copied().chain(self.replaced.iter().map(|&(level, id, _)| (level, id)))
    }

    /// The tables that get places.
    pub(super) fn joining(&self) -> impl Iterator<Item = (u32, &Arc<Table>)> {
        let replaced = self.replaced.iter().map(|(level, _, table)| (*level, table));
        self.added.iter().map(|(level, table)| (*level, table)).chain(replaced)
    }
}
