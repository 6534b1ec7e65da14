//! Options that several commands have, with one meaning for all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use sstfilter::kind::{self, KindEntry};
use sstfilter::{AutoPolicy, BitsPerKey, ConfigError, FalsePositiveRate, FilterPolicy, KeyHasher, Sizing};
use sstfilter_range::{RangePolicy, RangeUnits};
use sstfilter_store::{PartitionCut, PartitionOptions};

use crate::file::blocks::RangePrefix;
use crate::file::replace::{Mark, ensure_no_input, ensure_replaceable};
use crate::words::units::{number_in, parse_fpr, parse_number, parse_seed};

/// The filter to build.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Kind of filter; auto builds Ribbon for large tables and Bloom for small ones [default: auto]
    #[arg(long, value_name = "KIND", value_parser = policy_names(&[AUTO]))]
    pub(crate) policy: Option<String>,

    /// False positive rate, between 0 and 1
    #[arg(long, value_name = "P", value_parser = parse_fpr, allow_negative_numbers = true, conflicts_with = "bits_per_key")]
    pub(crate) fpr: Option<FalsePositiveRate>,

    /// Filter size, 1 to 100 bits per key [default: 10]. For auto, the size of a Bloom filter: large tables get a
    /// smaller filter with the same false positive rate. Ribbon and Bloom use the size itself; other kinds have
    /// fixed sizes, and use about the largest that fits
    #[arg(long, value_name = "B", value_parser = parse_bits_per_key, allow_negative_numbers = true)]
    pub(crate) bits_per_key: Option<BitsPerKey>,

    /// Seed of the key hash, stored in every filter block (decimal or 0x hexadecimal). A rebuilt filter keeps the seed
    /// of its table
    #[arg(long, value_name = "S", value_parser = parse_seed)]
    pub(crate) hash_seed: Option<u64>,
}

/// The policy that chooses the kind for each table.
pub(crate) const AUTO: &str = "auto";

/// Returns the parser of the names of all kinds, and of `others`.
pub(crate) fn policy_names(others: &[&'static str]) -> PossibleValuesParser {
    PossibleValuesParser::new(others.iter().copied().chain(kind::all().iter().map(|entry| entry.name)))
}

/// Returns the policy of this name; any name that no kind has is that of `auto`.
pub(crate) fn policy_named(name: &str, sizing: Sizing) -> Result<Arc<dyn FilterPolicy>, ConfigError> {
    Ok(match KindEntry::named(name) {
        Some(entry) => Arc::new(entry.configure(sizing)?),
        None => Arc::new(AutoPolicy::new(sizing)?),
    })
}

pub(crate) fn parse_bits_per_key(text: &str) -> Result<BitsPerKey, String> {
    // Quotes the text, not the number: 1e300 prints as 301 digits.
    let expected = || format!("expected a number from 1 to 100, got '{text}'");
    text.parse().ok().and_then(|bits| BitsPerKey::new(bits).ok()).ok_or_else(expected)
}

impl FilterArgs {
    /// Returns the policy that the options describe, by default with 10 bits per key.
    pub(crate) fn policy(&self) -> anyhow::Result<Arc<dyn FilterPolicy>> {
        let (option, sizing) = match self.fpr {
            Some(rate) => ("--fpr", Sizing::Rate(rate)),
            None => ("--bits-per-key", Sizing::BitsPerKey(self.bits_per_key.unwrap_or_default())),
        };
        let name = self.policy.as_deref().unwrap_or(AUTO);
        // The message is about Ribbon, which `auto` builds for large tables.
        let advice =
            if name == AUTO { ": for auto, Ribbon must have this size, too (or pass --policy bloom)" } else { "" };
        policy_named(name, sizing).with_context(|| format!("{option}{advice}"))
    }

    /// Whether an option says how large filters are.
    pub(crate) fn is_sized(&self) -> bool {
        self.fpr.is_some() || self.bits_per_key.is_some()
    }

    /// Whether no option chooses the filter.
    pub(crate) fn is_default(&self) -> bool {
        self.policy.is_none() && !self.is_sized()
    }

    /// Returns the hasher with the secret seed, with the seed of the options, or with the default seed.
    pub(crate) fn hasher(&self, secret: Option<&KeyHasher>) -> anyhow::Result<KeyHasher> {
        Ok(chosen_hasher(self.hash_seed, secret)?.unwrap_or_default())
    }
}

/// Returns the hasher with the secret seed, or with the seed of an option; `None` if there is neither.
pub(crate) fn chosen_hasher(seed: Option<u64>, secret: Option<&KeyHasher>) -> anyhow::Result<Option<KeyHasher>> {
    ensure!(seed.is_none() || secret.is_none(), "expected --hash-seed or --secret-seed-file, got both");
    Ok(secret.cloned().or_else(|| seed.map(KeyHasher::with_seed)))
}

/// How filters are split into partitions.
#[derive(Debug, Args)]
pub(crate) struct PartitionArgs {
    /// Split each filter into partitions of this size, 1Ki to 1Mi, so that a lookup reads one partition and not the
    /// whole filter. A partition holds a range of keys (`:key`, the default) or of key hashes (`:hash`)
    #[arg(long, value_name = "BYTES[:key|hash]", value_parser = parse_partitions)]
    pub(crate) partitions: Option<PartitionOptions>,
}

fn parse_partitions(text: &str) -> Result<PartitionOptions, String> {
    let (bytes, cut) = text.split_once(':').unwrap_or((text, "key"));
    let cut = match cut {
        "key" => PartitionCut::KeyRange,
        "hash" => PartitionCut::HashRange,
        _ => return Err(format!("expected BYTES, BYTES:key or BYTES:hash, got '{text}'")),
    };
    PartitionOptions::new(cut, number_in(1 << 10..=1 << 20)(bytes)?).map_err(|problem| problem.to_string())
}

/// The range filter to build in addition to the point filter, or instead of it.
#[derive(Debug, Args)]
pub(crate) struct RangeFilterArgs {
    /// Also build a range filter, which lets scans skip tables: for ranges of any length, or for ranges of up to UNITS
    /// of a big-endian integer of BYTES at the start of the key or after its --range-prefix [default RATE: 0.01;
    /// default BYTES: 8]
    #[arg(long, value_name = "ordered[:RATE]|hashed:UNITS[:RATE[:BYTES]]", value_parser = parse_range_filter)]
    range_filter: Option<RangeFilterArg>,
}

/// A rate, and for hashed filters also the length of the longest range, and the bytes of the integer.
type RangeFilterArg = (FalsePositiveRate, Option<(u64, u32)>);

fn parse_range_filter(text: &str) -> Result<RangeFilterArg, String> {
    let rate = |text: Option<&&str>| text.map_or(Ok(FalsePositiveRate::ONE_PERCENT), |text| parse_fpr(text));
    match *text.split(':').collect::<Vec<_>>() {
        ["ordered", ref rest @ ..] if rest.len() <= 1 => Ok((rate(rest.first())?, None)),
        ["hashed", longest, ref rest @ ..] if rest.len() <= 2 => {
            let integer_bytes = rest.get(1).map_or(Ok(8), |bytes| number_in(1..=8)(bytes))?;
            Ok((rate(rest.first())?, Some((parse_number(longest)?, integer_bytes))))
        }
        _ => Err(format!("expected ordered, ordered:RATE, hashed:UNITS, hashed:UNITS:RATE or more, got '{text}'")),
    }
}

impl RangeFilterArgs {
    /// Returns the policy of the requested range filter, if any.
    pub(crate) fn policy(&self, prefix: Option<RangePrefix>) -> anyhow::Result<Option<RangePolicy>> {
        let policy = match self.range_filter {
            None => return Ok(None),
            Some((rate, None)) => RangePolicy::ordered(rate),
            Some((rate, Some((longest, integer_bytes)))) => {
                let units = RangeUnits::integer(integer_bytes).context("--range-filter")?;
                RangePolicy::hashed(with_prefix(units, prefix), longest, rate)
            }
        };
        policy.map(Some).context("--range-filter")
    }
}

/// Returns these units after the prefix, if there is one.
pub(crate) fn with_prefix(units: RangeUnits, prefix: Option<RangePrefix>) -> RangeUnits {
    match prefix {
        Some(prefix) => units.with_prefix(prefix.extractor()),
        None => units,
    }
}

/// The file that a command writes.
#[derive(Debug, Args)]
pub(crate) struct OutArgs {
    /// File to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Replace an existing file, but only one that this command wrote
    #[arg(long)]
    overwrite: bool,
}

impl OutArgs {
    /// Returns the mark of the files that may be replaced, if those of the command have this one.
    pub(crate) fn replaces(&self, mark: Mark) -> Option<Mark> {
        self.overwrite.then_some(mark)
    }

    /// Fails if the file exists and may not be replaced, or is read. Call this before work that takes long.
    pub(crate) fn ensure_free<'a>(&self, mark: Mark, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
        ensure_replaceable(&self.out, self.replaces(mark))?;
        ensure_no_input(&self.out, inputs)
    }
}

/// The tables of a database that a command is about.
#[derive(Debug, Args)]
pub(crate) struct FamilyArgs {
    /// Only the tables of this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) family: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_filters_parse_with_and_without_a_rate() {
        let (one_percent, rate) = (FalsePositiveRate::ONE_PERCENT, FalsePositiveRate::new(0.001).unwrap());
        for (text, expected) in [
            ("ordered", (one_percent, None)),
            ("ordered:0.001", (rate, None)),
            ("hashed:1K", (one_percent, Some((1_000, 8)))),
            ("hashed:1Ki:0.001", (rate, Some((1_024, 8)))),
            ("hashed:32:0.001:4", (rate, Some((32, 4)))),
        ] {
            assert_eq!(parse_range_filter(text), Ok(expected));
        }
        for text in
            ["", "hashed", "ordered:2", "ordered:0.1:1", "hashed:x", "hashed:1:0.1:", "hashed:1:0.1:9", "ordered:"]
        {
            assert!(parse_range_filter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn partitions_have_a_size_and_a_cut() {
        let of = |cut, bytes| Ok(PartitionOptions::new(cut, bytes).unwrap());
        assert_eq!(parse_partitions("16Ki"), of(PartitionCut::KeyRange, 16_384));
        assert_eq!(parse_partitions("4K:key"), of(PartitionCut::KeyRange, 4_000));
        assert_eq!(parse_partitions("1Mi:hash"), of(PartitionCut::HashRange, 1 << 20));
        for text in ["", "100", "2M", "many", "4K:", "4K:other", ":hash", "4K:key:key"] {
            assert!(parse_partitions(text).is_err(), "{text}");
        }
    }
}
