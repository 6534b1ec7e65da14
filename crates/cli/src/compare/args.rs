//! The options of `sstfilter compare`.

use core::fmt;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use sstfilter::{BitsPerKey, FalsePositiveRate};

use crate::commands::options::parse_bits_per_key;
use crate::units::{count_in, parse_fpr};
use crate::words::escape::shell_word;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["input", "generate"]))]
pub(crate) struct CompareArgs {
    /// Sources of keys: files of keys (text after a tab is ignored), tables (also of RocksDB, LevelDB and Pebble), or
    /// directories of tables
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) input: Vec<PathBuf>,

    /// Compare on N made-up keys instead, with made-up absent keys
    #[arg(long, value_name = "N", value_parser = count_in::<u64>(1..=100_000_000), allow_negative_numbers = true,
        conflicts_with_all = ["absent", "holdout"])]
    pub(super) generate: Option<u64>,

    /// Sources of absent keys to probe for, like those of --input
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "holdout")]
    pub(super) absent: Option<Vec<PathBuf>>,

    /// Without --absent: hold out this share of the keys from the filters, and probe for them as absent keys
    #[arg(long, value_name = "P%", default_value = "10%", value_parser = Holdout::parse, allow_negative_numbers = true)]
    pub(super) holdout: Holdout,

    /// Deal the keys round-robin to N files, so that all key ranges overlap [default: the number of tables in --input,
    /// or 1]
    #[arg(long, value_name = "N", value_parser = count_in::<u64>(1..=1_000_000), allow_negative_numbers = true)]
    pub(super) files: Option<u64>,

    /// Compare at this false positive rate, between 0 and 1 [default: the rate of blocked Bloom at 10 bits per key]
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, conflicts_with = "bits_per_key")]
    pub(super) fpr: Option<FalsePositiveRate>,

    /// Compare at this size instead, 1 to 100 bits per key (auto uses the rate of a Bloom filter of this size)
    #[arg(long, value_name = "B", value_parser = parse_bits_per_key, allow_negative_numbers = true)]
    pub(super) bits_per_key: Option<BitsPerKey>,

    /// Also measure all kinds at other rates and with fewer keys, and write a page with charts, compare.html, and
    /// compare.json to this directory, created if missing. Only files of an earlier comparison are replaced. A million
    /// keys take minutes
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

impl CompareArgs {
    /// Returns the command that gives the same figures, without the path of its output. `options` say how tables are
    /// read.
    pub(super) fn command(&self, options: &str) -> String {
        let list = |paths: &[PathBuf]| paths.iter().map(|path| shell_word(path)).collect::<Vec<_>>().join(" ");
        let holds_out = self.generate.is_none() && self.absent.is_none();
        let words = [
            self.generate.map(|keys| format!("--generate {keys}")),
            (!self.input.is_empty()).then(|| format!("--input {}", list(&self.input))),
            self.absent.as_deref().map(|paths| format!("--absent {}", list(paths))),
            holds_out.then(|| format!("--holdout {}", self.holdout)),
            self.files.map(|files| format!("--files {files}")),
            self.fpr.map(|rate| format!("--fpr {}", rate.get())),
            self.bits_per_key.map(|bits| format!("--bits-per-key {}", bits.get())),
            self.out.as_ref().map(|_| "--out DIR".to_owned()),
        ];
        format!("sstfilter compare{options} {}", words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// The share of the keys that are held out from the filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Holdout {
    /// More than 0 and less than 100.
    percent: f64,
}

impl Holdout {
    /// Parses a percentage. The percent sign is required, because `0.1` could mean a tenth or a thousandth.
    fn parse(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        let percent = percent.filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
        let expected = || format!("expected a share between 0% and 100%, such as 10%, got '{text}'");
        percent.map(|percent| Self { percent }).ok_or_else(expected)
    }

    /// Whether a key with this hash is held out: the lowest hashes are.
    pub(super) fn takes(self, hash: u64) -> bool {
        // In floating point: no share needs more than its 53 bits, and 2^64 itself is no `u64`.
        (hash as f64) < self.percent / 100.0 * 2.0_f64.powi(64)
    }
}

impl fmt::Display for Holdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_with_its_sign() {
        assert_eq!(Holdout::parse("10%"), Ok(Holdout { percent: 10.0 }));
        assert_eq!(Holdout::parse("0.5 %").unwrap().to_string(), "0.5%");
        for wrong in ["", "%", "10", "0.1", "0%", "100%", "-1%", "NaN%", "inf%", "abc", "10%%"] {
            assert!(Holdout::parse(wrong).is_err_and(|error| error.contains("such as 10%")), "{wrong}");
        }
    }

    #[test]
    fn the_share_of_all_hashes_is_left_out() {
        let tenth = Holdout::parse("10%").unwrap();
        assert!(tenth.takes(0) && tenth.takes(u64::MAX / 10 - (1 << 11)));
        assert!(!tenth.takes(u64::MAX / 10 + (1 << 11)) && !tenth.takes(u64::MAX));
        assert!(!Holdout::parse("99.99%").unwrap().takes(u64::MAX));
    }
}
