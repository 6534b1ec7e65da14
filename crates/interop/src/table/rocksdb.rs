//! RocksDB's block-based tables, read like RocksDB's `table/block_based/block_based_table_reader.cc`.

use sstfilter::RandomAccess;

use crate::error::{Error, Part};
use crate::format::footer::{Engine, Footer};
use crate::format::handle::BlockHandle;
use crate::format::properties::{Properties, name, number_switch};
use crate::format::row_block::Values;
use crate::table::file::TableFile;
use crate::table::layout::{DataLocation, FilterLocation, FullFilter, IndexLocation, Layout, NamedBlock};
use crate::table::partitions::{INTERNAL_SUFFIX_BYTES, Separators};
use crate::table::rules::{KeyRules, Order};

pub(crate) const PROPERTIES_BLOCK: &[u8] = b"rocksdb.properties";
pub(crate) const INDEX_BLOCK: &[u8] = b"rocksdb.index";
pub(crate) const DICTIONARY_BLOCK: &[u8] = b"rocksdb.compression_dict";
/// The names in RocksDB's tables, and in Pebble's tables in RocksDB's format.
pub(crate) const RANGE_TOMBSTONE_BLOCKS: [&[u8]; 3] =
    [b"rocksdb.range_del", b"rocksdb.range_del2", b"pebble.range_key"];

/// The policy name of all built-in filters, including Ribbon. Databases of `TiKV` have names that begin with it.
const BUILTIN_POLICY: &[u8] = b"rocksdb.BuiltinBloomFilter";
const FULL: &[u8] = b"fullfilter.";
const PARTITIONED: &[u8] = b"partitionedfilter.";
/// A filter per data block, removed in RocksDB 7, which still reads such tables without their filter.
const PER_DATA_BLOCK: &[u8] = b"filter.";

/// Bytes of a global sequence number, a fixed-width integer.
const SEQUENCE_NUMBER_BYTES: usize = 8;
/// Sequence numbers have 56 bits; the lowest eight of the 64 are an entry's type.
const MAX_SEQUENCE_NUMBER: u64 = (1 << 56) - 1;

pub(crate) fn layout<R: RandomAccess>(file: &TableFile<R>, footer: &Footer, metaindex: Vec<NamedBlock>) -> Layout {
    let properties = read_properties(file, &metaindex);
    let is_checked = footer.checksums.kind != crate::ChecksumType::None;
    let of_properties = properties.as_ref().map_err(Clone::clone);
    let index = of_properties.clone().and_then(|properties| index_place(properties, footer, &metaindex));
    let rules =
        of_properties.clone().and_then(|properties| KeyRules::of_table(Engine::RocksDb, properties, is_checked, None));
    let place = |is_known| of_properties.clone().and_then(|properties| filter_place(properties, &metaindex, is_known));
    let (filter, any_policy) = (place(is_known as fn(&[u8]) -> bool), place(|_| true));
    let unconfirmed = any_policy.ok().filter(|_| filter.is_err());
    let data = of_properties.and_then(|properties| data_place(properties, index?, footer, &metaindex));
    let has_range_tombstones = RANGE_TOMBSTONE_BLOCKS.iter().any(|name| Layout::named(&metaindex, name).is_some());
    Layout { engine: Engine::RocksDb, metaindex, properties, filter, unconfirmed, rules, data, has_range_tombstones }
}

/// Reads the properties. Their checksum may be from before the file was ingested: RocksDB used to overwrite the eight
/// zero bytes of a property with the sequence number of all keys, and left the checksum (`ReadTablePropertiesHelper`).
pub(crate) fn read_properties<R: RandomAccess>(
    file: &TableFile<R>,
    metaindex: &[NamedBlock],
) -> Result<Properties, Error> {
    let part = Part::Properties;
    let Some(handle) = Layout::named(metaindex, PROPERTIES_BLOCK) else {
        return Err(Error::malformed(Part::Metaindex, 0, "expected a block of properties, got none"));
    };
    let parse =
        |contents: &[u8]| Properties::parse(contents).map_err(|problem| Error::malformed(part, handle.offset, problem));
    match file.checked(handle, part) {
        Ok(sound) => parse(&sound.plain()?),
        Err(damage) => before_ingestion(file, handle).and_then(|contents| parse(&contents).ok()).ok_or(damage),
    }
}

/// Returns the contents of a properties block whose checksum holds once the global sequence number is zero again.
fn before_ingestion<R: RandomAccess>(file: &TableFile<R>, handle: BlockHandle) -> Option<Vec<u8>> {
    let mut block = file.stored(handle, Part::Properties).ok()?;
    let contents = block.contents_mut();
    let number = global_sequence_number(contents)?;
    // The caller gets the number as stored; only the checksum is compared with zeros.
    let ingested = contents.to_vec();
    contents.get_mut(number)?.fill(0);
    block.checked(file.checksums).ok()?.plain().ok()?;
    Some(ingested)
}

/// Locates the global sequence number in bytes that may be damaged.
fn global_sequence_number(contents: &[u8]) -> Option<core::ops::Range<usize>> {
    let properties = Properties::parse(contents).ok()?;
    // A larger number has damage in its highest byte. Damage to the lower 56 bits cannot be found in such tables.
    properties.global_sequence_number().filter(|&number| number <= MAX_SEQUENCE_NUMBER)?;
    let value = properties.raw(name::GLOBAL_SEQUENCE_NUMBER)?;
    // A row block stores only the bytes that a name does not share with the one before. This suffix is always among
    // them, followed by the value, and occurs once.
    let suffix = b"global_seqno";
    let needle = [suffix.as_slice(), value].concat();
    let start = contents.windows(needle.len()).position(|window| window == needle)? + suffix.len();
    Some(start..start + SEQUENCE_NUMBER_BYTES)
}

/// Tables of `TiKV` had the second name for a while.
fn is_known(policy: &[u8]) -> bool {
    policy.strip_prefix(BUILTIN_POLICY).is_some_and(|rest| rest.is_empty() || rest == b".FullBloom")
}

fn filter_place(
    properties: &Properties,
    metaindex: &[NamedBlock],
    is_known: fn(&[u8]) -> bool,
) -> Result<FilterLocation, Error> {
    let unsupported = |what: String| Err(Error::unsupported(Part::Metaindex, what));
    let mut places = Vec::new();
    for NamedBlock { name, handle } in metaindex {
        let Some((kind, policy)) = filter_name(name) else { continue };
        if kind == PER_DATA_BLOCK {
            return unsupported("a filter per data block, which RocksDB 7 removed,".into());
        }
        if !is_known(policy) {
            return unsupported(format!("a filter of the policy \"{}\"", policy.escape_ascii()));
        }
        let is_full = kind == FULL;
        let full = FilterLocation::Full(*handle, FullFilter::RocksDb);
        places.push(if is_full { full } else { partitioned(properties, *handle)? });
    }
    match places.as_slice() {
        [] => Err(Error::NoFilter),
        [place] => Ok(*place),
        // RocksDB writes one. With two, it is unknown which of them contains all keys.
        _ => unsupported(format!("a table with {} filters", places.len())),
    }
}

/// Splits a metaindex name into a filter's kind and policy. Returns `None` for other blocks.
fn filter_name(name: &[u8]) -> Option<(&'static [u8], &[u8])> {
    [FULL, PARTITIONED, PER_DATA_BLOCK].into_iter().find_map(|kind| Some((kind, name.strip_prefix(kind)?)))
}

fn partitioned(properties: &Properties, handle: BlockHandle) -> Result<FilterLocation, Error> {
    // An unknown index type may also change the index of partitions.
    index_type(properties)?;
    let order = Order::of_table(properties)?;
    let suffix_bytes = timestamp_bytes(properties, order)? + separator_suffix_bytes(properties)?;
    // The index of partitions never contains first keys, even if the data blocks' index does.
    let values = index_values(properties, false)?;
    Ok(FilterLocation::Partitioned(handle, Separators { order, suffix_bytes, values }))
}

fn separator_suffix_bytes(properties: &Properties) -> Result<usize, Error> {
    Ok(if number_switch(properties, name::INDEX_KEY_IS_USER_KEY, false)? { 0 } else { INTERNAL_SUFFIX_BYTES })
}

/// Returns the length of stored timestamps. They are stored unless the table says otherwise.
fn timestamp_bytes(properties: &Properties, order: Order) -> Result<usize, Error> {
    Ok(if number_switch(properties, name::TIMESTAMPS_PERSISTED, true)? { order.timestamp_bytes } else { 0 })
}

fn index_values(properties: &Properties, with_first_key: bool) -> Result<Values, Error> {
    let delta = number_switch(properties, name::INDEX_VALUE_IS_DELTA_ENCODED, false)?;
    Ok(if delta { Values::DeltaHandles { with_first_key } } else { Values::Sized })
}

/// RocksDB's `BlockBasedTableOptions::IndexType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexType {
    /// Also the type with an additional hash table.
    Plain,
    TwoLevels,
    WithFirstKeys,
}

fn index_type(properties: &Properties) -> Result<IndexType, Error> {
    match properties.index_type() {
        Some(0 | 1) => Ok(IndexType::Plain),
        Some(2) => Ok(IndexType::TwoLevels),
        Some(3) => Ok(IndexType::WithFirstKeys),
        Some(other) => Err(Error::unsupported(Part::Index, format!("index type {other}"))),
        // Before format version 2 there was one type, and no property.
        None if properties.raw(name::INDEX_TYPE).is_none() => Ok(IndexType::Plain),
        None => Err(Error::unsupported(Part::Index, "an index type that is not a number")),
    }
}

fn index_place(properties: &Properties, footer: &Footer, metaindex: &[NamedBlock]) -> Result<IndexLocation, Error> {
    let kind = index_type(properties)?;
    let handle = footer.index.or_else(|| Layout::named(metaindex, INDEX_BLOCK)).ok_or_else(|| {
        let problem = "expected the handle of the index, got none";
        Error::malformed(Part::Metaindex, footer.metaindex.offset, problem)
    })?;
    let values = index_values(properties, kind == IndexType::WithFirstKeys)?;
    Ok(IndexLocation { handle, two_levels: kind == IndexType::TwoLevels, values })
}

fn data_place(
    properties: &Properties,
    index: IndexLocation,
    footer: &Footer,
    metaindex: &[NamedBlock],
) -> Result<DataLocation, Error> {
    // For an unknown order, the length of timestamps is unknown; keys are listed with them.
    let timestamp_bytes = Order::of_table(properties).map_or(Ok(0), |order| timestamp_bytes(properties, order))?;
    if footer.format_version >= 7 {
        built_in_codecs(properties)?;
    }
    let has_dictionary = Layout::named(metaindex, DICTIONARY_BLOCK).is_some_and(|handle| handle.size > 0);
    Ok(DataLocation { index, suffix_bytes: timestamp_bytes + INTERNAL_SUFFIX_BYTES, max_type: u8::MAX, has_dictionary })
}

/// Refuses unknown codec numbers. From format version 7 on, a "compression manager" numbers them; the table names it
/// before a semicolon.
fn built_in_codecs(properties: &Properties) -> Result<(), Error> {
    let manager = properties.compression().and_then(|list| list.split(';').next()).unwrap_or_default();
    if ["", "nullptr", "BuiltinV2"].contains(&manager) {
        return Ok(());
    }
    Err(Error::unsupported(Part::Properties, format!("compression manager \"{}\"", manager.escape_debug())))
}

#[cfg(test)]
mod tests {
    use super::{IndexType, Properties, built_in_codecs, index_type, name};

    #[test]
    fn an_index_type_is_one_that_is_known_or_an_error_and_a_missing_one_is_the_plain_one() {
        let of = |value: &[u8]| index_type(&Properties::from_pairs(vec![(name::INDEX_TYPE.into(), value.into())]));
        assert_eq!(index_type(&Properties::EMPTY), Ok(IndexType::Plain));
        let known = [IndexType::Plain, IndexType::Plain, IndexType::TwoLevels, IndexType::WithFirstKeys];
        for (number, expected) in (0..).zip(known) {
            assert_eq!(of(&[number, 0, 0, 0]), Ok(expected), "{number}");
        }
        for unknown in [&[][..], &[2], &[2, 0, 0], &[2, 0, 0, 0, 0], &[4, 0, 0, 0], &[0, 0, 0, 1]] {
            assert!(of(unknown).is_err(), "{unknown:?}");
        }
    }

    #[test]
    fn control_characters_of_a_compression_manager_are_shown_escaped() {
        let compression = |value: &[u8]| Properties::from_pairs(vec![(name::COMPRESSION.into(), value.into())]);
        assert_eq!(built_in_codecs(&compression(b"BuiltinV2;01;")), Ok(()));
        let error = built_in_codecs(&compression(b"\x1b[2J;01;")).expect_err("no manager of that name");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }
}
