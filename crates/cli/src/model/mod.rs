//! What is known about a file, whatever it is.

pub(crate) mod file;
pub(crate) mod keys;
