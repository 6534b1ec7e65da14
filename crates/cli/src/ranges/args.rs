//! Options of range filters: which one to build, and its prefix.

use anyhow::Context;
use clap::Args;
use sstfilter::FalsePositiveRate;
use sstfilter_range::{RangePolicy, RangeUnits};

use crate::file::blocks::RangePrefix;
use crate::units::{count_in, parse_count, parse_fpr};

/// The range filter to build in addition to the point filter, if any.
#[derive(Debug, Args)]
pub(crate) struct RangeFilterArgs {
    /// Also build a range filter, which lets scans skip tables: `ordered[:RATE]` for ranges of any length, or
    /// `hashed:UNITS[:RATE]` for ranges of up to UNITS of an integer at the start of the key or after its
    /// --range-prefix [default RATE: 0.01]
    #[arg(long, value_name = "MAP", value_parser = parse_map)]
    range_filter: Option<RangeMapArg>,

    /// With --range-filter hashed: length of the big-endian integer in bytes, 1 to 8
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = count_in::<u32>(1..=8), requires = "range_filter")]
    range_integer: u32,
}

/// The map from keys to codes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RangeMapArg {
    Ordered { rate: FalsePositiveRate },
    Hashed { longest: u64, rate: FalsePositiveRate },
}

fn parse_map(text: &str) -> Result<RangeMapArg, String> {
    let expected = || format!("expected ordered, ordered:RATE, hashed:UNITS or hashed:UNITS:RATE, got '{text}'");
    let rate = |text: Option<&str>| text.map_or(Ok(FalsePositiveRate::ONE_PERCENT), parse_fpr);
    let parts: Vec<_> = text.split(':').collect();
    match *parts.as_slice() {
        ["ordered", ref rest @ ..] if rest.len() <= 1 => {
            Ok(RangeMapArg::Ordered { rate: rate(rest.first().copied())? })
        }
        ["hashed", longest, ref rest @ ..] if rest.len() <= 1 => {
            Ok(RangeMapArg::Hashed { longest: parse_count(longest)?, rate: rate(rest.first().copied())? })
        }
        _ => Err(expected()),
    }
}

impl RangeFilterArgs {
    /// Whether the options request no range filter.
    pub(crate) fn is_none(&self) -> bool {
        self.range_filter.is_none()
    }

    /// Returns the policy of the requested range filter, if any.
    pub(crate) fn policy(&self, prefix: Option<&RangePrefix>) -> anyhow::Result<Option<RangePolicy>> {
        let policy = match self.range_filter {
            None => return Ok(None),
            Some(RangeMapArg::Ordered { rate }) => RangePolicy::ordered(rate),
            Some(RangeMapArg::Hashed { longest, rate }) => {
                let units = RangeUnits::integer(self.range_integer).context("--range-integer")?;
                RangePolicy::hashed(with_prefix(units, prefix), longest, rate)
            }
        };
        policy.map(Some).context("--range-filter")
    }
}

/// Returns these units after the prefix, if there is one.
pub(crate) fn with_prefix(units: RangeUnits, prefix: Option<&RangePrefix>) -> RangeUnits {
    match prefix {
        Some(prefix) => units.with_prefix(prefix.extractor()),
        None => units,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_parse_with_and_without_a_rate() {
        let (one_percent, rate) = (FalsePositiveRate::ONE_PERCENT, FalsePositiveRate::new(0.001).unwrap());
        assert_eq!(parse_map("ordered"), Ok(RangeMapArg::Ordered { rate: one_percent }));
        assert_eq!(parse_map("ordered:0.001"), Ok(RangeMapArg::Ordered { rate }));
        assert_eq!(parse_map("hashed:1K"), Ok(RangeMapArg::Hashed { longest: 1_000, rate: one_percent }));
        assert_eq!(parse_map("hashed:32:0.001"), Ok(RangeMapArg::Hashed { longest: 32, rate }));
        for text in ["", "hashed", "hashed", "ordered:2", "ordered:0.1:1", "hashed:x", "hashed:1:0.1:", "ordered:"] {
            assert!(parse_map(text).is_err(), "{text}");
        }
    }
}
