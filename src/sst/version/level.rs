//! The tables of one level.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::VersionError;
use super::chunk::{Chunk, LEAST_TABLES};
use crate::key_head::KeyHeads;
use crate::sst::Table;
use crate::sst::key_bounds::{KeyBounds, is_beyond};

/// The level whose tables may overlap.
pub(super) const OVERLAPPING: u32 = 0;

/// The tables of a level: at level 0 from the newest to the oldest, at every other in the order of their keys, after
/// those without entries.
#[derive(Debug)]
pub(super) struct Level {
    number: u32,
    chunks: Vec<Arc<Chunk>>,
    /// The smallest keys of the chunks; none at level 0.
    fences: KeyHeads,
}

/// What an edit does to one level.
#[derive(Debug, Default)]
pub(super) struct LevelChange {
    pub(super) removed: Vec<Arc<Table>>,
    /// The later are newer.
    pub(super) added: Vec<Arc<Table>>,
    /// Tables, and what takes their places.
    pub(super) replaced: Vec<(Arc<Table>, Arc<Table>)>,
}

/// The tables that chunks are to have, by the positions of these chunks.
type Touched = BTreeMap<usize, Vec<Arc<Table>>>;

impl Level {
    pub(super) fn empty(number: u32) -> Self {
        Self { number, chunks: Vec::new(), fences: KeyHeads::default() }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.chunks.iter().flat_map(|chunk| chunk.tables())
    }

    /// The tables that have `key` in their range, the newest first: at most one, except at level 0.
    #[inline]
    pub(super) fn holding<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        let (overlapping, sorted) =
            if self.is_overlapping() { (self.chunks(), None) } else { (&[][..], self.find(key)) };
        overlapping.iter().flat_map(move |chunk| chunk.holding(key)).chain(sorted)
    }

    /// Whether its tables may overlap.
    pub(super) fn is_overlapping(&self) -> bool {
        self.number == OVERLAPPING
    }

    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// The one table of a sorted level that has `key` in its range.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<&Arc<Table>> {
        self.chunks.get(self.chunk_of(Some(key)))?.holding(key).next()
    }

    /// The tables that may have a key within `bounds` in their range, in the level's order.
    pub(super) fn meeting(&self, bounds: KeyBounds) -> impl Iterator<Item = &Arc<Table>> {
        let is_sorted = !self.is_overlapping();
        let first = if is_sorted { self.chunk_of(Some(bounds.start())) } else { 0 };
        let upper = bounds.upper().clone();
        let is_beyond =
            move |chunk: &Arc<Chunk>| is_sorted && chunk.smallest_key().is_some_and(|key| is_beyond(&upper, key));
        let chunks = self.chunks.get(first..).unwrap_or_default();
        chunks.iter().take_while(move |chunk| !is_beyond(chunk)).flat_map(move |chunk| chunk.meeting(bounds.clone()))
    }

    /// The chunk of a sorted level in which a table of this smallest key is: the last that does not begin above it.
    #[inline]
    fn chunk_of(&self, smallest: Option<&[u8]>) -> usize {
        let begins_before =
            |position: usize| self.chunks.get(position).is_some_and(|chunk| chunk.smallest_key() <= smallest);
        self.fences.partition_point(smallest.unwrap_or_default(), begins_before).saturating_sub(1)
    }

    /// The level after a change.
    pub(super) fn edited(&self, change: LevelChange) -> Result<Self, VersionError> {
        let mut touched = Touched::new();
        for table in &change.removed {
            self.touch_chunk_with(table, &mut touched).retain(|other| !Arc::ptr_eq(other, table));
        }
        for (old, _) in &change.replaced {
            self.touch_chunk_with(old, &mut touched);
        }
        // In one pass: what takes a place may be what leaves another one.
        let replaced: HashMap<_, _> = change.replaced.iter().map(|(old, new)| (Arc::as_ptr(old), new)).collect();
        for table in touched.values_mut().flatten() {
            if let Some(&new) = replaced.get(&Arc::as_ptr(table)) {
                *table = new.clone();
            }
        }
        self.insert(change.added, &mut touched);
        let chunks = self.recut(touched)?;
        let smallest_keys = chunks.iter().map(|chunk| chunk.smallest_key());
        let fences = if self.is_overlapping() { KeyHeads::default() } else { KeyHeads::new(smallest_keys) };
        Ok(Self { number: self.number, chunks, fences })
    }

    /// The tables of the chunk that has `table`.
    fn touch_chunk_with<'a>(&self, table: &Arc<Table>, touched: &'a mut Touched) -> &'a mut Vec<Arc<Table>> {
        let has_it = |chunk: &Arc<Chunk>| chunk.tables().iter().any(|other| Arc::ptr_eq(other, table));
        // In a sorted level it is where its key says, unless it has none and there are many of those.
        let likely = self.chunk_of(smallest_key(table));
        let position = match self.chunks.get(likely) {
            Some(chunk) if has_it(chunk) => likely,
            _ => self.chunks.iter().position(has_it).unwrap_or(likely),
        };
        self.touch(position, touched)
    }

    fn touch<'a>(&self, position: usize, touched: &'a mut Touched) -> &'a mut Vec<Arc<Table>> {
        let tables = || self.chunks.get(position).map(|chunk| chunk.tables().to_vec()).unwrap_or_default();
        touched.entry(position).or_insert_with(tables)
    }

    fn insert(&self, added: Vec<Arc<Table>>, touched: &mut Touched) {
        if added.is_empty() {
            return;
        }
        if self.is_overlapping() {
            self.touch(0, touched).splice(0..0, added.into_iter().rev());
            return;
        }
        for table in added {
            self.touch(self.chunk_of(smallest_key(&table)), touched).push(table);
        }
        for tables in touched.values_mut() {
            tables.sort_by(|one, other| smallest_key(one).cmp(&smallest_key(other)));
        }
    }

    /// All chunks, of which those that were touched are cut again. Touched neighbours are cut together, and with a
    /// further neighbour if they are few.
    fn recut(&self, mut touched: Touched) -> Result<Vec<Arc<Chunk>>, VersionError> {
        let (mut chunks, mut run) = (Vec::with_capacity(self.chunks.len() + 1), Vec::new());
        for (position, chunk) in self.chunks.iter().enumerate() {
            match touched.remove(&position) {
                Some(tables) => run.extend(tables),
                None if (1..LEAST_TABLES).contains(&run.len()) => run.extend_from_slice(chunk.tables()),
                None => {
                    self.cut_into(&mut chunks, &mut run, chunk.tables().first())?;
                    chunks.push(chunk.clone());
                }
            }
        }
        // The first chunk of a level.
        run.extend(touched.into_values().flatten());
        self.cut_into(&mut chunks, &mut run, None)?;
        Ok(chunks)
    }

    /// Appends the tables of `run` to `chunks`; `next` follows them.
    fn cut_into(
        &self,
        chunks: &mut Vec<Arc<Chunk>>,
        run: &mut Vec<Arc<Table>>,
        next: Option<&Arc<Table>>,
    ) -> Result<(), VersionError> {
        if run.is_empty() {
            return Ok(());
        }
        if run.len() < LEAST_TABLES
            && let Some(before) = chunks.pop()
        {
            run.splice(0..0, before.tables().iter().cloned());
        }
        let before = chunks.last().and_then(|chunk| chunk.tables().last());
        self.check_order(before.into_iter().chain(run.iter()).chain(next))?;
        let new = if self.is_overlapping() { Chunk::overlapping } else { Chunk::sorted };
        chunks.extend(Chunk::cut(run, new).map(Arc::new));
        run.clear();
        Ok(())
    }

    /// An error if neighbours overlap where they must not. A table may begin where the one before it ends at no level
    /// but 0: the key could be in both.
    fn check_order<'a>(&self, tables: impl Iterator<Item = &'a Arc<Table>> + Clone) -> Result<(), VersionError> {
        if self.is_overlapping() {
            return Ok(());
        }
        let overlaps = |(left, right): &(&Arc<Table>, &Arc<Table>)| {
            let largest = left.properties().largest_key.as_deref();
            largest.is_some() && largest >= smallest_key(right)
        };
        match tables.clone().zip(tables.skip(1)).find(overlaps) {
            None => Ok(()),
            Some((left, right)) => {
                Err(VersionError::Overlap { level: self.number, tables: [*left.table_id(), *right.table_id()] })
            }
        }
    }
}

/// `None` without entries, which is below every key.
fn smallest_key(table: &Table) -> Option<&[u8]> {
    table.properties().smallest_key.as_deref()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sst::{ReadOptions, TableBuilder, TableOptions};

    /// A table of one key; of none for an odd number below 100.
    fn table(number: usize) -> Arc<Table> {
        let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().without_filter()).unwrap();
        if number >= 100 || number.is_multiple_of(2) {
            builder.add(format!("{number:06}").as_bytes(), b"").unwrap();
        }
        Arc::new(Table::open_source(Bytes::from(builder.finish().unwrap().0), &ReadOptions::default()).unwrap())
    }

    fn added(level: &Level, tables: &[Arc<Table>]) -> Level {
        level.edited(LevelChange { added: tables.to_vec(), ..LevelChange::default() }).unwrap()
    }

    fn removed(level: &Level, tables: &[Arc<Table>]) -> Level {
        level.edited(LevelChange { removed: tables.to_vec(), ..LevelChange::default() }).unwrap()
    }

    fn new_chunks(before: &Level, after: &Level) -> usize {
        let is_new = |chunk: &&Arc<Chunk>| !before.chunks.iter().any(|other| Arc::ptr_eq(other, chunk));
        after.chunks.iter().filter(is_new).count()
    }

    #[test]
    fn an_edit_rebuilds_the_chunks_that_it_touches_and_shares_all_others() {
        let tables: Vec<_> = (100..2_100).map(table).collect();
        for number in [OVERLAPPING, 4] {
            let full = added(&Level::empty(number), &tables);
            assert_eq!(full.chunks.len(), 2_000_usize.div_ceil(64));
            for position in [0, 1, 63, 64, 1_000, 1_999] {
                let fewer = removed(&full, &tables[position..=position]);
                assert_eq!((new_chunks(&full, &fewer), fewer.tables().count()), (1, 1_999));
                let again = added(&fewer, &tables[position..=position]);
                assert!(new_chunks(&fewer, &again) <= 2);
            }
            let apart: Vec<_> = tables.iter().step_by(400).cloned().collect();
            assert_eq!(new_chunks(&full, &removed(&full, &apart)), apart.len());
        }
    }

    #[test]
    fn chunks_stay_between_half_and_whole_size_and_hold_every_table_in_order() {
        let all: Vec<_> = (0..1_000).map(table).collect();
        let (mut level, mut present) = (Level::empty(1), vec![false; all.len()]);
        for step in 0..200_usize {
            // Runs of tables that come and go, larger ones and smaller ones.
            let (start, size) = (step * 7_919 % all.len(), 1 + step * 31 % [3, 40, 300][step % 3]);
            let positions: Vec<_> = (start..all.len().min(start + size)).collect();
            let of = |is_there: bool| -> Vec<Arc<Table>> {
                positions.iter().filter(|&&at| present[at] == is_there).map(|&at| all[at].clone()).collect()
            };
            let change = if step % 5 == 4 {
                LevelChange { removed: of(true), ..LevelChange::default() }
            } else {
                LevelChange { added: of(false), ..LevelChange::default() }
            };
            level = level.edited(change).unwrap();
            positions.iter().for_each(|&at| present[at] = step % 5 != 4);

            let sizes: Vec<_> = level.chunks.iter().map(|chunk| chunk.tables().len()).collect();
            assert!(sizes.len() < 2 || sizes.iter().all(|size| (32..=64).contains(size)), "{sizes:?}");
            let expected = |at: &usize| present[*at];
            assert_eq!(level.tables().count(), (0..all.len()).filter(expected).count());
            assert!(level.tables().map(|table| smallest_key(table)).is_sorted());
            for at in (0..all.len()).filter(|at| at.is_multiple_of(2) || *at >= 100) {
                let key = format!("{at:06}");
                let found: Vec<_> = level.holding(key.as_bytes()).collect();
                assert_eq!(found.len(), usize::from(present[at]), "{at}");
                assert!(found.iter().all(|table| Arc::ptr_eq(table, &all[at])));
            }
        }
        assert!(level.chunks.len() > 4);
    }
}
