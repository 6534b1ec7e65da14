//! Counts requests, bytes and memory, and compares rows.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use sstfilter::FileId;
use sstfilter_datafusion::{
    MAPPED_PARQUET, MappedListingFactory, RefreshOptions, Refreshed, map_part, refresh_listing,
};
use sstfilter_map::{FileMap, MapMerge};
use std::sync::Arc;

use super::cluster::{Cluster, Process, Request};
use super::data::{Data, rows};
use super::{Failure, MAX_IDS, Sizes, map_options};
use crate::requests::ABORT_AT;

type Outcome<T = ()> = Result<T, Failure>;

/// Queries whose requests are counted, of ids that files have; half as many of absent ones.
const COUNTED: usize = 200;

/// Files of the random queries: without maps, each of them is read by each query.
const FILES: usize = 16;

/// Random queries at once.
const AT_ONCE: usize = 16;

/// Rows of a file.
const ROWS: usize = 500;

/// A line of the table, and whether it holds.
fn line(what: &str, limit: &str, counted: &str, holds: bool) -> bool {
    println!("| {what} | {limit} | {counted} | {} |", if holds { "yes" } else { "**no**" });
    holds
}

pub async fn all(sizes: Sizes, folder: &Path) -> Outcome {
    println!("| | at most | counted | holds |\n|---|--:|--:|---|");
    let mut holds = true;
    let mut data = Data::new(1);
    let table = Table::new(folder, "events")?;
    data.write(&table.files, sizes.files, ROWS)?;
    {
        let mut cluster = Cluster::datafusion_distributed(&folder.join("distributed")).await?;
        holds &= points(&mut cluster, &table, &mut data).await?;
    }
    let mut cluster = Cluster::ballista(&folder.join("ballista")).await?;
    let second = Table::new(folder, "again")?.with_files_of(&table);
    holds &= points(&mut cluster, &second, &mut data).await?;
    let built = Table::new(folder, "built")?;
    let mut many = Data::new(2);
    many.write(&built.files, sizes.built_files, ROWS)?;
    holds &= build(&mut cluster, &built, folder).await?;
    let share = sizes.queries.div_ceil(8);
    let mut differ = compare_after_killed_executor(&mut cluster, &built, &mut many, share).await?;
    differ += random_queries(&mut cluster, folder, share).await?;
    let what = format!("{} random queries with kills, stale, damaged and missing maps: other rows", 8 * share);
    holds &= line(&what, "0", &differ.to_string(), differ == 0);
    drop(cluster);
    holds &= memory(sizes, folder).await?;
    if holds { Ok(()) } else { Err("a line of the table does not hold".into()) }
}

/// A folder of files, and one of the maps of their ids.
#[derive(Clone)]
struct Table {
    files: PathBuf,
    maps: PathBuf,
}

impl Table {
    fn new(folder: &Path, name: &str) -> Outcome<Self> {
        let table = Self { files: folder.join(name).join("files"), maps: folder.join(name).join("maps") };
        std::fs::create_dir_all(&table.files)?;
        std::fs::create_dir_all(&table.maps)?;
        Ok(table)
    }

    /// The same files, with maps of their own.
    fn with_files_of(self, other: &Self) -> Self {
        Self { files: other.files.clone(), ..self }
    }

    fn statement(&self) -> String {
        let (files, maps) = (self.files.display(), self.maps.display());
        format!(
            "CREATE EXTERNAL TABLE events (id VARCHAR, amount BIGINT, payload VARCHAR) STORED AS {MAPPED_PARQUET} \
             LOCATION '{files}/' OPTIONS ('maps.id' '{maps}/')"
        )
    }

    /// Makes the table in a session, with the files and maps of now.
    async fn create(&self, session: &SessionContext) -> Outcome {
        session.deregister_table("events")?;
        session.sql(&self.statement()).await?;
        Ok(())
    }

    async fn refresh(&self, session: &SessionContext) -> Outcome<Refreshed> {
        self.create(session).await?;
        Ok(refresh_listing(session, "events", "id", map_options()?, RefreshOptions::default()).await?)
    }

    fn is_file(&self, request: &Request) -> bool {
        Path::new("/").join(&request.path).starts_with(&self.files)
    }

    fn is_map(&self, request: &Request) -> bool {
        Path::new("/").join(&request.path).starts_with(&self.maps)
    }

    /// Returns the paths of the maps.
    fn map_files(&self) -> Outcome<Vec<PathBuf>> {
        let all = std::fs::read_dir(&self.maps)?.map(|entry| entry.map(|entry| entry.path()));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().filter(|path| path.extension().is_some_and(|end| end == "map")).collect())
    }
}

/// Builds the maps, and counts the requests of point queries.
async fn points(cluster: &mut Cluster, table: &Table, data: &mut Data) -> Outcome<bool> {
    let (name, started) = (cluster.name, Instant::now());
    let refreshed = table.refresh(&cluster.session).await?;
    eprintln!("{name}: {refreshed:?} in {:?}", started.elapsed());
    // Opens the maps.
    rows(&cluster.session, "id = ''").await?;
    cluster.asked()?;
    let (mut opened, mut have, mut most_map_gets, mut skipped, mut differ) = (0, 0, 0, 0, 0);
    let started = Instant::now();
    for query in 0..COUNTED + COUNTED / 2 {
        let id = if query < COUNTED { data.present_id() } else { data.random_id() };
        let found = rows(&cluster.session, &format!("id = '{id}'")).await?;
        differ += usize::from(found != data.rows_with(&id));
        let asked = cluster.asked()?;
        let by_workers = asked.workers.iter().flatten().chain(&asked.planner).filter(|request| table.is_file(request));
        let files: HashSet<_> = by_workers.map(|request| &request.path).collect();
        opened += files.len();
        have += data.files_with(&id);
        skipped += files.len().saturating_sub(data.files_with(&id));
        most_map_gets = most_map_gets.max(asked.planner.iter().filter(|request| table.is_map(request)).count());
        differ += asked.workers.iter().flatten().filter(|request| table.is_map(request)).count();
    }
    let queries = (COUNTED + COUNTED / 2) as f64;
    eprintln!("{name}: {:?} for a query", started.elapsed().div_f64(queries));
    let (per_query, exact) = (opened as f64 / queries, have as f64 / queries);
    let mut holds = line(
        &format!("{name}: files opened by a query for one id, of {}", data.len()),
        &format!("{:.3}", exact + 0.01),
        &format!("{per_query:.3}"),
        per_query <= exact + 0.01,
    );
    holds &= line(&format!("{name}: GETs of the map"), "2", &most_map_gets.to_string(), most_map_gets <= 2);
    let what = format!("{name}: files read that do not have the id, in {queries} queries");
    holds &= line(&what, "3", &skipped.to_string(), skipped <= 3);
    holds &= line(&format!("{name}: other rows, or maps read by executors"), "0", &differ.to_string(), differ == 0);
    Ok(holds)
}

/// Builds the map of many files as a job, and compares it with the map that one process builds.
async fn build(cluster: &mut Cluster, table: &Table, folder: &Path) -> Outcome<bool> {
    cluster.asked()?;
    let started = Instant::now();
    let refreshed = table.refresh(&cluster.session).await?;
    eprintln!("{}: {refreshed:?} in {:?}", cluster.name, started.elapsed());
    let asked = cluster.asked()?;
    let read: u64 =
        asked.workers.iter().flatten().filter(|request| table.is_file(request)).map(|request| request.bytes).sum();
    let column = column_bytes(&table.files)?;
    let maps: u64 = table.map_files()?.iter().map(|map| Ok(map.metadata()?.len())).sum::<std::io::Result<_>>()?;
    eprintln!("{read} bytes read, of a column of {column}; {maps} bytes of maps");
    let alone = Table::new(folder, "alone")?.with_files_of(table);
    let session = SessionContext::new();
    session.state_ref().write().table_factories_mut().insert(MAPPED_PARQUET.to_owned(), Arc::new(MappedListingFactory));
    session.register_udaf(map_part());
    let started = Instant::now();
    alone.refresh(&session).await?;
    eprintln!("one process: {:?}", started.elapsed());
    let is_equal = canonical(table)? == canonical(&alone)?;
    let both = asked.workers.iter().all(|worker| worker.iter().any(|request| table.is_file(request)));
    let files = std::fs::read_dir(&table.files)?.count();
    let mut holds = line(
        &format!("map of {files} files, built by two executors: bytes of one process"),
        "equal",
        if is_equal { "equal" } else { "other" },
        is_equal && both,
    );
    let ratio = read as f64 / column as f64;
    holds &= line("bytes read for it, over those of the column", "1.1", &format!("{ratio:.3}"), ratio <= 1.1);
    Ok(holds)
}

/// Returns the bytes of the column of ids.
fn column_bytes(folder: &Path) -> Outcome<u64> {
    let mut sum = 0;
    for file in std::fs::read_dir(folder)? {
        let reader = SerializedFileReader::new(std::fs::File::open(file?.path())?)?;
        for group in reader.metadata().row_groups() {
            sum += u64::try_from(group.column(0).compressed_size())?;
        }
    }
    Ok(sum)
}

/// Merges the maps of a folder into one, with an id that is always the same.
fn canonical(table: &Table) -> Outcome<Vec<u8>> {
    let bytes = table.map_files()?.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let maps = bytes.iter().map(FileMap::load_any).collect::<Result<Vec<_>, _>>()?;
    let mut merge = MapMerge::new(map_options()?);
    for map in &maps {
        merge.add_loaded(map, |_| true)?;
    }
    let mut merged = Vec::new();
    merge.finish(FileId::from_fingerprint(1), &mut merged)?;
    Ok(merged)
}

/// Compares the rows of random queries, while processes are killed and maps and files are stale, damaged or gone.
async fn random_queries(cluster: &mut Cluster, folder: &Path, share: usize) -> Outcome<usize> {
    let mut differ = 0;
    let session = cluster.session.clone();
    let (table, data) = (&Table::new(folder, "random")?, &mut Data::new(4));
    data.write(&table.files, FILES, ROWS)?;
    table.refresh(&session).await?;
    differ += compare(&session, table, data, share, "sound maps").await?;
    data.write(&table.files, FILES / 8, ROWS)?;
    differ += compare(&session, table, data, share, "stale maps").await?;
    differ += compare_after_killed_client(cluster, table, data, share).await?;
    let (one, other) =
        (sstfilter_ballista::session(&cluster.url).await?, sstfilter_ballista::session(&cluster.url).await?);
    data.write(&table.files, FILES / 8, ROWS)?;
    let both = tokio::join!(table.refresh(&one), table.refresh(&other));
    both.0?;
    both.1?;
    differ += compare(&session, table, data, share, "two refreshes at once").await?;
    for _ in 0..FILES / 8 {
        data.delete(&table.files)?;
    }
    differ += compare(&session, table, data, share, "files that are gone").await?;
    for map in table.map_files()? {
        let mut bytes = std::fs::read(&map)?;
        for page in bytes.chunks_mut(3 << 16) {
            page[page.len() / 2] ^= 4;
        }
        std::fs::write(map, bytes)?;
    }
    differ += compare(&session, table, data, share, "damaged maps").await?;
    for map in table.map_files()? {
        std::fs::remove_file(map)?;
    }
    differ += compare(&session, table, data, share, "missing maps").await?;
    Ok(differ)
}

/// Returns how many of some queries have other rows than they must have.
async fn compare(
    session: &SessionContext,
    table: &Table,
    data: &mut Data,
    queries: usize,
    when: &str,
) -> Outcome<usize> {
    table.create(session).await?;
    let started = Instant::now();
    let all: Vec<_> = (0..queries).map(|_| data.query()).collect();
    let answers = futures::stream::iter(all).map(|(predicate, expected)| async move {
        let found = rows(session, &predicate).await?;
        if found != expected {
            eprintln!("{when}: {predicate}: expected {expected:?}, got {found:?}");
        }
        Ok::<_, Failure>(usize::from(found != expected))
    });
    let differ = answers.buffer_unordered(AT_ONCE).try_fold(0, |sum, one| async move { Ok(sum + one) }).await?;
    eprintln!("{when}: {queries} queries in {:?}, {differ} with other rows", started.elapsed());
    Ok(differ)
}

/// Kills an executor while it reads files for a map, and starts another.
async fn compare_after_killed_executor(
    cluster: &mut Cluster,
    table: &Table,
    data: &mut Data,
    queries: usize,
) -> Outcome<usize> {
    let before = canonical(table)?;
    // All files are read once more.
    std::fs::remove_dir_all(&table.maps)?;
    std::fs::create_dir_all(&table.maps)?;
    cluster.asked()?;
    let (session, building) = (cluster.session.clone(), table.clone());
    let job = tokio::spawn(async move { building.refresh(&session).await.map_err(|error| error.to_string()) });
    let mut read = 0;
    while read < data.len() / 8 && !job.is_finished() {
        read += cluster.asked()?.workers[0].iter().filter(|request| table.is_file(request)).count();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let in_time = !job.is_finished();
    cluster.workers[0].kill()?;
    cluster.start_executor().await?;
    let started = Instant::now();
    let refreshed = job.await??;
    eprintln!("executor killed in the middle: {in_time}, after that {refreshed:?} in {:?}", started.elapsed());
    if !in_time || !cluster.has_scheduler() {
        return Err("the executor was not killed in the middle of the job".into());
    }
    if canonical(table)? != before {
        return Err("the map that is built after a kill has other bytes".into());
    }
    compare(&cluster.session.clone(), table, data, queries, "a killed executor").await
}

/// Has a client that refreshes maps end itself before it writes the manifest.
async fn compare_after_killed_client(
    cluster: &mut Cluster,
    table: &Table,
    data: &mut Data,
    queries: usize,
) -> Outcome<usize> {
    data.write(&table.files, FILES / 8, ROWS)?;
    let before = table.map_files()?.len();
    let max_ids = MAX_IDS.to_string();
    let arguments = ["refresh", &cluster.url, &table.statement(), "id", "--max-ids", &max_ids];
    let mut client =
        Process::start(table.maps.parent().ok_or("no folder")?, "client", &arguments, &[(ABORT_AT, "/manifest")])?;
    let (succeeded, after) = (client.wait()?, table.map_files()?.len());
    if succeeded || after == before {
        return Err("expected a client that ends between its map and the manifest".into());
    }
    let differ = compare(&cluster.session.clone(), table, data, queries, "a killed client").await?;
    table.refresh(&cluster.session).await?;
    Ok(differ)
}

/// Builds maps of many ids with a bound on memory.
async fn memory(sizes: Sizes, folder: &Path) -> Outcome<bool> {
    let table = Table::new(folder, "memory")?;
    Data::new(3).write(&table.files, 20, sizes.ids / 20)?;
    let cluster = Cluster::ballista(&folder.join("memory-cluster")).await?;
    let limit = RefreshOptions::default().memory_bytes;
    let before = cluster.peak_bytes().unwrap_or_default();
    let started = Instant::now();
    let refreshed = table.refresh(&cluster.session).await?;
    eprintln!("{} ids: {refreshed:?} in {:?}", sizes.ids, started.elapsed());
    let Some(peak) = cluster.peak_bytes() else {
        eprintln!("no /proc: the memory of executors was not measured");
        return Ok(true);
    };
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    eprintln!("before the job: {}", mebibytes(before));
    let what = format!("peak memory of an executor, {} ids", sizes.ids);
    let most = limit + limit / 10;
    Ok(line(&what, &mebibytes(most), &mebibytes(peak), peak <= most))
}
