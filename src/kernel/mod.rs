//! The inner loops, over plain slices: the portable form of each.
//!
//! A kernel knows the bits of a payload and nothing of blocks, policies or files.

pub(crate) mod line;
pub(crate) mod parity;
pub(crate) mod sweep;
