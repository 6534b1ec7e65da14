//! Probes one file for keys or ranges. Bounds exclude first, then a map of files, then the file's filter. Whatever a
//! map or a filter says, a table with range tombstones must be read for each key in its bounds.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BlockError, FilterBlock, HashIdentity, KeyHash, KeyRange, KindId, MatchBitmap, Probe};
use sstfilter_interop::{Error, TableBounds};
use sstfilter_range::RangeFilter;
use sstfilter_store::FilterPart;
use sstfilter_table::Table;

use super::batch::{Ends, KeyBatch, Positions, all_of, filtered, listed, of_ascending};
use super::engines::kinds_of;
use super::filters::EXACT_RANGE;
use super::judge::is_stale;
use super::lookup::Said;
use crate::file::blocks::{Layers, Partitions, RangeBlock, Sidecar, hasher_of};
use crate::file::database::Standing;
use crate::file::open::{Body, Context, ForeignTable, Opened};
use crate::file::problem::{Problem, STALE, State, explained, in_options, state_of_error, state_of_filter};
use crate::print::words;

words! {
    /// Why a lookup must read a file, or need not.
    pub(crate) enum Because {
        Filter = "filter",
        /// its smallest and largest key
        Bounds = "bounds",
        /// what a map that covers it says
        Map = "map",
        NoFilter = "no filter",
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
    /// Those for which the file must be read. No two sets share one.
    pub(crate) candidates: Vec<(Because, Positions)>,
}

impl FileProbe {
    fn of(in_range: Positions, in_maps: Option<&Positions>) -> Self {
        let in_maps = in_maps.map_or_else(|| in_range.clone(), |in_maps| &in_range & in_maps);
        Self { in_range, in_maps, ..Self::default() }
    }

    /// Returns a file that cannot be opened: it may contain every key.
    pub(crate) fn unopened(problem: &Problem, all: Positions) -> Self {
        let mut probe = Self::of(all, None);
        probe.refuse(Refusal::unusable(problem.state, explained(&problem.reason)));
        probe
    }

    /// Returns a file without bounds and filter, about which maps say this; `None` if none covers it.
    pub(crate) fn of_map(said: Option<Said>, all: Positions) -> Self {
        let mut probe = Self::of(all, None);
        let Some(Said { maybe, unknown, expected_fpr }) = said else {
            probe.refuse(Refusal::missing("filter"));
            return probe;
        };
        (probe.kind, probe.expected_fpr) = (MAP.to_owned(), Some(expected_fpr));
        probe.add(Because::Map, maybe - &unknown);
        probe.add(Because::MapUnknown, unknown);
        probe
    }

    /// Returns the number of keys for which the file must be read for this reason.
    pub(crate) fn count(&self, because: Because) -> u64 {
        let of_reason = self.candidates.iter().filter(|(reason, _)| *reason == because);
        of_reason.map(|(_, positions)| positions.len()).sum()
    }

    /// Returns the number of keys for which the file must be read.
    pub(crate) fn candidates(&self) -> u64 {
        self.candidates.iter().map(|(_, positions)| positions.len()).sum()
    }

    /// Returns the number of keys that the filter was probed for, or the map of a file that has none.
    pub(crate) fn probes(&self) -> u64 {
        let has_no_answer = [Because::NoFilter, Because::UnusableFilter, Because::NotCovered, Because::MapUnknown];
        self.in_maps.len() - has_no_answer.into_iter().map(|because| self.count(because)).sum::<u64>()
    }

    /// Returns the number of probes that were answered with "may contain".
    pub(crate) fn positives(&self) -> u64 {
        self.count(Because::Filter) + self.count(Because::Map)
    }

    /// Returns the number of keys for which the file is expected to be read if all are absent; `None` if the rate of
    /// its filter is unknown.
    pub(crate) fn expected_candidates(&self) -> Option<f64> {
        let (probes, unprobed) = (self.probes() as f64, self.in_maps.len() - self.probes());
        let rate = if probes > 0.0 { self.expected_fpr? } else { 0.0 };
        Some(if self.has_range_tombstones { self.in_range.len() as f64 } else { unprobed as f64 + rate * probes })
    }

    /// Returns why the file must be read for a key; `None` if it need not.
    pub(crate) fn candidate(&self, position: u32) -> Option<Because> {
        let candidate = self.candidates.iter().find(|(_, positions)| positions.contains(position));
        candidate.map(|(because, _)| *because)
    }

    /// Returns what shows that the file need not be read for a key.
    pub(crate) fn skipped_by(&self, position: u32) -> Because {
        match position {
            _ if !self.in_range.contains(position) => Because::Bounds,
            _ if self.kind == MAP || !self.in_maps.contains(position) => Because::Map,
            _ => Because::Filter,
        }
    }

    fn add(&mut self, because: Because, positions: Positions) {
        if !positions.is_empty() {
            self.candidates.push((because, positions));
        }
    }

    /// Records why every key is a candidate.
    fn refuse(&mut self, refusal: Refusal) {
        let kind = if refusal.because == Because::NoFilter { "none" } else { "unusable" };
        (self.kind, self.expected_fpr) = (kind.to_owned(), None);
        self.note(refusal.state, refusal.problem);
        self.add(refusal.because, self.in_maps.clone());
    }

    fn note(&mut self, state: State, problem: String) {
        self.state = self.state.max(state);
        self.problem = Some(problem);
    }

    /// Records the answers of a usable filter.
    fn answered(&mut self, kind: String, expected_fpr: f64, positives: Positions) {
        (self.kind, self.expected_fpr) = (kind, Some(expected_fpr));
        self.add(Because::Filter, positives);
    }
}

/// Why a filter answers for no key.
struct Refusal {
    because: Because,
    state: State,
    problem: String,
}

impl Refusal {
    fn unusable(state: State, problem: String) -> Self {
        Self { because: Because::UnusableFilter, state, problem }
    }

    fn missing(kind: &str) -> Self {
        Self { because: Because::NoFilter, state: State::Missing, problem: format!("it has no {kind}") }
    }

    /// Refuses a filter whose parts of keys are unknown. The library's message names its functions.
    fn of_parts() -> Self {
        let why = "its filter holds only parts of keys, and this program does not have their extractor";
        Self::unusable(State::Unusable, why.to_owned())
    }
}

impl From<BlockError> for Refusal {
    fn from(problem: BlockError) -> Self {
        // A filter of another hash or prefix is sound: a reader that has them can use it.
        let is_of_others = matches!(problem, BlockError::HashMismatch { .. } | BlockError::ExtractorMismatch { .. });
        Self::unusable(if is_of_others { State::Unusable } else { State::Damaged }, in_options(&problem))
    }
}

/// The smallest and the largest key of a table: a lookup never reads a table whose bounds exclude the key, whatever its
/// filter answers.
enum Bounds<'a> {
    /// Nothing records them: a filter without a table, or a table of another engine without its manifest.
    Unknown,
    /// A table of this library without entries has none, and holds no key.
    Own(Option<(&'a [u8], &'a [u8])>),
    Foreign(TableBounds<'a>),
}

impl<'a> Bounds<'a> {
    fn of(opened: &'a Opened) -> Self {
        match (&opened.body, &opened.found.standing) {
            (Body::Table(table), _) => Self::Own(table.properties().filters.key_bounds()),
            (Body::Foreign(table, _), Standing::Live(file)) => table.bounds(file).map_or(Self::Unknown, Self::Foreign),
            _ => Self::Unknown,
        }
    }

    fn hold(&self, key: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Own(ends) => ends.is_some_and(|(smallest, largest)| smallest <= key && key <= largest),
            Self::Foreign(bounds) => bounds.holds(key),
        }
    }

    /// Whether the table may have a key from `lower` (inclusive) to `upper` (exclusive).
    fn meet(&self, lower: &[u8], upper: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Own(ends) => ends.is_some_and(|(smallest, largest)| smallest < upper && lower <= largest),
            Self::Foreign(bounds) => bounds.meets(lower, upper),
        }
    }
}

/// Keys, and what files need to be probed for them.
#[derive(Clone, Copy)]
struct Sought<'a> {
    keys: &'a KeyBatch<'a>,
    context: &'a Context,
}

impl Sought<'_> {
    /// Returns the hashes of all keys, or why this program does not have them.
    fn hashes(self, hash: HashIdentity) -> Result<Arc<[KeyHash]>, BlockError> {
        Ok(self.keys.hashes(&hasher_of(hash, self.context.secret.as_ref())?))
    }
}

/// Probes a file for keys, unless maps say that it has none but those of `in_maps`.
pub(crate) fn probe(opened: &Opened, keys: &KeyBatch<'_>, in_maps: Option<&Positions>, context: &Context) -> FileProbe {
    let all = all_of(keys.keys.len());
    let in_range = match Bounds::of(opened) {
        Bounds::Unknown => all,
        bounds => filtered(&all, |at| bounds.hold(keys.keys[at])),
    };
    let mut probe = FileProbe::of(in_range, in_maps);
    probe.run(opened, Sought { keys, context });
    probe
}

/// Probes the filter of a file for all keys, also those outside of its bounds.
pub(crate) fn probe_filter(opened: &Opened, keys: &KeyBatch<'_>, context: &Context) -> FileProbe {
    let mut probe = FileProbe::of(all_of(keys.keys.len()), None);
    probe.run(opened, Sought { keys, context });
    probe
}

impl FileProbe {
    fn run(&mut self, opened: &Opened, sought: Sought<'_>) {
        let probed = match &opened.body {
            Body::Table(table) => self.probe_table(table, opened, sought),
            Body::Foreign(table, _) => {
                self.probe_foreign(table, sought.keys);
                Ok(())
            }
            Body::Block(block) => self.probe_block(block, sought),
            Body::Partitions(container) => self.probe_partitions(&container.partitions(), sought),
            Body::Layers(layers) => self.probe_layers(layers, sought),
            Body::Ranges(block) => self.probe_points(block, sought),
            Body::Sidecar(sidecar) => self.probe_sidecar(sidecar, sought),
            Body::Map(_) => Err(Refusal::missing("filter")),
        };
        if let Err(refusal) = probed {
            self.refuse(refusal);
        }
        if matches!(opened.body, Body::Sidecar(_)) && is_stale(&opened.found.path, sought.context) {
            self.state = self.state.max(State::Stale);
            self.sidecar_problem = Some(STALE.to_owned());
        }
    }

    fn probe_table(&mut self, table: &Table, opened: &Opened, sought: Sought<'_>) -> Result<(), Refusal> {
        let filters = table.filters();
        self.entries = Some(table.properties().entries);
        if let Some(problem) = table.filter_problem() {
            self.state = self.state.max(state_of_filter(&problem));
        }
        if let Some(problem) = table.sidecar_problem() {
            self.state = self.state.max(state_of_filter(problem));
            self.sidecar_problem = Some(in_options(problem));
        }
        match (Partitions::of_table(table, &opened.found.path), filters.point_problem(), filters.block()) {
            (Some(partitions), ..) => self.probe_partitions(&partitions, sought),
            (None, Some(problem), _) => Err(Refusal::unusable(State::Unusable, in_options(&problem))),
            (None, None, Some(block)) => self.probe_verified(block, sought),
            (None, None, None) => {
                let exact = filters.range_filter().filter(RangeFilter::is_exact);
                let exact = exact.ok_or_else(|| Refusal::missing("filter"))?;
                self.probe_keys_of(&exact, sought);
                Ok(())
            }
        }
    }

    fn probe_block<D: AsRef<[u8]>>(&mut self, block: &FilterBlock<D>, sought: Sought<'_>) -> Result<(), Refusal> {
        self.entries = Some(block.info().keys);
        block.verify()?;
        if block.info().whole_keys { self.probe_verified(block, sought) } else { Err(Refusal::of_parts()) }
    }

    fn probe_verified<D: AsRef<[u8]>>(&mut self, block: &FilterBlock<D>, sought: Sought<'_>) -> Result<(), Refusal> {
        let hashes = sought.hashes(block.hash_identity())?;
        let positions = listed(&self.in_maps);
        let chosen = || positions.iter().map(|&position| hashes[position as usize]).collect::<Vec<_>>();
        let hashes = if positions.len() == hashes.len() { Cow::Borrowed(&hashes[..]) } else { Cow::Owned(chosen()) };
        let mut matches = MatchBitmap::default();
        block.may_contain_batch(&hashes, &mut matches);
        let positives = of_ascending(matches.iter().map(|index| positions[index]).collect());
        self.answered(block.info().kind.to_string(), block.info().expected_fpr, positives);
        Ok(())
    }

    /// Probes a partitioned filter. Keys of a partition that cannot be used are candidates.
    fn probe_partitions(&mut self, partitions: &Partitions<'_>, sought: Sought<'_>) -> Result<(), Refusal> {
        self.entries.get_or_insert(partitions.index().keys());
        if !partitions.index().has_whole_keys() {
            return Err(Refusal::of_parts());
        }
        let hashes = sought.hashes(partitions.hash_identity())?;
        let (mut positives, mut unanswered) = (Positions::new(), Positions::new());
        for position in &self.in_maps {
            let at = position as usize;
            match partitions.answer(sought.keys.keys[at], hashes[at]) {
                Some(true) => positives.insert(position),
                Some(false) => false,
                None => unanswered.insert(position),
            };
        }
        if let Some(problem) = partitions.problem() {
            self.note(partitions.state(), problem);
        }
        self.answered(format!("partitioned, {}", partitions.kinds()), partitions.expected_fpr(), positives);
        self.add(Because::UnusableFilter, unanswered);
        Ok(())
    }

    fn probe_layers(&mut self, layers: &Layers, sought: Sought<'_>) -> Result<(), Refusal> {
        let health = layers.health();
        self.entries = Some(health.keys);
        let hashes = sought.hashes(layers.hash)?;
        let positives = filtered(&self.in_maps, |at| layers.may_contain(hashes[at]));
        self.answered(layers.growth.to_owned(), health.expected_fpr, positives);
        Ok(())
    }

    /// Probes a range filter for keys: a key is the range from itself to itself.
    fn probe_points(&mut self, block: &RangeBlock, sought: Sought<'_>) -> Result<(), Refusal> {
        self.entries = Some(block.info.keys);
        self.probe_keys_of(&block.load(sought.context)?, sought);
        Ok(())
    }

    fn probe_keys_of(&mut self, filter: &RangeFilter<Bytes>, sought: Sought<'_>) {
        let positives = filtered(&self.in_maps, |at| filter.may_contain(sought.keys.keys[at]));
        let kind = if filter.is_exact() { EXACT_RANGE } else { KindId::RANGE.name() };
        self.answered(kind.to_owned(), filter.info().expected_fpr(1), positives);
    }

    /// Probes the point filter of a sidecar, whole or partitioned; if it has none, its range filter.
    fn probe_sidecar(&mut self, sidecar: &Sidecar, sought: Sought<'_>) -> Result<(), Refusal> {
        match (sidecar.container(), sidecar.filter(FilterPart::Points), sidecar.filter(FilterPart::Ranges)) {
            (Err(problem), ..) => Err(Refusal::unusable(State::Damaged, in_options(&problem))),
            (Ok(None), None, Some(ranges)) => self.probe_points(&RangeBlock::new(ranges)?, sought),
            _ if !sidecar.metadata.has_whole_keys() => Err(Refusal::of_parts()),
            (Ok(Some(container)), ..) => self.probe_partitions(&container.partitions(), sought),
            (Ok(None), points, _) => {
                self.probe_block(&FilterBlock::open_unverified(points.unwrap_or_default())?, sought)
            }
        }
    }

    fn probe_foreign(&mut self, table: &ForeignTable, keys: &KeyBatch<'_>) {
        self.entries = table.properties().entries();
        // An error here does not end the probe: damage to one part of a filter does not affect the other parts.
        match table.filter_info() {
            Err(Error::NoFilter) => self.refuse(Refusal::missing("filter")),
            info => {
                let found = table.probe_batch(&keys.foreign);
                let answered = |answer| filtered(&self.in_maps, |at| found.answers.get(at) == Some(&answer));
                let (unusable, maybe) = (answered(Probe::Unusable), answered(Probe::MaybePresent));
                let uncovered = filtered(&maybe, |at| !table.filter_covers(keys.keys[at]));
                // Damage is reported before anything else: it is also why a comparator could not be taken from the
                // keys. Of equal problems, `max_by_key` returns the last.
                let problems = info.as_ref().err().into_iter().chain(found.reasons.first());
                if let Some(problem) = problems.max_by_key(|problem| state_of_error(problem)) {
                    self.note(state_of_error(problem), in_options(problem));
                }
                let is_unusable = found.count(Probe::Unusable) == keys.keys.len();
                (self.kind, self.expected_fpr) = match info {
                    _ if is_unusable => ("unusable".to_owned(), None),
                    Ok(info) => (kinds_of(&info), info.expected_fpr),
                    Err(_) => ("partly damaged".to_owned(), None),
                };
                self.add(Because::Filter, maybe - &uncovered);
                self.add(Because::NotCovered, uncovered);
                self.add(Because::UnusableFilter, unusable);
            }
        }
        self.has_range_tombstones = table.has_range_tombstones();
        if self.has_range_tombstones {
            let rest = self.candidates.iter().fold(self.in_range.clone(), |rest, (_, positions)| rest - positions);
            self.add(Because::RangeTombstones, rest);
        }
    }
}

/// Probes a file for ranges of keys.
pub(crate) fn probe_ranges(opened: &Opened, ranges: &[Ends], context: &Context) -> FileProbe {
    let bounds = Bounds::of(opened);
    let meets = |at: usize| bounds.meet(&ranges[at].lower, &ranges[at].upper);
    let mut probe = FileProbe::of(filtered(&all_of(ranges.len()), meets), None);
    let probed = match &opened.body {
        Body::Table(table) => {
            let filters = table.filters();
            probe.entries = Some(table.properties().entries);
            match table.range_filter_problem() {
                Some(problem) => Err(Refusal::unusable(state_of_filter(&problem), in_options(&problem))),
                None if filters.range_filter().is_none() => Err(Refusal::missing("range filter")),
                None => {
                    probe.use_ranges(ranges, |range| filters.may_contain_range(range));
                    Ok(())
                }
            }
        }
        Body::Ranges(block) => probe.probe_range_block(block, ranges, context),
        Body::Sidecar(sidecar) => match sidecar.filter(FilterPart::Ranges).map(RangeBlock::new) {
            Some(Ok(block)) => probe.probe_range_block(&block, ranges, context),
            Some(Err(problem)) => Err(problem.into()),
            None => Err(Refusal::missing("range filter")),
        },
        Body::Foreign(table, _) if table.has_range_tombstones() => {
            "none".clone_into(&mut probe.kind);
            probe.entries = table.properties().entries();
            probe.has_range_tombstones = true;
            probe.add(Because::RangeTombstones, probe.in_range.clone());
            Ok(())
        }
        _ => Err(Refusal::missing("range filter")),
    };
    if let Err(refusal) = probed {
        probe.refuse(refusal);
    }
    probe
}

impl FileProbe {
    fn probe_range_block(&mut self, block: &RangeBlock, ranges: &[Ends], context: &Context) -> Result<(), Refusal> {
        self.entries = Some(block.info.keys);
        let filter = block.load(context)?;
        self.use_ranges(ranges, |range| filter.may_contain_range(range));
        Ok(())
    }

    fn use_ranges(&mut self, ranges: &[Ends], may_contain: impl Fn(KeyRange<'_>) -> bool) {
        KindId::RANGE.name().clone_into(&mut self.kind);
        let positives = filtered(&self.in_maps, |at| may_contain(ranges[at].range()));
        self.add(Because::Filter, positives);
    }
}
