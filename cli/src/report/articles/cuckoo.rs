//! From which rate on cuckoo filters are smaller than standard Bloom filters, and how full they get.

use sstfilter::{CuckooFilter, CuckooShape, FalsePositiveRate, StandardBloom};

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

fn crossing(count: u64) -> anyhow::Result<Option<Row>> {
    let mut rate = 0.05;
    let mut highest = None;
    while rate > 1e-4 && highest.is_none() {
        let asked = FalsePositiveRate::new(rate)?;
        let cuckoo = CuckooShape::for_keys(count, asked)?.payload_bytes();
        let bloom = StandardBloom::for_rate(count, asked)?.block_bytes()?;
        highest = (cuckoo < bloom).then_some(rate);
        rate *= 0.985;
    }
    Ok(highest.map(|highest| Row {
        article: FAMILY,
        what: "Cuckoo takes less memory than standard Bloom below".to_owned(),
        published: brief_percent(PUBLISHED),
        ours: percent(highest),
        verdict: Verdict::holds((highest / PUBLISHED - 1.0).abs() < 0.1),
        right:
            "a tag has log2(1/rate) + 3 bits: at 1 % cuckoo takes 10.5 bits and Bloom 9.6; what 3 % is right for is \
                buckets whose tags are kept sorted, which saves a bit"
                .to_owned(),
    }))
}

/// Fills a filter until the first key finds no place.
fn fullest(count: u64) -> anyhow::Result<Row> {
    let mut filter = CuckooFilter::for_keys(count, FalsePositiveRate::ONE_PERCENT)?;
    let mut next = 0;
    while Growing::insert_all(&mut filter, &keys::present(next, 1)) == 0 {
        next += 1;
    }
    Ok(Row::from(Figure {
        article: FAMILY,
        what: "Cuckoo with four tags a bucket gets full to".to_owned(),
        published: 0.955,
        ours: filter.load(),
        tolerance: 0.03,
        show: brief_percent,
        right: "the share of places in use when the first key found none".to_owned(),
    }))
}
