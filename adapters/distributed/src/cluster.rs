//! A server in a temporary folder, and the processes that run against it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tempfile::TempDir;

use crate::Result;
use crate::process::Process;
use crate::protocol::{Answer, Cache, Compacts, Filters, Follow, Request, RoleConfig, Sst};
use crate::server::{LoggedRequest, ServerConfig};

/// The maximum wait for another process's work, such as a compaction.
const PATIENCE: Duration = Duration::from_mins(2);

/// The interval between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A server and its log. Dropping it ends the server and removes the folder.
#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    endpoint: String,
    started: usize,
    log: RequestLog,
    // Dropped in this order: the server before its folder.
    _server: Process,
    folder: TempDir,
}

impl Cluster {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub async fn start(program: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix("sstfilter-distributed-")?;
        let config = ServerConfig { folder: folder.path().to_owned() };
        let mut server = Process::start(program, "server", "server", &config)?;
        let Answer::Listening(port) = server.answer().await? else {
            return Err("the server does not say its port".into());
        };
        Ok(Self {
            program: program.to_owned(),
            endpoint: format!("http://127.0.0.1:{port}"),
            started: 0,
            log: RequestLog { file: File::open(config.log())?, unfinished: Vec::new(), requests: Vec::new() },
            _server: server,
            folder,
        })
    }

    /// Returns the name of a new process: its role and a number that is unique in this cluster.
    pub fn name(&mut self, role: &str) -> String {
        // Never reused, even for a process that replaces a killed one: the log identifies processes by name.
        self.started += 1;
        format!("{role}-{}", self.started)
    }

    /// Returns the server's address, as a URL.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the folder of the server's objects.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        ServerConfig { folder: self.folder.path().to_owned() }.objects()
    }

    /// Returns the configuration of a new process.
    pub fn config(&mut self, role: &str, store: &str, filters: Filters) -> RoleConfig {
        RoleConfig {
            name: self.name(role),
            endpoint: self.endpoint.clone(),
            store: store.to_owned(),
            filters,
            cache: Cache::Everything,
            follow: Follow::Writer,
            compacts: Compacts::Itself,
        }
    }

    /// Starts a process, and waits until its store is open.
    ///
    /// # Errors
    ///
    /// If it does not open.
    pub async fn spawn(&self, role: &str, config: &RoleConfig) -> Result<Process> {
        self.start_process(role, &config.name, config).await
    }

    /// Starts a process with any configuration, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub async fn start_process(&self, role: &str, name: &str, config: &impl Serialize) -> Result<Process> {
        Process::start(&self.program, role, name, config)?.ready().await
    }

    /// Returns the SSTs of a store's latest manifest.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub async fn ssts(&mut self, store: &str) -> Result<Vec<Sst>> {
        self.inspector(store).await?.ssts().await
    }

    /// Returns the number of SSTs without a usable filter of ours, by the adapter's audit.
    ///
    /// # Errors
    ///
    /// If the store cannot be opened.
    pub async fn audit(&mut self, store: &str) -> Result<usize> {
        match self.inspector(store).await?.ask(&Request::Audit).await? {
            Answer::Count(count) => Ok(count),
            other => Err(format!("no audit: {other:?}").into()),
        }
    }

    /// Makes a checkpoint of a store's latest manifest.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub async fn checkpoint(&mut self, store: &str) -> Result<Follow> {
        match self.inspector(store).await?.ask(&Request::Checkpoint).await? {
            Answer::Checkpoint(id) => Ok(Follow::Checkpoint(id)),
            other => Err(format!("no checkpoint: {other:?}").into()),
        }
    }

    /// Waits until few SSTs are left in level 0 and no compaction is active.
    ///
    /// # Errors
    ///
    /// If that does not happen.
    pub async fn wait_for_compaction(&mut self, store: &str, level_0_at_most: usize) -> Result<()> {
        let mut inspector = self.inspector(store).await?;
        let started = Instant::now();
        loop {
            let ssts = inspector.ssts().await?;
            let level_0 = ssts.iter().filter(|sst| sst.sorted_run.is_none()).count();
            let active = inspector.ask(&Request::ActiveCompactions).await?;
            if level_0 <= level_0_at_most && matches!(active, Answer::Count(0)) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{level_0} SSTs are left in level 0, active compactions: {active:?}").into());
            }
            // Ten listings a second would be most of the log.
            tokio::time::sleep(LOOK_AGAIN * 100).await;
        }
    }

    /// Returns every request whose response has ended.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn requests(&mut self) -> Result<&[LoggedRequest]> {
        self.log.read()?;
        Ok(&self.log.requests)
    }

    /// Waits until the server has answered a request.
    ///
    /// # Errors
    ///
    /// If it does not arrive.
    pub async fn wait_for_request(&mut self, what: &str, is_it: impl Fn(&LoggedRequest) -> bool) -> Result<()> {
        let started = Instant::now();
        let mut seen = 0;
        loop {
            let requests = self.requests()?;
            if requests[seen..].iter().any(&is_it) {
                return Ok(());
            }
            // Each line is tested once: the log grows while this waits.
            seen = requests.len();
            if started.elapsed() > PATIENCE {
                return Err(format!("{what}: no such request in {} s", PATIENCE.as_secs()).into());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn inspector(&mut self, store: &str) -> Result<Process> {
        let config = self.config("inspector", store, Filters::None);
        self.spawn("inspector", &config).await
    }
}

/// The server's log, read as it grows.
#[derive(Debug)]
struct RequestLog {
    file: File,
    unfinished: Vec<u8>,
    requests: Vec<LoggedRequest>,
}

impl RequestLog {
    fn read(&mut self) -> Result<()> {
        self.file.read_to_end(&mut self.unfinished)?;
        let Some(last_newline) = self.unfinished.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(());
        };
        let after = self.unfinished.split_off(last_newline + 1);
        let lines = std::mem::replace(&mut self.unfinished, after);
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.requests.push(serde_json::from_slice(line)?);
        }
        Ok(())
    }
}
