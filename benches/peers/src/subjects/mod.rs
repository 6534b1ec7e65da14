//! One file per crate.

mod cuckoofilter;
pub mod fastbloom;
mod lsm_tree;
mod pleat;
mod qfilter;
pub mod sbbf;
pub mod sstfilter;
mod sstfilter_dynamic;
mod xorf;

use ::sstfilter::simd::InstructionSet;

use crate::subject::Subject;

/// Our kind to compare with Bloom filters of 10 bits per key.
const BLOOM_TEN: &str = "blocked Bloom, 10 bits";
/// Our kinds to compare with filters that support removal.
const CUCKOO_EIGHT: &str = "cuckoo, 8 bits";
const CUCKOO_ELEVEN: &str = "cuckoo, 11 bits";

/// The choice of our kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum IsaChoice {
    /// The fastest that the CPU has.
    #[default]
    Best,
    /// Each that the CPU has, in separate rows.
    All,
}

impl IsaChoice {
    /// The instruction sets to select by hand; `None` leaves the choice to the library.
    pub fn sets(self) -> Vec<Option<InstructionSet>> {
        match self {
            Self::Best => vec![None],
            Self::All => InstructionSet::available().map(Some).collect(),
        }
    }
}

/// Returns all subjects, ours first.
pub fn all(isa: IsaChoice) -> Vec<Box<dyn Subject>> {
    let mut subjects = sstfilter::subjects(isa);
    subjects.extend(sstfilter_dynamic::register_blocked());
    subjects.extend(sstfilter_dynamic::cuckoo());
    subjects.push(fastbloom::subject());
    subjects.extend(sbbf::subjects());
    subjects.push(lsm_tree::subject());
    subjects.extend(xorf::subjects());
    subjects.extend(pleat::subjects());
    subjects.push(cuckoofilter::subject());
    subjects.push(qfilter::subject());
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_compared_with_a_kind_of_ours_that_is_measured() {
        let subjects = all(IsaChoice::Best);
        let is_ours = |kind: &str| {
            let mut labels = subjects.iter().map(|subject| subject.label());
            labels.any(|label| label.implementation == sstfilter::NAME && label.kind == kind)
        };
        assert!(subjects.iter().all(|subject| is_ours(subject.label().against)));
    }
}
