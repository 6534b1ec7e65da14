//! Tables that are damaged, forged, or of unknown options. The filter must never be negative for a stored key; instead,
//! the probe must return the reason why it cannot answer.
//!
//! Answers are compared with the engines' own in `tests/engines`.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests, and the functions they share")]
#![expect(clippy::big_endian_bytes, reason = "keys that sort as their numbers do")]

mod bounds;
mod coverage;
mod damage;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
#[allow(dead_code, reason = "the other test program uses the rest")]
#[path = "../engines/fixture.rs"]
mod fixture;
mod fixtures;
mod forged;
mod hostile;
mod identity;
mod reads;
mod whole;
