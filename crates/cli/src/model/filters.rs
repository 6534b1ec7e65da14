//! Describes filters in blocks of this library: of keys, of ranges, in partitions, and in layers.

use serde_json::{Map, Value, json};
use sstfilter::{Domain, FallbackReason, FilterBlock, KindId};
use sstfilter_range::{RangeInfo, RangeMap};
use sstfilter_store::{FilterPart, PartitionCut};

use super::file::{FilterReport, RangeRate};
use super::keys::id_text;
use crate::file::blocks::{Layers, Partitions, RangeBlock};
use crate::file::problem::{State, in_options};
use crate::print::types::{Bits, Bytes as Length, Open, Rate};
use crate::words::units::{counted, grouped};

impl FilterReport {
    /// Returns the report of a filter of which nothing is known but a problem.
    pub(super) fn unknown(part: FilterPart, length: u64, state: State, why: String) -> Self {
        let kind = if part == FilterPart::Ranges { KindId::RANGE.name() } else { "unknown" };
        let filter = Self { kind: kind.to_owned(), filter_bytes: Length(length), ..Self::default() };
        filter.with_problem(state, Some(why))
    }

    /// Adds a problem, if there is one, unless a worse one is known.
    pub(super) fn with_problem(self, state: State, why: Option<String>) -> Self {
        match why {
            Some(why) if state > self.state => Self { state, reason: Some(why), ..self },
            _ => self,
        }
    }
}

pub(super) fn of_block<D: AsRef<[u8]>>(block: &FilterBlock<D>, names: &[&str]) -> FilterReport {
    let info = block.info();
    let (kind, requested) = (info.kind.name(), info.requested.name());
    let is_few = info.reason == FallbackReason::TooFewKeys;
    let why = if is_few {
        format!("{kind}, because the file has {} for {requested}", info.reason)
    } else {
        format!("not {requested}: {}", info.reason)
    };
    let problem = block.verify().err().map(|problem| in_options(&problem));
    FilterReport {
        kind: kind.to_owned(),
        requested: Some(requested.to_owned()),
        fallback: (kind != requested).then_some(why),
        state: if kind == requested || is_few { State::Ok } else { State::Fallback },
        keys: Some(info.keys),
        filter_bytes: Length(info.block_bytes),
        bits_per_key: (info.keys > 0).then(|| Bits(info.bits_per_key())),
        expected_fpr: Some(Rate(info.expected_fpr)),
        holds: Some(holds(info.whole_keys, info.extractors.iter().copied(), names)),
        hash: Some(info.hash.to_string()),
        salt: Some(info.salt.to_string()),
        bound_to: info.file.map(id_text),
        format_version: Some(info.format_version.into()),
        payload_bytes: Some(Length(info.payload_bytes)),
        checksum: Some(problem.clone().unwrap_or_else(|| "sound".to_owned())),
        fill_ratio: block.fill_ratio().map(Rate),
        shape: open(info.shape.iter().map(|(name, value)| (*name, number_or_text(value)))),
        ..FilterReport::default()
    }
    .with_problem(State::Damaged, problem)
}

pub(super) fn of_partitions(partitions: &Partitions<'_>, names: &[&str]) -> FilterReport {
    let (index, blocks) = (partitions.index(), partitions.blocks());
    let (keys, length) = (index.keys(), index.container_bytes());
    let infos: Vec<_> = blocks.iter().flatten().map(FilterBlock::info).collect();
    let (kinds, problem) = (partitions.kinds(), partitions.problem());
    // Fallbacks first: they matter more than what the number of keys decided.
    let mut others: Vec<_> = infos.iter().filter(|info| info.kind != info.requested).collect();
    others.sort_by_key(|info| info.reason == FallbackReason::TooFewKeys);
    let other = others.first().map(|info| {
        format!("{} of the partitions are {}, not {}: {}", others.len(), info.kind, info.requested, info.reason)
    });
    let is_fallback = others.first().is_some_and(|info| info.reason != FallbackReason::TooFewKeys);
    let sizes =
        || (0..index.partitions()).filter_map(|number| index.block_range(number).ok()).map(|at| at.end - at.start);
    FilterReport {
        kind: if kinds.is_empty() { "none".to_owned() } else { kinds },
        requested: infos.first().map(|info| info.requested.name().to_owned()),
        state: if is_fallback { State::Fallback } else { State::Ok },
        fallback: other,
        keys: Some(keys),
        filter_bytes: Length(length),
        bits_per_key: (keys > 0).then(|| Bits(length as f64 * 8.0 / keys as f64)),
        expected_fpr: Some(Rate(partitions.expected_fpr())),
        holds: Some(holds(index.has_whole_keys(), index.extractors(), names)),
        unit: Some(match index.cut() {
            PartitionCut::KeyRange => "a partition, cut by key range".to_owned(),
            PartitionCut::HashRange => "a partition, cut by hash range".to_owned(),
            _ => "a partition".to_owned(),
        }),
        partitions: Some(index.partitions().into()),
        min_partition_bytes: sizes().min().map(Length),
        mean_partition_bytes: index.partition_bytes().checked_div(index.partitions().into()).map(Length),
        max_partition_bytes: sizes().max().map(Length),
        top_index_bytes: Some(Length(length - index.partition_bytes())),
        hash: Some(index.hash_identity().to_string()),
        bound_to: index.file().map(id_text),
        checksum: Some(problem.clone().unwrap_or_else(|| "sound".to_owned())),
        ..FilterReport::default()
    }
    .with_problem(partitions.state(), problem)
}

pub(super) fn of_ranges(block: &RangeBlock) -> FilterReport {
    let info = &block.info;
    let problem = block.verify().err().map(|problem| in_options(&problem));
    let is_hashed = matches!(info.map, RangeMap::Hashed { .. });
    let rate = |units| RangeRate { units, expected_fpr: Rate(info.expected_fpr(units)) };
    let mut shape = vec![
        ("codes", json!(info.codes)),
        ("lines", json!(info.lines)),
        ("low_bits", json!(info.low_bits)),
        ("key_bytes", json!(info.key_bytes)),
    ];
    match info.map {
        RangeMap::Hashed { unit_shift, chunk_units, extractor_checksum, keys_outside } => shape.extend([
            ("unit_shift", json!(unit_shift)),
            ("chunk_units", json!(chunk_units)),
            ("extractor_checksum", json!(extractor_checksum.map(|sum| format!("{sum:#010x}")))),
            ("keys_outside", json!(keys_outside)),
        ]),
        RangeMap::Ordered { common_bytes, tails_bytes } => {
            shape.extend([("common_bytes", json!(common_bytes)), ("tails_bytes", json!(tails_bytes))]);
        }
        RangeMap::Exact { first, last } => {
            shape.retain(|(name, _)| *name != "lines");
            shape.extend([("first_integer", json!(first)), ("last_integer", json!(last))]);
        }
        _ => {}
    }
    FilterReport {
        kind: if matches!(info.map, RangeMap::Exact { .. }) { EXACT_RANGE } else { KindId::RANGE.name() }.to_owned(),
        keys: Some(info.keys),
        filter_bytes: Length(info.block_bytes),
        bits_per_key: (info.keys > 0).then(|| Bits(info.bits_per_key())),
        // That of other codes is the same for all lengths of ranges.
        expected_fpr: (!is_hashed).then(|| Rate(info.expected_fpr(1))),
        range_rates: if is_hashed { SHOWN_UNITS.map(rate).to_vec() } else { Vec::new() },
        holds: Some(ranges_in_words(info)),
        hash: Some(info.hash.to_string()),
        bound_to: info.file.map(id_text),
        payload_bytes: Some(Length(info.payload_bytes)),
        checksum: Some(problem.clone().unwrap_or_else(|| "sound".to_owned())),
        shape: open(shape.into_iter().filter(|(_, value)| !value.is_null())),
        ..FilterReport::default()
    }
    .with_problem(State::Damaged, problem)
}

/// The kind of a range filter without false positives, which can take the place of a point filter.
pub(crate) const EXACT_RANGE: &str = "exact range";

/// The form of exact filters that take the place of point filters.
pub(crate) const BITMAP: &str = "bitmap";

/// Returns how an exact filter keeps its keys.
pub(crate) fn exact_form(info: &RangeInfo) -> Option<&'static str> {
    matches!(info.map, RangeMap::Exact { .. }).then_some(if info.low_bits == 0 { BITMAP } else { "split codes" })
}

/// Lengths of ranges, in units, for which expected rates are shown.
const SHOWN_UNITS: [u64; 4] = [1, 1 << 5, 1 << 10, 1 << 20];

/// Describes the ranges that a filter can exclude.
fn ranges_in_words(info: &RangeInfo) -> String {
    match info.map {
        RangeMap::Hashed { unit_shift, chunk_units, extractor_checksum, .. } => {
            let place = if extractor_checksum.is_some() { "after the prefix" } else { "at the start of the key" };
            let (integer, units) = (counted((8 - unit_shift / 8).into(), "byte"), grouped(chunk_units));
            let unit = 1_u64 << (unit_shift % 8);
            format!("hashed ranges of up to {units} units of {unit} in a big-endian integer of {integer} {place}")
        }
        RangeMap::Ordered { .. } => "ordered keys, for ranges of any length".to_owned(),
        RangeMap::Exact { .. } => {
            let form = exact_form(info).unwrap_or_default();
            format!("whole keys and ranges of any length, without false positives: {form}")
        }
        _ => "unknown".to_owned(),
    }
}

pub(super) fn of_layers(layers: &Layers) -> FilterReport {
    let health = layers.health();
    FilterReport {
        kind: layers.growth.to_owned(),
        keys: Some(health.keys),
        filter_bytes: Length(health.bytes),
        bits_per_key: (health.keys > 0).then(|| Bits(health.bytes as f64 * 8.0 / health.keys as f64)),
        expected_fpr: Some(Rate(health.expected_fpr)),
        holds: Some("whole keys".to_owned()),
        unit: Some("a layer".to_owned()),
        partitions: Some(health.parts as u64),
        hash: Some(layers.hash.to_string()),
        bound_to: layers.file.map(id_text),
        checksum: Some("sound".to_owned()),
        fill_ratio: Some(Rate(health.fill_ratio)),
        ..FilterReport::default()
    }
}

/// Names the parts of keys that a filter holds. It records only tags of its extractors' names: a name is known if the
/// file around the filter has it, or if it is one of the library's own, for prefixes up to 255 bytes and every byte
/// that ends one.
fn holds(has_whole_keys: bool, extractors: impl Iterator<Item = Domain>, names: &[&str]) -> String {
    let own = || {
        let bytes = || 0..=u8::MAX;
        let fixed = bytes().map(|length| format!("fixed-prefix:{length}"));
        fixed.chain(bytes().map(|byte| format!("prefix-to-byte:{byte:#04x}")))
    };
    let parts = extractors.map(|domain| {
        let mut known = names.iter().map(|name| (*name).to_owned()).chain(own());
        match known.find(|name| Domain::new(name).tag() == domain.tag()) {
            Some(name) => format!("parts by {name}"),
            None => format!("parts by an extractor of unknown name (tag {:#018x})", domain.tag()),
        }
    });
    let whole = has_whole_keys.then(|| "whole keys".to_owned());
    whole.into_iter().chain(parts).collect::<Vec<_>>().join(", ")
}

pub(super) fn number_or_text(text: &String) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

pub(super) fn open<'a>(values: impl IntoIterator<Item = (&'a str, Value)>) -> Open {
    Open(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
