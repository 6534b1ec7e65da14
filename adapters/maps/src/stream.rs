//! Maps as streams: merges read pages in order and write the result in order, with a few megabytes in memory.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use sstfilter_map::{MapIndex, MapReport};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::error::{Error, Result};

/// Bytes of one request of a merge: 16 pages of the default size, and no less than the largest page.
const WINDOW: u64 = 1 << 20;

/// Windows that are kept for each map: a page is read about twice, and pages and lists are at two places of a map.
const WINDOWS: usize = 6;

/// Bytes of a part of an upload, at least. S3 takes no smaller ones than 5 MiB.
const PART_BYTES: u64 = 8 << 20;

/// S3 takes 10,000 parts of an object.
const MAX_PARTS: u64 = 8_000;

/// A window, or the reason why it could not be read.
type Window = Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<str>>>>;

/// Reads a map from front to end, one window ahead. Its function `read` blocks.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    source: Arc<Source>,
    runtime: Handle,
    /// The last windows that were used, the last one at the end.
    windows: Mutex<VecDeque<(u64, Window)>>,
}

#[derive(Debug)]
struct Source {
    store: Arc<dyn ObjectStore>,
    object: Path,
    index: MapIndex,
    bytes: u64,
}

impl ReadAhead {
    /// Must be called in a runtime.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, object: Path, index: MapIndex) -> Self {
        let source = Arc::new(Source { store, object, bytes: index.map_bytes(), index });
        Self { source, runtime: Handle::current(), windows: Mutex::default() }
    }

    /// Reads a range.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Cow<'static, [u8]>> {
        let mut bytes = Vec::new();
        for number in range.start / WINDOW..range.end.div_ceil(WINDOW) {
            let window = self.window(number);
            let window = self.runtime.block_on(window).map_err(|reason| io::Error::other(reason.as_ref()))?;
            let start = number * WINDOW;
            let own = range.start.max(start) - start..range.end.min(start + WINDOW) - start;
            bytes
                .extend_from_slice(window.get(narrow(own.start)..narrow(own.end)).ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(Cow::Owned(bytes))
    }

    /// Returns a window, and starts to read the one after it.
    fn window(&self, number: u64) -> Window {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if (number + 1) * WINDOW < self.source.bytes {
            drop(self.start(&mut windows, number + 1));
        }
        self.start(&mut windows, number)
    }

    fn start(&self, windows: &mut VecDeque<(u64, Window)>, number: u64) -> Window {
        let known = windows.iter().position(|(known, _)| *known == number).and_then(|at| windows.remove(at));
        let (_, window) = known.unwrap_or_else(|| {
            let reading = self.runtime.spawn(Arc::clone(&self.source).window(number));
            let window = async { reading.await.unwrap_or_else(|error| Err(error.to_string().into())) };
            (number, window.boxed().shared())
        });
        windows.push_back((number, window.clone()));
        if windows.len() > WINDOWS {
            windows.pop_front();
        }
        window
    }
}

impl Source {
    /// Reads a window; twice if a page of it is damaged, because a merge would lose the page's entries.
    async fn window(self: Arc<Self>, number: u64) -> std::result::Result<Bytes, Arc<str>> {
        let range = number * WINDOW..((number + 1) * WINDOW).min(self.bytes);
        let read = || async {
            let got = self.store.get_range(&self.object, range.clone()).await;
            got.map_err(|error| Arc::from(format!("{}: {error}", self.object)))
        };
        let bytes = read().await?;
        if self.is_sound(range.clone(), &bytes) { Ok(bytes) } else { read().await }
    }

    fn is_sound(&self, range: Range<u64>, bytes: &[u8]) -> bool {
        let page_bytes = self.index.page_range(0).end;
        let pages = range.start / page_bytes..(range.end / page_bytes).min(self.index.pages());
        bytes.len() as u64 == range.end - range.start
            && bytes
                .chunks_exact(narrow(page_bytes))
                .zip(pages)
                .all(|(bytes, page)| self.index.open(&self.index.read_page(page), bytes).is_ok())
    }
}

/// Places in a window fit into every `usize`.
fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Uploads what `produce` writes, which runs on a thread that may block. The object appears when all of it is there.
pub(crate) async fn upload(
    store: &Arc<dyn ObjectStore>,
    object: &Path,
    expected_bytes: u64,
    produce: impl FnOnce(&mut Parts) -> io::Result<MapReport> + Send + 'static,
) -> Result<MapReport> {
    let part_bytes = narrow((expected_bytes / MAX_PARTS).max(PART_BYTES));
    let (sender, mut parts) = mpsc::channel(1);
    let producing = tokio::task::spawn_blocking(move || {
        let mut sink = Parts { sender, part_bytes, buffer: Vec::new() };
        let report = produce(&mut sink)?;
        sink.send()?;
        Ok(report)
    });
    let mut writer = BufWriter::with_capacity(Arc::clone(store), object.clone(), part_bytes).with_max_concurrency(2);
    let mut written = Ok(());
    while let Some(part) = parts.recv().await {
        written = writer.put(part).await;
        if written.is_err() {
            break;
        }
    }
    // If a part could not be written, the producer fails at its next one.
    drop(parts);
    let produced = producing.await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    match (written, produced) {
        (Ok(()), Ok(report)) => {
            writer.shutdown().await.map_err(Error::Write)?;
            Ok(report)
        }
        (written, produced) => {
            // Ignored: the store removes unfinished uploads, and the reason is the error before.
            let _ = writer.abort().await;
            written?;
            produced.map_err(Error::Write)
        }
    }
}

/// Collects what is written into parts.
#[derive(Debug)]
pub(crate) struct Parts {
    sender: mpsc::Sender<Bytes>,
    part_bytes: usize,
    buffer: Vec<u8>,
}

impl Parts {
    fn send(&mut self) -> io::Result<()> {
        let part = std::mem::take(&mut self.buffer).into();
        self.sender.blocking_send(part).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.part_bytes {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
