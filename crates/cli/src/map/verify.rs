//! `sstfilter map verify`: checksums and structure of maps, and that each key of the covered files is found.

use core::fmt;
use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sstfilter::{FileId, KeyHash, KeyHasher};
use sstfilter_map::{LocalId, MapVerification};

use super::sources::{FileArgs, Source};
use super::{Answer, KEYS_AT_ONCE, MapReader};
use super::{OpenMap, id_text, open_maps};
use crate::input;
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::{Outcome, Text, in_options};
use crate::probe::hasher_of;
use crate::progress::{self, ReadProgress};
use crate::units::{counted, grouped};

#[derive(Debug, Args)]
#[command(mut_arg("tables", |arg| arg.help(COMPARED)), mut_arg("key_lists", |arg| arg.help("The same, for lists of keys")))]
pub(crate) struct VerifyMapArgs {
    /// Maps
    #[arg(value_name = "MAP", required = true)]
    maps: Vec<PathBuf>,

    #[command(flatten)]
    files: FileArgs,
}

const COMPARED: &str = "\
Tables, or directories of them: checks that the maps find each of their keys. Reads all their keys";

/// Keys that are looked up together, in the order of their hashes, so that almost every page is read once for all of
/// them: 256 MiB.
const BATCH_KEYS: usize = 16 << 20;

/// Problems of one map that are listed.
const MAX_PROBLEMS: usize = 100;

#[derive(Debug, Serialize)]
pub(super) struct VerifyMaps {
    sound: bool,
    maps: Vec<VerifiedMap>,
    /// Files that the maps contradict each other about.
    contradictions: Vec<String>,
    /// Files that were passed, and that no map covers.
    not_covered: Vec<String>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct VerifiedMap {
    path: String,
    map_id: String,
    covered_files: usize,
    /// Entries of sound pages.
    entries: u64,
    pages: u64,
    damaged_pages: u64,
    unknown_pages: u64,
    outgrown_pages: u64,
    lists: u64,
    /// Up to 100 errors.
    problems: Vec<String>,
    /// Problems that are not listed.
    more_problems: u64,
    /// Why no keys were compared; null if they could be.
    keys_not_compared: Option<String>,
    keys_checked: u64,
    /// Keys of covered files that the map does not find.
    lost_keys: u64,
    lost: Vec<LostKey>,
    /// Covered files whose keys were compared, and the others.
    files_checked: usize,
    files_not_checked: usize,
}

/// The keys of one file that a map does not find.
#[derive(Debug, Serialize)]
struct LostKey {
    path: String,
    file_id: String,
    lost_keys: u64,
    /// One of them; null if the file has changed since.
    key: Option<Text>,
}

/// Verifies all maps. The answer is no if anything is damaged or a key is lost.
pub(super) fn run(
    args: &VerifyMapArgs,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, VerifyMaps)> {
    let (opened, mut left_out) = open_maps(&args.maps);
    let sources = args.files.sources()?;
    let bar = progress::bytes("verifying maps", opened.iter().map(|map| map.file.length).sum());
    let contradictions: Vec<_> = OpenMap::contradictions(&opened, &HashMap::new()).into_values().collect();
    let mut maps = Vec::new();
    for map in &opened {
        maps.push(VerifiedMap::new(map, &bar)?);
    }
    drop(bar);
    let mut comparing: Vec<_> =
        opened.iter().zip(&mut maps).filter_map(|(map, verified)| Comparing::new(map, verified, reading)).collect();
    let progress = ReadProgress::new("comparing keys", sources.iter().map(Source::bytes).sum());
    let reading = Reading { progress: Some(&progress), ..reading };
    let mut not_covered = Vec::new();
    for source in &sources {
        progress.begin(source.bytes());
        match compare(&mut comparing, source, format, reading)? {
            Ok(true) => {}
            Ok(false) => not_covered.push(input::name(&source.path).into_owned()),
            Err(left) => left_out.push(left),
        }
    }
    for map in comparing {
        map.finish(format, reading)?;
    }
    drop(progress);
    let is_sound = |map: &VerifiedMap| map.problems.is_empty() && map.lost_keys == 0;
    let is_sound = contradictions.is_empty() && maps.iter().all(is_sound);
    let outcome = LeftOut::outcome(&left_out).max(Outcome::from_sound(is_sound));
    Ok((outcome, VerifyMaps { sound: outcome == Outcome::Yes, maps, contradictions, not_covered, left_out }))
}

/// Looks up the keys of a file in the maps that cover it. Returns whether there are any.
fn compare<'a>(
    maps: &mut [Comparing<'a, '_>],
    source: &'a Source,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<Result<bool, LeftOut>> {
    let open = match source.open(reading) {
        Ok(open) => open,
        Err(left) => return Ok(Err(left)),
    };
    let covering = |map: &&mut Comparing<'a, '_>| map.map.index.local_id(open.id).is_some();
    let mut covering: Vec<_> = maps.iter_mut().filter(covering).collect();
    let mut failed = None;
    let mut visit = |key: &[u8]| {
        for map in &mut covering {
            if failed.is_none() {
                failed = map.add(key, open.id, source).err();
            }
        }
    };
    if let Err(problem) = open.for_each_key(format, &mut visit) {
        // The keys before the damage count all the same.
        return Ok(Err(source.left_out(&problem)));
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    covering.iter_mut().for_each(|map| map.verified.files_checked += 1);
    covering.iter_mut().for_each(|map| map.verified.files_not_checked -= 1);
    Ok(Ok(!covering.is_empty()))
}

/// The comparison of a map with the keys of files.
struct Comparing<'a, 'v> {
    map: &'a OpenMap,
    verified: &'v mut VerifiedMap,
    hasher: KeyHasher,
    batch: Vec<(KeyHash, usize)>,
    /// The files of the batch and of those before.
    files: Vec<(&'a Source, FileId, LocalId)>,
    /// A lost hash and the number of lost hashes, by the position of their file.
    lost: HashMap<usize, (KeyHash, u64)>,
}

impl<'a, 'v> Comparing<'a, 'v> {
    fn new(map: &'a OpenMap, verified: &'v mut VerifiedMap, reading: Reading<'_>) -> Option<Self> {
        match hasher_of(map.index.hash_identity(), reading.secret) {
            Ok(hasher) => {
                Some(Self { map, verified, hasher, batch: Vec::new(), files: Vec::new(), lost: HashMap::new() })
            }
            Err(problem) => {
                verified.keys_not_compared = Some(in_options(&problem));
                None
            }
        }
    }

    fn add(&mut self, key: &[u8], file: FileId, source: &'a Source) -> anyhow::Result<()> {
        if self.files.last().is_none_or(|(last, ..)| !core::ptr::eq(*last, source)) {
            let Some(id) = self.map.index.local_id(file) else { return Ok(()) };
            self.files.push((source, file, id));
        }
        self.batch.push((self.hasher.hash(key), self.files.len() - 1));
        if self.batch.len() >= BATCH_KEYS { self.look_up() } else { Ok(()) }
    }

    fn look_up(&mut self) -> anyhow::Result<()> {
        self.batch.sort_unstable_by_key(|(hash, _)| hash.get());
        let mut reader = MapReader::new(self.map);
        for keys in self.batch.chunks(KEYS_AT_ONCE) {
            let hashes: Vec<_> = keys.iter().map(|(hash, _)| *hash).collect();
            for (&(hash, position), answer) in keys.iter().zip(reader.look_up(&hashes)?) {
                let Some((_, _, id)) = self.files.get(position) else { continue };
                self.verified.keys_checked += 1;
                // All files may have the keys of damaged and unknown pages, so that none is lost.
                if matches!(answer, Answer::Only(ids) if !ids.contains(id)) {
                    self.lost.entry(position).or_insert((hash, 0)).1 += 1;
                }
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Looks up the last batch, and names a lost key of each file.
    fn finish(mut self, format: KeysFormat, reading: Reading<'_>) -> anyhow::Result<()> {
        self.look_up()?;
        let mut lost: Vec<_> = self.lost.iter().collect();
        lost.sort_unstable_by_key(|(position, _)| **position);
        for (&position, &(hash, lost_keys)) in lost {
            let Some(&(source, file, _)) = self.files.get(position) else { continue };
            let mut key = None;
            let mut take = |candidate: &[u8]| {
                if self.hasher.hash(candidate) == hash {
                    key = Some(Text(candidate.to_vec()));
                }
            };
            if let Ok(open) = source.open(reading) {
                // An error would have been found above.
                open.for_each_key(format, &mut take).ok();
            }
            self.verified.lost_keys += lost_keys;
            let path = input::name(&source.path).into_owned();
            self.verified.lost.push(LostKey { path, file_id: id_text(file), lost_keys, key });
        }
        Ok(())
    }
}

impl VerifiedMap {
    fn new(map: &OpenMap, bar: &indicatif::ProgressBar) -> anyhow::Result<Self> {
        let (mut problems, mut more_problems) = (Vec::new(), 0);
        let read = |range: core::ops::Range<u64>| {
            bar.inc(range.end - range.start);
            map.read(range)
        };
        let found = map.index.verify(read, |problem| {
            if problems.len() < MAX_PROBLEMS {
                problems.push(problem.to_string());
            } else {
                more_problems += 1;
            }
        })?;
        let MapVerification { damaged_pages, unknown_pages, outgrown_pages, lists, entries, .. } = found;
        Ok(Self {
            path: map.name().into_owned(),
            map_id: id_text(map.index.map_id()),
            covered_files: map.index.files().len(),
            entries,
            pages: map.index.pages(),
            damaged_pages,
            unknown_pages,
            outgrown_pages,
            lists,
            problems,
            more_problems,
            keys_not_compared: None,
            keys_checked: 0,
            lost_keys: 0,
            lost: Vec::new(),
            files_checked: 0,
            files_not_checked: map.index.files().len(),
        })
    }
}

impl fmt::Display for VerifiedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        for problem in &self.problems {
            writeln!(f, "{path}: {problem}")?;
        }
        if self.more_problems > 0 {
            writeln!(f, "{path}: and {} more", counted(self.more_problems, "problem"))?;
        }
        for lost in &self.lost {
            let key = lost.key.as_ref().map(|key| format!(", such as {key}")).unwrap_or_default();
            let keys = counted(lost.lost_keys, "key");
            writeln!(f, "{path}: lost {keys} of {} ({}){key}", lost.path, lost.file_id)?;
        }
        if let Some(why) = &self.keys_not_compared {
            writeln!(f, "{path}: not compared with keys: {why}")?;
        }
        let (pages, entries) = (counted(self.pages, "page"), grouped(self.entries));
        let (damaged, unknown) = (grouped(self.damaged_pages), grouped(self.unknown_pages));
        writeln!(f, "{path}: {pages} checked, {entries} entries: {damaged} damaged, {unknown} unknown")?;
        let (keys, lost) = (counted(self.keys_checked, "key"), grouped(self.lost_keys));
        let (files, others) = (grouped(self.files_checked as u64), grouped(self.files_not_checked as u64));
        let all = counted(self.covered_files as u64, "covered file");
        writeln!(f, "{path}: {keys} of {files} of {all} checked, {lost} lost; {others} not checked")
    }
}

impl fmt::Display for VerifyMaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.maps.iter().try_for_each(|map| write!(f, "{map}"))?;
        self.contradictions.iter().try_for_each(|contradiction| writeln!(f, "{contradiction}"))?;
        for line in LeftOut::lines(&self.left_out, "not checked") {
            writeln!(f, "{line}")?;
        }
        if !self.not_covered.is_empty() {
            let files = self.not_covered.iter().map(String::as_str);
            writeln!(f, "{}", crate::groups::line("no map covers it", "file", files))?;
        }
        Ok(())
    }
}
