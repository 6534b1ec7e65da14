//! The filter block: a payload, its parameters and a trailer that says all about them.
//!
//! [`FilterBlock`] opens any bytes in constant time without allocating, and answers whether a key may
//! be present. [`GuardedFilter`] is a block as a table holds it: damage and unknown kinds answer "may be
//! present", and everything is counted. [`FilterSet`] asks many blocks for one key, or for many.
//!
//! The bytes are specified in FORMAT.md.

mod encode;
mod group;
mod guarded;
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
}

impl FallbackReason {
    const ALL: [Self; 7] = [
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

    /// The reason with this number, if it is one we know.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
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
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
