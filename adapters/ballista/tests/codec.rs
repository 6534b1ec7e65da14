//! A table that is another one at the scheduler has other rows.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::memory::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectMeta;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use sstfilter_ballista::MapCodec;
use sstfilter_datafusion::{MappedListing, MappedTable, TableFile, decode_table, encode_table};

fn columns() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, true), Field::new("amount", DataType::Int64, true)]))
}

fn listing() -> MappedListing {
    let day = Arc::new(Field::new("day", DataType::Date32, true));
    let folder = ListingTableUrl::parse("s3://bucket/events/").unwrap();
    MappedListing::new(columns(), folder, vec![day]).unwrap().with_maps("id", "maps/events id/é".into()).unwrap()
}

#[test]
fn a_listing_keeps_its_words() {
    let listing = listing();
    let bytes = encode_table(&listing).unwrap().unwrap();
    assert!(bytes.len() < 200, "{}", bytes.len());
    let decoded = decode_table(&bytes, &listing.schema()).unwrap().unwrap();
    assert_eq!(decoded.schema(), listing.schema());
    assert_eq!(encode_table(&decoded).unwrap().unwrap(), bytes);
    assert_eq!(format!("{decoded:?}"), format!("{listing:?}"));
    // A later listing is another table.
    listing.reload();
    assert_ne!(encode_table(&listing).unwrap().unwrap(), bytes);
}

#[tokio::test]
async fn a_table_keeps_its_files_with_their_ids_and_values() {
    let meta = ObjectMeta {
        location: "data/a b/é=ü/1.parquet".into(),
        last_modified: (std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 123_456_789)).into(),
        size: 1 << 40,
        e_tag: Some("\"tag\"".to_owned()),
        version: None,
    };
    let untagged = ObjectMeta { e_tag: None, ..meta.clone() };
    let values = |day: Option<i32>| vec![ScalarValue::Date32(day), ScalarValue::UInt64(Some(u64::MAX))];
    let files = [
        TableFile::from(meta).with_partition(values(Some(20_000))),
        TableFile::from(untagged).with_partition(values(None)),
        TableFile::immutable("data/2.parquet".into(), 7).with_partition(values(Some(-1))),
    ];
    let url = ObjectStoreUrl::parse("s3://bucket").unwrap();
    let fields = [Field::new("day", DataType::Date32, true), Field::new("part", DataType::UInt64, false)];
    let table = MappedTable::new(columns(), url.clone(), files).with_partition_columns(fields.map(Arc::new).to_vec());
    let table = table.unwrap();
    let bytes = encode_table(&table).unwrap().unwrap();
    // The README counts 100 bytes for each file.
    assert!(bytes.len() < 300, "{}", bytes.len());
    let decoded = decode_table(&bytes, &table.schema()).unwrap().unwrap();
    assert_eq!(encode_table(&decoded).unwrap().unwrap(), bytes);
    let runtime = datafusion::execution::runtime_env::RuntimeEnv::default();
    runtime.register_object_store(url.as_ref(), Arc::new(datafusion::object_store::memory::InMemory::new()));
    let decoded = decoded.table(&runtime).await.unwrap();
    assert_eq!(decoded.schema(), table.schema());
    let ids = |table: &MappedTable| {
        let ids = table.files().iter().map(|file| file.id(&url, "id", &DataType::Utf8).unwrap());
        ids.map(sstfilter::FileId::fingerprint).collect::<Vec<_>>()
    };
    assert_eq!(ids(&decoded), ids(&table));
    assert_eq!(format!("{:?}", decoded.files()), format!("{:?}", table.files()));
}

#[test]
fn damaged_bytes_are_errors_and_other_tables_are_of_others() {
    let listing = listing();
    let bytes = encode_table(&listing).unwrap().unwrap();
    for end in 0..bytes.len() {
        assert!(!matches!(decode_table(&bytes[..end], &listing.schema()), Ok(Some(_))), "{end}");
    }
    assert!(decode_table(&bytes, &Arc::new(Schema::empty())).is_err());
    assert!(decode_table(b"something else", &listing.schema()).unwrap().is_none());
    let other = MemTable::try_new(columns(), vec![vec![]]).unwrap();
    assert!(encode_table(&other).unwrap().is_none());
}

#[test]
fn the_scheduler_keeps_a_table_open_for_later_queries() {
    let (codec, context, name) = (MapCodec::default(), TaskContext::default(), TableReference::bare("events"));
    let decode = |listing: &Arc<MappedListing>| {
        let mut bytes = Vec::new();
        codec.try_encode_table_provider(&name, Arc::clone(listing) as _, &mut bytes).unwrap();
        codec.try_decode_table_provider(&bytes, &name, listing.schema(), &context).unwrap()
    };
    let listing = Arc::new(listing());
    let first = decode(&listing);
    assert!(Arc::ptr_eq(&first, &decode(&listing)));
    listing.reload();
    assert!(!Arc::ptr_eq(&first, &decode(&listing)));
}
