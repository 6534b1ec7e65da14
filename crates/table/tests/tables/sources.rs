//! A table in memory whose reads are counted, and go wrong as a test plans.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use sstfilter::RandomAccess;
use sstfilter_table::{Table, TableOptions};

/// What a planned read does instead of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
}

#[derive(Debug)]
pub(crate) struct Source {
    bytes: Bytes,
    fault: Fault,
    reads: AtomicU64,
    /// Length of the last read.
    last_bytes: AtomicU64,
    /// Number of the read that meets with the fault.
    fault_at: AtomicU64,
    /// Offset of a byte that reads change.
    damaged_at: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Source {
    pub(crate) fn new(bytes: Bytes) -> Arc<Self> {
        Self::with_fault(bytes, Fault::Error)
    }

    pub(crate) fn with_fault(bytes: Bytes, fault: Fault) -> Arc<Self> {
        let (reads, last_bytes) = (0.into(), 0.into());
        Arc::new(Self { bytes, fault, reads, last_bytes, fault_at: NEVER.into(), damaged_at: NEVER.into() })
    }

    /// Opens a table from a new source.
    pub(crate) fn open(bytes: &Bytes, options: &TableOptions) -> (Table, Arc<Self>) {
        let source = Self::new(bytes.clone());
        (Table::open_source(source.clone(), options).unwrap(), source)
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    pub(crate) fn last_bytes(&self) -> u64 {
        self.last_bytes.load(Relaxed)
    }

    /// Plans the fault for the read after the next `reads`.
    pub(crate) fn plan_after(&self, reads: u64) {
        self.fault_at.store(self.reads() + reads, Relaxed);
    }

    /// Flips a bit of the byte at this offset in all reads from now on; in none if there is no offset.
    pub(crate) fn damage(&self, at: impl Into<Option<u64>>) {
        self.damaged_at.store(at.into().unwrap_or(NEVER), Relaxed);
    }
}

impl RandomAccess for Source {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.last_bytes.store(buf.len() as u64, Relaxed);
        if self.reads.fetch_add(1, Relaxed) == self.fault_at.load(Relaxed) {
            assert_eq!(self.fault, Fault::Error, "the caller's code panics, as planned");
            return Err(io::Error::other("as planned"));
        }
        self.bytes.read_exact_at(buf, offset)?;
        let place = self.damaged_at.load(Relaxed).checked_sub(offset);
        if let Some(byte) = place.and_then(|place| buf.get_mut(usize::try_from(place).unwrap())) {
            *byte ^= 1;
        }
        Ok(())
    }
}
