//! A query lost rows because its filter was true for rows without one of the literals.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::prelude::{Expr, cast, col, lit};

use crate::fixture::{Fixture, texts};

async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("a"), Some("a "), None, Some("A"), Some("5")])).await;
    fixture.put("two", texts([Some("b"), Some("05"), Some(""), Some("ä"), Some("a\u{308}"), Some("5.0")])).await;
    fixture.put("three", texts([None, None])).await;
    fixture.write_map(&["one", "two", "three"]).await;
    fixture
}

fn null() -> Expr {
    lit(ScalarValue::Utf8(None))
}

#[tokio::test]
async fn filters_that_name_values_skip_files() {
    let fixture = fixture().await;
    let id = || col("id");
    let is = |text: &str| col("id").eq(lit(text));
    let filters = [
        (is("a"), 1),
        (lit("b").eq(id()), 1),
        (is("a "), 1),
        (is("A"), 1),
        (is(""), 1),
        (is("ä"), 1),
        (is("a\u{308}"), 1),
        (is("a").or(is("b")), 2),
        (is("a").and(col("amount").eq(lit(0_i64))), 1),
        (is("a").and(is("b")), 0),
        (is("a").or(is("kiwi").and(col("amount").gt(lit(0_i64)))), 1),
        (is("a").and(id().is_not_null()), 1),
        (id().in_list(vec![lit("a"), lit("kiwi")], false), 1),
        (id().in_list(vec![lit("a"), lit("b")], false).and(id().in_list(vec![lit("b"), lit("kiwi")], false)), 1),
        // Longer lists are not rewritten to comparisons.
        (id().in_list(["a", "kiwi", "fig", "date", "lime"].map(lit).to_vec(), false), 1),
        (is("kiwi"), 0),
    ];
    for (filter, files) in filters {
        let (_, counts) = fixture.check(filter.clone()).await;
        assert_eq!(counts.planned_files, files, "{filter}: {counts:?}");
    }
}

#[tokio::test]
async fn a_limit_counts_rows_that_the_filter_keeps() {
    let fixture = fixture().await;
    let table = std::sync::Arc::new(fixture.mapped().await.table);
    let rows = fixture.session.read_table(table).unwrap().filter(col("id").eq(lit("ä"))).unwrap();
    assert_eq!(rows.limit(0, Some(1)).unwrap().count().await.unwrap(), 1, "the fourth row of its file");
}

#[tokio::test]
async fn filters_that_are_true_for_other_values_skip_none() {
    let fixture = fixture().await;
    let id = || col("id");
    let filters = [
        id().not_eq(lit("a")),
        id().gt_eq(lit("a")),
        id().between(lit("a"), lit("b")),
        id().like(lit("a%")),
        id().is_null(),
        id().in_list(vec![lit("a")], true),
        !id().eq(lit("a")),
        id().eq(lit("a")).or(id().is_null()),
        id().eq(lit("a")).or(col("amount").gt(lit(3_i64))),
        id().eq(lit("a")).is_not_true(),
        id().eq(id()),
        id().eq(cast(col("amount"), DataType::Utf8)),
        id().in_list(vec![lit("a"), null()], false),
        id().in_list(vec![lit("a"), cast(col("amount"), DataType::Utf8)], false),
        col("amount").eq(lit(1_i64)),
        lit(true),
    ];
    for filter in filters {
        fixture.check(filter).await;
    }
    assert_eq!(fixture.check(id().not_eq(lit("a"))).await.1.skipped_files, 0);
    assert_eq!(fixture.check(col("amount").eq(lit(1_i64))).await.1.map_reads, 0);
}

#[tokio::test]
async fn no_literal_is_compared_across_types() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("5"), Some("6")])).await;
    fixture.put("two", texts([Some("05"), Some("5.0"), None])).await;
    fixture.write_map(&["one", "two"]).await;
    let number = cast(col("id"), DataType::Float64);
    assert_eq!(fixture.check(number.clone().eq(lit(5.0))).await.0, 3, "numbers are equal");
    assert_eq!(fixture.check(number.in_list(vec![lit(5.0), lit(6.0)], false)).await.0, 4);
    let large = lit(ScalarValue::LargeUtf8(Some("5".to_owned())));
    let view = lit(ScalarValue::Utf8View(Some("5".to_owned())));
    for (literal, found) in [(lit(5.0), 3), (large, 1), (view, 1), (null(), 0)] {
        assert_eq!(fixture.check(col("id").eq(literal.clone())).await.0, found, "{literal}");
    }
}

#[tokio::test]
async fn values_with_more_pages_than_files_read_no_page() {
    let fixture = Fixture::new();
    let ids: Vec<_> = (0..3000).map(|number| number.to_string()).collect();
    fixture.put("one", texts(ids.iter().map(|id| Some(id.as_str())))).await;
    fixture.write_map(&["one"]).await;
    let wanted = |count: usize| col("id").in_list(ids[..count].iter().map(|id| lit(id.as_str())).collect(), false);
    let (found, counts) = fixture.check(wanted(5)).await;
    assert_eq!((found, counts.map_reads, counts.planned_files), (5, 0, 1));
    assert_eq!(fixture.check(wanted(1)).await.1.map_reads, 1);
}
