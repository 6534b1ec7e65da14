//! Looks at all tables of a store, and measures their filters on absent keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::file::open::{Context, open_to_probe};
use crate::file::problem::{Problem, State, explained};
use crate::file::walk::{Found, Walk};
use crate::model::absent::{AbsentKeys, Maker};
use crate::model::batch::{KeyBatch, cores, in_parallel};
use crate::model::describe::{describe, describe_problem};
use crate::model::file::{FileReport, FilterReport, Observed};
use crate::model::group::{Family, Surveyed};
use crate::model::judge::advise;
use crate::model::probe::{Because, FileProbe, probe};
use crate::print::record;
use crate::print::types::{Bits, Rate};
use crate::system::input;
use crate::system::progress::Progress;
use crate::words::group::{self, without_path};
use crate::words::units::{margin, percent, with_margin};

/// An observed rate is high if it exceeds the expected one by more than this factor, after subtracting its margin.
const HIGH: f64 = 1.2;

/// The tables of a store by column family, with the keys that they were measured on.
pub(crate) struct Survey {
    pub(crate) walk: Walk,
    pub(crate) families: Vec<Family<Surveyed>>,
    /// The keys of each family.
    pub(crate) absent: Vec<AbsentKeys>,
    /// Tables whose keys cannot be read.
    pub(crate) notes: Vec<String>,
}

/// A table, and keys made from its own.
struct Looked {
    table: Surveyed,
    made: Vec<Vec<u8>>,
    /// Why none could be made.
    problem: Option<String>,
}

impl Survey {
    /// Looks at the tables of one column family or of all, and measures them on given keys, or else on keys it makes.
    pub(crate) fn of(
        paths: &[PathBuf],
        family: Option<&str>,
        given: Option<&AbsentKeys>,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let walk = Walk::of(paths)?;
        walk.ensure_files()?;
        let maker = Maker::for_tables(walk.files.len());
        let mut progress = Progress::new("looking at filters", walk.files.len() as u64);
        let mut looked = Vec::new();
        for found in &walk.files {
            looked.extend(look(found, maker, given.is_some(), context));
            progress.step();
        }
        let looked = looked.into_iter().map(|looked: Looked| (looked.table.report.place.family(), looked));
        let families = Family::chosen(Family::of_each(looked), family)?;
        let notes = unread(families.iter().flat_map(|family| &family.files));
        let measured = families.into_iter().map(|family| measure(family, maker, given, context));
        let (families, absent) = measured.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Self { walk, families, absent, notes })
    }

    /// Returns all tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Surveyed> {
        self.families.iter().flat_map(|family| &family.files)
    }
}

/// Describes a table and makes keys. Returns `None` for a table that a running engine removed meanwhile.
fn look(found: &Found, maker: Maker, is_given: bool, context: &Context) -> Option<Looked> {
    let opened = match open_to_probe(found, context) {
        Ok(opened) => opened,
        Err(Problem { state: State::NotLive, .. }) => return None,
        Err(problem) => {
            let table = Surveyed::new(found, describe_problem(found, &problem, context));
            return Some(Looked { table, made: Vec::new(), problem: None });
        }
    };
    let mut report = describe(&opened, context);
    let is_table = report.format.is_table();
    // LevelDB's tables do not record numbers.
    let is_counting = is_table && is_uncounted(&report);
    let (mut made, mut problem) = (Vec::new(), None);
    if is_table && (is_counting || !is_given) {
        match maker.make(&opened, is_counting, &mut made) {
            Ok(keys) if is_counting => count(&mut report, keys),
            Ok(_) => {}
            Err(reason) => problem = Some(add_problem(&mut report, reason.into(), context)),
        }
    }
    Some(Looked { table: Surveyed::new(found, report), made, problem })
}

fn is_uncounted(report: &FileReport) -> bool {
    report.key_filter().map_or(report.contents.entries, |filter| filter.keys).is_none()
}

fn count(report: &mut FileReport, keys: u64) {
    match report.filters.iter_mut().find(|filter| !filter.is_of_ranges()) {
        Some(filter) => {
            filter.keys = Some(keys);
            filter.bits_per_key = Some(Bits(filter.filter_bytes.0 as f64 * 8.0 / keys.max(1) as f64));
        }
        None => report.contents.entries = Some(keys),
    }
}

/// Adds a problem with the data of a table to its description, if it is damage, and returns it in words.
fn add_problem(report: &mut FileReport, problem: Problem, context: &Context) -> String {
    let why = without_path(&explained(&problem.reason), &input::name(&report.path.0));
    if problem.state >= State::Damaged && !report.reasons.iter().any(|reason| reason.why.contains(&why)) {
        report.blame(problem.state, Some("data"), why.clone());
        advise(report, context);
    }
    why
}

/// Returns a line for each reason why no keys could be made.
fn unread<'a>(tables: impl Iterator<Item = &'a Looked>) -> Vec<String> {
    let groups = group::by(tables.filter(|looked| looked.problem.is_some()), |looked| looked.problem.as_deref());
    let line = |(why, tables): (Option<&str>, Vec<&Looked>)| {
        let names: Vec<_> = tables.iter().map(|looked| input::name(&looked.table.found.path)).collect();
        let why = format!("no keys could be made from its keys: {}", why.unwrap_or_default());
        group::line(&why, "table", names.iter().map(AsRef::as_ref))
    };
    groups.into_iter().map(line).collect()
}

/// Probes all tables of a column family for the absent keys.
fn measure(
    family: Family<Looked>,
    maker: Maker,
    given: Option<&AbsentKeys>,
    context: &Context,
) -> anyhow::Result<(Family<Surveyed>, AbsentKeys)> {
    let (mut files, mut made) = (Vec::new(), Vec::new());
    for looked in family.files {
        files.push(looked.table);
        made.extend(looked.made);
    }
    let absent = given.cloned().unwrap_or_else(|| AbsentKeys::made(made, maker));
    let keys = KeyBatch::new(absent.keys.iter().map(Vec::as_slice).collect());
    let probed = in_parallel(&files, cores(), |file| probe_one(file, &keys, &absent, context));
    for (file, probed) in files.iter_mut().zip(probed) {
        file.add(&probed?, &absent, context);
    }
    Ok((Family { files, database: family.database, name: family.name }, absent))
}

fn probe_one(
    file: &Surveyed,
    keys: &KeyBatch<'_>,
    absent: &AbsentKeys,
    context: &Context,
) -> anyhow::Result<FileProbe> {
    let opened = match open_to_probe(&file.found, context) {
        Ok(opened) => opened,
        Err(problem) => return Ok(FileProbe::unopened(&problem, keys.all())),
    };
    let probed = probe(&opened, keys, context);
    if !absent.is_made && probed.probes() > 0 {
        let positives = probed.candidates.iter().filter(|(because, _)| *because == Because::Filter);
        let positives = positives.flat_map(|(_, positions)| positions.iter());
        let positives: Vec<_> = positives.map(|position| keys.keys[position as usize]).collect();
        let observed = probed.positives() as f64 / probed.probes() as f64;
        AbsentKeys::ensure_absent(&positives, &opened, observed, probed.expected_fpr)?;
    }
    Ok(probed)
}

impl Surveyed {
    fn add(&mut self, probed: &FileProbe, absent: &AbsentKeys, context: &Context) {
        let report = &mut self.report;
        // The problem of a sidecar is known, and is not the table's.
        if let (Some(why), None) = (&probed.problem, &probed.sidecar_problem)
            && probed.state > report.state.max(State::Missing)
        {
            report.blame(probed.state, Some("filter"), why.clone());
            advise(report, context);
        }
        self.is_unmeasured = absent.is_made && report.key_filter().is_some_and(FilterReport::holds_parts_alone);
        if self.is_unmeasured {
            return;
        }
        self.reads = probed.candidates();
        self.unfiltered_reads = probed.count(Because::NoFilter) + probed.count(Because::UnusableFilter);
        let (probes, positives) = (probed.probes(), probed.positives());
        // A filter with a problem is positive for every key, which is no rate of its own.
        if probes > 0 && probed.problem.is_none() {
            report.observed = Some(Observed {
                probes,
                not_probed: probed.count(Because::NotCovered),
                positives,
                observed_fpr: Some(Rate(positives as f64 / probes as f64)),
                observed_fpr_margin: Some(Rate(margin(positives, probes))),
            });
        }
    }
}

record! {
    /// The observed rate of the filters of one kind on one level.
    pub(crate) struct KindRate {
        pub(crate) level: Option<u32> [row],
        pub(crate) kind: String [row],
        pub(crate) tables: u64 [row],
        pub(crate) probes: u64 [row],
        pub(crate) positives: u64 [row],
        pub(crate) observed_fpr: Rate [row],
        pub(crate) observed_fpr_margin: Rate [row],
        pub(crate) expected_fpr: Option<Rate> [row],
    }
}

impl KindRate {
    /// Returns the rates of tables that were measured.
    pub(crate) fn of_each(files: &[Surveyed]) -> Vec<Self> {
        let mut rates = BTreeMap::<(Option<u32>, &str), Self>::new();
        for report in files.iter().map(|file| &file.report) {
            let (Some(filter), Some(observed)) = (report.key_filter(), &report.observed) else { continue };
            let (level, kind) = (report.place.level, &filter.kind);
            let new = || Self { level, kind: kind.clone(), expected_fpr: Some(Rate(0.0)), ..Self::default() };
            let rate = rates.entry((level, kind)).or_insert_with(new);
            rate.tables += 1;
            rate.probes += observed.probes;
            rate.positives += observed.positives;
            // A sum until `finished` divides it.
            let sum = rate.expected_fpr.zip(filter.expected_fpr);
            rate.expected_fpr = sum.map(|(sum, rate)| Rate(sum.0 + rate.0 * observed.probes as f64));
        }
        rates.into_values().map(Self::finished).collect()
    }

    fn finished(self) -> Self {
        let probes = self.probes as f64;
        Self {
            observed_fpr: Rate(self.positives as f64 / probes),
            observed_fpr_margin: Rate(margin(self.positives, self.probes)),
            expected_fpr: self.expected_fpr.map(|Rate(sum)| Rate(sum / probes)),
            ..self
        }
    }

    /// Returns a warning if the observed rate is clearly above the expected one.
    pub(crate) fn warning(&self) -> Option<String> {
        let (Rate(observed), Rate(margin), Rate(expected)) =
            (self.observed_fpr, self.observed_fpr_margin, self.expected_fpr?);
        let level = self.level.map(|level| format!(" on level {level}")).unwrap_or_default();
        (observed - margin > HIGH * expected).then(|| {
            let (observed, expected) = (with_margin(observed, margin), percent(expected));
            format!("more false positives than expected of {}{level}: {observed} instead of {expected}", self.kind)
        })
    }
}
