//! Lookups compiled with the CPU's instructions for counting and selecting bits.

#![allow(unsafe_code, reason = "calls functions compiled for instructions that not every CPU has")]

use sstfilter_range::internal::Portable;

use crate::map::{Candidates, View};
use crate::page::Page;
use crate::shape::Place;

/// Never inlined, so that callers run exactly the code that is tested on each platform.
#[inline(never)]
pub(crate) fn candidates<'a>(view: &View<'a>, page: Page<'a>, place: Place) -> Candidates<'a> {
    #[cfg(target_arch = "x86_64")]
    {
        use sstfilter::simd::InstructionSet;
        use sstfilter_range::internal::Bmi2;

        #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<'a>(view: &View<'a>, page: Page<'a>, place: Place) -> Candidates<'a> {
            view.candidates::<Bmi2>(page, place)
        }
        if matches!(sstfilter::simd::selected(), InstructionSet::Avx2 | InstructionSet::Avx512) {
            // SAFETY: both sets include these instructions, and are selected only if the CPU has them.
            return unsafe { compiled(view, page, place) };
        }
    }
    view.candidates::<Portable>(page, place)
}
