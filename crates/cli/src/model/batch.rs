//! Keys and ranges that many files are probed for, and threads that each probe one file after the other.
//!
//! Files are the outer loop, so that memory holds one filter per thread instead of all filters of a directory.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, ensure};
use sstfilter::{HashIdentity, KeyHash, KeyHasher, KeyRange, MatchBitmap};

use crate::file::key_list::{KeyLines, KeysFormat};
use crate::words::escape::key_text;
use crate::words::units::grouped;

/// Maximum number of hash sets in memory. A store has one hash function; a directory of files with different ones must
/// not make memory grow with their number.
const MAX_HASH_SETS: usize = 4;

/// Keys, with their hashes. There are less than 2^32: positions of keys are kept as `u32`.
pub(crate) struct KeyBatch<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    /// The keys with the hashes of other engines.
    pub(crate) foreign: sstfilter_interop::KeyBatch<'a>,
    hashes: Mutex<Vec<(HashIdentity, Arc<[KeyHash]>)>>,
}

impl<'a> KeyBatch<'a> {
    pub(crate) fn new(keys: Vec<&'a [u8]>) -> Self {
        let foreign = sstfilter_interop::KeyBatch::new(keys.iter().copied());
        Self { keys, foreign, hashes: Mutex::default() }
    }

    pub(crate) fn all(&self) -> Positions {
        Positions::all(self.keys.len())
    }

    /// Returns the hash of each key. Other threads wait while the hashes are computed, because they need the same ones.
    pub(crate) fn hashes(&self, hasher: &KeyHasher) -> Arc<[KeyHash]> {
        let mut sets = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hashes)) = sets.iter().find(|(identity, _)| *identity == hasher.identity()) {
            return hashes.clone();
        }
        let hashes: Arc<[KeyHash]> = self.keys.iter().map(|key| hasher.hash(key)).collect();
        // Drops the oldest: files with the same hash function usually follow each other.
        sets.truncate(MAX_HASH_SETS - 1);
        sets.insert(0, (hasher.identity(), hashes.clone()));
        hashes
    }
}

/// The ends of a range.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) lower: Vec<u8>,
    /// Not in the range.
    pub(crate) upper: Vec<u8>,
}

impl Ends {
    fn new(lower: Vec<u8>, upper: Vec<u8>) -> anyhow::Result<Self> {
        ensure!(lower < upper, "expected LOWER below UPPER in the order of bytes (UPPER itself is not in the range)");
        Ok(Self { lower, upper })
    }

    /// Parses the two values of `option`.
    pub(crate) fn parse(option: &str, ends: [&OsString; 2], format: KeysFormat) -> anyhow::Result<Self> {
        let end = |end: &OsString| {
            let name = || format!("{option} '{}'", key_text(end.as_encoded_bytes()));
            format.parse_argument(end).with_context(name)
        };
        Self::new(end(ends[0])?, end(ends[1])?).with_context(|| option.to_owned())
    }

    /// Reads ranges from the file at `path`, or from standard input.
    pub(crate) fn read(path: &Path, format: KeysFormat) -> anyhow::Result<Vec<Self>> {
        let lines = KeyLines::read(path, format, "--ranges")?;
        let is_paired = format == KeysFormat::Nul;
        let got = lines.len();
        ensure!(!is_paired || got.is_multiple_of(2), "--ranges: expected two ends for each range, got {got} ends");
        let count = if is_paired { got / 2 } else { got };
        ensure!(u32::try_from(count).is_ok(), "--ranges: expected less than 2^32 ranges: split the file");
        let separator = if is_paired { "NUL" } else { "tab" };
        let range = |number: usize| {
            let (lower, upper) = if is_paired {
                (lines.entry(2 * number).0, lines.entry(2 * number + 1).0)
            } else {
                lines.entry(number)
            };
            let (range, [from, to]) = (grouped(number as u64 + 1), [lower, upper].map(key_text));
            // No key is below the empty key, so no range ends there.
            ensure!(
                !upper.is_empty(),
                "--ranges: range {range}: expected LOWER and UPPER, separated by a {separator}, got '{from}' without UPPER"
            );
            let ends = Self::new(lower.to_vec(), upper.to_vec());
            ends.with_context(|| format!("--ranges: range {range}, from '{from}' to '{to}'"))
        };
        (0..count).map(range).collect()
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::from(self.lower.as_slice()..self.upper.as_slice())
    }
}

/// Positions of keys or ranges in their batch, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    /// The first ones, of this number.
    First(u32),
    /// Most keys are absent from most files, and positions are smaller than a bitmap if fewer than one key in 32 is
    /// listed.
    Listed(Vec<u32>),
}

impl Default for Positions {
    fn default() -> Self {
        Self::NONE
    }
}

impl Positions {
    pub(crate) const NONE: Self = Self::First(0);

    pub(crate) fn all(number: usize) -> Self {
        Self::First(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(crate) fn of_bitmap(matches: &MatchBitmap) -> Self {
        Self::Listed(matches.iter().filter_map(|position| u32::try_from(position).ok()).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.between(0, u32::MAX)
    }

    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::First(number) => u64::from(*number),
            Self::Listed(listed) => listed.len() as u64,
        }
    }

    pub(crate) fn hold(&self, position: u32) -> bool {
        match self {
            Self::First(number) => position < *number,
            Self::Listed(listed) => listed.binary_search(&position).is_ok(),
        }
    }

    /// Returns those from `start` to `end` (exclusive).
    pub(crate) fn between(&self, start: u32, end: u32) -> impl Iterator<Item = u32> {
        let (range, listed) = match self {
            Self::First(number) => (start..end.min(*number), &[][..]),
            Self::Listed(listed) => {
                let index = |bound| listed.partition_point(|&position| position < bound);
                (0..0, &listed[index(start)..index(end)])
            }
        };
        range.chain(listed.iter().copied())
    }

    pub(crate) fn filtered(&self, mut is_taken: impl FnMut(&u32) -> bool) -> Self {
        let mut taken = Vec::new();
        // Not `filter`: a chain of iterators is slow from the outside.
        self.iter().for_each(|position| {
            if is_taken(&position) {
                taken.push(position);
            }
        });
        if taken.len() as u64 == self.count() { self.clone() } else { Self::Listed(taken) }
    }

    /// Returns those that are also in `others`.
    pub(crate) fn within(&self, others: &Self) -> Self {
        match (self, others) {
            (Self::First(few), Self::First(many)) => Self::First(*few.min(many)),
            _ => self.filtered_by(others, true),
        }
    }

    /// Returns those that are not in `others`.
    pub(crate) fn without(&self, others: &Self) -> Self {
        self.filtered_by(others, false)
    }

    /// Returns those in either.
    pub(crate) fn and(&self, others: &Self) -> Self {
        let mut both: Vec<_> = self.iter().chain(others.iter()).collect();
        both.sort_unstable();
        both.dedup();
        Self::Listed(both)
    }

    fn filtered_by(&self, others: &Self, is_in_both: bool) -> Self {
        let mut others = others.iter().peekable();
        self.filtered(|position| {
            while others.next_if(|other| other < position).is_some() {}
            (others.peek() == Some(position)) == is_in_both
        })
    }
}

pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for each of `items` with up to `threads` threads. Returns the results in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        // Relaxed, because the threads share nothing but this number.
        while let Some((index, item)) = numbered(items, next.fetch_add(1, Ordering::Relaxed)) {
            results.push((index, work(item)));
        }
        results
    };
    let mut results: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(work)).collect();
        // A panic of a thread is passed on: without its answers, keys would be reported as absent.
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn numbered<T>(items: &[T], index: usize) -> Option<(usize, &T)> {
    Some((index, items.get(index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(positions: &[u32]) -> Positions {
        Positions::Listed(positions.to_vec())
    }

    #[test]
    fn positions_are_kept_or_left_out_by_others() {
        let [some, others] = [listed(&[1, 3, 4, 9]), listed(&[0, 3, 9, 10])];
        assert_eq!((some.within(&others), some.without(&others)), (listed(&[3, 9]), listed(&[1, 4])));
        assert_eq!(Positions::First(4).within(&some), listed(&[1, 3]));
        assert_eq!(some.within(&Positions::First(4)), listed(&[1, 3]));
        assert_eq!(Positions::First(4).without(&some), listed(&[0, 2]));
        assert_eq!(some.without(&Positions::NONE), some);
        assert!(some.hold(9) && !some.hold(2) && Positions::First(4).hold(3) && !Positions::First(4).hold(4));
    }
}
