//! Where filter bytes come from.

use core::ops::Range;
use std::io;

use bytes::Bytes;

/// Reads the filter bytes of one file, for engines whose lookups may wait for a read.
pub trait FilterSource: Send + Sync {
    /// The bytes in `range`, counted from the first of the filter bytes. They should be an allocation of their own: a
    /// slice of a larger one keeps all of it in memory, and counts only itself.
    ///
    /// A range comes from the file's description, and ends where that says: compare it with the file's length before
    /// making room for it.
    ///
    /// Called by threads that probe, one at a time for each filter or partition. A panic is passed on to the caller of
    /// the lookup.
    ///
    /// # Errors
    ///
    /// The filter then answers "may be present", and is tried again after 64 probes, and ever more rarely.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

impl FilterSource for Bytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = range.and_then(|(start, end)| self.get(start..end)).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(self.slice_ref(bytes))
    }
}
