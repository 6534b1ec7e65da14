//! An engine runs compaction steps under `catch_unwind`, and its own code (an extractor, a hash, a filter builder)
//! panics once. The failure guarded against: the step is retried, and a finished table has a key in its data but not in
//! its filter, so that the key is lost although every checksum matches. Or the engine's code reports impossible
//! numbers, and arithmetic with them ends the writer.

use std::borrow::Cow;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use sstfilter::{
    BlockBuilder, BuildContext, BuildReport, BuiltFilter, FallbackReason, FilterPolicy, FixedPolicy, KeyExtractor,
    KeyHash, KeyHasher,
};
use sstfilter_store::{PartitionCut, PartitionOptions};
use sstfilter_table::{Lookup, Table, TableBuilder, TableError, TableOptions, TableWriter};

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

#[derive(Debug)]
struct PanickingExtractor(Fuse);

impl KeyExtractor for PanickingExtractor {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn extract<'key>(&self, key: &'key [u8]) -> Option<Cow<'key, [u8]>> {
        self.0.burn();
        Some(Cow::Borrowed(key))
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

#[derive(Debug)]
struct PanickingPolicy(Call, Fuse);

impl FilterPolicy for PanickingPolicy {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        if self.0 == Call::Builder {
            self.1.burn();
        }
        let inner = FixedPolicy::default().builder(context);
        Some(Box::new(PanickingBuilder { call: self.0, fuse: self.1.clone(), inner }))
    }
}

#[derive(Debug)]
struct PanickingBuilder {
    call: Call,
    fuse: Fuse,
    inner: Box<dyn BlockBuilder>,
}

impl BlockBuilder for PanickingBuilder {
    fn add_key(&mut self, key: &[u8]) {
        if self.call == Call::AddKey {
            self.fuse.burn();
        }
        self.inner.add_key(key);
        if self.call == Call::AddKeyLate {
            self.fuse.burn();
        }
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.inner.add_hash(hash);
    }

    fn estimated_bytes(&self) -> u64 {
        self.inner.estimated_bytes()
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        if self.call == Call::Finish {
            self.fuse.burn();
        }
        self.inner.finish()
    }
}

/// Options with which `call` panics once, after `calls` successful calls.
fn options(call: Call, calls: u32) -> TableOptions {
    let fuse = Fuse::after(calls);
    let options = TableOptions::default().with_block_bytes(256).unwrap();
    match call {
        Call::Extract => options.with_extractor(Arc::new(PanickingExtractor(fuse))),
        Call::Hash => {
            let hasher = KeyHasher::custom(1, move |key| {
                fuse.burn();
                KeyHasher::default().hash(key)
            });
            options.with_context(BuildContext::new(&hasher))
        }
        _ => options.with_policy(Arc::new(PanickingPolicy(call, fuse))),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:04}").into_bytes()
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

const ADDING: [Call; 4] = [Call::Extract, Call::Hash, Call::AddKey, Call::AddKeyLate];

// promise: no-false-negatives
// promise: documented-use
// misuse: panicking-hash
#[test]
fn a_builder_whose_filter_may_lack_a_key_after_a_panic_finishes_no_table() {
    for call in ADDING {
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
    }
}

fn files_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

// promise: no-false-negatives
// promise: documented-use
#[test]
fn a_writer_whose_filter_may_lack_a_key_after_a_panic_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000001.sst");
    for call in ADDING {
        for calls in [0, 500] {
            let what = format!("{call:?} after {calls} calls");
            let mut writer = TableWriter::create(&path, &options(call, calls)).unwrap();
            let (panics, after) = add_all(|key| writer.delete(key));
            assert_eq!(panics, 1, "{what}");
            after.iter().for_each(|result| assert_poisoned(result, &what));
            assert_poisoned(&writer.finish(), &what);
            assert_eq!(files_in(directory.path()), 0, "{what}");
        }
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
    assert_eq!(files_in(directory.path()), 0);
    let mut writer = TableWriter::create(&path, &options(Call::Finish, 0)).unwrap();
    writer.add(b"key", b"value").unwrap();
    assert!(caught(|| writer.finish()).is_none());
    assert_eq!(files_in(directory.path()), 0);

    let mut sink = Vec::new();
    let mut builder = TableBuilder::new(&mut sink, &options(Call::Finish, 0)).unwrap();
    builder.add(b"key", b"value").unwrap();
    assert!(caught(|| builder.finish().map(drop)).is_none());
    assert!(Table::open_source(bytes::Bytes::from(sink), &sstfilter_table::TableOptions::default()).is_err());
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

/// A user-defined policy whose builders claim a number of bytes or keys, regardless of what they build.
#[derive(Debug)]
struct Boastful(Field, u64);

#[derive(Debug)]
struct BoastfulBuilder(Field, u64, Box<dyn BlockBuilder>);

impl FilterPolicy for Boastful {
    fn name(&self) -> &'static str {
        "boastful"
    }

    fn builder(&self, context: &BuildContext) -> Option<Box<dyn BlockBuilder>> {
        Some(Box::new(BoastfulBuilder(self.0, self.1, FixedPolicy::default().builder(context))))
    }
}

impl BlockBuilder for BoastfulBuilder {
    fn add_key(&mut self, key: &[u8]) {
        self.2.add_key(key);
    }

    fn add_hash(&mut self, hash: KeyHash) {
        self.2.add_hash(hash);
    }

    fn estimated_bytes(&self) -> u64 {
        self.1
    }

    fn finish(self: Box<Self>) -> BuiltFilter {
        let mut built = self.2.finish();
        *(self.0)(&mut built.report) = self.1;
        built
    }
}

/// Builds a table of 3,000 keys with such a policy, and checks that every key is found. Returns the estimated bytes,
/// the filter's report, and whether the table has a filter.
fn report_of_boasting(options: &TableOptions, field: Field, claim: u64) -> (u64, BuildReport, bool) {
    let options = options.clone().with_policy(Arc::new(Boastful(field, claim)));
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
        for cut in [PartitionCut::KeyRange, PartitionCut::HashRange] {
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
