//! Tests for every platform, because bytes must be the same on all: golden files, test vectors, arbitrary bytes, sizes
//! around the limits of integers. `golden` selects instruction sets for the whole process, as do some tests in
//! `blocks`, which are therefore another program.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod golden;
mod layers;
mod limits;
mod properties;
mod refused;
mod shrunk;
mod vectors;
