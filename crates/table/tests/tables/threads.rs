//! Threads that share tables and filters. The failure guarded against: a slow read of one thread blocks all others,
//! because a lock is held across it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;
use sstfilter::{
    BlockBuilder, FilterBlock, FilterPolicy, FilterReader, FilterSet, KeyHasher, RandomAccess, RegisterBlockedBloom,
};
use sstfilter_store::{FileFilterBuilder, FileFilters, FilterStore, FilterView, PendingRead};
use sstfilter_table::{Table, TableBuilder, TableOptions, TablePart, TableSet, TableSnapshot, TableWriter};

use crate::{bytes_of, key, of_keys};

/// A disk on which one chosen read waits for a signal.
struct SlowDisk {
    bytes: Bytes,
    /// The offset from which a read is slow.
    slow_from: AtomicU64,
    began: Sender<()>,
    may_end: Mutex<Receiver<()>>,
}

const NOTHING_IS_SLOW: u64 = u64::MAX;

/// A slow read without a signal fails after this time, and with it the test.
const PATIENCE: Duration = Duration::from_secs(60);

impl RandomAccess for SlowDisk {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let is_slow = self.slow_from.compare_exchange(offset, NOTHING_IS_SLOW, Ordering::SeqCst, Ordering::SeqCst);
        if is_slow.is_ok() {
            self.began.send(()).unwrap();
            self.may_end.lock().unwrap().recv_timeout(PATIENCE).map_err(io::Error::other)?;
        }
        self.bytes.read_exact_at(buf, offset)
    }
}

fn table_bytes() -> Bytes {
    bytes_of(&of_keys((0..500).map(key)), &TableOptions::default().with_block_bytes(512).unwrap())
}

// promise: threads
#[test]
fn a_read_that_takes_long_holds_up_no_other_thread() {
    let bytes = table_bytes();
    let table = Table::open_source(bytes.clone(), &TableOptions::default()).unwrap();
    let index_offset = table.region(TablePart::Index).unwrap().start;
    for (what, slow_from) in [("first data block", 0), ("index", index_offset)] {
        for options in [TableOptions::default(), TableOptions::default().with_block_cache(1 << 30)] {
            let (began, has_begun) = channel();
            let (end, may_end) = channel();
            let slow_from = AtomicU64::new(slow_from);
            let disk = Arc::new(SlowDisk { bytes: bytes.clone(), slow_from, began, may_end: Mutex::new(may_end) });
            let set = crate::set_of(vec![Table::open_source(disk, &options).unwrap()]);
            thread::scope(|scope| {
                // Dropped if an assertion fails: the slow read then fails too, and nothing waits for it.
                let end = end;
                let slow = scope.spawn(|| set.get(&key(0)).unwrap().is_some());
                has_begun.recv_timeout(PATIENCE).unwrap();
                for number in 0..500 {
                    assert!(set.get(&key(number)).unwrap().is_some(), "{what}: key {number}");
                    assert!(set.multi_get(&[&key(number)])[0].as_ref().unwrap().is_some(), "{what}: key {number}");
                }
                assert_eq!(set.snapshot().all_tables().next().unwrap().iter().count(), 500, "{what}");
                assert!(set.snapshot().view().lookups() >= 1_000, "{what}");
                end.send(()).unwrap();
                assert!(slow.join().unwrap(), "{what}");
            });
        }
    }
}

// promise: threads
#[test]
fn what_is_read_can_be_shared_and_what_is_built_can_be_moved() {
    // A tuple is shared or moved if each of its types is.
    fn are_shared<T: Send + Sync>() {}
    fn are_moved<T: Send>() {}
    are_shared::<(KeyHasher, FilterBlock<Bytes>, FilterReader<Bytes>, FilterSet<Bytes>, RegisterBlockedBloom)>();
    are_shared::<(Table, TableSet, TableSnapshot, FilterView<Table>)>();
    are_shared::<(FilterStore, FileFilters, Arc<dyn FilterPolicy>)>();
    are_moved::<(PendingRead, FileFilterBuilder, TableBuilder<Vec<u8>>, TableWriter, Box<dyn BlockBuilder>)>();
}
