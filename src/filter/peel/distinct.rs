//! Adding keys that come again and again, without a copy of all of their hashes.

use super::{CellSums, Crowded, Placement};
use crate::codec::map_to_range;
use crate::filter::BuildFailure;
use crate::hash::{KeyHash, mix64};

/// The hashes are read so many times, and each time an eighth of them is taken.
const SHARES: u64 = 8;

/// Shares too small to be worth a second reading are made this large, in hashes.
const SMALLEST_SHARE: u64 = 1 << 12;

/// Adds each of the hashes that `read` gives once, however often it comes, to empty `sums`; `Crowded`, inside, where
/// another placement may do. `keys` is how many there are about: of more than that, it may fail.
///
/// Shares of the hashes are sorted one after the other, which takes 2 bytes for each of `keys`.
pub(crate) fn add_distinct<const ARITY: usize, I: Iterator<Item = KeyHash>>(
    sums: &mut CellSums,
    placement: impl Placement<ARITY>,
    read: impl Fn() -> I,
    keys: u64,
) -> Result<Result<(), Crowded>, BuildFailure> {
    // Twice what is expected: distinct hashes of a share, and as many that come again.
    let capacity = (keys / SHARES * 2).max(SMALLEST_SHARE);
    let capacity = usize::try_from(capacity).map_err(|_| BuildFailure::NoMemory)?;
    let mut share: Vec<KeyHash> = Vec::new();
    share.try_reserve_exact(capacity).map_err(|_| BuildFailure::NoMemory)?;
    for number in 0..SHARES {
        share.clear();
        // Mixed, so that hashes which are alike do not all come into one share.
        for hash in read().filter(|hash| map_to_range(mix64(hash.get()), SHARES) == number) {
            if share.len() == capacity {
                drop_repeated(&mut share);
                if share.len() > capacity / 4 * 3 {
                    return Err(BuildFailure::AttemptsExhausted);
                }
            }
            share.push(hash);
        }
        drop_repeated(&mut share);
        if sums.add_all(placement, share.iter().copied()).is_err() {
            return Ok(Err(Crowded));
        }
    }
    Ok(Ok(()))
}

fn drop_repeated(hashes: &mut Vec<KeyHash>) {
    hashes.sort_unstable();
    hashes.dedup();
}
