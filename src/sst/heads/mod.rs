//! Key heads: the one shortcut of this module that a plain reader does without.
//!
//! Comparing whole keys costs a call and at least one cache miss for each. The head of a key is its first eight bytes
//! after what its neighbours share, as a number that is ordered as the bytes are. Heads lie side by side, eight to a
//! cache line, and heads that differ decide; only where they are equal are the keys themselves compared.
//!
//! Three places are worth it, by whole lookups of absent keys in 70 tables in memory (`cargo bench --bench sets`):
//!
//! - which tables have a key in their range ([`KeyRanges`]): a lookup takes 1.8 times as long without heads;
//! - searching a cached block ([`HeadedBlock`]): a lookup takes 2.7 times as long by restart points, which touch a
//!   dozen lines of the block in turn;
//! - finding the data block in a table's index ([`TableIndex`](super::index::TableIndex)): a lookup takes 1.05 times
//!   as long by whole keys, false positives included and blocks cached; 1.1 to 1.2 times on a busy machine.
//!
//! Rejected, because it made whole lookups hardly faster: vector instructions for the ranges. Whole keys side by side
//! cost more memory, and a second chain of loads.

mod block;
mod ranges;

use byteorder::{BigEndian, ByteOrder};

pub(super) use block::HeadedBlock;
pub(super) use ranges::{InRange, KeyRanges};

/// The head of a key: its first eight bytes as a number that is ordered as the bytes are. Missing bytes count as 0.
#[inline]
pub(super) fn head(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
        padded
    });
    BigEndian::read_u64(&first)
}

/// Heads from one that is counted to the next, and how many are counted then. Loads that are counted do not wait for
/// each other, as those of a search by halves do.
const STEP: usize = 16;

/// How many of the ascending `heads` are below `bound`.
#[inline]
pub(super) fn lower_bound(heads: &[u64], bound: u64) -> usize {
    let (mut below, mut rest) = (0, heads);
    while rest.len() > STEP * STEP {
        let (left, right) = rest.split_at(rest.len() / 2);
        if left.last().is_some_and(|&last| last < bound) {
            below += left.len();
            rest = right;
        } else {
            rest = left;
        }
    }
    let is_below = |head: &&u64| **head < bound;
    let steps = rest.iter().step_by(STEP).filter(is_below).count();
    let start = steps.saturating_sub(1) * STEP;
    below + start + rest.get(start..).unwrap_or_default().iter().take(STEP).filter(is_below).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_counted_like_a_search_counts_them() {
        let heads: Vec<u64> = (0..1_000).map(|at| at / 3 * 2).collect();
        for length in [0, 1, 15, 16, 17, 31, 255, 256, 257, 512, 513, 999, 1_000] {
            for bound in 0..700 {
                let expected = heads[..length].partition_point(|&head| head < bound);
                assert_eq!(lower_bound(&heads[..length], bound), expected, "{bound} in {length}");
            }
        }
    }
}
