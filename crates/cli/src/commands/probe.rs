//! `sstfilter probe`: which files a lookup must read, and why. It reads filters and maps, but neither indexes nor data.

use core::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Args};
use sstfilter::FileId;

use super::listing::{Answer, FileAnswer, Listing, Sought, Verdict, distinct_names, for_each_listed};
use super::options::FamilyArgs;
use crate::file::context::{Context, KeysFormat};
use crate::file::key_list::KeyLines;
use crate::file::look::{Format, look_at};
use crate::file::map::OpenMap;
use crate::file::names::engine_number;
use crate::file::open::open_to_probe;
use crate::file::problem::{Problem, State, explained};
use crate::file::walk::{Found, Walk};
use crate::model::batch::{Ends, KeyBatch, all_of, in_parallel};
use crate::model::group::{Family, FamilyPlace as Place};
use crate::model::keys::{Source, file_id, id_text, why_not_mapped};
use crate::model::lookup::Lookup;
use crate::model::probe::{Because, FileProbe, probe, probe_ranges};
use crate::print::types::{Figure, PathName, Rate};
use crate::print::{Outcome, Output, note, record};
use crate::system::input;
use crate::system::progress::Progress;
use crate::words::escape::path_name;
use crate::words::group::{self, without_path};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sought").required(true).args(["key", "keys", "range", "ranges"]))]
pub(crate) struct ProbeArgs {
    /// Databases, tables (also of RocksDB, LevelDB and Pebble), filters without a table, maps of files, or directories
    /// of them. A map judges the files that it covers
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Key to look up: prints a line for each file. May be repeated
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    key: Vec<OsString>,

    /// File of keys to look up; values are ignored
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// Range of keys to look up, from LOWER (inclusive) to UPPER (exclusive): prints a line for each file
    #[arg(long, value_names = ["LOWER", "UPPER"], num_args = 2, allow_hyphen_values = true)]
    range: Vec<OsString>,

    /// File of ranges to look up, one LOWER<TAB>UPPER per line; with --keys-format nul, a NUL after each end
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,

    /// List keys or ranges instead: all with the number, the names and the reasons of the files to read, in columns
    /// separated by tabs; or those that some file may contain, or that no file contains, as they came in
    #[arg(long, value_enum, value_name = "WHICH")]
    list: Option<Listing>,

    #[command(flatten)]
    family: FamilyArgs,

    /// Files of keys that stand for files of the store, or directories of them: maps judge them
    #[arg(long, value_name = "PATH", num_args = 1..)]
    key_lists: Vec<PathBuf>,

    /// Number of files to read and probe in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

record! {
    /// Which files lookups must read.
    pub(crate) struct ProbeReport {
        sought: u64,
        groups: Vec<ProbeGroup> [notable],
        answers: Vec<Answer> [notable],
        findings: Vec<String> [notable],
        notes: Vec<String>,
    }

    /// Files of one column family, or of a store that has none.
    struct ProbeGroup {
        database: Option<PathName> [row],
        column_family: Option<String> [row],
        probed_files: u64 [row],
        mean_candidates: Figure [row],
        min_candidates: u64,
        max_candidates: u64 [row],
        mean_candidates_without_filters: Figure [row],
        expected_candidates: Option<Figure> [row],
        /// keys or ranges that no file contains; null if other files or a log may
        without_candidates: Option<u64> [row],
        files: Vec<FileCounts>,
    }

    /// A file, and for how many keys or ranges it must be read.
    struct FileCounts {
        path: Option<PathName> [row],
        file_id: Option<String> [row],
        level: Option<u32> [row],
        kind: String [row],
        state: State,
        entries: Option<u64>,
        in_bounds: u64 [row],
        /// keys or ranges for which a lookup must read the file
        read_for: u64 [row],
        /// those of them that only range tombstones are the reason for
        read_for_range_tombstones: Option<u64> [row],
        keys_probed: u64,
        /// share of these keys for which the filter says "may contain"
        positive_rate: Option<Rate> [row],
        expected_fpr: Option<Rate> [row],
        reason: Option<String>,
    }
}

impl ProbeArgs {
    fn sought(&self, format: KeysFormat) -> anyhow::Result<Sought> {
        if let Some(path) = &self.keys {
            let keys =
                KeyLines::read(path, format, "--keys").context("--keys: expected a file (pass a key with --key)")?;
            ensure!(u32::try_from(keys.len()).is_ok(), "--keys: expected less than 2^32 keys: split the file");
            return Ok(Sought::Keys(keys));
        }
        if let Some(path) = &self.ranges {
            return Ok(Sought::Ranges(Ends::read(path, format)?));
        }
        if let [lower, upper] = self.range.as_slice() {
            return Ok(Sought::Ranges(vec![Ends::parse("--range", [lower, upper], format)?]));
        }
        let mut keys = KeyLines::default();
        for key in &self.key {
            keys.push(&format.parse_argument("--key", key)?);
        }
        Ok(Sought::Keys(keys))
    }

    /// Whether each file has a line of its own.
    fn is_by_file(&self) -> bool {
        self.list.is_none() && self.keys.is_none() && self.ranges.is_none()
    }
}

/// A file and its answers.
struct Row {
    place: Place,
    id: Option<FileId>,
    counts: FileCounts,
    /// The number of keys for which it is expected to be read if all are absent.
    expected: Option<f64>,
    remarks: Vec<String>,
    probe: FileProbe,
}

/// How often the files of a database are listed, because a running engine has removed some of them.
const MAX_WALKS: u32 = 5;

/// What files are probed for, and how.
struct Store<'a> {
    args: &'a ProbeArgs,
    sought: &'a Sought,
    context: &'a Context,
}

/// All files, and what else there is to say.
#[derive(Default)]
struct Probed {
    rows: Vec<Row>,
    remarks: Vec<String>,
    /// The worst state of the maps.
    state: State,
    /// Whether files that are not known may contain a key.
    is_incomplete: bool,
}

/// Probes all files. The answer is no if a file is damaged, and a failure if one cannot be read; both count as files
/// that may contain each key.
pub(crate) fn run(args: &ProbeArgs, context: &Context, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut walk = Walk::of(&args.paths)?;
    // A sidecar without its table is a filter like others if it was passed.
    let passed: Vec<_> = args.paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let is_passed = |path: &mut PathBuf| fs::canonicalize(path).is_ok_and(|path| passed.contains(&path));
    let orphans = walk.orphans.extract_if(.., is_passed).map(|path| Found::alone(&path));
    walk.files.extend(orphans.collect::<Vec<_>>());
    walk.ensure_files()?;
    if args.paths.iter().any(|path| input::is_standard(path)) {
        // Read first, so that keys cannot be read from it.
        input::whole_standard_input()?;
    }
    let sought = args.sought(context.keys_format)?;
    let store = Store { args, sought: &sought, context };
    let mut probed = store.probe(&mut walk)?;
    // Which files there are, and on which levels, is then unknown.
    probed.is_incomplete |= !walk.problems.is_empty();
    let states = probed.rows.iter().map(|row| row.counts.state);
    let state = states.chain(walk.problems.iter().map(|(_, problem)| problem.state)).max().unwrap_or_default();
    let unchecked = if probed.is_incomplete { Outcome::NotChecked } else { Outcome::Yes };
    let outcome = state.max(probed.state).outcome().max(unchecked);
    let findings = probed.findings(&walk);
    let (families, is_incomplete) = (families(probed.rows, args.family.family.as_deref())?, probed.is_incomplete);
    // A key that no table has may be in the log.
    let mut has_others = is_incomplete || walk.unread_log().is_some();
    let mut report =
        ProbeReport { sought: sought.len() as u64, findings, notes: notes(&walk), ..ProbeReport::default() };
    if let Some(listing) = args.list {
        let names: BTreeSet<_> = families.iter().filter_map(|family| family.name.as_deref()).collect();
        if names.len() > 1 {
            Family::ensure_one(&families, "--list: a key belongs to one column family")?;
        }
        let files: Vec<_> = families.iter().flat_map(Row::of_family).collect();
        let (probes, names): (Vec<_>, Vec<_>) = files.iter().map(|(row, _)| (&row.probe, row.name())).unzip();
        let names = distinct_names(names);
        if !output.is_json {
            report.findings.iter().chain(&report.notes).for_each(|finding| note(finding));
        }
        for_each_listed(&probes, listing, (&sought, has_others), |position, found| {
            let candidates = (!is_incomplete).then_some(found.len() as u64);
            if output.is_json {
                let answer = |&(file, because): &(usize, Because)| {
                    let (row, family): (&Row, _) = files[file];
                    row.answer(family, Some(because), because)
                };
                let files = found.iter().map(answer).collect();
                report.answers.push(Answer { candidates, files, ..sought.answer(position) });
                return Ok(());
            }
            let mut line = sought.encoded(position, context.keys_format);
            if listing == Listing::All {
                let (names, reasons): (Vec<_>, Vec<_>) =
                    found.iter().map(|(file, because)| (names[*file].as_str(), because.text())).unzip();
                let number = candidates.map_or("?".to_owned(), |number| number.to_string());
                line.extend(format!("\t{number}\t{}\t{}", names.join(","), reasons.join(",")).into_bytes());
            }
            output.record(&[&line], context.keys_format.terminator())
        })?;
        if !output.is_json {
            return Ok(outcome);
        }
    }
    if args.is_by_file() {
        let all = 0..sought.len();
        report.answers = all.map(|position| answer(&sought, position, &families, is_incomplete)).collect();
    } else {
        let names: BTreeSet<_> = families.iter().map(|family| &family.name).collect();
        // The keys of one family may be in a file whose family is unknown.
        has_others |= names.len() > 1 && names.contains(&None);
        report.groups = families.into_iter().map(|family| group_of(family, sought.len(), has_others)).collect();
    }
    output.print((outcome, report))
}

impl Store<'_> {
    /// Probes all files.
    fn probe(&self, walk: &mut Walk) -> anyhow::Result<Probed> {
        let keys = match self.sought {
            Sought::Keys(lines) => KeyBatch::new(lines.iter().map(|(key, _)| key).collect()),
            Sought::Ranges(_) => KeyBatch::new(Vec::new()),
        };
        let mut probed = Probed::default();
        let is_map = |found: &Found| !keys.keys.is_empty() && matches!(look_at(&found.path), Ok(Format::FileMap));
        let (found, mut files): (Vec<_>, Vec<_>) = walk.files.clone().into_iter().partition(is_map);
        let (mut maps, mut problems) = (Vec::new(), Vec::new());
        for found in &found {
            match OpenMap::open(&found.path).map_err(Problem::from) {
                Ok(map) => maps.push(map),
                Err(problem) => problems.push((problem.state, explained(&problem.reason))),
            }
        }
        let lookup = Lookup::of(&maps, &keys, self.context)?;
        // A map that cannot be used covers files that are not known.
        probed.is_incomplete = lookup.len() < found.len();
        for (state, problem) in problems.into_iter().chain(lookup.problems.iter().cloned()) {
            probed.state = probed.state.max(state);
            probed.remarks.push(problem);
        }
        let progress = Progress::new("probing filters", (files.len() * self.sought.len()) as u64);
        for attempt in 1.. {
            let rows = in_parallel(&files, self.args.threads.map(usize::from), |found| {
                let row = self.row(found, &keys, &lookup);
                progress.advance(self.sought.len() as u64);
                row
            })?;
            let is_removed = rows.iter().any(Option::is_none);
            probed.rows.extend(rows.into_iter().flatten());
            if !is_removed {
                break;
            }
            // A running engine has removed files. What replaced them was not live before.
            files = walk.walk_again(&self.args.paths)?;
            if attempt == MAX_WALKS {
                let why = "the engine removes tables faster than they are probed: any file may contain a key";
                probed.remarks.push(why.to_owned());
                probed.is_incomplete = true;
                break;
            }
        }
        for list in Source::lists(&self.args.key_lists)? {
            let path = Some(list.found.path.as_path());
            let (id, probe) = match list.open(self.context) {
                Ok(list) => (Some(list.id), FileProbe::of_map(lookup.says(list.id), all_of(self.sought.len()))),
                Err(problem) => (None, FileProbe::unopened(&problem, all_of(self.sought.len()))),
            };
            probed.rows.push(self.finished(path, id, Place::default(), None, probe));
        }
        let ids: HashSet<_> = probed.rows.iter().filter_map(|row| row.id).map(FileId::fingerprint).collect();
        let covered = lookup.files();
        if !maps.is_empty() {
            let covered: HashSet<_> = covered.iter().map(|file| file.fingerprint()).collect();
            let is_covered = |row: &&Row| row.id.is_some_and(|id| covered.contains(&id.fingerprint()));
            let others: Vec<_> = probed.rows.iter().filter(|row| !is_covered(row)).map(Row::name).collect();
            if !others.is_empty() {
                probed.remarks.push(group::line("no map covers it", "file", &others));
            }
        }
        for id in covered.into_iter().filter(|id| !ids.contains(&id.fingerprint())) {
            let probe = FileProbe::of_map(lookup.says(id), all_of(self.sought.len()));
            probed.rows.push(self.finished(None, Some(id), Place::default(), None, probe));
        }
        Ok(probed)
    }

    /// Probes a file; `None` if a running engine has removed it.
    fn row(&self, found: &Found, keys: &KeyBatch<'_>, lookup: &Lookup<'_>) -> Option<Row> {
        let path = Some(found.path.as_path());
        let database = found.database.as_ref().map(|database| database.directory.clone());
        let opened = match open_to_probe(found, self.context) {
            Ok(opened) => opened,
            Err(problem) if problem.state == State::NotLive => return None,
            Err(problem) => {
                let place = (database, found.family().map(str::to_owned));
                let probe = FileProbe::unopened(&problem, all_of(self.sought.len()));
                return Some(self.finished(path, None, place, found.level(), probe));
            }
        };
        let id = if lookup.len() == 0 { None } else { file_id(&opened).ok() };
        let said = id.filter(|_| why_not_mapped(&opened).is_none()).and_then(|id| lookup.says(id));
        let probe = match self.sought {
            Sought::Keys(_) => probe(&opened, keys, said.as_ref().map(|said| &said.maybe), self.context),
            Sought::Ranges(ranges) => probe_ranges(&opened, ranges, self.context),
        };
        Some(self.finished(path, id, (database, opened.family()), opened.level(), probe))
    }

    /// Counts the candidates of a file.
    fn finished(
        &self,
        path: Option<&Path>,
        id: Option<FileId>,
        place: Place,
        level: Option<u32>,
        mut probe: FileProbe,
    ) -> Row {
        let (probes, positives) = (probe.probes(), probe.positives());
        let counts = FileCounts {
            path: path.map(|path| PathName(path.to_owned())),
            file_id: id.map(id_text),
            level,
            kind: probe.kind.clone(),
            state: probe.state,
            entries: probe.entries,
            in_bounds: probe.in_range.len(),
            read_for: probe.candidates(),
            read_for_range_tombstones: probe.has_range_tombstones.then(|| probe.count(Because::RangeTombstones)),
            keys_probed: probes,
            positive_rate: (probes > 0).then(|| Rate(positives as f64 / probes as f64)),
            expected_fpr: probe.expected_fpr.map(Rate),
            reason: probe.problem.clone().or_else(|| probe.sidecar_problem.clone()),
        };
        let (expected, remarks) = (probe.expected_candidates(), remarks(&probe, path));
        if !self.args.is_by_file() {
            // Their memory grows with the number of files, and nothing needs them.
            (probe.in_range, probe.in_maps) = Default::default();
        }
        Row { place, id, counts, expected, remarks, probe }
    }
}

impl Probed {
    /// Returns what there is to say about files, maps and manifests.
    fn findings(&mut self, walk: &Walk) -> Vec<String> {
        let mut findings = walk.problem_lines();
        findings.append(&mut self.remarks);
        let remarks_of = |row: &'_ Row| {
            let name = row.name();
            row.remarks.iter().map(move |remark| (remark.clone(), name.clone().into())).collect::<Vec<_>>()
        };
        findings.extend(group::lines("file", self.rows.iter().flat_map(remarks_of)));
        // Not a note: what is in the log is in none of the tables that the answers are about.
        findings.extend(walk.unread_log());
        findings
    }
}

/// Returns what there is to say about files that are not probed.
fn notes(walk: &Walk) -> Vec<String> {
    let other = |path| ("neither a table nor a filter: not probed".to_owned(), input::name(path));
    let log = walk.unread_log();
    let mut notes = walk.notes();
    notes.retain(|note| Some(note) != log.as_ref());
    notes.extend(group::lines("file", walk.others.iter().map(|path| other(path))));
    notes
}

/// Returns the families that are asked about, each with its files in the order of a lookup: the levels, and the newest
/// file of level 0 first.
fn families(rows: Vec<Row>, name: Option<&str>) -> anyhow::Result<Vec<Family<Row>>> {
    let mut rows: Vec<_> = rows.into_iter().map(|row| (row.place.clone(), row)).collect();
    // A file whose family is unknown may be of the one that is asked about.
    let asked = rows.iter().map(|(place, _)| place).find(|(_, family)| family.is_some() && family.as_deref() == name);
    if let Some(asked) = asked.cloned() {
        rows.iter_mut().filter(|((_, family), _)| family.is_none()).for_each(|(place, _)| place.clone_from(&asked));
    }
    let mut families = Family::chosen(Family::of_each(rows), name)?;
    let by_age = |row: &Row| {
        let path = row.counts.path.as_ref().filter(|_| row.counts.level == Some(0));
        Reverse(path.and_then(|path| engine_number(&path.0)))
    };
    families.iter_mut().for_each(|family| family.files.sort_by_key(|row| (row.counts.level, by_age(row))));
    Ok(families)
}

fn group_of(family: Family<Row>, sought: usize, has_others: bool) -> ProbeGroup {
    let mut numbers = vec![0_u64; sought];
    for (_, positions) in family.files.iter().flat_map(|row| &row.probe.candidates) {
        positions.iter().for_each(|position| numbers[position as usize] += 1);
    }
    let mean = |sum: f64| Figure(sum / sought as f64);
    ProbeGroup {
        probed_files: family.files.len() as u64,
        mean_candidates: mean(numbers.iter().sum::<u64>() as f64),
        min_candidates: numbers.iter().min().copied().unwrap_or_default(),
        max_candidates: numbers.iter().max().copied().unwrap_or_default(),
        mean_candidates_without_filters: mean(family.files.iter().map(|row| row.counts.in_bounds as f64).sum()),
        expected_candidates: family.files.iter().map(|row| row.expected).sum::<Option<f64>>().map(mean),
        without_candidates: (!has_others).then(|| numbers.iter().filter(|&&number| number == 0).count() as u64),
        database: family.database.map(PathName),
        column_family: family.name,
        files: family.files.into_iter().map(|row| row.counts).collect(),
    }
}

/// Returns what each file says about a key, or about the range; first the files to read.
fn answer(sought: &Sought, position: usize, families: &[Family<Row>], is_incomplete: bool) -> Answer {
    let at = u32::try_from(position).unwrap_or(u32::MAX);
    let rows = families.iter().flat_map(Row::of_family);
    let mut files: Vec<_> =
        rows.map(|(row, family)| row.answer(family, row.probe.candidate(at), row.probe.skipped_by(at))).collect();
    files.sort_by_key(|file| file.answer);
    let candidates = files.iter().filter(|file| file.answer == Verdict::Read).count() as u64;
    // A key belongs to one family, which is unknown.
    let candidates = (!is_incomplete && families.len() == 1).then_some(candidates);
    Answer { candidates, files, ..sought.answer(position) }
}

impl Row {
    fn of_family(family: &Family<Self>) -> impl Iterator<Item = (&Self, Option<&str>)> {
        family.files.iter().map(|row| (row, family.name.as_deref()))
    }

    fn answer(&self, family: Option<&str>, read: Option<Because>, skipped_by: Because) -> FileAnswer {
        FileAnswer {
            path: self.counts.path.clone(),
            file_id: self.counts.file_id.clone(),
            column_family: family.map(str::to_owned),
            level: self.counts.level,
            answer: if read.is_some() { Verdict::Read } else { Verdict::Skip },
            because: read.unwrap_or(skipped_by),
        }
    }

    /// Returns the path, or the id of a file that was not passed.
    fn name(&self) -> String {
        match (&self.counts.path, &self.counts.file_id) {
            (Some(path), _) => path_name(&path.0).into_owned(),
            (None, id) => id.clone().unwrap_or_default(),
        }
    }
}

/// Returns what the counts of a file do not show.
fn remarks(probe: &FileProbe, path: Option<&Path>) -> Vec<String> {
    let mut remarks = Vec::new();
    let name = path.map(input::name).unwrap_or_default();
    // A problem of a filter is none if bounds alone exclude every key.
    let is_felt = probe.candidates() > 0 || probe.state.outcome() != Outcome::Yes;
    if let Some(problem) = probe.problem.as_ref().filter(|_| is_felt) {
        let keys = if probe.probes() == 0 { "every key" } else { "the keys of some parts" };
        remarks.push(format!("may contain {keys}: {}", without_path(problem, &name)));
    }
    remarks.extend(probe.sidecar_problem.iter().map(|problem| without_path(problem, &name)));
    if probe.count(Because::NotCovered) > 0 {
        remarks.push("its filter holds no part of some keys, which it may contain".to_owned());
    }
    if probe.has_range_tombstones {
        remarks.push("has range tombstones: a lookup of any key in its bounds must read it".to_owned());
    }
    remarks
}
