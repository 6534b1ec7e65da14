//! Bits per key and the best number of probes, for five rates.

use sstfilter::{FalsePositiveRate, HashIdentity, StandardBloom};

use super::{FAMILY, Row, Verdict};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::brief_percent;

/// Rate, bits per key and probes, as published.
const TABLE: [(f64, f64, u8); 5] =
    [(0.1, 4.79, 3), (0.01, 9.58, 7), (0.001, 14.36, 10), (1e-4, 19.15, 13), (1e-5, 23.94, 17)];

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let hashes = keys::present(0, effort.article_keys);
    let row = |(rate, bits, probes): (f64, f64, u8)| {
        let mut filter =
            StandardBloom::for_rate(HashIdentity::default(), effort.article_keys, FalsePositiveRate::new(rate)?)?;
        filter.insert_all(&hashes);
        let ours = filter.bits() as f64 / hashes.len() as f64;
        let observed = keys::observed_fpr(&filter, effort.most_probes);
        let holds = (ours / bits - 1.0).abs() < 0.01 && filter.probes() == probes;
        Ok(Row {
            article: FAMILY,
            what: format!("Standard Bloom at {}", brief_percent(rate)),
            published: format!("{bits} bits, k = {probes}"),
            ours: format!("{ours:.2} bits, k = {}; {} observed", filter.probes(), brief_percent(observed)),
            verdict: Verdict::holds(holds),
            right: format!(
                "log2(1/rate) / ln 2 is {:.2}; a whole number of probes takes up to 0.5 % more",
                -rate.log2() / core::f64::consts::LN_2
            ),
        })
    };
    TABLE.into_iter().map(row).collect()
}
