//! Probes the filters of one file, loads them if needed, and counts the answers.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter::KeyRange;
use sstfilter::internal::prefetch;
use sstfilter::{FilterBlock, KeyHash, Probe};

use super::budget::{Held, Matching, POINTS, RANGES, Unit};
use super::metadata::FilterPart;
use super::partition::{PartitionCut, PartitionIndex};
use super::read::read_all;
use super::state::{Answer, FileState, Usable};

/// Probing.
impl FileState {
    /// Prefetches the fields that lead to the filter.
    #[inline]
    pub(super) fn prefetch(&self) {
        let start: *const u8 = core::ptr::from_ref(self).cast();
        prefetch(start);
        // Two lines: `repr(C)` keeps the fields of a probe at the start of the state.
        prefetch(start.wrapping_add(64));
    }

    /// Prefetches the lines of a probe, if all of the filter is in memory and holds whole keys.
    #[inline]
    pub(super) fn prefetch_probe(&self, whole: impl FnOnce() -> KeyHash) {
        if let Some(block) = self.resident().filter(|_| self.shared.has_whole_keys()) {
            block.prefetch(whole());
            self.units.counters.prefetch();
        }
    }

    /// Probes for a key within the file's bounds, and counts the answer. `whole` is the hash of the whole key.
    #[inline]
    pub(super) fn probe_key(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        let is_plain = self.shared.has_whole_keys() && !self.has_range_tombstones;
        match self.resident.as_deref().filter(|_| is_plain && self.config.trust.get().is_none()) {
            Some(held) => {
                let may_contain = held.may_contain(key, whole);
                self.units.counters.add_answer(may_contain);
                Answer::of(if may_contain { Probe::MaybePresent } else { Probe::Absent })
            }
            None => self.probe_unplainly(key, whole),
        }
    }

    /// Probes a filter that is not all in memory, is probed for parts of the key, or cannot be probed.
    #[inline(never)]
    fn probe_unplainly(self: &Arc<Self>, key: &[u8], whole: impl FnOnce() -> KeyHash) -> Answer {
        if self.deletes(key) {
            // The filter is not probed, so the outcome says nothing about it.
            return Answer::of(Probe::Unusable);
        }
        if let Some(answer) = self.unusable(&self.points, POINTS) {
            return answer;
        }
        if self.is_exact() {
            return self.probe_unit(RANGES, &|held| held.ranges().is_none_or(|filter| filter.may_contain(key)));
        }
        let (of_key, of_parts): ([KeyHash; 1], Vec<KeyHash>);
        let hashes: &[KeyHash] = if self.shared.has_whole_keys() {
            of_key = [whole()];
            &of_key
        } else {
            of_parts = self.reader().point_hashes(self.shared, key).collect();
            &of_parts
        };
        if hashes.is_empty() {
            // The key is outside the domains of all extractors, so no hash can be probed.
            return Answer::of(Probe::Unusable);
        }
        let index = match self.partitions_to_probe() {
            Ok(index) => index,
            Err(answer) => return answer,
        };
        let place = |hash| index.map_or((0, hash), |index| index.locate_hash(key, hash));
        if let Some(first) = hashes.first().filter(|_| index.is_none_or(|index| index.cut() == PartitionCut::KeyRange))
        {
            return self.probe_points(place(*first).0 + POINTS, hashes);
        }
        // Each hash has its own partition.
        let mut answer = Answer::of(Probe::Unusable);
        for &hash in hashes {
            let (number, hash) = place(hash);
            answer = self.probe_points(number + POINTS, &[hash]);
            if answer.probe.is_absent() {
                break;
            }
        }
        answer
    }

    /// Returns the answer if a filter cannot be probed: there is none, which is not counted, or it is not used.
    fn unusable(&self, usable: &Usable, unit: u32) -> Option<Answer> {
        let is_there = match usable {
            Ok(_) if self.config.trust.get().is_none() => return None,
            Err(None) => false,
            Ok(_) | Err(Some(_)) => true,
        };
        if is_there {
            self.units.counters_of(unit).add_unusable(1);
        }
        Some(Answer { probe: Probe::Unusable, unit })
    }

    /// Probes the point filter, or a partition of it, for hashes that must all be present.
    fn probe_points(self: &Arc<Self>, number: u32, hashes: &[KeyHash]) -> Answer {
        let has_all = |block: &FilterBlock<Bytes>| hashes.iter().all(|&hash| block.may_contain_added(hash));
        self.probe_unit(number, &|held| held.points().is_none_or(has_all))
    }

    /// Returns the partitions of a partitioned filter, after reading the top index if it is not in memory. Without the
    /// index it is unknown which partition to probe, and with which hash.
    fn partitions_to_probe(self: &Arc<Self>) -> Result<Option<&PartitionIndex>, Answer> {
        if !matches!(self.points, Ok(FilterPart::PartitionedPoints)) {
            return Ok(None);
        }
        if self.partitions().is_none() {
            self.read_index();
        }
        self.partitions().map(Some).ok_or_else(|| self.answer_without_index())
    }

    #[cold]
    fn answer_without_index(&self) -> Answer {
        self.pool().count_probes(1);
        if self.units.failure().is_some() {
            self.units.counters.add_unusable(1);
            return Answer::of(Probe::Unusable);
        }
        self.units.counters.add_not_loaded(1);
        Answer::of(Probe::NotLoaded)
    }

    /// Probes a unit, and counts the answer. Loads the unit first if it should be in memory, or larger, and the file
    /// has a source.
    fn probe_unit(self: &Arc<Self>, number: u32, may_match: Matching<'_>) -> Answer {
        let positive = || {
            self.units.counters_of(number).add_answer(true);
            Answer { probe: Probe::MaybePresent, unit: number }
        };
        let unit = self.units.unit(number);
        match unit.map(Unit::held).as_ref().and_then(|held| held.as_deref()) {
            // A shrunk filter has no false negatives either, so only a positive can be worth a load.
            Some(Held::Block(held)) if !may_match(&held.filter) => return self.absent(number),
            Some(Held::Block(_)) if unit.is_some_and(Unit::is_as_planned) => return positive(),
            // The partition was written without a filter.
            None if unit.is_none() && self.partitions().is_some() => return positive(),
            _ => {}
        }
        self.load_and_probe(number, may_match)
    }

    /// Returns the answer if there is no block, or a larger one could answer "absent".
    #[cold]
    #[inline(never)]
    fn load_and_probe(self: &Arc<Self>, number: u32, may_match: Matching<'_>) -> Answer {
        let source = self.source.as_deref();
        let loaded = source.and_then(|source| read_all(source, || self.begin(number)?.pending(), may_match));
        let unit = self.units.unit(number);
        let held = unit.map(Unit::held);
        let probe = match (loaded, held.as_ref().and_then(|held| held.as_deref())) {
            (Some(false), _) => return self.absent(number),
            (Some(true), _) | (None, Some(Held::Block(_))) => Probe::MaybePresent,
            (None, Some(Held::Failed(_))) => Probe::Unusable,
            (None, None) if number != RANGES && self.units.failure().is_some() => Probe::Unusable,
            (None, None) => Probe::NotLoaded,
        };
        let counters = self.units.counters_of(number);
        match (probe, unit) {
            (Probe::MaybePresent, _) => counters.add_answer(true),
            (Probe::NotLoaded, Some(unit)) => unit.count_unanswered(),
            (Probe::NotLoaded, None) => counters.add_not_loaded(1),
            _ => counters.add_unusable(1),
        }
        self.pool().count_probes(1);
        Answer { probe, unit: number }
    }

    #[inline]
    fn absent(&self, number: u32) -> Answer {
        match self.units.unit(number) {
            Some(unit) if unit.count_negative() => {
                if unit.is_full() {
                    self.units.collect(number, unit);
                }
                self.pool().count_probes(Unit::MANY_NEGATIVES);
            }
            _ => {}
        }
        Answer { probe: Probe::Absent, unit: number }
    }

    /// Probes the point filter for the parts that all keys with the prefix share, and counts the answers. `None` if it
    /// cannot be probed for any: then it may hold them.
    pub(super) fn probe_prefix(self: &Arc<Self>, prefix: &[u8]) -> Option<Answer> {
        if self.points.is_err() || self.is_exact() || self.config.trust.get().is_some() {
            return None;
        }
        let mut last = None;
        for hash in self.reader().prefix_hashes(self.shared, prefix) {
            let probe = |number, hash| self.probe_points(number, &[hash]);
            let answer = match self.partitions_to_probe() {
                Err(_) => continue,
                Ok(None) => probe(POINTS, hash),
                // The file may have the prefix if one partition may.
                Ok(Some(index)) => {
                    let mut answers =
                        index.places_with_part(prefix, hash).map(|(number, hash)| probe(number + POINTS, hash));
                    answers.find(|answer| !answer.probe.is_absent()).unwrap_or(Answer::of(Probe::Absent))
                }
            };
            last = Some(answer);
            if answer.probe.is_absent() {
                break;
            }
        }
        last
    }

    /// Probes the range filter, and counts the answer.
    pub(super) fn probe_range(self: &Arc<Self>, range: KeyRange<'_>) -> Answer {
        let answer = self.unusable(&self.ranges, RANGES);
        answer.unwrap_or_else(|| {
            self.probe_unit(RANGES, &|held| held.ranges().is_none_or(|filter| filter.may_contain_range(range)))
        })
    }

    /// Returns a lower bound of the file's first key that is not below `start`: `start` itself unless the range filter
    /// is in memory and knows better. `None` if the file has no such key.
    pub(super) fn seek_hint(&self, start: &[u8]) -> Option<Vec<u8>> {
        let held = self.units.unit(RANGES).map(Unit::held).filter(|_| self.config.trust.get().is_none());
        match held.as_ref().and_then(|held| held.as_deref()?.ranges()) {
            Some(filter) => filter.seek_hint(start),
            None => Some(start.to_vec()),
        }
    }
}
