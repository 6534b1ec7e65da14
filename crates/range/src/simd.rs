//! The queries with the CPU's own instructions for counting and selecting bits.
//!
//! A query counts the bits of up to twelve words and finds the n-th set bit of up to four: x86-64 has instructions for
//! both, but not every CPU of it. ARM counts with vectors that every 64-bit CPU has, which the compiler uses by itself,
//! and has none for selecting; plain Rust serves there. Vectors are of no use beyond that: a query reads one or two
//! lines.
//!
//! The functions are never inlined: what is tested on each platform is what callers run, whatever surrounds a call.

#![allow(unsafe_code, reason = "instructions that not every CPU has")]

use super::key_range::KeyRange;
use super::lines::Portable;
use super::view::View;

/// Calls the method of a view with the instructions in use.
macro_rules! dispatch {
    ($view:ident.$method:ident($argument:ident: $type:ty) -> $result:ty) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
            fn compiled(view: View<'_>, $argument: $type) -> $result {
                view.$method::<bmi2::Bmi2>($argument)
            }
            if matches!(
                sstfilter::simd::selected(),
                sstfilter::simd::InstructionSet::Avx2 | sstfilter::simd::InstructionSet::Avx512
            ) {
                // SAFETY: both sets include these instructions, and are selected only when the CPU has them.
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

/// In plain Rust: a scan calls it once per file, which is not worth instructions of its own.
#[inline(never)]
pub(super) fn seek_hint(view: View<'_>, lower: &[u8]) -> Option<Vec<u8>> {
    view.seek_hint::<Portable>(lower)
}

#[cfg(target_arch = "x86_64")]
mod bmi2 {
    //! BMI2 deposits a single bit at the place of the n-th set one.

    use core::arch::x86_64::_pdep_u64;

    use crate::lines::Select;

    /// For functions that are compiled with BMI1, BMI2 and POPCNT.
    #[derive(Debug)]
    pub(super) struct Bmi2;

    impl Select for Bmi2 {
        #[inline(always)]
        fn select_in_word(word: u64, rank: u32) -> u32 {
            // SAFETY: named by functions that have BMI2 alone.
            let bit = unsafe { _pdep_u64(1_u64.wrapping_shl(rank), word) };
            bit.trailing_zeros() & 63
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_ways_of_selecting_agree() {
        use super::bmi2::Bmi2;
        use crate::hashed::mix64;
        use crate::lines::{Portable, select};

        if !sstfilter::simd::InstructionSet::Avx2.is_available() {
            return;
        }
        for case in 0..20_000_u64 {
            let words = [0, 1, 2, 3].map(|word| mix64(case << 2 | word) & mix64((case % 7) << 32 | word));
            let set: u32 = words.iter().map(|word| word.count_ones()).sum();
            for rank in 0..set {
                assert_eq!(select::<Bmi2>(&words, rank), select::<Portable>(&words, rank), "{words:x?}, rank {rank}");
            }
        }
    }
}
