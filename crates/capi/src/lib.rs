//! The C interface of sstfilter. `include/sstfilter.h` documents it; this crate implements its functions.
//!
//! Every function catches panics. Pointers that C may pass as NULL are `Option`s of references and boxes, which have
//! the layout of pointers.

// Callers keep the rules of the header: pointers are NULL or valid, and objects come from this library.
#![allow(unsafe_code, reason = "functions of C have pointers")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod block;
mod builder;
mod call;
mod filter;
mod policy;
mod set;
#[cfg(test)]
mod tests;
