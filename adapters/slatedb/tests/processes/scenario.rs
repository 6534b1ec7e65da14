//! Processes at work on one store, and kills in the middle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slatedb::DbReader;
use slatedb::admin::Admin;
use sstfilter_slatedb::{FilterState, SlateFilters};
use tempfile::TempDir;

use crate::costs::{self, Promise};
use crate::disk::Disk;
use crate::process::{Process, Result};
use crate::roles::{Policy, STORE};

/// Batches of one SST of level 0.
const BATCHES_OF_SST: u64 = 4;

/// The engine compacts no fewer SSTs of level 0.
const COMPACTED_AT_ONCE: usize = 4;

/// The maximum wait for a compaction.
const PATIENCE: Duration = Duration::from_mins(2);

/// A store, and what was acknowledged.
struct Test {
    folder: TempDir,
    store: Arc<Disk>,
    /// All batches with lower numbers are written.
    batches: u64,
}

impl Test {
    fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("sstfilter-slatedb-")?;
        let store = Arc::new(Disk::open(&folder.path().display().to_string(), false)?);
        Ok(Self { folder, store, batches: 0 })
    }

    async fn start(&self, role: &str, stop: &str) -> Result<Process> {
        Process::start(&[role, &self.folder.path().display().to_string(), stop]).await
    }

    async fn write(&mut self, writer: &mut Process) -> Result<()> {
        writer.ask(&format!("write {}", self.batches), "written").await?;
        self.batches += 1;
        Ok(())
    }

    async fn write_sst(&mut self, writer: &mut Process) -> Result<()> {
        for _ in 0..BATCHES_OF_SST {
            self.write(writer).await?;
        }
        writer.ask("flush", "flushed").await.map(drop)
    }

    /// Starts a process that compacts, and kills it at a step before its sorted run is part of a manifest.
    async fn kill_compacting(&self, role: &str, stop: &str) -> Result<()> {
        let runs = costs::manifest(&self.store).await?.compacted().len();
        let mut process = self.start(role, stop).await?;
        process.expect("reached").await?;
        process.kill().await?;
        assert_eq!(costs::manifest(&self.store).await?.compacted().len(), runs, "{stop}: the manifest has its work");
        Ok(())
    }

    /// Kills the writer at a step of a write or a flush, and starts another one. Whether the batch of that write is
    /// durable is unknown, so the next writer writes it again.
    async fn kill_writer(&mut self, mut writer: Process, request: &str, stop: &str) -> Result<Process> {
        writer.ask(&format!("stop {stop}"), "armed").await?;
        let request = if request == "write" { format!("write {}", self.batches) } else { request.to_owned() };
        writer.ask(&request, "reached").await?;
        writer.kill().await?;
        let mut writer = self.start("writer", "").await?;
        self.write(&mut writer).await?;
        Ok(writer)
    }

    /// Kills a reader between two answers.
    async fn kill_reader(&self, mut reader: Process) -> Result<Process> {
        reader.ask(&format!("verify {}", self.batches), "looked up").await?;
        reader.kill().await?;
        self.start("reader", "").await
    }

    async fn verify(&self, reader: &mut Process) -> Result<()> {
        reader.send(&format!("verify {}", self.batches)).await?;
        while reader.answer().await? != "verified" {}
        Ok(())
    }

    /// Waits until few SSTs are left in level 0 and no compaction is active.
    async fn wait_for_compaction(&self, max_level_0: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let level_0 = costs::manifest(&self.store).await?.l0().len();
            let compactions = Admin::builder(STORE, self.store.clone()).build().read_compactions(None).await?;
            let active = compactions.map_or(0, |all| all.recent_compactions().filter(|one| one.active()).count());
            if level_0 <= max_level_0 && active == 0 {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{level_0} SSTs are left in level 0, {active} compactions are active").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the number of SSTs, and of those without a usable filter of ours.
    async fn audit(&self) -> Result<(usize, usize)> {
        let audit = SlateFilters::default().audit(DbReader::builder(STORE, self.store.clone())).await?;
        let without: Vec<_> = audit.without_usable_filter().collect();
        assert!(without.iter().all(|sst| sst.state == FilterState::OtherPolicy), "{audit}");
        Ok((audit.ssts.len(), without.len()))
    }

    async fn check(&self, policy: Policy, promise: Promise) -> Result<u64> {
        costs::check(&self.store, policy, promise, self.batches).await
    }

    /// Readers with and without our filters find every key at the promised cost. Returns the false positives.
    async fn check_all(&self) -> Result<u64> {
        let (ssts, without) = self.audit().await?;
        assert_eq!(without, 0, "of {ssts} SSTs");
        let false_positives = self.check(Policy::Ours, Promise::FilterThenFalsePositives).await?;
        assert_eq!(self.check(Policy::Ours, Promise::FalsePositives).await?, false_positives);
        self.check(Policy::None, Promise::IndexAndData).await?;
        self.check(Policy::BuiltIn, Promise::UselessFilterIndexAndData).await?;
        Ok(false_positives)
    }
}

pub(crate) async fn processes_that_are_killed_lose_no_acknowledged_key() -> Result<()> {
    let mut test = Test::new()?;
    let mut writer = test.start("writer", "").await?;
    for _ in 0..8 {
        test.write_sst(&mut writer).await?;
    }
    writer.close().await?;
    let false_positives = test.check_all().await?;
    assert!(false_positives > 0, "nothing shows that a false positive costs what it should");

    let mut writer = test.start("writer", "").await?;
    let mut readers = [test.start("reader", "").await?, test.start("reader", "").await?];
    for (compactor_stop, request, writer_stop) in [
        ("after 1 compacted/", "write", "before 1 wal/"),
        ("after 3 compacted/", "write", "after 1 wal/"),
        ("before 2 compacted/", "flush", "after 1 compacted/"),
        ("before 2 manifest/", "flush", "before 1 manifest/"),
    ] {
        test.kill_compacting("compactor", compactor_stop).await?;
        test.write_sst(&mut writer).await?;
        test.write(&mut writer).await?;
        let [one, other] = readers;
        readers = [test.kill_reader(other).await?, one];
        writer = test.kill_writer(writer, request, writer_stop).await?;
    }
    let compactor = test.start("compactor", "").await?;
    for _ in 0..COMPACTED_AT_ONCE {
        test.write_sst(&mut writer).await?;
    }
    test.wait_for_compaction(COMPACTED_AT_ONCE - 1).await?;
    compactor.close().await?;
    // Written and acknowledged, but in no SST yet: readers find it in the log.
    test.write(&mut writer).await?;
    for reader in &mut readers {
        test.verify(reader).await?;
    }
    writer.ask("flush", "flushed").await?;
    writer.close().await?;
    let manifest = costs::manifest(&test.store).await?;
    assert!(!manifest.compacted().is_empty() && !manifest.l0().is_empty(), "{manifest:?}");
    test.check_all().await?;
    println!("{} batches were acknowledged; 12 processes were killed, and no key is lost", test.batches);
    Ok(())
}

pub(crate) async fn workers_that_are_killed_leave_only_our_filters() -> Result<()> {
    let mut test = Test::new()?;
    let mut writer = test.start("writer", "").await?;
    for _ in 0..COMPACTED_AT_ONCE {
        test.write_sst(&mut writer).await?;
    }
    writer.close().await?;
    let coordinator = test.start("coordinator", "").await?;
    test.kill_compacting("worker", "after 1 compacted/").await?;
    let worker = test.start("worker", "").await?;
    test.wait_for_compaction(0).await?;
    worker.close().await?;
    coordinator.close().await?;
    test.check_all().await.map(drop)
}

/// Its compactions remove our filters: lookups then cost three GETs for each SST, and the audit lists the SSTs.
pub(crate) async fn a_compactor_without_our_filters_is_found() -> Result<()> {
    let mut test = Test::new()?;
    let mut writer = test.start("writer", "").await?;
    for _ in 0..COMPACTED_AT_ONCE {
        test.write_sst(&mut writer).await?;
    }
    writer.close().await?;
    let compactor = test.start("foreign-compactor", "").await?;
    test.wait_for_compaction(0).await?;
    compactor.close().await?;
    let (ssts, without) = test.audit().await?;
    assert!(ssts > 1 && without == ssts, "{without} of {ssts} SSTs are found");
    test.check(Policy::Ours, Promise::UselessFilterIndexAndData).await.map(drop)
}
