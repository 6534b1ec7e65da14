//! Runs the scenes of the demonstration.

use anyhow::Context;
use sstfilter::Sizing;

use super::scenes::{self, BundledKeys, Cost, FILES, MAX_LEFT, SCANNED, STRETCHES};
use crate::measure::filters::{self, MeasuredKind, Workload, default_rate};
use crate::print::{Outcome, record};
use crate::system::progress;
use crate::words::units::{grouped, nanoseconds};

record! {
    /// What filters save, on package names of Debian.
    pub(crate) struct DemoReport {
        keys: u64,
        absent_keys: u64,
        lookups_in_70_files: Vec<Cost>,
        filters_in_one_file: Vec<MeasuredKind>,
        lookups_with_less_memory: Vec<Cost>,
        scans_of_100_names: Vec<Cost>,
        results: Vec<String> [notable],
    }
}

/// Runs the demonstration. The answer is no if any key was lost, or scans read more than they may.
pub(crate) fn run() -> anyhow::Result<(Outcome, DemoReport)> {
    let keys = BundledKeys::unpacked()?;
    // Removed with its tables when it is dropped, also after an error.
    let directory =
        tempfile::tempdir().context("cannot make a temporary directory: set TMPDIR to one that can be written")?;
    let stages = progress::stages(4 + filters::steps(2));
    let [stored, absent] = keys.hashes();
    let mut report =
        DemoReport { keys: stored.len() as u64, absent_keys: absent.len() as u64, ..DemoReport::default() };
    let scene = |what: &str, measure: scenes::Scene| {
        stages.set_message(what.to_owned());
        let costs = measure(&keys, directory.path());
        stages.inc(1);
        costs
    };
    report.lookups_in_70_files = scene("looking up names", scenes::many_files)?;
    report.lookups_with_less_memory = scene("looking up names with less memory", scenes::less_memory)?;
    report.scans_of_100_names = scene("scanning names", scenes::scans)?;
    let (workload, sizing) = (Workload::new(vec![stored], absent), Sizing::Rate(default_rate()?));
    report.filters_in_one_file =
        filters::measure(&["bloom", "ribbon"], &workload, sizing, "one rate", &stages, &mut Vec::new())?;
    report.results = [report.lookups()?, report.scanned(), report.lost()].to_vec();
    let is_sound = report.all_lost() == 0 && report.left_in_vain() <= MAX_LEFT;
    Ok((Outcome::from_sound(is_sound), report))
}

impl DemoReport {
    fn all_lost(&self) -> u64 {
        let costs =
            [&self.lookups_in_70_files, &self.lookups_with_less_memory, &self.scans_of_100_names].into_iter().flatten();
        let of_kinds = self.filters_in_one_file.iter().map(|kind| kind.lost_keys);
        costs.map(|cost| cost.lost_keys).chain(of_kinds).sum()
    }

    fn lookups(&self) -> anyhow::Result<String> {
        let ([none, bloom, map], [in_bloom, in_ribbon]) =
            (&self.lookups_in_70_files[..], &self.filters_in_one_file[..])
        else {
            anyhow::bail!("a scene has no figures")
        };
        let time = |cost: &Cost| nanoseconds(cost.lookup_ns.unwrap_or_default().0);
        Ok(format!(
            "With {:.2} bits of Bloom filter per key, a lookup of an absent key in {FILES} files reads {:.2} data blocks \
             instead of {:.1}; with one map of all files, {:.2} bits per key, it reads {:.3}, in {} instead of {}. In one \
             compacted file, Ribbon has the same rate at {:.2} bits per key instead of {:.2} ({:.0} % less memory) for \
             {:.1} times the build time.",
            bloom.bits_per_key.0,
            bloom.block_reads.0,
            none.block_reads.0,
            map.bits_per_key.0,
            map.block_reads.0,
            time(map),
            time(bloom),
            in_ribbon.bits_per_key.0,
            in_bloom.bits_per_key.0,
            (1.0 - in_ribbon.bits_per_key.0 / in_bloom.bits_per_key.0) * 100.0,
            in_ribbon.build_ns.0 / in_bloom.build_ns.0,
        ))
    }

    /// Returns the reads in vain of scans, without filters and with ordered range filters, for each stretch.
    fn in_vain(&self) -> [[f64; 2]; 2] {
        STRETCHES.map(|stretch| {
            [scenes::NO_FILTER, scenes::ORDERED].map(|method| {
                let is_of = |cost: &&Cost| (cost.stretch, cost.method) == (Some(stretch as u64), method);
                self.scans_of_100_names
                    .iter()
                    .find(is_of)
                    .and_then(|cost| cost.reads_in_vain)
                    .map_or(f64::NAN, |reads| reads.0)
            })
        })
    }

    /// Returns the share of the reads in vain that ordered range filters leave in files of stretches. If names are
    /// dealt one by one, no filter can exclude files with names next to the scan.
    fn left_in_vain(&self) -> f64 {
        let [[none, ordered], _] = self.in_vain();
        ordered / none
    }

    fn scanned(&self) -> String {
        let [[none, ordered], [none_of_ones, ordered_of_ones]] = self.in_vain();
        let verdict =
            if self.left_in_vain() <= MAX_LEFT { "at most a tenth, as promised" } else { "MORE than a tenth" };
        format!(
            "If files hold stretches of {} names, scans of {SCANNED} names with ordered range filters read {ordered:.2} \
             data blocks in files without any of their names, instead of {none:.2}: {verdict}. If names are dealt one by \
             one, every file has names right next to the scan, and {ordered_of_ones:.2} of {none_of_ones:.2} reads are \
             left.",
            STRETCHES[0],
        )
    }

    fn lost(&self) -> String {
        match self.all_lost() {
            0 => format!("0 of {} keys are lost.", grouped(self.keys)),
            lost => format!("{} KEYS WERE LOST, which must never happen. Please report it.", grouped(lost)),
        }
    }
}
