//! The keys of a comparison: stored keys from files and tables, dealt to files, and absent keys.

use core::fmt;
use core::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure};
use clap::{ArgGroup, Args};
use sstfilter::KeyHasher;

use crate::file::key_list::KeyLines;
use crate::file::look::{Format, look_at, may_be_table};
use crate::file::names::is_named_like_table;
use crate::file::open::{Context, open};
use crate::file::problem::{BY_SST_DUMP, Problem, State, explained};
use crate::file::walk::{Found, Walk};
use crate::measure::filters::Workload;
use crate::measure::made_up;
use crate::model::keys::for_each_key;
use crate::print::Outcome;
use crate::system::input;
use crate::words::escape::shell_word;
use crate::words::group;
use crate::words::units::{counted, grouped, number_in};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["input", "generate"]))]
pub(super) struct SourceArgs {
    /// Sources of keys: files of keys (text after a tab is ignored), tables (also of RocksDB, LevelDB and Pebble), or
    /// directories of tables
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) input: Vec<PathBuf>,

    /// Compare on N made-up keys instead, with made-up absent keys
    #[arg(long, value_name = "N", value_parser = number_in::<u64>(1..=100_000_000), allow_negative_numbers = true,
        conflicts_with_all = ["absent", "holdout"])]
    generate: Option<u64>,

    /// Sources of absent keys to probe for, like those of --input
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "holdout")]
    absent: Option<Vec<PathBuf>>,

    /// Without --absent: hold out this share of the keys from the filters, and probe for them as absent keys
    #[arg(long, value_name = "P%", default_value = "10%", value_parser = Holdout::parse, allow_negative_numbers = true)]
    holdout: Holdout,

    /// Deal the keys round-robin to N files, so that all key ranges overlap [default: the number of tables in --input,
    /// or 1]
    #[arg(long, value_name = "N", value_parser = number_in::<usize>(1..=1_000_000), allow_negative_numbers = true)]
    files: Option<usize>,
}

impl SourceArgs {
    /// Returns the options as one writes them.
    pub(super) fn words(&self) -> Vec<String> {
        let list = |paths: &[PathBuf]| paths.iter().map(|path| shell_word(path)).collect::<Vec<_>>().join(" ");
        let holds_out = self.generate.is_none() && self.absent.is_none();
        let words = [
            self.generate.map(|keys| format!("--generate {keys}")),
            (!self.input.is_empty()).then(|| format!("--input {}", list(&self.input))),
            self.absent.as_deref().map(|paths| format!("--absent {}", list(paths))),
            holds_out.then(|| format!("--holdout {}", self.holdout)),
            self.files.map(|files| format!("--files {files}")),
        ];
        words.into_iter().flatten().collect()
    }

    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        self.absent.iter().flatten().chain(&self.input).cloned().collect()
    }

    /// Makes up or reads the keys, finds absent ones, and deals the others to files.
    pub(super) fn workload(&self, intake: &mut Intake<'_>) -> anyhow::Result<(Workload, String)> {
        if let Some(keys) = self.generate {
            let files = self.files.unwrap_or(1);
            ensure_no_empty_file(files, keys)?;
            return Ok((made_up::workload(keys, files), "made up like the keys".to_owned()));
        }
        let input = Keys::read(&self.input, "--input", intake)?;
        let given = self.absent.as_deref().map(|paths| Keys::read(paths, "--absent", intake)).transpose()?;
        let (split, absent_from) = match &given {
            Some(given) => (Split::given(&input, given, intake)?, "from --absent".to_owned()),
            None => (Split::held_out(&input, self.holdout)?, format!("held out ({} of the keys given)", self.holdout)),
        };
        // Keys held out of tiny tables may leave fewer keys than tables.
        let files = self.files.unwrap_or_else(|| input.tables.clamp(1, split.stored.len()));
        if self.files.is_none() && input.tables > 1 {
            let files = counted(files as u64, "file");
            let note = format!("the keys are dealt to {files}, as many as tables: --files N takes another number");
            intake.notes.push(note);
        }
        ensure_no_empty_file(files, split.stored.len() as u64)?;
        Ok((split.deal(files, &intake.context.secret.clone().unwrap_or_default()), absent_from))
    }
}

/// Fails if a file would have no key, and so no filter to compare.
fn ensure_no_empty_file(files: usize, keys: u64) -> anyhow::Result<()> {
    let (most, got) = (grouped(keys), grouped(files as u64));
    ensure!(files as u64 <= keys, "--files: expected at most {most}, the number of stored keys, got {got}");
    Ok(())
}

/// The share of the keys that are held out from the filters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Holdout {
    /// More than 0 and less than 100.
    percent: f64,
}

impl Holdout {
    /// Parses a percentage. The percent sign is required, because `0.1` could mean a tenth or a thousandth.
    fn parse(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        let percent = percent.filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
        let expected = || format!("expected a share between 0% and 100%, such as 10%, got '{text}'");
        percent.map(|percent| Self { percent }).ok_or_else(expected)
    }

    /// Whether a key with this hash is held out: the lowest hashes are.
    fn takes(self, hash: u64) -> bool {
        // In floating point: no share needs more than its 53 bits, and 2^64 itself is no `u64`.
        (hash as f64) < self.percent / 100.0 * 2.0_f64.powi(64)
    }
}

impl fmt::Display for Holdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

/// The keys that filters are built from, and the keys that they are probed for. Both are ascending.
struct Split<'a> {
    stored: Vec<&'a [u8]>,
    absent: Vec<&'a [u8]>,
}

/// Seed of the hash that decides which keys are held out. It must differ from the seed of the filters: otherwise, all
/// held-out keys would be probed in one part of a filter, which then contains no key.
const HOLDOUT_SEED: u64 = 0x686f_6c64_206f_7574;

impl<'a> Split<'a> {
    /// Splits keys by source: the `given` keys that are not `stored` are absent.
    fn given(stored: &'a Keys, given: &'a Keys, intake: &mut Intake<'_>) -> anyhow::Result<Self> {
        let stored: Vec<_> = stored.iter().collect();
        // Sorted lists instead of a set: a set of all keys would take as much memory again.
        let absent: Vec<_> = given.iter().filter(|key| stored.binary_search(key).is_err()).collect();
        let present = given.lines.len() - absent.len();
        let present_keys = counted(present as u64, "key");
        ensure!(!absent.is_empty(), "--absent: all {present_keys} are also in --input: expected absent keys");
        if present > 0 {
            intake.notes.push(format!("--absent: {present_keys} dropped, because they are also in --input"));
        }
        Ok(Self { stored, absent })
    }

    /// Holds out a share of the keys as absent ones. The same keys give the same split in each run.
    fn held_out(keys: &'a Keys, share: Holdout) -> anyhow::Result<Self> {
        let hasher = KeyHasher::with_seed(HOLDOUT_SEED);
        let (absent, stored): (Vec<_>, Vec<_>) = keys.iter().partition(|key| share.takes(hasher.hash(key).get()));
        let keys = counted(keys.lines.len() as u64, "key");
        for (part, is, what) in [(&absent, "none", "more"), (&stored, "all", "less")] {
            ensure!(
                !part.is_empty(),
                "--holdout {share} of {keys} is {is}: hold out {what}, or pass absent keys (--absent)"
            );
        }
        Ok(Self { stored, absent })
    }

    /// Deals the stored keys to files round-robin, so that all key ranges overlap.
    fn deal(&self, files: usize, hasher: &KeyHasher) -> Workload {
        let file = |first| self.stored.iter().copied().skip(first).step_by(files);
        let hash = |key: &[u8]| hasher.hash(key);
        Workload {
            files: (0..files).map(|first| file(first).map(hash).collect()).collect(),
            reached: (0..files).map(|first| reached(&self.absent, file(first))).collect(),
            absent: self.absent.iter().copied().map(hash).collect(),
        }
    }
}

/// Returns which of the ascending `absent` keys are between the smallest and the largest of a file's ascending `keys`.
fn reached<'a>(absent: &[&[u8]], mut keys: impl DoubleEndedIterator<Item = &'a [u8]>) -> Range<usize> {
    let (smallest, largest) = (keys.next().unwrap_or_default(), keys.next_back());
    // A file of one key has no second end.
    let largest = largest.unwrap_or(smallest);
    let start = absent.partition_point(|&key| key < smallest);
    start..absent.partition_point(|&key| key <= largest).max(start)
}

/// How keys are read, and what is to be said about it.
pub(super) struct Intake<'a> {
    context: &'a Context,
    pub(super) notes: Vec<String>,
    /// Files that were not read to their end, and why.
    pub(super) not_read: Vec<String>,
    /// The worst of what is wrong with these files.
    pub(super) outcome: Outcome,
}

impl<'a> Intake<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context, notes: Vec::new(), not_read: Vec::new(), outcome: Outcome::Yes }
    }

    /// Notes what is wrong with a file after `keys` of its keys were read.
    fn leave_out(&mut self, path: &Path, keys: usize, problem: &Problem) {
        // The engine removed the file in the meantime.
        if problem.state == State::NotLive {
            return;
        }
        let (why, name) = problem.about(path);
        let read = match keys as u64 {
            0 => String::new(),
            keys => format!("all after its first {}: ", counted(keys, "key")),
        };
        self.not_read.push(format!("{name}: {read}{why}"));
        self.outcome = self.outcome.max(problem.state.outcome());
        let is_of_rocksdb = matches!(look_at(path), Ok(Format::RocksDbTable));
        // Once for all tables, because the command is long.
        let note = format!("how to get such keys with RocksDB's own tool: {BY_SST_DUMP}");
        if problem.state == State::Unusable && is_of_rocksdb && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Distinct keys, ascending.
pub(super) struct Keys {
    lines: KeyLines,
    /// Tables that some of them come from.
    tables: usize,
}

impl Keys {
    /// Reads the keys of all `paths`, the values of `option`.
    pub(super) fn read(paths: &[PathBuf], option: &str, intake: &mut Intake<'_>) -> anyhow::Result<Self> {
        let walk = Walk::of(paths)?;
        intake.notes.extend(walk.notes());
        intake.notes.extend(walk.problems.iter().map(|(_, problem)| explained(&problem.reason)));
        if !walk.others.is_empty() {
            let names: Vec<_> = walk.others.iter().map(|path| input::name(path)).collect();
            intake.notes.push(group::line("skipped, because it is not a table", "file", &names));
        }
        let mut keys = Self { lines: KeyLines::default(), tables: 0 };
        for found in &walk.files {
            let before = keys.lines.len();
            let path = &found.path;
            // Files of keys have no magic number. One that is named like a table was cut short. Standard input cannot
            // be read twice.
            let is_unknown = input::is_standard(path) || matches!(look_at(path), Ok(Format::Other));
            if is_unknown && !is_named_like_table(path) {
                keys.add_list(path, option, intake)?;
            } else if may_be_table(path) {
                let read = keys.add_table(found, intake.context);
                let added = keys.lines.len() - before;
                // The keys before the damage are kept, and the report says how many they are.
                read.unwrap_or_else(|problem| intake.leave_out(path, added, &problem));
                keys.tables += usize::from(added > 0);
            } else {
                let reason = anyhow!("it is a filter or a map, which has no keys: pass its table, or a file of keys");
                intake.leave_out(path, 0, &Problem::new(State::Unusable, reason));
            }
        }
        let said: Vec<_> = intake.not_read.iter().chain(&intake.notes).map(|line| format!("; {line}")).collect();
        ensure!(keys.lines.len() > 0, "{option}: no keys in these files{}", said.concat());
        keys.lines.sort_and_dedup();
        if keys.lines.duplicate_keys > 0 {
            let repeated = counted(keys.lines.duplicate_keys, "repeated key");
            intake.notes.push(format!("{option}: {repeated} dropped, because each key counts once"));
        }
        Ok(keys)
    }

    fn add_list(&mut self, path: &Path, option: &str, intake: &Intake<'_>) -> anyhow::Result<()> {
        let lines = KeyLines::read(path, intake.context.keys_format, option)?;
        // Nearly always there is only one file, whose text need not be copied.
        if self.lines.len() == 0 {
            self.lines = lines;
        } else {
            lines.iter().for_each(|(key, _)| self.lines.push(key));
        }
        Ok(())
    }

    fn add_table(&mut self, found: &Found, context: &Context) -> Result<(), Problem> {
        let opened = open(found, context)?;
        for_each_key(&opened, &mut |key| {
            self.lines.push(key);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_with_its_sign() {
        assert_eq!(Holdout::parse("10%"), Ok(Holdout { percent: 10.0 }));
        assert_eq!(Holdout::parse("0.5 %").unwrap().to_string(), "0.5%");
        for wrong in ["", "%", "10", "0.1", "0%", "100%", "-1%", "NaN%", "inf%", "abc", "10%%"] {
            assert!(Holdout::parse(wrong).is_err_and(|error| error.contains("such as 10%")), "{wrong}");
        }
    }

    #[test]
    fn the_share_of_all_hashes_is_not_read() {
        let tenth = Holdout::parse("10%").unwrap();
        assert!(tenth.takes(0) && tenth.takes(u64::MAX / 10 - (1 << 11)));
        assert!(!tenth.takes(u64::MAX / 10 + (1 << 11)) && !tenth.takes(u64::MAX));
        assert!(!Holdout::parse("99.99%").unwrap().takes(u64::MAX));
    }
}
