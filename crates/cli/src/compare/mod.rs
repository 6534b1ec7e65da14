//! `sstfilter compare`: compares all kinds of filter on the user's own keys or on made-up ones, on an equal footing.

mod args;
mod charts;
mod conclusion;
mod curves;
mod keys;
mod page;
mod rows;

use core::fmt;
use std::time::Instant;

use anyhow::ensure;
use serde::Serialize;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing, kind};
use sstfilter_charts::{Machine, today};

pub(crate) use args::CompareArgs;

use crate::commands::options::AUTO;
use crate::filters::Omission;
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::{Column, Outcome, figures};
use crate::progress;
use crate::replace::OwnFiles;
use crate::units::{brief_percent, counted, grouped, percent};
use curves::Curves;
use keys::Workload;
use rows::Row;

/// The report of a comparison, which is also the contents of the page and of `compare.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    program: &'static str,
    command: String,
    version: &'static str,
    date: String,
    machine: Machine,
    seconds: f64,
    /// Distinct keys in the filters.
    keys: u64,
    files: u64,
    absent_keys: u64,
    /// How the absent keys were found.
    absent_from: String,
    footing: Footing,
    /// Mean number of files whose key range includes an absent key: the blocks that it costs without filters.
    blocks_without_filters: f64,
    rows: Vec<Row>,
    /// Kinds that are not in the table, and why.
    omissions: Vec<Omission>,
    /// Tables that were not read to their end. No figure includes their unread keys.
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
    conclusion: String,
    /// Figures of the charts; null without `--out`.
    curves: Option<Curves>,
    /// Files that were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    written: Vec<String>,
}

/// The files, and the beginning by which those of an earlier run are recognized.
const FILES: [(&str, &str); 2] = [
    ("compare.html", page::FIRST_LINE),
    // Depends on the first fields of `Comparison` and their order.
    ("compare.json", "{\n  \"program\": \"sstfilter\",\n  \"command\": \"sstfilter compare "),
];

/// The size or rate that all filters have in common.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Footing {
    /// At most this rate, the rate of blocked Bloom at 10 bits per key.
    DefaultFpr(f64),
    /// At most this rate.
    Fpr(f64),
    /// At most this size.
    BitsPerKey(f64),
}

/// Keys of the filter that defines the default rate. With this many, the rate hardly depends on their number.
const KEYS_OF_DEFAULT: u64 = 1 << 24;

/// The report warns if there are fewer absent keys: at 1 %, they show no more than ten false positives.
const FEW_ABSENT_KEYS: u64 = 1_000;

impl Footing {
    fn from_args(args: &CompareArgs) -> anyhow::Result<Self> {
        Ok(match (args.fpr, args.bits_per_key) {
            // clap refuses both options together.
            (Some(rate), _) => Self::Fpr(rate.get()),
            (None, Some(size)) => Self::BitsPerKey(size.get()),
            (None, None) => {
                // The default policy is blocked Bloom at 10 bits per key.
                let plan = FixedPolicy::default().plan(KEYS_OF_DEFAULT, None);
                Self::DefaultFpr(
                    plan.map_err(|reason| anyhow::anyhow!("blocked Bloom has no plan: {reason}"))?.expected_fpr,
                )
            }
        })
    }

    /// Returns the rate, if it is what the filters have in common.
    fn rate(self) -> Option<f64> {
        match self {
            Self::DefaultFpr(rate) | Self::Fpr(rate) => Some(rate),
            Self::BitsPerKey(_) => None,
        }
    }

    fn sizing(self) -> anyhow::Result<Sizing> {
        Ok(match self {
            Self::DefaultFpr(rate) | Self::Fpr(rate) => Sizing::Rate(FalsePositiveRate::new(rate)?),
            Self::BitsPerKey(bits) => Sizing::BitsPerKey(BitsPerKey::new(bits)?),
        })
    }
}

impl fmt::Display for Footing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultFpr(rate) => {
                write!(f, "a false positive rate of {}, that of blocked Bloom at 10 bits per key", brief_percent(*rate))
            }
            Self::Fpr(rate) => write!(f, "a false positive rate of {}", brief_percent(*rate)),
            Self::BitsPerKey(bits) => write!(f, "{bits} bits per key"),
        }
    }
}

/// Compares all kinds. The answer is no if any filter lost a key, or a table is damaged. `options` are the command line
/// options for reading tables.
pub(crate) fn run(
    args: &CompareArgs,
    options: &str,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, Comparison)> {
    let begun = Instant::now();
    // Checked first: minutes of measuring must not end at a directory that cannot be written.
    let files = args.out.as_deref().map(|out| OwnFiles::prepare(out, FILES)).transpose()?;
    let footing = Footing::from_args(args)?;
    let workload = keys::workload(args, format, reading)?;
    let mut comparison = Comparison::new(workload, footing, args)?;
    comparison.command = args.command(options);
    comparison.seconds = begun.elapsed().as_secs_f64();
    if let (Some(files), Some(curves)) = (files, &comparison.curves) {
        let contents = [page::html(&comparison, curves)?, serde_json::to_string_pretty(&comparison)? + "\n"];
        comparison.written = files.write(&contents)?;
    }
    Ok((comparison.outcome(), comparison))
}

impl Comparison {
    /// Measures all kinds on the keys, and for charts also at other rates and with fewer keys.
    fn new(workload: Workload, footing: Footing, args: &CompareArgs) -> anyhow::Result<Self> {
        let names: Vec<_> = kind::all().iter().map(|entry| entry.name).chain([AUTO]).collect();
        let (sizing, mut omissions) = (footing.sizing()?, Vec::new());
        let at = sizing.to_string();
        let with_curves = args.out.is_some();
        let curve_steps = if with_curves { Curves::steps(&workload) } else { 0 };
        let stages = progress::stages(rows::steps(names.len()) + curve_steps);
        let rows = rows::rows(&names, &workload, sizing, &at, &stages, &mut omissions)?;
        // One reason is enough: if no kind has a row, the same setting is out of reach for all.
        let reason = omissions.first().map_or("", |omission: &Omission| &omission.reason);
        ensure!(!rows.is_empty(), "no kind can build filters of these keys with {at}: {reason}");
        let curves = with_curves.then(|| Curves::measure(&workload, sizing, &stages)).transpose()?;
        let alarm = curves.iter().flat_map(Curves::rows).find_map(conclusion::alarm);
        let mut comparison = Self { curves, ..Self::of_rows(workload, footing, rows, omissions) };
        // Keys that were lost are all that matters.
        comparison.conclusion = alarm.unwrap_or(comparison.conclusion);
        Ok(comparison)
    }

    fn of_rows(workload: Workload, footing: Footing, rows: Vec<Row>, omissions: Vec<Omission>) -> Self {
        let (keys, absent_keys) = (workload.keys(), workload.absent.len() as u64);
        Self {
            program: "sstfilter",
            command: String::new(),
            version: env!("CARGO_PKG_VERSION"),
            date: today(),
            machine: Machine::this(sstfilter::simd::selected().name()),
            seconds: 0.0,
            keys,
            files: workload.files.len() as u64,
            absent_keys,
            blocks_without_filters: workload.files_per_absent_key(),
            absent_from: workload.absent_from,
            footing,
            conclusion: conclusion::sentence(&rows, footing),
            rows,
            omissions,
            left_out: workload.left_out,
            notes: notes(workload.notes, footing, absent_keys),
            curves: None,
            written: Vec::new(),
        }
    }
}

/// Adds remarks on the figures to those on the keys.
fn notes(mut notes: Vec<String>, footing: Footing, absent_keys: u64) -> Vec<String> {
    // Otherwise, the smaller filters of `auto` would look like a mistake.
    if matches!(footing, Footing::BitsPerKey(_)) {
        notes.push(
            "auto builds filters with the rate of a Bloom filter of this size, in fewer bytes if it can".to_owned(),
        );
    }
    if absent_keys < FEW_ABSENT_KEYS {
        notes.push(format!(
            "only {}: measured rates are rough, and the expected ones are more reliable",
            counted(absent_keys, "absent key")
        ));
    }
    notes
}

impl Comparison {
    fn outcome(&self) -> Outcome {
        Outcome::from_sound(self.has_all_keys()).max(LeftOut::outcome(&self.left_out))
    }

    fn has_all_keys(&self) -> bool {
        let of_curves = self.curves.iter().flat_map(Curves::rows);
        self.rows.iter().chain(of_curves).all(|row| row.lost_keys == 0)
    }

    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, files) = (counted(self.keys, "key"), counted(self.files, "file"));
        let (absent, from) = (counted(self.absent_keys, "absent key"), &self.absent_from);
        writeln!(f, "{keys} in {files}; {absent}, {from}")?;
        writeln!(f, "filters planned for {}", self.footing)?;
        writeln!(f, "without filters, an absent key reads {:.2} data blocks\n", self.blocks_without_filters)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        // Without batch times, which are in JSON: another column would not fit a terminal.
        let columns: [Column<Row>; 8] = [
            ("filter", Row::name),
            ("bytes", |row| grouped(row.bytes)),
            ("bits/key", |row| format!("{:.2}", row.bits_per_key)),
            ("expected", |row| percent(row.expected_fpr)),
            ("measured", Row::measured),
            ("build", |row| format!("{:.1}", row.times.build_ns_per_key)),
            ("probe", |row| format!("{:.1}", row.times.query_one_ns)),
            ("blocks", Row::blocks),
        ];
        writeln!(f, "{}", figures(&columns, &self.rows))?;
        writeln!(f, "build: ns per key; probe: ns for an absent key in one filter; blocks: read for an absent key")?;
        writeln!(f, "measured: with a margin of 95 %, which assumes independent probes")?;
        if self.has_all_keys() {
            writeln!(f, "every filter is positive for all of its keys ({} in total)", counted(self.keys, "key"))?;
        }
        for omission in &self.omissions {
            writeln!(f, "left out: {}: {}", omission.filter, omission.reason)?;
        }
        self.left_out.iter().try_for_each(|left| writeln!(f, "{left}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.written.iter().try_for_each(|file| writeln!(f, "wrote {file}"))?;
        writeln!(f, "\n{}", self.conclusion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_key_fails_the_comparison_and_is_named() {
        let workload = keys::Workload::of_hashes(&[1, 2, 3], &[4, 5]);
        let other = keys::Workload::of_hashes(&[6, 7, 8], &[4, 5]);
        let sizing = Sizing::BitsPerKey(BitsPerKey::TEN);
        let row = |measured_on| Row::new("bloom", &rows::build("bloom", sizing, &workload.files).unwrap(), measured_on);
        let compared = |row| {
            let workload = keys::Workload::of_hashes(&[1], &[4]);
            Comparison::of_rows(workload, Footing::Fpr(0.01), vec![row], Vec::new())
        };

        let sound = compared(row(&workload));
        assert_eq!(sound.outcome(), Outcome::Yes);
        assert!(sound.to_string().contains("every filter is positive for all of its keys"), "{sound}");
        // The filter was built from other keys, so it answers like a filter that has lost these.
        let lost = compared(row(&other));
        assert_eq!((lost.outcome(), lost.rows[0].lost_keys), (Outcome::No, 3));
        assert!(lost.to_string().contains("KEYS WERE LOST: bloom is negative for 3"), "{lost}");
        assert!(!lost.to_string().contains("is positive for all"), "{lost}");
    }
}
