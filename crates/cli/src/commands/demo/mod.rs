//! `sstfilter demo`: what filters save, on real names and real tables.

mod keys;
pub(crate) mod run;
mod scenes;
