//! Keys and ranges that many files are probed for, and threads that each probe one file after the other.
//!
//! Files are the outer loop, so that memory holds one filter per thread instead of all filters of a directory.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, ensure};
use rayon::ThreadPoolBuilder;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use roaring::RoaringBitmap;
use sstfilter::{HashIdentity, KeyHash, KeyHasher, KeyRange};

use crate::file::context::KeysFormat;
use crate::file::key_list::KeyLines;
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
        let [lower, upper] = ends.map(|end| format.parse_argument(option, end));
        Self::new(lower?, upper?).with_context(|| option.to_owned())
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

/// Positions of keys or ranges in their batch.
pub(crate) type Positions = RoaringBitmap;

/// Returns the positions of a batch of this length.
pub(crate) fn all_of(number: usize) -> Positions {
    let mut all = Positions::new();
    all.insert_range(..u32::try_from(number).unwrap_or(u32::MAX));
    all
}

pub(crate) fn filtered(positions: &Positions, is_taken: impl Fn(usize) -> bool) -> Positions {
    let mut bits = vec![0; positions.max().map_or(0, |last| last as usize / 8 + 1)];
    for position in listed(positions) {
        bits[position as usize / 8] |= u8::from(is_taken(position as usize)) << (position % 8);
    }
    Positions::from_lsb0_bytes(0, &bits)
}

/// Returns a list of positions. Those of a whole batch are not read from the set, which would take half of the time of
/// a probe.
pub(crate) fn listed(positions: &Positions) -> Vec<u32> {
    let last = positions.max().filter(|&last| u64::from(last) < positions.len());
    last.map_or_else(|| positions.iter().collect(), |last| (0..=last).collect())
}

/// Returns the set of these positions, which is fastest if they ascend.
pub(crate) fn of_ascending(positions: Vec<u32>) -> Positions {
    Positions::from_sorted_iter(positions.iter().copied()).unwrap_or_else(|_| positions.into_iter().collect())
}

pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for each of `items` with up to `threads` threads; by default, with one per core. Returns the results in
/// the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: Option<usize>,
    work: impl Fn(&T) -> R + Sync + Send,
) -> anyhow::Result<Vec<R>> {
    let threads = threads.unwrap_or_else(cores).min(items.len()).max(1);
    let threads = ThreadPoolBuilder::new().num_threads(threads).build()?;
    // One by one: files differ in size, and a thread holds one filter at a time.
    Ok(threads.install(|| items.par_iter().with_max_len(1).map(work).collect()))
}
