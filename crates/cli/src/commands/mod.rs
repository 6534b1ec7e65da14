//! The commands whose results are records.

pub(crate) mod advise;
