//! The filters of many tables, probed for one key in groups of 64.

use core::fmt;

use bytes::Bytes;

use super::Table;
use crate::block::{CacheResidency, FilterGroup, FilterReader, GROUP, PreparedKey};
use crate::hash::KeyHash;
use crate::store::reader::{Reader, SharedParts};

/// The filters of tables that can be probed together, at the positions of the tables.
pub(super) struct GroupedFilters {
    groups: Vec<FilterGroup<Bytes>>,
    probed: ProbedParts,
    /// See [`alone`](Self::alone).
    alone: Vec<u64>,
    residency: CacheResidency,
    tables: usize,
}

/// What is known of a key in a group of tables before one is searched, a bit for each table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    /// They have the key in their range.
    pub(super) in_range: u64,
    /// Of those, the ones whose filters may contain it.
    pub(super) candidates: u64,
}

impl GroupedFilters {
    /// The filters of `tables`, as far as `is_grouped` says that one reader makes the probes for them.
    pub(super) fn new<'a>(tables: impl Iterator<Item = &'a Table>, is_grouped: impl Fn(&Table) -> bool) -> Self {
        let tables: Vec<&Table> = tables.collect();
        let (mut groups, mut grouped) = (Vec::new(), Vec::new());
        for &table in &tables {
            let is_alone = table.has_budgeted_filter() || !is_grouped(table);
            let filter = if is_alone { None } else { table.filter() };
            let block = filter.map(FilterReader::block).and_then(Result::ok);
            FilterGroup::push_to(&mut groups, block.cloned());
            grouped.push((is_alone, block.map(|_| table.shared)));
        }
        let alone =
            |group: &[(bool, _)]| (0..).zip(group).map(|(bit, &(is_alone, _))| u64::from(is_alone) << bit).sum();
        Self {
            probed: ProbedParts::of(grouped.iter().map(|&(_, parts)| parts)),
            alone: grouped.chunks(GROUP).map(alone).collect(),
            residency: CacheResidency::of(&groups),
            groups,
            tables: tables.len(),
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The tables of a group with filters that are not in it: a budget decides what of them is in memory, or their
    /// reader is not known to make the same probes. Such a filter is probed when a lookup comes to its table.
    #[inline]
    pub(super) fn alone(&self, group: usize) -> u64 {
        self.alone.get(group).copied().unwrap_or(0)
    }

    /// What point lookups probe all filters for, if that is one part, and the same for all.
    #[inline]
    pub(super) fn one_part(&self) -> Option<SharedParts> {
        self.probed.one
    }

    /// Those of the tables at `in_range` whose filters may contain `key`, which is hashed when the first filter is
    /// probed.
    #[inline]
    pub(super) fn candidates(
        &self,
        group: usize,
        in_range: u64,
        reader: &Reader,
        key: &[u8],
        probe: &mut LazyProbe,
    ) -> u64 {
        let Some(parts) = self.probed.one else { return self.by_parts(group, in_range, reader, key) };
        let Some(filters) = self.groups.get(group).filter(|_| in_range != 0) else { return 0 };
        let Some(key) = probe.get(|| reader.point_hashes(parts, key).next()) else { return in_range };
        if self.residency == CacheResidency::Memory {
            filters.prefetch(key.hash(), in_range);
        }
        filters.probe(key, in_range)
    }

    /// The [`candidates`](Self::candidates) where tables are probed for different parts of the key, or for several.
    #[cold]
    pub(super) fn by_parts(&self, group: usize, in_range: u64, reader: &Reader, key: &[u8]) -> u64 {
        self.containing(group, in_range, |parts| reader.point_hashes(parts, key))
    }

    /// Those of a group's tables at `which` whose filters may contain all the hashes that follow from their parts.
    pub(super) fn containing<H: Iterator<Item = KeyHash>>(
        &self,
        group: usize,
        which: u64,
        hashes: impl Fn(SharedParts) -> H,
    ) -> u64 {
        let Some(filters) = self.groups.get(group) else { return which };
        let absent_of = |(parts, tables): &(SharedParts, Vec<u64>)| {
            let probed = which & tables.get(group).copied().unwrap_or(0);
            let contains =
                |left: u64, hash| if left == 0 { 0 } else { filters.probe(&mut PreparedKey::new(hash), left) };
            if probed == 0 { 0 } else { probed & !hashes(*parts).fold(probed, contains) }
        };
        which & !self.probed.tables.iter().map(absent_of).fold(0, |absent, tables| absent | tables)
    }

    /// Probes the filters for a batch; `tables` has all groups of a key, then those of the next. The lines of a later
    /// key are prefetched: searches between batches drive filters out of the near caches.
    pub(super) fn probe_batch(&self, hashes: &[Option<KeyHash>], tables: &mut [Tables]) {
        let groups = self.groups.len();
        let ahead = self.residency.keys_ahead(self.tables);
        for (position, hash) in hashes.iter().enumerate() {
            let Some(mut key) = hash.map(PreparedKey::new) else { continue };
            let later = ahead.and_then(|ahead| Some((*hashes.get(position + ahead)?, ahead * groups)));
            for (group, filters) in self.groups.iter().enumerate() {
                let index = position * groups + group;
                let later = later.and_then(|(hash, after)| Some((hash?, tables.get(index + after)?.in_range)));
                if let Some(tables) = tables.get_mut(index).filter(|tables| tables.in_range != 0) {
                    tables.candidates = filters.probe_ahead(&mut key, tables.in_range, later);
                }
            }
        }
    }
}

impl fmt::Debug for GroupedFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupedFilters").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// What filters are probed for.
struct ProbedParts {
    /// See [`GroupedFilters::one_part`].
    one: Option<SharedParts>,
    /// The parts that filters share with the reader, and the tables with such filters: a bit for each, in each group.
    tables: Vec<(SharedParts, Vec<u64>)>,
}

impl ProbedParts {
    /// By the parts of each table with a filter in a group.
    fn of(all: impl ExactSizeIterator<Item = Option<SharedParts>>) -> Self {
        let mut tables: Vec<(SharedParts, Vec<u64>)> = Vec::new();
        let groups = all.len().div_ceil(GROUP);
        for (position, shared) in all.enumerate().filter_map(|(position, shared)| Some((position, shared?))) {
            let (group, bit) = (position / GROUP, 1 << (position % GROUP));
            let place = tables.iter().position(|(parts, _)| *parts == shared).unwrap_or_else(|| {
                tables.push((shared, vec![0; groups]));
                tables.len() - 1
            });
            if let Some(word) = tables.get_mut(place).and_then(|(_, words)| words.get_mut(group)) {
                *word |= bit;
            }
        }
        let mut points = tables.iter().map(|(parts, _)| parts.of_points());
        let first = points.next();
        Self { one: first.filter(|first| first.is_one() && points.all(|other| other == *first)), tables }
    }
}

/// A key's probe, made when the first table has the key in its range: a key outside all ranges is not hashed.
pub(super) enum LazyProbe {
    Unhashed,
    /// The key is outside the extractor's domain: no filter can be probed.
    OutsideDomain,
    Hashed(PreparedKey),
}

impl LazyProbe {
    #[inline]
    fn get(&mut self, hash: impl FnOnce() -> Option<KeyHash>) -> Option<&mut PreparedKey> {
        if matches!(self, Self::Unhashed) {
            *self = hash().map_or(Self::OutsideDomain, |hash| Self::Hashed(PreparedKey::new(hash)));
        }
        match self {
            Self::Hashed(key) => Some(key),
            Self::Unhashed | Self::OutsideDomain => None,
        }
    }
}
