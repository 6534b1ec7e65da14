//! What every vector kernel needs: the choice of an instruction set, and prefetching.
//!
//! A kernel lives with its kind, in `filter/blocked_bloom/line` and `filter/ribbon/simd`. It works on plain slices,
//! knows the bits of a payload and nothing of blocks, policies or files, and has one form for each instruction set;
//! `portable` is plain Rust, and what the others are tested against: all give the same answers and the same bytes.
//! Which one runs is decided once per call from outside, never inside a loop; for single probes, when a block is
//! opened.
//!
//! Compiled for NEON, or for AVX-512 with all extensions in use, the choice is a constant. Compiled for AVX2, single
//! probes of blocked Bloom filters use AVX2 and are inlined, and all else is still decided at run time.
//!
//! Targets without vectors have the portable form alone: operating systems' own code is compiled without SSE and NEON.
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

/// Calls `$kernel` with the type of the instruction set in use, from `$sets::avx512`, `$sets::avx2` or `$sets::neon`,
/// or calls `$portable`.
///
/// A generic kernel cannot have the instructions of its type parameter. It is inlined into a function that has them.
macro_rules! dispatch_generic {
    ($kernel:ident::$function:ident, $($sets:ident)::+, $portable:path, ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        match $crate::simd::selected() {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            $crate::simd::InstructionSet::Avx512 => $crate::kernel::call_with!(
                "avx512dq,avx512vl,avx512vbmi,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt",
                $kernel::$function::<$($sets)::+::avx512::Avx512>, ($($argument: $type),*) $(-> $result)?
            ),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            $crate::simd::InstructionSet::Avx2 => $crate::kernel::call_with!(
                "avx2,bmi1,bmi2,lzcnt,popcnt",
                $kernel::$function::<$($sets)::+::avx2::Avx2>, ($($argument: $type),*) $(-> $result)?
            ),
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            $crate::simd::InstructionSet::Neon => $crate::kernel::call_with!(
                "neon", $kernel::$function::<$($sets)::+::neon::Neon>, ($($argument: $type),*) $(-> $result)?
            ),
            _ => $portable($($argument),*),
        }
    };
}
pub(crate) use dispatch_generic;

/// Calls a function from one that is compiled with the instructions of the set in use.
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")
))]
macro_rules! call_with {
    ($features:literal, $kernel:path, ($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        #[target_feature(enable = $features)]
        fn compiled($($argument: $type),*) $(-> $result)? {
            // SAFETY: this function has the instructions.
            unsafe { $kernel($($argument),*) }
        }
        // SAFETY: a set is selected, or compiled for, only when the CPU has all of its instructions.
        unsafe { compiled($($argument),*) }
    }};
}
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")
))]
pub(crate) use call_with;

pub(crate) mod prefetch;
