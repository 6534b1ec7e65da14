//! Parquet files in memory, maps of them, and the rows that a query has.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use sstfilter::{FalsePositiveRate, Filters};
use sstfilter_datafusion::{MappedTable, TableFile};
use sstfilter_map::MapOptions;
use sstfilter_map_store::{MapReader, MapWriter, ReaderOptions, Statistics};

/// The folder of the maps of ids.
pub(crate) const MAPS: &str = "maps/id";

/// Rows of a row group.
const ROW_GROUP: usize = 4;

/// A store, a session, and a schema with the columns `id` and `amount`.
pub(crate) struct Fixture {
    pub(crate) store: Arc<InMemory>,
    pub(crate) session: SessionContext,
    pub(crate) schema: SchemaRef,
    pub(crate) filters: Filters,
}

/// A table, and the reader of its maps.
pub(crate) struct Mapped {
    pub(crate) table: MappedTable,
    reader: Option<MapReader>,
    before: Statistics,
}

impl From<MappedTable> for Mapped {
    fn from(table: MappedTable) -> Self {
        Self { table, reader: None, before: Statistics::default() }
    }
}

/// What a query has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) scans: u64,
    pub(crate) planned_files: u64,
    pub(crate) skipped_files: u64,
    pub(crate) map_answers: u64,
    pub(crate) map_reads: u64,
    pub(crate) failed_map_reads: u64,
}

pub(crate) fn url() -> ObjectStoreUrl {
    ObjectStoreUrl::parse("memory://files").unwrap()
}

/// Returns a column of text.
pub(crate) fn texts<'a>(ids: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(ids.into_iter().collect::<StringArray>())
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of_type(DataType::Utf8)
    }

    pub(crate) fn of_type(id: DataType) -> Self {
        let (store, session) = (Arc::new(InMemory::new()), SessionContext::new());
        session.register_object_store(url().as_ref(), store.clone());
        let schema =
            Arc::new(Schema::new(vec![Field::new("id", id, true), Field::new("amount", DataType::Int64, true)]));
        Self { store, session, schema, filters: Filters::default() }
    }

    /// Writes a file with several row groups.
    pub(crate) async fn put(&self, name: &str, ids: ArrayRef) {
        let amounts: ArrayRef = Arc::new((0_i64..).map(Some).take(ids.len()).collect::<Int64Array>());
        let schema = Schema::new(vec![
            Field::new("id", ids.data_type().clone(), true),
            Field::new("amount", DataType::Int64, true),
        ]);
        self.put_batch(name, &RecordBatch::try_new(Arc::new(schema), vec![ids, amounts]).unwrap()).await;
    }

    pub(crate) async fn put_batch(&self, name: &str, batch: &RecordBatch) {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(ROW_GROUP)).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        self.store.put(&path(name), writer.into_inner().unwrap().into()).await.unwrap();
    }

    pub(crate) async fn files(&self) -> Vec<ObjectMeta> {
        let mut files: Vec<_> = self.store.list(Some(&"data".into())).try_collect().await.unwrap();
        files.sort_by(|one: &ObjectMeta, two| one.location.cmp(&two.location));
        files
    }

    /// Returns a table of the files that there are now, without maps.
    pub(crate) async fn plain(&self) -> MappedTable {
        MappedTable::new(Arc::clone(&self.schema), url(), self.files().await)
    }

    /// Returns a writer of maps with the smallest pages, so that a map of few keys has several.
    pub(crate) fn writer(&self, filters: &Filters) -> MapWriter {
        let options = MapOptions::for_entries(1 << 20, FalsePositiveRate::ONE_PERCENT).unwrap();
        MapWriter::new(self.store.clone(), MAPS, filters, options.with_page_bytes(1 << 10).unwrap())
    }

    /// Returns a writer of maps of another folder.
    pub(crate) fn writer_of(&self, folder: &str) -> MapWriter {
        let options = MapOptions::for_entries(1 << 20, FalsePositiveRate::ONE_PERCENT).unwrap();
        MapWriter::new(self.store.clone(), folder, &self.filters, options)
    }

    /// Adds a map of the values that files have, as the table sees them, with the hash of `filters`. Returns its object.
    pub(crate) async fn write_map_with(&self, names: &[&str], filters: &Filters) -> Path {
        let mut files = Vec::new();
        for file in self.files().await.into_iter().filter(|file| names.iter().any(|name| file.location == path(name))) {
            let table = MappedTable::new(Arc::clone(&self.schema), url(), vec![file.clone()]);
            let rows = self.session.read_table(Arc::new(table)).unwrap().select_columns(&["id"]).unwrap();
            let mut hashes = Vec::new();
            for batch in rows.collect().await.unwrap() {
                let ids = batch.column(0);
                let keys = (0..ids.len()).filter_map(|row| key(&ScalarValue::try_from_array(ids, row).unwrap()));
                hashes.extend(keys.map(|key| filters.hash(&key)));
            }
            files.push((TableFile::from(file).id(&url(), "id", self.schema.field(0).data_type()).unwrap(), hashes));
        }
        let writer = self.writer(filters);
        let mut builder = writer.builder();
        files.into_iter().for_each(|(file, hashes)| builder.add_file(file, hashes));
        Path::from(MAPS).join(writer.add("", builder).await.unwrap().object)
    }

    pub(crate) async fn write_map(&self, names: &[&str]) -> Path {
        self.write_map_with(names, &self.filters).await
    }

    /// Returns a reader that keeps no page.
    pub(crate) async fn reader(&self) -> MapReader {
        let mut options = ReaderOptions::default();
        options.cache_bytes = 0;
        MapReader::open(self.store.clone(), MAPS, &self.filters, options).await.unwrap()
    }

    /// Returns a table of the files that there are now, with the maps that there are now.
    pub(crate) async fn mapped(&self) -> Mapped {
        self.mapped_with(self.reader().await).await
    }

    pub(crate) async fn mapped_with(&self, reader: MapReader) -> Mapped {
        let table = self.plain().await.with_maps("id", &reader).await.unwrap();
        Mapped { table, before: reader.statistics(), reader: Some(reader) }
    }

    /// Returns the rows for which the filter is true, in an order that does not depend on files.
    pub(crate) async fn rows(&self, table: impl Into<Mapped>, filter: Expr) -> (Vec<String>, Seen) {
        let Mapped { table, reader, before } = table.into();
        let table = Arc::new(table);
        let rows = self.session.read_table(table.clone()).unwrap().filter(filter).unwrap().collect().await.unwrap();
        let text = pretty_format_batches(&rows).unwrap().to_string();
        let mut lines: Vec<_> = text.lines().skip(3).filter(|line| !line.starts_with('+')).map(str::to_owned).collect();
        lines.sort();
        let (counts, after) = (table.counts(), reader.map_or(before, |reader| reader.statistics()));
        let seen = Seen {
            scans: counts.scans,
            planned_files: counts.planned_files,
            skipped_files: counts.skipped_files,
            map_answers: counts.map_answers,
            map_reads: after.requests - before.requests,
            failed_map_reads: after.failures() - before.failures(),
        };
        (lines, seen)
    }

    /// Checks that a query has the same rows with the map and without. Returns the number of rows, and what was counted
    /// with the map.
    pub(crate) async fn check(&self, filter: Expr) -> (usize, Seen) {
        let (expected, _) = self.rows(self.plain().await, filter.clone()).await;
        let (got, counts) = self.rows(self.mapped().await, filter.clone()).await;
        assert_eq!(got, expected, "{filter}");
        (got.len(), counts)
    }
}

pub(crate) fn path(name: &str) -> Path {
    Path::from(format!("data/{name}.parquet"))
}

/// The documented keys of values, written down a second time.
fn key(value: &ScalarValue) -> Option<Vec<u8>> {
    match value {
        ScalarValue::Int64(number) => number.map(|number| number.to_be_bytes().to_vec()),
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.clone().map(String::into_bytes)
        }
        ScalarValue::Binary(bytes)
        | ScalarValue::LargeBinary(bytes)
        | ScalarValue::BinaryView(bytes)
        | ScalarValue::FixedSizeBinary(_, bytes) => bytes.clone(),
        ScalarValue::UInt64(number) => number.map(|number| number.to_be_bytes().to_vec()),
        ScalarValue::Decimal128(number, ..) => number.map(|number| number.to_be_bytes().to_vec()),
        ScalarValue::Dictionary(_, value) => key(value),
        // Narrower integers, and times in their own units.
        other => key(&other.cast_to(&DataType::Int64).unwrap()),
    }
}
