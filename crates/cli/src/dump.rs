//! `sstfilter dump`: prints the keys of a table, or its keys and values, in the format that `build` reads.

use core::ops::Bound;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use sstfilter_interop::{Engine, Error};
use sstfilter_table::{Table, TableError};

use crate::left_out::BY_SST_DUMP;
use crate::lines::{BYTE_ORDER_MARK, KeysFormat};
use crate::opened::{Opened, Reading};
use crate::output::{CANNOT_WRITE, Outcome, Output, Text, hex, note};
use crate::{input, units};

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Table to print; a table of another engine needs --keys-only
    table: PathBuf,

    /// Print only keys, including those of tombstones. Of other engines' tables, only keys can be read
    #[arg(long)]
    keys_only: bool,

    /// Escape keys and values that are not plain text, as on a terminal; other programs cannot read them back. Without
    /// this option, raw bytes are printed, and a key or value that a line cannot hold is an error; --keys-format hex
    /// prints everything
    #[arg(long)]
    escape: bool,

    /// Print every entry of a damaged table whose data block is sound, and report the missing keys, blocks and bytes on
    /// standard error. The exit code is 1 if anything is missing. Filters and index may be damaged, but not the footer,
    /// metaindex or properties
    #[arg(long)]
    salvage: bool,
}

/// Writes entries one after the other; a table need not fit into memory.
struct Dump<'a, 'b> {
    output: &'a mut Output<'b>,
    format: KeysFormat,
    keys_only: bool,
    /// Whether a person reads the lines.
    escapes: bool,
    entries: u64,
    tombstones: u64,
    /// Data that could not be read.
    missing: Vec<JsonMissing>,
    /// Number of keys and values that were printed with escapes.
    escaped: u64,
}

/// An entry in JSON.
#[derive(Serialize)]
struct JsonEntry {
    key: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    tombstone: bool,
}

/// Data that could not be read, in JSON.
#[derive(Serialize)]
struct JsonMissing {
    offset: u64,
    bytes: u64,
    /// Null if the index is damaged.
    blocks: Option<u64>,
    /// No missing key sorts before it.
    first_key_from: Option<Text>,
    /// No missing key sorts after it.
    last_key_up_to: Option<Text>,
    problem: String,
}

impl JsonMissing {
    fn new(missing: &TableError) -> Option<Self> {
        let TableError::Missing { bytes, blocks, keys: (lower, upper), source, .. } = missing else { return None };
        let key = |bound: &Bound<Bytes>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(Text(key.to_vec())),
            Bound::Unbounded => None,
        };
        Some(Self {
            offset: bytes.start,
            bytes: bytes.end - bytes.start,
            blocks: *blocks,
            first_key_from: key(lower),
            last_key_up_to: key(upper),
            problem: source.to_string(),
        })
    }
}

pub(crate) fn run(
    args: &DumpArgs,
    format: KeysFormat,
    reading: Reading<'_>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    // Records that end with NUL have no separator between key and value.
    let has_no_values = format == KeysFormat::Nul && !args.keys_only && !output.is_json;
    ensure!(!has_no_values, "--keys-format nul has no place for values: add --keys-only, or use --keys-format hex");
    let name = input::name(&args.table);
    let opened = Opened::open(&args.table, reading).map_err(|unopened| {
        if args.salvage { unopened.reason.context(format!("{name}: {UNSALVAGEABLE}")) } else { unopened.reason }
    })?;
    // A terminal would obey control characters in keys and values.
    let escapes = args.escape || io::stdout().is_terminal();
    let mut dump = Dump {
        output,
        format,
        keys_only: args.keys_only,
        escapes,
        entries: 0,
        tombstones: 0,
        missing: Vec::new(),
        escaped: 0,
    };
    match opened {
        // Each arm begins the output after its checks: a refusal must not leave the first half of an object.
        Opened::Table(table) if args.salvage => {
            dump.begin()?;
            dump.salvage(&table, &name)?;
        }
        Opened::Table(table) => {
            dump.begin()?;
            for entry in table.iter() {
                let entry = entry?;
                dump.entry(&entry.key, entry.value.as_deref(), entry.value.is_none())?;
            }
        }
        Opened::Foreign(table) => {
            ensure!(!args.salvage, "{name} is a table of {}: --salvage is for tables of sstfilter", table.engine());
            ensure!(
                args.keys_only,
                "{name} is a table of {}, whose values are not read: add --keys-only",
                table.engine()
            );
            dump.begin()?;
            for key in table.user_keys() {
                let key = key
                    .map_err(|problem| unread_key(problem, table.engine()))
                    .with_context(|| name.clone().into_owned());
                dump.entry(&key?, None, false)?;
            }
        }
        Opened::FilterBlock(_) | Opened::RangeFilter(_) | Opened::Partitions(_) => {
            bail!("{name} is a filter block, which has no keys")
        }
    }
    dump.end(args.salvage)?;
    Ok(Outcome::from_sound(dump.missing.is_empty()))
}

/// Adds advice to the problem if the engine's own tool can read what this program cannot.
fn unread_key(problem: Error, engine: Engine) -> anyhow::Error {
    match problem {
        Error::Unsupported { .. } if engine == Engine::RocksDb => {
            anyhow!("{problem}: RocksDB's own tool can read it: {BY_SST_DUMP}")
        }
        _ => problem.into(),
    }
}

/// Why no entry of a table can be salvaged.
const UNSALVAGEABLE: &str = "cannot be salvaged: without footer, metaindex and properties, its data cannot be located";

impl Dump<'_, '_> {
    /// Prints the readable entries of a table, and reports missing data as soon as it is met, because a dump may be
    /// long.
    fn salvage(&mut self, table: &Table, name: &str) -> anyhow::Result<()> {
        if let Err(problem) = table.check_index() {
            note(&format!("{name}: the index cannot be used, so blocks are found by their checksums: {problem}"));
        }
        for next in table.salvage() {
            match next {
                Ok(entry) => self.entry(&entry.key, entry.value.as_deref(), entry.value.is_none())?,
                Err(missing) => {
                    note(&format!("{name}: missing: {missing}"));
                    match JsonMissing::new(&missing) {
                        Some(data) => self.missing.push(data),
                        None => return Err(missing.into()),
                    }
                }
            }
        }
        let (printed, all) = (units::grouped(self.entries), units::grouped(table.properties().entries));
        let bytes: u64 = self.missing.iter().map(|missing| missing.bytes).sum();
        // One unknown number makes the sum unknown.
        let blocks: Option<u64> = self.missing.iter().map(|missing| missing.blocks).sum();
        let lost = match blocks {
            Some(0) => "nothing is missing".to_owned(),
            Some(blocks) => {
                let blocks = units::counted(blocks, "data block");
                format!("{blocks} missing, {}", units::counted(bytes, "byte"))
            }
            None => format!("{} missing, in an unknown number of blocks", units::counted(bytes, "byte")),
        };
        note(&format!("{name}: {printed} of {all} entries salvaged; {lost}"));
        Ok(())
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        // JSON is written piece by piece, because a table need not fit into memory.
        if self.output.is_json { self.write(b"{\"entries\":[") } else { Ok(()) }
    }

    /// Prints a key, and its value unless only keys are printed.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>, tombstone: bool) -> anyhow::Result<()> {
        let value = if self.keys_only { None } else { value };
        // Counted even if only keys are printed: JSON reports them.
        self.tombstones += u64::from(tombstone);
        let is_first = self.entries == 0;
        self.entries += 1;
        if self.output.is_json {
            let text = |bytes: &[u8]| Text(bytes.to_vec());
            return self.json_entry(&JsonEntry { key: text(key), value: value.map(text), tombstone }, is_first);
        }
        let record = match self.format {
            KeysFormat::Lines | KeysFormat::Crlf if !self.escapes => raw_line(key, value, is_first)?,
            KeysFormat::Lines | KeysFormat::Crlf => {
                let key = self.text(key, is_plain_key);
                line(key, value.map(|value| self.text(value, is_plain_value)))
            }
            KeysFormat::Nul => nul_record(key)?,
            KeysFormat::Hex => line(hex(key).into(), value.map(|value| hex(value).into())),
        };
        self.write(&record)?;
        self.write(self.format.terminator())
    }

    fn json_entry(&mut self, entry: &JsonEntry, is_first: bool) -> anyhow::Result<()> {
        self.write(if is_first { b"\n" } else { b",\n" })?;
        let written = serde_json::to_writer(&mut *self.output.writer, entry);
        written.map_err(io::Error::from).context(CANNOT_WRITE)
    }

    /// Returns the bytes unchanged if `build` would read them back, or else with escapes, which are counted.
    fn text(&mut self, bytes: &[u8], is_plain: fn(&str) -> bool) -> Vec<u8> {
        if core::str::from_utf8(bytes).is_ok_and(is_plain) {
            return bytes.to_vec();
        }
        self.escaped += 1;
        bytes.escape_ascii().collect()
    }

    fn end(&mut self, is_salvage: bool) -> anyhow::Result<()> {
        if self.output.is_json {
            let missing = if is_salvage {
                format!(",\"missing\":{}", serde_json::to_string(&self.missing)?)
            } else {
                String::new()
            };
            let closing = format!("\n],\"count\":{},\"tombstones\":{}{missing}}}\n", self.entries, self.tombstones);
            return self.write(closing.as_bytes());
        }
        if self.tombstones > 0 && !self.keys_only {
            let keys = units::counted(self.tombstones, "tombstone");
            note(&format!("note: {keys}, printed as lines without a tab"));
        }
        if self.escaped > 0 {
            let escaped = units::grouped(self.escaped);
            note(&format!(
                "note: {escaped} of the keys and values are not plain text and are shown with escapes: \
                 --keys-format hex prints all of their bytes"
            ));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.output.writer.write_all(bytes).context(CANNOT_WRITE)
    }
}

/// Whether a line can hold the key: a tab or a line feed would end it, and a byte order mark before the first key would
/// be dropped.
fn is_plain_key(text: &str) -> bool {
    !text.chars().any(char::is_control) && !text.as_bytes().starts_with(BYTE_ORDER_MARK)
}

/// Whether a line can hold the value. It may contain tabs, because only the first tab of a line is a separator.
fn is_plain_value(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() && character != '\t')
}

/// Returns a line of a key, and a tab and its value if it has one. The empty key always gets a tab, because a reader
/// skips blank lines.
fn line(mut key: Vec<u8>, value: Option<Vec<u8>>) -> Vec<u8> {
    if value.is_some() || key.is_empty() {
        key.push(b'\t');
    }
    key.extend(value.into_iter().flatten());
    key
}

/// Returns the line that `build` and `probe` read as this key and value.
fn raw_line(key: &[u8], value: Option<&[u8]>, is_first: bool) -> anyhow::Result<Vec<u8>> {
    // A reader drops a byte order mark, but only at the beginning of the file.
    let is_mark = is_first && key.starts_with(BYTE_ORDER_MARK);
    ensure!(
        !is_mark && !key.contains(&b'\n') && !key.contains(&b'\t') && !value.unwrap_or_default().contains(&b'\n'),
        cannot_hold(key)
    );
    Ok(line(key.to_vec(), value.map(<[u8]>::to_vec)))
}

fn cannot_hold(key: &[u8]) -> String {
    format!("key {}: a line cannot hold this key or its value: use --keys-format hex", Text(key.to_vec()))
}

fn nul_record(key: &[u8]) -> anyhow::Result<Vec<u8>> {
    ensure!(!key.contains(&0), "key {} contains a NUL byte: use --keys-format hex", Text(key.to_vec()));
    Ok(key.to_vec())
}
