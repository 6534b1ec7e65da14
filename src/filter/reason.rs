//! The reasons why a file has another kind of filter than was requested, or none.

use core::fmt;

/// The reason why a file has another kind of filter than its policy requested, or none.
///
/// A block stores its reason, and every tool that reads the block shows it. Panics, keys out of order, extractors and
/// range tombstones are reasons for no filter at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The filter is of the requested kind.
    None,
    /// Fewer keys than the policy's minimum for the requested kind.
    TooFewKeys,
    /// The requested kind is not smaller than a blocked Bloom filter of the same rate, either as planned for this
    /// number of keys or as built from these keys.
    NotSmaller,
    /// More keys than the requested kind, its policy, or the format allows.
    TooManyKeys,
    /// Building the requested kind would have exceeded the memory budget, or the system's memory.
    MemoryBudget,
    /// No attempt to build the requested kind succeeded.
    ConstructionFailed,
    /// The finished filter of the requested kind did not contain one of its keys.
    SelfCheckFailed,
    /// No filter: the engine's own hash function or extractor panicked while a key was added, so that the filter might
    /// lack that key.
    Panicked,
    /// No filter: keys did not ascend, although they were to be cut by range or put into a range filter.
    KeysOutOfOrder,
    /// No range filter, or no filter of only extracted parts. A key extractor returned a part for a prefix that a key
    /// with the prefix does not have, a part that is no prefix of its key, or none for the part itself; or keys were
    /// added by their hashes to a filter of only extracted parts.
    UnstableExtractor,
    /// No range filter: the file holds a range tombstone, which a scan must not skip.
    RangeTombstone,
    /// The requested kind is not compiled in. The block records [`ConstructionFailed`](Self::ConstructionFailed).
    NotCompiled,
}

impl FallbackReason {
    /// The reasons that a block can record, indexed by their number.
    const RECORDED: [Self; 7] = [
        Self::None,
        Self::TooFewKeys,
        Self::NotSmaller,
        Self::TooManyKeys,
        Self::MemoryBudget,
        Self::ConstructionFailed,
        Self::SelfCheckFailed,
    ];

    /// Returns the number recorded in a trailer. Reasons for no filter have numbers above 6, which no block records.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::NotCompiled => Self::ConstructionFailed.code(),
            // The variants are declared in the order of `RECORDED`, and those that no block records come last.
            recorded => recorded as u8,
        }
    }

    /// Returns the recorded reason with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::RECORDED.get(usize::from(code)).copied()
    }

    /// Returns the reason in a few words.
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
            Self::Panicked => "interrupted",
            Self::KeysOutOfOrder => "keys out of order",
            Self::UnstableExtractor => "unstable key extractor",
            Self::RangeTombstone => "range tombstone",
            Self::NotCompiled => "kind not compiled in",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
