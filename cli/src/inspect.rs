//! `sstfilter inspect`: every field of tables and bare filter blocks.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sstfilter::sst::{Table, TableError};
use sstfilter::{FilterBlock, KeyHasher};

use crate::files::{self, Look};
use crate::output::{Outcome, Text, explained, in_options};
use crate::units::{bytes, grouped, percent};

#[derive(Debug, Serialize)]
pub(crate) struct InspectReport {
    files: Vec<FileReport>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    bytes: u64,
    sound: bool,
    #[serde(skip)]
    outcome: Outcome,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fields {
    Table(Box<TableFields>),
    FilterBlock(Box<FilterFields>),
    Problem(String),
}

/// The answer is no when a file is neither table nor filter block, or shows damage. It is a failure when part of
/// a file could not be read.
pub(crate) fn run(files: &[PathBuf], secret: Option<&KeyHasher>) -> anyhow::Result<(Outcome, InspectReport)> {
    let files: Vec<_> = files.iter().map(|path| FileReport::new(path, secret)).collect::<anyhow::Result<_>>()?;
    let outcome = files.iter().map(|file| file.outcome).max().unwrap_or(Outcome::Yes);
    Ok((outcome, InspectReport { files }))
}

impl FileReport {
    /// Fails only when the file cannot be read at all.
    fn new(path: &Path, secret: Option<&KeyHasher>) -> anyhow::Result<Self> {
        let look = files::look_at(path)?;
        let bytes = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
        let (outcome, fields) = match fields(path, look, secret) {
            Err(problem) if problem.root_cause().is::<std::io::Error>() => return Err(problem),
            found => found.unwrap_or_else(|problem| (Outcome::No, Fields::Problem(explained(&problem)))),
        };
        Ok(Self { path: path.display().to_string(), bytes, sound: outcome == Outcome::Yes, outcome, fields })
    }
}

fn fields(path: &Path, look: Look, secret: Option<&KeyHasher>) -> anyhow::Result<(Outcome, Fields)> {
    match look {
        Look::Table => {
            let table = files::open_table(path, secret)?;
            let outcome = match table.filter_problem() {
                Some(problem) if files::is_unread(problem) => Outcome::Failed,
                // Or the problem is one of the options that the file was opened with.
                problem => Outcome::from_sound(problem.is_none_or(TableError::is_foreign_filter)),
            };
            Ok((outcome, Fields::Table(Box::new(TableFields::new(&table)))))
        }
        Look::FilterBlock => {
            let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let filter = FilterFields::new(&FilterBlock::open_unverified(data)?);
            Ok((Outcome::from_sound(filter.checksum_state == "ok"), Fields::FilterBlock(Box::new(filter))))
        }
        Look::Neither => bail!("{}", files::NEITHER),
    }
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            match &file.fields {
                Fields::Table(table) => write!(f, "{}: table of {} bytes\n{table}", file.path, grouped(file.bytes))?,
                Fields::FilterBlock(filter) => write!(f, "{}: filter block\n{filter}", file.path)?,
                Fields::Problem(problem) => writeln!(f, "{}: {problem}", file.path)?,
            }
        }
        Ok(())
    }
}

/// All fields of a table that can be told without reading its data.
#[derive(Debug, Serialize)]
struct TableFields {
    table_id: String,
    properties: Properties,
    layout: Vec<RegionFields>,
    filter: Option<FilterFields>,
    filter_problem: Option<String>,
}

/// The table's properties by name: one list for JSON and for text.
#[derive(Debug)]
struct Properties([(&'static str, Property); 13]);

/// A property as it is in JSON and in text.
type Property = (Value, String);

#[derive(Debug, Serialize)]
struct RegionFields {
    name: &'static str,
    offset: u64,
    bytes: u64,
}

impl TableFields {
    fn new(table: &Table) -> Self {
        let regions = table.layout().regions.into_iter();
        let block = table.filter().map(sstfilter::FilterReader::block);
        Self {
            table_id: table.table_id().to_string(),
            properties: Properties::new(table),
            layout: regions
                .map(|region| RegionFields { name: region.part.name(), offset: region.offset, bytes: region.bytes })
                .collect(),
            filter: block.and_then(Result::ok).map(FilterFields::new),
            filter_problem: table.filter_problem().map(in_options),
        }
    }
}

impl Properties {
    fn new(table: &Table) -> Self {
        let properties = table.properties();
        let number = |number: u64| (json!(number), grouped(number));
        let text = |bytes: Option<&[u8]>| {
            let text = bytes.map(|bytes| Text(bytes.to_vec()));
            (json!(text), text.map_or_else(|| "none".to_owned(), |text| text.to_string()))
        };
        Self([
            ("entries", number(properties.entries)),
            ("tombstones", number(properties.tombstones)),
            ("raw_key_bytes", number(properties.raw_key_bytes)),
            ("raw_value_bytes", number(properties.raw_value_bytes)),
            ("data_blocks", number(properties.data_blocks)),
            ("data_bytes", number(properties.data_bytes)),
            ("block_bytes", number(properties.block_bytes)),
            ("restart_interval", number(properties.restart_interval)),
            ("smallest_key", text(properties.smallest_key.as_deref())),
            ("largest_key", text(properties.largest_key.as_deref())),
            ("hash", text(Some(properties.hash.to_string().as_bytes()))),
            ("key_extractor", text(properties.key_extractor.as_ref().map(String::as_bytes))),
            ("filter_policy", text(properties.filter_policy.as_ref().map(String::as_bytes))),
        ])
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, (value, _))| (name, value)))
    }
}

impl fmt::Display for TableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  table id {}\n  properties", self.table_id)?;
        for (name, (_, value)) in &self.properties.0 {
            writeln!(f, "    {:<17} {value}", name.replace('_', " "))?;
        }
        writeln!(f, "  layout")?;
        for RegionFields { name, offset, bytes } in &self.layout {
            writeln!(f, "    {name:<17} {:>15} bytes at {}", grouped(*bytes), grouped(*offset))?;
        }
        match (&self.filter, &self.filter_problem) {
            (Some(filter), _) => write!(f, "  filter\n{filter}"),
            (None, Some(problem)) => writeln!(f, "  filter not usable: {problem}"),
            (None, None) => writeln!(f, "  no filter"),
        }
    }
}

/// The fields of a filter block's trailer, and what follows from them.
#[derive(Debug, Serialize)]
struct FilterFields {
    format_version: u8,
    kind: &'static str,
    kind_code: u8,
    requested: &'static str,
    requested_code: u8,
    reason: &'static str,
    hash: String,
    hash_id: u8,
    hash_seed: String,
    /// Fingerprint of the id of the file that the block is bound to.
    file_fingerprint: Option<String>,
    salt: u8,
    keys: u64,
    block_bytes: u64,
    payload_bytes: u64,
    payload_checksum: String,
    checksum_state: String,
    shape: Vec<(&'static str, String)>,
    bits_per_key: Option<f64>,
    expected_fpr: f64,
    fill_ratio: Option<f64>,
}

impl FilterFields {
    fn new<D: AsRef<[u8]>>(block: &FilterBlock<D>) -> Self {
        let info = block.info();
        let bits_per_key = info.bits_per_key();
        Self {
            format_version: info.format_version,
            kind: info.kind.name(),
            kind_code: info.kind.code(),
            requested: info.requested.name(),
            requested_code: info.requested.code(),
            reason: info.reason.as_str(),
            hash: info.hash.to_string(),
            hash_id: info.hash.id.code(),
            hash_seed: format!("{:#018x}", info.hash.seed),
            file_fingerprint: info.file.map(|file| format!("{:#018x}", file.fingerprint())),
            salt: info.salt,
            keys: info.keys,
            block_bytes: info.block_bytes,
            payload_bytes: info.payload_bytes,
            payload_checksum: format!("{:#010x}", info.payload_checksum),
            checksum_state: block.verify().map_or_else(|error| error.to_string(), |()| "ok".to_owned()),
            bits_per_key: bits_per_key.is_finite().then_some(bits_per_key),
            expected_fpr: info.expected_fpr,
            fill_ratio: block.fill_ratio(),
            shape: info.shape.iter().map(|(name, value)| (name, value.to_owned())).collect(),
        }
    }
}

impl fmt::Display for FilterFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        field("kind", format!("{} ({})", self.kind, self.kind_code))?;
        field("requested kind", format!("{} ({})", self.requested, self.requested_code))?;
        field("reason", self.reason.to_owned())?;
        field("keys", grouped(self.keys))?;
        field("block", format!("{} bytes ({})", grouped(self.block_bytes), bytes(self.block_bytes)))?;
        field("payload", format!("{} bytes", grouped(self.payload_bytes)))?;
        let bits_per_key = self.bits_per_key.map(|bits| format!("{bits:.3}"));
        field("bits per key", bits_per_key.unwrap_or_else(|| "none: no keys".to_owned()))?;
        field("expected rate", percent(self.expected_fpr))?;
        for (name, value) in &self.shape {
            field(name, value.clone())?;
        }
        if let Some(fill) = self.fill_ratio {
            field("fill", percent(fill))?;
        }
        field("hash", self.hash.clone())?;
        let file = self.file_fingerprint.as_ref();
        field("bound to", file.map_or_else(|| "no file".to_owned(), |file| format!("the file of fingerprint {file}")))?;
        field("salt", self.salt.to_string())?;
        field("format version", self.format_version.to_string())?;
        field("payload checksum", format!("{} ({})", self.payload_checksum, self.checksum_state))
    }
}
