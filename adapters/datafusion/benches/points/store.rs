//! Parquet files of random ids on an object store, and the map of their ids.

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
use futures::TryStreamExt;
use sstfilter::{FalsePositiveRate, Filters};
use sstfilter_datafusion::{MappedTable, RefreshOptions, Refreshed, refresh_map};
use sstfilter_map::MapOptions;
use sstfilter_map_store::{MapReader, MapWriter, ReaderOptions};

use crate::AnyError;
use crate::counted::{Counted, Request};
use crate::measure::Size;

/// The folder of the maps.
pub(crate) const MAPS: &str = "maps";

/// A store with the files and the map.
pub(crate) struct Store {
    pub(crate) files: Vec<ObjectMeta>,
    pub(crate) map_bytes: u64,
    /// What the build of the map did, and the bytes that it read.
    pub(crate) build: (Refreshed, u64),
    schema: SchemaRef,
    objects: Arc<Counted>,
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
    pub(crate) async fn write(size: &Size) -> Result<Self, AnyError> {
        let objects = Arc::new(Counted::default());
        let text = |name| Field::new(name, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![text("id"), Field::new("amount", DataType::Int64, false)]));
        for file in 0..size.files {
            let path = Path::from(format!("data/{file:06}.parquet"));
            objects.put(&path, parquet(&schema, file, size)?.into()).await?;
        }
        let mut files: Vec<_> = objects.list(Some(&"data".into())).try_collect().await?;
        files.sort_by(|one, two| one.location.cmp(&two.location));
        let mut store = Self { files, map_bytes: 0, build: Default::default(), schema, objects };
        store.build_map((size.files * size.rows_per_file) as u64).await?;
        Ok(store)
    }

    /// Returns a session that caches nothing, so that each query pays all of its requests.
    fn session(&self) -> Result<SessionContext, AnyError> {
        let caches = CacheManagerConfig::default().with_metadata_cache_limit(0);
        let runtime = RuntimeEnvBuilder::new().with_cache_manager(caches).build_arc()?;
        runtime.register_object_store(url()?.as_ref(), self.objects.clone());
        Ok(SessionContext::new_with_config_rt(SessionConfig::new(), runtime))
    }

    fn table(&self) -> Result<MappedTable, AnyError> {
        Ok(MappedTable::new(Arc::clone(&self.schema), url()?, self.files.clone()))
    }

    /// Returns a session with the table `plain`, and the same with maps as `mapped`.
    pub(crate) async fn tables(&self) -> Result<SessionContext, AnyError> {
        let mut options = ReaderOptions::default();
        options.cache_bytes = 0;
        let reader = MapReader::open(self.objects.clone(), MAPS, &Filters::default(), options).await?;
        let (session, mapped) = (self.session()?, self.table()?.with_maps("id", &reader).await?);
        session.register_table("plain", Arc::new(self.table()?))?;
        session.register_table("mapped", Arc::new(mapped))?;
        Ok(session)
    }

    async fn build_map(&mut self, keys: u64) -> Result<(), AnyError> {
        let options = MapOptions::for_entries(4 * keys, FalsePositiveRate::ONE_PERCENT)?;
        let writer = MapWriter::new(self.objects.clone(), MAPS, &Filters::default(), options);
        self.requests();
        let refreshed = refresh_map(&self.session()?, &self.table()?, "id", &writer, RefreshOptions::default()).await?;
        writer.merge_all("", |_| true).await?;
        let requests = self.requests();
        let of_files = requests.iter().filter(|request| request.path.prefix_matches(&"data".into()));
        self.build = (refreshed, of_files.map(|request| request.bytes).sum());
        self.map_bytes = writer.manifest().await?.maps.iter().map(|map| map.bytes).sum();
        self.requests();
        Ok(())
    }

    /// Returns the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.objects.take()
    }
}

fn url() -> Result<ObjectStoreUrl, AnyError> {
    Ok(ObjectStoreUrl::parse("memory://files")?)
}
