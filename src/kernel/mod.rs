//! The inner loops, over plain slices: one folder per operation, with one form for each instruction set. Where
//! sets differ in more than their width, each has a file with the same functions; the sweep and
//! back-substitution are written once over `bytes`, where each set has its vectors of bytes.
//!
//! `portable` is plain Rust, and what the others are tested against: all give the same answers and the
//! same bytes. Which one runs is decided once per call from outside, never inside a loop. A kernel knows
//! the bits of a payload and nothing of blocks, policies or files.
//!
//! This is the only room with `unsafe` in it: for instructions that not every CPU has, and for loads and
//! stores of whole vectors.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::precedence,
    clippy::inline_always,
    clippy::needless_range_loop,
    reason = "bits are cut off on purpose; operators bind as in the formulas of the field; loops count what they \
              unroll; functions that do not carry the instructions must become part of those that do"
)]
#![cfg_attr(
    not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
    allow(dead_code, unused_macros, reason = "the forms for vectors have no user here")
)]

/// Calls a function of the instruction set in use, from a module that has a submodule for each set.
macro_rules! dispatch {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::simd::selected() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a set is selected only when the CPU has all of its instructions.
            $crate::simd::InstructionSet::Avx512 => unsafe { avx512::$name($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            $crate::simd::InstructionSet::Avx2 => unsafe { avx2::$name($($argument),*) },
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            // SAFETY: as above.
            $crate::simd::InstructionSet::Neon => unsafe { neon::$name($($argument),*) },
            _ => portable::$name($($argument),*),
        }
    };
}

pub(crate) mod bytes;
pub(crate) mod cover;
pub(crate) mod equation;
pub(crate) mod line;
pub(crate) mod parity;
pub(crate) mod prefetch;
pub(crate) mod ribbon_query;
pub(crate) mod solve;
pub(crate) mod sweep;
pub(crate) mod within;
