//! What must give the same bytes on every machine: golden files, test vectors, any bytes at all, sizes around the
//! limits of integers. This is the program for other platforms. `golden` selects instruction sets for the whole
//! process; the tests in `blocks` that do so too are in another program for that reason.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod golden;
mod limits;
mod properties;
mod refused;
mod shrunk;
mod vectors;
