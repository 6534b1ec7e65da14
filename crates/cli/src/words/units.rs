//! Numbers as people write and read them.

use core::ops::RangeInclusive;

use sstfilter::FalsePositiveRate;
pub(crate) use sstfilter_charts::grouped;

/// Formats a count of a noun with a regular plural: `1 table`, `70 tables`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns a figure without its decimals.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast to an integer saturates")]
pub(crate) fn whole(figure: f64) -> u64 {
    figure as u64
}

/// Binary units of lengths in bytes: 2^64 bytes are 16 EiB.
const BINARY_UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Formats a length in bytes with a binary unit: `1536` as `1.5 KiB`.
pub(crate) fn bytes(length: u64) -> String {
    let (mut scaled, mut unit) = (length as f64, None);
    for larger in BINARY_UNITS {
        if scaled < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, Some(larger));
    }
    // A number of single bytes has no decimals.
    unit.map_or_else(|| format!("{length} B"), |unit| format!("{scaled:.1} {unit}"))
}

/// Formats dollars: cents from 1 cent on.
pub(crate) fn dollars(dollars: f64) -> String {
    match dollars {
        0.0 => "0".to_owned(),
        ..0.01 => format!("{dollars:.1e}"),
        ..1e3 => format!("{dollars:.2}"),
        _ => grouped(whole(dollars.round())),
    }
}

/// Formats a mean or a ratio with at least two digits that count.
pub(crate) fn figure(figure: f64) -> String {
    match figure {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{figure:.1e}"),
        ..0.1 => format!("{figure:.4}"),
        ..100.0 => format!("{figure:.2}"),
        _ => grouped(whole(figure.round())),
    }
}

/// Formats a rate from 0 to 1 as a percentage with three decimals, or in scientific notation below 0.001 %.
pub(crate) fn percent(rate: f64) -> String {
    let percentage = rate * 100.0;
    // Three decimals would show it as zero.
    if percentage != 0.0 && percentage.abs() < 0.001 {
        format!("{percentage:.2e} %")
    } else {
        format!("{percentage:.3} %")
    }
}

/// Formats a rate from 0 to 1 as a percentage with two or more significant digits and no trailing zeros.
pub(crate) fn brief_percent(rate: f64) -> String {
    let percentage = rate * 100.0;
    let decimals = match percentage {
        1.0.. => 2,
        0.01.. => 3,
        _ => 5,
    };
    let text = format!("{percentage:.decimals$}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The 97.5th percentile of the normal distribution: in 95 of 100 cases, a rate is within this many standard errors.
const NORMAL_95: f64 = 1.96;

/// If `n` probes show no positive, the rate is below 3 / n in 95 of 100 cases: the "rule of three" (Hanley,
/// Lippman-Hand 1983), from (1 - p)^n = 0.05.
const NONE_SEEN_95: f64 = 3.0;

/// Returns how far the rate `positives / probes` may be from the real one in 95 of 100 cases, if probes are
/// independent.
pub(crate) fn margin(positives: u64, probes: u64) -> f64 {
    let probes = probes as f64;
    let rate = positives as f64 / probes;
    if positives == 0 { NONE_SEEN_95 / probes } else { NORMAL_95 * (rate * (1.0 - rate) / probes).sqrt() }
}

/// Formats an observed rate with its margin.
pub(crate) fn with_margin(rate: f64, margin: f64) -> String {
    // No positive among the probes does not mean that there is none: the bound says how few there are.
    if rate == 0.0 {
        return format!("< {}", percent(margin));
    }
    let [rate, margin] = [rate, margin].map(|rate| rate * 100.0);
    // Two digits of the margin: further digits of the rate would be noise.
    let decimals = if margin >= 1.0 { 1 } else { whole(1.0 - margin.log10().floor()).min(6) as usize };
    format!("{rate:.decimals$} +- {margin:.decimals$} %")
}

/// Formats a time in nanoseconds in a suitable unit.
pub(crate) fn nanoseconds(time_ns: f64) -> String {
    match time_ns {
        ..1e3 => format!("{time_ns:.1} ns"),
        ..1e6 => format!("{:.1} µs", time_ns / 1e3),
        _ => format!("{:.1} ms", time_ns / 1e6),
    }
}

/// Parses a number of anything: `250000`, `250_000`, `1e6`, `64K` or `64Ki`. K, M, G and T are powers of 1,000, and Ki,
/// Mi, Gi and Ti are powers of 1,024, for counts and for bytes.
pub(crate) fn parse_number(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a whole number such as 250000, 250_000, 1e6, 64K or 64Ki, got '{text}'");
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    // Refuses a leading underscore, and a unit without a number.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(expected());
    }
    let (base, exponent) = match unit.to_ascii_lowercase().as_str() {
        "" => (1, 0),
        "k" => (1_000, 1),
        "m" => (1_000, 2),
        "g" => (1_000, 3),
        "t" => (1_000, 4),
        "ki" => (1_024, 1),
        "mi" => (1_024, 2),
        "gi" => (1_024, 3),
        "ti" => (1_024, 4),
        unit => (10, unit.strip_prefix('e').and_then(|digits| digits.parse().ok()).ok_or_else(expected)?),
    };
    let number: Option<u64> = digits.replace('_', "").parse().ok();
    let number = number.and_then(|number| number.checked_mul(u64::checked_pow(base, exponent)?));
    number.ok_or_else(|| format!("expected at most {}, got '{text}'", grouped(u64::MAX)))
}

/// Returns a parser of numbers in `range`.
pub(crate) fn number_in<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let expected = || format!("expected {} to {}, got '{text}'", grouped(*range.start()), grouped(*range.end()));
        let number = Some(parse_number(text)?).filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(expected)
    }
}

/// Parses a false positive rate.
pub(crate) fn parse_fpr(text: &str) -> Result<FalsePositiveRate, String> {
    let expected = || format!("expected a number between 0 and 1, got '{text}'");
    text.parse().ok().and_then(|rate| FalsePositiveRate::new(rate).ok()).ok_or_else(expected)
}

/// Parses a price or a ratio.
pub(crate) fn parse_ratio(text: &str) -> Result<f64, String> {
    // `parse` accepts infinity and NaN, which no budget or ratio can be.
    let ratio = text.parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio >= 0.0);
    ratio.ok_or_else(|| format!("expected a number of at least 0, got '{text}'"))
}

/// Parses a 64-bit number, decimal or hexadecimal with `0x`.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("expected a number from 0 to 2^64 - 1, decimal or 0x hexadecimal, got '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(1, "table"), "1 table");
        assert_eq!(counted(1_000, "key"), "1,000 keys");
    }

    /// The failure guarded against: a `K` that means 1,000 keys in one option and 1,024 bytes in another.
    #[test]
    fn a_unit_means_one_thing_for_counts_and_for_bytes() {
        for text in ["64000", "64_000", "64K", "64k", "64e3", "64E3"] {
            assert_eq!(parse_number(text), Ok(64_000), "{text}");
        }
        assert_eq!((parse_number("64Ki"), parse_number("2mi")), (Ok(65_536), Ok(2 << 20)));
        assert_eq!((parse_number("3T"), parse_number("3Ti")), (Ok(3_000_000_000_000), Ok(3 << 40)));
        for text in ["", "K", "-1", "1.5M", "1X", "1KB", "1KiB", "_1", "1 K", "e6", "1e-3", "1,000"] {
            assert!(parse_number(text).is_err_and(|error| error.contains("whole number")), "{text}");
        }
        for text in ["18446744073709551616", "1e20", "16777216Ti", "1e4294967295"] {
            assert!(parse_number(text).is_err_and(|error| error.contains("at most 18,446,744")), "{text}");
        }
        let parse = number_in::<u32>(1..=5_000_000_000);
        assert_eq!(parse("0"), Err("expected 1 to 5,000,000,000, got '0'".to_owned()));
        assert_eq!((parse("1Ki"), parse("0").is_err(), parse("4294967296").is_err()), (Ok(1_024), true, true));
    }

    #[test]
    fn seeds_parse_in_both_bases() {
        assert_eq!(parse_seed("42"), Ok(42));
        assert_eq!(parse_seed("0xff"), Ok(255));
        assert!(parse_seed("0xfffffffffffffffff").is_err());
        assert!(parse_seed("-1").is_err());
    }

    #[test]
    fn small_rates_stay_visible() {
        assert_eq!(percent(0.0095), "0.950 %");
        assert_eq!(percent(1e-9), "1.00e-7 %");
        assert_eq!([0.0, 0.1, 0.01, 1e-5, 0.755].map(brief_percent), ["0 %", "10 %", "1 %", "0.001 %", "75.5 %"]);
        assert_eq!([0, 1023, 1536, u64::MAX].map(bytes), ["0 B", "1023 B", "1.5 KiB", "16.0 EiB"]);
        assert_eq!([0.0, 0.001, 1.5, 1234.5].map(dollars), ["0", "1.0e-3", "1.50", "1,235"]);
        assert_eq!([0.0, 0.0005, 0.0156, 71.38, 200.0].map(figure), ["0", "5.0e-4", "0.0156", "71.38", "200"]);
        assert_eq!(nanoseconds(1500.0), "1.5 µs");
    }

    fn measured(positives: u64, probes: u64) -> String {
        with_margin(positives as f64 / probes as f64, margin(positives, probes))
    }

    #[test]
    fn a_rate_of_few_probes_says_how_far_it_may_be_off() {
        // 1.96 * sqrt(0.0095 * 0.9905 / 22,721) = 0.00126.
        assert_eq!(measured(216, 22_721), "0.95 +- 0.13 %");
        assert_eq!(measured(10, 1_000), "1.00 +- 0.62 %");
        assert_eq!(measured(1, 2), "50.0 +- 69.3 %");
        assert_eq!(measured(9_500, 1_000_000), "0.950 +- 0.019 %", "also with many probes");
        assert_eq!(measured(2, 1_000_000), "0.00020 +- 0.00028 %");
    }

    #[test]
    fn a_rate_without_a_false_positive_is_a_bound_and_not_zero() {
        assert_eq!(measured(0, 1_000), "< 0.300 %");
    }
}
