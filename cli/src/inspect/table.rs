//! A table's properties and layout.

use core::fmt;

use serde::Serialize;
use sstfilter::Table;

use super::filter::FilterFields;
use crate::output::Text;
use crate::tables;
use crate::units::grouped;

/// All that a table says of itself without its data being read.
#[derive(Debug, Serialize)]
pub(super) struct TableFields {
    table_id: String,
    properties: Properties,
    layout: Vec<Region>,
    filter: Option<FilterFields>,
    filter_problem: Option<String>,
    /// Whether the problem is one of the file, not of what was given to read it with.
    #[serde(skip)]
    is_damaged: bool,
    #[serde(skip)]
    is_filter_unread: bool,
}

#[derive(Debug, Serialize)]
struct Properties {
    entries: u64,
    tombstones: u64,
    raw_key_bytes: u64,
    raw_value_bytes: u64,
    data_blocks: u64,
    data_bytes: u64,
    block_bytes: u64,
    restart_interval: u64,
    smallest_key: Option<Text>,
    largest_key: Option<Text>,
    hash: String,
    key_extractor: Option<String>,
    filter_policy: Option<String>,
}

#[derive(Debug, Serialize)]
struct Region {
    name: &'static str,
    offset: u64,
    bytes: u64,
}

impl TableFields {
    pub(super) fn new(table: &Table) -> Self {
        let block = table.filter().map(sstfilter::GuardedFilter::block);
        let regions = table.layout().regions;
        Self {
            table_id: table.table_id().to_string(),
            properties: Properties::new(table),
            layout: regions
                .iter()
                .map(|region| Region { name: region.name, offset: region.offset, bytes: region.bytes })
                .collect(),
            filter: block.and_then(Result::ok).map(FilterFields::new),
            filter_problem: table.filter_problem().map(ToString::to_string),
            is_filter_unread: table.filter_problem().is_some_and(tables::is_unread),
            is_damaged: table.filter_problem().is_some_and(|problem| !problem.is_foreign_filter()),
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        !self.is_damaged
    }

    pub(super) fn is_filter_unread(&self) -> bool {
        self.is_filter_unread
    }
}

impl Properties {
    fn new(table: &Table) -> Self {
        let properties = table.properties();
        let text = |key: Option<&[u8]>| key.map(|key| Text(key.to_vec()));
        Self {
            entries: properties.entries,
            tombstones: properties.tombstones,
            raw_key_bytes: properties.raw_key_bytes,
            raw_value_bytes: properties.raw_value_bytes,
            data_blocks: properties.data_blocks,
            data_bytes: properties.data_bytes,
            block_bytes: properties.block_bytes,
            restart_interval: properties.restart_interval,
            smallest_key: text(properties.smallest_key.as_deref()),
            largest_key: text(properties.largest_key.as_deref()),
            hash: properties.hash.to_string(),
            key_extractor: properties.key_extractor.clone(),
            filter_policy: properties.filter_policy.clone(),
        }
    }
}

impl fmt::Display for TableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  table id {}", self.table_id)?;
        writeln!(f, "  properties")?;
        write!(f, "{}", self.properties)?;
        writeln!(f, "  layout")?;
        for Region { name, offset, bytes } in &self.layout {
            writeln!(f, "    {name:<17} {:>15} bytes at {}", grouped(*bytes), grouped(*offset))?;
        }
        match (&self.filter, &self.filter_problem) {
            (Some(filter), _) => write!(f, "  filter\n{filter}"),
            (None, Some(problem)) => writeln!(f, "  filter not usable: {problem}"),
            (None, None) => writeln!(f, "  no filter"),
        }
    }
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut field = |name: &str, value: String| writeln!(f, "    {name:<17} {value}");
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        field("entries", grouped(self.entries))?;
        field("tombstones", grouped(self.tombstones))?;
        field("raw key bytes", grouped(self.raw_key_bytes))?;
        field("raw value bytes", grouped(self.raw_value_bytes))?;
        field("data blocks", grouped(self.data_blocks))?;
        field("data bytes", grouped(self.data_bytes))?;
        field("block bytes", grouped(self.block_bytes))?;
        field("restart interval", grouped(self.restart_interval))?;
        field("smallest key", or_none(self.smallest_key.as_ref().map(ToString::to_string)))?;
        field("largest key", or_none(self.largest_key.as_ref().map(ToString::to_string)))?;
        field("hash", self.hash.clone())?;
        field("key extractor", or_none(self.key_extractor.clone()))?;
        field("filter policy", or_none(self.filter_policy.clone()))
    }
}
