//! `sstfilter advise`: recommends a filter for a use case.

pub(crate) mod levels;
pub(crate) mod ranges;
pub(crate) mod tables;
