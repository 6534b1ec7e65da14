//! The processes that work with maps.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{ObjectStore, ObjectStoreExt};
use sstfilter::{FileId, Filters};
use sstfilter_map_store::{Cuts, MapReader, MapWriter, ReaderOptions, Snapshot};

use super::{Answer as MapAnswer, Batch, FILES, MAPS, MapRole, Request as MapRequest, Size, View, has_key, hash};
use crate::Result;
use sstfilter_distributed::protocol::{Answer, Request, Requests, say};
use sstfilter_distributed::roles::object_store;
use sstfilter_distributed::serve;

/// Few, so that maps are merged often.
const FAN_IN: usize = 4;

/// More files than rounds of kills write. All maps of a folder have the same options.
const MAX_FILES: u64 = 1 << 17;

/// So small that most pages leave the cache.
const CACHE_BYTES: u64 = 16 << 10;

/// Runs one role until its input ends.
///
/// # Errors
///
/// If a request cannot be read.
pub(crate) async fn run(role: &str, config: MapRole) -> Result<()> {
    // First, so that a process still ends with its input while it waits for a server that is gone.
    let requests = Requests::new();
    match role {
        "map-writer" => write(&config, requests).await,
        "map-merger" => merge(&config, requests).await,
        "map-reader" => read(&config, requests).await,
        _ => Err(format!("no role is called {role}").into()),
    }
}

/// Returns a client whose PUTs wait as long as the configuration says.
fn client(config: &MapRole) -> Result<Arc<dyn ObjectStore>> {
    let store = object_store(&config.endpoint, &config.name)?;
    if config.pause == 0 {
        return Ok(store);
    }
    let pause = ThrottleConfig { wait_put_per_call: Duration::from_millis(config.pause), ..ThrottleConfig::default() };
    Ok(Arc::new(ThrottledStore::new(store, pause)))
}

/// Returns a writer of maps for the rounds of kills.
pub(crate) fn map_writer(store: Arc<dyn ObjectStore>, keys: u64) -> Result<MapWriter> {
    Ok(MapWriter::new(store, MAPS, &Filters::default(), Size::options(MAX_FILES, keys)?).with_fan_in(FAN_IN))
}

async fn write(config: &MapRole, mut requests: Requests) -> Result<()> {
    let store = client(config)?;
    let maps = map_writer(Arc::clone(&store), config.keys)?;
    serve!(requests, request => {
        Request::Maps(MapRequest::Add(batch)) => { add(config, store.as_ref(), &maps, batch).await?; Answer::Done }
        Request::Close => Answer::Done,
    })
}

async fn add(config: &MapRole, store: &dyn ObjectStore, maps: &MapWriter, batch: Batch) -> Result<()> {
    let (filters, mut builder) = (Filters::default(), maps.builder());
    for file in &batch.files {
        builder.add_file(file.id(), file.hashes(config.keys, &filters));
    }
    try_join_all(batch.files.iter().map(|file| {
        let path = Path::from(format!("{FILES}/{}/{}", batch.cut, file.name()));
        async move { store.put(&path, file.contents(config.keys).into()).await }
    }))
    .await?;
    maps.add(&batch.cut, builder).await?;
    Ok(())
}

async fn merge(config: &MapRole, mut requests: Requests) -> Result<()> {
    let maps = map_writer(client(config)?, config.keys)?;
    serve!(requests, request => {
        Request::Maps(MapRequest::Merge(cut)) => {
            let mut merges = 0;
            while !maps.merge(&cut, |_| true).await?.inputs.is_empty() {
                merges += 1;
            }
            Answer::Count(merges)
        }
        Request::Maps(MapRequest::Sweep(seconds)) => Answer::Count(maps.sweep(Duration::from_secs(seconds)).await?),
        Request::Close => Answer::Done,
    })
}

async fn read(config: &MapRole, mut requests: Requests) -> Result<()> {
    let store = client(config)?;
    let mut options = ReaderOptions::default();
    options.cache_bytes = CACHE_BYTES;
    let reader = MapReader::open(Arc::clone(&store), MAPS, &Filters::default(), options).await?;
    let mut kept = None;
    serve!(requests, request => {
        Request::Maps(MapRequest::Lookup(keys, view)) => {
            if view == View::Newest || kept.is_none() {
                kept = Some(newest(store.as_ref(), &reader).await?);
            }
            let (files, snapshot) = kept.as_ref().ok_or("no snapshot")?;
            for key in keys {
                let found = look_up(store.as_ref(), files, snapshot, key).await?;
                say(&Answer::Maps(MapAnswer::Found(key, found)))?;
            }
            Answer::Done
        }
        Request::Maps(MapRequest::Statistics) => {
            let statistics = reader.statistics();
            Answer::Maps(MapAnswer::Statistics { missing: statistics.missing, unknown: statistics.unknown })
        }
        Request::Close => Answer::Done,
    })
}

/// Lists the engine's files, and loads the newest manifest of maps.
async fn newest(store: &dyn ObjectStore, reader: &MapReader) -> Result<(Vec<Path>, Snapshot)> {
    let files: Vec<Path> = store.list(Some(&Path::from(FILES))).map_ok(|object| object.location).try_collect().await?;
    let ids: Vec<FileId> = files.iter().map(id_of).collect::<Result<_>>()?;
    reader.refresh().await?;
    let snapshot = reader.snapshot(&ids, Cuts::All).await;
    Ok((files, snapshot))
}

fn id_of(file: &Path) -> Result<FileId> {
    let name = file.filename().unwrap_or_default();
    Ok(FileId::from_fingerprint(u64::from_str_radix(name, 16)?))
}

/// Opens the files that may have a key, and returns the names of those that have it.
async fn look_up(store: &dyn ObjectStore, files: &[Path], snapshot: &Snapshot, key: u64) -> Result<Vec<String>> {
    let candidates = snapshot.candidates(hash(&Filters::default(), key)).await;
    let opened = futures::stream::iter(candidates).map(|position| async move {
        let bytes = store.get(&files[position]).await?.bytes().await?;
        Ok::<_, crate::Error>(has_key(&bytes, key).then(|| files[position].filename().unwrap_or_default().to_owned()))
    });
    opened.buffer_unordered(8).try_filter_map(|found| async { Ok(found) }).try_collect().await
}
