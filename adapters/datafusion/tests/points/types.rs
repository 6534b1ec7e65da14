//! A query lost rows because the key of a literal was not that of an equal value.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::prelude::{col, lit};

use crate::fixture::{Fixture, texts};

/// Each value of each file is found, in its own file only.
async fn check_values(column: DataType, files: [ArrayRef; 2]) {
    let fixture = Fixture::of_type(column.clone());
    fixture.put("one", Arc::clone(&files[0])).await;
    fixture.put("two", Arc::clone(&files[1])).await;
    fixture.write_map(&["one", "two"]).await;
    for values in files {
        let values = cast(&values, &column).unwrap();
        for row in 0..values.len() {
            let value = ScalarValue::try_from_array(&values, row).unwrap();
            let (found, counts) = fixture.check(col("id").eq(lit(value.clone()))).await;
            assert_eq!((found, counts.planned_files), (1, 1), "{value:?} in {column}");
        }
    }
}

#[tokio::test]
async fn text_and_bytes_of_each_layout_are_keys() {
    let texts =
        || [texts([Some("a"), Some(""), Some("a ")]), texts([Some("ab"), Some("A"), Some("longer than a view")])];
    let types = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ];
    for column in types {
        // Files whose own type is that of the table, and files of another one.
        let own = texts().map(|values| cast(&values, &column).unwrap());
        check_values(column.clone(), own).await;
        check_values(column, texts()).await;
    }
    let four = |texts: [&str; 2]| {
        let bytes: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        cast(&cast(&bytes, &DataType::Binary).unwrap(), &DataType::FixedSizeBinary(4)).unwrap()
    };
    check_values(DataType::FixedSizeBinary(4), [four(["abcd", "\0\0\0\0"]), four(["abce", "\0\0\0\x01"])]).await;
}

#[tokio::test]
async fn numbers_of_64_bits_are_keys_whatever_the_file_stores() {
    let files = || -> [ArrayRef; 2] {
        [Arc::new(Int64Array::from(vec![0, -1, i64::MIN])), Arc::new(Int64Array::from(vec![1, 256, i64::MAX]))]
    };
    check_values(DataType::Int64, files()).await;
    let narrow: [ArrayRef; 2] = [Arc::new(Int32Array::from(vec![0, -1])), Arc::new(Int32Array::from(vec![1, 256]))];
    check_values(DataType::Int64, narrow).await;
    let fixture = Fixture::of_type(DataType::Int64);
    for (name, values) in ["one", "two"].into_iter().zip(files()) {
        fixture.put(name, values).await;
    }
    fixture.write_map(&["one", "two"]).await;
    for literal in [lit(1_i32), lit(1_u8), lit(1.0), lit("1"), lit(256_i64), lit(u64::MAX), lit(0.5), lit(-0.0)] {
        fixture.check(col("id").eq(literal)).await;
    }
}

#[tokio::test]
async fn values_of_each_type_are_hashed_by_what_they_mean() {
    let numbers =
        || -> [ArrayRef; 2] { [Arc::new(Int64Array::from(vec![0, 7])), Arc::new(Int64Array::from(vec![1, 100]))] };
    let zone = Some("Europe/Berlin".into());
    for column in [
        DataType::Int8,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt64,
        DataType::Date64,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, zone),
        DataType::Decimal128(20, 3),
    ] {
        check_values(column.clone(), numbers().map(|values| cast(&values, &column).unwrap())).await;
    }
    let days = numbers().map(|values| cast(&cast(&values, &DataType::Int32).unwrap(), &DataType::Date32).unwrap());
    check_values(DataType::Date32, days).await;
    let large: [ArrayRef; 2] =
        [Arc::new(UInt64Array::from(vec![u64::MAX, 1])), Arc::new(UInt64Array::from(vec![1 << 63, 2]))];
    check_values(DataType::UInt64, large).await;
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    check_values(dictionary, [texts([Some("a"), Some("")]), texts([Some("b"), Some("A")])]).await;
}

#[tokio::test]
async fn columns_of_other_types_are_refused() {
    let refused: [ArrayRef; 2] =
        [Arc::new(Float64Array::from(vec![0.0, -0.0])), Arc::new(BooleanArray::from(vec![true]))];
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("a")])).await;
    fixture.write_map(&["one"]).await;
    for values in refused {
        let other = Fixture::of_type(values.data_type().clone());
        let error = other.plain().await.with_maps("id", &fixture.reader().await).await.unwrap_err().to_string();
        assert!(error.contains("expected text, bytes, integers"), "{error}");
    }
    assert!(fixture.plain().await.with_maps("no such column", &fixture.reader().await).await.is_err());
}

#[tokio::test]
async fn a_map_of_another_column_or_of_values_read_as_another_type_covers_no_file() {
    let fixture = Fixture::of_type(DataType::Int64);
    fixture.put("one", Arc::new(Int64Array::from(vec![5]))).await;
    fixture.put("two", Arc::new(Int64Array::from(vec![6]))).await;
    fixture.write_map(&["one", "two"]).await;
    // The map has the bytes of numbers, and this table compares their digits.
    let digits = Fixture { schema: Fixture::new().schema, ..fixture };
    let (found, counts) = digits.check(col("id").eq(lit("5"))).await;
    assert_eq!((found, counts.skipped_files), (1, 0));
    let numbers = Fixture { schema: Fixture::of_type(DataType::Int64).schema, ..digits };
    assert_eq!(numbers.check(col("id").eq(lit(5_i64))).await.1.skipped_files, 1);
    let table = numbers.plain().await.with_maps("amount", &numbers.reader().await).await.unwrap();
    let (rows, counts) = numbers.rows(table, col("amount").eq(lit(0_i64))).await;
    assert_eq!((rows.len(), counts.skipped_files), (2, 0));
}

#[tokio::test]
async fn a_file_without_the_column_has_no_keys() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("a")])).await;
    let amounts: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("amount", amounts)]).unwrap();
    let mut writer = datafusion::parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    datafusion::object_store::ObjectStoreExt::put(&*fixture.store, &crate::fixture::path("without"), bytes.into())
        .await
        .unwrap();
    fixture.write_map(&["one", "without"]).await;
    let (found, counts) = fixture.check(col("id").eq(lit("a"))).await;
    assert_eq!((found, counts.planned_files), (1, 1));
    assert_eq!(fixture.check(col("id").is_null()).await.0, 2);
}
