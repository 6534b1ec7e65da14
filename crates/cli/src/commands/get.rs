//! `sstfilter get`: the entries of keys, of a range, or all entries, in the format that `build` reads.
//!
//! Entries are printed one after the other, because a table need not fit into memory.

use core::cmp::Reverse;
use core::ops::{Bound, ControlFlow};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use sstfilter::KeyRange;
use sstfilter_table::{Table, TableError, TableSet};

use crate::file::context::Context;
use crate::file::key_list::{BYTE_ORDER_MARK, KeyLines, KeysFormat};
use crate::file::look::list;
use crate::file::names::{has_table_extension, is_named_like_table, table_name, table_number};
use crate::file::open::{ensure_own_table, open, open_table};
use crate::file::problem::{BY_SST_DUMP, Problem, State, explained, in_options};
use crate::file::walk::{Found, is_directory};
use crate::model::batch::Ends;
use crate::model::keys::for_each_key;
use crate::print::types::{Bytes, Key};
use crate::print::{CANNOT_WRITE, Json, Outcome, Output, note, record};
use crate::system::input;
use crate::words::escape::key_text;
use crate::words::units::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// A table, or a directory of numbered tables of sstfilter: the highest number is the newest. For a table of
    /// another engine, only --keys-only prints its keys
    path: PathBuf,

    /// Keys to look up. Without keys and --range, all entries are printed
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    /// Also look up the keys of this file (text after a tab is ignored)
    #[arg(long = "keys", id = "from", value_name = "FILE")]
    from: Option<PathBuf>,

    /// Entries from LOWER on, inclusive, to UPPER, exclusive
    #[arg(long, num_args = 2, value_names = ["LOWER", "UPPER"], conflicts_with_all = ["keys", "from"])]
    range: Vec<OsString>,

    /// Print keys without their values; of a single table, also keys that are deleted
    #[arg(long)]
    keys_only: bool,

    /// Print every entry of a damaged table whose data block is sound, and report what is missing. The exit code is 1
    /// if anything is. Filters and index may be damaged, but not the footer, metaindex or properties
    #[arg(long, conflicts_with_all = ["keys", "from", "range"])]
    salvage: bool,
}

impl GetArgs {
    /// Returns the keys of the command line, followed by the keys of the file.
    fn keys(&self, format: KeysFormat) -> anyhow::Result<Vec<Vec<u8>>> {
        let parse = |key: &OsString| {
            format.parse_argument(key).with_context(|| format!("key '{}'", key_text(key.as_encoded_bytes())))
        };
        let mut keys: Vec<_> = self.keys.iter().map(parse).collect::<anyhow::Result<_>>()?;
        if let Some(path) = &self.from {
            let lines = KeyLines::read(path, format, "--keys")?;
            keys.extend(lines.iter().map(|(key, _)| key.to_vec()));
        }
        Ok(keys)
    }
}

record! {
    /// Entries of tables, and what was read for them.
    pub(crate) struct GetReport {
        /// entries that were found
        pub(crate) found: Vec<FoundEntry>,
        /// number of entries that were found
        pub(crate) found_entries: u64,
        /// entries that delete a key
        pub(crate) tombstones: Option<u64>,
        /// keys that no table has
        pub(crate) absent: Vec<Key>,
        pub(crate) tables: Option<u64>,
        /// tables that were not read because of their smallest and largest keys
        pub(crate) skipped_by_bounds: Option<u64>,
        /// tables that were not read because of their range filters
        pub(crate) skipped_by_range_filter: Option<u64>,
        /// data blocks that were read
        pub(crate) data_block_reads: Option<u64>,
        /// bytes that were read of tables
        pub(crate) bytes_read: Option<Bytes>,
        pub(crate) missing: Vec<MissingData>,
        /// why there are no more entries
        pub(crate) error: Option<String>,
    }

    /// An entry of a table.
    pub(crate) struct FoundEntry {
        /// key of an entry
        pub(crate) key: Key,
        /// value of an entry; null for a tombstone and with --keys-only
        pub(crate) value: Option<Key>,
        /// whether the entry deletes its key
        pub(crate) is_tombstone: bool,
    }

    /// Data that could not be read.
    pub(crate) struct MissingData {
        /// where the data begins in the file
        pub(crate) missing_from: u64,
        /// bytes that could not be read
        pub(crate) missing_bytes: Bytes,
        /// data blocks that could not be read; null if the index is damaged
        pub(crate) missing_blocks: Option<u64>,
        /// no missing key sorts before it
        pub(crate) first_key_from: Option<Key>,
        /// no missing key sorts after it
        pub(crate) last_key_up_to: Option<Key>,
        /// the problem or peculiarity
        pub(crate) why: String,
    }
}

/// Prints the entries. The answer is no if a key is absent, a range is empty, or data is missing.
pub(crate) fn run(
    args: &GetArgs,
    format: KeysFormat,
    context: &Context,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    // Records that end with NUL have no separator between key and value.
    let has_no_values = format == KeysFormat::Nul && !args.keys_only && !output.is_json;
    ensure!(!has_no_values, "--keys-format nul has no place for values: add --keys-only, or use --keys-format hex");
    let mut printer = Printer { output, format, keys_only: args.keys_only, report: GetReport::default() };
    match printer.read(args, context) {
        // What was printed must become one object.
        Err(error) if printer.is_json_begun() && error.to_string() != CANNOT_WRITE => {
            let error = explained(&error);
            note(&format!("error: {error}"));
            printer.report.error = Some(error);
            printer.end().map(|()| Outcome::Failed)
        }
        outcome => outcome.and_then(|outcome| printer.end().map(|()| outcome)),
    }
}

struct Printer<'a, 'b> {
    output: &'a mut Output<'b>,
    format: KeysFormat,
    keys_only: bool,
    /// Without the entries, which are printed as they come.
    report: GetReport,
}

impl Printer<'_, '_> {
    fn read(&mut self, args: &GetArgs, context: &Context) -> anyhow::Result<Outcome> {
        // Before any table is opened, because a malformed key is found at once.
        let keys = args.keys(self.format)?;
        let path = &args.path;
        if !keys.is_empty() {
            self.look_up(keys, path, context)
        } else if let [lower, upper] = &args.range[..] {
            let ends = Ends::parse("--range", [lower, upper], self.format)?;
            self.scan(path, KeyRange::from(&ends.lower[..]..&ends.upper[..]), context)
        } else if args.salvage {
            ensure_own_table(path)?;
            let unsalvageable = "nothing can be salvaged: the footer, metaindex and properties locate the data";
            self.salvage(&open_table(path, context).context(unsalvageable)?, &input::name(path))
        } else if is_directory(path)? {
            self.scan(path, KeyRange::from(..), context)
        } else if args.keys_only && ensure_own_table(path).is_err() {
            self.foreign_keys(path, context)
        } else {
            ensure_own_table(path)?;
            self.all_entries(&open_table(path, context)?, &input::name(path))
        }
    }

    fn look_up(&mut self, keys: Vec<Vec<u8>>, path: &Path, context: &Context) -> anyhow::Result<Outcome> {
        let set = open_set(path, context)?;
        for table in set.snapshot().tables(0) {
            if let Some(problem) = table.filter_problem() {
                note(&format!("note: reading without a filter: {}", in_options(&problem)));
            }
            if let Some(problem) = table.sidecar_problem() {
                note(&format!("note: reading without a sidecar: {}", in_options(problem)));
            }
        }
        // The bare value, for scripts; of several, each needs its key.
        let is_bare = keys.len() == 1 && !self.output.is_json && !self.keys_only;
        for key in keys {
            match set.get(&key)? {
                Some(value) if is_bare => {
                    self.output.record(&[&self.format.encoded(&value)], self.format.line_end())?;
                    if value.is_empty() {
                        note(&format!("present, without a value: {}", self.shown(&key)));
                    }
                }
                Some(value) => self.entry(&key, Some(&value), false)?,
                None => {
                    note(&format!("absent: {}", self.shown(&key)));
                    self.report.absent.push(Key(key));
                }
            }
        }
        self.count_reads(&set);
        Ok(Outcome::from_sound(self.report.absent.is_empty()))
    }

    fn shown(&self, key: &[u8]) -> String {
        key_text(&self.format.encoded(key))
    }

    fn count_reads(&mut self, set: &TableSet) {
        let stats = set.stats();
        self.report.tables = Some(set.snapshot().tables(0).count() as u64);
        self.report.data_block_reads = Some(stats.data_block_reads);
        self.report.bytes_read = Some(Bytes(stats.bytes_read));
    }

    /// Prints the newest entries of a range.
    fn scan(&mut self, path: &Path, range: KeyRange<'_>, context: &Context) -> anyhow::Result<Outcome> {
        let set = open_set(path, context)?;
        let snapshot = set.snapshot();
        for problem in snapshot.tables(0).filter_map(|table| table.range_filter_problem()) {
            note(&format!("note: reading without a range filter: {}", in_options(&problem)));
        }
        for entry in snapshot.range(range) {
            let (key, value) = entry?;
            self.entry(&key, Some(&value), false)?;
        }
        // After the scan, whose counters show what was read.
        self.count_reads(&set);
        let is_skipped =
            |table: &Table| table.stats().data_block_reads == 0 && !table.filters().may_contain_range(range);
        let skipped: Vec<_> = snapshot.tables(0).filter(|table| is_skipped(table)).collect();
        let by_filter = skipped.iter().filter(|table| table.stats().filters.ranges.negatives > 0).count() as u64;
        let by_bounds = skipped.len() as u64 - by_filter;
        (self.report.skipped_by_bounds, self.report.skipped_by_range_filter) = (Some(by_bounds), Some(by_filter));
        note(&format!(
            "{} from {}: {} skipped by their smallest and largest keys, {} by their range filters; {} read",
            counted(self.report.found_entries, "key"),
            counted(snapshot.tables(0).count() as u64, "table"),
            grouped(by_bounds),
            grouped(by_filter),
            counted(self.report.data_block_reads.unwrap_or_default(), "data block"),
        ));
        Ok(Outcome::from_sound(self.report.found_entries > 0))
    }

    /// Prints the entries of one table, also those that delete a key.
    fn all_entries(&mut self, table: &Table, name: &str) -> anyhow::Result<Outcome> {
        for entry in table {
            let entry = entry.with_context(|| format!("{name}: --salvage prints the entries that can be read"))?;
            self.entry(&entry.key, entry.value.as_deref(), entry.value.is_none())?;
        }
        self.note_tombstones();
        Ok(Outcome::Yes)
    }

    fn foreign_keys(&mut self, path: &Path, context: &Context) -> anyhow::Result<Outcome> {
        let opened = open(&Found::alone(path), context).map_err(|problem| problem.reason)?;
        let mut printed = Ok(());
        let mut print = |key: &[u8]| {
            printed = self.entry(key, None, false);
            if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        for_each_key(&opened, &mut print).map_err(|problem| match Problem::from(problem) {
            Problem { state: State::Unusable, reason } => {
                reason.context(format!("RocksDB's own tool can read a table of RocksDB: {BY_SST_DUMP}"))
            }
            Problem { reason, .. } => reason,
        })?;
        printed.map(|()| Outcome::Yes)
    }

    /// Prints the readable entries of a table, and reports missing data as soon as it is met.
    fn salvage(&mut self, table: &Table, name: &str) -> anyhow::Result<Outcome> {
        if let Err(problem) = table.check_index() {
            note(&format!("{name}: the index cannot be used, so blocks are found by their checksums: {problem}"));
        }
        for next in table.salvage() {
            match next {
                Ok(entry) => self.entry(&entry.key, entry.value.as_deref(), entry.value.is_none())?,
                Err(missing) => {
                    note(&format!("{name}: missing: {missing}"));
                    match MissingData::new(&missing) {
                        Some(data) => self.report.missing.push(data),
                        None => return Err(missing.into()),
                    }
                }
            }
        }
        let missing = &self.report.missing;
        let bytes = counted(missing.iter().map(|data| data.missing_bytes.0).sum(), "byte");
        // One unknown number makes the sum unknown.
        let lost = match missing.iter().map(|data| data.missing_blocks).sum::<Option<u64>>() {
            Some(0) => "nothing is missing".to_owned(),
            Some(blocks) => format!("{} missing, {bytes}", counted(blocks, "data block")),
            None => format!("{bytes} missing, in an unknown number of blocks"),
        };
        let (printed, all) = (grouped(self.report.found_entries), grouped(table.properties().entries));
        note(&format!("{name}: {printed} of {all} entries salvaged; {lost}"));
        self.note_tombstones();
        Ok(Outcome::from_sound(missing.is_empty()))
    }

    fn note_tombstones(&self) {
        let tombstones = self.report.tombstones.filter(|_| !self.keys_only && !self.output.is_json);
        if let Some(tombstones) = tombstones {
            note(&format!("note: {}, printed as lines without a tab", counted(tombstones, "tombstone")));
        }
    }

    /// Prints an entry, without its value if only keys are printed.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>, is_tombstone: bool) -> anyhow::Result<()> {
        let value = value.filter(|_| !self.keys_only);
        let is_first = self.report.found_entries == 0;
        if self.output.is_json {
            let (key, value) = (Key(key.to_vec()), value.map(|value| Key(value.to_vec())));
            let entry = serde_json::to_string(&Json(&FoundEntry { key, value, is_tombstone }))?;
            let start = if is_first { BEGINNING } else { "," };
            self.write(&format!("{start}\n{entry}"))?;
        } else {
            let line = line(self.format, key, value, is_first)?;
            self.output.record(&[&line], self.format.terminator())?;
        }
        self.report.found_entries += 1;
        if is_tombstone {
            *self.report.tombstones.get_or_insert_default() += 1;
        }
        Ok(())
    }

    /// Ends the JSON object.
    fn end(&mut self) -> anyhow::Result<()> {
        if !self.output.is_json {
            return Ok(());
        }
        let object = serde_json::to_string(&Json(&self.report))?;
        match object.strip_prefix(BEGINNING).filter(|_| self.is_json_begun()) {
            Some(rest) => self.write(&format!("\n{rest}\n")),
            None => self.write(&format!("{object}\n")),
        }
    }

    fn is_json_begun(&self) -> bool {
        self.output.is_json && self.report.found_entries > 0
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.output.writer.write_all(text.as_bytes()).context(CANNOT_WRITE)
    }
}

/// The beginning of a report in JSON.
const BEGINNING: &str = "{\"found\":[";

impl MissingData {
    fn new(missing: &TableError) -> Option<Self> {
        let TableError::Missing { bytes, blocks, keys: (lower, upper), source, .. } = missing else { return None };
        let key = |bound: &Bound<bytes::Bytes>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(Key(key.to_vec())),
            Bound::Unbounded => None,
        };
        Some(Self {
            missing_from: bytes.start,
            missing_bytes: Bytes(bytes.end - bytes.start),
            missing_blocks: *blocks,
            first_key_from: key(lower),
            last_key_up_to: key(upper),
            why: source.to_string(),
        })
    }
}

/// Returns the line that is read as this key and value, without its end. The empty key always gets a tab, because a
/// reader skips empty lines.
fn line(format: KeysFormat, key: &[u8], value: Option<&[u8]>, is_first: bool) -> anyhow::Result<Vec<u8>> {
    match format {
        KeysFormat::Nul => {
            ensure!(!key.contains(&0), "key {} contains a NUL byte: use --keys-format hex", key_text(key));
            return Ok(key.to_vec());
        }
        KeysFormat::Lines | KeysFormat::Crlf => {
            // A reader drops a byte order mark, but only at the beginning of the file.
            let is_mark = is_first && key.starts_with(BYTE_ORDER_MARK);
            let is_cut =
                key.contains(&b'\n') || key.contains(&b'\t') || value.is_some_and(|value| value.contains(&b'\n'));
            let key = key_text(key);
            ensure!(!is_mark && !is_cut, "key {key}: a line cannot hold this key or its value: use --keys-format hex");
        }
        KeysFormat::Hex => {}
    }
    let mut line = format.encoded(key).into_owned();
    if value.is_some() || key.is_empty() {
        line.push(b'\t');
    }
    line.extend(value.iter().flat_map(|value| format.encoded(value).into_owned()));
    Ok(line)
}

/// Opens the tables at `path`. Without a secret seed, the set probes with the hash of the newest table.
fn open_set(path: &Path, context: &Context) -> anyhow::Result<TableSet> {
    if !is_directory(path)? {
        ensure_own_table(path)?;
        return Ok(TableSet::new([(0, open_table(path, context)?)])?);
    }
    let files: Vec<_> = list(path)?.into_iter().filter(|file| is_named_like_table(file)).collect();
    // Looked at only after a failure, so that sound tables are not opened twice.
    let ensure_own = || files.iter().try_for_each(|file| ensure_own_table(file));
    let mut tables: Vec<_> = files.iter().filter(|file| has_table_extension(file)).collect();
    if let Some(file) = tables.iter().find(|file| table_number(file).is_none()) {
        ensure_own()?;
        let (file, name) = (input::name(file), table_name(1));
        bail!("{file}: cannot tell its age without a number: rename it ({name}) or pass the file itself");
    }
    if tables.is_empty() {
        ensure_own()?;
        bail!("{} contains no table (*.sst): build some with `sstfilter build`", input::name(path));
    }
    // By number, not by name: `10.sst` is newer than `9.sst`. The path keeps the order of equal numbers, an error
    // below, the same in each run.
    tables.sort_by_cached_key(|&file| Reverse((table_number(file), file)));
    let have_one_number = |pair: &&[&PathBuf]| table_number(pair[0]) == table_number(pair[1]);
    if let Some([newer, older]) = tables.windows(2).find(have_one_number) {
        bail!("{} and {} have the same number: cannot tell which is newer", input::name(newer), input::name(older));
    }
    TableSet::open((0..).zip(tables.into_iter().rev()), &context.table_options())
        .map_err(|problem| ensure_own().err().unwrap_or_else(|| problem.into()))
}
