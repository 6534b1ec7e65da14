//! The fields of a RocksDB, LevelDB or Pebble table that are known without reading its data.

use core::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sstfilter_interop::{ChecksumType, Engine, Error, FilterInfo, FilterKind, FilterUnit, KeyCoverage, PropertyValue};

use super::overview::{Overview, State};
use crate::opened::{ForeignTable, TakenComparator, outcome_of_foreign};
use crate::output::{Outcome, Text, in_options};
use crate::units::{bytes, counted, grouped, percent};

/// The first format version whose footer has a checksum: 6 of RocksDB, and 6 of Pebble.
const FOOTER_CHECKSUM_VERSION: u32 = 6;

/// Names of filter blocks in the metaindex, up to the policy's name.
const FILTER_NAMES: [&[u8]; 3] = [b"fullfilter.", b"partitionedfilter.", b"filter."];

/// The source of the comparator for most tables.
const OF_TABLE: &str = "the table";

#[derive(Debug, Serialize)]
pub(super) struct ForeignFields {
    #[serde(skip)]
    pub(super) outcome: Outcome,
    pub(super) engine: &'static str,
    /// Level by the manifest of the database.
    level: Option<u32>,
    format_version: u32,
    checksum_type: &'static str,
    comparator: Option<Text>,
    /// The source of the comparator.
    comparator_from: Option<&'static str>,
    compression: Option<Text>,
    entries: Option<u64>,
    deletions: Option<u64>,
    has_range_tombstones: bool,
    range_deletions: Option<u64>,
    data_blocks: Option<u64>,
    data_bytes: Option<u64>,
    index_bytes: Option<u64>,
    raw_key_bytes: Option<u64>,
    raw_value_bytes: Option<u64>,
    filter: Option<FilterFields>,
    /// Why there is no `filter`.
    filter_problem: Option<String>,
    parts: Vec<PartFields>,
    /// All properties, by the engine's names.
    properties: Map<String, Value>,
    properties_problem: Option<String>,
}

/// A block that the table names, or its footer.
#[derive(Debug, Serialize)]
struct PartFields {
    name: Text,
    offset: Option<u64>,
    bytes: Option<u64>,
    /// `sound`, `no checksum`, `not read`, or the problem.
    checksum_state: String,
}

#[derive(Debug, Serialize)]
struct FilterFields {
    /// The policy in the options that the table was written with.
    policy: Option<Text>,
    kinds: Vec<KindBlocks>,
    /// Whether a Ribbon policy wrote Bloom filters.
    fell_back_to_bloom: bool,
    /// Parameters of the first block.
    parameters: Map<String, Value>,
    whole_keys: Option<bool>,
    prefixes: Option<bool>,
    prefix_extractor: Option<String>,
    /// The unit that a filter block covers: `table`, `partition` or `data blocks`.
    unit: &'static str,
    unit_bytes: Option<u64>,
    blocks: usize,
    min_block_bytes: u64,
    mean_block_bytes: u64,
    max_block_bytes: u64,
    bytes: u64,
    keys: Option<u64>,
    bits_per_key: Option<f64>,
    expected_fpr: Option<f64>,
    /// Why every key may be present, regardless of the filter's bits.
    unusable: Option<String>,
}

#[derive(Debug, Serialize)]
struct KindBlocks {
    kind: &'static str,
    blocks: usize,
}

/// Returns the kinds of a filter's blocks in one line.
pub(crate) fn kinds(info: &FilterInfo) -> String {
    match info.kinds.as_slice() {
        [] => "no blocks".to_owned(),
        [(kind, _)] => kind.to_string(),
        several => {
            let named = several.iter().map(|(kind, blocks)| {
                let blocks = counted(*blocks as u64, "block");
                if *kind == FilterKind::NoKeys {
                    format!("{blocks} without keys")
                } else {
                    format!("{kind} ({blocks})")
                }
            });
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

impl ForeignFields {
    pub(super) fn new(table: &ForeignTable, taken: Option<&TakenComparator>, level: Option<u32>) -> Self {
        let properties = table.properties();
        let text = |text: Option<&str>| text.map(|text| Text(text.as_bytes().to_vec()));
        let taken = taken.map(|taken| (taken.name.as_str(), taken.from.name()));
        // The name in the table takes precedence over a stated one, as in the reader.
        let named = properties.comparator().map(|name| (name, OF_TABLE)).or(taken);
        let (comparator, comparator_from) = (named.map(|(name, _)| name), named.map(|(_, from)| from));
        let info = table.filter_info();
        // Both count: a sound filter does not make up for damaged properties.
        let problems = [info.as_ref().err(), table.checked_properties().err()];
        let outcome = problems.into_iter().flatten().map(outcome_of_foreign).max();
        Self {
            outcome: outcome.unwrap_or(Outcome::Yes),
            engine: table.engine().name(),
            level,
            format_version: table.format_version(),
            checksum_type: table.checksum_type().name(),
            comparator: text(comparator),
            comparator_from,
            compression: properties.compression().map(|stored| Text(compression(stored).into_bytes())),
            entries: properties.entries(),
            deletions: properties.deletions(),
            has_range_tombstones: table.has_range_tombstones(),
            range_deletions: properties.range_deletions(),
            data_blocks: properties.data_blocks(),
            data_bytes: properties.data_bytes(),
            index_bytes: properties.index_bytes(),
            raw_key_bytes: properties.raw_key_bytes(),
            raw_value_bytes: properties.raw_value_bytes(),
            parts: parts(table, info.as_ref().err()),
            filter_problem: info.as_ref().err().map(in_options),
            filter: info.as_ref().ok().map(|info| FilterFields::new(table, info)),
            properties: properties.readable().map(|(name, value)| (name, json_of(&value))).collect(),
            properties_problem: table.checked_properties().err().map(Error::to_string),
        }
    }
}

/// Returns the codecs of data blocks. From format version 7 on, RocksDB stores the name of a compression manager and
/// the numbers of the codecs in use, two hexadecimal digits each, with a semicolon after both (`CompressionType` has
/// the numbers).
fn compression(stored: &str) -> String {
    const CODECS: [&str; 8] = ["none", "Snappy", "zlib", "bzip2", "LZ4", "LZ4HC", "Xpress", "ZSTD"];
    let Some((_, numbers)) = stored.strip_suffix(';').and_then(|stored| stored.split_once(';')) else {
        return stored.to_owned();
    };
    let digits = numbers.as_bytes().chunks(2).map(|digits| str::from_utf8(digits).ok());
    let number = |digits: Option<&str>| usize::from_str_radix(digits?, 16).ok();
    let names: Option<Vec<_>> = digits.map(|digits| CODECS.get(number(digits)?).copied()).collect();
    match names.as_deref() {
        Some([]) => "none".to_owned(),
        Some(names) => names.join(", "),
        None => stored.to_owned(),
    }
}

fn json_of(value: &PropertyValue) -> Value {
    match value {
        PropertyValue::Number(number) => json!(number),
        PropertyValue::Text(text) => json!(text),
        other => json!({ "hex": other.to_string() }),
    }
}

/// Returns the footer, the metaindex and the blocks that it names. Opening the table has checked the first two.
fn parts(table: &ForeignTable, filter_problem: Option<&Error>) -> Vec<PartFields> {
    let has_checksums = table.checksum_type() != ChecksumType::None;
    let state = |is_checked: bool, problem: Option<&Error>| match problem {
        Some(problem) if outcome_of_foreign(problem) != Outcome::Yes => problem.to_string(),
        Some(_) => "not read".to_owned(),
        _ if is_checked && has_checksums => "sound".to_owned(),
        _ => "no checksum".to_owned(),
    };
    let footer_is_checked = table.engine() != Engine::LevelDb && table.format_version() >= FOOTER_CHECKSUM_VERSION;
    let opened = |name: &str, is_checked| PartFields {
        name: Text(name.as_bytes().to_vec()),
        offset: None,
        bytes: None,
        checksum_state: state(is_checked, None),
    };
    let mut parts = vec![opened("footer", footer_is_checked), opened("metaindex", true)];
    for (name, handle) in table.named_blocks() {
        let checksum_state = if FILTER_NAMES.iter().any(|start| name.starts_with(start)) {
            state(true, filter_problem)
        } else if name.ends_with(b".properties") {
            state(true, table.checked_properties().err())
        } else {
            "not read".to_owned()
        };
        let (offset, bytes) = (Some(handle.offset), Some(handle.size));
        parts.push(PartFields { name: Text(name.to_vec()), offset, bytes, checksum_state });
    }
    parts
}

impl ForeignFields {
    /// Returns the table's overview. A fallback from the requested Ribbon is marked as such.
    pub(super) fn overview(&self) -> Overview {
        let found = self.filter.as_ref().map(FilterFields::overview);
        let found = found.unwrap_or_else(|| {
            // By its text, because the fields keep texts for JSON and no errors.
            let no_filter = Error::NoFilter.to_string();
            Overview::without_filter("", self.filter_problem.clone().filter(|problem| *problem != no_filter))
        });
        Overview { format: format!("{} table", self.engine), entries: self.entries, ..found }.of_entries()
    }
}

impl FilterFields {
    fn new(table: &ForeignTable, info: &FilterInfo) -> Self {
        let policy = table.properties().filter_policy().filter(|policy| !policy.is_empty());
        let is_bloom = |kind: &FilterKind| matches!(kind, FilterKind::FastLocalBloom | FilterKind::LegacyBloom);
        let (whole_keys, prefixes, prefix_extractor) = match &info.coverage {
            KeyCoverage::WholeKeys => (Some(true), Some(false), None),
            KeyCoverage::Prefixes(extractor) => (Some(false), Some(true), Some(extractor.clone())),
            KeyCoverage::WholeKeysAndPrefixes(extractor) => (Some(true), Some(true), Some(extractor.clone())),
            _ => (None, None, None),
        };
        let (unit, unit_bytes) = match info.unit {
            FilterUnit::Partition => ("partition", None),
            FilterUnit::DataBlocks { bytes } => ("data blocks", Some(bytes)),
            _ => ("table", None),
        };
        let number = |value: &String| value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
        Self {
            fell_back_to_bloom: policy.is_some_and(|policy| policy.contains("ribbon"))
                && info.kinds.iter().any(|(kind, _)| is_bloom(kind)),
            policy: policy.map(|policy| Text(policy.as_bytes().to_vec())),
            kinds: info.kinds.iter().map(|(kind, blocks)| KindBlocks { kind: kind.name(), blocks: *blocks }).collect(),
            parameters: info.parameters.iter().map(|(name, value)| ((*name).to_owned(), number(value))).collect(),
            whole_keys,
            prefixes,
            prefix_extractor,
            unit,
            unit_bytes,
            blocks: info.blocks,
            min_block_bytes: info.block_bytes.min,
            mean_block_bytes: info.block_bytes.mean,
            max_block_bytes: info.block_bytes.max,
            bytes: info.bytes,
            keys: info.keys,
            bits_per_key: info.bits_per_key(),
            expected_fpr: info.expected_fpr,
            // Any key shows whether the filter can answer.
            unusable: table.try_probe(b"").err().map(|why| in_options(&why)),
        }
    }
}

impl FilterFields {
    fn overview(&self) -> Overview {
        let names = self.kinds.iter().map(|found| found.kind);
        // LevelDB's blocks without keys count as a kind only if there are no other blocks.
        let mut kinds: Vec<_> =
            names.filter(|&name| self.kinds.len() == 1 || name != FilterKind::NoKeys.name()).collect();
        // LevelDB writes no block of filters for a table without keys.
        if kinds.is_empty() {
            kinds.push("none");
        }
        let fallback = self.fell_back_to_bloom.then(|| "Bloom although the policy is Ribbon".to_owned());
        let found = Overview {
            filter: kinds.join(", "),
            filter_bytes: self.bytes,
            keys: self.keys,
            bits_per_key: self.bits_per_key,
            expected_fpr: self.expected_fpr,
            holds_parts_alone: self.whole_keys == Some(false),
            ..Overview::default()
        };
        found.with_remark(State::Unusable, self.unusable.clone()).with_kind(State::Fallback, fallback)
    }
}

/// Lines of a name and a value.
struct Lines<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Lines<'_, '_> {
    fn line(&mut self, name: &str, value: impl fmt::Display) -> fmt::Result {
        writeln!(self.0, "    {name:<17} {value}")
    }

    fn known(&mut self, name: &str, value: Option<impl fmt::Display>, why_not: &str) -> fmt::Result {
        match value {
            Some(value) => self.line(name, value),
            None => self.line(name, format_args!("unknown: {why_not}")),
        }
    }
}

impl fmt::Display for ForeignFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_table(f)?;
        match (&self.filter, &self.filter_problem) {
            (Some(filter), _) => write!(f, "  filter\n{filter}")?,
            (None, problem) => {
                writeln!(f, "  filter\n    {:<17} {}", "none usable", problem.as_deref().unwrap_or_default())?;
            }
        }
        writeln!(f, "  checksums ({})", self.checksum_type)?;
        for part in &self.parts {
            let place = part.offset.zip(part.bytes);
            let place = place.map(|(offset, bytes)| format!(" ({} bytes at {})", grouped(bytes), grouped(offset)));
            writeln!(f, "    {}: {}{}", part.name, part.checksum_state, place.unwrap_or_default())?;
        }
        writeln!(f, "    index and data: not read (`sstfilter verify` reads them)")
    }
}

impl ForeignFields {
    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = self.why_silent();
        let mut lines = Lines(f);
        let version = match self.format_version {
            0 => String::new(),
            version => format!(", format version {version}"),
        };
        lines.line("engine", format_args!("{}{version}", self.engine))?;
        self.level.iter().try_for_each(|level| lines.line("level", level))?;
        let from = self.comparator_from.filter(|&from| from != OF_TABLE);
        let comparator = self.comparator.as_ref().map(|name| match from {
            Some(from) => format!("{name} (from {from})"),
            None => name.to_string(),
        });
        lines.known("comparator", comparator, &silent)?;
        lines.known("compression", self.compression.as_ref(), &silent)?;
        let deletions = self.deletions.filter(|&deletions| deletions > 0);
        let deletions = deletions.map(|deletions| format!(", {} of them deletions", grouped(deletions)));
        let entries = self.entries.map(|entries| grouped(entries) + deletions.as_deref().unwrap_or_default());
        lines.known("entries", entries, &silent)?;
        let tombstones = match (self.has_range_tombstones, self.range_deletions) {
            (false, _) => "none".to_owned(),
            (true, Some(count)) => format!("{}; they also delete keys of older tables", grouped(count)),
            (true, None) => "some; they also delete keys of older tables".to_owned(),
        };
        lines.line("range tombstones", tombstones)?;
        let blocks = self.data_blocks.zip(self.data_bytes);
        let blocks = blocks.map(|(blocks, length)| format!("{} in {}", grouped(blocks), bytes(length)));
        lines.known("data blocks", blocks, &silent)?;
        lines.known("index", self.index_bytes.map(bytes), &silent)
    }

    fn why_silent(&self) -> String {
        match &self.properties_problem {
            Some(problem) => problem.clone(),
            None if self.engine == Engine::LevelDb.name() => "LevelDB's tables do not record it".to_owned(),
            None => "the table does not record it".to_owned(),
        }
    }
}

impl fmt::Display for FilterFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines(f);
        lines.known("policy written", self.policy.as_ref(), "the table does not record it")?;
        lines.line("kind found", self.kind())?;
        lines.line("holds", self.coverage())?;
        lines.line("layout", self.layout())?;
        lines.line("bytes", format_args!("{} ({})", grouped(self.bytes), bytes(self.bytes)))?;
        let uncounted = "the table does not record its number of keys";
        lines.known("keys", self.keys.map(grouped), uncounted)?;
        lines.known("bits per key", self.bits_per_key.map(|bits| format!("{bits:.3}")), uncounted)?;
        lines.known("expected rate", self.expected_fpr.map(percent), uncounted)?;
        lines.line("parameters", self.parameters())?;
        self.unusable.iter().try_for_each(|why| lines.line("not usable", why))
    }
}

impl FilterFields {
    fn kind(&self) -> String {
        let named = |found: &KindBlocks| match self.kinds.len() {
            1 => found.kind.to_owned(),
            _ => format!("{} ({})", found.kind, counted(found.blocks as u64, "block")),
        };
        let kinds = self.kinds.iter().map(named).collect::<Vec<_>>().join(", ");
        if kinds.is_empty() {
            "none".to_owned()
        } else if self.fell_back_to_bloom {
            kinds
                + " although the policy is Ribbon\n                      (RocksDB falls back to Bloom if Ribbon would be \
                   larger, as for few keys,\n                      if it cannot be built, and on levels below \
                   bloom_before_level)"
        } else {
            kinds
        }
    }

    fn parameters(&self) -> String {
        let shown = |(name, value): (&String, &Value)| {
            let value = value.as_u64().map_or_else(|| value.to_string(), grouped);
            format!("{} {value}", name.replace('_', " "))
        };
        let parameters = self.parameters.iter().map(shown).collect::<Vec<_>>().join(", ");
        if self.blocks > 1 { parameters + " (the first block)" } else { parameters }
    }

    fn coverage(&self) -> String {
        let extractor = self.prefix_extractor.as_deref().unwrap_or_default().escape_default();
        match (self.whole_keys, self.prefixes) {
            (Some(true), Some(true)) => format!("whole keys, and prefixes by {extractor}"),
            (Some(true), _) => "whole keys".to_owned(),
            (_, Some(true)) => format!("prefixes by {extractor}, no whole keys"),
            _ => "unknown".to_owned(),
        }
    }

    fn layout(&self) -> String {
        let sizes = || {
            let sizes = [self.min_block_bytes, self.max_block_bytes, self.mean_block_bytes].map(grouped);
            format!("{} to {} bytes, {} on average", sizes[0], sizes[1], sizes[2])
        };
        let blocks = grouped(self.blocks as u64);
        match (self.unit, self.unit_bytes) {
            ("partition", _) => format!("partitioned: {blocks} partitions of {}", sizes()),
            (_, Some(unit)) => format!("one filter per {} of data blocks: {blocks}, of {}", bytes(unit), sizes()),
            _ => "full: one filter for the table".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_named_and_what_is_not_known_is_shown_as_stored() {
        for (stored, shown) in [
            ("NoCompression", "NoCompression"),
            (";;", "none"),
            ("BuiltinV2;04;", "LZ4"),
            ("BuiltinV2;0107;", "Snappy, ZSTD"),
            ("Mine;81;", "Mine;81;"),
            ("Mine;\u{e9};", "Mine;\u{e9};"),
        ] {
            assert_eq!(compression(stored), shown);
        }
    }
}
