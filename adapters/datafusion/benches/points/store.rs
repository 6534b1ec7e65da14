//! Parquet files of random ids on an S3 server, and the map of their ids.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::TableProvider;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{SessionConfig, SessionContext};
use fastrand::Rng;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use sstfilter::{FalsePositiveRate, FileId, Filters};
use sstfilter_datafusion::{MappedTable, StoredMap, write_key_lists};
use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::protocol::Filters as Policy;
use sstfilter_distributed::roles;
use sstfilter_map::{MapBuilder, MapOptions};

use crate::AnyError;
use crate::bridge::Bridge;
use crate::measure::Size;

/// The map's object.
pub(crate) const MAP: &str = "ids.map";

/// The fingerprint of the map's id.
const MAP_ID: &str = "0x00000000000051d5";

/// Uploads at a time.
const UPLOADS: usize = 8;

/// A server with the files and the map.
pub(crate) struct Store {
    pub(crate) cluster: Cluster,
    pub(crate) files: Vec<ObjectMeta>,
    pub(crate) map_bytes: u64,
    pub(crate) map_program: &'static str,
    schema: SchemaRef,
    client: Arc<dyn object_store::ObjectStore>,
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
                let path = object_store::path::Path::from(format!("data/{file:06}.parquet"));
                client.put(&path, parquet(schema, file, size)?.into()).await.map(drop).map_err(AnyError::from)
            }
        }));
        uploads.buffer_unordered(UPLOADS).try_collect::<()>().await?;
        let listed = Bridge(Arc::clone(&client));
        let mut files: Vec<_> = listed.list(Some(&"data".into())).try_collect().await?;
        files.sort_by(|one, two| one.location.cmp(&two.location));
        let mut store = Self { cluster, files, map_bytes: 0, map_program: "", schema, client };
        store.build_map().await?;
        Ok(store)
    }

    /// Returns a session that caches nothing, so that each query pays all of its requests.
    fn session(&self) -> Result<SessionContext, AnyError> {
        let caches = CacheManagerConfig::default().with_metadata_cache_limit(0);
        let runtime = RuntimeEnvBuilder::new().with_cache_manager(caches).build_arc()?;
        runtime.register_object_store(url()?.as_ref(), Arc::new(Bridge(Arc::clone(&self.client))));
        Ok(SessionContext::new_with_config_rt(SessionConfig::new(), runtime))
    }

    fn table(&self) -> Result<MappedTable, AnyError> {
        Ok(MappedTable::new(Arc::clone(&self.schema), url()?, self.files.clone()))
    }

    /// Returns a session with the table `plain`, and the same with a map as `mapped`.
    pub(crate) async fn tables(&self) -> Result<(SessionContext, Arc<MappedTable>), AnyError> {
        let bridge = Arc::new(Bridge(Arc::clone(&self.client)));
        let map = StoredMap::open(bridge, MAP.into(), &Filters::default(), map_id()?).await?;
        let (session, mapped) = (self.session()?, Arc::new(self.table()?.with_map("id", map)?));
        session.register_table("plain", Arc::new(self.table()?))?;
        session.register_table("mapped", Arc::clone(&mapped) as Arc<dyn TableProvider>)?;
        Ok((session, mapped))
    }

    async fn build_map(&mut self) -> Result<(), AnyError> {
        let folder = tempfile::tempdir()?;
        let (lists, map) = (folder.path().join("lists"), folder.path().join("map"));
        std::fs::create_dir(&lists)?;
        let session = self.session()?;
        write_key_lists(&session.state(), &self.table()?, "id", &lists).await?;
        self.map_program = if let Some(program) = std::env::var_os("SSTFILTER") {
            let mut build = Command::new(program);
            build.args(["map", "build", "--keys-format", "hex", "--id", MAP_ID, "--key-lists"]).arg(&lists);
            let output = build.arg("--out").arg(&map).output()?;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            "`sstfilter map build`"
        } else {
            std::fs::write(&map, map_of(&lists)?)?;
            "the library, because `SSTFILTER` names no command line"
        };
        let bytes = std::fs::read(&map)?;
        self.map_bytes = bytes.len() as u64;
        self.client.put(&MAP.into(), bytes.into()).await?;
        Ok(())
    }
}

fn url() -> Result<ObjectStoreUrl, AnyError> {
    Ok(ObjectStoreUrl::parse("s3://demonstration")?)
}

fn fingerprint(digits: &str) -> Result<FileId, AnyError> {
    Ok(FileId::from_fingerprint(u64::from_str_radix(digits.trim_start_matches("0x"), 16)?))
}

fn map_id() -> Result<FileId, AnyError> {
    fingerprint(MAP_ID)
}

/// Runs the command line on the lists of keys.
fn map_of(lists: &Path) -> Result<Vec<u8>, AnyError> {
    let filters = Filters::default();
    let (mut files, mut keys) = (Vec::new(), 0);
    for list in std::fs::read_dir(lists)? {
        let path = list?.path();
        let mut hashes = Vec::new();
        for line in std::fs::read_to_string(&path)?.lines() {
            let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16);
            let key: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
            hashes.push(filters.hash(&key));
        }
        keys += hashes.len() as u64;
        let name = path.file_stem().ok_or("a list without a name")?.to_string_lossy().into_owned();
        files.push((fingerprint(&name)?, hashes));
    }
    let mut builder = MapBuilder::new(&filters, MapOptions::for_entries(4 * keys, FalsePositiveRate::ONE_PERCENT)?);
    files.into_iter().for_each(|(file, hashes)| builder.add_file(file, hashes));
    let mut map = Vec::new();
    builder.finish(map_id()?, &mut map)?;
    Ok(map)
}
