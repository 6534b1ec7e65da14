//! A store on a local disk, shared by processes. It notes reads, and stops its process at a write: the process is then
//! killed between two steps that are known, and not at a time that depends on the machine.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::object_store::local::LocalFileSystem;
use crate::object_store::path::Path;
use crate::object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UpdateVersion,
};
use crate::process::say;

/// An object that was read, and the range of bytes.
pub(crate) type Read = (Path, Option<Range<u64>>);

#[derive(Debug)]
pub(crate) struct Disk {
    objects: LocalFileSystem,
    /// Locked while an object is replaced on a condition, which the disk itself cannot do. Without it, such a
    /// replacement is an error.
    lock: Option<PathBuf>,
    stop: Mutex<Option<Stop>>,
    reads: Mutex<Vec<Read>>,
}

/// Where the process stops.
#[derive(Debug)]
struct Stop {
    is_before: bool,
    part_of_path: String,
    /// Writes until then.
    left: u32,
}

impl Disk {
    /// Opens a folder that is there.
    pub(crate) fn open(folder: &str, replaces: bool) -> Result<Self> {
        let lock = PathBuf::from(format!("{folder}.lock"));
        Ok(Self {
            objects: LocalFileSystem::new_with_prefix(folder)?,
            lock: replaces.then_some(lock),
            stop: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    /// Stops the process `before` or `after` one of its next writes with a word in the path: `after 2 wal/`. It says
    /// `reached` and the path, and none of its later writes is done.
    pub(crate) fn stop(&self, at: &str) {
        let mut words = at.split(' ');
        let stop = (|| {
            let is_before = words.next()? == "before";
            let left = words.next()?.parse().ok()?;
            Some(Stop { is_before, left, part_of_path: words.next()?.to_owned() })
        })();
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = stop;
    }

    /// Returns the reads since the last call.
    pub(crate) fn take_reads(&self) -> Vec<Read> {
        std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits forever if the process has stopped, or stops here. Returns whether it stops after this write.
    async fn pass(&self, path: &Path) -> bool {
        let (is_over, is_here, is_before) = {
            let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(stop) = stop.as_mut() else { return false };
            let (is_over, is_it) = (stop.left == 0, path.as_ref().contains(&stop.part_of_path));
            stop.left = stop.left.saturating_sub(u32::from(is_it));
            (is_over, is_it && stop.left == 0, stop.is_before)
        };
        if is_over || is_here && is_before {
            if !is_over {
                say(format_args!("reached {path}"));
            }
            std::future::pending::<()>().await;
        }
        is_here
    }

    async fn replace(&self, path: &Path, payload: PutPayload, version: UpdateVersion) -> Result<PutResult> {
        let Some(lock) = &self.lock else {
            let (operation, implementer) = ("replacement on a condition".into(), self.to_string());
            return Err(Error::NotImplemented { operation, implementer });
        };
        let broken = |error: std::io::Error| Error::Generic { store: "disk", source: error.into() };
        // Released when it is closed, or its process is killed.
        let file = File::create(lock).map_err(broken)?;
        file.lock().map_err(broken)?;
        match self.objects.head(path).await {
            Ok(meta) if meta.e_tag == version.e_tag => self.objects.put(path, payload).await,
            Ok(_) | Err(Error::NotFound { .. }) => {
                Err(Error::Precondition { path: path.to_string(), source: "another one was stored".into() })
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shared disk")
    }
}

#[async_trait]
impl ObjectStore for Disk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let stops = self.pass(location).await;
        let put = match options.mode {
            PutMode::Update(version) => self.replace(location, payload, version).await,
            // A disk has no attributes.
            _ => {
                self.objects.put_opts(location, payload, PutOptions { attributes: Attributes::new(), ..options }).await
            }
        };
        if stops {
            say(format_args!("reached {location}"));
            std::future::pending::<()>().await;
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let range = match &options.range {
            Some(GetRange::Bounded(range)) => Some(range.clone()),
            _ => None,
        };
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push((location.clone(), range));
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}
