//! The numbers of writes, from `sstfilter-map`.

use bytes::Bytes;

pub(crate) use sstfilter_map::{FileWrites, KeyWrites, WriteId, Writes};

pub(crate) type WriteSet = sstfilter_map::WriteSet<Bytes>;

/// Returns the writes for which maps may exclude a file that states these; none if it may have any.
pub(crate) fn in_maps(file: &FileWrites) -> Option<Writes> {
    Some(file.writes()).filter(|writes| *writes != Writes::ALL)
}
