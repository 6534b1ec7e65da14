//! A file map in an object store: its end is in memory, and each lookup reads the pages that it needs.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use futures::StreamExt;
use sstfilter::{FileId, Filters, KeyHash, KeyHasher};
use sstfilter_map::{LocalId, Lookups, MapAnswer, MapError, MapIndex, MapPart, MapRead};

/// Bytes that are read from a map's end at first. Enough for 4,000 files; more files need a second read.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// Pages that one query reads at a time.
const CONCURRENT_READS: usize = 16;

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
        let hashes: Vec<KeyHash> = keys.map(|key| self.hasher.hash(&key)).collect();
        let (mut lookups, mut answer) = (Lookups::new(&self.index, &hashes), Answer::default());
        let mut reads = lookups.reads();
        if reads.len() > max_pages {
            answer.candidates = None;
            return answer;
        }
        while !reads.is_empty() {
            // Collected first: a borrowed iterator in a stream is more than the compiler can prove to be `Send`.
            let parts: Vec<_> = reads.into_iter().map(|read| self.read(read)).collect();
            let mut parts = futures::stream::iter(parts).buffer_unordered(CONCURRENT_READS);
            while let Some((read, part)) = parts.next().await {
                answer.reads += 1;
                answer.failed_reads += u64::from(part.is_none());
                lookups.answer(&read, part.as_ref(), |_, found| answer.add(found));
            }
            reads = lookups.reads();
        }
        answer
    }

    /// Reads and checks a part of the map; `None` if that fails.
    async fn read(&self, read: MapRead) -> (MapRead, Option<MapPart<Bytes>>) {
        let bytes = self.object.read(read.range()).await;
        (read, bytes.ok().and_then(|bytes| self.index.open(&read, bytes).ok()))
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
    fn add(&mut self, found: MapAnswer<'_>) {
        match (&mut self.candidates, found) {
            (Some(candidates), MapAnswer::Only(ids)) => candidates.extend(ids),
            (all, _) => *all = None,
        }
    }
}
