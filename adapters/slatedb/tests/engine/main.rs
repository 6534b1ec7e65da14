//! The filters in the published engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;
mod requests;
mod size;
