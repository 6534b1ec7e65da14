//! Lookups compiled with the CPU's instructions for counting and selecting bits.

#![allow(unsafe_code, reason = "calls functions compiled for instructions that not every CPU has")]

use sstfilter_range::internal::Portable;

use crate::candidates::{self, Found};
use crate::page::Page;
use crate::shape::Place;

/// Never inlined, so that callers run exactly the code that is tested on each platform.
#[inline(never)]
pub(crate) fn in_page(page: Page<'_>, place: Place) -> Found<'_> {
    #[cfg(target_arch = "x86_64")]
    {
        use sstfilter::simd::InstructionSet;
        use sstfilter_range::internal::Bmi2;

        #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
        fn compiled(page: Page<'_>, place: Place) -> Found<'_> {
            candidates::in_page::<Bmi2>(page, place)
        }
        if matches!(sstfilter::simd::selected(), InstructionSet::Avx2 | InstructionSet::Avx512) {
            // SAFETY: both sets include these instructions, and are selected only if the CPU has them.
            return unsafe { compiled(page, place) };
        }
    }
    candidates::in_page::<Portable>(page, place)
}
