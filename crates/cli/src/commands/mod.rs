//! The commands whose results are records.

pub(crate) mod advise;
#[allow(dead_code, reason = "the commands that have the options move here one by one")]
pub(crate) mod options;
