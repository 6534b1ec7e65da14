//! What a table says of itself, readable without any of its data.

use core::fmt;
use core::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::TableError;
use super::block::{Block, BlockBuilder, BlockCursor};
use super::error::shown;
use super::format::BlockHandle;
use crate::hash::{HashId, HashIdentity, KeyParts};
use crate::range::KeyRange;
use crate::sidecar::Sidecar;

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
    /// The first key; `None` in a table of no entries.
    pub smallest_key: Option<Box<[u8]>>,
    /// The last key; `None` in a table of no entries.
    pub largest_key: Option<Box<[u8]>>,
    /// The level that the table was written for, if its writer knew. For information: an engine may move the table.
    pub level: Option<u32>,
    /// The range filter, or why there is none; `None` if the writer was not to build one.
    pub range_filter: Option<Box<RangeFilterProperties>>,
    /// What its writer was set to.
    pub writer: Arc<WriterSettings>,
}

/// What a table says of its range filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeFilterProperties {
    /// Where it is, if there is one.
    pub(crate) handle: Option<BlockHandle>,
    /// Name of the extractor of the prefixes that ranges are inside of, if it has one: its readers need the same.
    pub extractor: Option<String>,
    /// Why none was built, in words. For information.
    pub missing_because: Option<String>,
}

impl RangeFilterProperties {
    /// First byte of the filter's block in the file, if there is one.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.handle.map(|handle| handle.offset)
    }

    /// Bytes of the filter's block, without the checksum behind it.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.handle.map(|handle| handle.contents_bytes)
    }
}

/// What the writer of a table was set to. Most tables of a store have the same settings, and share them while they are
/// open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterSettings {
    /// The limit for data blocks, in bytes.
    pub block_bytes: u64,
    /// Entries from one restart point to the next.
    pub restart_interval: u64,
    /// The hash that the filter was built from.
    pub hash: HashIdentity,
    /// What of each key the filter holds.
    pub key_parts: KeyPartNames,
    /// Name of the policy that decided on the filter, if there was one. For information: the filter block itself says
    /// what it is.
    pub filter_policy: Option<String>,
}

/// What of each key a table's filter holds: the whole key, parts of it by extractors of these names, or both.
///
/// A writer leaves out an extractor that has broken its promise: with neither, the table has no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyPartNames {
    /// Whether the filter holds whole keys.
    pub whole_keys: bool,
    /// Names of the extractors.
    pub extractors: Vec<String>,
}

impl KeyPartNames {
    pub(crate) const WHOLE_KEYS: Self = Self { whole_keys: true, extractors: Vec::new() };

    pub(crate) const NONE: Self = Self { whole_keys: false, extractors: Vec::new() };

    /// Those that a sidecar names.
    pub(crate) fn of_sidecar(sidecar: &Sidecar) -> Self {
        let extractors = sidecar.key_parts().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { whole_keys: sidecar.key_parts().any(str::is_empty), extractors }
    }

    /// Those of a writer or reader.
    pub(crate) fn of(parts: &KeyParts) -> Self {
        let extractors = parts.extractors().map(|extractor| extractor.name().to_owned()).collect();
        Self { whole_keys: parts.has_whole_keys(), extractors }
    }

    /// For whole keys the byte 0; for each extractor, a byte with the length of its name, and the name. `None` for
    /// whole keys alone, so that tables without extractors do not mention them.
    fn encode(&self) -> Option<Bytes> {
        let mut encoded = Vec::new();
        if self.whole_keys {
            encoded.push(0);
        }
        for name in &self.extractors {
            // The builder has refused names that are longer.
            encoded.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            encoded.extend_from_slice(name.as_bytes());
        }
        (*self != Self::WHOLE_KEYS).then(|| encoded.into())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (whole_keys, mut names) = match bytes.split_first() {
            Some((0, names)) => (true, names),
            _ => (false, bytes),
        };
        let mut extractors = Vec::new();
        while let Some((&length, rest)) = names.split_first() {
            let (name, rest) = rest.split_at_checked(length.into())?;
            extractors.push(core::str::from_utf8(name).ok().filter(|name| !name.is_empty())?.to_owned());
            names = rest;
        }
        Some(Self { whole_keys, extractors })
    }
}

impl fmt::Display for KeyPartNames {
    /// `whole keys, 'fixed-prefix:4'`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole_keys.then(|| "whole keys".to_owned());
        let parts: Vec<String> =
            whole.into_iter().chain(self.extractors.iter().map(|name| format!("'{name}'"))).collect();
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// Entries from one restart point to the next in the properties block.
const PROPERTIES_RESTART_INTERVAL: u32 = 16;

impl TableProperties {
    /// The smallest and the largest key, which every filter of the table must hold; none of an empty table.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = &[u8]> {
        [&self.smallest_key, &self.largest_key].into_iter().flatten().map(AsRef::as_ref)
    }

    /// The block of sorted names and values; numbers are u64. What a table does not have is left out.
    pub(crate) fn encode(&self) -> BlockBuilder {
        let number = |number: u64| Some(Bytes::copy_from_slice(&number.to_le_bytes()));
        let text = |text: &Option<String>| Some(Bytes::copy_from_slice(text.as_ref()?.as_bytes()));
        let key = |key: &Option<Box<[u8]>>| key.as_deref().map(Bytes::copy_from_slice);
        let (writer, range) = (&self.writer, self.range_filter.as_deref());
        let values = [
            ("block-bytes", number(writer.block_bytes)),
            ("data-blocks", number(self.data_blocks)),
            ("data-bytes", number(self.data_bytes)),
            ("entries", number(self.entries)),
            ("filter-policy", text(&writer.filter_policy)),
            ("hash-id", number(writer.hash.id.code().into())),
            ("hash-seed", number(writer.hash.seed)),
            ("key-parts", writer.key_parts.encode()),
            ("largest-key", key(&self.largest_key)),
            ("level", self.level.and_then(|level| number(level.into()))),
            ("range-extractor", range.and_then(|range| text(&range.extractor))),
            ("range-filter", range.and_then(|range| Some(range.handle?.encode().into()))),
            ("range-missing", range.and_then(|range| text(&range.missing_because))),
            ("raw-key-bytes", number(self.raw_key_bytes)),
            ("raw-value-bytes", number(self.raw_value_bytes)),
            ("restart-interval", number(writer.restart_interval)),
            ("smallest-key", key(&self.smallest_key)),
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
    pub(crate) fn decode(block: &Block) -> Result<Self, TableError> {
        let mut values = NamedValues { cursor: BlockCursor::new(block), is_on_entry: false };
        values.advance()?;
        // Taken in the order of their names.
        let block_bytes = values.number("block-bytes")?;
        let data_blocks = values.number("data-blocks")?;
        let data_bytes = values.number("data-bytes")?;
        let entries = values.number("entries")?;
        let filter_policy = values.text("filter-policy")?;
        let hash = HashIdentity { id: values.hash_id("hash-id")?, seed: values.number("hash-seed")? };
        let key_parts = values.key_parts()?;
        let largest_key = values.bytes("largest-key")?;
        let level = values.level("level")?;
        let range_filter = values.range_filter()?;
        let raw_key_bytes = values.number("raw-key-bytes")?;
        let raw_value_bytes = values.number("raw-value-bytes")?;
        let restart_interval = values.number("restart-interval")?;
        let smallest_key = values.bytes("smallest-key")?;
        let tombstones = values.number("tombstones")?;
        let writer = Arc::new(WriterSettings { block_bytes, restart_interval, hash, key_parts, filter_policy });
        let properties = Self {
            entries,
            tombstones,
            raw_key_bytes,
            raw_value_bytes,
            data_blocks,
            data_bytes,
            smallest_key,
            largest_key,
            level,
            range_filter,
            writer,
        };
        while values.is_on_entry {
            values.advance()?;
        }
        properties.check(block)?;
        Ok(properties)
    }

    /// Counts an entry; one without a value is a tombstone.
    pub(crate) fn count(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entries += 1;
        self.tombstones += u64::from(value.is_none());
        self.raw_key_bytes += key.len() as u64;
        self.raw_value_bytes += value.map_or(0, <[u8]>::len) as u64;
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
            return Err(block.corrupt(format!("counts that {} entries allow", self.entries), got));
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
        prefix <= &**largest && (&**smallest <= prefix || smallest.starts_with(prefix))
    }

    /// Whether a key in `range` can lie from the smallest to the largest key.
    pub(crate) fn overlaps(&self, range: KeyRange<'_>) -> bool {
        let (Some(smallest), Some(largest)) = (&self.smallest_key, &self.largest_key) else { return false };
        let from_smallest = KeyRange { lower: Bound::Included(&**smallest), ..range };
        let to_largest = KeyRange { upper: Bound::Included(&**largest), ..range };
        !range.is_empty() && !from_smallest.is_empty() && !to_largest.is_empty()
    }

    /// Whether the smallest or the largest key is in `range`, so that the table surely holds a key in it.
    pub(crate) fn has_end_in(&self, range: KeyRange<'_>) -> bool {
        [&self.smallest_key, &self.largest_key].into_iter().flatten().any(|key| range.contains(key))
    }

    /// Where the range filter is, if there is one.
    pub(crate) fn range_handle(&self) -> Option<BlockHandle> {
        self.range_filter.as_ref()?.handle
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

    /// A copy: an open table would otherwise keep the whole block for two keys of it.
    fn bytes(&mut self, name: &str) -> Result<Option<Box<[u8]>>, TableError> {
        Ok(self.value(name)?.map(Box::from))
    }

    /// A level is for information: one that no engine has is as good as none.
    fn level(&mut self, name: &str) -> Result<Option<u32>, TableError> {
        let bytes = self.bytes(name)?.and_then(|bytes| bytes.as_ref().try_into().ok());
        Ok(bytes.and_then(|bytes| u32::try_from(u64::from_le_bytes(bytes)).ok()))
    }

    fn number(&mut self, name: &str) -> Result<u64, TableError> {
        let number = self.value(name)?.and_then(|bytes| bytes.try_into().ok());
        let missing = || self.cursor.block().corrupt(format!("property {name} of 8 bytes"), "none");
        Ok(u64::from_le_bytes(number.ok_or_else(missing)?))
    }

    fn hash_id(&mut self, name: &str) -> Result<HashId, TableError> {
        let number = self.number(name)?;
        let code = u8::try_from(number);
        code.map(HashId::from_code).map_err(|_| self.cursor.block().corrupt("hash-id of one byte", number))
    }

    fn key_parts(&mut self) -> Result<KeyPartNames, TableError> {
        // Of a writer that hashed parts without a domain: no probe of this reader's finds them.
        if self.bytes("key-extractor")?.is_some() {
            return Ok(KeyPartNames::NONE);
        }
        let Some(bytes) = self.bytes("key-parts")? else { return Ok(KeyPartNames::WHOLE_KEYS) };
        let damaged =
            || self.cursor.block().corrupt("property key-parts: names, each behind its length", shown(&bytes));
        KeyPartNames::decode(&bytes).ok_or_else(damaged)
    }

    fn range_filter(&mut self) -> Result<Option<Box<RangeFilterProperties>>, TableError> {
        let extractor = self.text("range-extractor")?;
        let handle = self.bytes("range-filter")?.map(|bytes| {
            let no_handle = || self.cursor.block().corrupt("property range-filter: a handle", shown(&bytes));
            BlockHandle::decode(&bytes).ok_or_else(no_handle)
        });
        let (handle, missing_because) = (handle.transpose()?, self.text("range-missing")?);
        let is_mentioned = handle.is_some() || missing_because.is_some();
        Ok(is_mentioned.then(|| Box::new(RangeFilterProperties { handle, extractor, missing_because })))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, TableError> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let not_text = |_| self.cursor.block().corrupt(format!("property {name} in UTF-8"), shown(&bytes));
        Ok(Some(core::str::from_utf8(&bytes).map_err(not_text)?.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyHasher;
    use crate::policy::BuildReason;
    use crate::sst::{TableLocation, TablePart};

    const PLACE: TableLocation = TableLocation { path: None, part: TablePart::Properties, offset: 0 };

    fn example() -> TableProperties {
        TableProperties {
            entries: 10,
            tombstones: 2,
            raw_key_bytes: 50,
            raw_value_bytes: 800,
            data_blocks: 3,
            data_bytes: 900,
            smallest_key: Some(Box::from(&b""[..])),
            largest_key: Some(Box::from(&b"zebra"[..])),
            level: Some(u32::MAX),
            range_filter: Some(Box::new(RangeFilterProperties {
                handle: Some(BlockHandle { offset: 1 << 40, contents_bytes: 300, checksum: 7 }),
                extractor: Some("fixed-prefix:8".to_owned()),
                missing_because: None,
            })),
            writer: Arc::new(WriterSettings {
                block_bytes: 4096,
                restart_interval: 16,
                hash: KeyHasher::default().identity(),
                key_parts: KeyPartNames {
                    whole_keys: true,
                    extractors: vec!["fixed-prefix:4".to_owned(), "x".repeat(255)],
                },
                filter_policy: None,
            }),
        }
    }

    fn decoded(properties: &TableProperties) -> Result<TableProperties, TableError> {
        let contents = Bytes::from(properties.encode().seal().clone());
        TableProperties::decode(&Block::open(contents, PLACE)?)
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
            level: None,
            range_filter: None,
            ..example()
        };
        assert_eq!(decoded(&empty).unwrap(), empty);
        let range_filter = RangeFilterProperties {
            handle: None,
            extractor: None,
            missing_because: Some(BuildReason::KeysOutOfOrder.to_string()),
        };
        let without = TableProperties { range_filter: Some(Box::new(range_filter)), ..example() };
        assert_eq!(decoded(&without).unwrap(), without);
    }

    #[test]
    fn a_level_that_no_store_has_is_none() {
        for value in [&b""[..], &[1; 4], &[0; 9], &[0, 0, 0, 0, 1, 0, 0, 0], &[0xff; 8]] {
            let mut block = BlockBuilder::new(16);
            block.add(b"level", Some(value));
            let block = Block::open(block.seal().clone().into(), PLACE).unwrap();
            let mut values = NamedValues { cursor: BlockCursor::new(&block), is_on_entry: false };
            values.advance().unwrap();
            assert_eq!(values.level("level").unwrap(), None, "{value:?}");
        }
    }

    #[test]
    fn the_names_of_parts_read_back_and_whole_keys_alone_take_no_bytes() {
        let names = |whole_keys, extractors: &[&str]| KeyPartNames {
            whole_keys,
            extractors: extractors.iter().map(|&name| name.to_owned()).collect(),
        };
        for parts in [names(true, &["a"]), names(false, &["a", "b:c"]), names(false, &[]), names(true, &["a", "b"])] {
            assert_eq!(KeyPartNames::decode(&parts.encode().unwrap()), Some(parts));
        }
        assert_eq!(KeyPartNames::WHOLE_KEYS.encode(), None);
        for malformed in [&b"\x02a"[..], b"\x01", b"\x01a\x00", b"\x00\x00", b"\x01\xff", b"\x00\x01a\x05"] {
            assert_eq!(KeyPartNames::decode(malformed), None, "{}", malformed.escape_ascii());
        }
    }

    #[test]
    fn parts_that_were_hashed_without_a_domain_are_no_parts_to_probe_for() {
        let mut block = BlockBuilder::new(PROPERTIES_RESTART_INTERVAL);
        let encoded = example().encode().seal().clone();
        let at = TableLocation { path: None, part: TablePart::Properties, offset: 0 };
        let encoded = Block::open(Bytes::from(encoded), at.clone()).unwrap();
        let mut cursor = BlockCursor::new(&encoded);
        while cursor.advance().unwrap() {
            match cursor.key() {
                b"key-parts" => block.add(b"key-extractor", Some(b"fixed-prefix:4")),
                name => block.add(name, cursor.value()),
            }
        }
        let read = TableProperties::decode(&Block::open(Bytes::from(block.seal().clone()), at).unwrap()).unwrap();
        assert_eq!(read.writer.key_parts, KeyPartNames::NONE);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let key = Some(Box::from(&b"zzz"[..]));
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
    fn a_range_overlaps_the_keys_exactly_if_it_contains_something_between_the_first_and_the_last() {
        let properties = TableProperties { smallest_key: Some(Box::from(&b"c"[..])), ..example() };
        let ends = [&b""[..], b"b", b"c", b"c\0", b"m", b"zebra", b"zebra\0", b"zz"];
        let bounds = |end| [Bound::Included(end), Bound::Excluded(end), Bound::Unbounded];
        for (lower, upper) in ends.iter().flat_map(|lower| ends.iter().map(move |upper| (*lower, *upper))) {
            for (lower, upper) in bounds(lower).into_iter().flat_map(|lower| bounds(upper).map(|upper| (lower, upper)))
            {
                let range = KeyRange { lower, upper };
                let between = [&b"c"[..], b"c\0", b"d", b"m", b"m\0", b"n", b"zebra"];
                let expected = between.iter().any(|key| range.contains(key));
                assert!(properties.overlaps(range) || !expected, "{range:?}");
                // Between `c` and `c\0` nothing fits, which the ends do not show.
                let is_gap = matches!((lower, upper), (Bound::Excluded(b"c"), Bound::Excluded(b"c\0")));
                assert!(!properties.overlaps(range) || expected || is_gap, "{range:?}");
            }
        }
    }

    #[test]
    fn the_range_includes_both_ends() {
        let range = |key: &[u8]| example().range_holds(key);
        assert!(range(b"") && range(b"m") && range(b"zebra"));
        assert!(!range(b"zebra\0"));
    }
}
