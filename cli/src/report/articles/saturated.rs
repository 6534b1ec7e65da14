//! The question of the filter that is too small: 800 keys in 1,000 bits.

use sstfilter::{BitsPerKey, FalsePositiveRate, FilterError, HashIdentity, StandardBloom};

use super::{Figure, PATTERN, Row};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::{brief_percent, grouped, percent};

const KEYS: u64 = 800;
const BITS: u64 = 1_000;
const PROBES: u8 = 3;

/// Filters whose mean is taken: one of a thousand bits differs from the next.
const FILTERS: u64 = 200;

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let least = bits_for_one_percent()?;
    let mean = |make: &dyn Fn() -> Result<StandardBloom, FilterError>| mean(effort, make);
    let (fill, saturated) = mean(&|| StandardBloom::with_shape(HashIdentity::default(), BITS, PROBES))?;
    let (_, enough) = mean(&|| StandardBloom::with_shape(HashIdentity::default(), least, PROBES))?;
    let (_, ten_bits) = mean(&|| StandardBloom::for_size(HashIdentity::default(), KEYS, BitsPerKey::TEN))?;
    let best = StandardBloom::for_rate(HashIdentity::default(), KEYS, FalsePositiveRate::ONE_PERCENT)?;
    let row = |what: &str, published, ours, tolerance, show, right: String| {
        Row::from(Figure { article: PATTERN, what: what.to_owned(), published, ours, tolerance, show, right })
    };
    Ok(vec![
        row(
            "Bits set by 800 keys in 1,000 bits, k = 3",
            0.91,
            fill,
            0.02,
            brief_percent,
            format!("mean of {FILTERS} filters; this library raises an alarm at 70 %"),
        ),
        row(
            "Their false positive rate",
            0.75,
            saturated,
            0.02,
            brief_percent,
            format!("mean of {FILTERS} filters; the alarm comes at 10 %"),
        ),
        row(
            "Bits that 800 keys take at 1 % with k = 3",
            11_500.0,
            least as f64,
            0.03,
            |bits| format!("{bits:.0} bits"),
            format!(
                "computed: {} bits are enough ({} observed); with the best k, {}, it is {}",
                grouped(least),
                percent(enough),
                best.probes(),
                grouped(best.bits())
            ),
        ),
        row(
            "Rate of ten bits per key, about",
            0.01,
            ten_bits,
            0.25,
            percent,
            "the rule of thumb is on the safe side".to_owned(),
        ),
    ])
}

/// The mean fill and observed rate of filters with [`KEYS`] keys each.
fn mean(effort: &Effort, make: &dyn Fn() -> Result<StandardBloom, FilterError>) -> anyhow::Result<(f64, f64)> {
    let (mut fill, mut rate) = (0.0, 0.0);
    for number in 0..FILTERS {
        let mut filter = make()?;
        filter.insert_all(&keys::present(number * KEYS, KEYS));
        fill += filter.fill_ratio() / FILTERS as f64;
        rate += keys::observed_fpr(&filter, effort.most_probes / FILTERS) / FILTERS as f64;
    }
    Ok((fill, rate))
}

/// The least bits at which (1 - (1 - 1/m)^(kn))^k, the mean over all filters, is at most 1 %.
fn bits_for_one_percent() -> anyhow::Result<u64> {
    let rate = |bits: u64| {
        let clear = (1.0 - 1.0 / bits as f64).powf(f64::from(PROBES) * KEYS as f64);
        (1.0 - clear).powi(PROBES.into())
    };
    let found = (BITS..100 * BITS).find(|&bits| rate(bits) <= 0.01);
    anyhow::Context::context(found, "no size gives 1 %")
}
