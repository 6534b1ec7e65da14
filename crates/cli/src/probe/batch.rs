//! Probes the filters of many files for many keys: one thread opens a file, probes it for all keys and closes it.
//!
//! Files are the outer loop, so that memory holds one filter per thread instead of all filters of a directory. The
//! first thread that needs the hashes of a hash function computes them for all keys.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sstfilter::{HashIdentity, KeyHash, KeyHasher};

use super::bounds::BoundsArgs;
use super::file::{Answers, FileProbes, probe_file};
use crate::opened::Reading;
use crate::progress::SharedProgress;

/// Maximum number of hash sets in memory. A store has one hash function; a directory of files with different ones must
/// not make memory grow with their number.
const MAX_HASH_SETS: usize = 4;

/// The keys of one run, with their hashes.
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

/// Whether a listing needs the files in which each key is positive, or only their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Counts,
    Files,
}

/// The answers of all files.
#[derive(Default)]
pub(crate) struct BatchAnswers {
    /// One entry for each file, in their order.
    pub(crate) files: Vec<FileProbes>,
    /// The number of files that may contain each key, including files without a usable filter.
    pub(crate) touched: Vec<u32>,
    /// With [`Detail::Files`], the keys that each file may contain.
    pub(crate) positives: Vec<Answers>,
    pub(crate) times: Times,
}

/// Where the time of all threads went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Opening files, reading and verifying filters.
    pub(crate) reading: Duration,
    /// Hashing keys, and waiting for another thread that hashes them.
    pub(crate) hashing: Duration,
    /// Probing filters in memory for hashed keys.
    pub(crate) probing: Duration,
    /// Number of probes in `probing`.
    pub(crate) probes: u64,
}

impl Times {
    fn add(&mut self, other: Self) {
        self.reading += other.reading;
        self.hashing += other.hashing;
        self.probing += other.probing;
        self.probes += other.probes;
    }
}

/// Runs `work` and adds its time to `total`.
pub(crate) fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    *total += begun.elapsed();
    result
}

/// The results of one thread so far.
struct Worker {
    touched: Vec<u32>,
    found: Vec<(usize, FileProbes, Answers)>,
    times: Times,
}

/// Probes each of `files` for all `keys` with up to `threads` threads.
pub(crate) fn probe_all(
    files: &[PathBuf],
    keys: &KeyBatch<'_>,
    reading: Reading<'_>,
    bounds: BoundsArgs,
    (threads, detail): (usize, Detail),
) -> BatchAnswers {
    let progress = SharedProgress::new("probing filters", files.len() as u64 * keys.keys.len() as u64);
    let next = AtomicUsize::new(0);
    let work = || {
        // Each thread has its own counts, so that counting needs no synchronization.
        let mut worker = Worker { touched: vec![0; keys.keys.len()], found: Vec::new(), times: Times::default() };
        while let Some((index, path)) = take(files, &next) {
            let (file, answers) = probe_file(path, keys, reading, bounds, &mut worker.times);
            answers.count_into(&mut worker.touched);
            // Only a listing needs them, and their memory grows with the number of files.
            let answers = if detail == Detail::Files { answers } else { Answers::default() };
            worker.found.push((index, file, answers));
            progress.advance(keys.keys.len() as u64);
        }
        worker
    };
    let workers = thread::scope(|scope| {
        // A panic of a thread is passed on: without its answers, keys would be reported as absent.
        let running: Vec<_> = (0..threads.min(files.len())).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    BatchAnswers::merge(workers, keys.keys.len())
}

/// Takes the next file that no thread has taken.
fn take<'a>(files: &'a [PathBuf], next: &AtomicUsize) -> Option<(usize, &'a PathBuf)> {
    // Relaxed, because the threads share nothing but this number.
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, files.get(index)?))
}

impl BatchAnswers {
    fn merge(workers: Vec<Worker>, keys: usize) -> Self {
        let mut merged = Self { touched: vec![0; keys], ..Self::default() };
        let mut found = Vec::new();
        for worker in workers {
            merged.touched.iter_mut().zip(worker.touched).for_each(|(sum, touched)| *sum += touched);
            merged.times.add(worker.times);
            found.extend(worker.found);
        }
        // Threads finish in any order; the report lists files in the order of the command line.
        found.sort_unstable_by_key(|(index, ..)| *index);
        for (_, file, answers) in found {
            merged.files.push(file);
            merged.positives.push(answers);
        }
        merged
    }
}
