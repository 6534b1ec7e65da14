//! `sstfilter compare`: all kinds of filter on the user's own keys or on made-up ones, on an equal footing; or range
//! filters for them.

mod keys;
mod page;
pub(crate) mod ranges;
pub(crate) mod rows;
pub(crate) mod run;
