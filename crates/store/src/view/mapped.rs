//! File maps of a view: which of the covered files may contain a key, and the files that no map covers.
//!
//! A view with maps has its files twice: all of them, for scans, and for lookups the covered ones by their positions in
//! the set of maps, and the others in levels of their own. Rejected: masks of covered files for the chunks of all
//! files, because each lookup would visit all chunks.

use core::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sstfilter::{BlockError, FileId, KeyHash};
use sstfilter_map::{Coverage, MapAnswer, MapError, MapJudge, SetMatch};

use super::level::{Edited, Level, LevelChange};
use super::{Covered, Order, Own};
use crate::chunk::Member;
use crate::config::Config;
use crate::file::FileFilters;
use crate::pages::{PageRead, Pages, ViewMap};

impl<F> Clone for Covered<F> {
    fn clone(&self) -> Self {
        Self { order: self.order, file: self.file.clone(), state: self.state.clone() }
    }
}

/// The maps of a view, and its files divided by whether one of them covers the file.
pub(crate) struct Mapped<F> {
    /// Maps in memory come first: a file that several maps cover is judged by the first.
    set: Arc<Coverage<ViewMap>>,
    /// The files by their positions in the set, in parts that views share. `None` for a file that has left.
    slots: Vec<Arc<[Option<Covered<F>>]>>,
    /// How many of them are files.
    covered: usize,
    /// Whether one of the maps that judge files is read by page.
    is_paged: bool,
    /// The levels with files that no map covers, without the others.
    pub(crate) uncovered: Arc<[Arc<Level<F>>]>,
    /// Counts when the view got the maps.
    pub(crate) false_reads_before: [u64; 2],
}

impl<F> Clone for Mapped<F> {
    fn clone(&self) -> Self {
        let Self { set, slots, covered, is_paged, uncovered, false_reads_before } = self;
        Self {
            set: set.clone(),
            slots: slots.clone(),
            covered: *covered,
            is_paged: *is_paged,
            uncovered: uncovered.clone(),
            false_reads_before: *false_reads_before,
        }
    }
}

/// Slots that are copied together when a file leaves.
const SLOTS: usize = 64;

impl<F> Level<F> {
    /// Returns the files with their states and ages.
    pub(crate) fn members(&self) -> impl Iterator<Item = Member<F>> {
        self.chunks().flat_map(|chunk| chunk.members())
    }
}

impl<F> Mapped<F> {
    /// Returns what a lookup reads, if a map is read by page.
    #[inline]
    pub(crate) fn pages_of(&self, hash: KeyHash) -> Option<Pages> {
        self.is_paged.then(|| Pages::new(hash))
    }

    /// Returns the covered files that may contain a key, the newest last; `None` if all may. For maps in memory.
    #[inline]
    pub(crate) fn files_of(&self, hash: KeyHash) -> Option<Vec<&Covered<F>>> {
        let (mut files, mut is_known) = (Vec::new(), true);
        for judge in self.set.judges() {
            if let Some(map) = judge.map().in_memory() {
                is_known &= self.add(judge, map.candidates(hash), |covered| files.push(covered));
            }
        }
        files.sort_unstable_by_key(|covered| Reverse(covered.order));
        is_known.then_some(files)
    }

    /// Returns the covered files that may contain each of many keys, with the position of the key: in the order of
    /// keys, the newest file of each last. `None` if all files may contain some key, or a map is read by page.
    pub(crate) fn files_of_each(&self, hashes: &[KeyHash]) -> Option<Vec<(usize, &Covered<F>)>> {
        if self.is_paged {
            return None;
        }
        let (mut files, mut is_known) = (Vec::new(), true);
        for judge in self.set.judges() {
            let Some(map) = judge.map().in_memory() else { continue };
            map.candidates_each(hashes, |key, found| {
                is_known &= self.add(judge, found, |covered| files.push((key, covered)));
            });
        }
        files.sort_unstable_by_key(|&(key, covered)| (key, Reverse(covered.order)));
        is_known.then_some(files)
    }

    /// Returns the reads that a lookup still needs.
    pub(crate) fn needed_pages(&self, pages: Option<&Pages>) -> Vec<PageRead> {
        self.judges_in_view().filter_map(|judge| pages?.visit(judge.map(), |_| ())).collect()
    }

    /// Returns the covered files that may contain a key, the newest last: those that maps found, and all of the maps
    /// that say nothing, because a page is missing or damaged.
    pub(crate) fn files_by_page(&self, pages: Option<&Pages>) -> (Vec<&Covered<F>>, Own) {
        let (mut files, mut own) = (Vec::new(), Own::InMemory);
        for judge in self.judges_in_view() {
            let mut is_known = false;
            pages.and_then(|pages| {
                pages.visit(judge.map(), |found| is_known = self.add(judge, found, |covered| files.push(covered)))
            });
            if !is_known {
                own = Own::Any;
                files.extend(self.files_of_map(judge));
            }
        }
        files.sort_unstable_by_key(|covered| Reverse(covered.order));
        (files, own)
    }

    /// Calls `add` for each file of an answer. Returns whether the answer says anything.
    #[inline]
    fn add<'a>(&'a self, judge: &MapJudge<ViewMap>, found: MapAnswer<'_>, mut add: impl FnMut(&'a Covered<F>)) -> bool {
        let mut is_known = true;
        judge.visit(found, |found| match found {
            SetMatch::File(position) => self.slot(position).into_iter().for_each(&mut add),
            SetMatch::AnyFile => is_known = false,
        });
        is_known
    }

    /// Returns the maps whose files have not all left.
    fn judges_in_view(&self) -> impl Iterator<Item = &MapJudge<ViewMap>> {
        self.set.judges().iter().filter(|judge| self.files_of_map(judge).next().is_some())
    }

    fn files_of_map(&self, judge: &MapJudge<ViewMap>) -> impl Iterator<Item = &Covered<F>> {
        judge.positions().filter_map(|position| self.slot(position))
    }

    /// Returns the files of the view that these maps judge.
    pub(crate) fn files_of_maps(&self, is_it: fn(&ViewMap) -> bool) -> impl Iterator<Item = &Covered<F>> {
        let judges = self.set.judges().iter().filter(move |judge| is_it(judge.map()));
        judges.flat_map(|judge| self.files_of_map(judge))
    }

    #[inline]
    fn slot(&self, position: usize) -> Option<&Covered<F>> {
        self.slots.get(position / SLOTS)?.get(position % SLOTS)?.as_ref()
    }

    fn set_slot(&mut self, position: usize, covered: Option<Covered<F>>) {
        let slots = self.slots.get_mut(position / SLOTS).map(Arc::make_mut);
        if let Some(slot) = slots.and_then(|slots| slots.get_mut(position % SLOTS)) {
            self.covered = self.covered + usize::from(covered.is_some()) - usize::from(slot.is_some());
            *slot = covered;
        }
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = &ViewMap> {
        self.set.judges().iter().map(MapJudge::map)
    }

    /// Returns the first map that covers the file, and how many entries of it that has.
    fn judge_of(&self, file: FileId) -> Option<(&MapJudge<ViewMap>, u64)> {
        self.set.judges().iter().find_map(|judge| {
            let covered = judge.map().files().get(judge.map().local_id(file)?.index())?;
            Some((judge, covered.entries))
        })
    }

    pub(crate) fn contradictions(&self) -> &[MapError] {
        self.set.contradictions()
    }

    /// Returns the file of the view with this id, if a map covers it.
    pub(crate) fn covered(&self, file: FileId) -> Option<&Covered<F>> {
        self.slot(self.set.position(file)?)
    }

    /// Divides the files of `levels`.
    pub(crate) fn new(
        mut maps: Vec<ViewMap>,
        levels: &[Arc<Level<F>>],
        config: &Config,
        false_reads_before: [u64; 2],
    ) -> Result<Option<Self>, MapError>
    where
        F: AsRef<FileFilters>,
    {
        let expected = config.reader.filters.hasher().identity();
        if let Some(got) = maps.iter().map(|map| map.hash_identity()).find(|got| *got != expected) {
            return Err(BlockError::HashMismatch { expected, got }.into());
        }
        let states = levels.iter().flat_map(|level| level.states());
        let files: Vec<FileId> = states.filter_map(|state| state.id_in_maps()).collect();
        // A lookup would consult the others for nothing.
        maps.retain(|map| files.iter().any(|file| map.local_id(*file).is_some()));
        let set = Arc::new(Coverage::new(maps, &files));
        let slots = files.chunks(SLOTS).map(|_| core::iter::repeat_n(None, SLOTS).collect()).collect();
        let mut judges = set.judges().iter().filter(|judge| judge.positions().next().is_some());
        let is_paged = judges.any(|judge| judge.map().in_memory().is_none());
        let mapped = Self { set, slots, covered: 0, is_paged, uncovered: Arc::new([]), false_reads_before };
        let joining = |level: &Arc<Level<F>>| {
            let members = level.members().map(|member| (0, member)).collect();
            (level.number, (HashMap::new(), members))
        };
        let all = levels.iter().filter(|level| level.has_files()).map(joining).collect();
        let mut refused = None;
        let mapped = mapped.joined(all, (&[], levels), config, |error| refused = refused.take().or(Some(error)));
        refused.map_or(Ok(mapped), Err)
    }

    /// Returns whether the maps cover a file of the view, or have something to report.
    fn is_kept(&self) -> bool {
        self.covered > 0 || !self.contradictions().is_empty()
    }

    /// Returns the maps after an edit of the view; `None` if they no longer cover any of its files.
    pub(crate) fn edited(
        &self,
        mut changes: BTreeMap<u32, LevelChange<F>>,
        (before, after): Edited<'_, F>,
        config: &Config,
    ) -> Option<Self>
    where
        F: AsRef<FileFilters>,
    {
        let mut next = self.clone();
        // All files that leave, before those that join: a covered file may move to another level.
        for (&number, (leaving, added)) in &mut changes {
            leaving.retain(|_, leaving| {
                let id = leaving.file.as_ref().as_ref().metadata().file_id();
                let is_it = |slot: &Covered<F>| slot.order.level == number && Arc::ptr_eq(&slot.file, &leaving.file);
                let covered = next.set.position(id).filter(|&position| next.slot(position).is_some_and(is_it));
                if leaving.by.as_ref().is_some_and(|(_, by)| Arc::ptr_eq(&by.file, &leaving.file)) {
                    // It keeps its place. Among the uncovered files, others may come by replacing covered ones.
                    return false;
                }
                let Some(position) = covered else { return true };
                if let (Some(covered), Some((place, by))) = (next.slot(position), leaving.by.take()) {
                    added.push((place, Member { age: covered.order.age.0, ..by }));
                }
                next.set_slot(position, None);
                false
            });
        }
        next.joined(changes, (before, after), config, drop)
    }

    /// Divides the files of an edit, after the covered ones have left: those that a map covers, and those that replace
    /// or join the uncovered ones. Files whose description contradicts a map are not covered, and reported to `refuse`.
    fn joined(
        mut self,
        mut changes: BTreeMap<u32, LevelChange<F>>,
        (before, after): Edited<'_, F>,
        config: &Config,
        mut refuse: impl FnMut(MapError),
    ) -> Option<Self>
    where
        F: AsRef<FileFilters>,
    {
        let mut uncovered: BTreeMap<u32, Arc<Level<F>>> =
            self.uncovered.iter().map(|level| (level.number, level.clone())).collect();
        let find = |levels: &[Arc<Level<F>>], number| levels.iter().find(|level| level.number == number).cloned();
        for (&number, (leaving, added)) in &mut changes {
            let joined = added.len();
            added.retain(|(_, member)| !self.cover(number, member, config).map_err(&mut refuse).unwrap_or(false));
            let (own, all) = (uncovered.remove(&number), find(before, number).filter(|level| level.has_files()));
            let had_covered = own.as_ref().map(Arc::as_ptr) != all.as_ref().map(Arc::as_ptr);
            let Some(after) = find(after, number) else { continue };
            let level = if had_covered || added.len() < joined {
                let own = own.unwrap_or_else(|| Arc::new(Level::empty(number)));
                let change = (core::mem::take(leaving), core::mem::take(added));
                // It fits, because the whole level took the whole change.
                Arc::new(own.edited(&change, config).ok()?)
            } else {
                after
            };
            if level.has_files() {
                uncovered.insert(number, level);
            }
        }
        self.uncovered = uncovered.into_values().collect();
        Some(self).filter(Self::is_kept)
    }

    /// Takes the file into its slot, if a map covers it. Returns whether one does.
    fn cover(&mut self, level: u32, member: &Member<F>, config: &Config) -> Result<bool, MapError> {
        let Some(id) = member.state.id_in_maps() else { return Ok(false) };
        let free = self.set.position(id).filter(|&position| self.slot(position).is_none());
        let Some((position, (judge, got))) = free.zip(self.judge_of(id)) else { return Ok(false) };
        let metadata = &member.state.metadata;
        // At most: a map counts keys of one prefix once, and the file may have been given a key twice.
        let expected = Some(metadata.keys_added()).filter(|keys| *keys > 0).unwrap_or(u64::MAX);
        if got > expected {
            let (fingerprint, map) = (id.fingerprint(), judge.map().map_id().fingerprint());
            return Err(MapError::Contradiction { fingerprint, map, other: None, expected, got });
        }
        for key in metadata.known_keys() {
            let Some(map) = judge.map().in_memory() else { break };
            let mut is_there = false;
            let found = |found| is_there |= matches!(found, SetMatch::AnyFile) || found == SetMatch::File(position);
            judge.visit(map.candidates(config.reader.filters.hash(key)), found);
            if !is_there {
                return Err(MapError::KnownKeyAbsent { fingerprint: id.fingerprint() });
            }
        }
        let order = Order { level, age: Reverse(member.age) };
        self.set_slot(position, Some(Covered { order, file: member.file.clone(), state: member.state.clone() }));
        Ok(true)
    }
}
