//! The inner loops of Ribbon, by instruction set: the query, and the two steps that dominate a build.
//!
//! Each is one algorithm over a small trait, with a type for each instruction set, and a portable version that returns
//! the same answers and writes the same bytes. The build's algorithms use vectors of bytes (`bytes`).

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "bits are cut off on purpose; operators bind as in the field's formulas; loops count what they unroll; \
              functions without the instructions must be inlined into those with them"
)]
#![cfg_attr(
    not(any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")
    )),
    allow(dead_code, unused_macros, reason = "nothing uses the vector versions here")
)]

pub(super) mod bytes;
pub(super) mod query;
pub(super) mod solve;
pub(super) mod sweep;
