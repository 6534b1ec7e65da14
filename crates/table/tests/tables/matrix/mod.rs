//! The matrix of promises: wherever a filter is stored, whatever is wrong with its bytes or its reader, and whoever
//! reads it, no key is lost, and the problem is reported. The failure guarded against: one of these ways to read a
//! filter forgets a check that all others make.
//!
//! - [`places`]: where a filter is stored, and how each reader reads it there.
//! - [`expected`]: what must happen in each cell of the matrix.
//!
//! Flips and cuts are samples; `SSTFILTER_LONG=1` flips every byte and cuts at every length.

mod expected;
mod places;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sstfilter::{BitsPerKey, Filters, FixedPolicy, FixedPrefix, KeyExtractor, KeyHash, KeyHasher, KeyParts};
use sstfilter_store::FilterStore;
use sstfilter_table::TableOptions;

use crate::common::effort;
use expected::{Cell, Matrix};
use places::Place;

/// What is wrong with the stored bytes, or with their reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// A bit of any byte is flipped.
    Flip,
    /// The bytes end early, at any length.
    Cut,
    /// The reader's hash is another function under the writer's tag.
    OtherHash,
    /// The reader has another seed, or another secret.
    OtherTag,
    /// The bytes are another file's.
    OtherFile,
    /// The bytes are those that a file of the same id had before it was written again.
    Earlier,
    /// The reader probes for parts of keys that the filter does not have.
    OtherParts,
    /// There are no bytes.
    Missing,
    /// Two pieces of equal length are in each other's places.
    Swapped,
}

impl Wrong {
    const ALL: [Self; 9] = [
        Self::Flip,
        Self::Cut,
        Self::OtherHash,
        Self::OtherTag,
        Self::OtherFile,
        Self::Earlier,
        Self::OtherParts,
        Self::Missing,
        Self::Swapped,
    ];

    /// The configurations of writers and their readers.
    fn configs(self) -> Vec<(Config, Config)> {
        let hasher = |hasher| Config { hasher, ..Config::default() };
        let parts = Config { prefix: Some(4), ..Config::default() };
        match self {
            Self::OtherHash => vec![(hasher(changing(1)), hasher(changing(2)))],
            Self::OtherTag => vec![
                (Config::default(), hasher(KeyHasher::with_seed(7))),
                (hasher(KeyHasher::with_secret_seed(1)), hasher(KeyHasher::with_secret_seed(2))),
            ],
            Self::OtherParts => vec![(Config::default(), parts.clone()), (parts, Config::default())],
            _ => vec![(Config::default(), Config::default())],
        }
    }

    /// The bytes in place of the sound ones, each with its description.
    fn applied(self, stored: &Stored) -> Vec<(String, Option<Bytes>)> {
        let sound = &stored.bytes;
        match self {
            Self::Flip => {
                // The ends of files decide how the rest is read: more of them.
                let bytes = (0..sound.len()).step_by(step(sound.len(), 40));
                let at_end = (sound.len().saturating_sub(100)..sound.len()).step_by(effort::strides(4, 9));
                bytes.chain(at_end).map(|at| (format!("byte {at} flipped"), Some(flipped(sound, at)))).collect()
            }
            Self::Cut => {
                let lengths = (0..sound.len()).step_by(step(sound.len(), 20));
                let lengths = lengths.chain((1..50.min(sound.len())).map(|missing| sound.len() - missing));
                lengths.map(|length| (format!("cut to {length} bytes"), Some(sound.slice(..length)))).collect()
            }
            Self::OtherFile => vec![("another file's".into(), Some(stored.other.clone()))],
            Self::Earlier => vec![("an earlier file's".into(), Some(stored.earlier.clone()))],
            Self::Missing => vec![("missing".into(), None)],
            Self::Swapped => vec![("swapped".into(), Some(stored.swapped()))],
            Self::OtherHash | Self::OtherTag | Self::OtherParts => vec![("sound".into(), Some(sound.clone()))],
        }
    }
}

/// Every byte with `SSTFILTER_LONG=1`, otherwise about `samples` of them; four times as many in the other long form,
/// and a fifth in the short one.
fn step(length: usize, samples: usize) -> usize {
    let of_samples = |samples| length / samples + 1;
    if effort::is_short() {
        return of_samples(samples / 5);
    }
    effort::of_minutes(1, of_samples(samples * 4), of_samples(samples))
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut damaged = bytes.to_vec();
    damaged[at] ^= 1 << (at % 8);
    damaged.into()
}

/// A hash function in one of its releases, which all have the same tag.
fn changing(release: u64) -> KeyHasher {
    let inner = KeyHasher::default();
    KeyHasher::custom(5, move |key| KeyHash::mix(inner.hash(key).get().wrapping_add(release)))
}

/// Who reads a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// The stored bytes by themselves: a `FilterBlock`, a container of partitions, a `RangeFilter`, a `FileMap`.
    Block,
    /// A `FilterReader` of one file; of a map, an index that reads page by page.
    File,
    /// A `FilterSet`, a `MapSet` or a `TableSet`.
    Set,
    /// A `FilterView` of one file.
    View,
    /// A `Table` that contains the filter, or has it beside itself.
    Table,
    /// Many keys at once, by the most extensive of these.
    Batch,
}

impl Reader {
    const ALL: [Self; 6] = [Self::Block, Self::File, Self::Set, Self::View, Self::Table, Self::Batch];
}

/// The hash and the parts of keys of a store.
#[derive(Clone, Debug, Default)]
struct Config {
    hasher: KeyHasher,
    /// Filters have only prefixes of this length, or whole keys. For range filters, the extractor of prefixes.
    prefix: Option<usize>,
}

impl Config {
    fn extractor(&self) -> Arc<dyn KeyExtractor> {
        Arc::new(FixedPrefix::new(self.prefix.unwrap_or(2)))
    }

    fn filters(&self) -> Filters {
        // Few false positives: a sound filter is negative for nearly all absent keys.
        let filters = Filters::new(policy()).with_hasher(self.hasher.clone());
        match self.prefix {
            Some(_) => filters.with_key_parts(KeyParts::extracted(self.extractor())),
            None => filters,
        }
    }

    fn store(&self) -> FilterStore {
        FilterStore::new(self.filters()).with_range_extractor(self.extractor())
    }

    fn options(&self) -> TableOptions {
        let filters = self.filters();
        TableOptions::default()
            .with_policy(Arc::new(policy()))
            .with_hasher(self.hasher.clone())
            .with_key_parts(filters.key_parts().clone())
            .with_range_extractor(self.extractor())
    }
}

fn policy() -> FixedPolicy {
    FixedPolicy::bloom(BitsPerKey::new(24.0).unwrap()).unwrap()
}

/// The keys of a file: 24 bits for each make several partitions of 1 KiB.
const KEYS: u32 = 1_500;

/// The keys of files have even numbers. Those of two files have the same lengths, so that their filters have, too.
fn key(file: char, number: u32) -> Vec<u8> {
    format!("{file}:{number:05}").into_bytes()
}

fn keys(file: char) -> impl Iterator<Item = Vec<u8>> {
    let of_file = move |number| match file {
        EARLIER if number > 0 && number < KEYS - 1 => key(OWN, number * 2 - 1),
        EARLIER => key(OWN, number * 2),
        _ => key(file, number * 2),
    };
    (0..KEYS).map(of_file)
}

/// The file whose filter is read.
const OWN: char = 'm';
/// Another file.
const OTHER: char = 'n';
/// What the file was before: the same first and last key, and others between.
const EARLIER: char = 'e';

/// Keys of [`OWN`], and as many absent ones between them.
fn probed() -> Vec<Vec<u8>> {
    let numbers = || (0..KEYS - 1).step_by(11);
    numbers().map(|number| key(OWN, number * 2)).chain(numbers().map(|number| key(OWN, number * 2 + 1))).collect()
}

/// The first and the last key of [`OWN`].
fn known_keys() -> [Vec<u8>; 2] {
    [key(OWN, 0), key(OWN, KEYS * 2 - 2)]
}

/// Stored bytes, and what is stored elsewhere for them.
struct Stored {
    /// The variant of the place.
    form: &'static str,
    bytes: Bytes,
    /// Bytes of the same length that another file has in their place.
    other: Bytes,
    /// Bytes that an earlier file of the same id had.
    earlier: Bytes,
    /// Ranges that can change places. If there are none, two runs of bytes do.
    pieces: Vec<Range<usize>>,
    around: places::Around,
}

impl Stored {
    /// Stores bytes by themselves and in one piece: those that are read, another file's, and an earlier one's.
    fn whole(form: &'static str, [bytes, other, earlier]: [Bytes; 3]) -> Self {
        Self { form, bytes, other, earlier, pieces: vec![], around: places::Around::default() }
    }

    fn swapped(&self) -> Bytes {
        let quarter = self.bytes.len() / 4;
        let runs = [0..quarter, quarter..2 * quarter];
        let of_equal_length = |one: &usize| {
            let mut later = self.pieces[one + 1..].iter();
            later.find(|two| two.len() == self.pieces[*one].len()).map(|two| (&self.pieces[*one], two))
        };
        let pairs: Vec<_> = (0..self.pieces.len()).filter_map(|one| of_equal_length(&one)).collect();
        assert!(self.pieces.len() < 2 || !pairs.is_empty(), "sound partitions change places");
        // In the middle: the first and the last piece have the known keys.
        let (one, two) = pairs.get(pairs.len() / 2).copied().unwrap_or((&runs[0], &runs[1]));
        let mut swapped = self.bytes.to_vec();
        swapped[one.clone()].copy_from_slice(&self.bytes[two.clone()]);
        swapped[two.clone()].copy_from_slice(&self.bytes[one.clone()]);
        swapped.into()
    }
}

/// What a reader answered for [`probed`] keys.
#[derive(Debug)]
struct Answers {
    may_contain: Vec<bool>,
    /// The reason why the filter, or a part of it, is not used.
    problem: Option<String>,
    /// The counted answers of an unusable filter, if the reader counts.
    unusable: Option<u64>,
    /// Whether verifying finds the damage.
    is_found: bool,
}

/// What happened in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Opening was an error, or reading entries was.
    Refused,
    /// It opened; every key may be present, and the problem shows.
    Unused,
    /// Some keys may be present for the problem that shows; for others, the filter is used.
    Contained,
    /// No answer needed the damaged bytes; verifying finds them.
    Unread,
}

impl Outcome {
    /// Returns the outcome and the problem. Panics if a key is lost, or nothing shows.
    fn of(asked: &Result<Answers, String>, what: &str) -> (Self, String) {
        let answers = match asked {
            Err(problem) => return (Self::Refused, problem.clone()),
            Ok(answers) => answers,
        };
        let (present, absent) = answers.may_contain.split_at(answers.may_contain.len() / 2);
        let lost = present.iter().filter(|&&may_contain| !may_contain).count();
        assert_eq!(lost, 0, "{what}: keys are lost");
        let negatives = absent.iter().filter(|&&may_contain| !may_contain).count();
        let Some(problem) = &answers.problem else {
            assert!(answers.is_found, "{what}: nothing shows");
            assert!(negatives * 10 > absent.len() * 9, "{what}: {negatives} of {} negatives", absent.len());
            return (Self::Unread, String::new());
        };
        let counted = answers.unusable.unwrap_or(answers.may_contain.len() as u64);
        if negatives == 0 {
            assert!(counted >= absent.len() as u64, "{what}: only {counted} answers are counted as unusable");
            return (Self::Unused, problem.clone());
        }
        assert!(counted > 0, "{what}: nothing is counted");
        (Self::Contained, problem.clone())
    }
}

/// Tries all cases of one cell.
fn check_cell(place: &dyn Place, wrong: Wrong, reader: Reader, cell: Cell) {
    let allowed = cell.outcomes();
    let mut seen = BTreeMap::new();
    for (writer, config) in wrong.configs() {
        for stored in place.stored(reader, &writer) {
            for (damage, bytes) in wrong.applied(&stored) {
                let what = format!("{}, {}, {wrong:?}, {reader:?}: {damage}", place.name(), stored.form);
                let asked = place.ask(reader, &stored, bytes, &config);
                let (outcome, problem) = Outcome::of(&asked, &what);
                let is_allowed = allowed.iter().any(|(allowed, text)| *allowed == outcome && problem.contains(text));
                assert!(is_allowed, "{what}: expected one of {allowed:?}, got {outcome:?}: {problem}");
                *seen.entry(outcome).or_insert(0) += 1;
            }
        }
    }
    // Between the parts of a place are few bytes that no answer needs: a sample may miss them.
    let missed = allowed.iter().find(|(outcome, _)| *outcome != Outcome::Unread && !seen.contains_key(outcome));
    assert!(missed.is_none(), "{}, {wrong:?}, {reader:?}: no case is {missed:?}, of {seen:?}", place.name());
}

/// A sound filter is used: otherwise, all cells could pass with a filter that is never negative.
fn check_sound(place: &dyn Place, reader: Reader) {
    let configs = Wrong::ALL.into_iter().flat_map(Wrong::configs).map(|(writer, _)| writer);
    for config in configs {
        for stored in place.stored(reader, &config) {
            let what = format!("{}, {}, {reader:?}, {config:?}", place.name(), stored.form);
            let answers = place.ask(reader, &stored, Some(stored.bytes.clone()), &config);
            let answers = answers.unwrap_or_else(|problem| panic!("{what}: {problem}"));
            assert!(answers.problem.is_none() && !answers.is_found, "{what}: {:?}", answers.problem);
            let (present, absent) = answers.may_contain.split_at(answers.may_contain.len() / 2);
            assert!(present.iter().all(|&may_contain| may_contain), "{what}: keys are lost");
            // Absent keys share their prefixes with present ones.
            let positives = absent.iter().filter(|&&may_contain| may_contain).count();
            assert!(positives * 10 < absent.len() || config.prefix.is_some(), "{what}: {positives} positives");
        }
    }
}

/// Tries all cells of one place.
fn check(place: &dyn Place, matrix: Matrix) {
    for (column, reader) in Reader::ALL.into_iter().enumerate() {
        if matrix.iter().any(|(_, cells)| !matches!(cells[column], Cell::Never(_))) {
            check_sound(place, reader);
        }
        for (wrong, cells) in matrix {
            if !matches!(cells[column], Cell::Never(_)) {
                check_cell(place, *wrong, reader, cells[column]);
            }
        }
    }
}

#[test]
fn no_cell_of_the_matrix_is_empty_without_a_reason() {
    let mut cells = 0;
    for (name, matrix) in expected::all() {
        assert!(matrix.iter().map(|(wrong, _)| *wrong).eq(Wrong::ALL), "{name}: a row for all that can be wrong");
        for cell in matrix.iter().flat_map(|(_, cells)| cells) {
            match cell {
                Cell::Never(reason) => assert!(reason.len() > 20, "{name}: '{reason}' is no reason"),
                cell => assert!(!cell.outcomes().is_empty(), "{name}"),
            }
            cells += 1;
        }
        let is_tried = |cell: &Cell| !matches!(cell, Cell::Never(_));
        let readers = (0..Reader::ALL.len()).filter(|&column| matrix.iter().any(|(_, row)| is_tried(&row[column])));
        assert!(readers.count() >= 2, "{name}: one key at a time, and many");
    }
    assert_eq!(cells, 7 * Wrong::ALL.len() * Reader::ALL.len());
}

// promise: damage
// promise: documented-use
// misuse: changed-hash
// misuse: other-hash
// misuse: other-file
// misuse: damaged-block
#[test]
fn a_block_with_anything_wrong_loses_no_key() {
    check(&places::Block, expected::BLOCK);
}

// promise: limited-memory
#[test]
fn partitions_with_anything_wrong_lose_no_key() {
    check(&places::Partitions, expected::PARTITIONS);
}

// promise: limited-memory
// misuse: other-sidecar
// misuse: stale-sidecar
#[test]
fn a_sidecar_with_anything_wrong_loses_no_key() {
    check(&places::Sidecar, expected::SIDECAR);
}

// promise: no-false-negatives
#[test]
fn a_layered_block_with_anything_wrong_loses_no_key() {
    check(&places::Layers, expected::LAYERS);
}

// promise: range-filters
#[test]
fn a_range_filter_with_anything_wrong_loses_no_key() {
    check(&places::Ranges, expected::RANGES);
}

// promise: file-maps
#[test]
fn a_file_map_with_anything_wrong_loses_no_key() {
    check(&places::Map, expected::MAP);
}

// promise: damage
#[test]
fn a_table_with_anything_wrong_loses_no_key() {
    check(&places::WholeTable, expected::TABLE);
}
