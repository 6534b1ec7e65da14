//! An object store charges for each read, and a reader waits for it.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sstfilter::{Probe, RandomAccess};
use sstfilter_interop::{BlockHandle, Error, FilterUnit, ForeignTable, KeyBatch, Part};

use crate::fixtures::{self, Fixture};

/// A source that records each read, and fails on demand.
pub(crate) struct Watched {
    bytes: Bytes,
    reads: Mutex<Vec<BlockHandle>>,
    fails: AtomicBool,
    /// The number of a read that fails.
    failing_read: Option<usize>,
}

impl Watched {
    fn new(bytes: Bytes) -> Self {
        Self::failing_once(bytes, None)
    }

    pub(crate) fn failing_once(bytes: Bytes, failing_read: impl Into<Option<usize>>) -> Self {
        Self { bytes, reads: Mutex::default(), fails: AtomicBool::new(false), failing_read: failing_read.into() }
    }

    /// The reads since the last call.
    fn take(&self) -> Vec<BlockHandle> {
        std::mem::take(&mut *self.reads.lock().expect("no thread panics"))
    }
}

impl RandomAccess for &Watched {
    fn len(&self) -> io::Result<u64> {
        RandomAccess::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut reads = self.reads.lock().expect("no thread panics");
        let is_failing = self.fails.load(Ordering::Relaxed) || self.failing_read == Some(reads.len());
        reads.push(BlockHandle { offset, size: buf.len() as u64 });
        if is_failing {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.bytes.read_exact_at(buf, offset)
    }
}

/// Opens the table. The reads of opening it are not among the next ones that are taken.
fn opened<'a>(fixture: &Fixture, watched: &'a Watched) -> ForeignTable<&'a Watched> {
    let table = fixture.stated(ForeignTable::open(watched).expect("a sound table"));
    watched.take();
    table
}

// promise: other-engines
#[test]
fn opening_reads_footer_metaindex_and_properties_and_nothing_else() {
    for fixture in fixtures::all() {
        let watched = Watched::new(fixture.bytes());
        let table = fixture.stated(ForeignTable::open(&watched).expect("a sound table"));
        let reads = watched.take();
        let bytes: u64 = reads.iter().map(|read| read.size).sum();
        assert!(reads.len() <= 3, "{}: {reads:?}", fixture.file);
        assert!(bytes < 4_096, "{}: {bytes} bytes", fixture.file);
        drop(table);
        assert!(watched.take().is_empty());
    }
}

#[test]
fn a_full_filter_is_read_once() {
    for fixture in fixtures::all().into_iter().filter(|fixture| fixture.layout == "full" && fixture.has_usable_filter())
    {
        let watched = Watched::new(fixture.bytes());
        let table = fixture.stated(ForeignTable::open(&watched).expect("a sound table"));
        let keys: Vec<_> = table.user_keys().take(100).flatten().collect();
        watched.take();
        keys.iter().for_each(|key| assert_eq!(table.probe(key), Probe::MaybePresent));
        let reads = watched.take();
        assert_eq!(reads.len(), 1, "{}", fixture.file);
        let info = table.filter_info().expect("a filter");
        assert_eq!((info.unit, info.bytes + 5), (FilterUnit::Table, reads[0].size));
        assert!(watched.take().is_empty(), "{}", fixture.file);
    }
}

// promise: other-engines
#[test]
fn a_partition_is_read_when_a_key_falls_into_it_and_then_kept() {
    let is_partitioned = |layout: &str| ["partitioned", "decoupled"].contains(&layout);
    let mut partitions_in_all = 0;
    for fixture in
        fixtures::all().into_iter().filter(|fixture| is_partitioned(&fixture.layout) && fixture.has_usable_filter())
    {
        let keys: Vec<_> = fixture.open().user_keys().flatten().collect();
        let partitions = fixture.open().filter_info().expect("a filter").blocks;
        partitions_in_all += partitions;
        let watched = Watched::new(fixture.bytes());
        let table = opened(&fixture, &watched);
        let Some(first) = keys.first() else { continue };
        assert_eq!(table.probe(first), Probe::MaybePresent);
        // The index of partitions, and one of them.
        assert_eq!(watched.take().len(), 2, "{}", fixture.file);
        keys.iter().for_each(|key| assert_eq!(table.probe(key), Probe::MaybePresent));
        assert_eq!(watched.take().len(), partitions - 1, "{}", fixture.file);

        let batched = opened(&fixture, &watched);
        batched.probe_batch(&KeyBatch::new(keys.iter().map(Vec::as_slice)));
        assert_eq!(watched.take().len(), partitions + 1, "{}", fixture.file);
        let loaded = opened(&fixture, &watched);
        loaded.load_filter().expect("a sound filter");
        assert_eq!(watched.take().len(), partitions + 1, "{}", fixture.file);
        keys.iter().for_each(|key| assert_eq!(loaded.probe(key), Probe::MaybePresent));
        assert!(watched.take().is_empty(), "{}", fixture.file);
    }
    assert!(partitions_in_all > 100, "{partitions_in_all}");
}

#[test]
fn leveldb_needs_its_index_and_its_filter_block() {
    for fixture in
        fixtures::all().into_iter().filter(|fixture| fixture.layout == "per_data_block" && fixture.has_usable_filter())
    {
        let watched = Watched::new(fixture.bytes());
        let table = opened(&fixture, &watched);
        for number in 0..1_000_u32 {
            assert!(!matches!(table.probe(format!("{number:08}").as_bytes()), Probe::Unusable), "{}", fixture.file);
        }
        assert_eq!(watched.take().len(), 2, "{}", fixture.file);
    }
}

#[test]
fn threads_read_each_partition_once_between_them() {
    let fixture = fixtures::all().into_iter().find(|fixture| fixture.layout == "partitioned" && fixture.count > 500);
    let fixture = fixture.expect("a partitioned filter");
    let keys: Vec<_> = fixture.open().user_keys().flatten().collect();
    let partitions = fixture.open().filter_info().expect("a filter").blocks;
    let watched = Watched::new(fixture.bytes());
    let table = opened(&fixture, &watched);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| keys.iter().for_each(|key| assert_eq!(table.probe(key), Probe::MaybePresent)));
        }
    });
    assert_eq!(watched.take().len(), partitions + 1);
}

#[test]
fn a_read_that_failed_is_tried_again() {
    let mut probed = 0;
    for fixture in fixtures::all().into_iter().filter(Fixture::has_usable_filter) {
        let watched = Watched::new(fixture.bytes());
        let table = fixture.stated(ForeignTable::open(&watched).expect("a sound table"));
        let Some(Ok(key)) = table.user_keys().next() else { continue };
        watched.fails.store(true, Ordering::Relaxed);
        // A key without a prefix may be present, whatever the answer of a filter of prefixes.
        let Err(error) = table.try_probe(&key) else { continue };
        let Error::Io { part, kind, .. } = error else { panic!("{}: {error}", fixture.file) };
        assert!(matches!(part, Part::Filter | Part::PartitionIndex | Part::Index), "{part}");
        assert_eq!(kind, io::ErrorKind::TimedOut);
        watched.fails.store(false, Ordering::Relaxed);
        assert_eq!(table.probe(&key), Probe::MaybePresent, "{}", fixture.file);
        probed += 1;
    }
    assert!(probed > 150, "{probed}");
}
