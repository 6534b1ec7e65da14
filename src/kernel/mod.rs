//! What every vector kernel needs: the choice of an instruction set, and prefetching.
//!
//! A kernel lives with its kind, in `filter/blocked_bloom/line` and `filter/ribbon/simd`. It works on plain slices,
//! knows the bits of a payload and nothing of blocks, policies or files, and has one form for each instruction set;
//! `portable` is plain Rust, and what the others are tested against: all give the same answers and the same bytes.
//! Which one runs is decided once per call from outside, never inside a loop.
//!
//! `unsafe` is allowed in those two folders and here, and nowhere else: for instructions that not every CPU has, and
//! for loads and stores of whole vectors. `grep -rn 'allow(unsafe_code' src` finds all three places.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(clippy::inline_always, reason = "a prefetch is one instruction")]

/// Calls a function of the instruction set in use, from a module that has a submodule for each set.
///
/// One relaxed load and a jump that goes the same way each time. A table of function pointers would be a load and an
/// indirect call, which cannot be inlined; `cfg(target_feature)` alone would need a build for each CPU.
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
pub(crate) use dispatch;

pub(crate) mod prefetch;
