//! Probes one file's filter for all keys of a batch.

use std::path::Path;

use bytes::Bytes;
use serde::Serialize;
use sstfilter::{BlockError, FilterBlock, HashIdentity, KeyHasher, KeyRange, MatchBitmap, Probe};
use sstfilter_interop::{BatchAnswers, Error, FilterInfo};
use sstfilter_table::Table;

use super::batch::{KeyBatch, Times, timed};
use super::bounds::{self, BoundsArgs};
use crate::opened::{self, ForeignTable, Opened, Reading, Unopened};
use crate::output::{Outcome, explained, in_options};
use crate::partitions::{PartitionFields, Partitions};
use crate::parts::NO_WHOLE_KEYS;
use crate::ranges::{self, RangeBlock};
use crate::{files, input};

/// A file's filter, and its answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FileProbes {
    pub(crate) path: String,
    /// `table`, `filter block`; `none` if the file cannot be opened.
    pub(crate) format: String,
    /// The kind of filter, `none` or `unusable`.
    pub(crate) filter: String,
    /// Null if the file does not record it.
    pub(crate) keys_in_table: Option<u64>,
    /// Whether the table deletes ranges of keys, which may be in older tables. Such a table must be read whatever its
    /// filter answers.
    pub(crate) has_range_tombstones: bool,
    /// Whether its smallest and largest key exclude keys: they are known and not ignored.
    pub(crate) uses_bounds: bool,
    /// Keys between the smallest and the largest key of the table; all keys unless `uses_bounds`.
    pub(crate) keys_in_range: u64,
    /// Keys in range that the filter cannot be probed for, because its extractor extracts nothing from them. The table
    /// may contain each of them, and no figure below counts them.
    pub(crate) keys_not_probed: u64,
    pub(crate) positives: u64,
    /// Null if no key was probed.
    pub(crate) observed_rate: Option<f64>,
    /// Expected rate for absent keys. Null if it cannot be computed.
    pub(crate) expected_rate: Option<f64>,
    /// Why every key counts as a positive: there is no filter, or it cannot be used.
    pub(crate) problem: Option<String>,
    /// Why the table's own filter was probed and not its sidecar; of a sidecar, why readers ignore it.
    pub(crate) sidecar_problem: Option<String>,
    /// Keys that are positive only because of the problem.
    #[serde(skip)]
    pub(crate) unanswered: Answers,
    #[serde(skip)]
    pub(crate) outcome: Outcome,
}

/// Keys of a batch, such as those that a filter is positive for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Answers {
    #[default]
    All,
    /// Positions of the keys, ascending. Most keys of a batch are absent from most files, and positions are smaller
    /// than a bitmap if fewer than one key in 32 is positive.
    Some(Vec<u32>),
}

impl Answers {
    pub(crate) const NONE: Self = Self::Some(Vec::new());

    fn from_bitmap(matches: &MatchBitmap) -> Self {
        Self::Some(matches.iter().filter_map(|position| u32::try_from(position).ok()).collect())
    }

    /// Takes the keys whose answer `is_taken`.
    fn from_foreign(found: &BatchAnswers, is_taken: impl Fn(Probe) -> bool) -> Self {
        Self::from_positions((0..).zip(&found.answers).filter(|&(_, &answer)| is_taken(answer)))
    }

    /// Takes the positions of positives, which are ascending.
    pub(crate) fn from_positions<T>(positives: impl Iterator<Item = (u32, T)>) -> Self {
        Self::Some(positives.map(|(position, _)| position).collect())
    }

    /// Keeps the positives that are in range.
    fn within(self, in_range: Option<&[u32]>) -> Self {
        match (self, in_range) {
            (answers, None) => answers,
            (Self::All, Some(in_range)) => Self::Some(in_range.to_vec()),
            (Self::Some(positions), Some(in_range)) => Self::Some(bounds::intersection(&positions, in_range)),
        }
    }

    /// Counts positives that the filter of `table` cannot exclude, because it holds no part of such keys.
    fn count_uncovered(&self, table: &ForeignTable, keys: &KeyBatch<'_>) -> u64 {
        let Self::Some(positions) = self else { return 0 };
        positions.iter().filter(|&&position| !table.filter_covers(keys.keys[position as usize])).count() as u64
    }

    fn count(&self, keys: usize) -> u64 {
        match self {
            Self::All => keys as u64,
            Self::Some(positions) => positions.len() as u64,
        }
    }

    /// Adds one for each positive key.
    pub(crate) fn count_into(&self, touched: &mut [u32]) {
        match self {
            Self::All => touched.iter_mut().for_each(|count| *count += 1),
            Self::Some(positions) => {
                for &position in positions {
                    if let Some(count) = touched.get_mut(position as usize) {
                        *count += 1;
                    }
                }
            }
        }
    }

    /// Whether the key at `position` is positive.
    pub(crate) fn holds(&self, position: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(positions) => positions.binary_search(&position).is_ok(),
        }
    }
}

/// Opens the file at `path` and probes its filter. Any problem with the file makes all keys positive, because it may
/// contain each of them. With bounds, only keys in range are positive.
pub(crate) fn probe_file(
    path: &Path,
    keys: &KeyBatch<'_>,
    reading: Reading<'_>,
    bounds: BoundsArgs,
    times: &mut Times,
) -> (FileProbes, Answers) {
    let opened = timed(&mut times.reading, || Opened::open_to_probe(path, reading));
    let known = opened.as_ref().ok().filter(|_| !bounds.filters_only);
    let in_range = known.and_then(|opened| bounds::positions(opened, path, reading.manifests, &keys.keys));
    let in_range = in_range.as_deref();
    let (mut file, answers) = match opened {
        Ok(Opened::Table(table)) => probe_table(path, &table, keys, reading.secret, times),
        Ok(Opened::FilterBlock(block)) => probe_block(&block, keys, reading.secret, times),
        Ok(Opened::RangeFilter(block)) => probe_range_filter(&block, keys, reading, times),
        Ok(Opened::Partitions(container)) => {
            let partitions = timed(&mut times.reading, || container.partitions());
            let (filter, answers) = probe_partitions(&partitions, keys, reading.secret, times);
            (filter.of("filter block", Some(container.index.keys())), answers)
        }
        Ok(Opened::Foreign(table)) => {
            let (mut file, answers) = probe_foreign(&table, keys, times);
            // Before uncovered keys are counted, because only those in range touch the table.
            let answers = answers.within(in_range);
            // A filter that is unusable for every key was not probed: all keys are positive.
            if matches!(file.unanswered, Answers::Some(_)) {
                file.keys_not_probed = answers.count_uncovered(&table, keys);
            }
            (FileProbes { has_range_tombstones: table.has_range_tombstones(), ..file }, answers)
        }
        Err(problem) => (FileProbes::unopened(&problem), Answers::All),
    };
    if files::is_stale_sidecar(path, reading.of_tables()) {
        file.outcome = file.outcome.max(Outcome::No);
        file.sidecar_problem = Some(files::STALE.to_owned());
    }
    let answers = answers.within(in_range);
    file.path = input::name(path).into_owned();
    file.uses_bounds = in_range.is_some();
    file.keys_in_range = in_range.map_or(keys.keys.len(), <[u32]>::len) as u64;
    file.positives = answers.count(keys.keys.len()) - file.keys_not_probed;
    file.unanswered = match file.unanswered {
        Answers::All => Answers::All,
        some @ Answers::Some(_) => some.within(in_range),
    };
    let probed = file.keys_probed();
    file.observed_rate = (probed > 0).then(|| file.positives as f64 / probed as f64);
    (file, answers)
}

fn probe_table(
    path: &Path,
    table: &Table,
    keys: &KeyBatch<'_>,
    secret: Option<&KeyHasher>,
    times: &mut Times,
) -> (FileProbes, Answers) {
    let partitions = timed(&mut times.reading, || Partitions::of_table(table, path));
    let problem = table.filters().point_problem();
    let (mut filter, answers) = match (partitions, problem, table.filters().block()) {
        (Some(partitions), ..) => probe_partitions(&partitions, keys, secret, times),
        (None, Some(problem), _) => (FilterState::unusable(in_options(&problem), Outcome::Yes), Answers::All),
        (None, None, Some(block)) => probe_filter(block, keys, secret, times),
        (None, None, None) => (FilterState::none(), Answers::All),
    };
    if let Some(problem) = table.filter_problem() {
        filter.outcome = files::outcome_of_filter(&problem);
    }
    let mut file = filter.of("table", Some(table.properties().entries));
    if let Some(problem) = table.sidecar_problem() {
        file.outcome = file.outcome.max(files::outcome_of_filter(problem));
        file.sidecar_problem = Some(in_options(problem));
    }
    (file, answers)
}

/// Probes a partitioned filter. Keys of a partition that cannot be used are positive.
fn probe_partitions(
    partitions: &Partitions<'_>,
    keys: &KeyBatch<'_>,
    secret: Option<&KeyHasher>,
    times: &mut Times,
) -> (FilterState, Answers) {
    if !partitions.index().has_whole_keys() {
        return without_whole_keys();
    }
    let hasher = match hasher_of(partitions.hash_identity(), secret) {
        Ok(hasher) => hasher,
        Err(problem) => return unusable(&problem),
    };
    let hashes = timed(&mut times.hashing, || keys.hashes(&hasher));
    let (mut positives, mut unanswered) = (Vec::new(), Vec::new());
    timed(&mut times.probing, || {
        for (position, (key, &hash)) in (0..).zip(keys.keys.iter().zip(hashes.iter())) {
            let answer = partitions.answer(key, hash);
            if answer.is_none() {
                unanswered.push(position);
            }
            if answer != Some(false) {
                positives.push(position);
            }
        }
    });
    times.probes += hashes.len() as u64;
    let state = FilterState::partitioned(&PartitionFields::new(partitions), Answers::Some(unanswered));
    (state, Answers::Some(positives))
}

fn probe_block(
    block: &FilterBlock<Bytes>,
    keys: &KeyBatch<'_>,
    secret: Option<&KeyHasher>,
    times: &mut Times,
) -> (FileProbes, Answers) {
    let info = block.info();
    let (filter, answers) = match timed(&mut times.reading, || block.verify()) {
        Ok(()) if !info.whole_keys => without_whole_keys(),
        Ok(()) => probe_filter(block, keys, secret, times),
        Err(problem) => unusable(&problem),
    };
    (filter.of("filter block", Some(info.keys)), answers)
}

/// Probes a range filter for keys: a key is the range from itself to itself.
fn probe_range_filter(
    block: &RangeBlock,
    keys: &KeyBatch<'_>,
    reading: Reading<'_>,
    times: &mut Times,
) -> (FileProbes, Answers) {
    let keys_in_block = Some(block.info.keys);
    let filter = match timed(&mut times.reading, || block.load(&reading.context())) {
        Ok(filter) => filter,
        Err(problem) => {
            let state = FilterState::unusable(in_options(&problem), ranges::outcome_of(&problem));
            return (state.of("filter block", keys_in_block), Answers::All);
        }
    };
    let points: Vec<_> = keys.keys.iter().map(|&key| KeyRange::from(key..=key)).collect();
    let mut matches = MatchBitmap::default();
    timed(&mut times.probing, || filter.may_contain_range_batch(&points, &mut matches));
    times.probes += points.len() as u64;
    let kind = format!("range, {}", ranges::map_name(&block.info));
    let state = FilterState::usable(kind, Some(block.info.expected_fpr(1)));
    (state.of("filter block", keys_in_block), Answers::from_bitmap(&matches))
}

fn probe_foreign(table: &ForeignTable, keys: &KeyBatch<'_>, times: &mut Times) -> (FileProbes, Answers) {
    let format = format!("{} table", table.engine().name());
    let entries = table.properties().entries();
    // An error here does not end the probe: damage to one part of a filter does not affect the other parts.
    let info = timed(&mut times.reading, || table.filter_info());
    if let Err(Error::NoFilter) = info {
        return (FilterState::none().of(&format, entries), Answers::All);
    }
    let found = timed(&mut times.probing, || table.probe_batch(&keys.foreign));
    let unusable = found.count(Probe::Unusable);
    times.probes += (keys.keys.len() - unusable) as u64;
    let answers = Answers::from_foreign(&found, |answer| !answer.is_absent());
    let unanswered = Answers::from_foreign(&found, |answer| answer == Probe::Unusable);
    // Damage is reported before anything else: it is also why a comparator could not be taken from the keys. Of equal
    // problems, `max_by_key` returns the last.
    let severity = |problem: &&Error| opened::outcome_of_foreign(problem);
    let problem = info.as_ref().err().into_iter().chain(found.reasons.first()).max_by_key(severity);
    let state = match (problem, &info) {
        (None, Ok(info)) => FilterState::usable(kinds(info), info.expected_fpr),
        (Some(problem), _) if unusable == keys.keys.len() => FilterState::foreign(problem),
        (Some(problem), Ok(info)) => FilterState::partly(kinds(info), problem, unanswered),
        (_, Err(problem)) => FilterState::partly("partly damaged".to_owned(), problem, unanswered),
    };
    (state.of(&format, entries), answers)
}

/// Probes a filter of this library with the hash function that it was built with.
fn probe_filter<D: AsRef<[u8]>>(
    block: &FilterBlock<D>,
    keys: &KeyBatch<'_>,
    secret: Option<&KeyHasher>,
    times: &mut Times,
) -> (FilterState, Answers) {
    let hasher = match hasher_of(block.hash_identity(), secret) {
        Ok(hasher) => hasher,
        Err(problem) => return unusable(&problem),
    };
    let hashes = timed(&mut times.hashing, || keys.hashes(&hasher));
    let mut matches = MatchBitmap::default();
    timed(&mut times.probing, || block.may_contain_batch(&hashes, &mut matches));
    times.probes += hashes.len() as u64;
    let info = block.info();
    (FilterState::usable(info.kind.to_string(), Some(info.expected_fpr)), Answers::from_bitmap(&matches))
}

fn unusable(problem: &BlockError) -> (FilterState, Answers) {
    // A filter with another hash is sound: a reader that has that hash can use it.
    let outcome = Outcome::from_sound(matches!(problem, BlockError::HashMismatch { .. }));
    (FilterState::unusable(in_options(problem), outcome), Answers::All)
}

fn without_whole_keys() -> (FilterState, Answers) {
    (FilterState::unusable(NO_WHOLE_KEYS.to_owned(), Outcome::Yes), Answers::All)
}

/// Returns the hasher that a filter was built with.
pub(crate) fn hasher_of(got: HashIdentity, secret: Option<&KeyHasher>) -> Result<KeyHasher, BlockError> {
    let known = secret.filter(|hasher| hasher.identity() == got).cloned().or_else(|| KeyHasher::from_identity(got));
    known.ok_or(BlockError::HashMismatch {
        expected: secret.map_or_else(HashIdentity::default, KeyHasher::identity),
        got,
    })
}

/// The part of a report that describes a file's filter.
struct FilterState {
    kind: String,
    expected_rate: Option<f64>,
    problem: Option<String>,
    /// Keys that are positive only because of the problem.
    unanswered: Answers,
    outcome: Outcome,
}

impl FilterState {
    fn usable(kind: String, expected_rate: Option<f64>) -> Self {
        Self { kind, expected_rate, problem: None, unanswered: Answers::NONE, outcome: Outcome::Yes }
    }

    fn without_answers(kind: &str, problem: String, outcome: Outcome) -> Self {
        // Without answers, every key is positive: a rate of 1.
        let usable = Self::usable(kind.to_owned(), Some(1.0));
        Self { problem: Some(problem), unanswered: Answers::All, outcome, ..usable }
    }

    fn none() -> Self {
        Self::without_answers("none", "it has no filter".to_owned(), Outcome::Yes)
    }

    fn unusable(problem: String, outcome: Outcome) -> Self {
        Self::without_answers("unusable", problem, outcome)
    }

    fn foreign(problem: &Error) -> Self {
        Self::unusable(in_options(problem), opened::outcome_of_foreign(problem))
    }

    /// Returns the state of a filter that is positive for some keys regardless of its bits.
    fn partly(kind: String, problem: &Error, unanswered: Answers) -> Self {
        Self { kind, expected_rate: None, unanswered, ..Self::foreign(problem) }
    }

    fn partitioned(fields: &PartitionFields, unanswered: Answers) -> Self {
        let usable = Self::usable(format!("partitioned, {}", fields.kinds()), Some(fields.expected_fpr));
        match fields.problem() {
            None => Self { unanswered, ..usable },
            Some(problem) => Self { problem: Some(problem.to_owned()), unanswered, outcome: fields.outcome, ..usable },
        }
    }

    fn of(self, format: &str, keys_in_table: Option<u64>) -> FileProbes {
        FileProbes {
            path: String::new(),
            format: format.to_owned(),
            filter: self.kind,
            keys_in_table,
            has_range_tombstones: false,
            uses_bounds: false,
            keys_in_range: 0,
            keys_not_probed: 0,
            positives: 0,
            observed_rate: None,
            expected_rate: self.expected_rate,
            problem: self.problem,
            sidecar_problem: None,
            unanswered: self.unanswered,
            outcome: self.outcome,
        }
    }
}

impl FileProbes {
    /// Returns the number of keys in range that the filter was probed for.
    pub(crate) const fn keys_probed(&self) -> u64 {
        self.keys_in_range - self.keys_not_probed
    }

    /// Returns the number of positives that only its problem causes.
    pub(crate) fn positives_unanswered(&self) -> u64 {
        match &self.unanswered {
            Answers::All => self.positives,
            Answers::Some(positions) => positions.len() as u64,
        }
    }

    fn unopened(unopened: &Unopened) -> Self {
        FilterState::unusable(explained(&unopened.reason), unopened.outcome).of("none", None)
    }
}

/// Returns the kinds of a filter's blocks in one line.
fn kinds(info: &FilterInfo) -> String {
    let named = info.kinds.iter().map(|(kind, blocks)| format!("{kind} ({blocks})"));
    match info.kinds.as_slice() {
        [] => "no blocks".to_owned(),
        [(kind, _)] => kind.to_string(),
        _ => named.collect::<Vec<_>>().join(", "),
    }
}
