//! Table properties: the names and values of RocksDB's properties block (`table/table_properties.cc`,
//! `table/meta_blocks.cc`), which Pebble also writes.

use crate::error::{Error, Part};
use crate::format::cursor::Cursor;
use crate::format::row_block::{RowBlock, Value, Values};

/// Names of properties that filters or keys depend on.
pub(crate) mod name {
    pub(crate) const COLUMN_FAMILY_ID: &str = "rocksdb.column.family.id";
    pub(crate) const COLUMN_FAMILY_NAME: &str = "rocksdb.column.family.name";
    pub(crate) const COMPARATOR: &str = "rocksdb.comparator";
    pub(crate) const COMPRESSION: &str = "rocksdb.compression";
    pub(crate) const CREATING_DATABASE: &str = "rocksdb.creating.db.identity";
    pub(crate) const CREATING_SESSION: &str = "rocksdb.creating.session.identity";
    pub(crate) const DATA_BLOCKS: &str = "rocksdb.num.data.blocks";
    pub(crate) const DATA_BYTES: &str = "rocksdb.data.size";
    pub(crate) const DELETIONS: &str = "rocksdb.deleted.keys";
    pub(crate) const ENTRIES: &str = "rocksdb.num.entries";
    pub(crate) const FILTER_BYTES: &str = "rocksdb.filter.size";
    pub(crate) const FILTER_ENTRIES: &str = "rocksdb.num.filter_entries";
    pub(crate) const FILTER_POLICY: &str = "rocksdb.filter.policy";
    pub(crate) const GLOBAL_SEQUENCE_NUMBER: &str = "rocksdb.external_sst_file.global_seqno";
    pub(crate) const INDEX_BYTES: &str = "rocksdb.index.size";
    pub(crate) const INDEX_KEY_IS_USER_KEY: &str = "rocksdb.index.key.is.user.key";
    pub(crate) const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
    pub(crate) const INDEX_VALUE_IS_DELTA_ENCODED: &str = "rocksdb.index.value.is.delta.encoded";
    pub(crate) const ORIGINAL_FILE_NUMBER: &str = "rocksdb.original.file.number";
    pub(crate) const PREFIX_EXTRACTOR: &str = "rocksdb.prefix.extractor.name";
    pub(crate) const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
    pub(crate) const RANGE_DELETIONS: &str = "rocksdb.num.range-deletions";
    pub(crate) const RAW_KEY_BYTES: &str = "rocksdb.raw.key.size";
    pub(crate) const RAW_VALUE_BYTES: &str = "rocksdb.raw.value.size";
    pub(crate) const TIMESTAMPS_PERSISTED: &str = "rocksdb.user.defined.timestamps.persisted";
    pub(crate) const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
}

/// Properties whose values are varints. Their bytes look like text, so only the name identifies them.
const NUMBERS: &[&str] = &[
    name::COLUMN_FAMILY_ID,
    name::DATA_BLOCKS,
    name::DATA_BYTES,
    name::DELETIONS,
    name::ENTRIES,
    name::FILTER_BYTES,
    name::FILTER_ENTRIES,
    name::INDEX_BYTES,
    name::INDEX_KEY_IS_USER_KEY,
    name::INDEX_VALUE_IS_DELTA_ENCODED,
    name::ORIGINAL_FILE_NUMBER,
    name::RANGE_DELETIONS,
    name::RAW_KEY_BYTES,
    name::RAW_VALUE_BYTES,
    name::TIMESTAMPS_PERSISTED,
    "rocksdb.creation.time",
    "rocksdb.data.block.restart.interval",
    "rocksdb.file.creation.time",
    "rocksdb.fixed.key.length",
    "rocksdb.format.version",
    "rocksdb.index.block.restart.interval",
    "rocksdb.index.partitions",
    "rocksdb.key.largest.seqno",
    "rocksdb.key.smallest.seqno",
    "rocksdb.merge.operands",
    "rocksdb.newest.key.time",
    "rocksdb.num.data.blocks.compression.bypassed",
    "rocksdb.num.data.blocks.compression.rejected",
    "rocksdb.num.uniform.blocks",
    "rocksdb.oldest.key.time",
    "rocksdb.sample_for_compression.fast.data.size",
    "rocksdb.sample_for_compression.slow.data.size",
    "rocksdb.separate.key.value.in.data.block",
    "rocksdb.tail.start.offset",
    "rocksdb.top-level.index.size",
    "rocksdb.udi.is.primary.index",
];

/// A property's value for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PropertyValue {
    /// A count, a size in bytes, or a time in seconds since 1970.
    Number(u64),
    /// A name, a list, or a switch (`1` or `0`).
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl core::fmt::Display for PropertyValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// A table's properties. LevelDB's tables have none.
///
/// Methods return `None` if a property is missing or its value does not have its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Names and values, in the order of their names.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

macro_rules! numbers {
    ($($(#[$doc:meta])+ $method:ident: $name:ident;)+) => {
        impl Properties {
            $($(#[$doc])+ #[must_use] pub fn $method(&self) -> Option<u64> { self.number(name::$name) })+
        }
    };
}

numbers! {
    /// Entries of data blocks: each version of a key, deletions, and merge operands.
    entries: ENTRIES;
    /// Deletions among the entries.
    deletions: DELETIONS;
    /// Range tombstones.
    range_deletions: RANGE_DELETIONS;
    /// Keys and prefixes that were added to the filter. RocksDB counts them since version 6.27.
    filter_entries: FILTER_ENTRIES;
    /// Bytes of all filter blocks, without their trailers.
    filter_bytes: FILTER_BYTES;
    /// Data blocks.
    data_blocks: DATA_BLOCKS;
    /// Bytes of all data blocks, as stored.
    data_bytes: DATA_BYTES;
    /// Bytes of all index blocks.
    index_bytes: INDEX_BYTES;
    /// Bytes of all keys, uncompressed, each with eight bytes of sequence number and type.
    raw_key_bytes: RAW_KEY_BYTES;
    /// Bytes of all values, uncompressed.
    raw_value_bytes: RAW_VALUE_BYTES;
}

impl Properties {
    /// The properties of a table that has none.
    pub(crate) const EMPTY: Self = Self { pairs: Vec::new() };

    /// Parses the contents of a properties block. Names must ascend, which RocksDB also demands.
    pub(crate) fn parse(contents: &[u8]) -> Result<Self, String> {
        let mut entries = RowBlock::parse(contents)?.entries(Values::Sized);
        let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        while let Some(entry) = entries.next() {
            let (name, value) = entry?;
            if pairs.last().is_some_and(|(last, _)| last.as_slice() >= name) {
                return Err(format!("expected names in ascending order, got \"{}\"", name.escape_ascii()));
            }
            if let Value::Bytes(value) = value {
                pairs.push((name.to_vec(), value.to_vec()));
            }
        }
        Ok(Self { pairs })
    }

    /// Collects the properties of a format that is not a row block, in any order.
    pub(crate) fn from_pairs(mut pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        pairs.sort_unstable();
        Self { pairs }
    }

    /// Returns a stored value.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&[u8]> {
        let found = self.pairs.binary_search_by(|(candidate, _)| candidate.as_slice().cmp(name.as_bytes())).ok()?;
        self.pairs.get(found).map(|(_, value)| value.as_slice())
    }

    /// Returns a value that is exactly one varint.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let mut cursor = Cursor::new(self.raw(name)?);
        let number = cursor.varint64()?;
        cursor.rest().is_empty().then_some(number)
    }

    /// Returns a value that is UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.raw(name)?).ok()
    }

    /// Returns the name of the keys' order: `leveldb.BytewiseComparator` by default.
    #[must_use]
    pub fn comparator(&self) -> Option<&str> {
        self.text(name::COMPARATOR)
    }

    /// Returns the filter policy in the table's options: `bloomfilter`, `ribbonfilter`, `rocksdb.BuiltinBloomFilter`,
    /// or nothing for no filter.
    #[must_use]
    pub fn filter_policy(&self) -> Option<&str> {
        self.text(name::FILTER_POLICY).filter(|policy| !policy.is_empty())
    }

    /// Returns the name of the prefix extractor, such as `rocksdb.FixedPrefix.3`.
    #[must_use]
    pub fn prefix_extractor(&self) -> Option<&str> {
        self.text(name::PREFIX_EXTRACTOR).filter(|extractor| !extractor.is_empty() && *extractor != "nullptr")
    }

    /// Returns the codec of data blocks; from format version 7 on, a list of codec numbers.
    #[must_use]
    pub fn compression(&self) -> Option<&str> {
        self.text(name::COMPRESSION)
    }

    /// Returns the sequence number that all entries got when the table was ingested.
    #[must_use]
    pub fn global_sequence_number(&self) -> Option<u64> {
        Some(u64::from_le_bytes(self.raw(name::GLOBAL_SEQUENCE_NUMBER)?.try_into().ok()?))
    }

    /// Returns the number and the name of the column family that the table was written for: `default` has number 0. A
    /// table that RocksDB wrote outside a database, to be ingested, names none.
    #[must_use]
    pub fn column_family(&self) -> Option<(u32, &str)> {
        let id = self.number(name::COLUMN_FAMILY_ID)?.try_into().ok()?;
        let name = self.text(name::COLUMN_FAMILY_NAME).filter(|name| !name.is_empty())?;
        Some((id, name))
    }

    /// Whether they name the table's first database, its session, and the file's number in it: RocksDB's unique id.
    pub(crate) fn has_identity(&self) -> bool {
        let is_named = |name| self.raw(name).is_some_and(|value| !value.is_empty());
        is_named(name::CREATING_DATABASE)
            && is_named(name::CREATING_SESSION)
            && self.number(name::ORIGINAL_FILE_NUMBER) > Some(0)
    }

    /// Returns the type of the data blocks' index, a number of RocksDB's `IndexType`.
    pub(crate) fn index_type(&self) -> Option<u32> {
        Some(u32::from_le_bytes(self.raw(name::INDEX_TYPE)?.try_into().ok()?))
    }

    /// Returns all stored names and values, in the order of the names.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Returns all properties for display, in the order of the names.
    ///
    /// Names and values contain no control characters: a name that has one, or is not UTF-8, is escaped.
    ///
    /// The bytes do not show whether a value is a number. It counts as one if RocksDB 11.8 stores a number under that
    /// name.
    pub fn readable(&self) -> impl Iterator<Item = (String, PropertyValue)> {
        self.pairs.iter().map(|(name, value)| {
            // A forged name must not reach a terminal unescaped.
            let name = readable_text(name).map_or_else(|| name.escape_ascii().to_string(), str::to_owned);
            let value = self.readable_value(&name, value);
            (name, value)
        })
    }

    fn readable_value(&self, name: &str, value: &[u8]) -> PropertyValue {
        let number = match name {
            name::INDEX_TYPE => self.index_type().map(u64::from),
            name::GLOBAL_SEQUENCE_NUMBER => self.global_sequence_number(),
            _ if NUMBERS.contains(&name) => self.number(name),
            _ => None,
        };
        match (number, readable_text(value)) {
            (Some(number), _) => PropertyValue::Number(number),
            (None, Some(text)) => PropertyValue::Text(text.into()),
            _ => PropertyValue::Bytes(value.to_vec()),
        }
    }
}

/// Returns UTF-8 without control characters, which a terminal would execute.
fn readable_text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

/// Reads a switch whose value is `1` or `0`. A missing one is on, by RocksDB's rule (`IsFeatureSupported`).
pub(crate) fn switch(properties: &Properties, name: &str) -> Result<bool, Error> {
    match properties.raw(name) {
        None | Some(b"1") => Ok(true),
        Some(b"0") => Ok(false),
        Some(other) => Err(unknown(name, other)),
    }
}

/// Reads a switch that is stored as a number. Returns `missing` if there is none.
pub(crate) fn number_switch(properties: &Properties, name: &str, missing: bool) -> Result<bool, Error> {
    match (properties.raw(name), properties.number(name)) {
        (None, _) => Ok(missing),
        (_, Some(0)) => Ok(false),
        (_, Some(1)) => Ok(true),
        (Some(other), _) => Err(unknown(name, other)),
    }
}

fn unknown(name: &str, value: &[u8]) -> Error {
    Error::unsupported(Part::Properties, format!("{name} = \"{}\"", value.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::{Properties, PropertyValue, name, number_switch, switch};

    fn properties(pairs: &[(&str, &[u8])]) -> Properties {
        Properties::from_pairs(pairs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect())
    }

    #[test]
    fn values_are_read_by_their_type() {
        let table =
            properties(&[(name::ENTRIES, &[0x80, 0x01]), (name::COMPARATOR, b"c"), (name::INDEX_TYPE, &[2, 0, 0, 0])]);
        assert_eq!((table.entries(), table.comparator(), table.index_type()), (Some(128), Some("c"), Some(2)));
        assert_eq!((table.filter_entries(), table.number(name::COMPARATOR)), (None, Some(99)));
        let readable: Vec<_> = table.readable().map(|(_, value)| value).collect();
        let text = PropertyValue::Text("c".into());
        assert_eq!(readable, [PropertyValue::Number(2), text, PropertyValue::Number(128)]);
    }

    #[test]
    fn a_sequence_number_is_shown_as_the_number_that_its_bytes_are() {
        let shown = |value: &[u8]| {
            let table = properties(&[(name::GLOBAL_SEQUENCE_NUMBER, value)]);
            let readable = table.readable().next().map(|(_, value)| value);
            (table.global_sequence_number(), readable.expect("a property"))
        };
        assert_eq!(shown(&[7, 1, 0, 0, 0, 0, 0, 0]), (Some(263), PropertyValue::Number(263)));
        assert_eq!(shown(&[7, 1, 0]), (None, PropertyValue::Bytes(vec![7, 1, 0])), "too short");
    }

    #[test]
    fn an_extractor_or_a_filter_policy_of_no_name_is_none() {
        let extractor =
            |stored: &[u8]| properties(&[(name::PREFIX_EXTRACTOR, stored)]).prefix_extractor().map(str::to_owned);
        assert_eq!([b"".as_slice(), b"nullptr"].map(extractor), [None, None]);
        assert_eq!(extractor(b"rocksdb.Noop").as_deref(), Some("rocksdb.Noop"));
        let policy = |stored: &[u8]| properties(&[(name::FILTER_POLICY, stored)]).filter_policy().map(str::to_owned);
        assert_eq!((policy(b""), policy(b"ribbonfilter").as_deref()), (None, Some("ribbonfilter")));
    }

    #[test]
    fn a_column_family_has_a_number_and_a_name() {
        let family = |id: &[u8], called: &[u8]| {
            let table = properties(&[(name::COLUMN_FAMILY_ID, id), (name::COLUMN_FAMILY_NAME, called)]);
            table.column_family().map(|(id, name)| (id, name.to_owned()))
        };
        assert_eq!(family(&[0], b"default"), Some((0, "default".into())));
        // The number that RocksDB writes if it knows no family: 2^31 - 1.
        assert_eq!(family(&[0xff, 0xff, 0xff, 0xff, 7], b""), None);
        assert_eq!(family(&[0x80, 0x80, 0x80, 0x80, 0x10], b"too many bits"), None);
        assert_eq!(properties(&[]).column_family(), None);
    }

    #[test]
    fn a_switch_is_on_off_or_not_known() {
        let on = properties(&[]);
        assert_eq!(switch(&on, name::WHOLE_KEY_FILTERING), Ok(true));
        let off = properties(&[(name::WHOLE_KEY_FILTERING, b"0"), (name::INDEX_KEY_IS_USER_KEY, &[0])]);
        assert_eq!(switch(&off, name::WHOLE_KEY_FILTERING), Ok(false));
        assert_eq!(number_switch(&off, name::INDEX_KEY_IS_USER_KEY, true), Ok(false));
        let other = properties(&[(name::WHOLE_KEY_FILTERING, b"2"), (name::INDEX_KEY_IS_USER_KEY, &[2])]);
        assert!(switch(&other, name::WHOLE_KEY_FILTERING).is_err());
        assert!(number_switch(&other, name::INDEX_KEY_IS_USER_KEY, true).is_err());
    }

    #[test]
    fn names_out_of_order_are_an_error() {
        let block = [&[0, 1, 0, b'b', 0, 1, 0, b'a'][..], &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        assert!(Properties::parse(&block).is_err());
    }
}
