//! Reads parts of maps, keeps some of them, and counts what fails.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::ObjectStoreExt;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sstfilter::{BlockError, Filters};
use sstfilter_map::{MapError, MapIndex, MapPart, MapRead};
use tokio::sync::Semaphore;

use crate::ends::EndReads;
use crate::error::{Error, Result};
use crate::manifest::{Folder, MapEntry};

/// Failures that are kept with their reason.
const RECENT: usize = 32;

/// How long a part is not read again after a failure. The pause doubles with each further one: damage in the store
/// stays, and other failures soon end.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Pauses that are remembered.
const MAX_PAUSES: usize = 10_000;

/// Bytes that a page takes in the cache beside its own, about.
const PAGE_OVERHEAD: u64 = 200;

/// Bytes of a page by default, from which the cache guesses how many it will have.
const USUAL_PAGE: u64 = 64 << 10;

/// The settings of a reader.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReaderOptions {
    /// Bytes of pages that are kept in memory; 64 MiB by default. With 0, each lookup reads its pages.
    pub cache_bytes: u64,
    /// Requests at once, of all lookups together; 32 by default.
    pub parallel: usize,
    /// How long a part of a map that could not be read is not read again, at most; a minute by default. The first pause
    /// is a tenth of a second, and each one twice the last.
    pub max_pause: Duration,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, parallel: 32, max_pause: Duration::from_mins(1) }
    }
}

/// What a reader did, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Keys that were looked up.
    pub keys: u64,
    /// GETs of parts of maps: pages, lists, ends. Those that failed are included.
    pub requests: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// GETs of the manifest.
    pub manifest_requests: u64,
    /// Reads of a page or list that needed no request: from the cache, or by an equal request that was under way.
    pub cache_hits: u64,
    /// Ends and pages that were read again because they were damaged.
    pub repeated: u64,
    /// Answers of a map that all of its files may have the key: because of a failure, or of a page without entries.
    pub unknown: u64,
    /// Objects that are not there: a newer manifest names others.
    pub missing: u64,
    /// Requests that the store did not answer.
    pub unanswered: u64,
    /// Ends and pages that are damaged, also after a second request, and objects that are not the map of the manifest.
    pub damaged: u64,
    /// Maps that were built with another hash.
    pub foreign: u64,
}

impl Statistics {
    /// Returns the number of failures.
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.missing + self.unanswered + self.damaged + self.foreign
    }
}

/// A map, or a page of it, that could not be used. All files of the map were in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the object in the folder.
    pub object: String,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The reason, as a message.
    pub reason: String,
}

/// The kinds of failures, which have a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The object is not there.
    Missing,
    /// The store did not answer.
    Unanswered,
    /// The bytes are damaged, or not those of the map.
    Damaged,
    /// The map was built with another hash.
    Foreign,
}

impl FailureKind {
    fn of(error: &Error) -> Self {
        match error {
            Error::Store(object_store::Error::NotFound { .. }) => Self::Missing,
            Error::Map(MapError::Block(BlockError::HashMismatch { .. })) => Self::Foreign,
            Error::Map(_) => Self::Damaged,
            _ => Self::Unanswered,
        }
    }
}

#[derive(Clone, Debug)]
struct PageBytes;

impl Weighter<MapRead, Option<MapPart<Bytes>>> for PageBytes {
    fn weight(&self, read: &MapRead, _: &Option<MapPart<Bytes>>) -> u64 {
        read.range().end - read.range().start + PAGE_OVERHEAD
    }
}

/// After a failure.
#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// Reads ends and parts of the maps of a folder.
pub(crate) struct Pages {
    folder: Folder,
    filters: Filters,
    /// By map and range. None without a budget. A part that could not be read stays only until the lookups that wait
    /// for it know it.
    cache: Option<Cache<MapRead, Option<MapPart<Bytes>>, PageBytes>>,
    permits: Semaphore,
    parallel: usize,
    max_pause: Duration,
    statistics: Mutex<Statistics>,
    failures: Mutex<VecDeque<Failure>>,
    /// Of parts of maps, by where they start, and of maps whose objects are gone.
    pauses: Mutex<HashMap<(u64, Option<u64>), Pause>>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("folder", &self.folder)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl Pages {
    pub(crate) fn new(folder: Folder, filters: Filters, options: ReaderOptions) -> Self {
        let ReaderOptions { cache_bytes, parallel, max_pause } = options;
        let pages = usize::try_from(cache_bytes / USUAL_PAGE).unwrap_or(usize::MAX);
        let cache = (cache_bytes > 0).then(|| Cache::with_weighter(pages.max(1), cache_bytes, PageBytes));
        let parallel = parallel.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Semaphore::new(parallel);
        let (statistics, failures, pauses) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { folder, filters, cache, permits, parallel, max_pause, statistics, failures, pauses }
    }

    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) const fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Returns how many requests there are at once, at most.
    pub(crate) const fn parallel(&self) -> usize {
        self.parallel
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Statistics)) {
        count(&mut self.statistics.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn statistics(&self) -> Statistics {
        *self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Loads the end of a map. `None` if that fails: the map then covers no file.
    pub(crate) async fn end(&self, map: &MapEntry) -> Option<Arc<MapIndex>> {
        let _permit = self.permits.acquire().await;
        let mut reads = EndReads::default();
        let end = self.folder.end(map, &self.filters, &mut reads).await;
        self.count(|all| {
            all.requests += reads.requests;
            all.bytes += reads.bytes;
            all.repeated += reads.repeated;
        });
        end.inspect_err(|error| self.fail(map, error)).ok().map(Arc::new)
    }

    /// Reads a part of a map, if it is not in the cache. `None` if that fails, or has just failed: all files of the map
    /// may have the key.
    pub(crate) async fn part(&self, map: &MapEntry, index: &MapIndex, read: &MapRead) -> Option<MapPart<Bytes>> {
        let mut is_cached = true;
        let loading = async {
            is_cached = false;
            if self.is_paused(map, read) {
                return None;
            }
            let loaded = self.load(map, index, read).await;
            self.pause(map, read, loaded.as_ref().err());
            loaded.inspect_err(|error| self.fail(map, error)).ok()
        };
        let Some(cache) = &self.cache else { return loading.await };
        // A failure is inserted, too: lookups that wait would otherwise try again, one after another.
        let loading = async { Ok::<_, Infallible>(loading.await) };
        let part = cache.get_or_insert_async(read, loading).await.ok().flatten();
        if is_cached {
            self.count(|all| all.cache_hits += 1);
        } else if part.is_none() {
            cache.remove(read);
        }
        part
    }

    fn is_paused(&self, map: &MapEntry, read: &MapRead) -> bool {
        let (pauses, now) = (self.pauses.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let of = |part| pauses.get(&(map.id, part)).is_some_and(|pause| now < pause.until);
        of(None) || of(Some(read.range().start))
    }

    /// Ends the pause of a part that was read, or begins a longer one.
    fn pause(&self, map: &MapEntry, read: &MapRead, error: Option<&Error>) {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let (part, now) = (Some(read.range().start), Instant::now());
        let Some(error) = error else {
            pauses.remove(&(map.id, None));
            pauses.remove(&(map.id, part));
            return;
        };
        if pauses.len() == MAX_PAUSES {
            pauses.clear();
        }
        let part = if FailureKind::of(error) == FailureKind::Missing { None } else { part };
        let pause = pauses.entry((map.id, part)).or_insert(Pause { until: now, length: FIRST_PAUSE / 2 });
        // Reads that fail at the same time are one failure.
        if pause.until <= now {
            let length = (2 * pause.length).min(self.max_pause);
            *pause = Pause { until: now + length, length };
        }
    }

    async fn load(&self, map: &MapEntry, index: &MapIndex, read: &MapRead) -> Result<MapPart<Bytes>> {
        if let Ok(part) = index.open(read, self.get(map, read).await?) {
            return Ok(part);
        }
        // Damage on the way is over the next time, damage in the store is not.
        self.count(|all| all.repeated += 1);
        Ok(index.open(read, self.get(map, read).await?)?)
    }

    async fn get(&self, map: &MapEntry, read: &MapRead) -> Result<Bytes> {
        let _permit = self.permits.acquire().await;
        let bytes = self.folder.store.get_range(&self.folder.object(&map.object), read.range()).await;
        self.count(|all| {
            all.requests += 1;
            all.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        });
        Ok(bytes?)
    }

    fn fail(&self, map: &MapEntry, error: &Error) {
        let kind = FailureKind::of(error);
        self.count(|all| match kind {
            FailureKind::Missing => all.missing += 1,
            FailureKind::Unanswered => all.unanswered += 1,
            FailureKind::Damaged => all.damaged += 1,
            FailureKind::Foreign => all.foreign += 1,
        });
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() == RECENT {
            failures.pop_front();
        }
        failures.push_back(Failure { object: map.object.clone(), kind, reason: error.to_string() });
    }
}
