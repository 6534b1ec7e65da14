//! The keys of a comparison: stored keys from files and tables, dealt to files, and absent keys.

use core::iter;
use core::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use sstfilter::{KeyHash, KeyHasher};
use sstfilter_interop::Engine;

use super::args::{CompareArgs, Holdout};
use crate::files::{self, Look, Met};
use crate::filters;
use crate::input;
use crate::left_out::{BY_SST_DUMP, LeftOut};
use crate::lines::{KeyLines, KeysFormat};
use crate::opened::{self, Reading};
use crate::output::{Outcome, explained};
use crate::units::{counted, grouped};

/// The hashes of all keys.
#[derive(Debug)]
pub(super) struct Workload {
    /// Hashes of each file's keys, which are distinct and ascending.
    pub(super) files: Vec<Vec<KeyHash>>,
    /// Hashes of keys that are in no file; the keys are distinct and ascending.
    pub(super) absent: Vec<KeyHash>,
    /// For each file, the absent keys between its smallest and its largest key.
    pub(super) reached: Vec<Range<usize>>,
    /// How the absent keys were found.
    pub(super) absent_from: String,
    pub(super) notes: Vec<String>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Workload {
    /// Deals the stored keys to `count` files round-robin, so that all key ranges overlap.
    fn new(split: Split<'_>, count: u64, hasher: &KeyHasher, intake: Intake<'_>) -> anyhow::Result<Self> {
        let Split { stored, absent, absent_from } = split;
        ensure_no_empty_file(count, stored.len() as u64)?;
        let count = usize::try_from(count)?;
        let file = |first| stored.iter().copied().skip(first).step_by(count);
        // Only hashes are kept for the measurement: every kind takes the same ones.
        let hash = |key| hasher.hash(key);
        Ok(Self {
            files: (0..count).map(|first| file(first).map(hash).collect()).collect(),
            reached: (0..count).map(|first| reached(&absent, file(first))).collect(),
            absent: absent.iter().copied().map(hash).collect(),
            absent_from,
            notes: intake.notes,
            left_out: intake.left_out,
        })
    }

    /// Deals `keys` made-up keys to `count` files. They have no order: each file may have each absent key.
    fn made_up(keys: u64, count: u64) -> anyhow::Result<Self> {
        ensure_no_empty_file(count, keys)?;
        let (stored, absent) = (filters::present(0, keys), filters::absent(keys.clamp(MADE_UP.0, MADE_UP.1)));
        let count = usize::try_from(count)?;
        Ok(Self {
            files: (0..count).map(|first| stored.iter().copied().skip(first).step_by(count).collect()).collect(),
            reached: vec![0..absent.len(); count],
            absent,
            absent_from: "made up like the keys".to_owned(),
            notes: Vec::new(),
            left_out: Vec::new(),
        })
    }

    /// Returns one file with the first `count` keys of the first file, which no other exceeds. All absent keys are in
    /// its range.
    pub(super) fn first(&self, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let keys = self.files.first().map(|keys| keys.iter().copied().take(count).collect());
        Self {
            files: vec![keys.unwrap_or_default()],
            reached: iter::once(0..self.absent.len()).collect(),
            absent: self.absent.clone(),
            absent_from: self.absent_from.clone(),
            notes: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Returns one file of keys with these hashes; all absent keys are in its range.
    #[cfg(test)]
    pub(super) fn of_hashes(stored: &[u64], absent: &[u64]) -> Self {
        let hashes = |numbers: &[u64]| numbers.iter().copied().map(KeyHash::mix).collect::<Vec<_>>();
        let (files, absent) = (vec![hashes(stored)], hashes(absent));
        let reached = iter::once(0..absent.len()).collect();
        Self { files, absent, reached, absent_from: String::new(), notes: Vec::new(), left_out: Vec::new() }
    }

    /// Returns the number of keys of all files.
    pub(super) fn keys(&self) -> u64 {
        self.files.iter().map(|hashes| hashes.len() as u64).sum()
    }

    /// Returns the mean number of files whose key range includes an absent key.
    pub(super) fn files_per_absent_key(&self) -> f64 {
        self.reached.iter().map(Range::len).sum::<usize>() as f64 / self.absent.len() as f64
    }
}

/// Minimum and maximum of made-up absent keys: as many as timed probes.
const MADE_UP: (u64, u64) = (32_768, 1_048_576);

/// Fails if a file would have no key, and so no filter to compare.
fn ensure_no_empty_file(files: u64, keys: u64) -> anyhow::Result<()> {
    let (most, got) = (grouped(keys), grouped(files));
    ensure!(files <= keys, "--files: expected at most {most}, the number of stored keys, got {got}");
    Ok(())
}

/// Makes up or reads the keys, finds absent ones, and deals the others to files.
pub(super) fn workload(args: &CompareArgs, format: KeysFormat, tables: Reading<'_>) -> anyhow::Result<Workload> {
    if let Some(keys) = args.generate {
        return Workload::made_up(keys, args.files.unwrap_or(1));
    }
    let mut intake = Intake { format, tables, notes: Vec::new(), left_out: Vec::new(), has_other_codecs: false };
    let input = Keys::read(&args.input, "--input", &mut intake)?;
    let given = args.absent.as_deref().map(|paths| Keys::read(paths, "--absent", &mut intake)).transpose()?;
    let split = match &given {
        Some(given) => Split::given(&input, given, &mut intake.notes)?,
        None => Split::held_out(&input, args.holdout)?,
    };
    if intake.has_other_codecs {
        // Once for all tables, because the command is long.
        intake.notes.push(format!("how to get such keys with RocksDB's own tool: {BY_SST_DUMP}"));
    }
    // Keys held out of tiny tables may leave fewer keys than tables.
    let files = args.files.unwrap_or_else(|| input.tables.clamp(1, split.stored.len() as u64));
    if args.files.is_none() && input.tables > 1 {
        let files = counted(files, "file");
        intake.notes.push(format!("the keys are dealt to {files}, as many as tables: --files N takes another number"));
    }
    Workload::new(split, files, &tables.secret.cloned().unwrap_or_default(), intake)
}

/// Returns which of the ascending `absent` keys are between the smallest and the largest of a file's ascending `keys`.
fn reached<'a>(absent: &[&[u8]], mut keys: impl DoubleEndedIterator<Item = &'a [u8]>) -> Range<usize> {
    let (smallest, largest) = (keys.next().unwrap_or_default(), keys.next_back());
    // A file of one key has no second end.
    let largest = largest.unwrap_or(smallest);
    let start = absent.partition_point(|&key| key < smallest);
    start..absent.partition_point(|&key| key <= largest).max(start)
}

/// The keys that filters are built from, and the keys that they are probed for. Both are ascending.
struct Split<'a> {
    stored: Vec<&'a [u8]>,
    absent: Vec<&'a [u8]>,
    absent_from: String,
}

/// Seed of the hash that decides which keys are held out. It must differ from the seed of the filters: otherwise, all
/// held-out keys would be probed in one part of a filter, which then contains no key.
const HOLDOUT_SEED: u64 = 0x686f_6c64_206f_7574;

impl<'a> Split<'a> {
    /// Splits keys by source: the `given` keys that are not `stored` are absent.
    fn given(stored: &'a Keys, given: &'a Keys, notes: &mut Vec<String>) -> anyhow::Result<Self> {
        let stored: Vec<_> = stored.iter().collect();
        // Sorted lists instead of a set: a set of all keys would take as much memory again.
        let absent: Vec<_> = given.iter().filter(|key| stored.binary_search(key).is_err()).collect();
        let present = given.len() - absent.len() as u64;
        let present_keys = counted(present, "key");
        ensure!(!absent.is_empty(), "--absent: all {present_keys} are also in --input: expected absent keys");
        if present > 0 {
            notes.push(format!("--absent: {present_keys} dropped, because they are also in --input"));
        }
        Ok(Self { stored, absent, absent_from: "from --absent".to_owned() })
    }

    /// Holds out a share of the keys as absent ones. The same keys give the same split in each run.
    fn held_out(keys: &'a Keys, share: Holdout) -> anyhow::Result<Self> {
        let hasher = KeyHasher::with_seed(HOLDOUT_SEED);
        let (absent, stored): (Vec<_>, Vec<_>) = keys.iter().partition(|key| share.takes(hasher.hash(key).get()));
        let keys = counted(keys.len(), "key");
        ensure!(
            !absent.is_empty(),
            "--holdout {share} of {keys} is none: hold out more, or pass absent keys (--absent)"
        );
        ensure!(
            !stored.is_empty(),
            "--holdout {share} of {keys} is all: hold out less, or pass absent keys (--absent)"
        );
        Ok(Self { stored, absent, absent_from: format!("held out ({share} of the keys given)") })
    }
}

/// Distinct keys, ascending.
struct Keys {
    lines: KeyLines,
    /// Tables that some of them come from.
    tables: u64,
}

impl Keys {
    /// Reads the keys of all `paths`, the values of `option`.
    fn read(paths: &[PathBuf], option: &str, intake: &mut Intake<'_>) -> anyhow::Result<Self> {
        let (mut lines, mut tables, mut met) = (KeyLines::default(), 0, Met::default());
        for path in paths {
            for source in Source::of_path(path, intake)? {
                let before = lines.len();
                if met.is_first(source.path()) {
                    source.read_into(&mut lines, option, intake)?;
                    tables += u64::from(matches!(source, Source::Table(_)) && lines.len() > before);
                }
            }
        }
        let hint =
            if intake.has_other_codecs { format!("; with RocksDB's own tool: {BY_SST_DUMP}") } else { String::new() };
        let first = LeftOut::first(&intake.left_out);
        ensure!(lines.len() > 0, "{option}: no keys in these tables{first}{hint}");
        lines.sort_and_dedup();
        if lines.duplicate_keys > 0 {
            let repeated = counted(lines.duplicate_keys, "repeated key");
            intake.notes.push(format!("{option}: {repeated} dropped, because each key counts once"));
        }
        Ok(Self { lines, tables })
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|(key, _)| key)
    }

    fn len(&self) -> u64 {
        self.lines.len() as u64
    }
}

/// The options for reading keys, and the results other than keys.
struct Intake<'a> {
    format: KeysFormat,
    tables: Reading<'a>,
    notes: Vec<String>,
    /// Tables that were not read to their end.
    left_out: Vec<LeftOut>,
    /// Whether one of these tables is a RocksDB table with an unknown codec.
    has_other_codecs: bool,
}

impl Intake<'_> {
    /// Records that a table was left out after `keys` of its keys were read.
    fn leave_out(&mut self, path: &Path, keys: usize, problem: &anyhow::Error) {
        let is_of_rocksdb = matches!(files::look_at(path), Ok(Look::Foreign(Engine::RocksDb)));
        let outcome = opened::outcome_of(problem);
        self.has_other_codecs |= is_of_rocksdb && outcome == Outcome::Yes;
        let read =
            if keys > 0 { format!("all after its first {}: ", counted(keys as u64, "key")) } else { String::new() };
        self.left_out.push(LeftOut::new(path, &format!("{read}{}", explained(problem)), outcome));
    }
}

/// A source of keys, recognized by its bytes and not by its name.
enum Source {
    /// A file of keys, a pipe, or standard input.
    Lines(PathBuf),
    /// A table of any engine.
    Table(PathBuf),
}

impl Source {
    /// Returns the source at `path`, or the tables of a directory.
    fn of_path(path: &Path, intake: &mut Intake<'_>) -> anyhow::Result<Vec<Self>> {
        if input::is_standard(path) {
            return Ok(vec![Self::Lines(path.to_owned())]);
        }
        if !path.is_dir() {
            return Self::of_file(path).map(|source| vec![source]);
        }
        let is_table = |file: &PathBuf| matches!(files::look_at(file), Ok(Look::Table | Look::Foreign(_)));
        let (tables, others): (Vec<_>, Vec<_>) = files::list(path)?.into_iter().partition(is_table);
        let directory = input::name(path);
        // A file that is only named like a table was cut short: that is damage.
        let (damaged, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|file| files::is_named_like_table(file));
        for file in damaged {
            let problem = files::neither(&file);
            intake.left_out.push(LeftOut::new(&file, &problem, Outcome::No));
        }
        let first = LeftOut::first(&intake.left_out);
        ensure!(!tables.is_empty(), "{directory} contains no table: expected tables, or a file of keys{first}");
        if let Some(first) = others.first().and_then(|file| file.file_name()) {
            let (others, first) = (counted(others.len() as u64, "file"), input::name(Path::new(first)));
            intake.notes.push(format!("{directory}: {others} skipped, not a table (the first: {first})"));
        }
        Ok(tables.into_iter().map(Self::Table).collect())
    }

    fn of_file(path: &Path) -> anyhow::Result<Self> {
        match files::look_at(path)? {
            Look::Table | Look::Foreign(_) => Ok(Self::Table(path.to_owned())),
            Look::FilterBlock | Look::RangeFilter | Look::Partitions | Look::Sidecar => {
                bail!("{} is a filter block, which has no keys: pass its table, or a file of keys", input::name(path))
            }
            Look::Map => Err(files::is_a_map(path)),
            // Files of keys have no magic number, so any other file may be one.
            Look::Layers | Look::Neither => Ok(Self::Lines(path.to_owned())),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Lines(path) | Self::Table(path) => path,
        }
    }

    /// Adds the keys of the source to `keys`.
    fn read_into(&self, keys: &mut KeyLines, option: &str, intake: &mut Intake<'_>) -> anyhow::Result<()> {
        match self {
            Self::Lines(path) => {
                let lines = KeyLines::read(path, intake.format, option)?;
                // Nearly always there is only one file, whose text need not be copied.
                if keys.len() == 0 {
                    *keys = lines;
                } else {
                    lines.iter().for_each(|(key, _)| keys.push(key));
                }
            }
            Self::Table(path) => {
                let before = keys.len();
                let mut take = |key: &[u8]| {
                    keys.push(key);
                    ControlFlow::Continue(())
                };
                // The keys before the damage are kept, and the report says how many they are.
                if let Err(problem) = opened::for_each_key(path, intake.tables, &mut take) {
                    intake.leave_out(path, keys.len() - before, &problem);
                }
            }
        }
        Ok(())
    }
}
