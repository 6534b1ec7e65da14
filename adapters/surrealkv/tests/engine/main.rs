//! The policy in the published engine. A filter that answers "absent" for a key of its partition loses the key without
//! a trace: `get` finds nothing, while a scan still shows it. Each module guards against one cause.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bytes;
mod damage;
mod edges;
mod migration;
mod model;
mod store;
