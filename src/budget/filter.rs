//! The filter of one file, as the file's reader holds it.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::file::{File, Place};
use super::pool::{Matching, Pool};
use super::state::FileBudget;
use super::unit::{Held, Unit};
use crate::block::{FilterBlock, LookupOutcome};
use crate::error::BlockError;
use crate::hash::{Domain, KeyHash, PreparedPrefix};
use crate::partition::PartitionIndex;
use crate::stats::FilterStats;

/// A filter's answer for one key, under a [`FilterBudget`](super::FilterBudget).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BudgetedProbe {
    /// The key is certainly not in the file: skip it.
    Absent,
    /// The key may be in the file.
    MaybePresent,
    /// The filter is not in memory, so the key may be in the file.
    NotLoaded(NotLoaded),
    /// The filter could not be loaded for this reason, so the key may be in the file. It is tried again, rarely.
    Unusable(Arc<BlockError>),
}

impl BudgetedProbe {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Why a filter was not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotLoaded {
    /// The partition; 0 of a filter that has none.
    pub unit: u32,
    /// Whether another thread was loading it. Otherwise it did not fit the budget.
    pub is_loading: bool,
}

/// The filter of one file under a [`FilterBudget`](super::FilterBudget). It gives its memory back when it is dropped.
///
/// Any number of threads can probe it, and none waits for another. One of them loads the filter when it is first
/// probed, if the budget has memory left, or has freed enough for it; the others read on meanwhile.
pub struct BudgetedFilter {
    pool: Arc<Pool>,
    file: Arc<File>,
    slot: u32,
}

impl BudgetedFilter {
    pub(super) fn new(pool: Arc<Pool>, file: Arc<File>) -> Self {
        let slot = pool.add(&file);
        Self { pool, file, slot }
    }

    /// Probes for one whole key, whose hash is by the hasher that the filter was built with, and counts the answer.
    /// Loads the filter, or the key's partition of it, first if its turn has come. In a filter of extracted parts
    /// alone, every key may be present.
    ///
    /// `key` finds the partition of a filter that is cut by key range; other filters do not look at it.
    #[inline]
    #[must_use]
    pub fn probe(&self, key: &[u8], hash: KeyHash) -> BudgetedProbe {
        if self.file.partitions.as_ref().is_some_and(|index| !index.has_whole_keys()) {
            return self.part_not_held();
        }
        let Place { number, hash } = self.file.place(key, hash);
        self.probe_unit(number, |block| block.may_contain(hash))
    }

    /// Probes for any of the hashes that were added for a key.
    #[inline]
    pub(crate) fn probe_added(&self, key: &[u8], hash: KeyHash) -> BudgetedProbe {
        let Place { number, hash } = self.file.place(key, hash);
        self.probe_unit(number, |block| block.may_contain_added(hash))
    }

    /// Probes for any key with a prefix: absent only if all partitions say so that can hold such a key. Where the
    /// filter answers for no part that follows from the prefix, the file may have one.
    #[must_use]
    pub fn probe_prefix(&self, prefix: &PreparedPrefix<'_>) -> BudgetedProbe {
        let mut answer = None;
        for (domain, hash) in prefix.hashes() {
            let probed = match self.file.partitions.as_deref() {
                Some(index) if !index.answers(prefix, domain) => continue,
                Some(_) => self.probe_part(prefix.bytes(), hash),
                // What a whole filter holds is known once it is loaded.
                None => self.probe_unit(0, |block| !block.answers(prefix, domain) || block.may_contain_added(hash)),
            };
            match probed {
                BudgetedProbe::Absent => return BudgetedProbe::Absent,
                BudgetedProbe::MaybePresent if self.lacks_part(prefix, domain) => {}
                other => answer = Some(other),
            }
        }
        let has_part = prefix.hashes().next().is_some();
        answer.unwrap_or_else(|| if has_part { self.part_not_held() } else { BudgetedProbe::MaybePresent })
    }

    /// The same by a hash that was added for each key with the prefix.
    pub(crate) fn probe_part(&self, prefix: &[u8], hash: KeyHash) -> BudgetedProbe {
        let places = self.file.places_with_part(prefix, hash);
        let answers =
            places.map(|Place { number, hash }| self.probe_unit(number, |block| block.may_contain_added(hash)));
        // One that is not absent decides; the partitions behind it need no probe.
        answers.into_iter().find(|answer| !answer.is_absent()).unwrap_or(BudgetedProbe::Absent)
    }

    /// Whether a whole filter that is in memory answers no probe for the part of the domain.
    fn lacks_part(&self, prefix: &PreparedPrefix<'_>, domain: Domain) -> bool {
        let unit = self.file.unit(0).filter(|_| self.file.partitions.is_none());
        let held = unit.map(Unit::held);
        matches!(held.as_ref().and_then(|held| held.as_deref()), Some(Held::Block(held)) if !held.block.answers(prefix, domain))
    }

    #[cold]
    fn part_not_held(&self) -> BudgetedProbe {
        self.file.count_unusable();
        BudgetedProbe::Unusable(Arc::new(BlockError::PartNotHeld))
    }

    /// The top index, if the filter has partitions.
    #[must_use]
    pub fn partitions(&self) -> Option<&PartitionIndex> {
        self.file.partitions.as_deref()
    }

    /// Reads a partition, or a filter that has none as number 0, and keeps nothing of it.
    pub(crate) fn read(&self, number: u32) -> Result<FilterBlock<Bytes>, BlockError> {
        let read = |number| self.file.source.load(number);
        self.file.check_known_keys(read)?;
        read(number)
    }

    #[inline]
    fn probe_unit(&self, number: u32, may_match: impl Fn(&FilterBlock<Bytes>) -> bool) -> BudgetedProbe {
        let Some(unit) = self.file.unit(number) else { return self.maybe_present() };
        if let Some(Held::Block(held)) = unit.held().as_deref() {
            if !may_match(&held.block) {
                return self.absent(unit);
            }
            if held.bytes >= unit.planned_bytes() {
                return self.maybe_present();
            }
        }
        self.load_and_probe(number, unit, &may_match)
    }

    /// The answer where there is no block, or a larger one could be better than "may be present".
    #[cold]
    #[inline(never)]
    fn load_and_probe(&self, number: u32, unit: &Unit, may_match: Matching<'_>) -> BudgetedProbe {
        let loaded = self.pool.load(&self.file, number, unit, may_match);
        let answer = match (loaded, unit.held().as_deref()) {
            (Some(false), _) => return self.absent(unit),
            (Some(true), _) | (None, Some(Held::Block(_))) => self.maybe_present(),
            (None, held) => {
                if let Some(reason) = held.and_then(Held::failure).or_else(|| self.file.failure()) {
                    self.file.count_unusable();
                    BudgetedProbe::Unusable(reason)
                } else {
                    unit.count_unanswered();
                    BudgetedProbe::NotLoaded(NotLoaded { unit: number, is_loading: unit.is_busy() })
                }
            }
        };
        self.pool.count_probes(1);
        answer
    }

    #[inline]
    fn absent(&self, unit: &Unit) -> BudgetedProbe {
        if unit.count_negative() {
            self.after_many_negatives(unit);
        }
        BudgetedProbe::Absent
    }

    #[cold]
    fn after_many_negatives(&self, unit: &Unit) {
        if unit.is_full() {
            self.file.collect(unit);
        }
        self.pool.count_probes(Unit::MANY_NEGATIVES);
    }

    #[inline]
    fn maybe_present(&self) -> BudgetedProbe {
        self.file.count_positive();
        BudgetedProbe::MaybePresent
    }

    /// Records whether the file held a key for which `probe` was the answer. Call it once for each probe that did not
    /// answer "absent". The budget learns from it which files are worth a filter: one whose keys are always found
    /// needs none.
    pub fn record_lookup(&self, probe: &BudgetedProbe, outcome: LookupOutcome) {
        let is_found = outcome == LookupOutcome::Found;
        match probe {
            BudgetedProbe::MaybePresent => self.file.count_outcome(is_found),
            BudgetedProbe::NotLoaded(NotLoaded { unit, .. }) if is_found => {
                if let Some(unit) = self.file.units.get(*unit as usize) {
                    self.file.count_found_without_filter(unit);
                }
            }
            _ => {}
        }
    }

    /// How much of the filter is in memory, and why.
    #[must_use]
    pub fn state(&self) -> FileBudget {
        FileBudget::of(&self.file)
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> FilterStats {
        self.file.stats()
    }
}

impl Drop for BudgetedFilter {
    fn drop(&mut self) {
        self.pool.remove(self.slot);
    }
}

impl fmt::Debug for BudgetedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetedFilter").field("state", &self.state()).field("counters", &self.stats()).finish()
    }
}
