//! Numbers and names as people read and write them.

pub(crate) mod escape;
pub(crate) mod group;
pub(crate) mod units;
