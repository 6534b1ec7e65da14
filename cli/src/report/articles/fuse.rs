//! Fuse filters beside xor filters: sizes, rates, and how long building takes.

use super::{FUSE, Figure, Row, bits, bits_of, filter_of};
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::{brief_percent, percent};

/// Rates of fingerprints of 8 and 16 bits.
const BYTE: f64 = 1.0 / 256.0;
const TWO_BYTES: f64 = 1.0 / 65_536.0;

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.article_keys;
    let mut rows = Vec::new();
    let mut add = |what: &str, published, ours: Option<f64>, tolerance, show, right: &str| {
        let (what, right) = (what.to_owned(), right.to_owned());
        rows.extend(
            ours.map(|ours| Row::from(Figure { article: FUSE, what, published, ours, tolerance, show, right })),
        );
    };
    let fuse_bits = bits_of("binary fuse 3", BYTE, count)?;
    add(
        "Fuse with fingerprints of a byte",
        9.01,
        fuse_bits,
        0.01,
        bits,
        "1.125 cells for each key; fewer than a million keys take more",
    );
    add("\u{2026} of two bytes", 18.01, bits_of("binary fuse 3", TWO_BYTES, count)?, 0.01, bits, "as above");
    let rate = |rate| -> anyhow::Result<Option<f64>> {
        let observed =
            |filter: Box<dyn crate::report::contender::Asked>| keys::observed_fpr(&*filter, effort.most_probes);
        Ok(filter_of("binary fuse 3", rate, count)?.map(observed))
    };
    add("Rate with a byte", 0.0039, rate(BYTE)?, 0.03, percent, "2^-8");
    add(
        "Rate with two bytes",
        1.5e-5,
        rate(TWO_BYTES)?,
        0.15,
        brief_percent,
        "2^-16: twice the bits square the rate, though the article denies it; and with 32 bits it is 2^-32, not zero",
    );
    let share = |bits: Option<f64>| bits.map(|bits| 8.0 / bits);
    let shown = |share| format!("{:.0} %", share * 100.0);
    add(
        "Information bound over size: fuse",
        0.87,
        share(fuse_bits),
        0.03,
        shown,
        "bound over size, that is 12.5 % above the bound; the article reads it as 87 % of the bound",
    );
    add("Information bound over size: xor", 0.77, share(bits_of("xor", BYTE, count)?), 0.03, shown, "1 / 1.23 is 81 %");
    Ok(rows)
}
