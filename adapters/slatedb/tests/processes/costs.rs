//! The cost of absent lookups: the engine's counters, what the store was asked for, and what was promised.

use std::sync::Arc;

use slatedb::admin::Admin;
use slatedb::config::CheckpointOptions;
use slatedb::db_cache::SplitCache;
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_stats::{SST_FILTER_FALSE_POSITIVE_COUNT, SST_FILTER_NEGATIVE_COUNT, SST_FILTER_POSITIVE_COUNT};
use slatedb::instrumented_object_store_stats::REQUEST_COUNT;
use slatedb::manifest::{SortedRun, SsTableView};
use slatedb::{DbReader, DbReaderMode, VersionedManifest};
use slatedb_common::metrics::{DefaultMetricsRecorder, MetricValue};

use crate::disk::{Disk, Read};
use crate::process::Result;
use crate::roles::{Policy, STORE, verify};
use crate::rows;

/// The GETs of an absent lookup. An SST covers a key if the key is in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// One for each covering SST (its filter), and two for each false positive (index and data).
    FilterThenFalsePositives,
    /// One for each false positive (data): filters and indexes are cached.
    FalsePositives,
    /// Two for each covering SST: index and data.
    IndexAndData,
    /// Three for each covering SST: a filter of another policy, index and data.
    UselessFilterIndexAndData,
}

/// Counts of one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// GETs, as the engine counts them.
    gets: u64,
    probes: u64,
    false_positives: u64,
}

/// Returns the newest manifest.
pub(crate) async fn manifest(store: &Arc<Disk>) -> Result<VersionedManifest> {
    let admin = Admin::builder(STORE, store.clone()).build();
    Ok(admin.read_manifest(None).await?.ok_or("the store has no manifest")?)
}

/// Returns all SSTs of a manifest.
pub(crate) fn ssts(manifest: &VersionedManifest) -> impl Iterator<Item = &SsTableView> {
    manifest.l0().iter().chain(manifest.compacted().iter().flat_map(SortedRun::sst_views))
}

/// Looks up absent keys in a reader with `policy`, and then all keys of the first batches. Returns the false positives.
pub(crate) async fn check(store: &Arc<Disk>, policy: Policy, promise: Promise, batches: u64) -> Result<u64> {
    let admin = Admin::builder(STORE, store.clone()).build();
    // A reader of a checkpoint does not poll: each GET belongs to a lookup.
    let checkpoint = admin.create_detached_checkpoint(&CheckpointOptions::default()).await?.id;
    let manifest = manifest(store).await?;
    let metrics = Arc::new(DefaultMetricsRecorder::new());
    let builder = DbReader::builder(STORE, store.clone())
        .with_reader_mode(DbReaderMode::Checkpoint(checkpoint))
        .with_metrics_recorder(metrics.clone());
    let builder = policy.configure(builder, |builder| builder.with_filter_policies(Vec::new()));
    let is_cached = promise == Promise::FalsePositives;
    // One shard, so that nothing is evicted before the whole cache is full.
    let metadata = FoyerCache::new_with_opts(FoyerCacheOptions { max_capacity: 64 << 20, shards: 1 });
    let cache = SplitCache::new().with_meta_cache(Some(Arc::new(metadata))).build();
    let builder = if is_cached { builder.with_db_cache(Arc::new(cache), 0) } else { builder.with_db_cache_disabled() };
    let reader = builder.build().await?;
    let absent = rows::absent();
    if is_cached {
        // The same keys meet the same false positives, so this caches every filter and index that they need.
        none_is_found(&reader, &absent).await?;
    }
    let before = engine_counts(&metrics);
    store.take_reads();
    none_is_found(&reader, &absent).await?;
    let (now, reads) = (engine_counts(&metrics), store.take_reads());
    reader.close().await?;
    // With the default cache, because reading every key without one takes seconds.
    let builder = DbReader::builder(STORE, store.clone()).with_reader_mode(DbReaderMode::Checkpoint(checkpoint));
    let reader = policy.configure(builder, |builder| builder.with_filter_policies(Vec::new())).build().await?;
    verify(&reader, batches, |_| ()).await?;
    reader.close().await?;

    let counts = Counts {
        gets: now.gets - before.gets,
        probes: now.probes - before.probes,
        false_positives: now.false_positives - before.false_positives,
    };
    compare(&manifest, &reads, counts, promise);
    Ok(counts.false_positives)
}

/// Compares the engine's counts and the store's reads with what was promised for the absent keys.
fn compare(manifest: &VersionedManifest, reads: &[Read], counts: Counts, promise: Promise) {
    let Counts { gets, probes, false_positives } = counts;
    let covers = |view: &&SsTableView, key: &[u8]| {
        let info = &view.sst.info;
        info.first_entry.as_deref() <= Some(key) && Some(key) <= info.last_entry.as_deref()
    };
    let covering_key = |key: &String| ssts(manifest).filter(|view| covers(view, key.as_bytes())).count() as u64;
    let covering = rows::absent().iter().map(covering_key).sum::<u64>();
    let (expected, expected_probes) = match promise {
        Promise::FilterThenFalsePositives => ([covering, false_positives, false_positives], covering),
        Promise::FalsePositives => ([0, 0, false_positives], covering),
        Promise::IndexAndData => ([0, covering, covering], 0),
        Promise::UselessFilterIndexAndData => ([covering; 3], 0),
    };
    // 0.84 % are expected. With none to cover, there would be nothing to compare.
    assert!(false_positives * 30 < covering, "{counts:?}, {promise:?}, {covering} covering SSTs");
    assert_eq!(by_section(manifest, reads), expected, "GETs of filters, indexes and data: {promise:?}");
    assert_eq!(gets, expected.iter().sum::<u64>(), "GETs that the engine counts: {promise:?}");
    assert_eq!(probes, expected_probes, "filters that were probed: {promise:?}");
}

async fn none_is_found(reader: &DbReader, absent: &[String]) -> Result<()> {
    for key in absent {
        assert_eq!(reader.get(key.as_bytes()).await?, None, "{key} was never written");
    }
    Ok(())
}

/// Returns how many reads were of exactly a filter section, of exactly an index section, and of data. No lookup needs
/// any other read.
fn by_section(manifest: &VersionedManifest, reads: &[Read]) -> [u64; 3] {
    let mut gets = [0; 3];
    for (path, range) in reads {
        let is_of = |view: &&SsTableView| path.as_ref().ends_with(&format!("/{}.sst", view.sst.id.value()));
        let view = ssts(manifest).find(is_of).unwrap_or_else(|| panic!("no lookup needs {path}"));
        let (info, range) = (&view.sst.info, range.clone().unwrap_or_else(|| panic!("no lookup needs all of {path}")));
        let section = if range == (info.filter_offset..info.filter_offset + info.filter_len) {
            0
        } else if range == (info.index_offset..info.index_offset + info.index_len) {
            1
        } else {
            assert!(range.end <= info.index_offset, "no lookup needs {range:?} of {path}");
            2
        };
        gets[section] += 1;
    }
    gets
}

fn engine_counts(metrics: &DefaultMetricsRecorder) -> Counts {
    let mut counts = Counts { gets: 0, probes: 0, false_positives: 0 };
    for metric in metrics.snapshot().all() {
        let MetricValue::Counter(count) = metric.value else { continue };
        let is_get = metric.labels.iter().any(|(label, value)| label == "api" && value.starts_with("get"));
        match metric.name.as_str() {
            REQUEST_COUNT if is_get => counts.gets += count,
            SST_FILTER_NEGATIVE_COUNT | SST_FILTER_POSITIVE_COUNT => counts.probes += count,
            SST_FILTER_FALSE_POSITIVE_COUNT => counts.false_positives += count,
            _ => {}
        }
    }
    counts
}
