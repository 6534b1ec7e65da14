//! Describes any file: what it is, its filters and its parts, without reading its data.

use core::ops::Range;
use std::path::Path;

use anyhow::anyhow;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sstfilter::{Domain, FallbackReason, FilterBlock, KindId};
use sstfilter_interop::{ChecksumType, Engine, Error, FilterInfo, FilterKind, FilterUnit, KeyCoverage, PropertyValue};
use sstfilter_range::{RangeInfo, RangeMap};
use sstfilter_store::{FilterMetadata, FilterPart, FilterProblem, PartitionCut, sidecar_path};
use sstfilter_table::{Table, TablePart};

use super::file::{
    Contents, CoveredFile, EngineReport, FileReport, FilterReport, Format, MapReport, PartReport, Place, RangeRate,
    Role,
};
use super::judge::{judge, judge_filters, of_bloom};
use super::keys::id_text;
use crate::file::blocks::{Container, Layers, Partitions, RangeBlock, Sidecar};
use crate::file::database::Standing;
use crate::file::look::{Look, look_at};
use crate::file::map::OpenMap;
use crate::file::open::{Body, Context, ForeignTable, Opened, Origin, StatedComparator, open_table_alone, whole};
use crate::file::problem::{Problem, STALE, State, explained, in_options, state_of_error, state_of_filter};
use crate::file::walk::Found;
use crate::print::types::{Bits, Bytes as Length, Figure, Key, Open, PathName, Rate};
use crate::system::input::{self, RegularFile};
use crate::words::escape::hex;
use crate::words::units::{bytes as with_unit, counted, grouped};

/// Describes a file.
pub(crate) fn describe(opened: &Opened, context: &Context) -> FileReport {
    let mut report = FileReport { bytes: Length(opened.bytes), ..of_found(&opened.found) };
    report.place.column_family = opened.family();
    report.place.level = opened.level();
    let path = &opened.found.path;
    match &opened.body {
        Body::Table(table) => of_table(&mut report, table, path, context),
        Body::Foreign(table, stated) => of_foreign(&mut report, table, stated.as_ref(), opened),
        Body::Block(block) => report.add_only(Format::FilterBlock, of_block(block, &[])),
        Body::Partitions(container) => {
            report.add_only(Format::PartitionedFilter, of_partitions(&container.partitions(), &[]));
        }
        Body::Ranges(block) => report.add_only(Format::RangeFilter, of_ranges(block)),
        Body::Layers(layers) => report.add_only(Format::Layers, of_layers(layers)),
        Body::Sidecar(sidecar) => {
            report.format = Format::Sidecar;
            report.contents.file_id = Some(id_text(sidecar.table.file));
            report.properties = open([
                ("table_bytes", json!(sidecar.table.bytes)),
                ("table_checksum", json!(format!("{:#010x}", sidecar.table.checksum))),
                ("key_parts", json!(sidecar.metadata.key_parts())),
            ]);
            report.filters = of_sidecar(sidecar);
        }
        Body::Map(map) => {
            report.format = Format::FileMap;
            report.map = Some(of_map(map));
        }
    }
    judge_filters(&mut report);
    judge(&mut report, &opened.found, context);
    report
}

/// Describes a file that cannot be opened.
pub(crate) fn describe_problem(found: &Found, problem: &Problem, context: &Context) -> FileReport {
    let mut report = FileReport { bytes: Length(input::length(&found.path).unwrap_or(0)), ..of_found(found) };
    // A table that cannot be opened is recognized all the same.
    report.format = match look_at(&found.path) {
        Ok(Look::Table) => Format::Table,
        Ok(Look::FilterBlock) => Format::FilterBlock,
        Ok(Look::RangeFilter) => Format::RangeFilter,
        Ok(Look::Partitions) => Format::PartitionedFilter,
        Ok(Look::Layers) => Format::Layers,
        Ok(Look::Sidecar) => Format::Sidecar,
        Ok(Look::Map) => Format::FileMap,
        Ok(Look::Foreign(engine)) => format_of(engine),
        Ok(Look::Neither) | Err(_) => Format::Other,
    };
    // An unknown version is no damage, but the file could not be read either.
    report.blame(
        if problem.state == State::Unusable { State::Unread } else { problem.state },
        None,
        explained(&problem.reason),
    );
    judge(&mut report, found, context);
    report
}

fn of_found(found: &Found) -> FileReport {
    let is_live = match found.standing {
        Standing::Live(_) => Some(true),
        Standing::NotLive(_) => Some(false),
        Standing::Unknown => None,
    };
    let place = Place {
        database: found.database.as_ref().map(|database| PathName(database.directory.clone())),
        column_family: found.family().map(str::to_owned),
        level: found.level(),
        is_live,
    };
    FileReport { path: PathName(found.path.clone()), place, ..FileReport::default() }
}

impl FileReport {
    fn add_only(&mut self, format: Format, filter: FilterReport) {
        self.format = format;
        self.filters.push(FilterReport { role: Role::File, ..filter });
    }
}

impl FilterReport {
    /// Returns the report of a filter of which nothing is known but a problem.
    fn unknown(part: FilterPart, length: u64, state: State, why: String) -> Self {
        let kind = if part == FilterPart::Ranges { KindId::RANGE.name() } else { "unknown" };
        let filter = Self { kind: kind.to_owned(), filter_bytes: Length(length), ..Self::default() };
        filter.with_problem(state, Some(why))
    }

    /// Adds a problem, if there is one, unless a worse one is known.
    fn with_problem(self, state: State, why: Option<String>) -> Self {
        match why {
            Some(why) if state > self.state => Self { state, reason: Some(why), ..self },
            _ => self,
        }
    }
}

fn of_table(report: &mut FileReport, table: &Table, path: &Path, context: &Context) {
    let properties = table.properties();
    let (smallest, largest) = properties.filters.key_bounds().unzip();
    let bounds_from = smallest.map(|_| Origin::Table);
    report.format = Format::Table;
    report.contents = Contents {
        entries: Some(properties.entries),
        tombstones: Some(properties.tombstones),
        smallest_key: smallest.map(|key| Key(key.to_vec())),
        largest_key: largest.map(|key| Key(key.to_vec())),
        bounds_from,
        raw_key_bytes: Some(Length(properties.raw_key_bytes)),
        raw_value_bytes: Some(Length(properties.raw_value_bytes)),
        file_id: Some(id_text(properties.filters.file_id())),
        ..Contents::default()
    };
    report.properties = open([
        ("table_id", json!(hex(table.table_id()))),
        ("block_bytes", json!(properties.block_bytes)),
        ("restart_interval", json!(properties.restart_interval)),
        ("hash", json!(properties.filters.hash_identity().to_string())),
        ("key_parts", json!(properties.filters.key_parts())),
        ("filter_policy", json!(properties.filter_policy)),
        ("range_filter_missing", json!(properties.range_filter_missing)),
    ]);
    report.engine = Some(EngineReport {
        engine_name: "sstfilter".to_owned(),
        checksum_type: "CRC32C".to_owned(),
        data_blocks: Some(properties.data_blocks),
        data_bytes: Some(Length(properties.data_bytes)),
        index_bytes: table.region(TablePart::Index).map(|range| Length(range.end - range.start)),
        ..EngineReport::default()
    });
    let index = table.check_index().err();
    let state = index.as_ref().map(state_of_filter).unwrap_or_default();
    let index = index.as_ref().map(in_options);
    if let Some(why) = &index {
        report.blame(state, Some(TablePart::Index.name()), why);
    }
    if let Some(why) = &properties.range_filter_missing {
        report.blame(State::Ok, Some("range filter"), format!("not built: {why}"));
    }
    report.parts = table.layout().into_iter().map(|(part, range)| region(part, range, index.as_deref())).collect();

    let uses_sidecar = table.uses_sidecar();
    let alone = (uses_sidecar || table.sidecar_problem().is_some()).then(|| open_table_alone(path, context));
    report.filters = match alone {
        None => own_filters(table, path),
        Some(Ok(alone)) => own_filters(&alone, path),
        Some(Err(problem)) => {
            report.blame(State::Unread, None, explained(&problem));
            Vec::new()
        }
    };
    for part in report.parts.iter_mut().filter(|part| part.checksum.is_none()) {
        let is_of_ranges = part.part == TablePart::RangeFilter.name();
        let filter = report.filters.iter().find(|filter| filter.is_of_ranges() == is_of_ranges);
        part.checksum = filter.and_then(|filter| filter.checksum.clone().or(filter.reason.clone()));
    }
    if uses_sidecar || table.sidecar_problem().is_some() {
        let sidecar = beside(table, path);
        let end = if uses_sidecar { 0 } else { report.filters.len() };
        report.filters.splice(end..end, sidecar);
    }
}

fn region(part: TablePart, range: Range<u64>, index: Option<&str>) -> PartReport {
    let checksum = match part {
        TablePart::Data => Some("not read"),
        TablePart::Index => Some(index.unwrap_or("sound")),
        // Known when the filters are described.
        TablePart::Filter | TablePart::RangeFilter | TablePart::FilterIndex => None,
        _ => Some("sound"),
    };
    PartReport {
        part: part.name().to_owned(),
        offset: Some(range.start),
        part_bytes: Some(Length(range.end - range.start)),
        checksum: checksum.map(str::to_owned),
    }
}

/// Describes the filters in a table that was opened without its sidecar.
fn own_filters(table: &Table, path: &Path) -> Vec<FilterReport> {
    let metadata = &table.properties().filters;
    let is_filter = |part| matches!(part, TablePart::Filter | TablePart::FilterIndex | TablePart::RangeFilter);
    // Sections count from the first byte of the filters.
    let first = table.layout().into_iter().find(|(part, _)| is_filter(*part)).map_or(0, |(_, range)| range.start);
    let start = first - metadata.sections().first().map_or(0, |section| section.offset);
    let file = RegularFile::open(path);
    let read = |range: Range<u64>| match &file {
        Ok(file) => file.read(start + range.start, range.end - range.start).map_err(|problem| explained(&problem)),
        Err(problem) => Err(explained(problem)),
    };
    let partitions = Partitions::of_table(table, path);
    let filters = of_sections(metadata, Role::Table, read, partitions.as_ref());
    let with_policy = |filter: FilterReport| match filter.is_of_ranges() {
        true => filter,
        false => FilterReport { policy: table.properties().filter_policy.clone(), ..filter },
    };
    filters.into_iter().map(|filter| with_problem_of(table, with_policy(filter))).collect()
}

/// Adds what only the reader of a table notices: a filter of another hash, of another file, or without its keys.
fn with_problem_of(table: &Table, filter: FilterReport) -> FilterReport {
    let problem = if filter.is_of_ranges() { table.range_filter_problem() } else { table.filter_problem() };
    let state = problem.as_ref().map(state_of_filter).unwrap_or_default();
    filter.with_problem(state, problem.as_ref().map(in_options))
}

/// Describes the filters of the sidecar next to a table, whether it is used or not.
fn beside(table: &Table, path: &Path) -> Vec<FilterReport> {
    let problem = table.sidecar_problem();
    let state = problem.map(state_of_filter).unwrap_or_default();
    let why = || if state == State::Stale { Some(STALE.to_owned()) } else { problem.map(in_options) };
    // A sidecar that cannot be used is still described as far as it can be read.
    let sidecar = whole(&sidecar_path(path)).and_then(Sidecar::new);
    match (sidecar, problem) {
        (Ok(sidecar), None) => {
            let (partitions, read) = (Partitions::of_table(table, path), |range| Ok(sidecar.slice(range)));
            let filters = of_sections(&sidecar.metadata, Role::Sidecar, read, partitions.as_ref());
            filters.into_iter().map(|filter| with_problem_of(table, filter)).collect()
        }
        (Ok(sidecar), Some(_)) => {
            of_sidecar(&sidecar).into_iter().map(|filter| filter.with_problem(state, why())).collect()
        }
        (Err(unread), _) => {
            let length = input::length(&sidecar_path(path)).unwrap_or(0);
            let why = why().unwrap_or_else(|| explained(&unread));
            let filter = FilterReport::unknown(FilterPart::Points, length, state.max(State::Unusable), why);
            vec![FilterReport { role: Role::Sidecar, ..filter }]
        }
    }
}

fn of_sidecar(sidecar: &Sidecar) -> Vec<FilterReport> {
    of_sections(&sidecar.metadata, Role::Sidecar, |range| Ok(sidecar.slice(range)), None)
}

/// Describes the filters that metadata list. `used` are the partitions as the table's reader opened them.
fn of_sections(
    metadata: &FilterMetadata,
    role: Role,
    read: impl Fn(Range<u64>) -> Result<Bytes, String>,
    used: Option<&Partitions<'_>>,
) -> Vec<FilterReport> {
    let names: Vec<_> = metadata.extractors().collect();
    let of = |part, data: Bytes| -> anyhow::Result<FilterReport> {
        Ok(match (part, used) {
            (FilterPart::Ranges, _) => of_ranges(&RangeBlock::new(data)?),
            (FilterPart::PartitionedPoints, Some(used)) => of_partitions(used, &names),
            (FilterPart::PartitionedPoints, None) => {
                let container = Container::open(data)?.ok_or_else(|| anyhow!("the end of the filter is cut short"))?;
                of_partitions(&container.partitions(), &names)
            }
            (_, _) => of_block(&FilterBlock::open_unverified(data)?, &names),
        })
    };
    let sections = metadata.sections().iter().map(|section| {
        let unknown = |state, why| FilterReport::unknown(section.part, section.bytes, state, why);
        let filter = match read(section.range()).map(|data| of(section.part, data)) {
            Ok(Ok(filter)) => filter,
            Ok(Err(damage)) => unknown(State::Damaged, explained(&damage)),
            Err(why) => unknown(State::Unread, why),
        };
        FilterReport { role, ..filter }
    });
    sections.collect()
}

fn of_block<D: AsRef<[u8]>>(block: &FilterBlock<D>, names: &[&str]) -> FilterReport {
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

fn of_partitions(partitions: &Partitions<'_>, names: &[&str]) -> FilterReport {
    let (index, blocks) = (partitions.index(), partitions.blocks());
    let (keys, length) = (index.keys(), index.container_bytes());
    let infos: Vec<_> = blocks.iter().flatten().map(FilterBlock::info).collect();
    let mut kinds: Vec<_> = infos.iter().map(|info| info.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // Fallbacks first: they matter more than what the number of keys decided.
    let mut others: Vec<_> = infos.iter().filter(|info| info.kind != info.requested).collect();
    others.sort_by_key(|info| info.reason == FallbackReason::TooFewKeys);
    let other = others.first().map(|info| {
        format!("{} of the partitions are {}, not {}: {}", others.len(), info.kind, info.requested, info.reason)
    });
    let is_fallback = others.first().is_some_and(|info| info.reason != FallbackReason::TooFewKeys);
    let problems: Vec<_> = partitions.problems().collect();
    let problem = problems.first().map(|(number, problem)| {
        let first = match problem {
            FilterProblem::PartitionChecksum { .. } => problem.to_string(),
            _ => format!("partition {number} of a filter: {problem}"),
        };
        let more = problems.len() as u64 - 1;
        if more > 0 { format!("{first}, and {} more partitions", grouped(more)) } else { first }
    });
    let sizes =
        || (0..index.partitions()).filter_map(|number| index.block_range(number).ok()).map(|at| at.end - at.start);
    let filtered: u64 = infos.iter().map(|info| info.keys).sum();
    let positives: f64 = infos.iter().map(|info| info.expected_fpr * info.keys as f64).sum();
    // Keys of partitions without a usable filter are always positive. Malformed indexes may record fewer keys.
    let expected_fpr = (positives + keys.saturating_sub(filtered) as f64) / keys.max(filtered).max(1) as f64;
    FilterReport {
        kind: if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") },
        requested: infos.first().map(|info| info.requested.name().to_owned()),
        state: if is_fallback { State::Fallback } else { State::Ok },
        fallback: other,
        keys: Some(keys),
        filter_bytes: Length(length),
        bits_per_key: (keys > 0).then(|| Bits(length as f64 * 8.0 / keys as f64)),
        expected_fpr: Some(Rate(expected_fpr)),
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

fn of_ranges(block: &RangeBlock) -> FilterReport {
    let info = &block.info;
    let problem = block.verify().err().map(|problem| in_options(&problem));
    let is_ordered = matches!(info.map, RangeMap::Ordered { .. });
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
        _ => {}
    }
    FilterReport {
        kind: KindId::RANGE.name().to_owned(),
        keys: Some(info.keys),
        filter_bytes: Length(info.block_bytes),
        bits_per_key: (info.keys > 0).then(|| Bits(info.bits_per_key())),
        // That of ordered codes is the same for all lengths of ranges.
        expected_fpr: is_ordered.then(|| Rate(info.expected_fpr(1))),
        range_rates: if is_ordered { Vec::new() } else { SHOWN_UNITS.map(rate).to_vec() },
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
        _ => "unknown".to_owned(),
    }
}

fn of_layers(layers: &Layers) -> FilterReport {
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

fn of_map(map: &OpenMap) -> MapReport {
    let (index, first) = (&map.index, map.index.page_range(0));
    let entries = index.entries();
    let covered = |covered: &sstfilter_map::CoveredFile| CoveredFile {
        file_id: Some(id_text(covered.file)),
        map_entries: covered.entries,
        path: None,
    };
    MapReport {
        map_id: id_text(index.map_id()),
        covered_files: index.files().len() as u64,
        covered_writes: Some(index.writes().len() as u64).filter(|writes| *writes > 0),
        map_entries: entries,
        bits_per_entry: (entries > 0).then(|| Bits(map.file.length as f64 * 8.0 / entries as f64)),
        hash: Some(index.hash_identity().to_string()),
        prefix_bits: index.prefix_bits().into(),
        pages: index.pages(),
        page_bytes: Length(first.end - first.start),
        expected_false_candidates: Figure(index.expected_false_candidates()),
        covers: index.files().iter().map(covered).collect(),
    }
}

/// The first format version whose footer has a checksum: 6 of RocksDB, and 6 of Pebble.
const FOOTER_CHECKSUM_VERSION: u32 = 6;

/// Names of filter blocks in the metaindex, up to the policy's name.
const FILTER_NAMES: [&[u8]; 3] = [b"fullfilter.", b"partitionedfilter.", b"filter."];

fn format_of(engine: Engine) -> Format {
    match engine {
        Engine::LevelDb => Format::LevelDbTable,
        Engine::Pebble => Format::PebbleTable,
        _ => Format::RocksDbTable,
    }
}

fn of_foreign(report: &mut FileReport, table: &ForeignTable, stated: Option<&StatedComparator>, opened: &Opened) {
    let properties = table.properties();
    report.format = format_of(table.engine());
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

fn of_info(table: &ForeignTable, info: &FilterInfo, place: &Place) -> FilterReport {
    let policy = table.properties().filter_policy().filter(|policy| !policy.is_empty());
    // LevelDB's blocks without keys count as a kind only if there are no other blocks.
    let counts = |kind: FilterKind| info.kinds.len() == 1 || kind != FilterKind::NoKeys;
    let kinds: Vec<_> = info.kinds.iter().filter(|(kind, _)| counts(*kind)).map(|(kind, _)| kind.name()).collect();
    let (state, fallback) = of_bloom(policy, info, place.level).unzip();
    let is_one = info.blocks == 1 && info.unit == FilterUnit::Table;
    let blocks = |bytes: u64| (!is_one).then_some(Length(bytes));
    FilterReport {
        kind: if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") },
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

fn number_or_text(text: &String) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

fn open<'a>(values: impl IntoIterator<Item = (&'a str, Value)>) -> Open {
    Open(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::open::open_to_probe;

    fn describe_path(path: &str) -> FileReport {
        let (found, context) = (Found::alone(Path::new(path)), Context::default());
        match open_to_probe(&found, &context) {
            Ok(opened) => describe(&opened, &context),
            Err(problem) => describe_problem(&found, &problem, &context),
        }
    }

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

    #[test]
    fn layers_of_all_sorts_are_described() {
        for (name, kind, bound_to) in [
            ("late-bound-to-file-7", "late keys", true),
            ("scalable", "scalable", false),
            ("rotating", "rotating", false),
        ] {
            let report = describe_path(&format!("../../fixtures/v1/layers-{name}.layers"));
            let [filter] = &report.filters[..] else { panic!("{report:?}") };
            assert_eq!((report.format, report.state, filter.kind.as_str()), (Format::Layers, State::Ok, kind));
            assert_eq!((filter.bound_to.is_some(), filter.expected_fpr.is_some()), (bound_to, true));
        }
    }
}
