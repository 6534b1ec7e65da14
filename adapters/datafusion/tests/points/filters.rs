//! A query lost rows because its filter was true for rows without one of the literals.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{ScalarValue, ToDFSchema};
use datafusion::logical_expr::{Operator, binary_expr};
use datafusion::prelude::{Expr, case, cast, col, lit, when};
use fastrand::Rng;
use sstfilter_datafusion::{RefreshOptions, refresh_map};

use crate::fixture::{Fixture, path, texts};

/// Predicates of the random test; a hundred thousand with `SSTFILTER_LONG`.
fn predicates() -> usize {
    if std::env::var_os("SSTFILTER_LONG").is_some() { 100_000 } else { 5_000 }
}

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
    let unknown = || lit(ScalarValue::Boolean(None));
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
        (id().in_list(vec![lit("a"), null()], false), 1),
        (is("a").or(unknown()), 1),
        (is("a").and(unknown()), 0),
        (binary_expr(id(), Operator::IsNotDistinctFrom, lit("a")), 1),
        (is("a").is_true(), 1),
        (when(col("amount").gt(lit(0_i64)), is("a")).otherwise(is("b")).unwrap(), 2),
        (when(is("a"), lit(true)).end().unwrap(), 1),
        // Equal values of both files, without a map of the amount.
        (is("a").and(col("amount").eq(lit(0_i64))).or(is("kiwi").and(col("amount").eq(lit(1_i64)))), 1),
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
        binary_expr(id(), Operator::IsNotDistinctFrom, null()),
        binary_expr(id(), Operator::IsDistinctFrom, lit("a")),
        !id().in_list(vec![lit("a"), null()], false),
        id().eq(lit("a")).is_unknown(),
        id().eq(lit("a")).is_not_false(),
        when(id().eq(lit("a")), lit(false)).otherwise(lit(true)).unwrap(),
        case(id().eq(lit("a"))).when(lit(false), lit(true)).end().unwrap(),
        // Longer lists are not rewritten to comparisons.
        id().in_list(
            [lit("a"), cast(col("amount"), DataType::Utf8), lit("b"), lit("5.0"), lit("kiwi")].to_vec(),
            false,
        ),
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

/// A predicate of up to four levels, of columns with a map and without.
fn random_predicate(random: &mut Rng, depth: usize) -> Expr {
    let number =
        |random: &mut Rng| if random.u8(..9) == 0 { ScalarValue::Int64(None) } else { random.i64(..25).into() };
    let column = |random: &mut Rng| col(["id", "amount", "other"][random.usize(..3)]);
    let part = |random: &mut Rng| random_predicate(random, depth - 1);
    match random.u8(..if depth == 0 { 6 } else { 15 }) {
        0 | 1 => column(random).eq(lit(number(random))),
        2 => {
            let mut list: Vec<_> = (0..4).map(|_| lit(number(random))).collect();
            if random.u8(..4) == 0 {
                list.push(column(random));
            }
            column(random).in_list(list, random.u8(..4) == 0)
        }
        3 => {
            let operators = [Operator::NotEq, Operator::Lt, Operator::IsNotDistinctFrom, Operator::IsDistinctFrom];
            binary_expr(column(random), operators[random.usize(..4)], lit(number(random)))
        }
        4 => column(random).is_null(),
        5 => lit([ScalarValue::Boolean(None), true.into(), false.into()][random.usize(..3)].clone()),
        6..=8 => part(random).and(part(random)),
        9 | 10 => part(random).or(part(random)),
        11 => !part(random),
        12 => [Expr::is_true, Expr::is_false, Expr::is_not_true, Expr::is_unknown][random.usize(..4)](part(random)),
        13 => case(part(random)).when(lit(random.bool()), part(random)).end().unwrap(),
        _ => when(part(random), part(random)).otherwise(part(random)).unwrap(),
    }
}

/// Plain evaluation of the rows of each file is what its place in the plan must agree with.
#[tokio::test]
async fn no_file_with_a_row_is_excluded_by_a_random_predicate() {
    let mut random = Rng::with_seed(7);
    let fixture = Fixture::of_type(DataType::Int64);
    let fields = ["id", "amount", "other"].map(|name| Field::new(name, DataType::Int64, true)).to_vec();
    let fixture = Fixture { schema: Arc::new(Schema::new(fields)), ..fixture };
    let mut files = Vec::new();
    for file in 0..12 {
        let rows = random.usize(1..4);
        let mut column = || -> ArrayRef {
            Arc::new((0..rows).map(|_| (random.u8(..5) > 0).then(|| random.i64(..25))).collect::<Int64Array>())
        };
        let batch = RecordBatch::try_new(fixture.schema.clone(), vec![column(), column(), column()]).unwrap();
        fixture.put_batch(&format!("{file:02}"), &batch).await;
        files.push(batch);
    }
    let (id, amount) = (fixture.writer(&fixture.filters), fixture.writer_of("maps/amount"));
    let mut table = fixture.plain().await;
    for (column, writer) in [("id", &id), ("amount", &amount)] {
        refresh_map(&fixture.session, &table, column, writer, RefreshOptions::default()).await.unwrap();
        table = table.with_maps(column, &writer.reader().await.unwrap()).await.unwrap();
    }
    let (state, schema) = (fixture.session.state(), table.schema().to_dfschema().unwrap());
    // Both values of a row.
    let of_row = |rows: &RecordBatch| {
        let value = |column: usize| ScalarValue::try_from_array(rows.column(column), 0).unwrap();
        [
            col("id").eq(lit(value(0))).and(col("amount").eq(lit(value(1)))),
            col("id").eq(lit(value(0))).or(col("amount").eq(lit(value(1)))),
        ]
    };
    let mut filters: Vec<_> = files.iter().flat_map(of_row).collect();
    filters.extend((0..predicates()).map(|_| random_predicate(&mut random, 3)));
    let mut excluded = 0;
    for (at, filter) in filters.into_iter().enumerate() {
        let planned = table.files_for(&state, std::slice::from_ref(&filter)).await.unwrap();
        let planned: Vec<_> = planned.into_iter().map(|file| file.meta().location.clone()).collect();
        assert!(at >= 2 * files.len() || planned.len() < files.len(), "{filter}");
        let plain = state.create_physical_expr(filter.clone(), &schema).unwrap();
        for (file, rows) in files.iter().enumerate() {
            let is_true = plain.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap();
            let has_rows = is_true.as_boolean().true_count() > 0;
            let is_planned = planned.contains(&path(&format!("{file:02}")));
            assert!(is_planned || !has_rows, "{filter}: file {file}");
            excluded += usize::from(!is_planned);
        }
    }
    assert!(excluded > 2 * predicates(), "{excluded}: the maps were not used");
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
