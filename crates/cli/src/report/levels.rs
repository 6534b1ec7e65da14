//! Figures of the filters of each level.

use std::collections::BTreeMap;

use serde::Serialize;

use super::survey::TableRow;
use crate::inspect::State;
use crate::output::Column;
use crate::units::{grouped, percent};

/// The tables of one level.
#[derive(Debug, Default, Serialize)]
pub(super) struct LevelRow {
    /// Null for tables whose level is unknown.
    pub(super) level: Option<u32>,
    pub(super) tables: usize,
    /// Tables whose state is worse than that of a fallback.
    pub(super) needing_a_look: usize,
    /// Tables whose filter is of another kind than requested.
    pub(super) fallbacks: usize,
    pub(super) entries: u64,
    pub(super) filter_bytes: u64,
    /// Keys of the filters that record them, or whose keys were counted.
    pub(super) keys: u64,
    /// Mean of these filters, weighted by keys, as is the expected rate.
    pub(super) bits_per_key: Option<f64>,
    pub(super) expected_fpr: Option<f64>,
    /// Mean number of tables that a lookup of an absent key reads; null if that was not measured.
    pub(super) useless_reads: Option<f64>,
    /// The part of it in tables whose filter is missing or cannot be used.
    pub(super) unfiltered_reads: Option<f64>,
    pub(super) filters: Vec<KindRow>,
}

/// The filters of one kind on a level.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct KindRow {
    pub(super) filter: String,
    pub(super) tables: usize,
    pub(super) bytes: u64,
}

/// Columns of levels in text and on the page.
pub(super) const COLUMNS: [Column<LevelRow>; 10] = [
    ("level", LevelRow::name),
    ("tables", |row| grouped(row.tables as u64)),
    ("need a look", |row| grouped(row.needing_a_look as u64)),
    ("fallbacks", |row| grouped(row.fallbacks as u64)),
    ("entries", |row| grouped(row.entries)),
    ("filter bytes", |row| grouped(row.filter_bytes)),
    ("bits per key", |row| row.bits_per_key.map_or_else(unknown, |bits| format!("{bits:.2}"))),
    ("expected rate", |row| row.expected_fpr.map_or_else(unknown, percent)),
    ("useless reads", |row| row.useless_reads.map_or_else(unknown, |reads| format!("{reads:.4}"))),
    ("filters", LevelRow::kinds),
];

pub(super) fn unknown() -> String {
    "-".to_owned()
}

/// Returns the levels of all tables, an unknown level first. The tables were probed for `absent_keys` keys.
pub(super) fn of_each(tables: &[TableRow], absent_keys: usize) -> Vec<LevelRow> {
    let mut levels: BTreeMap<Option<u32>, Vec<&TableRow>> = BTreeMap::new();
    for table in tables {
        levels.entry(table.overview.level).or_default().push(table);
    }
    levels.into_iter().map(|(level, tables)| LevelRow::new(level, &tables, absent_keys)).collect()
}

impl LevelRow {
    fn new(level: Option<u32>, tables: &[&TableRow], absent_keys: usize) -> Self {
        let sum = |of: fn(&TableRow) -> u64| tables.iter().map(|table| of(table)).sum::<u64>();
        let keys = sum(|table| table.overview.keys.unwrap_or(0));
        let mean = |of: fn(&TableRow) -> Option<f64>| {
            // A table whose number of keys is unknown has no weight in any mean.
            let weighted = |table: &&TableRow| Some(of(table)? * table.overview.keys? as f64);
            (keys > 0).then(|| tables.iter().filter_map(weighted).sum::<f64>() / keys as f64)
        };
        let per_key = |reads: u64| (absent_keys > 0).then(|| reads as f64 / absent_keys as f64);
        let count = |is: &dyn Fn(State) -> bool| tables.iter().filter(|table| is(table.overview.state)).count();
        // Sorted by name, so that the order is the same in each run.
        let mut filters: BTreeMap<&str, KindRow> = BTreeMap::new();
        for table in tables {
            let filter = &table.overview.filter;
            let new = || KindRow { filter: filter.clone(), ..KindRow::default() };
            let kind = filters.entry(filter).or_insert_with(new);
            kind.tables += 1;
            kind.bytes += table.overview.filter_bytes;
        }
        Self {
            level,
            tables: tables.len(),
            needing_a_look: count(&State::is_bad),
            fallbacks: count(&|state| state == State::Fallback),
            entries: sum(|table| table.overview.entries.unwrap_or(0)),
            filter_bytes: sum(|table| table.overview.filter_bytes),
            keys,
            bits_per_key: mean(|table| table.overview.bits_per_key),
            expected_fpr: mean(|table| table.overview.expected_fpr),
            useless_reads: per_key(sum(|table| table.touched)),
            unfiltered_reads: per_key(sum(|table| table.unfiltered)),
            filters: filters.into_values().collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.level.map_or_else(|| "unknown".to_owned(), |level| level.to_string())
    }

    fn kinds(&self) -> String {
        let kind = |row: &KindRow| format!("{} ({})", row.filter, grouped(row.tables as u64));
        self.filters.iter().map(kind).collect::<Vec<_>>().join(", ")
    }
}
