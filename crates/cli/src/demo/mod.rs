//! `sstfilter demo`: shows what filters save on real keys, measured on real tables.

mod keys;
mod measure;
mod memory;
mod scans;

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use serde::Serialize;

use crate::output::{Column, Outcome, figures};
use crate::progress::Progress;
use crate::units::{bytes, grouped, nanoseconds, percent, whole};
use measure::{FILES, KindFigures, PolicyFigures};
use memory::{DesignFigures, MemoryFigures};
use scans::{ScanFigures, ScansFigures};

/// Runs the demonstration. The answer is no if any key was lost, or scans read more than they may.
pub(crate) fn run() -> anyhow::Result<(Outcome, DemoReport)> {
    let keys = keys::bundled()?;
    // Removed with its tables when it is dropped, also after an error.
    let directory =
        tempfile::tempdir().context("cannot make a temporary directory: set TMPDIR to one that can be written")?;
    let (scenario, compacted) = measure::measure(&keys, directory.path())?;
    let less_memory = memory::measure(&keys, directory.path())?;
    let scans = scans::measure(&keys, directory.path())?;
    let (keys, absent_keys) = (keys.present.len() as u64, keys.absent.len() as u64);
    let in_scenario: u64 = scenario.iter().map(|policy| policy.false_negatives).sum();
    let with_less_memory = less_memory.iter().flat_map(MemoryFigures::designs).map(|design| design.false_negatives);
    let is_accepted = scans.is_accepted && scans.wrong_scans() == 0;
    let lost =
        in_scenario + compacted.iter().map(|kind| kind.false_negatives).sum::<u64>() + with_less_memory.sum::<u64>();
    let report = DemoReport {
        keys,
        absent_keys,
        files: FILES,
        conclusion: conclusion(&scenario, &compacted, keys, lost),
        scenario_70_files: scenario,
        compacted,
        less_memory,
        scans,
    };
    Ok((Outcome::from_sound(lost == 0 && is_accepted), report))
}

/// Runs `work` on each item, on all cores, and returns the results in the items' order. Only for work that is counted,
/// because parallel runs would disturb times.
fn on_all_cores<I: Sync, R: Send>(
    task: &'static str,
    items: &[I],
    work: impl Fn(&I) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let (next, progress) = (AtomicUsize::new(0), Mutex::new(Progress::new(task, items.len() as u64)));
    let results = Mutex::new(Vec::new());
    let work_on = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
            progress.lock().unwrap_or_else(PoisonError::into_inner).step();
        }
    };
    thread::scope(|scope| {
        // One thread fewer than cores, because this thread also works.
        (1..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| _ = scope.spawn(work_on));
        work_on();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[derive(Debug, Serialize)]
pub(crate) struct DemoReport {
    keys: u64,
    absent_keys: u64,
    files: usize,
    scenario_70_files: [PolicyFigures; 4],
    compacted: [KindFigures; 2],
    less_memory: [MemoryFigures; 4],
    scans: ScansFigures,
    conclusion: String,
}

/// Returns one sentence of measured figures.
fn conclusion(scenario: &[PolicyFigures; 4], compacted: &[KindFigures; 2], keys: u64, lost: u64) -> String {
    // The third policy is Ribbon, which falls back to Bloom for such small files.
    let ([without, with, _, map], [bloom, ribbon]) = (scenario, compacted);
    format!(
        "With {:.2} bits of Bloom filter per key, a lookup of an absent key in {FILES} files reads {:.2} data \
         blocks instead of {:.1}, and {} of {} keys are lost; with one map of all files, {:.2} bits per key, it reads \
         {:.3}, in {} instead of {}; in one compacted file, Ribbon has the same rate at \
         {:.2} bits per key instead of {:.2} ({:.0} % less memory) for {:.1} times the build time.",
        with.filter_bits_per_key,
        with.data_block_reads_per_absent_lookup,
        without.data_block_reads_per_absent_lookup,
        grouped(lost),
        grouped(keys),
        map.filter_bits_per_key,
        map.data_block_reads_per_absent_lookup,
        nanoseconds(map.ns_per_absent_lookup),
        nanoseconds(with.ns_per_absent_lookup),
        ribbon.bits_per_key,
        bloom.bits_per_key,
        (1.0 - ribbon.bits_per_key / bloom.bits_per_key) * 100.0,
        ribbon.build_ns_per_key / bloom.build_ns_per_key,
    )
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Keys: {} package names of Debian 12, with their versions.", grouped(self.keys))?;
        writeln!(f, "Absent keys: {} names of a later release.\n", grouped(self.absent_keys))?;
        writeln!(f, "{FILES} files with overlapping ranges: cost of one lookup of an absent key")?;
        self.write_scenario(f)?;
        writeln!(f, "\nAll {} keys in one compacted file: both kinds at the same rate", grouped(self.keys))?;
        self.write_compacted(f)?;
        self.write_less_memory(f)?;
        self.write_scans(f)?;
        writeln!(f)?;
        write_wrapped(f, &self.conclusion)
    }
}

impl DemoReport {
    fn write_scenario(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn rate(policy: &PolicyFigures, rate: f64) -> String {
            if policy.filter_kind_used == "none" { "-".to_owned() } else { percent(rate) }
        }
        let columns: [Column<PolicyFigures>; 8] = [
            ("filter", |policy| policy.policy.to_owned()),
            ("data blocks", |policy| format!("{:.3}", policy.data_block_reads_per_absent_lookup)),
            ("bytes read", |policy| bytes(whole(policy.bytes_read_per_absent_lookup.round()))),
            ("time", |policy| nanoseconds(policy.ns_per_absent_lookup)),
            ("bits/key", |policy| format!("{:.2}", policy.filter_bits_per_key)),
            ("false pos.", |policy| rate(policy, policy.observed_fpr)),
            ("expected", |policy| rate(policy, policy.expected_fpr)),
            ("lost keys", |policy| grouped(policy.false_negatives)),
        ];
        writeln!(f, "{}", figures(&columns, &self.scenario_70_files))?;
        writeln!(f, "bloom was built for 10 bits per key; bits/key counts whole blocks, trailers included")?;
        writeln!(f, "map: one file map for all files, instead of filters; false pos. are those in all files together")?;
        for policy in &self.scenario_70_files {
            self.write_remarks(f, policy)?;
        }
        Ok(())
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>, policy: &PolicyFigures) -> fmt::Result {
        let name = policy.policy;
        if let Some(reason) = policy.fallback_reason {
            let (used, per_file) = (policy.filter_kind_used, self.keys / FILES as u64);
            writeln!(f, "{name} was requested, {used} was built: {reason} (about {per_file} per file)")?;
        }
        if policy.absent_lookups < self.absent_keys {
            let (absent, present) = (grouped(policy.absent_lookups), grouped(policy.present_lookups));
            writeln!(f, "{name}: measured on {absent} absent and {present} present keys")?;
        }
        Ok(())
    }

    fn write_compacted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<KindFigures>; 9] = [
            ("filter", |kind| kind.kind.to_owned()),
            ("bits/key", |kind| format!("{:.2}", kind.bits_per_key)),
            ("size", |kind| bytes(kind.block_bytes)),
            ("false pos.", |kind| percent(kind.observed_fpr)),
            ("expected", |kind| percent(kind.expected_fpr)),
            ("build/key", |kind| nanoseconds(kind.build_ns_per_key)),
            ("query hit", |kind| nanoseconds(kind.query_present_ns)),
            ("query miss", |kind| nanoseconds(kind.query_absent_ns)),
            ("lost", |kind| grouped(kind.false_negatives)),
        ];
        writeln!(f, "{}", figures(&columns, &self.compacted))
    }
}

impl DemoReport {
    fn write_less_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn reads(design: &DesignFigures) -> String {
            format!("{:.3}", design.data_block_reads_per_absent_lookup)
        }
        fn filters(design: &DesignFigures) -> String {
            format!("{:.1}", design.filter_bytes_read_per_absent_lookup)
        }
        let columns: [Column<MemoryFigures>; 5] = [
            ("filter memory", |row| format!("{} %", row.memory_percent)),
            ("kept or dropped", |row| reads(&row.kept_or_dropped)),
            ("shrunk", |row| reads(&row.shrunk)),
            ("partitions", |row| reads(&row.partitions)),
            ("shrunk partitions", |row| reads(&row.shrunk_partitions)),
        ];
        let (files, partition) = (memory::FILES, bytes(memory::PARTITION_BYTES.into()));
        writeln!(f, "\n{files} files, less and less memory for filters: data blocks read per lookup of an absent key")?;
        writeln!(f, "{}", figures(&columns, &self.less_memory))?;
        let columns: [Column<MemoryFigures>; 5] = [
            ("filter memory", |row| bytes(row.memory_bytes)),
            ("kept or dropped", |row| filters(&row.kept_or_dropped)),
            ("shrunk", |row| filters(&row.shrunk)),
            ("partitions", |row| filters(&row.partitions)),
            ("shrunk partitions", |row| filters(&row.shrunk_partitions)),
        ];
        writeln!(f, "\nThe same lookups: bytes of filters read per lookup")?;
        writeln!(f, "{}", figures(&columns, &self.less_memory))?;
        writeln!(f, "Ribbon filters with partitions of {partition}; a few names are looked up most, by Zipf's law")
    }
}

impl DemoReport {
    fn write_scans(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn reads(row: &ScanFigures, length: usize) -> String {
            row.lengths.get(length).map_or_else(String::new, |length| {
                format!("{:.1} ({:.1})", length.data_block_reads_per_scan, length.useless_reads_per_scan)
            })
        }
        let columns: [Column<ScanFigures>; 5] = [
            ("filter", |row| row.method.to_owned()),
            ("10 names", |row| reads(row, 0)),
            ("100 names", |row| reads(row, 1)),
            ("1,000 names", |row| reads(row, 2)),
            ("bits/key", |row| format!("{:.2}", row.filter_bits_per_key)),
        ];
        for stretch in scans::STRETCHES {
            let dealt = if stretch == 1 { "one by one".to_owned() } else { format!("in stretches of {stretch}") };
            writeln!(
                f,
                "\n{FILES} files, names dealt {dealt}: data blocks read per scan (in files without its names)"
            )?;
            writeln!(f, "{}", figures(&columns, self.scans.rows.iter().filter(|row| row.stretch == stretch)))?;
        }
        writeln!(
            f,
            "{} of the scans returned other names or versions than were written",
            grouped(self.scans.wrong_scans())
        )?;
        write_wrapped(f, &self.scans.verdict())
    }
}

/// Writes `text` in lines of at most 96 columns.
fn write_wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const COLUMNS: usize = 96;
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        // One column for the blank before the word.
        let fits = column + 1 + width <= COLUMNS;
        let before = if column == 0 {
            ""
        } else if fits {
            " "
        } else {
            "\n"
        };
        write!(f, "{before}{word}")?;
        column = if fits { column + before.len() + width } else { width };
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &'static str, fallback_reason: Option<&'static str>) -> PolicyFigures {
        PolicyFigures {
            policy: name,
            data_block_reads_per_absent_lookup: 69.999,
            bytes_read_per_absent_lookup: 1_023.9 * 1_024.0,
            filter_bits_per_key: 10.45,
            absent_lookups: 2_272,
            present_lookups: 63_666,
            false_negatives: 0,
            observed_fpr: 0.009_999,
            absent_probes: 1_590_470,
            expected_fpr: 0.009_999,
            ns_per_absent_lookup: 999_949.0,
            filter_kind_used: "bloom",
            fallback_reason,
        }
    }

    fn kind(name: &'static str) -> KindFigures {
        KindFigures {
            kind: name,
            requested: name,
            keys: 63_666,
            block_bytes: 102_300,
            bits_per_key: 10.01,
            observed_fpr: 0.009_999,
            absent_probes: 22_721,
            expected_fpr: 0.009_999,
            false_negatives: 0,
            build_ns_per_key: 999_949.0,
            query_present_ns: 999_949.0,
            query_absent_ns: 999_949.0,
        }
    }

    fn memory(memory_percent: u64) -> MemoryFigures {
        let design = || DesignFigures {
            data_block_reads_per_absent_lookup: 7.999_9,
            filter_bytes_read_per_absent_lookup: 9_999.94,
            false_negatives: 0,
        };
        let [kept_or_dropped, shrunk, partitions, shrunk_partitions] = core::array::from_fn(|_| design());
        let memory_bytes = 1_023 << 10;
        MemoryFigures { memory_percent, memory_bytes, kept_or_dropped, shrunk, partitions, shrunk_partitions }
    }

    #[test]
    fn the_text_fits_a_terminal_without_broken_rows_and_ends_in_a_sentence() {
        let scenario =
            [policy("none", None), policy("bloom", None), policy("ribbon", Some("too few keys")), policy("map", None)];
        let compacted = [kind("bloom"), kind("ribbon")];
        let conclusion = conclusion(&scenario, &compacted, 63_666, 0);
        let (keys, absent_keys) = (63_666, 22_721);
        let less_memory = [100, 50, 25, 10].map(memory);
        let (files, scenario_70_files) = (FILES, scenario);
        let scans = ScansFigures { rows: Vec::new(), useless_reads_left: Vec::new(), is_accepted: true };
        let report =
            DemoReport { keys, absent_keys, files, scenario_70_files, compacted, less_memory, scans, conclusion };
        let text = report.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((rows(" bloom "), rows(" ribbon "), rows("   ")), (2, 2, 0), "{text}");
        assert!(text.contains("too few keys (about 909 per file)"), "{text}");
        assert!(text.ends_with("the build time.\n"), "{text}");
    }
}
