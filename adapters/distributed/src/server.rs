//! The S3 server: `s3s` speaks the protocol and verifies signatures, `s3s-fs` keeps objects in a folder.
//!
//! This module adds two features. `AtomicPuts` makes conditional puts atomic: `s3s-fs` checks whether an object exists,
//! or compares its tag, and writes it later, so two writers that create or replace one manifest at once could both
//! succeed. And a log records every request as one line of JSON.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderName, RANGE, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListObjectsV2Input,
    ListObjectsV2Output, PutObjectInput, PutObjectOutput, StreamingBlob, UploadPartInput, UploadPartOutput,
};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result};
use s3s_fs::FileSystem;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::Result;
use crate::protocol::{Answer, say, wait_for_end_of_input};

/// The bucket that holds everything.
pub const BUCKET: &str = "demonstration";

/// The access key and the secret of every client. The server is reachable only from this machine, for seconds.
pub const CREDENTIALS: (&str, &str) = ("loopback", "loopback-secret");

/// The location of the server's objects and log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The folder, which the server removes on an orderly end.
    pub folder: PathBuf,
}

impl ServerConfig {
    /// Returns the folder with the bucket's objects: a file for each.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.folder.join("objects").join(BUCKET)
    }

    /// Returns the log file, which has one [`LoggedRequest`] per line.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("requests.jsonl")
    }
}

/// One request, as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// The order in which requests arrived. Lines are in the order in which responses ended.
    pub number: u64,
    /// The client's `User-Agent`: the name of a process.
    pub client: String,
    /// The method of HTTP.
    pub method: String,
    /// The object's key, empty for a listing.
    pub key: String,
    /// The query, of listings and multipart uploads.
    pub query: Option<String>,
    /// The header `Range`.
    pub range: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// Bytes of the response's body that were passed to the connection.
    pub bytes_sent: u64,
    /// Whether that is the whole body. A client that abandons a request leaves its response unfinished.
    pub complete: bool,
}

/// Runs the server on a free port, announces the port, and ends when its input ends.
///
/// # Errors
///
/// If the folder or the log cannot be created, or no port is free.
pub async fn run(config: ServerConfig) -> Result<()> {
    let objects = config.folder.join("objects");
    std::fs::create_dir_all(config.objects())?;
    let files = FileSystem::new(&objects).map_err(|error| format!("{}: {error:?}", objects.display()))?;
    let mut service = S3ServiceBuilder::new(AtomicPuts::new(files));
    service.set_auth(SimpleAuth::from_single(CREDENTIALS.0, CREDENTIALS.1));
    let service = service.build();
    let log = Arc::new(Log::create(&config)?);

    // Port 0: the system chooses a free one.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    say(&Answer::Listening(listener.local_addr()?.port()))?;
    tokio::select! {
        result = accept(listener, service, log) => result,
        // The process that started the server is gone, perhaps killed, and cannot clean up.
        () = wait_for_end_of_input() => remove(&config.folder).await,
    }
}

/// Removes a folder into which requests that are under way still write.
async fn remove(folder: &Path) -> Result<()> {
    for _ in 0..50 {
        if std::fs::remove_dir_all(folder).is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

async fn accept(listener: TcpListener, service: S3Service, log: Arc<Log>) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        // Requests and responses are small: waiting to fill a packet would cost 40 ms each.
        socket.set_nodelay(true)?;
        let (service, log) = (service.clone(), Arc::clone(&log));
        let logged = service_fn(move |request| respond(service.clone(), Arc::clone(&log), request));
        tokio::spawn(async move {
            // Ignored: a killed client breaks its connection, and the log marks its unfinished responses.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), logged).await;
        });
    }
}

async fn respond(
    service: S3Service,
    log: Arc<Log>,
    request: Request<Incoming>,
) -> std::result::Result<Response<LoggedBody>, s3s::HttpError> {
    let is_head = request.method() == Method::HEAD;
    // Before the call, so that numbers are in the order in which requests arrived.
    let line = log.line(&request);
    let response = service.call(request.map(s3s::Body::from)).await?;
    Ok(log.watch(line, is_head, response))
}

/// The request log.
#[derive(Debug)]
struct Log {
    file: Mutex<File>,
    arrived: AtomicU64,
}

impl Log {
    fn create(config: &ServerConfig) -> Result<Self> {
        Ok(Self { file: Mutex::new(File::create(config.log())?), arrived: AtomicU64::new(0) })
    }

    fn line(&self, request: &Request<Incoming>) -> LoggedRequest {
        let header = |name: HeaderName| {
            let value = request.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let path = request.uri().path().trim_start_matches('/');
        LoggedRequest {
            number: self.arrived.fetch_add(1, Ordering::Relaxed),
            client: header(USER_AGENT).unwrap_or_default(),
            method: request.method().to_string(),
            key: path.strip_prefix(BUCKET).unwrap_or(path).trim_start_matches('/').to_owned(),
            query: request.uri().query().map(str::to_owned),
            range: header(RANGE),
            status: 0,
            bytes_sent: 0,
            complete: false,
        }
    }

    fn watch(
        self: Arc<Self>,
        mut line: LoggedRequest,
        is_head: bool,
        response: s3s::HttpResponse,
    ) -> Response<LoggedBody> {
        line.status = response.status().as_u16();
        let length = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        // A response to HEAD has the length of a body that it does not send.
        let expected = if is_head { Some(0) } else { length };
        response.map(|inner| {
            let expected = expected.or_else(|| http_body::Body::size_hint(&inner).exact());
            let mut body = LoggedBody { inner, expected, line: Some(line), log: self };
            // An empty body may never be polled.
            body.write_if_complete();
            body
        })
    }

    fn write(&self, line: &LoggedRequest) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        // One unbuffered write per line, so that a client that has read a response finds its line in the file. A failed
        // write is ignored: the comparison of counts would expose a lost line.
        if let Ok(mut file) = self.file.lock() {
            let _ = file.write_all(&text);
        }
    }
}

/// A response's body. The log line is written before the last bytes go to the connection, or when the body is dropped.
struct LoggedBody {
    inner: s3s::Body,
    expected: Option<u64>,
    line: Option<LoggedRequest>,
    log: Arc<Log>,
}

impl LoggedBody {
    fn write_if_complete(&mut self) {
        if let Some(line) = self.line.take_if(|line| self.expected == Some(line.bytes_sent)) {
            self.log.write(&LoggedRequest { complete: true, ..line });
        }
    }
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<http_body::Frame<Bytes>, s3s::StdError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                let sent = frame.data_ref().map_or(0, |data| data.len() as u64);
                if let Some(line) = &mut self.line {
                    line.bytes_sent += sent;
                }
            }
            // The end of a body of unknown length.
            None if self.expected.is_none() => self.expected = self.line.as_ref().map(|line| line.bytes_sent),
            None | Some(Err(_)) => {}
        }
        self.write_if_complete();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::Body::size_hint(&self.inner)
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            self.log.write(&line);
        }
    }
}

/// `s3s-fs` with atomic puts, and only the operations that are used here.
#[derive(Debug)]
struct AtomicPuts {
    files: FileSystem,
    /// A put holds it from the check of the condition to the end of the write. `s3s-fs` writes the object first and its
    /// tag afterwards. So a read holds it, too, until it has both: with old bytes and the new tag, a client would
    /// replace what it has not seen. A lock per key would be faster, but nothing here is timed.
    lock: tokio::sync::RwLock<()>,
}

impl AtomicPuts {
    fn new(files: FileSystem) -> Self {
        Self { files, lock: tokio::sync::RwLock::new(()) }
    }
}

/// Forwards operations to `s3s-fs` unchanged: those that read objects, that change them, and that do neither.
macro_rules! forwarded {
    (
        read { $($read:ident: $read_input:ty => $read_output:ty;)* }
        write { $($write:ident: $write_input:ty => $write_output:ty;)* }
        prepare { $($prepare:ident: $prepare_input:ty => $prepare_output:ty;)* }
    ) => {
        #[async_trait]
        impl S3 for AtomicPuts {
            async fn put_object(&self, mut request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
                // Reads the whole body before locking, so that a client that stops in the middle holds no lock.
                if let Some(body) = request.input.body.take() {
                    request.input.body = Some(in_memory(body).await?);
                }
                let _lock = self.lock.write().await;
                self.files.put_object(request).await
            }

            $(async fn $read(&self, request: S3Request<$read_input>) -> S3Result<S3Response<$read_output>> {
                let _lock = self.lock.read().await;
                self.files.$read(request).await
            })*

            $(async fn $write(&self, request: S3Request<$write_input>) -> S3Result<S3Response<$write_output>> {
                let _lock = self.lock.write().await;
                self.files.$write(request).await
            })*

            $(async fn $prepare(&self, request: S3Request<$prepare_input>) -> S3Result<S3Response<$prepare_output>> {
                self.files.$prepare(request).await
            })*
        }
    };
}

forwarded! {
    read {
        get_object: GetObjectInput => GetObjectOutput;
        head_object: HeadObjectInput => HeadObjectOutput;
        list_objects_v2: ListObjectsV2Input => ListObjectsV2Output;
    }
    write {
        delete_object: DeleteObjectInput => DeleteObjectOutput;
        delete_objects: DeleteObjectsInput => DeleteObjectsOutput;
        complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput;
    }
    prepare {
        create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput;
        upload_part: UploadPartInput => UploadPartOutput;
        abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput;
    }
}

async fn in_memory(body: StreamingBlob) -> S3Result<StreamingBlob> {
    let parts: Vec<Bytes> = body.try_collect().await.map_err(|_| s3s::s3_error!(IncompleteBody))?;
    let stream = futures::stream::iter(parts.into_iter().map(Ok::<_, std::io::Error>));
    Ok(StreamingBlob::wrap(stream))
}
