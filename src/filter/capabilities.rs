//! What filters of a kind can do beside being built once and probed.

/// The changes to a filter's keys while it is in use, from fewest to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Updates {
    /// None: all keys are known when it is built.
    None,
    /// Keys are added.
    Insert,
    /// Keys are added and removed.
    InsertAndRemove,
}

/// How many threads add and remove keys while the filter is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writers {
    /// One, without concurrent readers; or all access goes through an existing lock.
    One,
    /// Many at once, with concurrent readers.
    Many,
}

/// The operations of a kind beside being built once and probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Capabilities {
    /// The changes to its keys once it is in use.
    pub updates: Updates,
    /// How many threads can make them at once.
    pub writers: Writers,
}

impl Capabilities {
    /// Those of a filter that is built once.
    pub const STATIC: Self = Self { updates: Updates::None, writers: Writers::One };
    /// Keys can be added, by one thread at a time.
    pub const INSERT: Self = Self { updates: Updates::Insert, writers: Writers::One };
    /// Keys can be added and removed, by one thread at a time.
    pub const INSERT_AND_REMOVE: Self = Self { updates: Updates::InsertAndRemove, writers: Writers::One };
    /// Keys can be added by many threads at once.
    pub const INSERT_BY_MANY: Self = Self { updates: Updates::Insert, writers: Writers::Many };
}
