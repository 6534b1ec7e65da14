//! Many keys against the filters of many files: a file is opened, probed for all keys and closed by one thread.
//!
//! Files are the outer loop, so that memory holds one filter per thread and not those of a whole directory. The hashes
//! of the keys are computed once for each hash function, by the first thread that needs them.

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

/// Sets of hashes that are kept. A store has one hash; a directory of files with a different one each must not make
/// memory grow with their number.
const MAX_HASH_SETS: usize = 4;

/// The keys of one run, with their hashes.
pub(crate) struct KeyBatch<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    /// The same keys with the hashes of other engines.
    pub(crate) foreign: sstfilter_interop::KeyBatch<'a>,
    hashes: Mutex<Vec<(HashIdentity, Arc<[KeyHash]>)>>,
}

impl<'a> KeyBatch<'a> {
    pub(crate) fn new(keys: Vec<&'a [u8]>) -> Self {
        let foreign = sstfilter_interop::KeyBatch::new(keys.iter().copied());
        Self { keys, foreign, hashes: Mutex::default() }
    }

    /// The hash of each key. Other threads wait while the hashes are computed: they need the same ones.
    pub(crate) fn hashes(&self, hasher: &KeyHasher) -> Arc<[KeyHash]> {
        let mut sets = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hashes)) = sets.iter().find(|(identity, _)| *identity == hasher.identity()) {
            return hashes.clone();
        }
        let hashes: Arc<[KeyHash]> = self.keys.iter().map(|key| hasher.hash(key)).collect();
        sets.truncate(MAX_HASH_SETS - 1);
        sets.insert(0, (hasher.identity(), hashes.clone()));
        hashes
    }
}

/// Whether a listing needs to know which files each key is positive in, or only how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Counts,
    Files,
}

/// What all files answered.
#[derive(Default)]
pub(crate) struct BatchAnswers {
    /// One for each file, in their order.
    pub(crate) files: Vec<FileProbes>,
    /// How many files each key may be in, those without a usable filter included.
    pub(crate) touched: Vec<u32>,
    /// With [`Detail::Files`], the keys that each file may hold.
    pub(crate) positives: Vec<Answers>,
    pub(crate) times: Times,
}

/// Where the time of all threads went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Opening files, reading and verifying filters.
    pub(crate) reading: Duration,
    /// Hashing keys, and waiting for another thread that does.
    pub(crate) hashing: Duration,
    /// Probing filters that are in memory, for keys that are hashed.
    pub(crate) probing: Duration,
    /// Probes of `probing`.
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

/// Does `work` and adds the time it takes to `total`.
pub(crate) fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    *total += begun.elapsed();
    result
}

/// What one thread has found so far.
struct Worker {
    touched: Vec<u32>,
    found: Vec<(usize, FileProbes, Answers)>,
    times: Times,
}

/// Probes each of `files` for all `keys` in up to `threads` threads.
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
        let mut worker = Worker { touched: vec![0; keys.keys.len()], found: Vec::new(), times: Times::default() };
        while let Some((index, path)) = take(files, &next) {
            let (file, answers) = probe_file(path, keys, reading, bounds, &mut worker.times);
            answers.count_into(&mut worker.touched);
            let answers = if detail == Detail::Files { answers } else { Answers::default() };
            worker.found.push((index, file, answers));
            progress.advance(keys.keys.len() as u64);
        }
        worker
    };
    let workers = thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(files.len())).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    BatchAnswers::merge(workers, keys.keys.len())
}

/// The next file that no thread has taken.
fn take<'a>(files: &'a [PathBuf], next: &AtomicUsize) -> Option<(usize, &'a PathBuf)> {
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
        found.sort_unstable_by_key(|(index, ..)| *index);
        for (_, file, answers) in found {
            merged.files.push(file);
            merged.positives.push(answers);
        }
        merged
    }
}
