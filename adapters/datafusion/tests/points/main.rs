//! Tests on the published engine: a query has the rows that it has without maps, whatever maps, files and filters are.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod damage;
mod filters;
mod fixture;
mod joins;
mod listing;
mod refresh;
mod rows;
mod types;
