//! The properties of a table, readable without its data.

use std::sync::Arc;

use bytes::Bytes;
use sstfilter_store::FilterMetadata;

use super::TableError;
use super::block::{Block, BlockBuilder};

/// The properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableProperties {
    /// Number of entries, including tombstones.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Bytes of all keys, uncompressed.
    pub raw_key_bytes: u64,
    /// Bytes of all values, uncompressed.
    pub raw_value_bytes: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks, including their trailers.
    pub data_bytes: u64,
    /// The writer's limit for data blocks, in bytes.
    pub block_bytes: u64,
    /// Entries from one restart point to the next.
    pub restart_interval: u64,
    /// The level that the table was written for, if known. Informative: an engine may move the table.
    pub level: Option<u32>,
    /// Name of the policy that chose the filter, if any. Informative: the filter block describes itself.
    pub filter_policy: Option<String>,
    /// Why no range filter was built although the writer had a policy for one, in words. Informative.
    pub range_filter_missing: Option<String>,
    /// The filters, and the smallest and the largest key.
    pub filters: Arc<FilterMetadata>,
}

/// Entries from one restart point to the next in the properties block.
const PROPERTIES_RESTART_INTERVAL: u32 = 16;

impl TableProperties {
    /// Encodes a block of sorted names and values; numbers are u64. Omits values that the table does not have.
    pub(super) fn encode(&self) -> BlockBuilder {
        let number = |number: u64| Some(number.to_le_bytes().to_vec());
        let text = |text: &Option<String>| Some(text.as_ref()?.as_bytes().to_vec());
        let values = [
            // In the order of their names, because block keys must ascend.
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

    /// Decodes a properties block, and checks that its values are possible. Ignores unknown names.
    pub(super) fn decode(block: &Block) -> Result<Self, TableError> {
        // All entries, not only those that are looked up: a wrong order would hide a name.
        block.check_entries()?;
        let corrupt = |expected, value: Option<Bytes>| {
            block.corrupt(expected, value.map_or_else(|| "none".to_owned(), |value| format!("{} bytes", value.len())))
        };
        let number = |name| {
            let value = block.value_of(name)?;
            let number = value.as_deref().and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            number.ok_or_else(|| corrupt(format!("{name} of 8 bytes"), value))
        };
        let text = |name| {
            let value = block.value_of(name)?;
            let text = value.as_deref().map(|bytes| core::str::from_utf8(bytes).map(str::to_owned));
            text.transpose().map_err(|_| corrupt(format!("{name} in UTF-8"), value))
        };
        let level = block.value_of("level")?.and_then(|bytes| bytes.as_ref().try_into().ok());
        let filters = block.value_of("filters")?.ok_or_else(|| corrupt("filters".to_owned(), None))?;
        let filters = FilterMetadata::decode_covered(&filters);
        let properties = Self {
            entries: number("entries")?,
            tombstones: number("tombstones")?,
            raw_key_bytes: number("raw-key-bytes")?,
            raw_value_bytes: number("raw-value-bytes")?,
            data_blocks: number("data-blocks")?,
            data_bytes: number("data-bytes")?,
            block_bytes: number("block-bytes")?,
            restart_interval: number("restart-interval")?,
            // Informative, so an impossible level is ignored.
            level: level.and_then(|bytes| u32::try_from(u64::from_le_bytes(bytes)).ok()),
            filter_policy: text("filter-policy")?,
            range_filter_missing: text("range-missing")?,
            filters: filters.map_err(|problem| block.corrupt("a sound description of filters", problem))?.into(),
        };
        properties.check(block)?;
        Ok(properties)
    }

    /// Counts an entry, or a tombstone if `value` is `None`.
    pub(super) fn count(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entries += 1;
        self.tombstones += u64::from(value.is_none());
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += value.map_or(0, <[u8]>::len) as u64;
    }

    fn check(&self, block: &Block) -> Result<(), TableError> {
        let is_empty = self.entries == 0;
        // Without key bounds, lookups and scans skip the table.
        if self.filters.key_bounds().is_none() != is_empty {
            return Err(block.corrupt("a smallest and a largest key if there are entries, else neither", self.entries));
        }
        if self.tombstones > self.entries || self.data_blocks > self.entries || (self.data_blocks == 0) != is_empty {
            let got = format!("{} tombstones, {} data blocks", self.tombstones, self.data_blocks);
            return Err(block.corrupt(format!("counts that are possible for {} entries", self.entries), got));
        }
        Ok(())
    }
}

/// Returns the description of a file without filters, with keys from `smallest` to `largest`.
#[cfg(test)]
pub(super) fn metadata_between(smallest: &[u8], largest: &[u8]) -> FilterMetadata {
    let file = sstfilter::FileId::random();
    let mut builder = sstfilter_store::FilterStore::default().without_point_filters().builder(file);
    [smallest, largest].into_iter().for_each(|key| builder.add_key(key));
    builder.finish().seal().1
}

/// Replaces the sections of `description` with `sections`, at the offsets that docs/format/files.md specifies.
#[cfg(test)]
pub(super) fn with_sections(description: &FilterMetadata, sections: &[u8]) -> FilterMetadata {
    let (mut bytes, own) = (description.encode_covered(), sections_of(description).len());
    bytes.splice(44..44 + own, sections.iter().copied());
    bytes[25] = u8::try_from(sections.len() / 28).unwrap();
    FilterMetadata::decode_covered(&bytes).unwrap()
}

/// Returns the bytes of a description's sections.
#[cfg(test)]
pub(super) fn sections_of(description: &FilterMetadata) -> Vec<u8> {
    description.encode_covered()[44..44 + 28 * description.sections().len()].to_vec()
}
