//! An engine runs compaction steps under `catch_unwind`, and its own code (an extractor, a hash, a filter builder)
//! panics once. The failure guarded against: the step is retried, and a finished table has a key in its data but not in
//! its filter, so that the key is lost although every checksum matches. Or the engine's code reports impossible
//! numbers, and arithmetic with them ends the writer.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use sstfilter::{BlockBuilder, BuildContext, BuildReport, FallbackReason, KeyHasher};
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions, TableWriter};

use crate::callers::{Builder, Extractor, Policy};
use crate::container::CUTS;
use crate::key;

const KEYS: u32 = 1_000;

/// Panics in one call, and never again.
#[derive(Clone, Debug)]
struct Fuse(Arc<AtomicU32>);

impl Fuse {
    fn after(calls: u32) -> Self {
        Self(Arc::new(AtomicU32::new(calls + 1)))
    }

    fn burn(&self) {
        let left = self.0.load(Relaxed);
        self.0.store(left.saturating_sub(1), Relaxed);
        assert!(left != 1, "the caller's code panics, as planned");
    }
}

/// The call that panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Extract,
    Hash,
    Builder,
    AddKey,
    AddKeyLate,
    Finish,
}

/// Options with which `call` panics once, after `calls` successful calls.
fn options(call: Call, calls: u32) -> TableOptions {
    let fuse = Fuse::after(calls);
    let options = TableOptions::default().with_block_bytes(256).unwrap();
    match call {
        Call::Extract => options.with_extractor(Extractor::new("whole", move |key| {
            fuse.burn();
            Some(key)
        })),
        Call::Hash => {
            let hasher = KeyHasher::custom(1, move |key| {
                fuse.burn();
                KeyHasher::default().hash(key)
            });
            options.with_context(BuildContext::new(&hasher))
        }
        _ => options.with_policy(Policy::of(move |context| Some(panicking(call, &fuse, context)))),
    }
}

fn panicking(call: Call, fuse: &Fuse, context: &BuildContext) -> Builder {
    let (added, finished) = (fuse.clone(), fuse.clone());
    let burn_if = move |fuse: &Fuse, burning| {
        if call == burning {
            fuse.burn();
        }
    };
    burn_if(fuse, Call::Builder);
    Builder::new(context)
        .adding(move |inner, key| {
            burn_if(&added, Call::AddKey);
            inner.add_key(key);
            burn_if(&added, Call::AddKeyLate);
        })
        .finishing(move |inner| {
            burn_if(&finished, Call::Finish);
            inner.finish()
        })
}

fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}

/// Adds all keys, and retries each after a panic, as an engine might. Returns the number of panics, and the results of
/// the calls after the first one.
fn add_all(mut add: impl FnMut(&[u8]) -> Result<(), TableError>) -> (u32, Vec<Result<(), TableError>>) {
    let (mut panics, mut after) = (0, vec![]);
    for number in 0..KEYS {
        let mut step = || caught(|| add(&key(number)));
        match step() {
            None => {
                panics += 1;
                after.extend(step());
            }
            Some(result) if panics > 0 => after.push(result),
            Some(result) => result.unwrap(),
        }
    }
    (panics, after)
}

fn assert_poisoned<T: std::fmt::Debug>(result: &Result<T, TableError>, what: &str) {
    assert!(matches!(result, Err(TableError::Poisoned)), "{what}: expected a poisoned builder, got {result:?}");
}

fn files_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

// promise: no-false-negatives
// promise: documented-use
// misuse: panicking-hash
#[test]
fn a_builder_or_writer_whose_filter_may_lack_a_key_after_a_panic_finishes_no_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000001.sst");
    for call in [Call::Extract, Call::Hash, Call::AddKey, Call::AddKeyLate] {
        // The first key, one in the middle, and each around the end of a data block.
        for calls in (0..40).chain([500, KEYS - 1]) {
            let what = format!("{call:?} after {calls} calls");
            let mut builder = TableBuilder::new(Vec::new(), &options(call, calls)).unwrap();
            let (panics, after) = add_all(|key| builder.add(key, b"value"));
            assert_eq!(panics, 1, "{what}");
            after.iter().for_each(|result| assert_poisoned(result, &what));
            assert_poisoned(&builder.delete(b"zebra"), &what);
            assert_poisoned(&builder.finish().map(drop), &what);
        }
        let mut writer = TableWriter::create(&path, &options(call, 500)).unwrap();
        let (panics, after) = add_all(|key| writer.delete(key));
        assert_eq!(panics, 1, "{call:?}");
        after.iter().for_each(|result| assert_poisoned(result, "writer"));
        assert_poisoned(&writer.finish(), "writer");
        assert_eq!(files_in(directory.path()), 0, "{call:?}");
    }
}

// promise: no-false-negatives
#[test]
fn a_panic_while_the_filter_is_begun_or_finished_leaves_no_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000001.sst");
    let mut writer = TableWriter::create(&path, &options(Call::Builder, 0)).unwrap();
    assert!(caught(|| writer.add(b"key", b"value")).is_none(), "the policy is called with the first key");
    assert_poisoned(&writer.add(b"later", b"value"), "begun");
    assert_poisoned(&writer.finish(), "begun");
    let mut writer = TableWriter::create(&path, &options(Call::Finish, 0)).unwrap();
    writer.add(b"key", b"value").unwrap();
    assert!(caught(|| writer.finish()).is_none());
    assert_eq!(files_in(directory.path()), 0);

    let mut sink = Vec::new();
    let mut builder = TableBuilder::new(&mut sink, &options(Call::Finish, 0)).unwrap();
    builder.add(b"key", b"value").unwrap();
    assert!(caught(|| builder.finish().map(drop)).is_none());
    assert!(Table::open_source(bytes::Bytes::from(sink), &TableOptions::default()).is_err());
}

/// Panics in its second write.
struct PanickingSink(Fuse);

impl Write for PanickingSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.burn();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// promise: no-false-negatives
#[test]
fn a_builder_whose_sink_panicked_finishes_no_table() {
    let options = TableOptions::default().with_block_bytes(256).unwrap();
    let mut builder = TableBuilder::new(PanickingSink(Fuse::after(1)), &options).unwrap();
    let (panics, after) = add_all(|key| builder.add(key, b"value"));
    assert_eq!(panics, 1);
    after.iter().for_each(|result| assert_poisoned(result, "sink"));
    assert_poisoned(&builder.finish().map(drop), "sink");
}

/// A field of a report.
type Field = fn(&mut BuildReport) -> &mut u64;

/// Builds a table of 3,000 keys with a policy whose builders claim a number of bytes or keys, regardless of what they
/// build, and checks that every key is found. Returns the estimated bytes, the filter's report, and whether the table
/// has a filter.
fn report_of_boasting(options: &TableOptions, field: Field, claim: u64) -> (u64, BuildReport, bool) {
    let boastful = move |context: &BuildContext| {
        let claiming = move |inner: Box<dyn BlockBuilder>| {
            let mut built = inner.finish();
            *field(&mut built.report) = claim;
            built
        };
        Some(Builder::new(context).estimating(claim).finishing(claiming))
    };
    let options = options.clone().with_policy(Policy::of(boastful));
    let mut builder = TableBuilder::new(Vec::new(), &options).unwrap();
    (0..3_000).for_each(|number| builder.add(&key(number), b"value").unwrap());
    let estimate = builder.estimated_bytes();
    let (bytes, summary) = builder.finish().unwrap();
    let table = Table::open_source(bytes::Bytes::from(bytes), &TableOptions::default()).unwrap();
    assert!((0..3_000).all(|number| table.get(&key(number)).unwrap() == Lookup::Found(b"value"[..].into())));
    (estimate, summary.filter.unwrap(), summary.filter_bytes > 0)
}

// promise: never-fails-a-write
#[test]
fn a_builder_that_claims_all_bytes_and_keys_there_can_be_costs_no_table_and_no_key() {
    let [block_bytes, peak_bytes, keys]: [Field; 3] =
        [|report| &mut report.block_bytes, |report| &mut report.peak_build_bytes, |report| &mut report.distinct_keys];
    let whole = TableOptions::default();
    // The sum of two of the second claim wraps around to 0.
    for claim in [u64::MAX, 1 << 63] {
        for field in [block_bytes, peak_bytes, keys] {
            let (estimate, mut report, has_filter) = report_of_boasting(&whole, field, claim);
            assert!(estimate >= claim && *field(&mut report) == claim && has_filter);
        }
        for cut in CUTS {
            let options = whole.clone().with_partitioned_filter(PartitionOptions::new(cut, 1_024).unwrap());
            let (estimate, _, has_filter) = report_of_boasting(&options, block_bytes, claim);
            assert!(has_filter && (cut == PartitionCut::HashRange || estimate == u64::MAX), "{estimate} bytes");
            let (_, report, has_filter) = report_of_boasting(&options, peak_bytes, claim);
            assert!(has_filter && report.peak_build_bytes >= claim, "{report:?}");
            let (_, report, has_filter) = report_of_boasting(&options, keys, claim);
            assert!(!has_filter && report.reason == FallbackReason::TooManyKeys, "{report:?}");
        }
    }
}
