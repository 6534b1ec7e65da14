//! Each kind of filter by itself: what it finds, what its false positive rate and its size are, what hostile keys do to
//! it. One program, because every test program costs a link.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod counting_bloom;
mod cuckoo;
mod fuse;
mod hostile_keys;
mod published_figures;
mod rates;
mod register_blocked_bloom;
mod shrunk;
mod sizes;
mod standard_bloom;
mod threads;
mod xor;
