//! Filter blocks: damaged, misplaced, many at once, and misused. `set` and `user_kinds` select instruction sets for the
//! whole process, one at a time; no other test here depends on the selection.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod binding;
mod flipped_bits;
mod misuse;
mod names;
mod probe;
#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/read_block_by_hand.rs"]
mod read_block_by_hand;
mod set;
mod shrink;
mod user_kinds;
