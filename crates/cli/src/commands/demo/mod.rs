//! `sstfilter demo`: what filters save, on real names and real tables.

pub(crate) mod run;
mod scenes;
