//! Parquet files of random ids on an S3 server, and the map of their ids.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{SessionConfig, SessionContext};
use fastrand::Rng;
use futures::{StreamExt, TryStreamExt};
use sstfilter::{FalsePositiveRate, Filters};
use sstfilter_datafusion::{MappedTable, RefreshOptions, Refreshed, refresh_map};
use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::protocol::Filters as Policy;
use sstfilter_distributed::roles;
use sstfilter_map::MapOptions;
use sstfilter_map_store::{MapReader, MapWriter, ReaderOptions};

use crate::AnyError;
use crate::measure::Size;

/// The folder of the maps.
pub(crate) const MAPS: &str = "maps";

/// Uploads at a time.
const UPLOADS: usize = 8;

/// A server with the files and the map.
pub(crate) struct Store {
    pub(crate) cluster: Cluster,
    pub(crate) files: Vec<ObjectMeta>,
    pub(crate) map_bytes: u64,
    /// What the build of the map did, and the bytes that it read.
    pub(crate) build: (Refreshed, u64),
    schema: SchemaRef,
    client: Arc<dyn ObjectStore>,
}

/// Returns an id in the form of a random UUID.
pub(crate) fn id(random: &mut Rng) -> String {
    let (high, low) = (random.u64(..), random.u64(..));
    let groups = (high >> 32, high >> 16 & 0xffff, high & 0xfff, low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", groups.0, groups.1, groups.2, groups.3, groups.4)
}

/// Returns the ids of a file, in the order of its rows.
pub(crate) fn ids(file: usize, size: &Size) -> Vec<String> {
    let mut random = Rng::with_seed(file as u64);
    (0..size.rows_per_file).map(|_| id(&mut random)).collect()
}

fn parquet(schema: &SchemaRef, file: usize, size: &Size) -> Result<Bytes, AnyError> {
    let ids = ids(file, size);
    let first = i64::try_from(file * size.rows_per_file)?;
    let amounts = (first..).take(ids.len());
    let columns: [ArrayRef; 2] =
        [Arc::new(StringArray::from_iter_values(&ids)), Arc::new(Int64Array::from_iter_values(amounts))];
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(size.rows_per_file.div_ceil(2)));
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties.build()))?;
    writer.write(&RecordBatch::try_new(Arc::clone(schema), columns.to_vec())?)?;
    Ok(writer.into_inner()?.into())
}

impl Store {
    pub(crate) async fn start(size: &Size) -> Result<Self, AnyError> {
        let mut cluster = Cluster::start(&std::env::current_exe()?).await?;
        let config = cluster.config("points", "", Policy::None);
        let client = roles::object_store(&config.endpoint, &config.name)?;
        let text = |name| Field::new(name, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![text("id"), Field::new("amount", DataType::Int64, false)]));
        let uploads = futures::stream::iter((0..size.files).map(|file| {
            let (client, schema) = (&client, &schema);
            async move {
                let path = Path::from(format!("data/{file:06}.parquet"));
                client.put(&path, parquet(schema, file, size)?.into()).await.map(drop).map_err(AnyError::from)
            }
        }));
        uploads.buffer_unordered(UPLOADS).try_collect::<()>().await?;
        let mut files: Vec<_> = client.list(Some(&"data".into())).try_collect().await?;
        files.sort_by(|one, two| one.location.cmp(&two.location));
        let mut store = Self { cluster, files, map_bytes: 0, build: Default::default(), schema, client };
        store.build_map((size.files * size.rows_per_file) as u64).await?;
        Ok(store)
    }

    /// Returns a session that caches nothing, so that each query pays all of its requests.
    fn session(&self) -> Result<SessionContext, AnyError> {
        let caches = CacheManagerConfig::default().with_metadata_cache_limit(0);
        let runtime = RuntimeEnvBuilder::new().with_cache_manager(caches).build_arc()?;
        runtime.register_object_store(url()?.as_ref(), Arc::clone(&self.client));
        Ok(SessionContext::new_with_config_rt(SessionConfig::new(), runtime))
    }

    fn table(&self) -> Result<MappedTable, AnyError> {
        Ok(MappedTable::new(Arc::clone(&self.schema), url()?, self.files.clone()))
    }

    /// Returns a session with the table `plain`, and the same with maps as `mapped`.
    pub(crate) async fn tables(&self) -> Result<SessionContext, AnyError> {
        let mut options = ReaderOptions::default();
        options.cache_bytes = 0;
        let reader = MapReader::open(Arc::clone(&self.client), MAPS, &Filters::default(), options).await?;
        let (session, mapped) = (self.session()?, self.table()?.with_maps("id", &reader).await?);
        session.register_table("plain", Arc::new(self.table()?))?;
        session.register_table("mapped", Arc::new(mapped))?;
        Ok(session)
    }

    async fn build_map(&mut self, keys: u64) -> Result<(), AnyError> {
        let options = MapOptions::for_entries(4 * keys, FalsePositiveRate::ONE_PERCENT)?;
        let writer = MapWriter::new(Arc::clone(&self.client), MAPS, &Filters::default(), options);
        let before = self.cluster.requests()?.len();
        let refreshed = refresh_map(&self.session()?, &self.table()?, "id", &writer, RefreshOptions::default()).await?;
        writer.merge_all("", |_| true).await?;
        let requests = self.cluster.requests()?;
        let of_files = requests[before..].iter().filter(|request| request.key.starts_with("data/"));
        self.build = (refreshed, of_files.map(|request| request.bytes_sent).sum());
        self.map_bytes = writer.manifest().await?.maps.iter().map(|map| map.bytes).sum();
        Ok(())
    }
}

fn url() -> Result<ObjectStoreUrl, AnyError> {
    Ok(ObjectStoreUrl::parse("s3://demonstration")?)
}
