//! The filters in the published engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;
mod compaction;
mod configurations;
mod contracts;
mod counting;
mod faults;
mod migration;
mod model;
mod range_faults;
mod ranges;
mod requests;
mod sections;
mod size;
