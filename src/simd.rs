//! The instruction set that the kernels use.
//!
//! The fastest set that the CPU has is detected once, when a filter is first built or opened. All sets return the same
//! answers and write the same bytes; select another one only for tests, benchmarks and debugging.
//!
//! Three builds decide more at compile time:
//!
//! - For a CPU with AVX2 (`-C target-cpu=native`, `x86-64-v3`, `x86-64-v4`, ...) or a 64-bit ARM, single probes of
//!   blocked Bloom filters use that set and are inlined into their caller.
//! - For the best set there is (AVX-512 as on `icelake-server` and `znver4`, or NEON), all kernels use that set without
//!   run-time detection, and [`available`](InstructionSet::available) lists only that set.
//! - Without the feature `std`, which detects what the CPU has, all kernels use the set that the crate is compiled for,
//!   or portable code.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
#[cfg(all(feature = "std", target_arch = "x86_64"))]
use std::arch::is_x86_feature_detected;

use crate::error::ConfigError;

/// A family of vector instructions that the kernels support.
///
/// ```
/// use sstfilter::simd::InstructionSet;
///
/// assert!(InstructionSet::fastest().is_available());
/// assert!(InstructionSet::available().any(|set| set == InstructionSet::fastest()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum InstructionSet {
    /// Plain Rust.
    Portable = 1,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT: x86-64 from 2013 (Haswell) and 2015 (Excavator) on.
    Avx2 = 2,
    /// AVX2 and AVX-512 F, BW, DQ, VL, VBMI and VPOPCNTDQ, and GFNI: Ice Lake, Zen 4 and later.
    Avx512 = 3,
    /// NEON: every 64-bit ARM.
    Neon = 4,
}

/// Whether `$has` holds for each extension of the set.
macro_rules! avx2 {
    ($has:ident) => {
        $has!("avx2") && $has!("bmi1") && $has!("bmi2") && $has!("lzcnt") && $has!("popcnt")
    };
}

/// Like `avx2!`, for AVX-512. Each extension is tested separately: AVX-512 F does not imply the others.
macro_rules! avx512 {
    ($has:ident) => {
        avx2!($has)
            && ($has!("avx512f") && $has!("avx512bw") && $has!("avx512dq") && $has!("avx512vl"))
            && ($has!("avx512vbmi") && $has!("avx512vpopcntdq") && $has!("gfni"))
    };
}

macro_rules! is_compiled_for {
    ($extension:literal) => {
        cfg!(all(target_arch = "x86_64", target_feature = $extension))
    };
}

/// Every set, from the slowest to the fastest: `fastest` takes the last one that is available.
const ALL: [InstructionSet; 4] =
    [InstructionSet::Portable, InstructionSet::Neon, InstructionSet::Avx2, InstructionSet::Avx512];

impl InstructionSet {
    /// Returns whether the set can be selected: this CPU and operating system support all of its instructions, and the
    /// crate was not compiled for another set only.
    #[must_use]
    pub fn is_available(self) -> bool {
        if let Some(only) = ONLY {
            return self == only;
        }
        match self {
            Self::Portable => true,
            #[cfg(all(feature = "std", target_arch = "x86_64"))]
            Self::Avx2 => avx2!(is_x86_feature_detected),
            #[cfg(all(feature = "std", target_arch = "x86_64"))]
            Self::Avx512 => avx512!(is_x86_feature_detected),
            #[allow(unreachable_patterns, reason = "the sets of other architectures, if any are left")]
            _ => false,
        }
    }

    /// Returns the sets that can be selected here, from the slowest to the fastest.
    pub fn available() -> impl Iterator<Item = Self> {
        ALL.into_iter().filter(|set| set.is_available())
    }

    /// Returns the fastest available set.
    #[must_use]
    pub fn fastest() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    /// Returns the set's name: `portable`, `avx2`, `avx512` or `neon`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The set that the crate is compiled for, if the target has one. Every 64-bit ARM has NEON.
pub(crate) const COMPILED: Option<InstructionSet> = if avx512!(is_compiled_for) {
    Some(InstructionSet::Avx512)
} else if avx2!(is_compiled_for) {
    Some(InstructionSet::Avx2)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")) {
    Some(InstructionSet::Neon)
} else {
    None
};

/// The set that the crate is compiled for, if there is no better one; the dispatch then folds to it. Without `std`, the
/// other sets of the CPU cannot be detected.
const ONLY: Option<InstructionSet> = match COMPILED {
    None if !cfg!(feature = "std") => Some(InstructionSet::Portable),
    // AVX2 compiled in does not exclude a CPU with AVX-512, so that the choice stays at run time.
    Some(InstructionSet::Avx2) if cfg!(feature = "std") => None,
    compiled => compiled,
};

/// The set in use; 0 until it is detected. Only available sets are ever stored, which makes the calls of the dispatch
/// sound.
static SELECTED: AtomicU8 = AtomicU8::new(0);

/// Returns the set that the kernels use now.
#[inline]
#[must_use]
pub fn selected() -> InstructionSet {
    if let Some(only) = ONLY {
        return only;
    }
    // Relaxed: the value guards no other memory, and every set returns the same answers.
    match SELECTED.load(Ordering::Relaxed) {
        1 => InstructionSet::Portable,
        2 => InstructionSet::Avx2,
        3 => InstructionSet::Avx512,
        4 => InstructionSet::Neon,
        _ => detect(),
    }
}

#[cold]
fn detect() -> InstructionSet {
    let fastest = InstructionSet::fastest();
    // Keeps a set that another thread selected in the meantime.
    match SELECTED.compare_exchange(0, fastest as u8, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fastest,
        Err(_) => selected(),
    }
}

/// Makes all kernels of the process use `set` from now on. A block that is already open may keep its earlier set for
/// single probes.
///
/// # Errors
///
/// [`ConfigError::InstructionSet`] when `set` is not [available](InstructionSet::is_available).
///
/// ```
/// use sstfilter::simd::{self, InstructionSet};
///
/// for set in InstructionSet::available() {
///     simd::select(set)?;
///     assert_eq!(simd::selected(), set);
/// }
/// # Ok::<(), sstfilter::ConfigError>(())
/// ```
pub fn select(set: InstructionSet) -> Result<(), ConfigError> {
    if !set.is_available() {
        return Err(ConfigError::InstructionSet { got: set });
    }
    SELECTED.store(set as u8, Ordering::Relaxed);
    Ok(())
}

/// Runs `test` with each available set. A lock keeps other tests from selecting a set in between.
#[cfg(test)]
pub(crate) fn for_each_set(mut test: impl FnMut(InstructionSet)) {
    static SELECTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = crate::panics::locks::lock(&SELECTING);
    for set in InstructionSet::available() {
        SELECTED.store(set as u8, Ordering::Relaxed);
        test(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sets_that_the_cpu_has_can_be_selected() {
        for_each_set(|before| {
            for set in ALL {
                assert_eq!(select(set).is_ok(), set.is_available());
            }
            select(before).unwrap();
            assert_eq!(selected(), before);
        });
    }
}
