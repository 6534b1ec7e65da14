//! A child process that takes requests on stdin and answers on stdout. Dropping it kills it.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::protocol::{Answer, Counters, Request, Sst};
use crate::{Error, Result};

/// The silence after which a process counts as failed. The longest answer takes a few seconds on a busy machine.
const SILENCE: Duration = Duration::from_mins(2);

/// The number of stderr lines that errors quote.
const QUOTED_LINES: usize = 20;

/// A running child.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts `program ROLE CONFIG`.
    ///
    /// # Errors
    ///
    /// If the program cannot be started.
    pub fn start(program: &Path, role: &str, name: &str, config: &impl Serialize) -> Result<Self> {
        let mut child = Command::new(program)
            .args([role, &serde_json::to_string(config)?])
            // The server is on this machine: no proxy leads to it.
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A test that fails must not leave processes behind.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let no_pipe = "a process without pipes";
        let stderr = Arc::default();
        // Read all the time: a full pipe would block the child.
        tokio::spawn(keep_tail(child.stderr.take().ok_or(no_pipe)?, Arc::clone(&stderr)));
        Ok(Self {
            name: name.to_owned(),
            requests: child.stdin.take().ok_or(no_pipe)?,
            answers: BufReader::new(child.stdout.take().ok_or(no_pipe)?).lines(),
            child,
            stderr,
        })
    }

    /// Sends a request and does not wait for the answer.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub async fn send(&mut self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        match self.requests.write_all(&line).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    /// Returns the next answer.
    ///
    /// # Errors
    ///
    /// If the process ends, is silent, or answers that it failed.
    pub async fn answer(&mut self) -> Result<Answer> {
        let line = match timeout(SILENCE, self.answers.next_line()).await {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => return Err(self.failure("it ended")),
            Ok(Err(error)) => return Err(self.failure(&error.to_string())),
            Err(_) => return Err(self.failure("it is silent")),
        };
        match serde_json::from_str(&line)? {
            // An error here, so that no caller can mistake a failure for an answer.
            Answer::Failed(reason) => Err(self.failure(&reason)),
            answer => Ok(answer),
        }
    }

    /// Sends a request and waits for one answer.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send) and [`answer`](Self::answer).
    pub async fn ask(&mut self, request: &Request) -> Result<Answer> {
        self.send(request).await?;
        self.answer().await
    }

    /// Waits until the store is open.
    ///
    /// # Errors
    ///
    /// If the process gives another answer.
    pub async fn ready(mut self) -> Result<Self> {
        match self.answer().await? {
            Answer::Ready => Ok(self),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends a request and waits for [`Answer::Done`].
    ///
    /// # Errors
    ///
    /// If it is not done.
    pub async fn command(&mut self, request: &Request) -> Result<()> {
        match self.ask(request).await? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Looks keys up, and returns the values in the order of the keys.
    ///
    /// # Errors
    ///
    /// If a lookup fails, or an answer is for another key.
    pub async fn get(&mut self, keys: &[String]) -> Result<Vec<Option<String>>> {
        self.send(&Request::Get(keys.to_vec())).await?;
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.found(key).await?);
        }
        match self.answer().await? {
            Answer::Done => Ok(values),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the answer for one key of an earlier [`Request::Get`].
    ///
    /// # Errors
    ///
    /// If the lookup fails, or the answer is for another key.
    pub async fn found(&mut self, key: &str) -> Result<Option<String>> {
        match self.answer().await? {
            Answer::Found(found, value) if found == key => Ok(value),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the engine's counters.
    ///
    /// # Errors
    ///
    /// If the process has none.
    pub async fn counters(&mut self) -> Result<Counters> {
        self.ask_counters(&Request::Counters).await
    }

    /// Returns the SSTs that an inspector sees.
    ///
    /// # Errors
    ///
    /// If the process is no inspector.
    pub async fn ssts(&mut self) -> Result<Vec<Sst>> {
        match self.ask(&Request::Ssts).await? {
            Answer::Ssts(ssts) => Ok(ssts),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Closes the store in order, waits for the end of the process, and returns the final counters.
    ///
    /// # Errors
    ///
    /// If the store cannot be closed.
    pub async fn close(mut self) -> Result<Counters> {
        let counters = self.ask_counters(&Request::Close).await?;
        match timeout(SILENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(counters),
            ended => Err(self.failure(&format!("it did not end in order: {ended:?}"))),
        }
    }

    async fn ask_counters(&mut self, request: &Request) -> Result<Counters> {
        match self.ask(request).await? {
            Answer::Counters(counters) => Ok(counters),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends the process with SIGKILL: nothing is flushed, closed or released.
    ///
    /// # Errors
    ///
    /// If it had ended by itself.
    pub async fn kill(mut self) -> Result<()> {
        // A process that ended by itself was not killed in the middle of its work.
        if let Some(status) = self.child.try_wait()? {
            return Err(self.failure(&format!("it had ended before it was killed: {status}")));
        }
        Ok(self.child.kill().await?)
    }

    fn unexpected(&self, answer: &Answer) -> Error {
        self.failure(&format!("unexpected answer {answer:?}"))
    }

    fn failure(&self, what: &str) -> Error {
        let stderr =
            self.stderr.lock().map(|lines| lines.iter().fold(String::new(), |all, line| all + "\n    " + line));
        format!("{}: {what}; the end of its stderr:{}", self.name, stderr.unwrap_or_default()).into()
    }
}

async fn keep_tail(stderr: ChildStderr, tail: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(mut tail) = tail.lock() else { return };
        tail.push_back(line);
        if tail.len() > QUOTED_LINES {
            tail.pop_front();
        }
    }
}
