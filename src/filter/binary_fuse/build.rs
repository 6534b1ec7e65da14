//! Building in several passes over the hashes, without a copy of them.

use super::shape::FuseShape;
use crate::filter::fingerprint::PeeledShape;
use crate::filter::peel::{AttemptError, CellSums, NO_RESERVE, add_distinct, try_salts};
use crate::filter::{BuiltPayload, FallbackReason};
use crate::hash::KeyHash;

/// A filter built in several passes over the hashes.
#[derive(Debug)]
pub(crate) struct MultiPassFilter {
    pub(crate) payload: BuiltPayload<FuseShape>,
    /// Hashes read in each pass.
    pub(crate) added: u64,
    pub(crate) distinct: u64,
}

/// Builds the filter of the hashes that `read` gives each time it is called, in any order and any number of times,
/// without a copy of them. It is the filter that `Kind::build` makes of them for the same shape. `keys` is about how
/// many distinct ones there are.
pub(crate) fn build_multi_pass<I: Iterator<Item = KeyHash>>(
    read: impl Fn() -> I,
    keys: u64,
    shape: FuseShape,
) -> Result<MultiPassFilter, FallbackReason> {
    let mut sums = CellSums::new(shape.cells())?;
    let (mut has_repeats, mut added) = (false, 0);
    try_salts(|salt| {
        let shape = shape.with_salt(salt);
        sums.clear();
        let mut order = Err(AttemptError::Retry);
        if !has_repeats {
            // Repeated keys are mostly adjacent, and are skipped here; others make this attempt fail.
            let mut last = None;
            added = 0;
            let hashes = read().inspect(|_| added += 1).filter(|&hash| last.replace(hash) != Some(hash));
            order = shape.add_all(&mut sums, hashes).and_then(|()| shape.peel(&mut sums, NO_RESERVE));
        }
        if order == Err(AttemptError::Retry) {
            let before = sums.added();
            sums.clear();
            add_distinct(&read, keys, |part| shape.add_all(&mut sums, part.iter().copied()))?;
            has_repeats |= sums.added() != before;
            // Without repeats, a second try would add the same keys, which this salt cannot peel.
            if has_repeats {
                order = shape.peel(&mut sums, NO_RESERVE);
            }
        }
        let payload = shape.assign(&sums, &order?)?;
        Ok(MultiPassFilter { payload, added, distinct: sums.added() })
    })
}
