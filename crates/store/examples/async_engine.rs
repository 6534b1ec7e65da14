//! A small asynchronous engine: tables are objects in a store, and lookups wait for requests without blocking a thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sstfilter::{FalsePositiveRate, FileId};
use sstfilter_map::{MapIndex, MapOptions};
use sstfilter_store::{FileFilters, FilterReads, FilterStore, FilterView, PartitionOptions, ViewEdit};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TABLES: u64 = 10;
const TABLE_ENTRIES: u64 = 2_000;
const KEY: usize = 8; // bytes of a key; there are no values

fn key(number: u64) -> String {
    format!("{number:08}")
}

/// An object store. Each request takes a millisecond. One of `requests_per_failure` fails, unless that is 0.
#[derive(Default)]
struct Objects {
    stored: Mutex<HashMap<(&'static str, FileId), Bytes>>,
    requests: AtomicU64,
    requests_per_failure: AtomicU64,
}

impl Objects {
    fn put(&self, kind: &'static str, id: FileId, bytes: Bytes) {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, id), bytes);
    }

    async fn get(&self, kind: &'static str, id: FileId, range: std::ops::Range<u64>) -> Fallible<Bytes> {
        let number = self.requests.fetch_add(1, Relaxed) + 1;
        sleep(Duration::from_millis(1)).await;
        let is_failing = number.checked_rem(self.requests_per_failure.load(Relaxed)) == Some(0);
        let range = usize::try_from(range.start)?..usize::try_from(range.end)?;
        let object = self.stored.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, id)).cloned();
        let object = object.filter(|object| !is_failing && range.end <= object.len());
        object.map(|object| object.slice(range)).ok_or_else(|| "the store is unavailable".into())
    }
}

struct Engine {
    store: FilterStore,
    objects: Arc<Objects>,
    /// The tables. An engine with more to say of a table has a type of its own for them.
    view: Mutex<FilterView<FileFilters>>,
    in_vain: AtomicU64,
}

impl Engine {
    fn new(store: FilterStore) -> Fallible<Arc<Self>> {
        let engine = Self { view: FilterView::new(&store).into(), objects: Arc::default(), in_vain: 0.into(), store };
        (0..TABLES).try_for_each(|table| engine.flush((0..TABLE_ENTRIES).map(|entry| (entry * TABLES + table) * 2)))?;
        Ok(Arc::new(engine))
    }

    fn view(&self) -> FilterView<FileFilters> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a table of ascending keys. A larger engine would write its manifest before it uses the next view.
    fn flush(&self, numbers: impl Iterator<Item = u64>) -> Fallible<()> {
        let keys: Vec<_> = numbers.map(key).collect();
        let (id, view) = (FileId::random(), self.view());
        let mut builder = self.store.builder(id);
        keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
        let (filters, description) = builder.finish().seal();
        self.objects.put("filters", id, filters);
        self.objects.put("data", id, keys.concat().into());
        let table = Arc::new(self.store.open_without_source(description));
        let view = view.edited(ViewEdit::new().add_to_level_0(view.next_age(), table))?;
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        Ok(())
    }

    /// Performs the reads that filters and maps need for a lookup, and waits for those of other lookups. If this is
    /// dropped, so are its reads, and a lookup that waits takes them over.
    async fn load<'a>(&self, reads: impl Fn() -> FilterReads<'a, FileFilters>) {
        loop {
            let FilterReads { pending, ongoing, pages } = reads();
            if pending.is_empty() && ongoing.is_empty() && pages.is_empty() {
                return;
            }
            let mut requests = JoinSet::new();
            for (table, read) in pending {
                let (objects, id) = (self.objects.clone(), table.metadata().file_id());
                requests.spawn(async move {
                    let bytes = objects.get("filters", id, read.range()).await;
                    read.complete(bytes);
                });
            }
            for page in pages {
                let bytes = self.objects.get("map", page.map().map_id(), page.read().range()).await;
                page.complete(bytes);
            }
            requests.join_all().await;
            for (_, read) in ongoing {
                read.await;
            }
        }
    }

    /// Returns the keys of a table. A larger engine would read a block.
    async fn keys(&self, table: &FileFilters) -> Fallible<Bytes> {
        self.objects.get("data", table.metadata().file_id(), 0..TABLE_ENTRIES * KEY as u64).await
    }

    async fn has(&self, table: &FileFilters, key: &str) -> Fallible<bool> {
        let is_there = self.keys(table).await?.chunks(KEY).any(|other| other == key.as_bytes());
        self.in_vain.fetch_add((!is_there).into(), Relaxed);
        Ok(is_there)
    }

    async fn get(&self, key: &str) -> Fallible<bool> {
        let view = self.view();
        let mut candidates = view.candidates(key.as_bytes());
        self.load(|| candidates.reads()).await;
        while let Some(table) = candidates.next_file() {
            if self.has(table, key).await? {
                candidates.found();
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn get_many(&self, keys: &[String]) -> Fallible<Vec<bool>> {
        let (view, mut found) = (self.view(), vec![false; keys.len()]);
        let mut candidates = view.candidates_of_each(&keys.iter().map(String::as_bytes).collect::<Vec<_>>());
        self.load(|| candidates.reads()).await;
        while let tables @ [_, ..] = &*candidates.next_files().to_vec() {
            for &(position, table) in tables {
                found[position] = self.has(table, &keys[position]).await?;
                if found[position] {
                    candidates.found(position);
                }
            }
        }
        Ok(found)
    }

    /// Writes a map of all tables, which stays on the store. A table that cannot be read keeps its filter.
    async fn write_map(&self) -> Fallible<()> {
        let options = MapOptions::for_entries(TABLES * TABLE_ENTRIES, FalsePositiveRate::ONE_PERCENT)?;
        let (id, mut write) = (FileId::random(), self.view().write_map(options)?);
        for table in write.files() {
            if let Ok(keys) = self.keys(&table).await {
                write.add(&table, keys.chunks(KEY).map(|key| self.store.filters().hash(key)).collect())?;
            }
        }
        let mut bytes = Vec::new();
        let finish = move || write.finish(id, &mut bytes).map(|_| Bytes::from(bytes));
        let bytes = tokio::task::spawn_blocking(finish).await??;
        self.objects.put("map", id, bytes.clone());
        let index = Arc::new(MapIndex::load(&bytes, bytes.len() as u64, self.store.filters(), id)?);
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        *view = view.with_paged_maps(&[index])?;
        Ok(())
    }
}

/// Looks up a key many times at once.
async fn get_at_once(engine: Arc<Engine>, lookups: u64, number: u64) -> Vec<Fallible<bool>> {
    let get = |engine: Arc<Engine>| async move { engine.get(&key(number)).await };
    (0..lookups).map(|_| get(engine.clone())).collect::<JoinSet<_>>().join_all().await
}

async fn run() -> Fallible<()> {
    let partitioned = FilterStore::default().with_partitions(PartitionOptions::default());
    for (store, reads_of_filter) in [(FilterStore::default(), 1), (partitioned, 2)] {
        let engine = Engine::new(store.clone())?;
        assert!(get_at_once(engine.clone(), 64, 2_001).await.iter().all(|found| matches!(found, Ok(false))));
        let [requests, in_vain] = [&engine.objects.requests, &engine.in_vain].map(|count| count.load(Relaxed));
        println!("64 lookups of an absent key in {TABLES} tables: {requests} requests, {in_vain} of them in vain");
        assert_eq!(requests - in_vain, TABLES * reads_of_filter);
        // While lookups are cancelled and requests fail, the others find their key, unless a table cannot be read.
        let engine = Engine::new(store)?;
        engine.objects.requests_per_failure.store(7, Relaxed);
        for round in 0..30 {
            let cancelled = get_at_once(engine.clone(), 8, round * 2);
            let cancelled = tokio::spawn(timeout(Duration::from_micros(200 * round), cancelled));
            let found = get_at_once(engine.clone(), 8, round * 2).await;
            assert!(found.iter().all(|found| !matches!(found, Ok(false))) && cancelled.await.is_ok());
        }
        engine.objects.requests_per_failure.store(0, Relaxed);
        let found = engine.get_many(&(0..100).map(key).collect::<Vec<_>>()).await?;
        assert!(found.iter().zip([true, false].into_iter().cycle()).all(|(found, expected)| *found == expected));
        engine.write_map().await?;
        let before = engine.objects.requests.load(Relaxed);
        assert!(get_at_once(engine.clone(), 64, 3_000).await.iter().all(|found| matches!(found, Ok(true))));
        println!("64 lookups of a key with a map: {} requests", engine.objects.requests.load(Relaxed) - before);
    }
    Ok(())
}

fn main() -> Fallible<()> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(run())
}
