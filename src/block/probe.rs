//! What a filter answers.

use crate::error::BlockError;

/// A filter's answer for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe<'a> {
    /// The key is certainly not in the file: skip it.
    Absent,
    /// The key may be in the file.
    MaybePresent,
    /// The filter is unusable for this reason, so the key may be in the file.
    Unusable(&'a BlockError),
}

impl Probe<'_> {
    /// Whether the file can be skipped.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}
