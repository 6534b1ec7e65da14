//! Lookups compiled with the CPU's instructions for counting and selecting bits.

#![allow(unsafe_code, reason = "calls functions compiled for instructions that not every CPU has")]

use sstfilter::KeyHash;
use sstfilter_range::internal::Portable;

use crate::map::{Candidates, View};

/// Never inlined, so that callers run exactly the code that is tested on each platform.
#[inline(never)]
pub(crate) fn candidates(view: View<'_>, hash: KeyHash) -> Candidates<'_> {
    #[cfg(target_arch = "x86_64")]
    {
        use sstfilter::simd::InstructionSet;
        use sstfilter_range::internal::Bmi2;

        #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
        fn compiled(view: View<'_>, hash: KeyHash) -> Candidates<'_> {
            view.candidates::<Bmi2>(hash)
        }
        if matches!(sstfilter::simd::selected(), InstructionSet::Avx2 | InstructionSet::Avx512) {
            // SAFETY: both sets include these instructions, and are selected only if the CPU has them.
            return unsafe { compiled(view, hash) };
        }
    }
    view.candidates::<Portable>(hash)
}
