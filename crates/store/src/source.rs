//! What an engine implements if its lookups may wait for a read.

use core::ops::Range;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// Reads the filter bytes of one file, for engines whose lookups may wait for a read.
pub trait FilterSource: Send + Sync {
    /// Returns the bytes in `range`, counted from the first of the filter bytes. Return a separate allocation: a slice
    /// of a larger one keeps all of it in memory, but counts only its own bytes.
    ///
    /// The range comes from the file's description, which may be wrong: compare its end with the file's length before
    /// allocating memory.
    ///
    /// Probing threads call it, one at a time for each filter or partition. A panic propagates to the caller of the
    /// lookup.
    ///
    /// # Errors
    ///
    /// After an error the filter answers "may be present", and is tried again after 64 probes, then ever more rarely.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

impl<T: FilterSource + ?Sized> FilterSource for Arc<T> {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        (**self).read(range)
    }
}

impl FilterSource for Bytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let range = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = range.and_then(|(start, end)| self.get(start..end)).ok_or(io::ErrorKind::UnexpectedEof)?;
        // Shares the allocation instead of copying.
        Ok(self.slice_ref(bytes))
    }
}
