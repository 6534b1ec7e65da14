//! An object store in memory that fails on demand.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use sstfilter_map_store::{Manifest, Retired};

/// The fate of a GET of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An error.
    Fail,
    /// The object is not there.
    Missing,
    /// The last byte is missing.
    Truncate,
    /// A bit is wrong.
    Flip,
    /// The answer comes late.
    Delay,
}

/// The fate of requests for a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManifestFault {
    /// GETs fail.
    Unreadable,
    /// Another writer is always faster.
    Contended,
    /// PUTs fail, and are stored or not.
    Unknown { is_stored: bool },
}

/// Faults that are possible, each with a share of the requests in percent.
pub(crate) type Faults = Vec<(Fault, u64)>;

#[derive(Debug, Default)]
pub(crate) struct Faulty {
    pub(crate) inner: InMemory,
    faults: Mutex<Faults>,
    requests: AtomicU64,
    pub(crate) manifest_fault: Mutex<Option<ManifestFault>>,
    /// The next PUT of a manifest is stored, and the answer is that another one was stored before: as if the client had
    /// repeated a request whose answer was lost.
    pub(crate) denies_next: AtomicBool,
    /// Before that answer, another process merges all maps, and keeps no file.
    pub(crate) retires_then: AtomicBool,
    /// Operations until the process is killed; none of the later ones arrives.
    left: AtomicI64,
}

impl Faulty {
    pub(crate) fn new() -> Self {
        Self { left: AtomicI64::new(i64::MAX), ..Self::default() }
    }

    pub(crate) fn set(&self, faults: &[(Fault, u64)]) {
        *self.faults.lock().unwrap() = faults.to_vec();
    }

    /// Lets `operations` more of them arrive.
    pub(crate) fn kill_after(&self, operations: i64) {
        self.left.store(operations, Ordering::SeqCst);
    }

    /// GETs so far.
    pub(crate) fn gets(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn arrive(&self) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(broken("killed")) }
    }

    fn manifest_fault(&self, location: &Path) -> Option<ManifestFault> {
        if location.filename() == Some("manifest") { *self.manifest_fault.lock().unwrap() } else { None }
    }

    fn fault(&self, location: &Path) -> Option<Fault> {
        let request = self.requests.fetch_add(1, Ordering::SeqCst);
        if location.filename() == Some("manifest") {
            return None;
        }
        let mut percent = crate::support::mix(request) % 100;
        let faults = self.faults.lock().unwrap();
        faults
            .iter()
            .find(|(_, share)| {
                percent < *share || {
                    percent -= share;
                    false
                }
            })
            .map(|(fault, _)| *fault)
    }
}

fn broken(what: &'static str) -> Error {
    Error::Generic { store: "faulty", source: what.into() }
}

fn refused(location: &Path) -> Error {
    Error::Precondition { path: location.to_string(), source: "another one was stored".into() }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.arrive()?;
        // Other tasks run between a load of the manifest and its replacement.
        tokio::task::yield_now().await;
        match self.manifest_fault(location) {
            Some(ManifestFault::Contended) => return Err(refused(location)),
            Some(ManifestFault::Unknown { is_stored: false }) => return Err(broken("failed")),
            _ => {}
        }
        let put = self.inner.put_opts(location, payload, options).await?;
        if let Some(ManifestFault::Unknown { .. }) = self.manifest_fault(location) {
            return Err(broken("failed"));
        }
        if location.filename() == Some("manifest") && self.denies_next.swap(false, Ordering::SeqCst) {
            if self.retires_then.load(Ordering::SeqCst) {
                let mut manifest = Manifest::decode(&self.inner.get(location).await?.bytes().await?).unwrap();
                let gone =
                    manifest.maps.drain(..).map(|map| serde_json::json!({"object": map.object, "since": 1_u64 << 40}));
                manifest.retired.extend(gone.map(|gone| serde_json::from_value::<Retired>(gone).unwrap()));
                self.inner.put(location, manifest.encode().unwrap().into()).await?;
            }
            return Err(refused(location));
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.arrive()?;
        let upload = self.inner.put_multipart_opts(location, options).await?;
        // The last step is what counts: whether it is stored.
        Ok(if self.left.load(Ordering::SeqCst) > 0 { upload } else { Box::new(Unfinished) })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.arrive()?;
        if self.manifest_fault(location) == Some(ManifestFault::Unreadable) {
            return Err(broken("failed"));
        }
        // Other lookups start before the answer.
        tokio::task::yield_now().await;
        let fault = self.fault(location);
        match fault {
            Some(Fault::Fail) => return Err(broken("failed")),
            Some(Fault::Missing) => {
                return Err(Error::NotFound { path: location.to_string(), source: "missing".into() });
            }
            Some(Fault::Delay) => tokio::time::sleep(Duration::from_millis(2)).await,
            _ => {}
        }
        let got = self.inner.get_opts(location, options).await?;
        let GetResult { meta, range, attributes, .. } = &got;
        let (meta, range, attributes) = (meta.clone(), range.clone(), attributes.clone());
        let mut bytes = got.bytes().await?.to_vec();
        match fault {
            Some(Fault::Truncate) => drop(bytes.pop()),
            Some(Fault::Flip) if !bytes.is_empty() => {
                let bit = crate::support::mix(self.gets()) as usize % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            _ => {}
        }
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes.into())]).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.arrive() {
            Ok(()) => self.inner.delete_stream(locations),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.arrive() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// An upload whose process is killed.
#[derive(Debug)]
struct Unfinished;

#[async_trait]
impl MultipartUpload for Unfinished {
    fn put_part(&mut self, _: PutPayload) -> UploadPart {
        Box::pin(async { Err(broken("killed")) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        Err(broken("killed"))
    }

    async fn abort(&mut self) -> Result<()> {
        Err(broken("killed"))
    }
}
