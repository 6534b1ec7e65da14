//! Single probes through a [`FilterReader`], which checks and counts them, compared with bare ones; also from many
//! threads.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use bytes::Bytes;
use sstfilter::{FilterBlock, FilterReader, Filters, KeyHash};

use crate::harness::{least_times, timed};
use crate::keys::KeySet;
use crate::record::{CountedProbe, SharedProbe};
use crate::subject::{BuildError, count_where};
use crate::subjects::sstfilter::{IN_USE, block};

/// Keys in each filter: from the first cache level to the last.
const KEYS: [usize; 3] = [10_000, 100_000, 1_000_000];

/// Absent keys between two reads of the clock: a fraction of a millisecond.
const QUERIES: usize = 1 << 16;

/// Passes of each thread over the keys: some milliseconds, so that threads overlap, but most turns see no interruption.
const PASSES: usize = 4;

/// Measures all kinds and sizes.
///
/// # Errors
///
/// The builder's error.
pub fn measure(turns: usize) -> Result<Vec<CountedProbe>, BuildError> {
    let absent = KeySet::absent(QUERIES);
    let mut records = Vec::new();
    for keys in KEYS {
        for (name, kind, size) in IN_USE {
            let block = block(kind, size, KeySet::present(keys).all().hashes)?;
            records.push(measure_filter(name, &block, keys, absent.all().hashes, turns));
        }
    }
    Ok(records)
}

fn measure_filter(
    kind: &str,
    block: &FilterBlock<Bytes>,
    keys: usize,
    absent: &[KeyHash],
    turns: usize,
) -> CountedProbe {
    let reader = Filters::default().reader(Ok(block.clone()));
    let count_bare = |block: &FilterBlock<Bytes>| count_where(black_box(absent), |&hash| block.may_contain(hash));
    let mut works: [Box<dyn FnMut() -> u64>; 2] =
        [Box::new(|| count_bare(black_box(block))), Box::new(|| count_counted(black_box(&reader), absent))];
    let times = least_times(&mut works, turns, |work| work());
    let per_key = |work: usize| times[work] / absent.len() as f64;
    CountedProbe {
        kind: kind.to_owned(),
        n: keys as u64,
        bare_ns: per_key(0),
        counted_ns: per_key(1),
        shared: shared(&reader, absent, turns),
    }
}

fn count_counted(reader: &FilterReader<Bytes>, absent: &[KeyHash]) -> u64 {
    count_where(black_box(absent), |&hash| !reader.probe_hash(hash).is_absent())
}

/// Measures as many threads as there are CPUs, and one thread. Returns `None` with a single CPU.
fn shared(reader: &FilterReader<Bytes>, absent: &[KeyHash], turns: usize) -> Option<SharedProbe> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    (threads > 1).then(|| SharedProbe {
        threads: threads as u64,
        alone_ns: from_threads(reader, absent, 1, turns),
        together_ns: from_threads(reader, absent, threads, turns),
    })
}

/// Returns the minimum nanoseconds per probe and thread while `threads` threads probe `reader`. It takes the slowest
/// thread of the best turn, which shows threads that wait for each other's cache lines.
fn from_threads(reader: &FilterReader<Bytes>, absent: &[KeyHash], threads: usize, turns: usize) -> f64 {
    let start = Barrier::new(threads);
    let of_thread = || -> Vec<f64> { (0..turns).map(|_| together(&start, reader, absent)).collect() };
    let times: Vec<Vec<f64>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(of_thread)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let slowest = |turn: usize| times.iter().map(|of_thread| of_thread[turn]).fold(0.0, f64::max);
    (0..turns).map(slowest).fold(f64::INFINITY, f64::min)
}

/// Returns one thread's nanoseconds per probe, from the moment when all threads have arrived.
fn together(start: &Barrier, reader: &FilterReader<Bytes>, absent: &[KeyHash]) -> f64 {
    // In every turn: otherwise threads drift apart, and the last ones run alone.
    start.wait();
    let passes = || (0..PASSES).for_each(|_| _ = black_box(count_counted(reader, absent)));
    timed(passes).1 / (PASSES * absent.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_of_every_thread_is_counted() {
        let (absent, turns, threads) = (KeySet::absent(1_000), 3, 4);
        let reader =
            Filters::default().reader(Ok(block("bloom", IN_USE[0].2, KeySet::present(1_000).all().hashes).unwrap()));
        assert!(from_threads(&reader, absent.all().hashes, threads, turns) > 0.0);
        let stats = reader.stats();
        assert_eq!(stats.negatives + stats.positives, (1_000 * PASSES * turns * threads) as u64);
    }

    #[test]
    fn all_kinds_are_measured_bare_and_counted() {
        for (name, kind, size) in IN_USE {
            let block = block(kind, size, KeySet::present(1_000).all().hashes).unwrap();
            let record = measure_filter(name, &block, 1_000, KeySet::absent(1_000).all().hashes, 1);
            assert!(record.bare_ns > 0.0 && record.counted_ns > 0.0, "{record:?}");
        }
    }
}
