//! The commands whose results are records.

pub(crate) mod advise;
pub(crate) mod build;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod filter;
pub(crate) mod get;
pub(crate) mod inspect;
pub(crate) mod listing;
pub(crate) mod map;
pub(crate) mod options;
pub(crate) mod probe;
pub(crate) mod rebuild;
pub(crate) mod report;
pub(crate) mod verify;
