//! The parts that all vector kernels share: the choice of an instruction set, and prefetching. And the line that range
//! filters and file maps share, with its kernel.
//!
//! A kernel lives with its kind, in `filter/blocked_bloom/line`, `filter/ribbon/simd` and `filter/line_ribbon/simd`. It
//! works on plain slices, and knows the bits of a payload but nothing of blocks, policies or files. It has one version
//! per instruction set. `portable` is plain Rust, and the other versions are tested against it: all return the same
//! answers and write the same bytes. The caller chooses the version once per call, never inside a loop; for single
//! probes, once when a block is opened.
//!
//! If the crate is compiled for NEON, or for AVX-512 with all extensions in use, the choice is a constant. If it is
//! compiled for AVX2, single probes of blocked Bloom filters use AVX2 and are inlined; all other kernels are still
//! chosen at run time.
//!
//! Targets without vectors have only the portable version: operating systems' own code is compiled without SSE and
//! NEON.
//!
//! `unsafe` is allowed only here and in those three folders: for instructions that not every CPU has, and for loads and
//! stores of whole vectors. `grep -rn 'allow(unsafe_code' src` finds all four places.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]
#![allow(clippy::inline_always, reason = "a prefetch is one instruction")]

use crate::hash::KeyHash;
use crate::simd::{self, InstructionSet};

/// Calls the version of a function for the instruction set in use, from a module that has a submodule for each set.
///
/// It costs one relaxed load and a well-predicted jump. Rejected: a table of function pointers (a load and an indirect
/// call, which cannot be inlined), and `cfg(target_feature)` only (a build for each CPU).
macro_rules! dispatch {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::kernel::dispatch!($crate::simd::selected(), $name($($argument),*))
    };
    ($set:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $set {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            // SAFETY: a set is selected, or compiled for, only when the CPU has all of its instructions.
            $crate::simd::InstructionSet::Avx512 => unsafe { avx512::$name($($argument),*) },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            // SAFETY: as above.
            $crate::simd::InstructionSet::Avx2 => unsafe { avx2::$name($($argument),*) },
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            // SAFETY: as above.
            $crate::simd::InstructionSet::Neon => unsafe { neon::$name($($argument),*) },
            _ => portable::$name($($argument),*),
        }
    };
}
pub(crate) use dispatch;

/// Calls `$kernel` with the type of the instruction set in use (from `$sets::avx512`, `$sets::avx2` or `$sets::neon`),
/// or calls `$portable`.
///
/// A generic kernel cannot enable the instructions of its type parameter, so it is inlined into a function that does.
macro_rules! dispatch_generic {
    ($kernel:ident::$function:ident, $($sets:ident)::+, $portable:path, ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        match $crate::simd::selected() {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            $crate::simd::InstructionSet::Avx512 => $crate::kernel::dispatch_generic!(
                @with "avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt",
                $kernel::$function::<$($sets)::+::avx512::Avx512>, ($($argument: $type),*) $(-> $result)?
            ),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            $crate::simd::InstructionSet::Avx2 => $crate::kernel::dispatch_generic!(
                @with "avx2,bmi1,bmi2,lzcnt,popcnt",
                $kernel::$function::<$($sets)::+::avx2::Avx2>, ($($argument: $type),*) $(-> $result)?
            ),
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            $crate::simd::InstructionSet::Neon => $crate::kernel::dispatch_generic!(
                @with "neon", $kernel::$function::<$($sets)::+::neon::Neon>, ($($argument: $type),*) $(-> $result)?
            ),
            _ => $portable($($argument),*),
        }
    };
    // Calls the kernel from a function that is compiled with the instructions.
    (@with $features:literal, $kernel:path, ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        #[target_feature(enable = $features)]
        fn compiled($($argument: $type),*) $(-> $result)? {
            // SAFETY: this function has the instructions.
            unsafe { $kernel($($argument),*) }
        }
        // SAFETY: a set is selected, or compiled for, only when the CPU has all of its instructions.
        unsafe { compiled($($argument),*) }
    }};
}
pub(crate) use dispatch_generic;

/// A probe of a filter of type `F`, compiled for a set.
pub(crate) type SetProbe<F> = unsafe fn(&[u8], KeyHash, &F) -> bool;

/// Returns the probe as a function that any code may call.
///
/// # Safety
///
/// The CPU must support the set.
pub(crate) const unsafe fn for_this_cpu<F>(probe: SetProbe<F>) -> fn(&[u8], KeyHash, &F) -> bool {
    // SAFETY: the caller promises the set. Only `unsafe` distinguishes the two types.
    unsafe { core::mem::transmute(probe) }
}

/// Loops over arrays of numbers that the compiler turns into vectors.
pub(crate) trait Vectorizable {
    /// Must be `#[inline(always)]`: a function that is called instead would be compiled without the instructions.
    fn run(self);
}

/// Returns whether [`vectorized`] work can multiply vectors of 64-bit numbers. NEON multiplies them one by one.
pub(crate) fn has_vector_products() -> bool {
    matches!(simd::selected(), InstructionSet::Avx2 | InstructionSet::Avx512)
}

/// Runs `work`, compiled for the instruction set in use.
pub(crate) fn vectorized(work: impl Vectorizable) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        #[target_feature(enable = "avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn avx512(work: impl Vectorizable) {
            work.run();
        }
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn avx2(work: impl Vectorizable) {
            work.run();
        }
        match simd::selected() {
            // SAFETY: a set is selected, or compiled for, only when the CPU has all of its instructions.
            InstructionSet::Avx512 => return unsafe { avx512(work) },
            // SAFETY: as above.
            InstructionSet::Avx2 => return unsafe { avx2(work) },
            _ => {}
        }
    }
    // All other targets are compiled for the only set that they have.
    work.run();
}

pub mod code_line;
pub mod key_head;
pub(crate) mod prefetch;
