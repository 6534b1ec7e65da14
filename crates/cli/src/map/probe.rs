//! `sstfilter map probe`: which of the covered files may have a key.

use core::fmt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgGroup, Args};
use serde::Serialize;
use sstfilter::{FileId, KeyHash, KeyHasher};
use sstfilter_map::LocalId;

use super::sources::FileArgs;
use super::{Answer, KEYS_AT_ONCE, MapReader};
use super::{OpenMap, id_text, open_maps, rate_text};
use crate::groups;
use crate::left_out::LeftOut;
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::Reading;
use crate::output::{Outcome, Output, Text, in_options, note};
use crate::probe::hasher_of;
use crate::progress::Progress;
use crate::units::{bytes, counted, grouped};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sought").required(true).args(["keys", "key"]))]
#[command(mut_arg("tables", |arg| arg.help(NAMES)), mut_arg("key_lists", |arg| arg.help("The same, for lists of keys")))]
pub(crate) struct ProbeMapArgs {
    /// Maps. If several cover a file, the first one whose page is sound and known judges it, unless they contradict
    /// each other about it
    #[arg(value_name = "MAP", required = true)]
    maps: Vec<PathBuf>,

    /// File of keys to look up (values are ignored)
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// Key to look up; may be repeated. Implies --per-key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    key: Vec<OsString>,

    /// Print a line for each key instead of the summary: the key, the number of covered files that may have it, and
    /// their names or ids, in columns separated by tabs. Commas separate the names. MAP:*? stands for all files of a
    /// map that is damaged, at least in the page of the key, or does not know them, but for files that another map
    /// judges; the number leaves out the files of a map that could not be read at all
    #[arg(long)]
    per_key: bool,

    #[command(flatten)]
    names: FileArgs,
}

const NAMES: &str = "\
Tables, or directories of them: shows their names instead of ids, and reports those that no map covers";

impl ProbeMapArgs {
    fn sought(&self, format: KeysFormat) -> anyhow::Result<KeyLines> {
        let Some(path) = &self.keys else {
            let mut keys = KeyLines::default();
            for key in &self.key {
                let name = || format!("key '{}'", Text(key.as_encoded_bytes().to_vec()));
                keys.push(&format.parse_argument(key).with_context(name)?);
            }
            return Ok(keys);
        };
        KeyLines::read(path, format, "--keys")
    }
}

#[derive(Debug, Serialize)]
struct MapProbes {
    keys: usize,
    maps: usize,
    /// Files that some map covers.
    covered_files: usize,
    /// Keys that no covered file has.
    keys_touching_none: usize,
    mean_files_per_key: f64,
    max_files_per_key: u64,
    /// Expected mean if all keys are absent.
    expected_false_candidates: f64,
    /// Lookups whose page is damaged, and those whose page is unknown: all covered files count as candidates.
    damaged_lookups: u64,
    unknown_lookups: u64,
    reads: u64,
    bytes_read: u64,
    /// Files that the maps contradict each other about: they may have every key.
    contradictions: Vec<String>,
    /// Files that were passed, and that no map covers.
    not_covered: Vec<String>,
    left_out: Vec<LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Vec<KeyFiles>>,
}

#[derive(Debug, Serialize)]
struct KeyFiles {
    key: Text,
    /// The number of covered files that may have the key.
    files: u64,
    /// Their names or ids, but for those of `all_of`.
    which: Vec<String>,
    /// Maps that do not know, so that all of their files may have the key.
    all_of: Vec<String>,
}

/// The answers of all maps for one key.
#[derive(Clone, Debug, Default)]
struct Found {
    count: u64,
    /// Positions of maps, and files.
    files: Vec<(usize, LocalId)>,
    all_of: Vec<usize>,
}

/// Looks up all keys in all maps. The answer is no if anything that was read is damaged.
pub(super) fn run(
    args: &ProbeMapArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let keys = args.sought(format)?;
    let (maps, mut left_out) = open_maps(&args.maps);
    let (names, unnamed) = args.names.names(reading)?;
    let is_listed = args.per_key || args.keys.is_none();
    let mut probing = Probing::new(keys.len(), is_listed);
    let progress = Progress::new("looking up keys", (keys.len() * maps.len()) as u64);
    probing.contradictions = OpenMap::contradictions(&maps, &names);
    probing.look_up_all(&maps, &keys, reading, &mut left_out, progress)?;
    probing.unread = left_out.iter().map(|map| map.path.clone()).collect();
    left_out.extend(unnamed);
    let report = probing.report(&maps, &keys, &names, left_out);
    let is_sound = report.damaged_lookups == 0 && report.contradictions.is_empty();
    let outcome = LeftOut::outcome(&report.left_out).max(Outcome::from_sound(is_sound));
    match &report.answers {
        Some(answers) if !output.is_json => {
            report.remarks().iter().for_each(|remark| note(remark));
            for answer in answers {
                let (key, files) = (format.encoded(&answer.key.0), format!("\t{}\t{}", answer.files, answer.text()));
                output.record(&[&key, files.as_bytes()], format.terminator())?;
            }
            Ok(outcome)
        }
        _ => output.report((outcome, report)),
    }
}

/// Which map judges which file, if some maps do not know a key.
struct Judges {
    /// Positions of the maps that do not know the key. They judge only files that no other map covers.
    unknowing: Vec<usize>,
    /// For each map and local id, whether the map judges the file.
    own: Vec<Vec<bool>>,
}

impl Judges {
    /// No map judges the `contradicted` files.
    fn new(readers: &[MapReader<'_>], unknowing: Vec<usize>, contradicted: &BTreeMap<u64, String>) -> Self {
        let (mut judged, mut own) =
            (contradicted.keys().copied().collect::<HashSet<_>>(), vec![Vec::new(); readers.len()]);
        let knowing = (0..readers.len()).filter(|map| !unknowing.contains(map));
        for map in knowing.chain(unknowing.iter().copied()) {
            if let (Some(own), Some(reader)) = (own.get_mut(map), readers.get(map)) {
                let files = reader.map.index.files().iter();
                *own = files.map(|covered| judged.insert(covered.file.fingerprint())).collect();
            }
        }
        Self { unknowing, own }
    }

    fn is_own(&self, map: usize, file: LocalId) -> bool {
        self.own.get(map).and_then(|own| own.get(file.index())) == Some(&true)
    }

    fn own_files(&self, map: usize) -> u64 {
        self.own.get(map).map_or(0, |own| own.iter().filter(|is_own| **is_own).count() as u64)
    }
}

/// The lookups so far.
struct Probing {
    found: Vec<Found>,
    is_listed: bool,
    /// Files that the maps cover, by fingerprint.
    covered: HashSet<u64>,
    /// Errors about files, by fingerprint.
    contradictions: BTreeMap<u64, String>,
    /// Maps that could not be used at all.
    unread: Vec<String>,
    expected: f64,
    damaged: u64,
    unknown: u64,
    reads: u64,
    bytes_read: u64,
}

impl Probing {
    fn new(keys: usize, is_listed: bool) -> Self {
        Self {
            found: vec![Found::default(); keys],
            is_listed,
            covered: HashSet::new(),
            contradictions: BTreeMap::new(),
            unread: Vec::new(),
            expected: 0.0,
            damaged: 0,
            unknown: 0,
            reads: 0,
            bytes_read: 0,
        }
    }

    /// Looks up each key in all maps, in the order of the hashes, so that almost every page is read once.
    fn look_up_all(
        &mut self,
        maps: &[OpenMap],
        keys: &KeyLines,
        reading: Reading<'_>,
        left_out: &mut Vec<LeftOut>,
        mut progress: Progress,
    ) -> anyhow::Result<()> {
        // Positions among all maps.
        let (mut positions, mut readers, mut hashers) = (Vec::new(), Vec::new(), Vec::new());
        for (position, map) in maps.iter().enumerate() {
            match hasher_of(map.index.hash_identity(), reading.secret) {
                Ok(_) if !map.index.writes().is_empty() => {
                    left_out.push(LeftOut::new(&map.path, "expected a map of files, got one of writes", Outcome::Yes));
                }
                Ok(hasher) => {
                    positions.push(position);
                    hashers.push(hasher);
                    readers.push(MapReader::new(map));
                }
                Err(problem) => left_out.push(LeftOut::new(&map.path, &in_options(&problem), Outcome::Yes)),
            }
        }
        let mut judges = Judges::new(&readers, Vec::new(), &self.contradictions);
        for (map, reader) in readers.iter().enumerate() {
            let index = &reader.map.index;
            let files = index.files().iter().map(|covered| covered.file.fingerprint());
            self.covered.extend(files.filter(|file| !self.contradictions.contains_key(file)));
            self.expected +=
                index.expected_false_candidates() * judges.own_files(map) as f64 / index.files().len() as f64;
        }
        let Some(first) = hashers.first() else { return Ok(()) };
        // Maps almost always have the same hash.
        let mut sorted: Vec<_> = keys.iter().map(|(key, _)| first.hash(key)).zip(0..).collect();
        sorted.sort_unstable_by_key(|(hash, _)| hash.get());
        for numbers in sorted.chunks(KEYS_AT_ONCE) {
            let look_up = |(reader, hasher): (&mut MapReader<'_>, &KeyHasher)| {
                let hash = |&(_, number): &(KeyHash, usize)| hasher.hash(keys.entry(number).0);
                Ok(reader.look_up(&numbers.iter().map(hash).collect::<Vec<_>>())?.into_iter())
            };
            let answers = readers.iter_mut().zip(&hashers).map(look_up).collect::<anyhow::Result<Vec<_>>>();
            let mut answers = answers?;
            for &(_, number) in numbers {
                // One of each map.
                let answers: Vec<Answer> = answers.iter_mut().filter_map(Iterator::next).collect();
                let is_unknowing = |answer: &Answer| !matches!(answer, Answer::Only(_));
                let unknowing = || (0..).zip(&answers).filter(|(_, answer)| is_unknowing(answer)).map(|(map, _)| map);
                // Keys of one page come one after the other.
                if !unknowing().eq(judges.unknowing.iter().copied()) {
                    judges = Judges::new(&readers, unknowing().collect(), &self.contradictions);
                }
                for (map, (answer, &position)) in answers.into_iter().zip(&positions).enumerate() {
                    self.add((map, position), number, answer, &judges);
                    progress.step();
                }
            }
        }
        self.reads = readers.iter().map(|reader| reader.reads).sum();
        self.bytes_read = readers.iter().map(|reader| reader.bytes_read).sum();
        Ok(())
    }

    fn add(&mut self, (map, position): (usize, usize), key: usize, answer: Answer, judges: &Judges) {
        let Some(found) = self.found.get_mut(key) else { return };
        match answer {
            Answer::Only(ids) => {
                let before = found.files.len();
                found.files.extend(ids.into_iter().filter(|id| judges.is_own(map, *id)).map(|id| (position, id)));
                found.count += (found.files.len() - before) as u64;
            }
            Answer::Unknown | Answer::Damaged => {
                self.unknown += u64::from(matches!(answer, Answer::Unknown));
                self.damaged += u64::from(matches!(answer, Answer::Damaged));
                let own_files = judges.own_files(map);
                found.count += own_files;
                if own_files > 0 {
                    found.all_of.push(position);
                }
            }
        }
        if !self.is_listed {
            // Memory is for counts only.
            (found.files, found.all_of) = (Vec::new(), Vec::new());
        }
    }

    fn report(
        self,
        maps: &[OpenMap],
        keys: &KeyLines,
        names: &HashMap<u64, String>,
        left_out: Vec<LeftOut>,
    ) -> MapProbes {
        let name_of_file = |file: FileId| names.get(&file.fingerprint()).cloned().unwrap_or_else(|| id_text(file));
        let name_of = |(map, id): &(usize, LocalId)| {
            let file = maps.get(*map).and_then(|map| map.index.files().get(id.index())).map(|covered| covered.file);
            file.map(name_of_file).unwrap_or_default()
        };
        let contradicted = || self.contradictions.keys().map(|&file| FileId::from_fingerprint(file));
        let map_name = |map: &usize| maps.get(*map).map(|map| map.name().into_owned()).unwrap_or_default();
        let answer = |((key, _), found): ((&[u8], _), &Found)| KeyFiles {
            key: Text(key.to_vec()),
            files: found.count + self.contradictions.len() as u64,
            which: found.files.iter().map(name_of).chain(contradicted().map(name_of_file)).collect(),
            all_of: found.all_of.iter().map(map_name).chain(self.unread.iter().cloned()).collect(),
        };
        let counts = || self.found.iter().map(|found| found.count + self.contradictions.len() as u64);
        let is_not_covered = |(id, _): &(&u64, &String)| !self.covered.contains(*id);
        let mut not_covered: Vec<_> = names.iter().filter(is_not_covered).map(|(_, name)| name.clone()).collect();
        not_covered.sort();
        MapProbes {
            keys: keys.len(),
            maps: maps.len(),
            covered_files: self.covered.len(),
            keys_touching_none: counts().filter(|&count| count == 0).count(),
            mean_files_per_key: counts().sum::<u64>() as f64 / keys.len() as f64,
            max_files_per_key: counts().max().unwrap_or(0),
            expected_false_candidates: self.expected,
            damaged_lookups: self.damaged,
            unknown_lookups: self.unknown,
            reads: self.reads,
            bytes_read: self.bytes_read,
            not_covered,
            contradictions: self.contradictions.values().cloned().collect(),
            left_out,
            answers: self.is_listed.then(|| keys.iter().zip(&self.found).map(answer).collect()),
        }
    }
}

impl KeyFiles {
    fn text(&self) -> String {
        let all_of = self.all_of.iter().map(|map| format!("{map}:*?"));
        self.which.iter().cloned().chain(all_of).collect::<Vec<_>>().join(",")
    }
}

impl MapProbes {
    /// Returns what the counts do not show.
    fn remarks(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(ToString::to_string);
        let mut remarks: Vec<_> = self.contradictions.iter().cloned().chain(left_out).collect();
        if !self.not_covered.is_empty() {
            let files = self.not_covered.iter().map(String::as_str);
            remarks.push(groups::line("no map covers it, so it may have every key", "file", files));
        }
        let lookups = |count: u64, why: &str| {
            (count > 0).then(|| format!("{}: {why}: all of its files may have the key", counted(count, "lookup")))
        };
        remarks.extend(lookups(self.damaged_lookups, "the map is damaged there"));
        remarks.extend(lookups(self.unknown_lookups, "the map does not know the page"));
        remarks
    }
}

impl fmt::Display for MapProbes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, files) = (counted(self.keys as u64, "key"), counted(self.covered_files as u64, "covered file"));
        writeln!(f, "{keys} over {files}, {}", counted(self.maps as u64, "map"))?;
        let Self { mean_files_per_key: mean, max_files_per_key: max, expected_false_candidates: expected, .. } = self;
        writeln!(
            f,
            "files that may have a key: {mean:.4} on average, at most {}; {} expected for an absent key",
            grouped(*max),
            rate_text(*expected)
        )?;
        writeln!(f, "keys certainly in no covered file: {}", grouped(self.keys_touching_none as u64))?;
        writeln!(f, "reads: {}, {}", grouped(self.reads), bytes(self.bytes_read))?;
        self.remarks().iter().try_for_each(|remark| writeln!(f, "{remark}"))
    }
}
