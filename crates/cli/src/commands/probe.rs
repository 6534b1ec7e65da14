//! `sstfilter probe`: which files a lookup must read, and why. It reads filters and maps, but neither indexes nor data.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Args};
use sstfilter::FileId;

use super::listing::{Answer, Answers, Listed, Listing, Sought};
use super::options::FamilyArgs;
use crate::file::context::Context;
use crate::file::key_list::{KeyLines, KeysFormat};
use crate::file::look::{Look, look_at};
use crate::file::map::OpenMap;
use crate::file::open::open_to_probe;
use crate::file::problem::{Problem, State, explained};
use crate::file::walk::{Found, Walk};
use crate::model::batch::{Ends, KeyBatch, Positions, cores, in_parallel};
use crate::model::group::{Family, FamilyPlace as Place, place_of};
use crate::model::keys::{Source, file_id, id_text, why_not_mapped};
use crate::model::lookup::Lookup;
use crate::model::probe::{Because, FileProbe, probe_mapped, probe_ranges};
use crate::print::types::{Figure, Key, PathName, Rate};
use crate::print::{Outcome, Output, note, record, words};
use crate::system::input;
use crate::system::progress::SharedProgress;
use crate::words::escape::{key_text, path_name};
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
        /// number of keys or ranges to look up
        sought: u64,
        groups: Vec<ProbeGroup> [notable],
        lookups: Vec<FileAnswer> [notable],
        answers: Vec<Answer> [json],
        findings: Vec<String> [notable],
    }

    /// Files of one column family, or of a store that has none.
    struct ProbeGroup {
        database: Option<PathName> [row],
        column_family: Option<String> [row],
        /// number of files
        probed_files: u64 [row],
        /// files that a lookup must read
        mean_candidates: Figure [row],
        /// the fewest files that a lookup must read
        min_candidates: u64,
        /// the most files that a lookup must read
        max_candidates: u64 [row],
        /// files that a lookup must read without filters and maps, by their smallest and largest keys
        mean_candidates_without_filters: Figure [row],
        /// files that are expected if all keys are absent
        expected_candidates: Option<Figure> [row],
        /// keys or ranges that no file contains; null if other files may
        without_candidates: Option<u64> [row],
        per_file: Vec<FileCounts>,
    }

    /// A file, and for how many keys or ranges it must be read.
    struct FileCounts {
        path: Option<PathName> [row],
        file_id: Option<String> [row],
        level: Option<u32> [row],
        kind: String [row],
        state: State,
        entries: Option<u64>,
        /// keys or ranges within the bounds of the file; all, if those are unknown
        in_bounds: u64 [row],
        /// keys or ranges for which a lookup must read the file
        read_for: u64 [row],
        /// those of them that only range tombstones are the reason for
        read_for_range_tombstones: Option<u64> [row],
        /// keys that the filter was probed for
        keys_probed: u64,
        /// share of these keys for which the filter says "may contain": its false positive rate if all are absent
        positive_rate: Option<Rate> [row],
        expected_fpr: Option<Rate> [row],
        /// why the filter has its state
        reason: Option<String>,
    }

    /// What a file says about a key or range.
    struct FileAnswer {
        /// the key that is looked up
        sought_key: Option<Key> [row],
        column_family: Option<String> [row],
        path: Option<PathName> [row],
        file_id: Option<String> [row],
        level: Option<u32> [row],
        /// whether a lookup must read the file
        answer: Verdict [row],
        /// why a lookup must read the file, or need not
        because: Because [row],
    }
}

words! {
    /// Whether a lookup must read a file.
    pub(crate) enum Verdict {
        Read = "read",
        Skip = "skip",
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
            let name = || format!("--key '{}'", key_text(key.as_encoded_bytes()));
            keys.push(&format.parse_argument(key).with_context(name)?);
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
    number: usize,
    place: Place,
    id: Option<FileId>,
    counts: FileCounts,
    /// The number of keys for which it is expected to be read if all are absent.
    expected: Option<f64>,
    remarks: Vec<String>,
    /// Without the positions of keys, unless they are listed.
    probe: FileProbe,
}

/// How often the files of a database are listed, because a running engine has removed some of them.
const MAX_WALKS: u32 = 5;

/// The positions of keys that are kept of each file: their memory grows with the number of files.
#[derive(Clone, Copy)]
enum Kept {
    Nothing,
    Candidates,
    All,
}

/// The files, and the number of candidates for each key.
struct Store<'a> {
    sought: &'a Sought,
    kept: Kept,
    rows: Vec<Row>,
    numbers: Mutex<BTreeMap<Place, Vec<u32>>>,
}

/// Probes all files. The answer is no if a file is damaged, and a failure if one cannot be read; both count as files
/// that may contain each key.
pub(crate) fn run(
    args: &ProbeArgs,
    format: KeysFormat,
    context: &Context,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
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
    let sought = args.sought(format)?;
    let mut store = Store {
        sought: &sought,
        kept: match args.list {
            Some(_) => Kept::Candidates,
            None if args.is_by_file() => Kept::All,
            None => Kept::Nothing,
        },
        rows: Vec::new(),
        numbers: Mutex::default(),
    };
    let mut remarks = Vec::new();
    let (state, mut is_incomplete) = store.probe(args, &mut walk, format, context, &mut remarks)?;
    // Which files there are, and on which levels, is then unknown.
    is_incomplete |= !walk.problems.is_empty();
    let problem =
        |(path, problem): &(PathBuf, Problem)| format!("{}: {}", input::name(path), explained(&problem.reason));
    remarks.splice(0..0, walk.problems.iter().map(problem));
    let of_files = store.rows.iter().flat_map(|row| row.remarks.iter().map(|remark| (remark, row.name())));
    for (remark, files) in group::by(&of_files.collect::<Vec<_>>(), |(remark, _)| *remark) {
        remarks.push(group::line(remark, "file", files.iter().map(|(_, name)| name.as_str())));
    }
    remarks.extend(walk.notes());
    let others: Vec<_> = walk.others.iter().map(|path| input::name(path)).collect();
    if !others.is_empty() {
        remarks.push(group::line("neither a table nor a filter: not probed", "file", others.iter().map(AsRef::as_ref)));
    }
    let states = store.rows.iter().map(|row| row.counts.state);
    let state =
        states.chain(walk.problems.iter().map(|(_, problem)| problem.state)).max().unwrap_or_default().max(state);
    let unchecked = if is_incomplete { Outcome::NotChecked } else { Outcome::Yes };
    let outcome = state.outcome().max(unchecked);
    let families = store.families(args.family.family.as_deref())?;
    let mut report = ProbeReport { sought: sought.len() as u64, ..ProbeReport::default() };
    if let Some(listing) = args.list {
        let mut names: Vec<_> = families.iter().filter_map(|family| family.name.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            Family::ensure_one(&families, "--list: a key belongs to one column family")?;
        }
        let answers = store.answers(&families, is_incomplete);
        if !output.is_json {
            remarks.iter().for_each(|remark| note(remark));
            answers.print(listing, format, output)?;
            return Ok(outcome);
        }
        report.answers = answers.records(listing)?;
    }
    if args.is_by_file() {
        report.lookups = store.lookups(&families);
    } else {
        let names: BTreeSet<_> = families.iter().map(|family| family.name.clone()).collect();
        // The keys of one family may be in a file whose family is unknown.
        is_incomplete |= names.len() > 1 && names.contains(&None);
        report.groups = families.into_iter().map(|family| store.group(family, is_incomplete)).collect();
    }
    output.print((outcome, ProbeReport { findings: remarks, ..report }))
}

impl Store<'_> {
    /// Probes all files. Returns the worst state of the maps, and whether they may cover files that are not known.
    fn probe(
        &mut self,
        args: &ProbeArgs,
        walk: &mut Walk,
        format: KeysFormat,
        context: &Context,
        remarks: &mut Vec<String>,
    ) -> anyhow::Result<(State, bool)> {
        let keys = match self.sought {
            Sought::Keys(lines) => KeyBatch::new(lines.iter().map(|(key, _)| key).collect()),
            Sought::Ranges(_) => KeyBatch::new(Vec::new()),
        };
        let is_map = |found: &Found| !keys.keys.is_empty() && matches!(look_at(&found.path), Ok(Look::Map));
        let (found, mut files): (Vec<_>, Vec<_>) = walk.files.clone().into_iter().partition(is_map);
        let (mut maps, mut problems) = (Vec::new(), Vec::new());
        for found in &found {
            match OpenMap::open(&found.path).map_err(Problem::from) {
                Ok(map) => maps.push(map),
                Err(problem) => problems.push((problem.state, explained(&problem.reason))),
            }
        }
        let lookup = Lookup::of(&maps, &keys, context)?;
        // A map that cannot be used covers files that are not known.
        let mut is_incomplete = lookup.len() < found.len();
        problems.extend(lookup.problems.iter().cloned());
        let state = problems.iter().map(|(state, _)| *state).max().unwrap_or_default();
        remarks.extend(problems.into_iter().map(|(_, problem)| problem));
        let progress = SharedProgress::new("probing filters", (files.len() * self.sought.len()) as u64);
        let threads = args.threads.map_or_else(cores, usize::from);
        for attempt in 1.. {
            let rows = in_parallel(&files, threads, |found| {
                let row = self.row(found, &keys, &lookup, context);
                progress.advance(self.sought.len() as u64);
                row
            });
            let is_removed = rows.iter().any(Option::is_none);
            self.rows.extend(rows.into_iter().flatten());
            if !is_removed {
                break;
            }
            // A running engine has removed files. What replaced them was not live before.
            files = walk.walk_again(&args.paths)?;
            if attempt == MAX_WALKS {
                remarks.push(
                    "the engine removes tables faster than they are probed: any file may contain a key".to_owned(),
                );
                is_incomplete = true;
                break;
            }
        }
        for list in Source::lists(&args.key_lists, format)? {
            let path = Some(list.found.path.as_path());
            let row = match list.open(context) {
                Ok(list) => self.finished(path, Some(list.id), Place::default(), None, self.of_map(&lookup, list.id)),
                Err(problem) => {
                    let probe = FileProbe::unopened(&problem, self.all());
                    self.finished(path, None, Place::default(), None, probe)
                }
            };
            self.rows.push(row);
        }
        let passed: HashSet<_> = self.rows.iter().filter_map(|row| row.id).map(FileId::fingerprint).collect();
        let covered = lookup.files();
        if !maps.is_empty() {
            let ids: HashSet<_> = covered.iter().map(|file| file.fingerprint()).collect();
            let is_covered = |row: &&Row| row.id.is_some_and(|id| ids.contains(&id.fingerprint()));
            let others: Vec<_> = self.rows.iter().filter(|row| !is_covered(row)).map(Row::name).collect();
            if !others.is_empty() {
                remarks.push(group::line("no map covers it", "file", others.iter().map(String::as_str)));
            }
        }
        for id in covered.into_iter().filter(|id| !passed.contains(&id.fingerprint())) {
            self.rows.push(self.finished(None, Some(id), Place::default(), None, self.of_map(&lookup, id)));
        }
        Ok((state, is_incomplete))
    }

    /// Returns the families that are asked about, each with its files in the order of the command line.
    fn families(&mut self, name: Option<&str>) -> anyhow::Result<Vec<Family<Row>>> {
        let rows = self.rows.drain(..).enumerate();
        let mut rows: Vec<_> = rows.map(|(number, row)| (row.place.clone(), Row { number, ..row })).collect();
        // A file whose family is unknown may be of the one that is asked about.
        let asked =
            rows.iter().map(|(place, _)| place).find(|(_, family)| family.is_some() && family.as_deref() == name);
        if let Some(asked) = asked.cloned() {
            rows.iter_mut().filter(|((_, family), _)| family.is_none()).for_each(|(place, _)| place.clone_from(&asked));
        }
        let mut families = Family::chosen(Family::of_each(rows), name)?;
        families.iter_mut().for_each(|family| family.files.sort_by_key(|row| row.number));
        Ok(families)
    }

    fn all(&self) -> Positions {
        Positions::all(self.sought.len())
    }

    /// Returns the answers of a file that has no bounds and no filter of its own.
    fn of_map(&self, lookup: &Lookup<'_>, id: FileId) -> FileProbe {
        FileProbe::of_map(lookup.says(id), self.all())
    }

    /// Probes a file; `None` if a running engine has removed it.
    fn row(&self, found: &Found, keys: &KeyBatch<'_>, lookup: &Lookup<'_>, context: &Context) -> Option<Row> {
        let path = Some(found.path.as_path());
        let opened = match open_to_probe(found, context) {
            Ok(opened) => opened,
            Err(problem) if problem.state == State::NotLive => return None,
            Err(problem) => {
                let database = found.database.as_ref().map(|database| database.directory.clone());
                let family = found.family().map(str::to_owned);
                let probe = FileProbe::unopened(&problem, self.all());
                return Some(self.finished(path, None, (database, family), found.level(), probe));
            }
        };
        let id = if lookup.len() == 0 { None } else { file_id(&opened).ok() };
        let said = id.filter(|_| why_not_mapped(&opened).is_none()).and_then(|id| lookup.says(id));
        let probe = match self.sought {
            Sought::Keys(_) => probe_mapped(&opened, keys, said.as_ref().map(|said| &said.maybe), context),
            Sought::Ranges(ranges) => probe_ranges(&opened, ranges, context),
        };
        Some(self.finished(path, id, place_of(&opened), opened.level(), probe))
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
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = numbers.entry(place.clone()).or_insert_with(|| vec![0; self.sought.len()]);
        for (_, positions) in &probe.candidates {
            positions.iter().for_each(|position| numbers[position as usize] += 1);
        }
        let rate = |positives, probes| (probes > 0).then(|| Rate(positives as f64 / probes as f64));
        let counts = FileCounts {
            path: path.map(|path| PathName(path.to_owned())),
            file_id: id.filter(|_| path.is_none()).map(id_text),
            level,
            kind: probe.kind.clone(),
            state: probe.state,
            entries: probe.entries,
            in_bounds: probe.in_range.count(),
            read_for: probe.candidates(),
            read_for_range_tombstones: probe.has_range_tombstones.then(|| probe.count(Because::RangeTombstones)),
            keys_probed: probe.probes(),
            positive_rate: rate(probe.positives(), probe.probes()),
            expected_fpr: probe.expected_fpr.map(Rate),
            reason: probe.problem.clone().or_else(|| probe.sidecar_problem.clone()),
        };
        let (expected, remarks) = (probe.expected_candidates(), remarks(&probe, path));
        match self.kept {
            Kept::Nothing => probe = FileProbe::default(),
            Kept::Candidates => (probe.in_range, probe.in_maps) = Default::default(),
            Kept::All => {}
        }
        Row { number: 0, place, id, counts, expected, remarks, probe }
    }

    /// Returns the number of candidates in a family, for each key or range.
    fn candidates(&self, family: &Family<Row>) -> Vec<u32> {
        let places: BTreeSet<_> = family.files.iter().map(|row| &row.place).collect();
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = vec![0; self.sought.len()];
        for numbers in places.into_iter().filter_map(|place| numbers.get(place)) {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        sums
    }

    fn group(&self, family: Family<Row>, is_incomplete: bool) -> ProbeGroup {
        let numbers = self.candidates(&family);
        let mean = |sum: f64| Figure(sum / numbers.len() as f64);
        let expected: Option<f64> = family.files.iter().map(|row| row.expected).sum();
        ProbeGroup {
            probed_files: family.files.len() as u64,
            mean_candidates: mean(numbers.iter().map(|&number| f64::from(number)).sum()),
            min_candidates: numbers.iter().min().copied().unwrap_or_default().into(),
            max_candidates: numbers.iter().max().copied().unwrap_or_default().into(),
            mean_candidates_without_filters: mean(family.files.iter().map(|row| row.counts.in_bounds as f64).sum()),
            expected_candidates: expected.map(mean),
            without_candidates: (!is_incomplete).then(|| numbers.iter().filter(|&&number| number == 0).count() as u64),
            database: family.database.map(PathName),
            column_family: family.name,
            per_file: family.files.into_iter().map(|row| row.counts).collect(),
        }
    }

    fn answers<'s>(&'s self, families: &'s [Family<Row>], is_incomplete: bool) -> Answers<'s> {
        let listed = |row: &'s Row| Listed { name: row.name(), level: row.counts.level, probe: &row.probe };
        Answers {
            sought: self.sought,
            is_incomplete,
            files: families.iter().flat_map(|family| &family.files).map(listed).collect(),
        }
    }

    /// Returns what each file says about each key, or about the range; first the files to read.
    fn lookups(&self, families: &[Family<Row>]) -> Vec<FileAnswer> {
        let mut lookups = Vec::new();
        for position in self.all().iter() {
            let key = match self.sought {
                Sought::Keys(keys) => Some(Key(keys.entry(position as usize).0.to_vec())),
                Sought::Ranges(_) => None,
            };
            let answer = |(family, row): (&Family<Row>, &Row)| {
                let candidate = row.probe.candidate(position);
                FileAnswer {
                    sought_key: key.clone(),
                    column_family: family.name.clone(),
                    path: row.counts.path.clone(),
                    file_id: row.counts.file_id.clone(),
                    level: row.counts.level,
                    answer: if candidate.is_some() { Verdict::Read } else { Verdict::Skip },
                    because: candidate.unwrap_or_else(|| row.probe.skipped_by(position)),
                }
            };
            let rows = families.iter().flat_map(|family| family.files.iter().map(move |row| (family, row)));
            let mut answers: Vec<_> = rows.map(answer).collect();
            answers.sort_by_key(|file| file.answer);
            lookups.extend(answers);
        }
        lookups
    }
}

impl Row {
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
