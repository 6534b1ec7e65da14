//! The processes of a cluster, which end with the one that started them.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, WorkerResolver};
use sstfilter_datafusion::{MAPPED_PARQUET, MappedListingFactory, map_part};
use url::Url;

use super::Failure;
use crate::requests::log_requests_of;

/// A request that a log has.
#[derive(Clone, Debug)]
pub struct Request {
    pub bytes: u64,
    pub path: String,
}

/// Reads the whole lines of a log from an offset, which moves behind them.
fn read_log(log: &Path, offset: &mut usize) -> std::io::Result<Vec<Request>> {
    let text = match std::fs::read_to_string(log) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let new = &text[*offset..];
    let new = &new[..new.rfind('\n').map_or(0, |end| end + 1)];
    *offset += new.len();
    Ok(new.lines().filter_map(request).collect())
}

fn request(line: &str) -> Option<Request> {
    let [_, bytes, path] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
    Some(Request { bytes: bytes.parse().ok()?, path: path.to_owned() })
}

/// How long processes may take to start.
const START: Duration = Duration::from_mins(1);

/// A process, and the log of its requests.
pub struct Process {
    child: Child,
    /// Apart from the child, which would close it before it waits.
    _input: Option<ChildStdin>,
    log: Log,
}

/// A log of requests, of which some have been read.
pub struct Log {
    file: PathBuf,
    offset: usize,
}

impl Log {
    pub fn new(file: PathBuf) -> Self {
        Self { file, offset: 0 }
    }

    /// Returns the requests since the last call.
    pub fn requests(&mut self) -> Result<Vec<Request>, Failure> {
        Ok(read_log(&self.file, &mut self.offset)?)
    }
}

impl Process {
    /// Starts the package's program in a role, or this one as a worker.
    pub fn start(folder: &Path, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self, Failure> {
        let log = folder.join(format!("{name}.log"));
        let own = (arguments.first() == Some(&"worker")).then(std::env::current_exe).transpose()?;
        let mut command = Command::new(own.unwrap_or_else(|| env!("CARGO_BIN_EXE_sstfilter-ballista").into()));
        command.args(arguments).arg("--log-requests").arg(&log).envs(environment.iter().copied());
        // The process ends when its input does: when this one ends, however that comes.
        command.arg("--until-input-ends").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(File::create(folder.join(format!("{name}.err")))?);
        let mut child = command.spawn()?;
        Ok(Self { _input: child.stdin.take(), child, log: Log::new(log) })
    }

    /// Kills the process, by SIGKILL where there is one.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub fn wait(&mut self) -> Result<bool, Failure> {
        Ok(self.child.wait()?.success())
    }

    /// Returns the most memory that the process has had, in bytes, where `/proc` says it.
    pub fn peak_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An engine: the process that plans, and those that read files.
pub struct Cluster {
    pub name: &'static str,
    pub session: SessionContext,
    /// The log of the process that plans.
    planner: Log,
    pub workers: Vec<Process>,
    /// Of Ballista.
    scheduler: Option<Process>,
    /// Where a client finds Ballista's scheduler.
    pub url: String,
    folder: PathBuf,
}

/// The requests of the processes of a cluster since the last call.
pub struct Asked {
    pub planner: Vec<Request>,
    pub workers: Vec<Vec<Request>>,
}

impl Cluster {
    /// Starts Ballista's scheduler and two executors.
    pub async fn ballista(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let port = free_port()?.to_string();
        let arguments = ["scheduler", "--bind-host", "127.0.0.1", "--bind-port", &port];
        let timeouts = ["--executor-timeout-seconds", "6", "--expire-dead-executor-interval-seconds", "1"];
        let scheduler = Process::start(folder, "scheduler", &[&arguments[..], &timeouts].concat(), &[])?;
        let url = format!("df://127.0.0.1:{port}");
        let session = sstfilter_ballista::session(&url).await?;
        let planner = Log::new(folder.join("scheduler.log"));
        let folder = folder.to_owned();
        let mut cluster =
            Self { name: "Ballista", session, planner, workers: Vec::new(), scheduler: Some(scheduler), url, folder };
        wait_for_port(&port).await?;
        for _ in 0..2 {
            cluster.start_executor().await?;
        }
        Ok(cluster)
    }

    /// Starts one more executor.
    pub async fn start_executor(&mut self) -> Result<(), Failure> {
        let name = format!("executor-{}", self.workers.len());
        let scheduler = self.url.rsplit(':').next().unwrap_or_default();
        let ports = [free_port()?, free_port()?, free_port()?].map(|port| port.to_string());
        let work = self.folder.join(format!("{name}.work"));
        std::fs::create_dir_all(&work)?;
        let work = work.to_string_lossy();
        let arguments = [
            ["executor", "--bind-host=127.0.0.1", "--external-host=127.0.0.1", "--scheduler-host=127.0.0.1"],
            ["--scheduler-port", scheduler, "--vcores", "1"],
            ["--bind-port", &ports[0], "--bind-grpc-port", &ports[1]],
            ["--bind-health-port", &ports[2], "--work-dir", &work],
        ];
        let beats = ["--executor-heartbeat-interval-seconds", "1", "--scheduler-connect-timeout-seconds", "60"];
        let executor = Process::start(&self.folder, &name, &[&arguments.concat()[..], &beats].concat(), &[])?;
        self.workers.push(executor);
        wait_for_port(&ports[0]).await?;
        // It has registered before. A job that comes earlier may be lost.
        self.session.sql("SELECT 1").await?.collect().await?;
        Ok(())
    }

    /// Starts two workers of `datafusion-distributed`. This process plans.
    pub async fn datafusion_distributed(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let (mut workers, mut urls) = (Vec::new(), Vec::new());
        for number in 0..2 {
            let port = free_port()?.to_string();
            workers.push(Process::start(folder, &format!("worker-{number}"), &["worker", "--port", &port], &[])?);
            wait_for_port(&port).await?;
            urls.push(Url::parse(&format!("http://127.0.0.1:{port}"))?);
        }
        let mut state = SessionStateBuilder::new()
            .with_default_features()
            .with_distributed_worker_resolver(Workers(urls))
            .with_distributed_planner()
            .with_distributed_file_scan_config_bytes_per_partition(1)?
            .build();
        state.table_factories_mut().insert(MAPPED_PARQUET.to_owned(), Arc::new(MappedListingFactory));
        let log = folder.join("planner.log");
        let session = log_requests_of(Some(&log), &SessionContext::new_with_state(state))?;
        session.register_udaf(map_part());
        let (name, url, folder) = ("datafusion-distributed", String::new(), folder.to_owned());
        Ok(Self { name, session, planner: Log::new(log), workers, scheduler: None, url, folder })
    }

    pub fn asked(&mut self) -> Result<Asked, Failure> {
        let planner = self.planner.requests()?;
        let workers = self.workers.iter_mut().map(|worker| worker.log.requests()).collect::<Result<_, _>>()?;
        Ok(Asked { planner, workers })
    }

    /// Returns the most memory that a process which reads files has had.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.workers.iter().filter_map(Process::peak_bytes).max()
    }

    /// Whether the scheduler still runs.
    pub fn has_scheduler(&mut self) -> bool {
        self.scheduler.as_mut().is_some_and(|process| matches!(process.child.try_wait(), Ok(None)))
    }
}

struct Workers(Vec<Url>);

#[async_trait]
impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.0.clone())
    }
}

/// Returns a port that was free just now.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

async fn wait_for_port(port: &str) -> Result<(), Failure> {
    let start = Instant::now();
    while let Err(error) = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await {
        if start.elapsed() > START {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
