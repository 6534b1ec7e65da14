//! `sstfilter verify`: reads everything, compares every checksum, and lists all damage.

use core::cmp::Reverse;
use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use sstfilter::FileId;

use crate::file::context::Context;
use crate::file::database::EngineFile;
use crate::file::look::NEITHER;
use crate::file::map::OpenMap;
use crate::file::names::is_leftover;
use crate::file::problem::{State, in_options};
use crate::file::walk::{Found, Walk};
use crate::model::keys::Source;
use crate::model::verify::{FileVerdict, verify};
use crate::model::verify_map::Comparing;
use crate::print::types::PathName;
use crate::print::{Outcome, record};
use crate::system::input;
use crate::system::progress::ReadProgress;
use crate::words::group;
use crate::words::units::grouped;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Tables (also of RocksDB, LevelDB and Pebble), filters without a table, file maps, databases, or directories of
    /// such files (not searched recursively). Maps must find each key of the tables that are passed with them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Files of keys, or directories of them, that maps cover: maps must find each of these keys, too
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,
}

record! {
    /// What `verify` found.
    pub(crate) struct VerifyReport {
        findings: Vec<String> [notable],
        notes: Vec<String>,
        summary: String [notable],
        sound: u64 [json],
        not_checked: u64 [json],
        stale: u64 [json],
        damaged: u64 [json],
        unread: u64 [json],
        entries: u64 [json],
        files: Vec<FileVerdict> [json],
        not_live: Vec<FileVerdict> [json],
        orphans: Vec<PathName> [json],
        others: Vec<PathName> [json],
    }
}

pub(crate) fn run(args: &VerifyArgs, context: &Context) -> anyhow::Result<(Outcome, VerifyReport)> {
    let mut walk = Walk::of(&args.paths)?;
    let lists = Source::lists(&args.key_lists)?;
    let orphans: Vec<_> = walk.orphans.iter().map(|path| Found::alone(path)).collect();
    let bytes = |found: &Found| input::length(&found.path).unwrap_or(0);
    let all = walk.files.iter().chain(&orphans).chain(&walk.not_live);
    let progress = ReadProgress::new("verifying", all.map(bytes).sum());
    let context = context.with_progress(progress.clone());
    let mut maps = Vec::new();
    let mut verify_all = |all: &[Found]| {
        let mut files = Vec::new();
        for found in all {
            progress.begin(bytes(found));
            match verify(found, &context) {
                (verdict, Some(map)) => maps.push((verdict, map)),
                (verdict, None) => files.push(verdict),
            }
        }
        files
    };
    let (mut files, mut removed) = (Vec::new(), Vec::new());
    let mut next = walk.files.clone();
    while !next.is_empty() {
        let (gone, there): (Vec<_>, Vec<_>) =
            verify_all(&next).into_iter().partition(|file| file.state == State::NotLive);
        files.extend(there);
        // What has replaced them was not live before.
        next = if gone.is_empty() { Vec::new() } else { walk.walk_again(&args.paths)? };
        removed.extend(gone);
    }
    let not_live = [removed, verify_all(&walk.not_live)].concat();
    // No reader uses a sound one.
    files.extend(verify_all(&orphans).into_iter().filter(|orphan| orphan.state != State::Ok));
    files.extend(walk.problems.drain(..).map(|(path, problem)| FileVerdict::of_problem(&path, &problem)));
    let mut notes = walk.notes();
    let unchecked = [EngineFile::Wal, EngineFile::Blob].map(|file| walk.engine_files.get_key_value(&file));
    let unchecked = unchecked.into_iter().flatten().map(|(&file, &number)| (file, number)).collect();
    notes.extend(EngineFile::line(&unchecked).map(|files| format!("not checked: {files}")));
    if maps.is_empty() {
        ensure!(lists.is_empty(), "--key-lists: expected a map that covers them, got none");
    } else {
        let sources = [Source::tables(&walk.files).0, lists].concat();
        notes.extend(group::lines("file", compare(&mut maps, &sources, &context, &mut files)?));
        files.extend(maps.into_iter().map(|(verdict, _)| verdict));
    }
    let report = VerifyReport::new(files, not_live, notes, walk);
    let outcome = report.files.iter().map(FileVerdict::outcome).max();
    Ok((outcome.unwrap_or_default(), report))
}

impl VerifyReport {
    fn new(mut files: Vec<FileVerdict>, not_live: Vec<FileVerdict>, mut notes: Vec<String>, walk: Walk) -> Self {
        files.sort_by_key(|file| Reverse(file.state));
        notes.extend(lines(&files, FileVerdict::remarks));
        notes.extend(lines(&not_live, |file| file.findings().into_iter().map(|text| format!("not live: {text}"))));
        let skipped = walk.others.iter().map(|path| {
            let why = if is_leftover(path) { "left by a command that was killed, or is running" } else { NEITHER };
            (format!("skipped: {why}"), input::name(path))
        });
        notes.extend(group::lines("file", skipped));
        let count = |state| files.iter().filter(|file| file.state == state).count() as u64;
        let entries = files.iter().filter_map(|file| file.entries).sum();
        let states = [State::Ok, State::NotChecked, State::Stale, State::Damaged, State::Unread];
        let counted = |state| match count(state) {
            0 if state != State::Damaged => None,
            files => Some(format!("{} {}", grouped(files), if state == State::Ok { "sound" } else { state.text() })),
        };
        let counts: Vec<_> = states.into_iter().filter_map(counted).collect();
        Self {
            findings: lines(&files, FileVerdict::findings),
            notes,
            summary: format!("{}; {} entries", counts.join(", "), grouped(entries)),
            sound: count(State::Ok),
            not_checked: count(State::NotChecked),
            stale: count(State::Stale),
            damaged: count(State::Damaged),
            unread: count(State::Unread),
            entries,
            not_live,
            orphans: walk.orphans.into_iter().map(PathName).collect(),
            others: walk.others.into_iter().map(PathName).collect(),
            files,
        }
    }
}

/// Looks up the keys of all files in the maps that cover them. Returns what there is to say about files.
fn compare<'a>(
    maps: &mut [(FileVerdict, OpenMap)],
    sources: &'a [Source],
    context: &Context,
    files: &mut Vec<FileVerdict>,
) -> anyhow::Result<Vec<(String, Cow<'a, str>)>> {
    let contradictions = OpenMap::contradictions(maps.iter().map(|(_, map)| map));
    let (mut comparing, mut texts) = (Vec::new(), Vec::new());
    for (verdict, map) in maps {
        for (&file, text) in &contradictions {
            if map.index.local_id(FileId::from_fingerprint(file)).is_some() {
                verdict.add(State::Damaged, text);
            }
        }
        match Comparing::new(map, context) {
            Ok(map) => comparing.push((verdict, map)),
            Err(problem) => verdict.keys_not_compared_because = Some(in_options(&problem)),
        }
    }
    for source in sources {
        let path = &source.found.path;
        context.progress.iter().for_each(|progress| progress.begin(source.bytes()));
        let compared = source.open(context).and_then(|open| {
            comparing.iter_mut().try_fold(false, |is_covered, (_, map)| Ok(map.compare(source, &open)? || is_covered))
        });
        match compared {
            Ok(true) => {}
            Ok(false) => texts.push(("no map covers it".to_owned(), input::name(path))),
            Err(problem) if source.is_list() => files.push(FileVerdict::of_problem(path, &problem)),
            // The table has its own verdict.
            Err(problem) => {
                let (why, name) = problem.about(path);
                texts.push((format!("not compared with maps: {why}"), name));
            }
        }
    }
    for (verdict, map) in comparing {
        let (keys, files, lost) = map.finish(context)?;
        verdict.keys_compared = Some(keys);
        verdict.map_check.iter_mut().for_each(|check| check.files_compared = files);
        lost.iter().for_each(|lost| verdict.add(State::Damaged, lost));
    }
    Ok(texts)
}

fn lines<T: IntoIterator<Item = String>>(files: &[FileVerdict], texts: impl Fn(&FileVerdict) -> T) -> Vec<String> {
    let about = |file| texts(file).into_iter().map(move |text| (text, input::name(&file.path.0)));
    group::lines("file", files.iter().flat_map(about))
}
