//! `sstfilter demo`: what filters save, on real names and real tables, and how many keys accidents lose.

mod keys;
pub(crate) mod run;
mod scenes;
