//! Compactions, run until level 0 is empty.

use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::compactor::{
    Compaction, CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec, CompactorStateView, SourceId,
};
use slatedb::config::{CompactionWorkerOptions, CompactorOptions};
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{CompactorBuilder, Db};

use crate::common::PATH;

/// Compacts level 0 into a new sorted run, together with all sorted runs if there are three. The engine's own scheduler
/// never rests if it may compact a single source: it would compact the only sorted run again and again.
struct DrainLevel0;

const MAX_SORTED_RUNS: usize = 2;

impl CompactionSchedulerSupplier for DrainLevel0 {
    fn compaction_scheduler(&self, _options: &CompactorOptions) -> Box<dyn CompactionScheduler + Send + Sync> {
        Box::new(Self)
    }
}

impl CompactionScheduler for DrainLevel0 {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let (level_0, runs) = (state.manifest().l0(), state.manifest().compacted());
        let busy = state.compactions().is_some_and(|all| all.recent_compactions().any(Compaction::active));
        if level_0.is_empty() || busy {
            return vec![];
        }
        let sources = level_0.iter().map(|view| SourceId::SstView(view.id));
        let ids = runs.iter().map(|run| run.id);
        if runs.len() < MAX_SORTED_RUNS {
            return vec![CompactionSpec::new(sources.collect(), ids.max().map_or(0, |newest| newest + 1))];
        }
        let oldest = ids.clone().min().unwrap_or(0);
        vec![CompactionSpec::new(sources.chain(ids.map(SourceId::SortedRun)).collect(), oldest)]
    }
}

/// The intervals are those of tests: the defaults are seconds.
pub(crate) fn options() -> CompactorOptions {
    CompactorOptions {
        poll_interval: Duration::from_millis(2),
        commit_compacted_interval: Duration::from_millis(2),
        worker: Some(CompactionWorkerOptions {
            compactions_poll_interval: Duration::from_millis(2),
            min_filter_keys: 0,
            // Several would split a sorted run into SSTs with gaps between them, where no filter is probed.
            max_subcompactions: 1,
            ..CompactionWorkerOptions::default()
        }),
        ..CompactorOptions::default()
    }
}

/// A compactor that rests when level 0 is empty.
pub(crate) fn builder(store: &Arc<dyn ObjectStore>) -> CompactorBuilder<Path> {
    CompactorBuilder::new(Path::from(PATH), Arc::clone(store))
        .with_scheduler_supplier(Arc::new(DrainLevel0))
        .with_options(options())
}

/// Runs a standalone compactor until level 0 is empty.
pub(crate) async fn run(store: &Arc<dyn ObjectStore>, builder: CompactorBuilder<Path>) {
    if is_drained(store).await {
        // A compactor that is stopped before it has started runs forever.
        return;
    }
    let compactor = Arc::new(builder.build());
    let running = tokio::spawn({
        let compactor = Arc::clone(&compactor);
        async move { compactor.run().await }
    });
    let drained = async {
        while !is_drained(store).await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), drained).await.expect("level 0 is compacted");
    compactor.stop().await.expect("the compactor stops");
    running.await.expect("no panic").expect("no error");
}

async fn is_drained(store: &Arc<dyn ObjectStore>) -> bool {
    let manifest = Admin::builder(PATH, Arc::clone(store)).build().read_manifest(None).await.expect("a manifest");
    manifest.is_none_or(|manifest| manifest.l0().is_empty())
}

/// Waits until the compactor inside `db` has emptied level 0.
pub(crate) async fn embedded(db: &Db) {
    let drained = async {
        while !db.manifest().l0().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
            db.refresh_manifest().await.expect("a manifest");
        }
    };
    tokio::time::timeout(Duration::from_mins(1), drained).await.expect("level 0 is compacted");
}
