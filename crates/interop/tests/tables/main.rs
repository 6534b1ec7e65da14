//! Tables that are damaged, forged, or of unknown options. The filter must never be negative for a stored key; instead,
//! the probe must return the reason why it cannot answer.
//!
//! Answers are compared with the engines' own in `tests/engines`.

#![expect(clippy::expect_used, reason = "tests, and the functions they share")]

mod bounds;
mod coverage;
mod damage;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod fixtures;
mod forged;
mod hostile;
mod identity;
mod reads;
mod whole;
