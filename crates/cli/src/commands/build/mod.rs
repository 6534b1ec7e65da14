//! `sstfilter build`: writes tables from lines of keys, or with generated keys.

mod directory;
pub(crate) mod run;
mod write;
