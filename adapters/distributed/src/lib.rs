//! SlateDB in several processes over one S3 server, with sstfilter's filters.
//!
//! A writer, a standalone compactor and two readers are separate processes. They share only an S3 server on the
//! loopback address, which is also a process. Readers and compactors are killed while they work, and restarted.
//! Afterwards every acknowledged key must be found, and the server's request log must agree with the engine's counters.
//!
//! | module | what it does |
//! |---|---|
//! | [`server`] | the S3 server and its request log |
//! | [`filters`] | the filter policies that a process runs with, and the names of the filters in a stored SST |
//! | [`protocol`] | the messages between processes: JSON lines on stdin and stdout |
//! | [`roles`] | writer, compactor, worker, reader, inspector, creator |
//! | [`process`] | a child process that is killed when it is dropped |
//! | [`cluster`] | a server and its clients, in a temporary folder |
//! | [`cost`] | counted lookups: the engine's counters compared with the server's log |
//! | [`scenario`] | the demonstration |
//! | [`maps`] | another demonstration, without SlateDB: file maps on an object store, and what they cost |

pub mod cluster;
pub mod cost;
pub mod filters;
pub mod maps;
pub mod process;
pub mod protocol;
pub mod roles;
pub mod scenario;
pub mod server;

/// Any error in a process, as a message.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of an operation that fails with a message.
pub type Result<T> = std::result::Result<T, Error>;
