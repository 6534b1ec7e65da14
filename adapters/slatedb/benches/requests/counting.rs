//! An object store in memory that counts reads from SSTs.

use core::fmt;
use core::ops::{AddAssign, Range};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use slatedb::VersionedManifest;
use slatedb::bytes::Bytes;
use slatedb::manifest::{SortedRun, SsTableInfo, SsTableView};
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// GET requests of one section of SSTs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) gets: u64,
    pub(crate) bytes: u64,
}

/// GET requests for SSTs, by section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) filter: Section,
    pub(crate) index: Section,
    pub(crate) data: Section,
    /// Sections that no lookup needs.
    pub(crate) other: Section,
}

impl Requests {
    pub(crate) fn all(&self) -> Section {
        let mut all = self.filter;
        [self.index, self.data, self.other].into_iter().for_each(|section| all += section);
        all
    }
}

impl AddAssign for Section {
    fn add_assign(&mut self, more: Self) {
        self.gets += more.gets;
        self.bytes += more.bytes;
    }
}

/// The offsets of an SST's sections.
struct Layout {
    filter: Range<u64>,
    index: Range<u64>,
    data: Range<u64>,
}

impl From<&SsTableInfo> for Layout {
    fn from(info: &SsTableInfo) -> Self {
        let section = |offset, length| offset..offset + length;
        let starts = [(info.filter_offset, info.filter_len), (info.index_offset, info.index_len)];
        let data_end = starts.iter().filter(|(_, length)| *length > 0).map(|(offset, _)| *offset).min().unwrap_or(0);
        Self {
            filter: section(info.filter_offset, info.filter_len),
            index: section(info.index_offset, info.index_len),
            data: 0..data_end,
        }
    }
}

/// A store in memory. A request counts when it is issued, whether or not the engine waits for it.
///
/// Requests for other files, such as manifests, are counted separately, because an open store reads them in the
/// background at any time.
#[derive(Debug, Default)]
pub(crate) struct CountingStore {
    inner: InMemory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The layouts by file name.
    layouts: HashMap<String, Layout>,
    requests: Requests,
    /// Requests for files other than SSTs.
    elsewhere: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut state = f.debug_struct("State");
        state.field("requests", &self.requests).field("elsewhere", &self.elsewhere).finish_non_exhaustive()
    }
}

/// Every SST of a store, in the order in which a lookup reads them.
pub(crate) fn ssts(manifest: &VersionedManifest) -> impl Iterator<Item = &SsTableView> {
    manifest.l0().iter().chain(manifest.compacted().iter().flat_map(SortedRun::sst_views))
}

impl CountingStore {
    /// Learns the offsets of the SSTs' sections.
    pub(crate) fn learn(&self, manifest: &VersionedManifest) {
        let layout = |view: &SsTableView| (format!("{}.sst", view.sst.id.value()), Layout::from(&view.sst.info));
        self.state().layouts.extend(ssts(manifest).map(layout));
    }

    /// Returns the reads since the last call.
    pub(crate) fn take(&self) -> Requests {
        core::mem::take(&mut self.state().requests)
    }

    /// GET requests for SSTs since the last [`take`](Self::take).
    pub(crate) fn gets(&self) -> u64 {
        self.state().requests.all().gets
    }

    /// Returns the GET requests so far for files other than SSTs.
    pub(crate) fn gets_elsewhere(&self) -> u64 {
        self.state().elsewhere
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, location: &Path, range: Option<&GetRange>) {
        let mut state = self.state();
        let (start, bytes) = match range {
            Some(GetRange::Bounded(range)) => (range.start, range.end - range.start),
            _ => (u64::MAX, 0),
        };
        let State { layouts, requests, elsewhere } = &mut *state;
        let Some(layout) = location.filename().and_then(|name| layouts.get(name)) else {
            *elsewhere += 1;
            return;
        };
        let section = match layout {
            layout if layout.filter.contains(&start) => &mut requests.filter,
            layout if layout.index.contains(&start) => &mut requests.index,
            layout if layout.data.contains(&start) => &mut requests.data,
            _ => &mut requests.other,
        };
        *section += Section { gets: 1, bytes };
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counted memory")
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.count(location, options.range.as_ref());
        self.inner.get_opts(location, options).await
    }

    /// Counts as one request, as in the engine, of the first range's section.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(first) = ranges.first() {
            let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            self.count(location, Some(&GetRange::Bounded(first.start..first.start + bytes)));
        }
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
