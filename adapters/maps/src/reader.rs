//! Looks keys up: which of an engine's files may have a key.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::path::Path;
use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::{Coverage, Lookups, MapIndex, MapJudge, MapRead, SetMatch};

use crate::error::Result;
use crate::manifest::{Folder, Loaded, Manifest, MapEntry};
use crate::pages::{Failure, Pages, ReaderOptions, Statistics};

/// Which maps a snapshot uses.
#[derive(Clone, Copy, Debug)]
pub enum Cuts<'a> {
    /// All that the manifest lists.
    All,
    /// Those of some cuts. Files that only others cover are not covered: they are in every answer.
    Only(&'a [&'a str]),
}

impl Cuts<'_> {
    fn has(self, cut: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(cuts) => cuts.contains(&cut),
        }
    }
}

/// Reads maps of a folder of an object store.
#[derive(Debug)]
pub struct MapReader {
    pages: Arc<Pages>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    manifest: Manifest,
    etag: Option<String>,
    /// The ends that were loaded, by the map's fingerprint.
    ends: HashMap<u64, Arc<MapIndex>>,
}

impl MapReader {
    /// Opens the maps of a folder with the newest manifest. A folder without one has no maps.
    ///
    /// # Errors
    ///
    /// The store fails, or the manifest is damaged.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        folder: impl Into<Path>,
        filters: &Filters,
        options: ReaderOptions,
    ) -> Result<Self> {
        let folder = Folder { store, path: folder.into() };
        let pages = Pages::new(folder, filters.clone(), options);
        let reader = Self { pages: Arc::new(pages), state: Mutex::default() };
        reader.refresh().await?;
        Ok(reader)
    }

    /// Loads the newest manifest; `false` if it is the one that the reader has. What was read of maps that are still
    /// listed stays in memory. Snapshots keep the maps that they were made with.
    ///
    /// # Errors
    ///
    /// The store fails, or the manifest is damaged. The reader keeps the one that it had.
    pub async fn refresh(&self) -> Result<bool> {
        let etag = self.state().etag.clone();
        self.pages.count(|all| all.manifest_requests += 1);
        let Some(loaded) = self.pages.folder().load(etag).await? else { return Ok(false) };
        let (etag, Loaded { manifest, .. }) = (loaded.etag(), loaded);
        let mut state = self.state();
        state.ends.retain(|&id, _| manifest.map(id).is_some());
        (state.manifest, state.etag) = (manifest, etag);
        Ok(true)
    }

    /// Returns the folder of the maps.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.pages.folder().path
    }

    /// Returns the manifest that the reader has.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        self.state().manifest.clone()
    }

    /// Prepares lookups among `files`, at most 2^32 - 1, in any order. Loads the ends of maps that the reader has not
    /// loaded yet, with one request for each. Files of a map whose end cannot be loaded are not covered, and in every
    /// answer; a later snapshot tries again.
    pub async fn snapshot(&self, files: &[FileId], cuts: Cuts<'_>) -> Snapshot {
        let maps: Vec<_> = {
            let state = self.state();
            let wanted = state.manifest.maps.iter().filter(|map| cuts.has(&map.cut));
            wanted.map(|map| (map.clone(), state.ends.get(&map.id).cloned())).collect()
        };
        let loading = maps.into_iter().map(|(map, end)| async {
            let index = match end {
                Some(index) => Some(index),
                None => self.pages.end(&map).await,
            };
            index.map(|index| (map, index))
        });
        let (maps, indexes): (Vec<_>, Vec<_>) = join_all(loading).await.into_iter().flatten().unzip();
        self.keep_ends(&maps, &indexes);
        let coverage = Coverage::new(indexes, files);
        Snapshot { pages: Arc::clone(&self.pages), coverage, maps, files: files.len() }
    }

    fn keep_ends(&self, maps: &[MapEntry], indexes: &[Arc<MapIndex>]) {
        let mut state = self.state();
        for (map, index) in maps.iter().zip(indexes) {
            // The manifest may be a newer one by now.
            if state.manifest.map(map.id).is_some() {
                state.ends.insert(map.id, Arc::clone(index));
            }
        }
    }

    /// Returns what the reader did since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.pages.statistics()
    }

    /// Returns the last failures with their reasons, at most 32, older ones first.
    #[must_use]
    pub fn recent_failures(&self) -> Vec<Failure> {
        self.pages.failures()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of an engine at one moment, and the maps that cover them.
#[derive(Debug)]
pub struct Snapshot {
    pages: Arc<Pages>,
    coverage: Coverage<Arc<MapIndex>>,
    /// The places of the maps, in the order of the coverage.
    maps: Vec<MapEntry>,
    files: usize,
}

impl Snapshot {
    /// Returns the positions of the files to open for a key, ascending: those that may have it, and those that no map
    /// covers. Reads one page of each map, unless the cache has it. Take the hash from [`hash`](Self::hash), or from the
    /// [`Filters`] that the reader was opened with: that of another hash function misses files that have the key.
    pub async fn candidates(&self, hash: KeyHash) -> Vec<usize> {
        self.candidates_each(&[hash]).await.pop().unwrap_or_default()
    }

    /// Returns the positions of the files to open for each of several keys, as [`candidates`](Self::candidates) does.
    /// Reads a page that several keys need once.
    ///
    /// Each answer has the uncovered files: if there are many, ask for few keys at a time.
    pub async fn candidates_each(&self, hashes: &[KeyHash]) -> Vec<Vec<usize>> {
        let mut answers = vec![self.coverage.uncovered().to_vec(); hashes.len()];
        self.visit(hashes, |key, position| answers[key].push(position)).await;
        answers.iter_mut().for_each(|answer| answer.sort_unstable());
        answers
    }

    /// Calls `visit` with each key and the positions of covered files that may have it, by their positions.
    async fn visit(&self, hashes: &[KeyHash], mut visit: impl FnMut(usize, usize)) {
        self.pages.count(|all| all.keys += hashes.len() as u64);
        for (judge, found) in join_all(self.asked().map(|(judge, map)| self.ask(judge, map, hashes))).await {
            for (key, found) in found {
                match found {
                    SetMatch::File(position) => visit(key, position),
                    SetMatch::AnyFile => {
                        self.pages.count(|all| all.unknown += 1);
                        judge.positions().for_each(|position| visit(key, position));
                    }
                }
            }
        }
    }

    /// Returns for each set of keys whether each file, by its position, may have one of them; `None` if that needs more
    /// than `max_pages` pages of maps, of which none is then read. Reads a page that several keys need once.
    pub async fn candidates_of_sets(&self, sets: &[Vec<KeyHash>], max_pages: usize) -> Option<Vec<Vec<bool>>> {
        let hashes = sets.concat();
        let pages = self.asked().map(|(judge, _)| Lookups::new(judge.map(), &hashes).reads().len()).sum::<usize>();
        if pages > max_pages {
            return None;
        }
        let mut is_uncovered = vec![false; self.files];
        self.uncovered().iter().for_each(|&position| is_uncovered[position] = true);
        let mut answers = vec![is_uncovered; sets.len()];
        let set_of: Vec<_> = sets.iter().enumerate().flat_map(|(at, set)| repeat_n(at, set.len())).collect();
        self.visit(&hashes, |key, position| answers[set_of[key]][position] = true).await;
        Some(answers)
    }

    /// Returns the hash of a key, as the maps have it.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.pages.filters().hash(key)
    }

    /// Returns the maps that cover a file of the snapshot: others would be read for nothing.
    fn asked(&self) -> impl Iterator<Item = (&MapJudge<Arc<MapIndex>>, &MapEntry)> {
        let all = self.coverage.judges().iter().zip(&self.maps);
        all.filter(|(judge, _)| judge.positions().next().is_some())
    }

    /// Returns the positions of files that no map covers, ascending. They are in every answer.
    #[must_use]
    pub fn uncovered(&self) -> &[usize] {
        self.coverage.uncovered()
    }

    /// Returns the last failures of the reader, as [`MapReader::recent_failures`] does.
    #[must_use]
    pub fn recent_failures(&self) -> Vec<Failure> {
        self.pages.failures()
    }

    /// Returns the maps that lookups ask: those that could be loaded. Maps that cover no file of the snapshot are not
    /// read.
    #[must_use]
    pub fn maps(&self) -> &[MapEntry] {
        &self.maps
    }

    /// Returns what one map says about the keys, by their positions.
    async fn ask<'a>(
        &self,
        judge: &'a MapJudge<Arc<MapIndex>>,
        map: &MapEntry,
        hashes: &[KeyHash],
    ) -> (&'a MapJudge<Arc<MapIndex>>, Vec<(usize, SetMatch)>) {
        let (mut lookups, mut found) = (Lookups::new(judge.map(), hashes), Vec::new());
        loop {
            let reads = lookups.reads();
            if reads.is_empty() {
                break;
            }
            let part = |read: MapRead| async move { (self.pages.part(map, judge.map(), &read).await, read) };
            let parts: Vec<_> = reads.into_iter().map(part).collect();
            let mut parts = futures::stream::iter(parts).buffer_unordered(self.pages.parallel());
            // Each part is dropped before the next ones are read.
            while let Some((part, read)) = parts.next().await {
                lookups.answer(&read, part.as_ref(), |key, candidates| {
                    judge.visit(candidates, |file| found.push((key, file)));
                });
            }
        }
        (judge, found)
    }
}
