//! From which rate on cuckoo filters are smaller than standard Bloom filters, and how full they get.

use sstfilter::{CuckooFilter, CuckooShape, FalsePositiveRate, HashIdentity, StandardBloom};

use super::{FAMILY, Figure, Row, Verdict};
use crate::report::contender::Asked;
use crate::report::effort::Effort;
use crate::report::growing::Growing;
use crate::report::keys;
use crate::units::{brief_percent, percent};

/// The published rate below which cuckoo is said to be smaller.
const PUBLISHED: f64 = 0.03;

pub(super) fn rows(effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::from_iter(crossing(effort.article_keys)?);
    rows.push(fullest(effort.article_keys)?);
    Ok(rows)
}

/// Compares sizes at many rates. A cuckoo filter takes the next wider tag between two rates, so that it can be the smaller
/// one at a rate, and not yet at a lower one.
fn crossing(count: u64) -> anyhow::Result<Option<Row>> {
    let rates = core::iter::successors(Some(0.05), |rate| Some(rate * 0.985)).take_while(|&rate| rate > 1e-4);
    let is_smaller = |rate: f64| -> anyhow::Result<(f64, bool)> {
        let asked = FalsePositiveRate::new(rate)?;
        let cuckoo = CuckooShape::for_rate(count, asked)?.block_bytes();
        Ok((rate, cuckoo < StandardBloom::for_rate(HashIdentity::default(), count, asked)?.block_bytes()?))
    };
    let compared: Vec<_> = rates.map(is_smaller).collect::<anyhow::Result<_>>()?;
    let highest = compared.iter().find(|(_, is_smaller)| *is_smaller);
    let for_good = compared.iter().rev().take_while(|(_, is_smaller)| *is_smaller).last();
    Ok(highest.zip(for_good).map(|((highest, _), (for_good, _))| Row {
        article: FAMILY,
        what: "Cuckoo takes less memory than standard Bloom below".to_owned(),
        published: brief_percent(PUBLISHED),
        ours: format!("{} at the earliest, {} for good", percent(*highest), percent(*for_good)),
        verdict: Verdict::holds((for_good / PUBLISHED - 1.0).abs() < 0.1),
        right: "a tag has log2(1/rate) + 3 bits, rounded up: at 1 % cuckoo takes 10.5 bits and Bloom 9.6. What 3 % is right \
                for is buckets whose tags are kept sorted, which saves a bit"
            .to_owned(),
    }))
}

/// Fills a filter until the first key finds no place.
fn fullest(count: u64) -> anyhow::Result<Row> {
    let mut filter = CuckooFilter::for_rate(HashIdentity::default(), count, FalsePositiveRate::ONE_PERCENT)?;
    let mut next = 0;
    while Growing::insert_all(&mut filter, &keys::present(next, 1)) == 0 {
        next += 1;
    }
    Ok(Row::from(Figure {
        article: FAMILY,
        what: "Cuckoo with four tags a bucket gets full to".to_owned(),
        published: 0.955,
        ours: filter.fill_ratio(),
        tolerance: 0.03,
        show: brief_percent,
        right: "the share of places in use when the first key found none".to_owned(),
    }))
}
