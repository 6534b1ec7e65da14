//! Looks at all tables of a store, and measures their filters on absent keys.

use std::path::PathBuf;

use crate::file::open::{Context, open_to_probe};
use crate::file::problem::{Problem, State};
use crate::file::walk::{Found, Walk};
use crate::model::absent::{AbsentKeys, Maker};
use crate::model::batch::{KeyBatch, all_of, in_parallel};
use crate::model::describe::{describe, describe_problem};
use crate::model::file::{FileReport, FilterReport, Observed};
use crate::model::group::{Family, Surveyed};
use crate::model::judge::advise;
use crate::model::probe::{Because, FileProbe, probe};
use crate::print::types::Bits;
use crate::system::progress::Progress;

/// The tables of a store by column family, and the keys that those of each family were measured on.
pub(crate) struct Survey {
    pub(crate) walk: Walk,
    pub(crate) families: Vec<Family<Surveyed>>,
    pub(crate) absent: Vec<AbsentKeys>,
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
        let mut files = Vec::new();
        for found in &walk.files {
            let file = look(found, maker, given.is_some(), context);
            files.extend(file.map(|file| (file.report.place.family(), file)));
            progress.step();
        }
        let mut families = Family::chosen(Family::of_each(files), family)?;
        let absent = families.iter_mut().map(|family| measure(&mut family.files, maker, given, context));
        Ok(Self { walk, absent: absent.collect::<Result<_, _>>()?, families })
    }

    /// Returns all tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &FileReport> {
        self.families.iter().flat_map(|family| &family.files).map(|file| &file.report)
    }
}

/// Describes a table and makes keys. Returns `None` for a table that a running engine removed meanwhile.
fn look(found: &Found, maker: Maker, is_given: bool, context: &Context) -> Option<Surveyed> {
    let opened = match open_to_probe(found, context) {
        Ok(opened) => opened,
        Err(Problem { state: State::NotLive, .. }) => return None,
        Err(problem) => return Some(Surveyed::new(found, describe_problem(found, &problem, context))),
    };
    let mut file = Surveyed::new(found, describe(&opened, context));
    let report = &mut file.report;
    // LevelDB's tables do not record numbers.
    let is_uncounted = report.key_filter().map_or(report.contents.entries, |filter| filter.keys).is_none();
    if report.format.is_table() && (is_uncounted || !is_given) {
        match maker.make(&opened, is_uncounted, &mut file.made) {
            Ok(keys) if is_uncounted => count(report, keys),
            Ok(_) => {}
            Err(reason) => blame_data(report, &reason.into(), context),
        }
    }
    Some(file)
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

/// Adds why the keys of a table cannot be read.
fn blame_data(report: &mut FileReport, problem: &Problem, context: &Context) {
    let (why, _) = problem.about(&report.path.0);
    if report.reasons.iter().any(|reason| reason.why.contains(&why)) {
        return;
    }
    let is_damage = problem.state >= State::Damaged;
    let (state, part) = if is_damage { (problem.state, "data") } else { (State::Ok, "keys, which were not read") };
    report.blame(state, Some(part), why);
    advise(report, context);
}

/// Probes the tables of a column family for absent keys.
fn measure(
    files: &mut [Surveyed],
    maker: Maker,
    given: Option<&AbsentKeys>,
    context: &Context,
) -> anyhow::Result<AbsentKeys> {
    let made = files.iter_mut().flat_map(|file| core::mem::take(&mut file.made));
    let absent = given.cloned().unwrap_or_else(|| AbsentKeys::made(made, maker));
    let keys = KeyBatch::new(absent.keys.iter().map(Vec::as_slice).collect());
    let probe = |file: &Surveyed| {
        let opened = match open_to_probe(&file.found, context) {
            Ok(opened) => opened,
            Err(problem) => return Ok(FileProbe::unopened(&problem, all_of(keys.keys.len()))),
        };
        let probed = probe(&opened, &keys, None, context);
        if !absent.is_made {
            AbsentKeys::observe(&probed, &keys, &opened)?;
        }
        anyhow::Ok(probed)
    };
    let probed = in_parallel(files, None, probe)?;
    for (file, probed) in files.iter_mut().zip(probed) {
        file.add(&probed?, &absent, context);
    }
    Ok(absent)
}

impl Surveyed {
    fn add(&mut self, probed: &FileProbe, absent: &AbsentKeys, context: &Context) {
        let report = &mut self.report;
        // Lookups read a map before all tables.
        if report.map.is_some() {
            return;
        }
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
        self.unfiltered_reads = probed.count(Because::NoFilter) + probed.count(Because::UnusableFilter);
        // Reads for range tombstones are not useless.
        self.reads = probed.candidates() - probed.count(Because::RangeTombstones);
        // A filter with a problem is positive for every key, which is no rate of its own.
        if probed.probes() > 0 && probed.problem.is_none() {
            report.observed = Some(Observed::of(probed));
        }
    }
}
