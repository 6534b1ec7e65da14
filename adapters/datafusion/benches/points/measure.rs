//! Queries, and the requests of each.

use std::collections::{HashMap, HashSet};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use fastrand::Rng;

use crate::AnyError;
use crate::counted::Request;
use crate::store::{MAPS, Store, id, ids};

/// The size of a measurement.
pub(crate) struct Size {
    pub(crate) files: usize,
    pub(crate) rows_per_file: usize,
    /// Queries with the map, half of them for ids that no file has.
    pub(crate) queries: usize,
    /// The first of them are repeated without the map, half of them absent, too.
    pub(crate) queries_without: usize,
}

impl Size {
    pub(crate) const FULL: Self = Self { files: 10_000, rows_per_file: 500, queries: 10_000, queries_without: 6 };
    pub(crate) const QUICK: Self = Self { files: 200, rows_per_file: 50, queries: 500, queries_without: 4 };
}

/// The costs of many queries.
#[derive(Default)]
pub(crate) struct Costs {
    pub(crate) queries: u64,
    pub(crate) files: u64,
    pub(crate) max_files: u64,
    pub(crate) map_requests: u64,
    pub(crate) max_map_requests: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Costs {
    fn add(&mut self, requests: &[Request]) {
        let (of_map, of_files): (Vec<_>, Vec<_>) =
            requests.iter().partition(|request| request.path.prefix_matches(&MAPS.into()));
        let (of_map, files) =
            (of_map.len() as u64, of_files.iter().map(|request| &request.path).collect::<HashSet<_>>());
        self.queries += 1;
        self.files += files.len() as u64;
        self.max_files = self.max_files.max(files.len() as u64);
        self.map_requests += of_map;
        self.max_map_requests = self.max_map_requests.max(of_map);
        self.requests += requests.len() as u64;
        self.bytes += requests.iter().map(|request| request.bytes).sum::<u64>();
    }

    pub(crate) fn per_query(&self, count: u64) -> f64 {
        count as f64 / self.queries as f64
    }
}

/// Everything that the page shows.
pub(crate) struct Results {
    pub(crate) size: Size,
    pub(crate) map_bytes: u64,
    /// Jobs that built the map, and the bytes of files that they read.
    pub(crate) build: (usize, u64),
    /// Requests to open the map, once per table.
    pub(crate) opening: u64,
    pub(crate) present: [Costs; 2],
    pub(crate) absent: [Costs; 2],
}

impl Results {
    /// Panics if a promise of the page is broken.
    pub(crate) fn check(&self) {
        let [present, absent] = [&self.present[0], &self.absent[0]];
        let per_present = present.per_query(present.files);
        assert!((1.0..=1.02).contains(&per_present), "files opened per present id: {per_present}");
        let per_absent = absent.per_query(absent.files);
        assert!(per_absent <= 0.02, "files opened per absent id: {per_absent}");
        for costs in [present, absent] {
            assert!(costs.max_map_requests <= 2, "requests for the map: {}", costs.max_map_requests);
        }
        for costs in [&self.present[1], &self.absent[1]] {
            assert_eq!(costs.files, costs.queries * self.size.files as u64, "files opened without the map");
        }
    }
}

type Rows = HashMap<String, Vec<i64>>;

fn rows(batches: &[RecordBatch]) -> Rows {
    let mut rows = Rows::new();
    for batch in batches {
        let (ids, amounts) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
        for (id, &amount) in ids.iter().zip(amounts.values()) {
            rows.entry(id.unwrap_or_default().to_owned()).or_default().push(amount);
        }
    }
    rows
}

async fn query(session: &SessionContext, table: &str, id: &str) -> Result<DataFrame, AnyError> {
    Ok(session.table(table).await?.filter(col("id").eq(lit(id)))?)
}

pub(crate) async fn run(size: Size) -> Result<Results, AnyError> {
    let store = Store::write(&size).await?;
    let session = store.tables().await?;
    let opening = store.requests().len() as u64;
    // All rows, without the map. Queries must have the same.
    let all = rows(&session.table("plain").await?.collect().await?);
    assert_eq!(all.len(), size.files * size.rows_per_file, "random ids are all different");
    let (mut present, mut absent): ([Costs; 2], [Costs; 2]) = Default::default();
    let mut random = Rng::with_seed(1 << 40);
    for number in 0..size.queries {
        let is_present = number % 2 == 0;
        let wanted = if is_present {
            let file = random.usize(..size.files);
            ids(file, &size).swap_remove(random.usize(..size.rows_per_file))
        } else {
            id(&mut random)
        };
        let costs = if is_present { &mut present } else { &mut absent };
        for (position, table) in ["mapped", "plain"].into_iter().enumerate() {
            if position == 1 && number >= size.queries_without {
                continue;
            }
            store.requests();
            let found = rows(&query(&session, table, &wanted).await?.collect().await?);
            assert_eq!(found.get(&wanted), all.get(&wanted), "{wanted} in {table}");
            assert_eq!(found.len(), usize::from(is_present), "{wanted} in {table}");
            costs[position].add(&store.requests());
        }
    }
    let (map_bytes, (refreshed, read)) = (store.map_bytes, store.build);
    assert_eq!(refreshed.added, size.files, "files that maps cover");
    Ok(Results { size, map_bytes, build: (refreshed.jobs, read), opening, present, absent })
}
