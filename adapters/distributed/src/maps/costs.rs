//! Counted lookups of absent keys: the requests and bytes that the server's log has.

use std::path::Path as FilePath;
use std::sync::Arc;

use futures::future::try_join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use sstfilter::{FileId, Filters};
use sstfilter_map_store::{Cuts, MapReader, MapWriter, ReaderOptions};

use super::layouts::{self, Transposed};
use super::{File, Size, absent_key, has_key, hash};
use crate::Result;
use crate::cluster::Cluster;
use crate::roles::object_store;

/// The folder of the files.
const FILES: &str = "cost/files";

/// Days, each of which has one map once its maps are merged.
const DAYS: u64 = 8;

/// Maps that are added before all of them are merged.
const ADDED: u64 = 64;

/// Keys of maps that are looked up at once.
const AT_ONCE: usize = 8;

/// Lookups of absent keys in one layout.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The layout that says which files to open.
    pub layout: String,
    /// Files that a lookup is about.
    pub files: u64,
    /// Bytes of maps or filters.
    pub stored: u64,
    /// Absent keys that were looked up.
    pub keys: u64,
    /// Maps that each lookup asks; none for other layouts.
    pub maps: Option<u64>,
    /// GETs of maps or filters.
    pub gets: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// GETs of files. None of them has the key.
    pub opened: u64,
}

/// The requests and bytes that writing the maps took, by the server's log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Maps that were added.
    pub added: u64,
    /// Maps that are left after merges.
    pub left: u64,
    /// GETs, of manifests and maps.
    pub gets: u64,
    /// Bytes that they returned.
    pub read: u64,
    /// PUTs and POSTs, of manifests, maps and parts of maps.
    pub puts: u64,
}

/// All counts.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// Lookups.
    pub lookups: Vec<Cost>,
    /// Writing maps of days, and one map.
    pub written: Vec<Written>,
}

/// Writes an object directly into the server's folder: through HTTP, 100,000 of them take minutes.
pub(super) fn write_object(objects: &FilePath, key: &str, bytes: &[u8]) -> Result<()> {
    let path = objects.join(key);
    let folder = path.parent().ok_or("a path without a folder")?;
    std::fs::create_dir_all(folder)?;
    Ok(std::fs::write(path, bytes)?)
}

fn path(file: File) -> String {
    format!("{FILES}/{}/{}", file.0 / 1_000, file.name())
}

/// Opens files, and returns how many have the key.
async fn open(store: &dyn ObjectStore, files: impl IntoIterator<Item = File>, key: u64) -> Result<usize> {
    let opened = files.into_iter().map(|file| async move {
        let bytes = store.get(&Path::from(path(file))).await?.bytes().await?;
        Ok::<_, crate::Error>(has_key(&bytes, key))
    });
    Ok(try_join_all(opened).await?.into_iter().filter(|&has| has).count())
}

/// Measures all layouts.
///
/// # Errors
///
/// If the server fails, or a key is lost.
pub async fn measure(cluster: &mut Cluster, size: &Size) -> Result<Costs> {
    let (files, keys) = size.counted;
    for file in (0..files).map(File) {
        write_object(&cluster.objects(), &path(file), &file.contents(keys))?;
    }
    let mut costs = Costs::default();
    let day = |map: u64| format!("day-{}", map * DAYS / ADDED);
    costs.written.push(write_maps(cluster, "cost/days", size, day).await?);
    costs.written.push(write_maps(cluster, "cost/one", size, |_| "all".to_owned()).await?);
    let all = 0..files;
    costs.lookups.push(maps(cluster, size, "one file map", "cost/one", &all, Cuts::All).await?);
    let daily = format!("{DAYS} daily file maps");
    costs.lookups.push(maps(cluster, size, &daily, "cost/days", &all, Cuts::All).await?);
    let first_day = 0..files / DAYS;
    let asked = format!("{DAYS} daily file maps, one day asked");
    costs.lookups.push(maps(cluster, size, &asked, "cost/days", &first_day, Cuts::Only(&["day-0"])).await?);
    costs.lookups.push(transposed(cluster, size).await?);
    costs.lookups.push(blooms(cluster, size).await?);
    Ok(costs)
}

/// Adds maps of all files, and merges them.
async fn write_maps(cluster: &mut Cluster, folder: &str, size: &Size, cut: impl Fn(u64) -> String) -> Result<Written> {
    let (files, keys) = size.counted;
    let (name, filters) = (cluster.name("cost-writer"), Filters::default());
    let store = object_store(cluster.endpoint(), &name)?;
    let writer = MapWriter::new(store, folder, &filters, Size::options(files, keys)?);
    let mut written = Written { added: ADDED, ..Written::default() };
    for map in 0..ADDED {
        let mut builder = writer.builder();
        for file in (map * files / ADDED..(map + 1) * files / ADDED).map(File) {
            builder.add_file(file.id(), file.hashes(keys, &filters));
        }
        writer.add(&cut(map), builder).await?;
        while !writer.merge(&cut(map), |_| true).await?.inputs.is_empty() {}
    }
    written.left = writer.manifest().await?.maps.len() as u64;
    for request in cluster.requests()?.iter().filter(|request| request.client == name) {
        if request.method == "GET" {
            written.gets += 1;
            written.read += request.bytes_sent;
        } else {
            written.puts += 1;
        }
    }
    Ok(written)
}

/// Looks absent keys up in maps, without a cache of pages, once their ends are loaded.
async fn maps(
    cluster: &mut Cluster,
    size: &Size,
    layout: &str,
    folder: &str,
    files: &std::ops::Range<u64>,
    cuts: Cuts<'_>,
) -> Result<Cost> {
    let (name, filters) = (cluster.name("cost-reader"), &Filters::default());
    let store: &Arc<dyn ObjectStore> = &object_store(cluster.endpoint(), &name)?;
    let mut options = ReaderOptions::default();
    options.cache_bytes = 0;
    let reader = MapReader::open(Arc::clone(store), folder, filters, options).await?;
    let ids: Vec<FileId> = files.clone().map(|file| File(file).id()).collect();
    let snapshot = &reader.snapshot(&ids, cuts).await;
    let before = cluster.requests()?.len();
    let absent: Vec<u64> = (0..size.absent[0]).map(absent_key).collect();
    for keys in absent.chunks(AT_ONCE) {
        try_join_all(keys.iter().map(|&key| async move {
            let found = snapshot.candidates(hash(filters, key)).await;
            open(store.as_ref(), found.into_iter().map(|position| File(files.start + position as u64)), key).await
        }))
        .await?;
    }
    let stored = snapshot.maps().iter().map(|map| map.bytes).sum();
    let maps = Some(snapshot.maps().len() as u64);
    let cost = counted(cluster, &name, before, layout, size.absent[0])?;
    // Keys that are there.
    for number in 0..200 {
        let file = File(files.start + number * 7919 % (files.end - files.start));
        let found = snapshot.candidates(hash(filters, file.key(number % size.counted.1))).await;
        if !found.contains(&((file.0 - files.start) as usize)) {
            return Err(format!("a key of {file:?} is lost").into());
        }
    }
    Ok(Cost { files: files.end - files.start, stored, maps, ..cost })
}

async fn transposed(cluster: &mut Cluster, size: &Size) -> Result<Cost> {
    let (files, keys) = size.counted;
    let groups = Transposed::new(files, keys);
    let name = cluster.name("cost-transposed");
    let store = object_store(cluster.endpoint(), &name)?;
    let stored = groups.write(store.as_ref(), keys).await?;
    let before = cluster.requests()?.len();
    for key in (0..size.absent[1]).map(absent_key) {
        let found = groups.probe(store.as_ref(), key).await?;
        open(store.as_ref(), found, key).await?;
    }
    let layout = "transposed filters, 1,389 files a group";
    let cost = counted(cluster, &name, before, layout, size.absent[1])?;
    for number in 0..5 {
        let file = File(number * 7919 % files);
        if !groups.probe(store.as_ref(), file.key(number)).await?.contains(&file) {
            return Err(format!("a key of {file:?} is lost in transposed filters").into());
        }
    }
    Ok(Cost { files, stored, ..cost })
}

async fn blooms(cluster: &mut Cluster, size: &Size) -> Result<Cost> {
    let (files, keys) = size.counted;
    let stored = layouts::write_blooms(&cluster.objects(), files, keys)?;
    let name = cluster.name("cost-bloom");
    let store = object_store(cluster.endpoint(), &name)?;
    let before = cluster.requests()?.len();
    for key in (0..size.absent[2]).map(absent_key) {
        let found = layouts::probe_blooms(store.as_ref(), files, key).await?;
        open(store.as_ref(), found, key).await?;
    }
    let cost = counted(cluster, &name, before, "a Bloom filter for each file", size.absent[2])?;
    Ok(Cost { files, stored, ..cost })
}

/// Counts what a client asked for since the log had `before` lines.
fn counted(cluster: &mut Cluster, name: &str, before: usize, layout: &str, keys: u64) -> Result<Cost> {
    let layout = layout.to_owned();
    let mut cost = Cost { layout, files: 0, stored: 0, keys, maps: None, gets: 0, bytes: 0, opened: 0 };
    for request in cluster.requests()?.iter().skip(before).filter(|request| request.client == name) {
        if request.method != "GET" || !request.complete || request.status >= 300 {
            return Err(format!("lookups sent {request:?}").into());
        }
        if request.key.starts_with(FILES) {
            cost.opened += 1;
        } else {
            cost.gets += 1;
            cost.bytes += request.bytes_sent;
        }
    }
    Ok(cost)
}
