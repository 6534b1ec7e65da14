//! A file map in an object store: its end is in memory, and each lookup reads the pages that it needs.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use futures::StreamExt;
use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{Candidates, LocalId, MapError, MapIndex, MapPart, MapRead, PartAnswer};

/// Bytes that are read from a map's end at first. Enough for 4,000 files; more files need a second read.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// Pages that one query reads at a time.
const CONCURRENT_READS: usize = 16;

/// Reads after that of the page: an outgrown page, and a list of that.
const MAX_MORE_READS: usize = 2;

/// A file map in an object store. Its end is in memory, 16 bytes per covered file; pages are read for each query.
pub struct StoredMap {
    object: Pinned,
    index: MapIndex,
    hasher: KeyHasher,
}

impl fmt::Debug for StoredMap {
    /// Without the covered files: tables are printed in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.index.files().len();
        f.debug_struct("StoredMap")
            .field("path", &self.object.meta.location.as_ref())
            .field("files", &files)
            .finish_non_exhaustive()
    }
}

impl StoredMap {
    /// Opens the map with the id `map` that was built with the hash of `filters`, in two or three requests.
    ///
    /// # Errors
    ///
    /// The map cannot be read, is damaged, or is another map or one of another hash. Use the table without it.
    pub async fn open(store: Arc<dyn ObjectStore>, path: Path, filters: &Filters, map: FileId) -> Result<Self> {
        let error = |error: MapError| DataFusionError::External(format!("{path}: {error}").into());
        let object = Pinned { meta: store.head(&path).await?, store };
        let size = object.meta.size;
        let mut end = object.read(size.saturating_sub(FIRST_READ_BYTES)..size).await?;
        let end_bytes = MapIndex::end_bytes(&end).map_err(error)?;
        // A damaged length larger than the map fails when the map is loaded.
        if end_bytes > end.len() as u64 && end_bytes <= size {
            end = object.read(size - end_bytes..size).await?;
        }
        let index = MapIndex::load(&end, size, filters, map).map_err(error)?;
        Ok(Self { object, index, hasher: filters.hasher().clone() })
    }

    /// Returns the end of the map: its numbers and the files that it covers.
    #[must_use]
    pub fn index(&self) -> &MapIndex {
        &self.index
    }

    /// Looks up keys, unless that needs more than `max_pages` pages.
    pub(crate) async fn look_up(&self, keys: impl Iterator<Item = Vec<u8>>, max_pages: usize) -> Answer {
        let mut pages: HashMap<MapRead, Vec<KeyHash>> = HashMap::new();
        for key in keys {
            let hash = self.hasher.hash(&key);
            pages.entry(self.index.read_for(hash)).or_default().push(hash);
        }
        if pages.len() > max_pages {
            return Answer { candidates: None, reads: 0, failed_reads: 0 };
        }
        // Collected first: a borrowed iterator in a stream is more than the compiler can prove to be `Send`.
        let lookups: Vec<_> = pages.into_iter().map(|(page, hashes)| self.in_page(page, hashes)).collect();
        let answers: Vec<Answer> = futures::stream::iter(lookups).buffer_unordered(CONCURRENT_READS).collect().await;
        answers.into_iter().fold(Answer::default(), Answer::and)
    }

    async fn in_page(&self, page: MapRead, hashes: Vec<KeyHash>) -> Answer {
        let mut answer = Answer::default();
        let Some(part) = self.read(&page, &mut answer).await else { return answer };
        for hash in hashes {
            let mut found = self.index.probe(&part, hash);
            let mut next;
            for _ in 0..MAX_MORE_READS {
                let PartAnswer::Read(read) = &found else { break };
                let Some(part) = self.read(read, &mut answer).await else { return answer };
                next = part;
                found = self.index.probe(&next, hash);
            }
            match found {
                PartAnswer::Candidates(Candidates::Only(ids)) => answer.add(ids),
                PartAnswer::Candidates(Candidates::All) | PartAnswer::Read(_) => answer.candidates = None,
            }
        }
        answer
    }

    /// Reads and checks a part of the map. If that fails, every covered file is a candidate.
    async fn read(&self, read: &MapRead, answer: &mut Answer) -> Option<MapPart<Bytes>> {
        answer.reads += 1;
        let bytes = self.object.read(read.range()).await;
        let part = bytes.ok().and_then(|bytes| self.index.open(read, bytes).ok());
        if part.is_none() {
            answer.failed_reads += 1;
            answer.candidates = None;
        }
        part
    }
}

/// One version of an object. The end of a map does not tell what is in the pages of another one.
struct Pinned {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

impl Pinned {
    /// Reads a range of this version. Fails if the object is another one now.
    async fn read(&self, range: Range<u64>) -> object_store::Result<Bytes> {
        let ObjectMeta { location, last_modified, e_tag, version, .. } = &self.meta;
        let mut options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        match (e_tag, version) {
            (Some(_), _) => options.if_match.clone_from(e_tag),
            (None, Some(_)) => options.version.clone_from(version),
            (None, None) => options.if_unmodified_since = Some(*last_modified),
        }
        let got = self.store.get_opts(location, options).await?;
        // A store may ignore the condition.
        if got.meta.e_tag != *e_tag || (e_tag.is_none() && got.meta.last_modified != *last_modified) {
            let source = format!("expected the version {:?}, got {:?}", self.meta, got.meta).into();
            return Err(object_store::Error::Precondition { path: location.to_string(), source });
        }
        got.bytes().await
    }
}

/// The answer of a map to the keys of a query.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The covered files that may have one of the keys; `None`: all of them.
    pub(crate) candidates: Option<HashSet<LocalId>>,
    pub(crate) reads: u64,
    /// Reads that failed, or found damage.
    pub(crate) failed_reads: u64,
}

impl Default for Answer {
    /// The answer for no key.
    fn default() -> Self {
        Self { candidates: Some(HashSet::new()), reads: 0, failed_reads: 0 }
    }
}

impl Answer {
    fn add(&mut self, ids: impl Iterator<Item = LocalId>) {
        if let Some(candidates) = &mut self.candidates {
            candidates.extend(ids);
        }
    }

    fn and(mut self, other: Self) -> Self {
        match other.candidates {
            Some(candidates) => self.add(candidates.into_iter()),
            None => self.candidates = None,
        }
        self.reads += other.reads;
        self.failed_reads += other.failed_reads;
        self
    }
}
