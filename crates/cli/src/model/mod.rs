//! What is known about a file, whatever it is.

pub(crate) mod absent;
pub(crate) mod batch;
pub(crate) mod built;
pub(crate) mod costs;
pub(crate) mod describe;
pub(crate) mod engines;
pub(crate) mod file;
pub(crate) mod filters;
pub(crate) mod group;
pub(crate) mod judge;
pub(crate) mod keys;
pub(crate) mod lookup;
pub(crate) mod probe;
pub(crate) mod verify;
pub(crate) mod verify_map;
