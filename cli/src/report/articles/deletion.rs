//! Deletion from a counting filter whose counters overflow.

use sstfilter::{CountingBloom, FalsePositiveRate, HashIdentity};

use super::{FAMILY, Row, Verdict};
use crate::report::contender::Asked;
use crate::report::effort::Effort;
use crate::report::keys;
use crate::units::grouped;

const KEYS: u64 = 10_000;

/// More than a counter of four bits counts.
const TIMES: u64 = 40;

pub(super) fn rows(_effort: &Effort) -> anyhow::Result<Vec<Row>> {
    let mut filter = CountingBloom::for_rate(HashIdentity::default(), KEYS, FalsePositiveRate::ONE_PERCENT)?;
    let (kept, repeated) = (keys::present(0, KEYS), keys::present(KEYS, 100));
    filter.insert_all(&kept);
    for _ in 0..TIMES {
        filter.insert_all(&repeated);
    }
    let saturated = filter.saturated();
    for &hash in repeated.iter().flat_map(|hash| core::iter::repeat_n(hash, usize::try_from(TIMES).unwrap_or(0))) {
        filter.remove(hash)?;
    }
    let denied = KEYS - filter.count_one_by_one(&kept);
    Ok(vec![Row {
        article: FAMILY,
        what: "Deleting after counters have overflowed".to_owned(),
        published: "keys that are in get denied".to_owned(),
        ours: format!("{} counters saturated, {denied} of {} keys denied", grouped(saturated), grouped(KEYS)),
        verdict: Verdict::holds(denied > 0),
        right:
            "a counter that has reached 15 is never taken down again: it can raise the false positive rate, and denies \
                nothing. The article says so itself where it explains saturation"
                .to_owned(),
    }])
}
