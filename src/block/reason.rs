//! Why a block has another kind of filter than was requested.

use core::fmt;

use crate::filter::BuildFailure;

/// Why a file has another kind of filter than its policy requested.
///
/// The block stores the reason, and every tool that reads it shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The filter is of the requested kind.
    None,
    /// Fewer keys than the policy's minimum for the requested kind.
    TooFewKeys,
    /// The requested kind is not smaller: by its plan for this number of keys, or as built from these keys.
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
    /// All of them, by number.
    const ALL: [Self; 7] = [
        Self::None,
        Self::TooFewKeys,
        Self::NotSmaller,
        Self::TooManyKeys,
        Self::MemoryBudget,
        Self::ConstructionFailed,
        Self::SelfCheckFailed,
    ];

    /// The number recorded in a trailer.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason with this number.
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

impl From<BuildFailure> for FallbackReason {
    fn from(failure: BuildFailure) -> Self {
        match failure {
            BuildFailure::TooManyKeys => Self::TooManyKeys,
            BuildFailure::NotSmaller => Self::NotSmaller,
            BuildFailure::NoMemory => Self::MemoryBudget,
            BuildFailure::AttemptsExhausted => Self::ConstructionFailed,
        }
    }
}
