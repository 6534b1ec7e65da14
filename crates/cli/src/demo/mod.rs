//! `sstfilter demo`: shows what filters save on real keys, measured on real tables, and how many keys
//! accidents lose.

mod accidents;
mod keys;
mod measure;
mod memory;
mod scans;
mod tables;

use core::fmt;

use anyhow::Context;
use serde::Serialize;

use crate::output::{Column, Outcome, figures};
use crate::progress;
use crate::units::{bytes, grouped, nanoseconds, percent, whole};
use accidents::AccidentFigures;
use measure::{FILES, KindFigures, PolicyFigures};
use memory::{DesignFigures, MemoryFigures};
use scans::{LengthFigures, ScanFigures, ScansFigures};

/// Runs the demonstration. The answer is no if any key was lost, or scans read more than they may.
pub(crate) fn run() -> anyhow::Result<(Outcome, DemoReport)> {
    let keys = keys::bundled()?;
    // Removed with its tables when it is dropped, also after an error.
    let directory =
        tempfile::tempdir().context("cannot make a temporary directory: set TMPDIR to one that can be written")?;
    let stages = progress::stages(3);
    stages.set_message("looking up names");
    let (scenario, compacted) = measure::measure(&keys, directory.path())?;
    stages.inc(1);
    stages.set_message("looking up names with less memory");
    let less_memory = memory::measure(&keys, directory.path())?;
    stages.inc(1);
    stages.set_message("scanning names");
    let scans = scans::measure(&keys, directory.path())?;
    let accidents = accidents::measure()?;
    let (keys, absent_keys) = (keys.present.len() as u64, keys.absent.len() as u64);
    let in_scenario: u64 = scenario.iter().map(|policy| policy.false_negatives).sum();
    let with_less_memory = less_memory.iter().flat_map(MemoryFigures::designs).map(|design| design.false_negatives);
    let lost =
        in_scenario + compacted.iter().map(|kind| kind.false_negatives).sum::<u64>() + with_less_memory.sum::<u64>();
    let is_accepted = scans.is_accepted && scans.wrong_scans() == 0;
    let is_sound = lost == 0 && is_accepted && accidents.iter().all(|accident| accident.false_negatives == 0);
    let report = DemoReport {
        keys,
        absent_keys,
        files: FILES,
        conclusion: conclusion(&scenario, &compacted, keys, lost),
        scenario_70_files: scenario,
        compacted,
        less_memory,
        scans,
        accidents,
    };
    Ok((Outcome::from_sound(is_sound), report))
}

#[derive(Debug, Serialize)]
pub(crate) struct DemoReport {
    keys: u64,
    absent_keys: u64,
    files: usize,
    scenario_70_files: [PolicyFigures; 4],
    compacted: [KindFigures; 2],
    less_memory: Vec<MemoryFigures>,
    scans: ScansFigures,
    accidents: Vec<AccidentFigures>,
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
        with.lookups.data_block_reads_per_absent_lookup,
        without.lookups.data_block_reads_per_absent_lookup,
        grouped(lost),
        grouped(keys),
        map.filter_bits_per_key,
        map.lookups.data_block_reads_per_absent_lookup,
        nanoseconds(map.lookups.ns_per_absent_lookup),
        nanoseconds(with.lookups.ns_per_absent_lookup),
        ribbon.built.bits_per_key,
        bloom.built.bits_per_key,
        (1.0 - ribbon.built.bits_per_key / bloom.built.bits_per_key) * 100.0,
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
        self.write_accidents(f)?;
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
            ("data blocks", |policy| format!("{:.3}", policy.lookups.data_block_reads_per_absent_lookup)),
            ("bytes read", |policy| bytes(whole(policy.lookups.bytes_read_per_absent_lookup.round()))),
            ("time", |policy| nanoseconds(policy.lookups.ns_per_absent_lookup)),
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
        if policy.lookups.absent_lookups < self.absent_keys {
            let (absent, present) = (grouped(policy.lookups.absent_lookups), grouped(policy.present_lookups));
            writeln!(f, "{name}: measured on {absent} absent and {present} present keys")?;
        }
        Ok(())
    }

    fn write_compacted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<KindFigures>; 9] = [
            ("filter", |kind| kind.built.filter.kind.to_owned()),
            ("bits/key", |kind| format!("{:.2}", kind.built.bits_per_key)),
            ("size", |kind| bytes(kind.block_bytes)),
            ("false pos.", |kind| percent(kind.observed_fpr)),
            ("expected", |kind| percent(kind.built.expected_fpr)),
            ("build/key", |kind| nanoseconds(kind.build_ns_per_key)),
            ("query hit", |kind| nanoseconds(kind.query_present_ns)),
            ("query miss", |kind| nanoseconds(kind.query_absent_ns)),
            ("lost", |kind| grouped(kind.false_negatives)),
        ];
        writeln!(f, "{}", figures(&columns, &self.compacted))
    }

    fn write_less_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn reads(design: &DesignFigures) -> String {
            let data_blocks = design.lookups.data_block_reads_per_absent_lookup;
            format!("{data_blocks:.3} ({:.1})", design.filter_bytes_read_per_absent_lookup)
        }
        let columns: [Column<MemoryFigures>; 5] = [
            ("filter memory", |row| format!("{} % ({})", row.memory_percent, bytes(row.memory_bytes))),
            ("kept or dropped", |row| reads(&row.kept_or_dropped)),
            ("shrunk", |row| reads(&row.shrunk)),
            ("partitions", |row| reads(&row.partitions)),
            ("shrunk partitions", |row| reads(&row.shrunk_partitions)),
        ];
        let (files, partition) = (memory::FILES, bytes(memory::PARTITION_BYTES.into()));
        writeln!(f, "\n{files} files, less and less memory for filters: data blocks read per lookup of an absent key")?;
        writeln!(f, "(in parentheses, bytes of filters read)")?;
        writeln!(f, "{}", figures(&columns, &self.less_memory))?;
        writeln!(f, "Ribbon filters with partitions of {partition}; a few names are looked up most, by Zipf's law")
    }

    fn write_scans(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn reads(length: &LengthFigures) -> String {
            format!("{:.1} ({:.1})", length.data_block_reads_per_scan, length.useless_reads_per_scan)
        }
        let columns: [Column<ScanFigures>; 5] = [
            ("filter", |row| row.method.to_owned()),
            ("10 names", |row| reads(&row.lengths[0])),
            ("100 names", |row| reads(&row.lengths[1])),
            ("1,000 names", |row| reads(&row.lengths[2])),
            ("bits/key", |row| format!("{:.2}", row.filter_bits_per_key)),
        ];
        let wrong = grouped(self.scans.wrong_scans());
        for stretch in scans::STRETCHES {
            let dealt = if stretch == 1 { "one by one".to_owned() } else { format!("in stretches of {stretch}") };
            writeln!(
                f,
                "\n{FILES} files, names dealt {dealt}: data blocks read per scan (in files without its names)"
            )?;
            writeln!(f, "{}", figures(&columns, self.scans.rows.iter().filter(|row| row.stretch == stretch)))?;
        }
        writeln!(f, "{wrong} of the scans returned other names or versions than were written")?;
        write_wrapped(f, &self.scans.conclusion)
    }

    fn write_accidents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: [Column<AccidentFigures>; 3] = [
            ("accident", |row| row.accident.to_owned()),
            ("plain Bloom filter", |row| grouped(row.plain_bloom_false_negatives)),
            ("sstfilter", |row| grouped(row.false_negatives)),
        ];
        writeln!(f, "\nOne file of {} keys: keys lost after an accident", grouped(accidents::KEYS.into()))?;
        writeln!(f, "{}", figures(&columns, &self.accidents))?;
        writeln!(f, "After an accident, sstfilter does not use the filter, and reports why:")?;
        for AccidentFigures { accident, problem, .. } in &self.accidents {
            if let Some(problem) = problem {
                write_wrapped(f, &format!("{accident}: {problem}"))?;
            }
        }
        Ok(())
    }
}

/// Writes `text` in lines of at most 96 columns.
fn write_wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const COLUMNS: usize = 96;
    let mut line = String::new();
    for word in text.split_whitespace() {
        // One column for the blank before the word.
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(f, "{line}")?;
            line.clear();
        }
        let blank = if line.is_empty() { "" } else { " " };
        line.extend([blank, word]);
    }
    writeln!(f, "{line}")
}
