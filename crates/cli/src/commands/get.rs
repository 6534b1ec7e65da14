//! `sstfilter get`: the entries of keys, of a range, or all entries, in the format that `build` reads.
//!
//! Entries are printed one after the other, because a table need not fit into memory.

use core::fmt;
use core::ops::{Bound, ControlFlow};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use sstfilter::KeyRange;
use sstfilter_table::{Table, TableError, TableSet};

use crate::file::context::{Context, KeysFormat};
use crate::file::key_list::{BYTE_ORDER_MARK, KeyLines};
use crate::file::look::list;
use crate::file::names::{has_table_extension, is_named_like_table, table_name, table_number};
use crate::file::open::{ensure_own_table, open, open_table};
use crate::file::problem::{BY_SST_DUMP, Problem, State, explained, in_options};
use crate::file::walk::{Found, is_directory};
use crate::model::batch::Ends;
use crate::model::keys::for_each_key;
use crate::print::types::{Bytes, Key, PathName};
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

    /// Print every entry of damaged tables whose data block is sound, and report what is missing. The exit code is 1 if
    /// anything is. Filters and index may be damaged, but not the footer, metaindex or properties. Of a directory, the
    /// oldest table comes first: `build` reads the entries back, and the last one of a key wins
    #[arg(long, conflicts_with_all = ["keys", "from", "range"])]
    salvage: bool,
}

impl GetArgs {
    /// Returns the keys of the command line, followed by the keys of the file.
    fn keys(&self, format: KeysFormat) -> anyhow::Result<Vec<Vec<u8>>> {
        let parsed = self.keys.iter().map(|key| format.parse_argument("key", key));
        let mut keys: Vec<_> = parsed.collect::<anyhow::Result<_>>()?;
        if let Some(path) = &self.from {
            ensure!(is_there(path), "cannot read {} (--keys): pass a key itself after the path", input::name(path));
            let lines = KeyLines::read(path, format, "--keys")?;
            keys.extend(lines.iter().map(|(key, _)| key.to_vec()));
        }
        Ok(keys)
    }
}

record! {
    /// Entries of tables.
    pub(crate) struct GetReport {
        pub(crate) found: Vec<FoundEntry>,
        pub(crate) found_entries: u64,
        pub(crate) tombstones: Option<u64>,
        pub(crate) absent: Vec<Key>,
        /// entries of damaged tables that cannot be read; null if their number is unknown
        pub(crate) lost_entries: Option<u64>,
        pub(crate) missing: Vec<MissingData>,
        pub(crate) error: Option<String>,
    }

    /// An entry of a table.
    pub(crate) struct FoundEntry {
        pub(crate) key: Key,
        pub(crate) value: Option<Key>,
        pub(crate) is_tombstone: bool,
    }

    /// Data that could not be read.
    pub(crate) struct MissingData {
        pub(crate) path: PathName,
        pub(crate) missing_bytes: Bytes,
        /// no missing key sorts before it
        pub(crate) first_key_from: Option<Key>,
        /// no missing key sorts after it
        pub(crate) last_key_up_to: Option<Key>,
        pub(crate) why: String,
    }
}

/// Prints the entries. The answer is no if a key is absent, a range is empty, or data is missing.
pub(crate) fn run(args: &GetArgs, context: &Context, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    // Records that end with NUL have no separator between key and value.
    let has_no_values = context.keys_format == KeysFormat::Nul && !args.keys_only && !output.is_json;
    ensure!(!has_no_values, "--keys-format nul has no place for values: add --keys-only, or use --keys-format hex");
    let mut printer = Printer { output, context, keys_only: args.keys_only, report: GetReport::default() };
    if !printer.output.is_json {
        return printer.read(args);
    }
    printer.write(BEGINNING)?;
    // What was printed must become one object.
    let outcome = match printer.read(args) {
        Err(error) if error.to_string() != CANNOT_WRITE => {
            let error = explained(&error);
            note(&format!("error: {error}"));
            printer.report.error = Some(error);
            Outcome::Failed
        }
        outcome => outcome?,
    };
    let report = serde_json::to_string(&Json(&printer.report))?;
    printer.write(&format!("\n{}\n", report.strip_prefix(BEGINNING).context("a report without entries")?))?;
    Ok(outcome)
}

/// The beginning of a report in JSON.
const BEGINNING: &str = "{\"found\":[";

struct Printer<'a, 'b> {
    output: &'a mut Output<'b>,
    context: &'a Context,
    keys_only: bool,
    /// Without the entries, which are printed as they come.
    report: GetReport,
}

impl Printer<'_, '_> {
    fn read(&mut self, args: &GetArgs) -> anyhow::Result<Outcome> {
        // Before any table is opened, because a malformed key is found at once.
        let keys = args.keys(self.context.keys_format)?;
        let path = &args.path;
        if let Some(table) = args.keys.iter().map(Path::new).find(|key| is_there(key) && !is_there(path)) {
            let (key, table) = (input::name(path), input::name(table));
            bail!("cannot read {key}: expected tables first, then keys: sstfilter get {table} {key}");
        }
        if !keys.is_empty() {
            self.look_up(keys, path)
        } else if let [lower, upper] = &args.range[..] {
            let ends = Ends::parse("--range", [lower, upper], self.context.keys_format)?;
            self.scan(path, KeyRange::from(&ends.lower[..]..&ends.upper[..]))
        } else if args.salvage {
            self.salvage(path)
        } else if is_directory(path)? {
            self.scan(path, KeyRange::from(..))
        } else if args.keys_only && ensure_own_table(path).is_err() {
            self.foreign_keys(path)
        } else {
            ensure_own_table(path)?;
            self.all_entries(&open_table(path, self.context)?, &input::name(path))
        }
    }

    fn look_up(&mut self, keys: Vec<Vec<u8>>, path: &Path) -> anyhow::Result<Outcome> {
        let set = open_set(path, self.context)?;
        for table in set.snapshot().tables(0) {
            note_unused("filter", table.filter_problem());
            note_unused("sidecar", table.sidecar_problem());
        }
        let format = self.context.keys_format;
        // The bare value, for scripts; of several, each needs its key.
        let is_bare = keys.len() == 1 && !self.output.is_json && !self.keys_only;
        for key in keys {
            match set.get(&key)? {
                Some(value) if is_bare => {
                    self.output.record(&[&format.encoded(&value)], format.line_end())?;
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
        Ok(Outcome::from_sound(self.report.absent.is_empty()))
    }

    fn shown(&self, key: &[u8]) -> String {
        key_text(&self.context.keys_format.encoded(key))
    }

    /// Prints the newest entries of a range.
    fn scan(&mut self, path: &Path, range: KeyRange<'_>) -> anyhow::Result<Outcome> {
        let set = open_set(path, self.context)?;
        let snapshot = set.snapshot();
        snapshot.tables(0).for_each(|table| note_unused("range filter", table.range_filter_problem()));
        for entry in snapshot.range(range) {
            let (key, value) = entry?;
            self.entry(&key, Some(&value), false)?;
        }
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

    fn foreign_keys(&mut self, path: &Path) -> anyhow::Result<Outcome> {
        let opened = open(&Found::alone(path), self.context)?;
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

    /// Prints the readable entries of a table, or of all tables of a directory.
    fn salvage(&mut self, path: &Path) -> anyhow::Result<Outcome> {
        let is_alone = !is_directory(path)?;
        let paths = if is_alone { vec![path.to_owned()] } else { numbered_tables(path)? };
        let (mut recorded, mut outcome) = (0, Outcome::Yes);
        for path in &paths {
            let unsalvageable = "nothing can be salvaged: the footer, metaindex and properties locate the data";
            let own = ensure_own_table(path).context("--salvage reads tables of sstfilter");
            let problem = match own.and_then(|()| open_table(path, self.context).context(unsalvageable)) {
                Err(problem) => Some(problem),
                Ok(table) => {
                    recorded += table.properties().entries;
                    self.salvage_table(&table, path)?.map(Into::into)
                }
            };
            if let Some(problem) = problem {
                // The other tables of a directory may be sound.
                ensure!(!is_alone, problem);
                outcome = Outcome::Failed;
                self.missing(path, input::length(path).unwrap_or(0), [None, None], &explained(&problem));
            }
        }
        let found = self.report.found_entries;
        let bytes = self.report.missing.iter().map(|data| data.missing_bytes.0).sum();
        // Of a table that cannot be opened, nobody knows the number of entries.
        let (of_opened, lost) = match outcome {
            Outcome::Failed => (" of the tables that could be opened", None),
            _ => ("", Some(recorded.saturating_sub(found))),
        };
        self.report.lost_entries = lost;
        let (name, salvaged, all) = (input::name(path), grouped(found), grouped(recorded));
        let missing =
            format!("{} missing. To put them back: sstfilter build --input FILE --out DIR", counted(bytes, "byte"));
        note(&format!("{name}: {salvaged} of {all} entries{of_opened} salvaged, {missing}"));
        if !is_alone && !self.report.missing.is_empty() {
            note("where the newest entry of a key is missing, an older value of it is printed, even if it was deleted");
        }
        self.note_tombstones();
        Ok(outcome.max(Outcome::from_sound(self.report.missing.is_empty())))
    }

    /// Prints the readable entries of a table, and reports missing data as soon as it is met. Returns the error of the
    /// device that ended it early.
    fn salvage_table(&mut self, table: &Table, path: &Path) -> anyhow::Result<Option<TableError>> {
        if let Err(problem) = table.check_index() {
            let name = input::name(path);
            note(&format!("{name}: the index cannot be used, so blocks are found by their checksums: {problem}"));
        }
        for next in table.salvage() {
            match next {
                Ok(entry) => self.entry(&entry.key, entry.value.as_deref(), entry.value.is_none())?,
                Err(missing) => {
                    let TableError::Missing { bytes, keys: (lower, upper), .. } = &missing else {
                        return Ok(Some(missing));
                    };
                    let bounds = [lower, upper].map(|bound| match bound {
                        Bound::Included(key) | Bound::Excluded(key) => Some(Key(key.to_vec())),
                        Bound::Unbounded => None,
                    });
                    self.missing(path, bytes.end - bytes.start, bounds, &missing.to_string());
                }
            }
        }
        Ok(None)
    }

    fn missing(&mut self, path: &Path, missing_bytes: u64, bounds: [Option<Key>; 2], why: &str) {
        note(&format!("{}: missing: {why}", input::name(path)));
        let [first_key_from, last_key_up_to] = bounds;
        self.report.missing.push(MissingData {
            path: PathName(path.to_owned()),
            missing_bytes: Bytes(missing_bytes),
            first_key_from,
            last_key_up_to,
            why: why.to_owned(),
        });
    }

    fn note_tombstones(&self) {
        let tombstones = self.report.tombstones.filter(|_| !self.keys_only && !self.output.is_json);
        if let Some(tombstones) = tombstones {
            let tombstones = counted(tombstones, "tombstone");
            let lines = "printed as lines without a tab: `build` would read keys without a value";
            note(&format!("note: {tombstones}, {lines}"));
        }
    }

    /// Prints an entry, without its value if only keys are printed.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>, is_tombstone: bool) -> anyhow::Result<()> {
        let value = value.filter(|_| !self.keys_only);
        let is_first = self.report.found_entries == 0;
        if self.output.is_json {
            let (key, value) = (Key(key.to_vec()), value.map(|value| Key(value.to_vec())));
            let entry = serde_json::to_string(&Json(&FoundEntry { key, value, is_tombstone }))?;
            self.write(&format!("{}\n{entry}", if is_first { "" } else { "," }))?;
        } else {
            let format = self.context.keys_format;
            self.output.record(&[&line(format, key, value, is_first)?], format.terminator())?;
        }
        self.report.found_entries += 1;
        if is_tombstone {
            *self.report.tombstones.get_or_insert_default() += 1;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.output.writer.write_all(text.as_bytes()).context(CANNOT_WRITE)
    }
}

fn is_there(path: &Path) -> bool {
    input::is_standard(path) || path.exists()
}

/// Says that lookups do without a part of a table.
fn note_unused(part: &str, problem: Option<impl fmt::Display>) {
    if let Some(problem) = problem {
        note(&format!("note: reading without a {part}: {}", in_options(&problem)));
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
    let tables = numbered_tables(path)?;
    // Looked at only after a failure, so that sound tables are not opened twice.
    TableSet::open((0..).zip(&tables), &context.table_options()).map_err(|problem| {
        tables.iter().find_map(|file| ensure_own_table(file).err()).unwrap_or_else(|| problem.into())
    })
}

/// Returns the tables of a directory, the oldest first.
fn numbered_tables(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named: Vec<_> = list(directory)?.into_iter().filter(|file| is_named_like_table(file)).collect();
    let mut tables: Vec<_> = named.iter().filter(|file| has_table_extension(file)).cloned().collect();
    // By number, not by name: `10.sst` is newer than `9.sst`. The path keeps the order of equal numbers the same in
    // each run.
    tables.sort_by_cached_key(|file| (table_number(file), file.clone()));
    let problem = if let Some(file) = tables.first().filter(|file| table_number(file).is_none()) {
        let (file, name) = (input::name(file), table_name(1));
        format!("{file}: cannot tell its age without a number: rename it ({name}) or pass the file itself")
    } else if let Some(pair) = tables.windows(2).find(|pair| table_number(&pair[0]) == table_number(&pair[1])) {
        let [older, newer] = [0, 1].map(|index: usize| input::name(&pair[index]));
        format!("{older} and {newer} have the same number: cannot tell which is newer")
    } else if tables.is_empty() {
        format!("{} contains no table of sstfilter (*.sst)", input::name(directory))
    } else {
        return Ok(tables);
    };
    // First, because tables of other engines have other names, and no order of age.
    named.iter().try_for_each(|file| ensure_own_table(file))?;
    bail!(problem)
}
