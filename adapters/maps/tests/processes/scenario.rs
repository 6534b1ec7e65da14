//! Processes that work with maps at once, and are killed in the middle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use sstfilter::{FalsePositiveRate, FileId, Filters, KeyHash};
use sstfilter_map::MapOptions;
use sstfilter_map_store::{Cuts, MapReader, MapWriter, ReaderOptions, Snapshot};
use tempfile::TempDir;

use crate::disk::Disk;
use crate::object_store::ObjectStore;
use crate::object_store::path::Path;
use crate::process::{Process, Requests, Result, say};

/// The folder of the maps.
const MAPS: &str = "maps";

/// Files of a batch, which has one map.
const FILES: u64 = 5;

const KEYS: u64 = 100;

/// Batches before the first kill.
const BEFORE_KILLS: u64 = 16;

/// Days, which are cuts: a batch is of one.
const DAYS: u64 = 2;

/// The hash of a key of a file. Each 16th key is in two files.
fn hash(file: u64, key: u64) -> KeyHash {
    let owner = if key.is_multiple_of(16) { file / 2 + (1 << 40) } else { file };
    Filters::default().hash(&(owner << 20 | key).to_le_bytes())
}

/// The hash of a key that no file has.
fn absent(key: u64) -> KeyHash {
    Filters::default().hash(&(1 << 63 | key).to_le_bytes())
}

/// The ids of the first files.
fn ids(files: u64) -> Vec<FileId> {
    (0..files).map(|file| FileId::from_fingerprint(KeyHash::mix(file ^ 0xf11e << 40).get())).collect()
}

fn writer(store: Arc<Disk>) -> Result<MapWriter> {
    let options = MapOptions::for_entries(1 << 20, FalsePositiveRate::ONE_PERCENT)?;
    Ok(MapWriter::new(store, MAPS, &Filters::default(), options).with_fan_in(4))
}

/// A process that writes and merges maps: `[FOLDER, REPLACES]`.
pub(crate) async fn work(arguments: &[String]) -> Result<()> {
    let [folder, replaces] = arguments else { return Err(format!("no such role: {arguments:?}").into()) };
    let mut requests = Requests::new();
    let store = Arc::new(Disk::open(folder, replaces.parse()?)?);
    let writer = writer(store.clone())?;
    say("ready");
    loop {
        let request = requests.next().await?;
        match request.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["stop", ref at @ ..] => {
                store.stop(&at.join(" "));
                say("armed");
            }
            ["add", batch] => {
                let batch: u64 = batch.parse()?;
                let mut builder = writer.builder();
                for (file, id) in (0..).zip(ids((batch + 1) * FILES)).skip(usize::try_from(batch * FILES)?) {
                    builder.add_file(id, (0..KEYS).map(|key| hash(file, key)).collect());
                }
                writer.add(&format!("day-{}", batch % DAYS), builder).await?;
                say("added");
            }
            ["merge", day] => {
                while !writer.merge(day, |_| true).await?.inputs.is_empty() {}
                say("merged");
            }
            ["close"] => {
                say("closed");
                return Ok(());
            }
            _ => return Err(format!("a process cannot {request:?}").into()),
        }
    }
}

/// A store, and what was acknowledged: all files of the batches below `acknowledged`.
struct Test {
    folder: TempDir,
    store: Arc<Disk>,
    replaces: bool,
    next_batch: AtomicU64,
    is_over: AtomicBool,
}

impl Test {
    async fn start(&self) -> Result<Process> {
        Process::start(&[&self.folder.path().display().to_string(), &self.replaces.to_string()]).await
    }

    /// Adds a batch that no other process adds, and returns its number.
    async fn add(&self, process: &mut Process) -> Result<u64> {
        let batch = self.next_batch.fetch_add(1, Ordering::SeqCst);
        process.ask(&format!("add {batch}"), "added").await?;
        Ok(batch)
    }

    async fn reader(&self, cache_bytes: u64) -> Result<MapReader> {
        let mut options = ReaderOptions::default();
        options.cache_bytes = cache_bytes;
        Ok(MapReader::open(self.store.clone(), MAPS, &Filters::default(), options).await?)
    }

    /// Adds batches until the kills are over.
    async fn add_many(&self) -> Result<()> {
        let mut process = self.start().await?;
        while !self.is_over.load(Ordering::SeqCst) {
            self.add(&mut process).await?;
        }
        process.close().await
    }

    /// Looks up keys of the first files until the kills are over, with ever newer manifests.
    async fn look_up(&self, reader: &MapReader) -> Result<()> {
        let files = BEFORE_KILLS * FILES;
        while !self.is_over.load(Ordering::SeqCst) {
            reader.refresh().await?;
            check(&reader.snapshot(&ids(files), Cuts::All).await, files).await;
        }
        Ok(())
    }

    /// Kills writers and mergers at each of their steps. What a killed writer was to add is added by the next one.
    async fn kill(&self) -> Result<()> {
        for stop in ["before 1 .map", "after 1 .map", "before 1 manifest", "after 1 manifest"] {
            let mut victim = self.start().await?;
            let batch = self.next_batch.fetch_add(1, Ordering::SeqCst);
            victim.ask(&format!("stop {stop}"), "armed").await?;
            victim.ask(&format!("add {batch}"), "reached").await?;
            victim.kill().await?;
            let mut next = self.start().await?;
            next.ask(&format!("add {batch}"), "added").await?;
            while self.add(&mut next).await? % DAYS > 0 {}
            next.ask(&format!("stop {stop}"), "armed").await?;
            next.ask("merge day-0", "reached").await?;
            next.kill().await?;
        }
        self.is_over.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Checks that each file is in the answer for each of its keys. Files must be the first ones, in order.
async fn check(snapshot: &Snapshot, files: u64) {
    for (position, file) in (0..files).enumerate() {
        let hashes: Vec<_> = (0..KEYS).map(|key| hash(file, key)).collect();
        for (key, answer) in snapshot.candidates_each(&hashes).await.into_iter().enumerate() {
            assert!(answer.contains(&position), "key {key} of file {file} is lost");
        }
    }
}

pub(crate) async fn processes_that_are_killed_lose_no_file(replaces: bool) -> Result<()> {
    let folder = TempDir::with_prefix("sstfilter-maps-")?;
    let store = Arc::new(Disk::open(&folder.path().display().to_string(), replaces)?);
    let test = Test { folder, store, replaces, next_batch: AtomicU64::new(0), is_over: AtomicBool::new(false) };
    let mut process = test.start().await?;
    for _ in 0..BEFORE_KILLS {
        test.add(&mut process).await?;
    }
    let stale = test.reader(0).await?;
    let kept = stale.snapshot(&ids(BEFORE_KILLS * FILES), Cuts::All).await;
    let reader = test.reader(16 << 10).await?;
    tokio::try_join!(test.add_many(), test.add_many(), test.look_up(&reader), test.kill())?;

    for day in 0..DAYS {
        process.ask(&format!("merge day-{day}"), "merged").await?;
    }
    process.close().await?;
    let writer = writer(test.store.clone())?;
    for day in 0..DAYS {
        writer.merge_all(&format!("day-{day}"), |_| true).await?;
    }
    let swept = writer.sweep(Duration::ZERO).await?;
    let objects: Vec<_> = test.store.list(Some(&Path::from(MAPS))).try_collect().await?;
    let names = objects.iter().filter_map(|object| object.location.filename());
    let stored: BTreeSet<&str> = names.filter(|name| name.contains(".map")).collect();
    let manifest = writer.manifest().await?;
    let listed: BTreeSet<&str> = manifest.maps.iter().map(|map| map.object.as_str()).collect();
    assert_eq!((stored.len(), &stored), (2, &listed), "maps of killed processes are left, or gone");

    let files = test.next_batch.load(Ordering::SeqCst) * FILES;
    let reader = test.reader(0).await?;
    let snapshot = reader.snapshot(&ids(files), Cuts::All).await;
    assert_eq!(snapshot.uncovered(), Vec::<usize>::new(), "a manifest was lost");
    check(&snapshot, files).await;
    // One GET for each map.
    test.store.take_reads();
    let mut opened = 0;
    for key in 0..300 {
        opened += snapshot.candidates(absent(key)).await.len();
    }
    assert_eq!(test.store.take_reads().len(), 2 * 300, "GETs of absent lookups");
    assert!(opened < 10, "absent keys open {opened} files");
    // The maps of this snapshot are gone.
    check(&kept, BEFORE_KILLS * FILES).await;
    assert!(stale.statistics().missing > 0, "no reader was stale");
    println!("{files} files were acknowledged; 8 processes were killed, {swept} objects swept, and no key is lost");
    Ok(())
}
