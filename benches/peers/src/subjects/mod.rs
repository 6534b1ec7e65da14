//! One file per crate.

mod cuckoofilter;
mod fastbloom;
mod lsm_tree;
mod pleat;
mod qfilter;
mod register_blocked;
mod sbbf;
pub mod sstfilter;
mod sstfilter_dynamic;
mod xorf;

use crate::subject::Subject;

/// The kind of ours that Bloom filters of 10 bits per key are compared with.
const BLOOM_TEN: &str = "blocked Bloom, 10 bits";
/// The kinds of ours that filters with fingerprints of 7 and 8 bits are compared with.
const RIBBON_SEVEN: &str = "Ribbon, 2^-7";
/// The binary fuse filters of ours that others are compared with.
const FUSE_EIGHT: &str = "BinaryFuse 3-wise, 8";
const FUSE_SIXTEEN: &str = "BinaryFuse 3-wise, 16";
/// The xor filter of ours that others are compared with.
const XOR_EIGHT: &str = "Xor, 8";

/// The kinds of ours that filters which keys can be removed from are compared with.
const CUCKOO_EIGHT: &str = "cuckoo, 8 bits";
const CUCKOO_ELEVEN: &str = "cuckoo, 11 bits";

/// Which of our kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum IsaChoice {
    /// The fastest that the CPU has.
    #[default]
    Best,
    /// Each that the CPU has, in rows of its own.
    All,
}

/// Everybody, ours first.
pub fn all(isa: IsaChoice) -> Vec<Box<dyn Subject>> {
    let mut subjects = sstfilter::subjects(isa);
    subjects.extend(register_blocked::subjects());
    subjects.extend(sstfilter_dynamic::subjects());
    subjects.push(Box::new(fastbloom::FastBloom));
    subjects.extend(sbbf::subjects());
    subjects.push(Box::new(lsm_tree::StandardBloom));
    subjects.extend(xorf::subjects());
    subjects.extend(pleat::subjects());
    subjects.push(Box::new(cuckoofilter::Cuckoo));
    subjects.push(Box::new(qfilter::Quotient));
    subjects
}
