//! `sstfilter compare`: compares all kinds of filter on the user's own keys, on an equal footing.

mod args;
mod conclusion;
mod keys;
mod measure;

use core::fmt;

use serde::Serialize;
use sstfilter::{BitsPerKey, FalsePositiveRate, FixedPolicy, Sizing};

pub(crate) use args::CompareArgs;

use crate::filters::Omission;
use crate::left_out::LeftOut;
use crate::lines::KeysFormat;
use crate::opened::Reading;
use crate::output::{Column, Outcome, figures};
use crate::units::{brief_percent, counted, grouped, percent};
use keys::Workload;
use measure::Row;

/// The report of a comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
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
}

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

/// Compares all kinds. The answer is no if any filter lost a key, or a table is damaged.
pub(crate) fn run(
    args: &CompareArgs,
    format: KeysFormat,
    reading: Reading<'_>,
) -> anyhow::Result<(Outcome, Comparison)> {
    let footing = Footing::from_args(args)?;
    let workload = keys::workload(args, format, reading)?;
    let mut omissions = Vec::new();
    let rows = measure::rows(&workload, footing.sizing()?, &mut omissions)?;
    let comparison = Comparison::new(workload, footing, rows, omissions);
    Ok((comparison.outcome(), comparison))
}

impl Comparison {
    fn new(workload: Workload, footing: Footing, rows: Vec<Row>, omissions: Vec<Omission>) -> Self {
        let (keys, absent_keys) = (workload.keys(), workload.absent.len() as u64);
        let blocks_without_filters = workload.files_per_absent_key();
        let mut notes = workload.notes;
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
        Self {
            keys,
            files: workload.files.len() as u64,
            absent_keys,
            absent_from: workload.absent_from,
            footing,
            blocks_without_filters,
            conclusion: conclusion::sentence(&rows, footing, keys),
            rows,
            omissions,
            left_out: workload.left_out,
            notes,
        }
    }
}

impl Comparison {
    fn outcome(&self) -> Outcome {
        Outcome::from_sound(self.has_all_keys()).max(LeftOut::outcome(&self.left_out))
    }

    fn has_all_keys(&self) -> bool {
        self.rows.iter().all(|row| row.lost_keys == 0)
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
        let row =
            |measured_on| Row::new("bloom", &measure::build("bloom", sizing, &workload.files).unwrap(), measured_on);
        let compared =
            |row| Comparison::new(keys::Workload::of_hashes(&[1], &[4]), Footing::Fpr(0.01), vec![row], Vec::new());

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
