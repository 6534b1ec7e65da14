//! What a table says of itself, readable without any of its data.

use std::sync::Arc;

use super::TableError;
use super::block::{Block, BlockBuilder, BlockCursor};
use crate::store::FilterMetadata;

/// The properties of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableProperties {
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes of all keys, as they came in.
    pub raw_key_bytes: u64,
    /// Bytes of all values, as they came in.
    pub raw_value_bytes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks, their trailers included.
    pub data_bytes: u64,
    /// The limit for data blocks that its writer was set to, in bytes.
    pub block_bytes: u64,
    /// Entries from one restart point to the next.
    pub restart_interval: u64,
    /// The level that the table was written for, if its writer knew. For information: an engine may move the table.
    pub level: Option<u32>,
    /// Name of the policy that decided on the filter, if there was one. For information: the filter block itself says
    /// what it is.
    pub filter_policy: Option<String>,
    /// Why no range filter was built although its writer was to build one, in words. For information.
    pub range_filter_missing: Option<String>,
    /// The filters, and the smallest and the largest key.
    pub filters: Arc<FilterMetadata>,
}

/// Entries from one restart point to the next in the properties block.
const PROPERTIES_RESTART_INTERVAL: u32 = 16;

impl TableProperties {
    /// The first key; `None` in a table of no entries.
    #[must_use]
    pub fn smallest_key(&self) -> Option<&[u8]> {
        self.filters.key_bounds().map(|(smallest, _)| smallest)
    }

    /// The last key; `None` in a table of no entries.
    #[must_use]
    pub fn largest_key(&self) -> Option<&[u8]> {
        self.filters.key_bounds().map(|(_, largest)| largest)
    }

    /// The block of sorted names and values; numbers are u64. What a table does not have is left out.
    pub(super) fn encode(&self) -> BlockBuilder {
        let number = |number: u64| Some(number.to_le_bytes().to_vec());
        let text = |text: &Option<String>| Some(text.as_ref()?.as_bytes().to_vec());
        let values = [
            ("block-bytes", number(self.block_bytes)),
            ("data-blocks", number(self.data_blocks)),
            ("data-bytes", number(self.data_bytes)),
            ("entries", number(self.entries)),
            ("filter-policy", text(&self.filter_policy)),
            ("filters", Some(self.filters.encode_covered())),
            ("level", self.level.and_then(|level| number(level.into()))),
            ("range-missing", text(&self.range_filter_missing)),
            ("raw-key-bytes", number(self.raw_key_bytes)),
            ("raw-value-bytes", number(self.raw_value_bytes)),
            ("restart-interval", number(self.restart_interval)),
            ("tombstones", number(self.tombstones)),
        ];
        let mut block = BlockBuilder::new(PROPERTIES_RESTART_INTERVAL);
        for (name, value) in values {
            if let Some(value) = value {
                block.add(name.as_bytes(), Some(&value));
            }
        }
        block
    }

    /// Reads a properties block, and checks that its values are possible. Unknown names are ignored.
    pub(super) fn decode(block: &Block) -> Result<Self, TableError> {
        let mut values = NamedValues { cursor: BlockCursor::new(block), is_on_entry: false };
        values.advance()?;
        // Taken in the order of their names.
        let properties = Self {
            block_bytes: values.number("block-bytes")?,
            data_blocks: values.number("data-blocks")?,
            data_bytes: values.number("data-bytes")?,
            entries: values.number("entries")?,
            filter_policy: values.text("filter-policy")?,
            filters: values.filters("filters")?.into(),
            level: values.level("level")?,
            range_filter_missing: values.text("range-missing")?,
            raw_key_bytes: values.number("raw-key-bytes")?,
            raw_value_bytes: values.number("raw-value-bytes")?,
            restart_interval: values.number("restart-interval")?,
            tombstones: values.number("tombstones")?,
        };
        while values.is_on_entry {
            values.advance()?;
        }
        properties.check(block)?;
        Ok(properties)
    }

    /// Counts an entry; one without a value is a tombstone.
    pub(super) fn count(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entries += 1;
        self.tombstones += u64::from(value.is_none());
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += value.map_or(0, <[u8]>::len) as u64;
    }

    fn check(&self, block: &Block) -> Result<(), TableError> {
        let is_empty = self.entries == 0;
        if self.smallest_key().is_none() != is_empty {
            return Err(block.corrupt("a smallest and a largest key if there are entries, else neither", self.entries));
        }
        if self.tombstones > self.entries || self.data_blocks > self.entries || (self.data_blocks == 0) != is_empty {
            let got = format!("{} tombstones, {} data blocks", self.tombstones, self.data_blocks);
            return Err(block.corrupt(format!("counts that {} entries allow", self.entries), got));
        }
        Ok(())
    }
}

/// Takes the values of a block in the order of their names.
///
/// Other names are passed over and never copied: key sharing makes long names cheap to claim, and many short ones would
/// take ten times their bytes in memory.
struct NamedValues<'a> {
    cursor: BlockCursor<&'a Block>,
    is_on_entry: bool,
}

impl NamedValues<'_> {
    fn advance(&mut self) -> Result<(), TableError> {
        self.is_on_entry = self.cursor.advance()?;
        if self.is_on_entry && self.cursor.value().is_none() {
            return Err(self.cursor.block().corrupt("a property's value", "a tombstone"));
        }
        Ok(())
    }

    /// The value of `name`, which comes after all names taken before.
    fn value(&mut self, name: &str) -> Result<Option<&[u8]>, TableError> {
        while self.is_on_entry && self.cursor.key() < name.as_bytes() {
            self.advance()?;
        }
        let is_found = self.is_on_entry && self.cursor.key() == name.as_bytes();
        Ok(if is_found { self.cursor.value() } else { None })
    }

    /// A level is for information: one that no engine has is as good as none.
    fn level(&mut self, name: &str) -> Result<Option<u32>, TableError> {
        let bytes = self.value(name)?.and_then(|bytes| bytes.try_into().ok());
        Ok(bytes.and_then(|bytes| u32::try_from(u64::from_le_bytes(bytes)).ok()))
    }

    fn number(&mut self, name: &str) -> Result<u64, TableError> {
        let number = self.value(name)?.and_then(|bytes| bytes.try_into().ok());
        number.map(u64::from_le_bytes).ok_or_else(|| self.missing(format!("{name} of 8 bytes")))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, TableError> {
        let text = self.value(name)?.map(|bytes| core::str::from_utf8(bytes).map(str::to_owned));
        text.transpose().map_err(|_| self.missing(format!("{name} in UTF-8")))
    }

    fn filters(&mut self, name: &str) -> Result<FilterMetadata, TableError> {
        let decoded = self.value(name)?.map(FilterMetadata::decode_covered);
        let decoded = decoded.ok_or_else(|| self.missing(name.to_owned()))?;
        decoded.map_err(|problem| self.cursor.block().corrupt(format!("{name}, sound"), problem))
    }

    fn missing(&self, expected: String) -> TableError {
        let got = self.cursor.value().filter(|_| self.is_on_entry);
        let got = got.map_or_else(|| "none".to_owned(), |value| format!("{} bytes", value.len()));
        self.cursor.block().corrupt(expected, got)
    }
}

/// The description of a file without filters, with keys from `smallest` to `largest`.
#[cfg(test)]
pub(super) fn metadata_between(smallest: &[u8], largest: &[u8]) -> FilterMetadata {
    let context = crate::policy::BuildContext::new(&crate::hash::KeyHasher::default());
    let mut builder = crate::store::FilterStore::default().without_filters().builder(&context);
    [smallest, largest].into_iter().for_each(|key| builder.add_key(key));
    builder.finish().seal().1
}
