//! `sstfilter advise`: recommends a filter for a use case.

pub(crate) mod ranges;
