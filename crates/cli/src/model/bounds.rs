//! The smallest and the largest key of a table: a lookup never reads a table whose bounds exclude the key, whatever its
//! filter answers.

use sstfilter_interop::TableBounds;

use crate::file::database::Standing;
use crate::file::open::{Body, Opened};

pub(crate) enum Bounds<'a> {
    /// Nothing records them: a filter without a table, or a table of another engine without its manifest.
    Unknown,
    /// A table of this library without entries has none, and holds no key.
    Own(Option<(&'a [u8], &'a [u8])>),
    Foreign(TableBounds<'a>),
}

impl<'a> Bounds<'a> {
    pub(crate) fn of(opened: &'a Opened) -> Self {
        match (&opened.body, &opened.found.standing) {
            (Body::Table(table), _) => Self::Own(table.properties().filters.key_bounds()),
            (Body::Foreign(table, _), Standing::Live(file)) => table.bounds(file).map_or(Self::Unknown, Self::Foreign),
            _ => Self::Unknown,
        }
    }

    pub(crate) fn are_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Own(ends) => ends.is_some_and(|(smallest, largest)| smallest <= key && key <= largest),
            Self::Foreign(bounds) => bounds.holds(key),
        }
    }

    /// Whether the table may have a key from `lower` (inclusive) to `upper` (exclusive).
    pub(crate) fn meet(&self, lower: &[u8], upper: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Own(ends) => ends.is_some_and(|(smallest, largest)| smallest < upper && lower <= largest),
            Self::Foreign(bounds) => bounds.meets(lower, upper),
        }
    }
}
