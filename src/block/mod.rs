//! The filter block: a payload, its parameters and a trailer that says all about them.
//!
//! [`FilterBlock::load`] verifies a block and opens it; it then answers whether a key may be present.
//! [`GuardedFilter`] is a block as a table holds it: damage and unknown kinds answer "may be present", and everything is
//! counted. [`FilterSet`] probes many of them for one key, or for many. A [`LoadContext`] says what a block must be to
//! be used: of the right hash, and of the right file.
//!
//! The bytes are specified in FORMAT.md.

mod encode;
mod group;
mod guarded;
mod identity;
mod info;
mod matrix;
mod open;
mod set;
mod shape;
mod stored;
pub(crate) mod trailer;

use core::fmt;

pub(crate) use encode::{EncodeRequest, block_bytes, encode};
pub(crate) use group::{Distance, FilterGroup, GROUP, bits_of, first_bits};
pub use guarded::{GuardedFilter, LookupOutcome, Probe};
pub(crate) use identity::BlockIdentity;
pub use identity::{FileId, LoadContext};
pub use info::BlockInfo;
pub use matrix::HitMatrix;
pub use open::{FilterBlock, HitBitmap, PreparedKey};
pub use set::FilterSet;

/// Why a file has another kind of filter than its policy asked for.
///
/// The reason is stored in the block, and shown by every tool that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The filter is of the requested kind.
    None,
    /// Fewer keys than the policy's minimum for the requested kind.
    TooFewKeys,
    /// The requested kind would not have been smaller at this number of keys, or was not with these.
    NotSmaller,
    /// More keys than the requested kind, or its policy, allows.
    TooManyKeys,
    /// Building the requested kind would have exceeded the memory budget, or the system's memory.
    MemoryBudget,
    /// No attempt at building the requested kind succeeded.
    ConstructionFailed,
    /// The finished filter of the requested kind did not contain one of its keys.
    SelfCheckFailed,
    /// The engine's own hash function panicked while a key was added, so that the filter may lack it. There is no filter
    /// then, and no block has this reason.
    Interrupted,
}

impl FallbackReason {
    /// Those that stand in trailers, by their number.
    const STORED: [Self; 7] = [
        Self::None,
        Self::TooFewKeys,
        Self::NotSmaller,
        Self::TooManyKeys,
        Self::MemoryBudget,
        Self::ConstructionFailed,
        Self::SelfCheckFailed,
    ];

    /// The number that stands in a trailer.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason with this number, if a block can have it.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::STORED.get(usize::from(code)).copied()
    }

    /// The reason in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "as requested",
            Self::TooFewKeys => "too few keys",
            Self::NotSmaller => "not smaller",
            Self::TooManyKeys => "too many keys",
            Self::MemoryBudget => "memory budget",
            Self::ConstructionFailed => "construction failed",
            Self::SelfCheckFailed => "self-check failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
