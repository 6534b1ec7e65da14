//! Filters that were built, for the commands whose results are no records yet.

pub(crate) mod report;
