//! Stores of 64 SSTs: flushed and all overlapping, or compacted into sorted runs.

use std::sync::Arc;
use std::time::Duration;

use slatedb::bytes::Bytes;
use slatedb::compactor::{
    Compaction, CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec, CompactionStatus, CompactorStateView,
    SourceId,
};
use slatedb::config::{CompactionWorkerOptions, CompactorOptions, FlushOptions, FlushType, Settings};
use slatedb::manifest::SsTableView;
use slatedb::object_store::ObjectStore;
use slatedb::object_store::path::Path;
use slatedb::{CompactorBuilder, Db, DbBuilder, VersionedManifest, WriteBatch};

use crate::AnyError;
use crate::contenders::{Contender, Parts};
use crate::counting::{CountingStore, ssts};
use crate::keys::SstKeys;

const PATH: &str = "store";

/// The layout of SSTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All in L0, each over the whole key range: a lookup probes all of them.
    L0,
    /// In four sorted runs: a lookup probes one SST of each.
    Runs,
}

const RUNS: usize = 4;

impl Layout {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::L0 => "l0",
            Self::Runs => "runs",
        }
    }
}

/// A store that one contender wrote.
pub(crate) struct Store {
    pub(crate) objects: Arc<CountingStore>,
    pub(crate) parts: Parts,
    pub(crate) sizes: Sizes,
}

/// Sections of a store's SSTs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) ssts: u64,
    pub(crate) filter: u64,
    pub(crate) index: u64,
    pub(crate) data: u64,
}

impl Sizes {
    fn of(manifest: &VersionedManifest) -> Self {
        let mut sizes = Self::default();
        for view in ssts(manifest) {
            let info = &view.sst.info;
            sizes.ssts += 1;
            sizes.filter += info.filter_len;
            sizes.index += info.index_len;
            sizes.data += if info.filter_len > 0 { info.filter_offset } else { info.index_offset };
        }
        sizes
    }
}

impl Store {
    /// Writes a store and closes it.
    pub(crate) async fn write(
        keys: &impl SstKeys,
        value: &Bytes,
        layout: Layout,
        contender: Contender,
        parts: Parts,
    ) -> Result<Self, AnyError> {
        let mut store = Self { objects: Arc::default(), parts, sizes: Sizes::default() };
        let rounds = if layout == Layout::Runs { RUNS } else { 1 };
        for round in 0..rounds {
            let db = Box::pin(store.builder(contender)?.build()).await?;
            for sst in keys.ssts() * round / rounds..keys.ssts() * (round + 1) / rounds {
                let mut batch = WriteBatch::new();
                keys.of_sst(sst).for_each(|key| batch.put_bytes(key, value.clone()));
                db.write(batch).await?;
                db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
            }
            let bytes: u64 = db.manifest().l0().iter().map(SsTableView::estimate_size).sum();
            db.close().await?;
            if layout == Layout::Runs {
                let sst_bytes = usize::try_from(bytes)? * RUNS / keys.ssts();
                store.compact(contender, round, sst_bytes).await?;
            }
        }
        let db = Box::pin(store.builder(contender)?.build()).await?;
        store.sizes = Sizes::of(&db.manifest());
        store.objects.learn(&db.manifest());
        db.close().await?;
        Ok(store)
    }

    /// A builder that keeps nothing in a cache. Nothing runs in the background.
    pub(crate) fn builder(&self, contender: Contender) -> Result<DbBuilder<Path>, AnyError> {
        let settings = Settings {
            min_filter_keys: 0,
            compactor_options: None,
            garbage_collector_options: None,
            manifest_poll_interval: Duration::from_hours(1),
            l0_max_ssts: 1_000,
            l0_max_ssts_per_key: 1_000,
            ..Settings::default()
        };
        let objects: Arc<dyn ObjectStore> = self.objects.clone();
        let builder = Db::builder(Path::from(PATH), objects).with_settings(settings).with_db_cache_disabled();
        contender.configure(self.parts, builder)
    }

    /// Compacts all of L0 into a new sorted run of SSTs of about `sst_bytes` bytes.
    async fn compact(&self, contender: Contender, run: usize, sst_bytes: usize) -> Result<(), AnyError> {
        let worker = CompactionWorkerOptions {
            max_sst_size: sst_bytes,
            max_subcompactions: 1,
            min_filter_keys: 0,
            compactions_poll_interval: POLL,
            ..CompactionWorkerOptions::default()
        };
        let options = CompactorOptions {
            poll_interval: POLL,
            commit_compacted_interval: POLL,
            worker: Some(worker),
            ..CompactorOptions::default()
        };
        let objects: Arc<dyn ObjectStore> = self.objects.clone();
        let builder = CompactorBuilder::new(Path::from(PATH), objects).with_options(options);
        let builder = builder.with_scheduler_supplier(Arc::new(AllOfL0));
        let compactor = Arc::new(contender.configure_compactor(self.parts, builder)?.build());
        let running = tokio::spawn({
            let compactor = Arc::clone(&compactor);
            async move { compactor.run().await }
        });
        while self.runs().await? <= run {
            tokio::time::sleep(POLL).await;
        }
        compactor.stop().await?;
        Ok(running.await??)
    }

    async fn runs(&self) -> Result<usize, AnyError> {
        let objects: Arc<dyn ObjectStore> = self.objects.clone();
        let admin = slatedb::admin::Admin::builder(PATH, objects).build();
        Ok(admin.read_manifest(None).await?.map_or(0, |manifest| manifest.compacted().len()))
    }
}

const POLL: Duration = Duration::from_millis(20);

/// Compacts everything in L0 into one new sorted run.
struct AllOfL0;

impl CompactionSchedulerSupplier for AllOfL0 {
    fn compaction_scheduler(&self, _: &CompactorOptions) -> Box<dyn CompactionScheduler + Send + Sync> {
        Box::new(Self)
    }
}

impl CompactionScheduler for AllOfL0 {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let manifest = state.manifest();
        let is_active = |compaction: &Compaction| {
            !matches!(compaction.status(), CompactionStatus::Completed | CompactionStatus::Failed)
        };
        let is_busy = state.compactions().is_some_and(|recent| recent.recent_compactions().any(is_active));
        if manifest.l0().is_empty() || is_busy {
            return Vec::new();
        }
        let sources = manifest.l0().iter().map(|view| SourceId::SstView(view.id)).collect();
        let destination = manifest.compacted().iter().map(|run| run.id + 1).max().unwrap_or(0);
        vec![CompactionSpec::new(sources, destination)]
    }
}
