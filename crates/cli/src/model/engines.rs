//! Describes tables of RocksDB, LevelDB and Pebble.

use serde_json::json;
use sstfilter_interop::{ChecksumType, Engine, Error, FilterInfo, FilterKind, FilterUnit, KeyCoverage, PropertyValue};
use sstfilter_store::FilterPart;

use super::file::{Contents, EngineReport, FileReport, FilterReport, PartReport, Place};
use super::filters::{number_or_text, open};
use super::judge::of_bloom;
use crate::file::database::Standing;
use crate::file::open::{ForeignTable, Opened, Origin, StatedComparator};
use crate::file::problem::{State, in_options, state_of_error};
use crate::print::types::{Bits, Bytes as Length, Key, Open, Rate};
use crate::words::units::bytes as with_unit;

/// The first format version whose footer has a checksum: 6 of RocksDB, and 6 of Pebble.
const FOOTER_CHECKSUM_VERSION: u32 = 6;

/// Names of filter blocks in the metaindex, up to the policy's name.
const FILTER_NAMES: [&[u8]; 3] = [b"fullfilter.", b"partitionedfilter.", b"filter."];

pub(super) fn of_foreign(
    report: &mut FileReport,
    table: &ForeignTable,
    stated: Option<&StatedComparator>,
    opened: &Opened,
) {
    let properties = table.properties();
    // The name in the table takes precedence over a stated one, as in the reader.
    let stated = stated.map(|stated| (stated.name.as_str(), stated.from));
    let (comparator, comparator_from) = properties.comparator().map(|name| (name, Origin::Table)).or(stated).unzip();
    let bounds = match &opened.found.standing {
        Standing::Live(file) if table.bounds(file).is_some() => Some([&file.smallest, &file.largest]),
        _ => None,
    };
    // Without the sequence number and the type.
    let [smallest, largest] = [0, 1].map(|end| Some(Key(bounds?[end].split_last_chunk::<8>()?.0.to_vec())));
    report.contents = Contents {
        entries: properties.entries(),
        tombstones: properties.deletions(),
        range_tombstones: properties.range_deletions(),
        has_range_tombstones: Some(table.has_range_tombstones()),
        bounds_from: smallest.is_some().then_some(Origin::Manifest),
        smallest_key: smallest,
        largest_key: largest,
        comparator: comparator.map(str::to_owned),
        comparator_from,
        raw_key_bytes: properties.raw_key_bytes().map(Length),
        raw_value_bytes: properties.raw_value_bytes().map(Length),
        file_id: None,
    };
    report.engine = Some(EngineReport {
        engine_name: table.engine().name().to_owned(),
        format_version: Some(table.format_version()).filter(|version| *version > 0),
        checksum_type: table.checksum_type().name().to_owned(),
        compression: properties.compression().map(codecs),
        data_blocks: properties.data_blocks(),
        data_bytes: properties.data_bytes().map(Length),
        index_bytes: properties.index_bytes().map(Length),
    });
    // It counts besides that of the filter: a sound filter does not make up for damaged properties.
    if let Err(problem) = table.checked_properties() {
        report.blame(state_of_error(problem), Some("properties"), in_options(problem));
    }
    let info = table.filter_info();
    report.parts = foreign_parts(table, info.as_ref().err());
    let json_of = |value| match value {
        PropertyValue::Number(number) => json!(number),
        PropertyValue::Text(text) => json!(text),
        other => json!({ "hex": other.to_string() }),
    };
    report.properties = Open(properties.readable().map(|(name, value)| (name, json_of(value))).collect());
    match info {
        Ok(info) => report.filters.push(of_info(table, &info, &report.place)),
        Err(Error::NoFilter) => {}
        Err(problem) => {
            let state = state_of_error(&problem);
            report.filters.push(FilterReport::unknown(FilterPart::Points, 0, state, in_options(&problem)));
        }
    }
}

/// Returns the names of a filter's kinds.
pub(super) fn kinds_of(info: &FilterInfo) -> String {
    // LevelDB's blocks without keys count as a kind only if there are no other blocks.
    let counts = |kind: FilterKind| info.kinds.len() == 1 || kind != FilterKind::NoKeys;
    let kinds: Vec<_> = info.kinds.iter().filter(|(kind, _)| counts(*kind)).map(|(kind, _)| kind.name()).collect();
    if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
}

fn of_info(table: &ForeignTable, info: &FilterInfo, place: &Place) -> FilterReport {
    let policy = table.properties().filter_policy().filter(|policy| !policy.is_empty());
    let (state, fallback) = of_bloom(policy, info, place.level).unzip();
    let is_one = info.blocks == 1 && info.unit == FilterUnit::Table;
    let blocks = |bytes: u64| (!is_one).then_some(Length(bytes));
    FilterReport {
        kind: kinds_of(info),
        requested: fallback.as_ref().map(|_| FilterKind::Ribbon128.name().to_owned()),
        fallback,
        policy: policy.map(str::to_owned),
        state: state.unwrap_or_default(),
        keys: info.keys,
        filter_bytes: Length(info.bytes),
        bits_per_key: info.bits_per_key().map(Bits),
        expected_fpr: info.expected_fpr.map(Rate),
        holds: Some(match &info.coverage {
            KeyCoverage::WholeKeys => "whole keys".to_owned(),
            KeyCoverage::Prefixes(extractor) => format!("prefixes by {extractor}, no whole keys"),
            KeyCoverage::WholeKeysAndPrefixes(extractor) => format!("whole keys, and prefixes by {extractor}"),
            _ => "unknown".to_owned(),
        }),
        unit: Some(match info.unit {
            FilterUnit::Partition => "a partition".to_owned(),
            FilterUnit::DataBlocks { bytes } => format!("{} of data blocks", with_unit(bytes)),
            _ => "the table".to_owned(),
        }),
        partitions: (!is_one).then_some(info.blocks as u64),
        min_partition_bytes: blocks(info.block_bytes.min),
        mean_partition_bytes: blocks(info.block_bytes.mean),
        max_partition_bytes: blocks(info.block_bytes.max),
        shape: open(info.parameters.iter().map(|(name, value)| (*name, number_or_text(value)))),
        ..FilterReport::default()
    }
    // Any key shows whether the filter can answer.
    .with_problem(State::Unusable, table.try_probe(b"").err().map(|why| in_options(&why)))
}

/// Returns the footer, the metaindex and the blocks that it names. Opening the table has checked the first two.
fn foreign_parts(table: &ForeignTable, filter_problem: Option<&Error>) -> Vec<PartReport> {
    let has_checksums = table.checksum_type() != ChecksumType::None;
    let checksum = |is_checked: bool, problem: Option<&Error>| match problem {
        Some(problem) if state_of_error(problem) >= State::Damaged => problem.to_string(),
        Some(_) => "not read".to_owned(),
        _ if is_checked && has_checksums => "sound".to_owned(),
        _ => "none".to_owned(),
    };
    let footer_is_checked = table.engine() != Engine::LevelDb && table.format_version() >= FOOTER_CHECKSUM_VERSION;
    let opened = |part: &str, is_checked| PartReport {
        part: part.to_owned(),
        checksum: Some(checksum(is_checked, None)),
        ..PartReport::default()
    };
    let named = table.named_blocks().map(|(name, handle)| {
        let state = if FILTER_NAMES.iter().any(|start| name.starts_with(start)) {
            checksum(true, filter_problem)
        } else if name.ends_with(b".properties") {
            checksum(true, table.checked_properties().err())
        } else {
            "not read".to_owned()
        };
        PartReport {
            part: String::from_utf8_lossy(name).into_owned(),
            offset: Some(handle.offset),
            part_bytes: Some(Length(handle.size)),
            checksum: Some(state),
        }
    });
    [opened("footer", footer_is_checked), opened("metaindex", true)].into_iter().chain(named).collect()
}

/// Returns the codecs of data blocks. From format version 7 on, RocksDB stores the name of a compression manager and
/// the numbers of the codecs in use, two hexadecimal digits each, with a semicolon after both (`CompressionType` has
/// the numbers).
fn codecs(stored: &str) -> String {
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
            assert_eq!(codecs(stored), shown);
        }
    }
}
