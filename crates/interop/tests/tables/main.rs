//! A table that is read in another way than its engine wrote it, damaged, or made to deceive. What must not happen: a
//! key is stored, and its filter is read so that it says "absent". What must happen instead is that the probe says why
//! it cannot answer.
//!
//! Answers are compared with the engines' own in `tests/engines`.

#![expect(clippy::expect_used, reason = "tests, and the functions they share")]

mod bounds;
mod damage;
#[path = "../../../../tests/common/effort.rs"]
mod effort;
mod fixtures;
mod forged;
mod hostile;
mod reads;
mod whole;
