//! The messages between processes: requests on stdin, answers on stdout, one JSON value per line.
//!
//! A process starts with [`Answer::Ready`] (the server with [`Answer::Listening`]), answers each request, and ends when
//! its input ends. No process therefore outlives the one that started it, even if that is killed.

use std::collections::BTreeMap;
use std::io::Write;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{Result, maps};

/// The configuration of an engine process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleConfig {
    /// The name that the server logs.
    pub name: String,
    /// The server's address, as a URL.
    pub endpoint: String,
    /// The store's path in the bucket.
    pub store: String,
    /// The filter policies of this process.
    pub filters: Filters,
    /// A reader's cache.
    pub cache: Cache,
    /// Whether a reader follows the writer.
    pub follow: Follow,
    /// Whether a compactor compacts, or leaves that to workers.
    pub compacts: Compacts,
}

/// The filter policies of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filters {
    /// sstfilter's.
    Ours,
    /// The engine's Bloom filter of 10 bits per key, which is the default of each of its builders.
    BuiltIn,
    /// No filter.
    None,
}

/// A reader's cache in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// Nothing: every lookup is cold.
    Nothing,
    /// Filters and indexes, but no data.
    Metadata,
    /// The engine's default.
    Everything,
}

/// Whether a reader looks for new data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follow {
    /// Ten times a second, with its own checkpoints, as the engine's readers do by default.
    Writer,
    /// Never: it reads the checkpoint with this id, so that each request to the store belongs to a lookup.
    Checkpoint(uuid::Uuid),
}

/// Who compacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compacts {
    /// The compactor itself.
    Itself,
    /// Workers, which are separate processes.
    Workers,
}

/// A request to a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Writes a batch; `None` deletes a key. Answered by [`Answer::Done`] once it is durable.
    Write(Vec<(String, Option<String>)>),
    /// Writes the memory table to an SST.
    Flush,
    /// Looks keys up, one after the other. Answered by a [`Answer::Found`] for each.
    Get(Vec<String>),
    /// Requests the engine's counters.
    Counters,
    /// Requests the SSTs of the latest manifest from the inspector.
    Ssts,
    /// Requests the number of SSTs without a usable filter of ours from the inspector.
    Audit,
    /// Requests a checkpoint of the latest manifest from the inspector.
    Checkpoint,
    /// Requests the number of compactions that are neither finished nor failed from the inspector.
    ActiveCompactions,
    /// Creates an object if it does not exist.
    Create(String),
    /// Adds 1 to the number in an object, if no other process replaces it meanwhile. Answered by [`Answer::Created`].
    Increment(String),
    /// A request to a process that works with file maps.
    Maps(maps::Request),
    /// Closes the store and answers with the final counters.
    Close,
}

/// An answer of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The server's port.
    Listening(u16),
    /// The store is open.
    Ready,
    /// A write or a flush is durable.
    Done,
    /// A key and its value, if there is one.
    Found(String, Option<String>),
    /// The engine's counters since the process started.
    Counters(Counters),
    /// The SSTs of a manifest.
    Ssts(Vec<Sst>),
    /// The id of a checkpoint.
    Checkpoint(uuid::Uuid),
    /// A number.
    Count(usize),
    /// Whether the object was created by this request.
    Created(bool),
    /// The answer of a process that works with file maps.
    Maps(maps::Answer),
    /// The request failed.
    Failed(String),
}

/// The engine's own counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests to the object store by API (`get_range`, `put`, `list`, ...), each attempt separately.
    pub requests: BTreeMap<String, u64>,
    /// Point lookups with a negative answer of a filter.
    pub filter_negatives: u64,
    /// Point lookups with a positive answer of a filter.
    pub filter_positives: u64,
    /// Positive answers for SSTs that did not contain the key.
    pub filter_false_positives: u64,
}

impl Counters {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |api: &String| earlier.requests.get(api).copied().unwrap_or(0);
        Self {
            requests: self.requests.iter().map(|(api, count)| (api.clone(), count - before(api))).collect(),
            filter_negatives: self.filter_negatives - earlier.filter_negatives,
            filter_positives: self.filter_positives - earlier.filter_positives,
            filter_false_positives: self.filter_false_positives - earlier.filter_false_positives,
        }
    }

    /// Returns the requests through any of these APIs.
    #[must_use]
    pub fn sum(&self, apis: &[&str]) -> u64 {
        apis.iter().filter_map(|api| self.requests.get(*api)).sum()
    }
}

/// An SST of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sst {
    /// The object's key.
    pub key: String,
    /// The sorted run that it belongs to, or none in level 0.
    pub sorted_run: Option<u32>,
    /// Its first and its last key.
    pub keys: (String, String),
    /// Offset and length of the filter block in bytes; length 0 without filters.
    pub filter: (u64, u64),
    /// Offset and length of the index block in bytes.
    pub index: (u64, u64),
    /// The names of the filters in the filter block.
    pub filter_names: Vec<String>,
}

impl Sst {
    /// Returns whether the engine has to search this SST for `key`.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        self.keys.0.as_str() <= key && key <= self.keys.1.as_str()
    }
}

/// Writes an answer to stdout.
///
/// # Errors
///
/// If the reading end is closed.
pub fn say(answer: &Answer) -> Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

/// The requests on stdin.
#[derive(Debug)]
pub struct Requests(mpsc::UnboundedReceiver<String>);

impl Requests {
    /// Starts to read. The end of the input ends this process at once, even while it waits for a server that is gone.
    #[must_use]
    pub fn new() -> Self {
        Self(lines_of_input(|| std::process::exit(0)))
    }

    /// Returns the next request.
    ///
    /// # Errors
    ///
    /// If a line is not a request.
    pub async fn next(&mut self) -> Result<Request> {
        let line = self.0.recv().await.ok_or("the input has ended")?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits for the end of stdin, and ignores everything before.
pub async fn wait_for_end_of_input() {
    let mut lines = lines_of_input(|| ());
    while lines.recv().await.is_some() {}
}

/// Returns the lines of stdin. A thread outside the runtime reads them: a runtime waits for its threads when it ends,
/// and this one may wait for input forever.
fn lines_of_input(at_end: impl FnOnce() + Send + 'static) -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        at_end();
    });
    receiver
}
