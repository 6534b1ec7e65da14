//! Processes that work with maps at once, and are killed in the middle.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use sstfilter::{FileId, Filters};
use sstfilter_map_store::{Cuts, MapReader, ReaderOptions};

use super::roles::map_writer;
use super::{
    Answer as MapAnswer, Batch, File, MAPS, MapRole, Request as MapRequest, Size, View, absent_key, hash, mix,
};
use crate::Result;
use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::process::Process;
use sstfilter_distributed::protocol::{Answer, Request};
use sstfilter_distributed::roles::object_store;
use sstfilter_distributed::server::LoggedRequest;

/// Files of a map that a writer adds.
const FILES_OF_BATCH: u64 = 5;

/// Days that writers add files to.
const DAYS: u64 = 2;

/// Batches before the first kill: enough for merges of both days.
const BEFORE_KILLS: usize = 16;

/// Batches that the other writer adds in a round, while processes are killed.
const MAX_BATCHES: usize = 60;

/// Keys of one request to a reader.
const KEYS_AT_ONCE: u64 = 40;

/// Keys of one request to a stale reader, which opens all files of maps that are gone.
const STALE_KEYS: u64 = 5;

/// How long the PUTs of a process wait that is to be killed between two of them, in milliseconds.
const PAUSE: u64 = 200;

/// Seconds after which maps are deleted that left the manifest. More than a writer needs from a map to the manifest.
const GRACE: u64 = 3;

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// Processes that were killed.
    pub(crate) kills: usize,
    /// Files that were acknowledged.
    pub(crate) files: usize,
    /// Merges that replaced maps in the manifest.
    pub(crate) merges: usize,
    /// Maps that were deleted: merged ones, and those of killed processes.
    pub(crate) deleted: usize,
    /// Lookups by reader processes, of present and absent keys. All were right.
    pub(crate) lookups: usize,
    /// Keys of acknowledged files whose candidates were checked in the end: all of them.
    pub(crate) keys: u64,
    /// Requests of stale readers for maps that had been deleted.
    pub(crate) missing: u64,
}

/// The acknowledged files, which all processes share.
#[derive(Debug)]
struct Engine {
    keys: u64,
    next: AtomicU64,
    acknowledged: Mutex<BTreeSet<File>>,
    lookups: AtomicU64,
}

impl Engine {
    fn batch(&self) -> Batch {
        let batch = self.next.fetch_add(1, Ordering::SeqCst);
        let first = batch * FILES_OF_BATCH;
        Batch { cut: format!("day-{}", batch % DAYS), files: (first..first + FILES_OF_BATCH).map(File).collect() }
    }

    fn acknowledged(&self) -> BTreeSet<File> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a batch, which counts once the writer has answered.
    async fn add(&self, writer: &mut Process, batch: Batch) -> Result<()> {
        writer.command(&Request::Maps(MapRequest::Add(batch.clone()))).await?;
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).extend(batch.files);
        Ok(())
    }

    /// Looks up keys of files that were acknowledged before, and absent keys, and compares the answers.
    async fn check(&self, reader: &mut Process, files: &BTreeSet<File>, seed: u64, view: View) -> Result<()> {
        let all: Vec<File> = files.iter().copied().collect();
        let count = if view == View::Kept { STALE_KEYS } else { KEYS_AT_ONCE };
        let keys: Vec<(u64, Option<(File, u64)>)> = (0..count)
            .map(|number| {
                let random = mix(seed << 20 | number);
                match all.get((random >> 32) as usize % (all.len() * 5 / 4).max(1)) {
                    Some(&file) => (file.key(random % self.keys), Some((file, random % self.keys))),
                    None => (absent_key(random), None),
                }
            })
            .collect();
        let request = MapRequest::Lookup(keys.iter().map(|(key, _)| *key).collect(), view);
        reader.send(&Request::Maps(request)).await?;
        for (key, of) in keys {
            let found = found(reader, key).await?;
            let expected = of.into_iter().flat_map(|(file, number)| [Some(file), file.twin(number)]).flatten();
            for file in expected.filter(|file| files.contains(file)) {
                if !found.contains(&file.name()) {
                    return Err(format!("key {key:#x} of {file:?} is lost: found in {found:?}").into());
                }
            }
            if of.is_none() && !found.is_empty() {
                return Err(format!("absent key {key:#x} was found in {found:?}").into());
            }
            self.lookups.fetch_add(1, Ordering::Relaxed);
        }
        match reader.answer().await? {
            Answer::Done => Ok(()),
            other => Err(format!("no end of a lookup: {other:?}").into()),
        }
    }
}

async fn found(reader: &mut Process, key: u64) -> Result<Vec<String>> {
    match reader.answer().await? {
        Answer::Maps(MapAnswer::Found(found, files)) if found == key => Ok(files),
        other => Err(format!("no answer for key {key:#x}: {other:?}").into()),
    }
}

async fn count(process: &mut Process, request: MapRequest) -> Result<usize> {
    match process.ask(&Request::Maps(request)).await? {
        Answer::Count(count) => Ok(count),
        other => Err(format!("no count: {other:?}").into()),
    }
}

/// Starts a process whose PUTs wait.
async fn start(cluster: &mut Cluster, role: &str, keys: u64, pause: u64) -> Result<(String, Process)> {
    let name = cluster.name(role);
    let config = MapRole { name: name.clone(), endpoint: cluster.endpoint().to_owned(), keys, pause };
    let process = cluster.start_process(role, &name, &config).await?;
    Ok((name, process))
}

/// Runs the processes and kills them, and checks in the end that nothing is lost.
///
/// # Errors
///
/// If a process fails, or a key is lost.
pub(crate) async fn run(cluster: &mut Cluster, size: &Size) -> Result<Story> {
    let engine =
        Engine { keys: size.keys, next: AtomicU64::new(0), acknowledged: Mutex::default(), lookups: AtomicU64::new(0) };
    let mut story = Story::default();
    let mut stale = Vec::new();
    for round in 0..size.rounds {
        stale.push(kill_while_others_work(cluster, &engine, round, &mut story).await?);
    }
    // All that was merged may be deleted now.
    tokio::time::sleep(Duration::from_secs(GRACE + 1)).await;
    let (_, mut merger) = start(cluster, "map-merger", engine.keys, 0).await?;
    story.deleted += count(&mut merger, MapRequest::Sweep(GRACE)).await?;
    for (round, (mut reader, files)) in (1_000..).zip(stale) {
        for seed in 0..4 {
            engine.check(&mut reader, &files, round * 10 + seed, View::Kept).await?;
        }
        match reader.ask(&Request::Maps(MapRequest::Statistics)).await? {
            Answer::Maps(MapAnswer::Statistics { missing, .. }) => story.missing += missing,
            other => return Err(format!("no statistics: {other:?}").into()),
        }
    }
    story.files = engine.acknowledged().len();
    story.lookups = engine.lookups.load(Ordering::Relaxed) as usize;
    story.keys = every_key(cluster, &engine).await?;
    Ok(story)
}

/// One round: a writer and a reader work all the time, while others are killed. Returns a reader with the manifest from
/// before, and the files that it must find.
async fn kill_while_others_work(
    cluster: &mut Cluster,
    engine: &Engine,
    round: u64,
    story: &mut Story,
) -> Result<(Process, BTreeSet<File>)> {
    let (_, mut writer) = start(cluster, "map-writer", engine.keys, 0).await?;
    let (_, mut reader) = start(cluster, "map-reader", engine.keys, 0).await?;
    let (_, mut stale) = start(cluster, "map-reader", engine.keys, 0).await?;
    for _ in 0..BEFORE_KILLS {
        engine.add(&mut writer, engine.batch()).await?;
    }
    let files = engine.acknowledged();
    engine.check(&mut stale, &files, round, View::Newest).await?;

    let is_over = AtomicBool::new(false);
    let write = async {
        for _ in 0..MAX_BATCHES {
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            engine.add(&mut writer, engine.batch()).await?;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok::<_, crate::Error>(())
    };
    let read = async {
        let mut seed = round << 10;
        while !is_over.load(Ordering::SeqCst) {
            engine.check(&mut reader, &engine.acknowledged(), seed, View::Newest).await?;
            seed += 1;
        }
        Ok::<_, crate::Error>(())
    };
    let kill = async {
        let result = kills(cluster, engine, round, story).await;
        is_over.store(true, Ordering::SeqCst);
        result
    };
    let (written, read, killed) = tokio::join!(write, read, kill);
    killed.and(written).and(read)?;
    Ok((stale, files))
}

fn is_map_name(key: &str) -> bool {
    key.strip_suffix(".map").is_some()
}

fn is_map(request: &LoggedRequest, name: &str, method: &str) -> bool {
    request.client == name && request.method == method && is_map_name(&request.key)
}

/// Kills a writer, a merger and a reader at each step, and restarts them.
async fn kills(cluster: &mut Cluster, engine: &Engine, round: u64, story: &mut Story) -> Result<()> {
    // A writer with its files and without a map, and one with a map that no manifest lists.
    for has_map in [false, true] {
        let batch = engine.batch();
        let (name, mut victim) = start(cluster, "map-writer", engine.keys, PAUSE).await?;
        victim.send(&Request::Maps(MapRequest::Add(batch.clone()))).await?;
        let is_step = |request: &LoggedRequest| {
            let is_file = request.client == name && request.method == "PUT" && request.key.starts_with(super::FILES);
            if has_map { is_map(request, &name, "PUT") } else { is_file }
        };
        cluster.wait_for_request("a file or a map", is_step).await?;
        victim.kill().await?;
        let (_, mut next) = start(cluster, "map-writer", engine.keys, 0).await?;
        engine.add(&mut next, batch).await?;
        next.command(&Request::Close).await?;
    }
    // A merger that reads its inputs, and one whose result no manifest lists.
    for method in ["GET", "PUT"] {
        let (name, mut victim) = start(cluster, "map-merger", engine.keys, PAUSE).await?;
        victim.send(&Request::Maps(MapRequest::Merge("day-0".to_owned()))).await?;
        cluster.wait_for_request("a map", |request| is_map(request, &name, method)).await?;
        victim.kill().await?;
    }
    let (_, mut merger) = start(cluster, "map-merger", engine.keys, 0).await?;
    for day in 0..DAYS {
        story.merges += count(&mut merger, MapRequest::Merge(format!("day-{day}"))).await?;
    }
    story.deleted += count(&mut merger, MapRequest::Sweep(GRACE)).await?;
    // A reader between two answers.
    let (_, mut victim) = start(cluster, "map-reader", engine.keys, 0).await?;
    let keys: Vec<u64> = (0..500).map(|number| File(number % FILES_OF_BATCH).key(number % engine.keys)).collect();
    victim.send(&Request::Maps(MapRequest::Lookup(keys.clone(), View::Newest))).await?;
    for &key in &keys[..20] {
        found(&mut victim, key).await?;
    }
    victim.kill().await?;
    let (_, mut next) = start(cluster, "map-reader", engine.keys, 0).await?;
    engine.check(&mut next, &engine.acknowledged(), round << 10 | 512, View::Newest).await?;
    story.kills += 5;
    Ok(())
}

/// Checks that each acknowledged file is in the answer for each of its keys, and that the manifest lists exactly the
/// maps that are stored.
async fn every_key(cluster: &mut Cluster, engine: &Engine) -> Result<u64> {
    let name = cluster.name("map-auditor");
    let store: Arc<dyn ObjectStore> = object_store(cluster.endpoint(), &name)?;
    let filters = Filters::default();
    let reader = MapReader::open(Arc::clone(&store), MAPS, &filters, ReaderOptions::default()).await?;
    let files: Vec<File> = engine.acknowledged().into_iter().collect();
    let ids: Vec<FileId> = files.iter().map(|file| file.id()).collect();
    let snapshot = reader.snapshot(&ids, Cuts::All).await;
    if !snapshot.uncovered().is_empty() {
        return Err(format!("no map covers {} acknowledged files", snapshot.uncovered().len()).into());
    }
    for (position, file) in files.iter().enumerate() {
        let answers = snapshot.candidates_each(&file.hashes(engine.keys, &filters)).await;
        if let Some(key) = answers.iter().position(|answer| !answer.contains(&position)) {
            return Err(format!("key {key} of {file:?} is lost").into());
        }
    }
    let absent: Vec<_> = (0..1_000).map(|number| hash(&filters, absent_key(number))).collect();
    let opened: usize = snapshot.candidates_each(&absent).await.iter().map(Vec::len).sum();
    if opened > absent.len() / 100 {
        return Err(format!("absent keys open {opened} files of 1,000 keys").into());
    }
    let manifest = map_writer(Arc::clone(&store), engine.keys)?.manifest().await?;
    let listed: BTreeSet<&str> = manifest.maps.iter().map(|map| map.object.as_str()).collect();
    let objects: Vec<_> = store.list(Some(&Path::from(MAPS))).try_collect().await?;
    let names = objects.iter().filter_map(|object| object.location.filename());
    let stored: BTreeSet<&str> = names.filter(|name| is_map_name(name)).collect();
    if stored != listed {
        return Err(format!("the manifest lists {listed:?}, stored are {stored:?}").into());
    }
    Ok(files.len() as u64 * engine.keys)
}
