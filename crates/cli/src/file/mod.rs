//! Files: which ones a command is about, what they are, and how they are opened and replaced.

pub(crate) mod blocks;
pub(crate) mod context;
pub(crate) mod database;
pub(crate) mod key_list;
pub(crate) mod look;
pub(crate) mod map;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod problem;
pub(crate) mod replace;
pub(crate) mod walk;
