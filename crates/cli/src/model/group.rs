//! Column families and levels: a lookup reads the tables of one column family, on each of its levels.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::ensure;

use super::costs::{Cost, TableFilter};
use super::file::{FileReport, Place};
use crate::file::problem::State;
use crate::file::walk::Found;
use crate::print::record;
use crate::print::types::{Bits, Bytes, Figure, Rate};
use crate::words::units::{grouped, margin};

/// The files of one column family, or of a store that has none.
#[derive(Debug)]
pub(crate) struct Family<T> {
    pub(crate) database: Option<PathBuf>,
    pub(crate) name: Option<String>,
    pub(crate) files: Vec<T>,
}

/// The database and the column family of a file.
pub(crate) type FamilyPlace = (Option<PathBuf>, Option<String>);

impl Place {
    pub(crate) fn family(&self) -> FamilyPlace {
        (self.database.as_ref().map(|database| database.0.clone()), self.column_family.clone())
    }
}

impl<T> Family<T> {
    /// Sorts files into families. A file of an unknown family belongs to the only one of its database.
    pub(crate) fn of_each(files: impl IntoIterator<Item = (FamilyPlace, T)>) -> Vec<Self> {
        let mut families = BTreeMap::<FamilyPlace, Vec<T>>::new();
        for (place, file) in files {
            families.entry(place).or_default().push(file);
        }
        let unknown: Vec<_> = families.keys().filter(|(_, name)| name.is_none()).cloned().collect();
        for place in unknown {
            let of_database = |(database, name): &&FamilyPlace| *database == place.0 && name.is_some();
            let named: Vec<_> = families.keys().filter(of_database).cloned().collect();
            if let [only] = &named[..] {
                let files = families.remove(&place).unwrap_or_default();
                families.entry(only.clone()).or_default().extend(files);
            }
        }
        families.into_iter().map(|((database, name), files)| Self { database, name, files }).collect()
    }

    /// Keeps the families of this name, if one is passed with `--family`.
    pub(crate) fn chosen(families: Vec<Self>, name: Option<&str>) -> anyhow::Result<Vec<Self>> {
        let Some(name) = name else { return Ok(families) };
        let names = Self::names(&families);
        let chosen: Vec<_> = families.into_iter().filter(|family| family.name.as_deref() == Some(name)).collect();
        ensure!(!chosen.is_empty(), "--family {name}: expected a column family of the tables, which are {names}");
        Ok(chosen)
    }

    /// Fails if there are several: `why` says for what one is needed.
    pub(crate) fn ensure_one(families: &[Self], why: &str) -> anyhow::Result<()> {
        let names = Self::names(families);
        ensure!(families.len() < 2, "{why}, but the tables are of several ({names}): choose one with --family");
        Ok(())
    }

    fn names(families: &[Self]) -> String {
        let names: Vec<_> = families.iter().map(|family| family.name.as_deref().unwrap_or("of no family")).collect();
        names.join(", ")
    }
}

/// A table, and how many lookups of absent keys read it.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) found: Found,
    pub(crate) report: FileReport,
    /// Keys made from its own.
    pub(crate) made: Vec<Vec<u8>>,
    pub(crate) reads: u64,
    /// Those of the reads that no usable filter could have prevented.
    pub(crate) unfiltered_reads: u64,
    /// Whether the absent keys cannot measure the filter, so that its reads are not counted.
    pub(crate) is_unmeasured: bool,
}

impl Surveyed {
    pub(crate) fn new(found: &Found, report: FileReport) -> Self {
        Self { found: found.clone(), report, made: Vec::new(), reads: 0, unfiltered_reads: 0, is_unmeasured: false }
    }
}

/// An observed rate is high if it exceeds the expected one by more than this factor, after subtracting its margin.
const HIGH: f64 = 1.2;

record! {
    /// Tables of one level, or of all levels, and their filters of keys.
    pub(crate) struct Figures {
        pub(crate) level: Option<u32> [row],
        pub(crate) tables: u64 [row],
        pub(crate) size_bytes: Bytes [row],
        /// tables in a state that is worse than that of a fallback
        pub(crate) bad_tables: u64 [row],
        /// tables with a filter of another kind than requested
        pub(crate) fallback_tables: u64 [json],
        pub(crate) range_tombstone_tables: u64 [json],
        pub(crate) entries: Option<u64> [row],
        pub(crate) keys: u64 [json],
        pub(crate) filter_bytes: Bytes [row],
        pub(crate) bits_per_key: Option<Bits> [row],
        pub(crate) mean_fpr: Option<Rate> [row],
        pub(crate) probes: u64 [json],
        pub(crate) positives: u64 [json],
        pub(crate) observed_fpr: Option<Rate> [row],
        pub(crate) observed_fpr_margin: Option<Rate> [row],
        /// whether the observed rate is clearly above that of the probed filters
        pub(crate) has_high_rate: bool [json],
        pub(crate) useless_reads: Option<Figure> [row],
        /// the part of `useless_reads` in tables whose filter is missing or cannot be used
        pub(crate) unfiltered_reads: Option<Figure> [json],
        /// tables that `useless_reads` leaves out, because their filters hold no whole keys and the absent keys are
        /// made up
        pub(crate) unmeasured_tables: u64 [json],
        pub(crate) kinds: String [row],
    }
}

impl Figures {
    /// Returns the figures of all tables, and those of each level if there are several. An unknown level comes first.
    pub(crate) fn of_each(files: &[Surveyed], absent_keys: u64) -> (Self, Vec<Self>) {
        let mut levels = BTreeMap::<Option<u32>, Vec<&Surveyed>>::new();
        for file in files {
            levels.entry(file.report.place.level).or_default().push(file);
        }
        let of_level = |(level, files): (Option<u32>, Vec<&Surveyed>)| Self { level, ..Self::of(&files, absent_keys) };
        let mut levels: Vec<_> = levels.into_iter().map(of_level).collect();
        match levels.pop() {
            Some(only) if levels.is_empty() => (only, levels),
            last => {
                levels.extend(last);
                (Self::of(&files.iter().collect::<Vec<_>>(), absent_keys), levels)
            }
        }
    }

    fn of(files: &[&Surveyed], absent_keys: u64) -> Self {
        let count = |is: &dyn Fn(&Surveyed) -> bool| files.iter().filter(|file| is(file)).count() as u64;
        let sum = |of: fn(&Surveyed) -> u64| files.iter().map(|file| of(file)).sum::<u64>();
        let is_measured = absent_keys > 0 && files.iter().any(|file| !file.is_unmeasured);
        let per_key = |reads: u64| is_measured.then(|| Figure(reads as f64 / absent_keys as f64));
        let filters: Vec<_> = files.iter().filter_map(|file| TableFilter::of(&file.report)).collect();
        let cost = Cost::of(String::new(), &filters);
        let (mut probes, mut positives, mut expected) = (0, 0, 0.0);
        for (report, observed) in files.iter().filter_map(|file| Some((&file.report, file.report.observed.as_ref()?))) {
            let fpr = report.key_filter().and_then(|filter| filter.expected_fpr);
            (probes, positives) = (probes + observed.probes, positives + observed.positives);
            // A rate that is not expected is never too high.
            expected += observed.probes as f64 * fpr.map_or(1.0, |fpr| fpr.0);
        }
        let rate = (probes > 0).then(|| (positives as f64 / probes as f64, margin(positives, probes)));
        let is_high = |(fpr, margin): (f64, f64)| fpr - margin > HIGH * expected / probes as f64;
        let mut kinds = BTreeMap::<&str, u64>::new();
        for file in files {
            *kinds.entry(file.report.key_filter().map_or("none", |filter| &filter.kind)).or_default() += 1;
        }
        let kinds: Vec<_> = kinds.into_iter().map(|(kind, tables)| format!("{kind} ({})", grouped(tables))).collect();
        let has_range_tombstones = |file: &Surveyed| file.report.contents.has_range_tombstones == Some(true);
        let entries = files.iter().filter_map(|file| file.report.contents.entries);
        Self {
            level: None,
            tables: files.len() as u64,
            size_bytes: Bytes(sum(|file| file.report.bytes.0)),
            bad_tables: count(&|file| file.report.state > State::Fallback),
            fallback_tables: count(&|file| file.report.state == State::Fallback),
            range_tombstone_tables: count(&has_range_tombstones),
            entries: entries.reduce(|sum, entries| sum + entries),
            keys: filters.iter().map(|filter| filter.keys).sum(),
            filter_bytes: cost.filter_bytes,
            bits_per_key: (!filters.is_empty()).then_some(cost.bits_per_key),
            mean_fpr: (!filters.is_empty()).then_some(cost.mean_fpr),
            probes,
            positives,
            observed_fpr: rate.map(|(fpr, _)| Rate(fpr)),
            observed_fpr_margin: rate.map(|(_, margin)| Rate(margin)),
            has_high_rate: rate.is_some_and(is_high),
            useless_reads: per_key(sum(|file| file.reads)),
            unfiltered_reads: per_key(sum(|file| file.unfiltered_reads)),
            unmeasured_tables: count(&|file| file.is_unmeasured),
            kinds: kinds.join(", "),
        }
    }
}
