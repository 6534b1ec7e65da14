//! What a table says of itself, readable without any of its data.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::TableError;
use super::block::{Block, BlockBuilder, EntryValue};
use super::error::shown;
use crate::hash::{HashId, HashIdentity};

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
    /// The writer's limit for data blocks, in bytes.
    pub block_bytes: u64,
    /// Entries from one restart point to the next.
    pub restart_interval: u64,
    /// The first key; `None` in a table of no entries.
    pub smallest_key: Option<Bytes>,
    /// The last key; `None` in a table of no entries.
    pub largest_key: Option<Bytes>,
    /// The hash that the filter was built from.
    pub hash: HashIdentity,
    /// Name of the extractor, if the filter holds extracted parts of keys.
    pub key_extractor: Option<String>,
    /// Name of the policy that decided on the filter, if there was one. For information: the filter block itself says
    /// what it is.
    pub filter_policy: Option<String>,
}

const ENTRIES: &str = "entries";
const TOMBSTONES: &str = "tombstones";
const RAW_KEY_BYTES: &str = "raw-key-bytes";
const RAW_VALUE_BYTES: &str = "raw-value-bytes";
const DATA_BLOCKS: &str = "data-blocks";
const DATA_BYTES: &str = "data-bytes";
const BLOCK_BYTES: &str = "block-bytes";
const RESTART_INTERVAL: &str = "restart-interval";
const SMALLEST_KEY: &str = "smallest-key";
const LARGEST_KEY: &str = "largest-key";
const HASH_ID: &str = "hash-id";
const HASH_SEED: &str = "hash-seed";
const KEY_EXTRACTOR: &str = "key-extractor";
const FILTER_POLICY: &str = "filter-policy";

/// Entries from one restart point to the next in the properties block.
const PROPERTIES_RESTART_INTERVAL: u32 = 16;

/// The properties that are read. Other names are never copied: key sharing makes long names cheap to claim, and many
/// short ones would take ten times their bytes in memory.
const KNOWN: [&str; 14] = [
    BLOCK_BYTES,
    DATA_BLOCKS,
    DATA_BYTES,
    ENTRIES,
    FILTER_POLICY,
    HASH_ID,
    HASH_SEED,
    KEY_EXTRACTOR,
    LARGEST_KEY,
    RAW_KEY_BYTES,
    RAW_VALUE_BYTES,
    RESTART_INTERVAL,
    SMALLEST_KEY,
    TOMBSTONES,
];

impl TableProperties {
    /// The block of sorted names and values; numbers are u64. What a table does not have is left out.
    pub(crate) fn encode(&self) -> BlockBuilder {
        let numbers = [
            (ENTRIES, self.entries),
            (TOMBSTONES, self.tombstones),
            (RAW_KEY_BYTES, self.raw_key_bytes),
            (RAW_VALUE_BYTES, self.raw_value_bytes),
            (DATA_BLOCKS, self.data_blocks),
            (DATA_BYTES, self.data_bytes),
            (BLOCK_BYTES, self.block_bytes),
            (RESTART_INTERVAL, self.restart_interval),
            (HASH_ID, self.hash.id.code().into()),
            (HASH_SEED, self.hash.seed),
        ]
        .map(|(name, number)| (name, number.to_le_bytes()));
        let mut sorted: BTreeMap<&str, &[u8]> = numbers.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let texts = [(KEY_EXTRACTOR, &self.key_extractor), (FILTER_POLICY, &self.filter_policy)];
        sorted.extend(texts.iter().filter_map(|(name, text)| Some((*name, text.as_ref()?.as_bytes()))));
        let keys = [(SMALLEST_KEY, &self.smallest_key), (LARGEST_KEY, &self.largest_key)];
        sorted.extend(keys.iter().filter_map(|(name, key)| Some((*name, key.as_deref()?))));
        let mut block = BlockBuilder::new(PROPERTIES_RESTART_INTERVAL);
        for (name, value) in sorted {
            block.add(name.as_bytes(), EntryValue::Bytes(value));
        }
        block
    }

    /// Reads a properties block, and checks that its values are possible. Unknown names are ignored.
    pub(crate) fn decode(block: &Block) -> Result<Self, TableError> {
        let values = NamedValues::read(block)?;
        let hash_id = values.number(HASH_ID)?;
        let hash_code = u8::try_from(hash_id).map_err(|_| block.corrupt("hash-id of one byte", hash_id))?;
        let properties = Self {
            entries: values.number(ENTRIES)?,
            tombstones: values.number(TOMBSTONES)?,
            raw_key_bytes: values.number(RAW_KEY_BYTES)?,
            raw_value_bytes: values.number(RAW_VALUE_BYTES)?,
            data_blocks: values.number(DATA_BLOCKS)?,
            data_bytes: values.number(DATA_BYTES)?,
            block_bytes: values.number(BLOCK_BYTES)?,
            restart_interval: values.number(RESTART_INTERVAL)?,
            smallest_key: values.bytes(SMALLEST_KEY),
            largest_key: values.bytes(LARGEST_KEY),
            hash: HashIdentity { id: HashId::from_code(hash_code), seed: values.number(HASH_SEED)? },
            key_extractor: values.text(KEY_EXTRACTOR)?,
            filter_policy: values.text(FILTER_POLICY)?,
        };
        properties.check(block)?;
        Ok(properties)
    }

    fn check(&self, block: &Block) -> Result<(), TableError> {
        let is_empty = self.entries == 0;
        if self.smallest_key.is_none() != is_empty || self.largest_key.is_none() != is_empty {
            return Err(block.corrupt("a smallest and a largest key if there are entries, else neither", self.entries));
        }
        if self.smallest_key > self.largest_key {
            let got = self.largest_key.as_deref().map_or(String::new(), shown);
            return Err(block.corrupt("a largest key not below the smallest", got));
        }
        if self.tombstones > self.entries || self.data_blocks > self.entries || (self.data_blocks == 0) != is_empty {
            let got = format!("{} tombstones, {} data blocks", self.tombstones, self.data_blocks);
            return Err(block.corrupt(&format!("counts that {} entries allow", self.entries), got));
        }
        Ok(())
    }

    /// Whether `key` lies from the smallest to the largest key.
    pub(crate) fn range_holds(&self, key: &[u8]) -> bool {
        let smallest = self.smallest_key.as_deref().is_some_and(|smallest| smallest <= key);
        smallest && self.largest_key.as_deref().is_some_and(|largest| key <= largest)
    }

    /// Whether a key that begins with `prefix` can lie from the smallest to the largest key.
    ///
    /// Such keys follow each other in key order, from the prefix itself on. If the smallest key comes after the prefix,
    /// it either is one of them, or is above them all.
    pub(crate) fn range_meets(&self, prefix: &[u8]) -> bool {
        let (Some(smallest), Some(largest)) = (&self.smallest_key, &self.largest_key) else { return false };
        prefix <= largest.as_ref() && (smallest.as_ref() <= prefix || smallest.starts_with(prefix))
    }
}

/// The block's entries by name.
struct NamedValues<'a> {
    block: &'a Block,
    values: BTreeMap<&'static str, Bytes>,
}

impl<'a> NamedValues<'a> {
    fn read(block: &'a Block) -> Result<Self, TableError> {
        let mut values = BTreeMap::new();
        let mut cursor = block.cursor();
        while cursor.advance()? {
            let value = cursor.value_bytes().ok_or_else(|| block.corrupt("a property's value", "a tombstone"))?;
            if let Some(name) = KNOWN.into_iter().find(|name| name.as_bytes() == cursor.key()) {
                values.insert(name, value);
            }
        }
        Ok(Self { block, values })
    }

    fn bytes(&self, name: &str) -> Option<Bytes> {
        self.values.get(name).cloned()
    }

    fn number(&self, name: &str) -> Result<u64, TableError> {
        let bytes = self.values.get(name).and_then(|bytes| bytes.as_ref().try_into().ok());
        let bytes = bytes.ok_or_else(|| self.block.corrupt(&format!("property {name} of 8 bytes"), "none"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&self, name: &str) -> Result<Option<String>, TableError> {
        let Some(bytes) = self.values.get(name) else { return Ok(None) };
        let text = core::str::from_utf8(bytes);
        let text = text.map_err(|_| self.block.corrupt(&format!("property {name} in UTF-8"), shown(bytes)))?;
        Ok(Some(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;
    use crate::sst::{TableLocation, TablePart};

    fn example() -> TableProperties {
        TableProperties {
            entries: 10,
            tombstones: 2,
            raw_key_bytes: 50,
            raw_value_bytes: 800,
            data_blocks: 3,
            data_bytes: 900,
            block_bytes: 4096,
            restart_interval: 16,
            smallest_key: Some(Bytes::from_static(b"")),
            largest_key: Some(Bytes::from_static(b"zebra")),
            hash: KeyHasher::default().identity(),
            key_extractor: Some("fixed-prefix:4".to_owned()),
            filter_policy: None,
        }
    }

    fn decoded(properties: &TableProperties) -> Result<TableProperties, TableError> {
        let contents = Bytes::from(properties.encode().seal().clone());
        TableProperties::decode(&Block::open(contents, TableLocation::new(None, TablePart::Properties, 0))?)
    }

    #[test]
    fn properties_read_back_as_written() {
        assert_eq!(decoded(&example()).unwrap(), example());
        let empty = TableProperties {
            entries: 0,
            tombstones: 0,
            data_blocks: 0,
            smallest_key: None,
            largest_key: None,
            ..example()
        };
        assert_eq!(decoded(&empty).unwrap(), empty);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let key = Some(Bytes::from_static(b"zzz"));
        for impossible in [
            TableProperties { smallest_key: key, ..example() },
            TableProperties { smallest_key: None, ..example() },
            TableProperties { entries: 0, ..example() },
            TableProperties { tombstones: 11, ..example() },
            TableProperties { data_blocks: 0, ..example() },
        ] {
            assert!(matches!(decoded(&impossible), Err(TableError::Corrupt { .. })), "{impossible:?}");
        }
    }

    #[test]
    fn the_range_includes_both_ends() {
        let range = |key: &[u8]| example().range_holds(key);
        assert!(range(b"") && range(b"m") && range(b"zebra"));
        assert!(!range(b"zebra\0"));
    }
}
