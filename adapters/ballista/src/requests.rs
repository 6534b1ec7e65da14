//! Counts requests: local files behind a store that writes down each request.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::error::Result as EngineResult;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use url::Url;

/// A process that is started with this variable ends itself when it is about to write an object whose name has the
/// variable's text in it.
pub const ABORT_AT: &str = "SSTFILTER_ABORT_AT";

/// Returns the environment, with a log of the requests to local files.
pub fn log_requests(log: Option<&FilePath>, runtime: Arc<RuntimeEnv>) -> EngineResult<Arc<RuntimeEnv>> {
    let Some(log) = log else { return Ok(runtime) };
    let file = OpenOptions::new().create(true).append(true).open(log)?;
    let files = Logged { store: LocalFileSystem::new(), log: Mutex::new(file), abort_at: std::env::var(ABORT_AT).ok() };
    let registry = Registry { files: Arc::new(files), others: Arc::clone(&runtime.object_store_registry) };
    RuntimeEnvBuilder::from_runtime_env(&runtime).with_object_store_registry(Arc::new(registry)).build_arc()
}

/// Returns the session, with a log of the requests to local files.
pub fn log_requests_of(log: Option<&FilePath>, session: &SessionContext) -> EngineResult<SessionContext> {
    let runtime = log_requests(log, session.runtime_env())?;
    let state = SessionStateBuilder::new_from_existing(session.state()).with_runtime_env(runtime).build();
    Ok(SessionContext::new_with_state(state))
}

/// Local files with a log, and the stores of another registry. Ballista's own takes no other stores.
#[derive(Debug)]
struct Registry {
    files: Arc<Logged>,
    others: Arc<dyn ObjectStoreRegistry>,
}

impl ObjectStoreRegistry for Registry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.others.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        if url.scheme() == "file" { Ok(Arc::clone(&self.files) as _) } else { self.others.get_store(url) }
    }
}

#[derive(Debug)]
struct Logged {
    store: LocalFileSystem,
    log: Mutex<File>,
    abort_at: Option<String>,
}

impl Logged {
    fn log(&self, kind: &str, bytes: u64, path: &Path) {
        // One write for each line: several processes may append to one file.
        let line = format!("{kind} {bytes} {path}\n");
        // A count that cannot be written down is missed by the checks of the counts.
        let _ = self.log.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }

    fn about_to_write(&self, path: &Path) {
        if self.abort_at.as_ref().is_some_and(|text| path.as_ref().contains(text)) {
            std::process::abort();
        }
    }
}

impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logged({})", self.store)
    }
}

#[async_trait]
impl ObjectStore for Logged {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.about_to_write(path);
        self.log("PUT", payload.content_length() as u64, path);
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.about_to_write(path);
        self.log("PUT", 0, path);
        self.store.put_multipart_opts(path, options).await
    }

    // Without `get_ranges`: the trait's own calls this once for each range that it reads.
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { "HEAD" } else { "GET" };
        let found = self.store.get_opts(path, options).await;
        self.log(kind, found.as_ref().map_or(0, |found| found.range.end - found.range.start), path);
        found
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.log("LIST", 0, prefix.unwrap_or(&Path::default()));
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.log("LIST", 0, prefix.unwrap_or(&Path::default()));
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
