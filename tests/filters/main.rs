//! Each kind of filter by itself: its answers, its false positive rate, its size, and the effect of hostile keys. One
//! program, because linking every test program takes time.

#![expect(clippy::unwrap_used, reason = "tests, and the functions they share")]

#[path = "../common/mod.rs"]
mod common;

mod counting_bloom;
mod cuckoo;
mod empty_key;
mod fuse;
mod hostile_keys;
mod layers;
mod line_ribbon;
mod published_figures;
mod rates;
mod register_blocked_bloom;
mod restored;
mod shrunk;
mod sizes;
mod standard_bloom;
mod threads;
mod union;
mod xor;
