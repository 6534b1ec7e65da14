//! Queries compiled with the CPU's instructions for counting and selecting bits.
//!
//! A query counts the bits of up to twelve words and finds the n-th set bit of up to four. x86-64 has instructions for
//! both, but not on every CPU. Every 64-bit ARM CPU counts with vector instructions, which the compiler uses by itself,
//! and has no instruction for selecting, so ARM uses plain Rust. Vectors would not help further: a query reads one or
//! two lines.
//!
//! The functions are never inlined, so that callers run exactly the code that is tested on each platform.

#![allow(unsafe_code, reason = "calls functions compiled for instructions that not every CPU has")]

use super::key_range::KeyRange;
use super::lines::Portable;
use super::view::View;

/// Calls a method of a view, compiled for the selected instruction set.
macro_rules! dispatch {
    ($view:ident.$method:ident($argument:ident: $type:ty) -> $result:ty) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
            fn compiled(view: View<'_>, $argument: $type) -> $result {
                view.$method::<Bmi2>($argument)
            }
            if matches!(
                sstfilter::simd::selected(),
                sstfilter::simd::InstructionSet::Avx2 | sstfilter::simd::InstructionSet::Avx512
            ) {
                // SAFETY: both sets include these instructions, and are selected only if the CPU has them.
                return unsafe { compiled($view, $argument) };
            }
        }
        $view.$method::<Portable>($argument)
    }};
}

#[inline(never)]
pub(super) fn may_contain_range(view: View<'_>, range: KeyRange<'_>) -> bool {
    dispatch!(view.may_contain_range(range: KeyRange<'_>) -> bool)
}

#[inline(never)]
pub(super) fn may_contain_range_each(view: View<'_>, ranges: &[KeyRange<'_>]) -> u64 {
    dispatch!(view.may_contain_range_each(ranges: &[KeyRange<'_>]) -> u64)
}

/// Plain Rust: a scan calls it once per file, too seldom to pay for its own instructions.
#[inline(never)]
pub(super) fn seek_hint(view: View<'_>, lower: &[u8]) -> Option<Vec<u8>> {
    view.seek_hint::<Portable>(lower)
}

#[cfg(target_arch = "x86_64")]
pub use bmi2::Bmi2;

#[cfg(target_arch = "x86_64")]
mod bmi2 {
    //! Selects with BMI2, which deposits a bit at the position of the n-th set bit.

    use core::arch::x86_64::_pdep_u64;

    use crate::lines::Select;

    /// Selects in functions compiled with BMI1, BMI2 and POPCNT.
    #[derive(Debug)]
    pub struct Bmi2;

    impl Select for Bmi2 {
        #[inline(always)]
        fn select_in_word(word: u64, rank: u32) -> u32 {
            // SAFETY: only functions compiled with BMI2 use this type.
            let bit = unsafe { _pdep_u64(1_u64.wrapping_shl(rank), word) };
            bit.trailing_zeros().min(63)
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_ways_of_selecting_agree() {
        use super::Bmi2;
        use crate::hashed::mix64;
        use crate::lines::{Portable, select};

        if !sstfilter::simd::InstructionSet::Avx2.is_available() {
            return;
        }
        for case in 0..20_000_u64 {
            let words = [0, 1, 2, 3].map(|word| mix64(case << 2 | word) & mix64((case % 7) << 32 | word));
            // A forged line has more runs than run ends.
            for rank in 0..256 {
                assert_eq!(select::<Bmi2>(&words, rank), select::<Portable>(&words, rank), "{words:x?}, rank {rank}");
            }
        }
    }
}
