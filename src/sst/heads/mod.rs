//! [Key heads](crate::key_head): the one shortcut of this module that a plain reader does without.
//!
//! Three places are worth it, by whole lookups of absent keys in 70 tables in memory (`cargo bench --bench sets`):
//!
//! - which tables have a key in their range ([`KeyRanges`]): a lookup takes 1.8 times as long without heads;
//! - searching a cached block ([`HeadedBlock`]): a lookup takes 2.7 times as long by restart points, which touch a
//!   dozen lines of the block in turn;
//! - finding the data block in a table's index ([`TableIndex`](super::index::TableIndex)): a lookup takes 1.05 times
//!   as long by whole keys, false positives included and blocks cached; 1.1 to 1.2 times on a busy machine.
//!
//! Rejected, because it made whole lookups hardly faster: vector instructions for the ranges. Whole keys side by side
//! cost more memory, and a second chain of loads.

mod block;
mod ranges;

pub(super) use block::HeadedBlock;
pub(super) use ranges::{InRange, KeyRanges};
