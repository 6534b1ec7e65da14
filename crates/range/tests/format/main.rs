//! Range filters from the outside: those of `fixtures`, the documented ones, damaged ones, and false positive rates.
//! This is the package's test program for other platforms.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[path = "../common/ranges.rs"]
mod ranges;

mod damage;
mod golden;
mod rates;
mod vectors;
