//! Probes one file for keys or ranges. Bounds exclude first, then a map of files, then the file's filter. Whatever a
//! map or a filter says, a table with range tombstones must be read for each key in its bounds.

use sstfilter::{BlockError, FilterBlock, KeyHash, KeyRange, KindId, MatchBitmap, Probe};
use sstfilter_interop::{Error, FilterInfo, FilterKind};
use sstfilter_range::{RangeInfo, RangeMap};
use sstfilter_store::{FilterPart, FilterProblem};
use sstfilter_table::Table;

use super::batch::{Ends, KeyBatch, Positions};
use super::bounds::Bounds;
use super::lookup::Said;
use crate::file::blocks::{Container, Layers, Partitions, RangeBlock, Sidecar, hasher_of};
use crate::file::names::table_of_sidecar;
use crate::file::open::{Body, Context, ForeignTable, Opened, open_table};
use crate::file::problem::{Problem, STALE, State, explained, in_options, state_of_error, state_of_filter};
use crate::print::words;
use crate::words::units::counted;

words! {
    /// Why a lookup must read a file, or need not.
    pub(crate) enum Because {
        /// what its filter says
        Filter = "filter",
        /// its smallest and largest key
        Bounds = "bounds",
        /// what a map that covers it says
        Map = "map",
        /// it has no filter
        NoFilter = "no filter",
        /// its filter cannot be used
        UnusableFilter = "unusable filter",
        /// its filter holds no part of such keys
        NotCovered = "not covered",
        /// its range tombstones may delete the key from older tables
        RangeTombstones = "range tombstones",
        /// all maps that cover it are damaged there, do not know, or contradict each other
        MapUnknown = "map unknown",
    }
}

/// The kind of what answers for a file that was not passed.
const MAP: &str = "map";

/// Why a filter is not probed. The library's message names its functions.
const NO_WHOLE_KEYS: &str = "its filter holds only parts of keys, and this program does not have their extractor";

/// A file, and what it says about each key or range.
#[derive(Debug, Default)]
pub(crate) struct FileProbe {
    /// The worst of the file, of its filter and of its sidecar.
    pub(crate) state: State,
    /// The kind of filter, `none` or `unusable`.
    pub(crate) kind: String,
    /// Entries of a table, or keys of a filter without one.
    pub(crate) entries: Option<u64>,
    /// `None` without a usable filter, or if the rate of its kind cannot be computed.
    pub(crate) expected_fpr: Option<f64>,
    /// Why the filter cannot be used for some keys, or for all.
    pub(crate) problem: Option<String>,
    /// Why the table's own filter was probed and not its sidecar; of a sidecar, why readers ignore it.
    pub(crate) sidecar_problem: Option<String>,
    pub(crate) has_range_tombstones: bool,
    /// Those in the bounds of the file.
    pub(crate) in_range: Positions,
    /// Those of them that no map excludes.
    pub(crate) in_maps: Positions,
    /// Those for which the file must be read. No two lists share one.
    pub(crate) candidates: Vec<(Because, Positions)>,
}

impl FileProbe {
    /// Returns a file that cannot be opened: it may contain every key.
    pub(crate) fn unopened(problem: &Problem, all: Positions) -> Self {
        let mut probe = Self { in_range: all.clone(), in_maps: all, ..Self::default() };
        probe.refuse(problem.state, explained(&problem.reason));
        probe
    }

    /// Returns a file without bounds and filter, about which maps say this; `None` if none covers it.
    pub(crate) fn of_map(said: Option<Said>, all: Positions) -> Self {
        let mut probe = Self { in_range: all.clone(), in_maps: all, ..Self::default() };
        let Some(Said { maybe, unknown, expected_fpr }) = said else {
            probe.without_filter("filter");
            return probe;
        };
        (probe.kind, probe.expected_fpr) = (MAP.to_owned(), Some(expected_fpr));
        probe.add(Because::Map, maybe.without(&unknown));
        probe.add(Because::MapUnknown, unknown);
        probe
    }

    /// Returns the number of keys for which the file must be read for this reason.
    pub(crate) fn count(&self, because: Because) -> u64 {
        let of_reason = self.candidates.iter().filter(|(reason, _)| *reason == because);
        of_reason.map(|(_, positions)| positions.count()).sum()
    }

    /// Returns the number of keys for which the file must be read.
    pub(crate) fn candidates(&self) -> u64 {
        self.candidates.iter().map(|(_, positions)| positions.count()).sum()
    }

    /// Returns the number of keys that the filter was probed for, or the map of a file that has none.
    pub(crate) fn probes(&self) -> u64 {
        let has_no_answer = [Because::NoFilter, Because::UnusableFilter, Because::NotCovered, Because::MapUnknown];
        self.in_maps.count() - has_no_answer.into_iter().map(|because| self.count(because)).sum::<u64>()
    }

    /// Returns the number of probes that were answered with "may contain".
    pub(crate) fn positives(&self) -> u64 {
        self.count(Because::Filter) + self.count(Because::Map)
    }

    /// Returns the number of keys for which the file is expected to be read if all are absent; `None` if the rate of
    /// its filter is unknown.
    pub(crate) fn expected_candidates(&self) -> Option<f64> {
        let (probes, unprobed) = (self.probes() as f64, self.in_maps.count() - self.probes());
        let rate = if probes > 0.0 { self.expected_fpr? } else { 0.0 };
        Some(if self.has_range_tombstones { self.in_range.count() as f64 } else { unprobed as f64 + rate * probes })
    }

    /// Returns why the file must be read for a key; `None` if it need not.
    pub(crate) fn candidate(&self, position: u32) -> Option<Because> {
        let candidate = self.candidates.iter().find(|(_, positions)| positions.hold(position));
        candidate.map(|(because, _)| *because)
    }

    /// Returns what shows that the file need not be read for a key.
    pub(crate) fn skipped_by(&self, position: u32) -> Because {
        match position {
            _ if !self.in_range.hold(position) => Because::Bounds,
            _ if self.kind == MAP || !self.in_maps.hold(position) => Because::Map,
            _ => Because::Filter,
        }
    }

    pub(crate) fn add(&mut self, because: Because, positions: Positions) {
        if positions.count() > 0 {
            self.candidates.push((because, positions));
        }
    }

    fn add_all(&mut self, because: Because) {
        self.add(because, self.in_maps.clone());
    }

    /// Records a problem of the filter, for which every key is a candidate.
    fn refuse(&mut self, state: State, problem: String) {
        (self.kind, self.expected_fpr) = ("unusable".to_owned(), None);
        self.note(state, problem);
        self.add_all(Because::UnusableFilter);
    }

    fn refuse_block(&mut self, problem: &BlockError) {
        // A filter of another hash or prefix is sound: a reader that has them can use it.
        let is_of_others = matches!(problem, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. });
        self.refuse(if is_of_others { State::Unusable } else { State::Damaged }, in_options(problem));
    }

    fn note(&mut self, state: State, problem: String) {
        self.state = self.state.max(state);
        self.problem = Some(problem);
    }

    fn without_filter(&mut self, kind: &str) {
        "none".clone_into(&mut self.kind);
        self.note(State::Missing, format!("it has no {kind}"));
        self.add_all(Because::NoFilter);
    }
}

/// Probes a file for keys.
pub(crate) fn probe(opened: &Opened, keys: &KeyBatch<'_>, context: &Context) -> FileProbe {
    probe_mapped(opened, keys, None, context)
}

/// Probes a file for keys, unless maps say that it has none but those of `in_maps`.
pub(crate) fn probe_mapped(
    opened: &Opened,
    keys: &KeyBatch<'_>,
    in_maps: Option<&Positions>,
    context: &Context,
) -> FileProbe {
    let bounds = Bounds::of(opened);
    let in_range = if bounds.are_known() {
        keys.all().filtered(|position| bounds.hold(keys.keys[*position as usize]))
    } else {
        keys.all()
    };
    let mapped = in_maps.map_or_else(|| in_range.clone(), |in_maps| in_range.within(in_maps));
    let mut probe = FileProbe { in_range, in_maps: mapped, ..FileProbe::default() };
    probe.run(opened, keys, context);
    probe
}

/// Probes the filter of a file for all keys, also those outside of its bounds.
pub(crate) fn probe_filter(opened: &Opened, keys: &KeyBatch<'_>, context: &Context) -> FileProbe {
    let mut probe = FileProbe { in_range: keys.all(), in_maps: keys.all(), ..FileProbe::default() };
    probe.run(opened, keys, context);
    probe
}

impl FileProbe {
    fn run(&mut self, opened: &Opened, keys: &KeyBatch<'_>, context: &Context) {
        match &opened.body {
            Body::Table(table) => self.probe_table(table, opened, keys, context),
            Body::Foreign(table, _) => self.probe_foreign(table, keys),
            Body::Block(block) => self.probe_block(block, keys, context),
            Body::Partitions(container) => self.probe_container(container, keys, context),
            Body::Layers(layers) => self.probe_layers(layers, keys, context),
            Body::Ranges(block) => self.probe_points(block, keys, context),
            Body::Sidecar(sidecar) => {
                self.probe_sidecar(sidecar, keys, context);
                self.judge_sidecar(opened, context);
            }
            Body::Map(_) => self.without_filter("filter"),
        }
    }

    fn probe_table(&mut self, table: &Table, opened: &Opened, keys: &KeyBatch<'_>, context: &Context) {
        let filters = table.filters();
        self.entries = Some(table.properties().entries);
        match (Partitions::of_table(table, &opened.found.path), filters.point_problem(), filters.block()) {
            (Some(partitions), ..) => self.probe_partitions(&partitions, keys, context),
            (None, Some(problem), _) => self.refuse(State::Unusable, in_options(&problem)),
            (None, None, Some(block)) => self.probe_verified(block, keys, context),
            (None, None, None) => self.without_filter("filter"),
        }
        self.judge_table(table);
    }

    /// Adds the problems of a table's filters and of its sidecar.
    fn judge_table(&mut self, table: &Table) {
        if let Some(problem) = table.filter_problem() {
            self.state = self.state.max(state_of_filter(&problem));
        }
        if let Some(problem) = table.sidecar_problem() {
            self.state = self.state.max(state_of_filter(problem));
            self.sidecar_problem = Some(in_options(problem));
        }
    }

    fn probe_block<D: AsRef<[u8]>>(&mut self, block: &FilterBlock<D>, keys: &KeyBatch<'_>, context: &Context) {
        self.entries = Some(block.info().keys);
        match block.verify() {
            Ok(()) if !block.info().whole_keys => self.refuse(State::Unusable, NO_WHOLE_KEYS.to_owned()),
            Ok(()) => self.probe_verified(block, keys, context),
            Err(problem) => self.refuse_block(&problem),
        }
    }

    fn probe_verified<D: AsRef<[u8]>>(&mut self, block: &FilterBlock<D>, keys: &KeyBatch<'_>, context: &Context) {
        let hasher = match hasher_of(block.hash_identity(), context.secret.as_ref()) {
            Ok(hasher) => hasher,
            Err(problem) => return self.refuse_block(&problem),
        };
        let hashes = keys.hashes(&hasher);
        let mut matches = MatchBitmap::default();
        let positives = match &self.in_maps {
            Positions::First(_) => {
                block.may_contain_batch(&hashes, &mut matches);
                Positions::of_bitmap(&matches)
            }
            Positions::Listed(listed) => {
                let own: Vec<KeyHash> = listed.iter().map(|&position| hashes[position as usize]).collect();
                block.may_contain_batch(&own, &mut matches);
                Positions::Listed(matches.iter().map(|index| listed[index]).collect())
            }
        };
        (self.kind, self.expected_fpr) = (block.info().kind.to_string(), Some(block.info().expected_fpr));
        self.add(Because::Filter, positives);
    }

    fn probe_container(&mut self, container: &Container, keys: &KeyBatch<'_>, context: &Context) {
        self.entries = Some(container.index.keys());
        self.probe_partitions(&container.partitions(), keys, context);
    }

    /// Probes a partitioned filter. Keys of a partition that cannot be used are candidates.
    fn probe_partitions(&mut self, partitions: &Partitions<'_>, keys: &KeyBatch<'_>, context: &Context) {
        if !partitions.index().has_whole_keys() {
            return self.refuse(State::Unusable, NO_WHOLE_KEYS.to_owned());
        }
        let hasher = match hasher_of(partitions.hash_identity(), context.secret.as_ref()) {
            Ok(hasher) => hasher,
            Err(problem) => return self.refuse_block(&problem),
        };
        let hashes = keys.hashes(&hasher);
        let (mut positives, mut unanswered) = (Vec::new(), Vec::new());
        for position in self.in_maps.iter() {
            let at = position as usize;
            match partitions.answer(keys.keys[at], hashes[at]) {
                Some(true) => positives.push(position),
                Some(false) => {}
                None => unanswered.push(position),
            }
        }
        (self.kind, self.expected_fpr) = (partitions.kinds(), Some(partitions.expected_fpr()));
        if let Some((number, problem)) = partitions.problems().next() {
            let problem = match problem {
                FilterProblem::PartitionChecksum { .. } => problem.to_string(),
                _ => format!("partition {number} of a filter: {problem}"),
            };
            self.note(partitions.state(), problem);
        }
        self.add(Because::Filter, Positions::Listed(positives));
        self.add(Because::UnusableFilter, Positions::Listed(unanswered));
    }

    fn probe_layers(&mut self, layers: &Layers, keys: &KeyBatch<'_>, context: &Context) {
        let health = layers.health();
        self.entries = Some(health.keys);
        let hasher = match hasher_of(layers.hash, context.secret.as_ref()) {
            Ok(hasher) => hasher,
            Err(problem) => return self.refuse_block(&problem),
        };
        let hashes = keys.hashes(&hasher);
        (self.kind, self.expected_fpr) = (layers.growth.to_owned(), Some(health.expected_fpr));
        let positives = self.in_maps.filtered(|position| layers.may_contain(hashes[*position as usize]));
        self.add(Because::Filter, positives);
    }

    /// Probes a range filter for keys: a key is the range from itself to itself.
    fn probe_points(&mut self, block: &RangeBlock, keys: &KeyBatch<'_>, context: &Context) {
        self.entries = Some(block.info.keys);
        let filter = match block.load(context) {
            Ok(filter) => filter,
            Err(problem) => return self.refuse_block(&problem),
        };
        let sought: Vec<_> = self.in_maps.iter().collect();
        let point = |&position: &u32| KeyRange::from(keys.keys[position as usize]..=keys.keys[position as usize]);
        let mut matches = MatchBitmap::default();
        filter.may_contain_range_batch(&sought.iter().map(point).collect::<Vec<_>>(), &mut matches);
        (self.kind, self.expected_fpr) = (range_kind(&block.info), Some(block.info.expected_fpr(1)));
        self.add(Because::Filter, Positions::Listed(matches.iter().map(|index| sought[index]).collect()));
    }

    /// Probes the point filter of a sidecar, whole or partitioned; if it has none, its range filter.
    fn probe_sidecar(&mut self, sidecar: &Sidecar, keys: &KeyBatch<'_>, context: &Context) {
        match (sidecar.container(), sidecar.filter(FilterPart::Points), sidecar.filter(FilterPart::Ranges)) {
            (Err(problem), ..) => self.refuse(State::Damaged, in_options(&problem)),
            (Ok(None), None, Some(ranges)) => match RangeBlock::new(ranges) {
                Ok(block) => self.probe_points(&block, keys, context),
                Err(problem) => self.refuse_block(&problem),
            },
            _ if !sidecar.metadata.has_whole_keys() => self.refuse(State::Unusable, NO_WHOLE_KEYS.to_owned()),
            (Ok(Some(container)), ..) => self.probe_container(&container, keys, context),
            (Ok(None), points, _) => match FilterBlock::open_unverified(points.unwrap_or_default()) {
                Ok(block) => self.probe_block(&block, keys, context),
                Err(problem) => self.refuse_block(&problem),
            },
        }
    }

    /// Finds out whether the table next to a sidecar ignores it, because it is of another table.
    fn judge_sidecar(&mut self, opened: &Opened, context: &Context) {
        let table = table_of_sidecar(&opened.found.path).filter(|table| table.is_file());
        let table = table.and_then(|table| open_table(&table, context).ok());
        let state = table.and_then(|table| table.sidecar_problem().map(state_of_filter));
        if state == Some(State::Stale) {
            self.state = self.state.max(State::Stale);
            self.sidecar_problem = Some(STALE.to_owned());
        }
    }

    fn probe_foreign(&mut self, table: &ForeignTable, keys: &KeyBatch<'_>) {
        self.entries = table.properties().entries();
        // An error here does not end the probe: damage to one part of a filter does not affect the other parts.
        match table.filter_info() {
            Err(Error::NoFilter) => self.without_filter("filter"),
            info => {
                let found = table.probe_batch(&keys.foreign);
                let answered =
                    |answer| self.in_maps.filtered(|position| found.answers.get(*position as usize) == Some(&answer));
                let (unusable, maybe) = (answered(Probe::Unusable), answered(Probe::MaybePresent));
                let is_covered = |position: &u32| table.filter_covers(keys.keys[*position as usize]);
                let uncovered = maybe.filtered(|position| !is_covered(position));
                // Damage is reported before anything else: it is also why a comparator could not be taken from the
                // keys. Of equal problems, `max_by_key` returns the last.
                let problems = info.as_ref().err().into_iter().chain(found.reasons.first());
                if let Some(problem) = problems.max_by_key(|problem| state_of_error(problem)) {
                    self.note(state_of_error(problem), in_options(problem));
                }
                let is_unusable = found.count(Probe::Unusable) == keys.keys.len();
                (self.kind, self.expected_fpr) = match info {
                    _ if is_unusable => ("unusable".to_owned(), None),
                    Ok(info) => (kinds(&info), info.expected_fpr),
                    Err(_) => ("partly damaged".to_owned(), None),
                };
                self.add(Because::Filter, maybe.without(&uncovered));
                self.add(Because::NotCovered, uncovered);
                self.add(Because::UnusableFilter, unusable);
            }
        }
        self.add_range_tombstones(table);
    }

    fn add_range_tombstones(&mut self, table: &ForeignTable) {
        self.has_range_tombstones = table.has_range_tombstones();
        if self.has_range_tombstones {
            let mut rest = self.in_range.clone();
            for (_, positions) in &self.candidates {
                rest = rest.without(positions);
            }
            self.add(Because::RangeTombstones, rest);
        }
    }
}

/// Returns the kinds of another engine's filter.
fn kinds(info: &FilterInfo) -> String {
    let kind = |(kind, blocks): &(FilterKind, usize)| match kind {
        _ if info.kinds.len() == 1 => kind.to_string(),
        FilterKind::NoKeys => format!("{} without keys", counted(*blocks as u64, "block")),
        _ => format!("{kind} ({})", counted(*blocks as u64, "block")),
    };
    if info.kinds.is_empty() {
        "no blocks".to_owned()
    } else {
        info.kinds.iter().map(kind).collect::<Vec<_>>().join(", ")
    }
}

/// Probes a file for ranges of keys.
pub(crate) fn probe_ranges(opened: &Opened, ranges: &[Ends], context: &Context) -> FileProbe {
    let bounds = Bounds::of(opened);
    let meets = |ends: &Ends| bounds.meet(&ends.lower, &ends.upper);
    let in_range = Positions::all(ranges.len()).filtered(|position| meets(&ranges[*position as usize]));
    let mut probe = FileProbe { in_maps: in_range.clone(), in_range, ..FileProbe::default() };
    match &opened.body {
        Body::Table(table) => {
            let filters = table.filters();
            probe.entries = Some(table.properties().entries);
            match (table.range_filter_problem(), filters.range_filter()) {
                (Some(problem), _) => probe.refuse(state_of_filter(&problem), in_options(&problem)),
                (None, Some(filter)) => {
                    probe.use_ranges(&filter.info(), ranges, |range| filters.may_contain_range(range));
                }
                (None, None) => probe.without_filter("range filter"),
            }
        }
        Body::Ranges(block) => probe.probe_range_block(block, ranges, context),
        Body::Sidecar(sidecar) => match sidecar.filter(FilterPart::Ranges).map(RangeBlock::new) {
            Some(Ok(block)) => probe.probe_range_block(&block, ranges, context),
            Some(Err(problem)) => probe.refuse_block(&problem),
            None => probe.without_filter("range filter"),
        },
        Body::Foreign(table, _) => {
            probe.entries = table.properties().entries();
            probe.has_range_tombstones = table.has_range_tombstones();
            probe.without_filter("range filter");
        }
        Body::Block(_) | Body::Partitions(_) | Body::Layers(_) | Body::Map(_) => probe.without_filter("range filter"),
    }
    probe
}

impl FileProbe {
    fn probe_range_block(&mut self, block: &RangeBlock, ranges: &[Ends], context: &Context) {
        self.entries = Some(block.info.keys);
        match block.load(context) {
            Ok(filter) => self.use_ranges(&block.info, ranges, |range| filter.may_contain_range(range)),
            Err(problem) => self.refuse_block(&problem),
        }
    }

    fn use_ranges(&mut self, info: &RangeInfo, ranges: &[Ends], may_contain: impl Fn(KeyRange<'_>) -> bool) {
        self.kind = range_kind(info);
        let positives = self.in_maps.filtered(|position| may_contain(ranges[*position as usize].range()));
        self.add(Because::Filter, positives);
    }
}

fn range_kind(info: &RangeInfo) -> String {
    let map = match info.map {
        RangeMap::Hashed { .. } => "hashed",
        RangeMap::Ordered { .. } => "ordered",
        _ => "unknown",
    };
    format!("{}, {map}", KindId::RANGE)
}
