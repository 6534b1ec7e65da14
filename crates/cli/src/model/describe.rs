//! Describes any file: what it is, its filters and its parts, without reading its data.

use core::ops::Range;
use std::path::Path;

use anyhow::anyhow;
use bytes::Bytes;
use serde_json::json;
use sstfilter::FilterBlock;
use sstfilter_store::{FilterMetadata, FilterPart, sidecar_path};
use sstfilter_table::{Table, TablePart};

use super::engines::of_foreign;
use super::file::{Contents, CoveredFile, EngineReport, FileReport, FilterReport, MapReport, PartReport, Place, Role};
use super::filters::{of_block, of_layers, of_partitions, of_ranges, open};
use super::judge::{judge, judge_filters};
use super::keys::id_text;
use crate::file::blocks::{Container, Partitions, RangeBlock, Sidecar};
use crate::file::database::Standing;
use crate::file::look::{Format, look_at};
use crate::file::map::OpenMap;
use crate::file::open::{Body, Context, Opened, Origin, open_table_alone, whole};
use crate::file::problem::{Problem, STALE, State, explained, in_options, state_of_filter};
use crate::file::walk::Found;
use crate::print::types::{Bits, Bytes as Length, Figure, Key, PathName};
use crate::system::input::{self, RegularFile};
use crate::words::escape::hex;

/// Describes a file.
pub(crate) fn describe(opened: &Opened, context: &Context) -> FileReport {
    let mut report = FileReport { bytes: Length(opened.bytes), ..of_found(&opened.found, opened.format) };
    report.place.column_family = opened.family();
    report.place.level = opened.level();
    let path = &opened.found.path;
    let only = |filter| vec![FilterReport { role: Role::File, ..filter }];
    match &opened.body {
        Body::Table(table) => of_table(&mut report, table, path, context),
        Body::Foreign(table, stated) => of_foreign(&mut report, table, stated.as_ref(), opened),
        Body::Block(block) => report.filters = only(of_block(block, &[])),
        Body::Partitions(container) => report.filters = only(of_partitions(&container.partitions(), &[])),
        Body::Ranges(block) => report.filters = only(of_ranges(block)),
        Body::Layers(layers) => report.filters = only(of_layers(layers)),
        Body::Sidecar(sidecar) => {
            report.contents.file_id = Some(id_text(sidecar.table.file));
            report.properties = open([
                ("table_bytes", json!(sidecar.table.bytes)),
                ("table_checksum", json!(format!("{:#010x}", sidecar.table.checksum))),
                ("key_parts", json!(sidecar.metadata.key_parts())),
            ]);
            report.filters = of_sidecar(sidecar);
        }
        Body::Map(map) => report.map = Some(of_map(map)),
    }
    judge_filters(&mut report);
    judge(&mut report, &opened.found, context);
    report
}

/// Describes a file that cannot be opened.
pub(crate) fn describe_problem(found: &Found, problem: &Problem, context: &Context) -> FileReport {
    // A table that cannot be opened is recognized all the same.
    let report = of_found(found, look_at(&found.path).unwrap_or_default());
    let mut report = FileReport { bytes: Length(input::length(&found.path).unwrap_or(0)), ..report };
    // An unknown version is no damage, but the file could not be read either.
    let state = if problem.state == State::Unusable { State::Unread } else { problem.state };
    report.blame(state, None, explained(&problem.reason));
    judge(&mut report, found, context);
    report
}

fn of_found(found: &Found, format: Format) -> FileReport {
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
    FileReport { path: PathName(found.path.clone()), format, place, ..FileReport::default() }
}

fn of_table(report: &mut FileReport, table: &Table, path: &Path, context: &Context) {
    let properties = table.properties();
    let (smallest, largest) = properties.filters.key_bounds().unzip();
    let bounds_from = smallest.map(|_| Origin::Table);
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
        TablePart::Data | TablePart::Padding => Some("not read"),
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
    let with_policy = |filter: FilterReport| {
        let policy = table.properties().filter_policy.clone().filter(|_| !filter.is_of_ranges());
        FilterReport { policy, ..filter }
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
