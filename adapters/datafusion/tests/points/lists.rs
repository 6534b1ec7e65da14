//! A list without some keys of its file makes a map that hides them.

use std::process::Command;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::object_store::ObjectStoreExt;
use datafusion::prelude::{col, lit};
use sstfilter::FileId;
use sstfilter_datafusion::{MappedTable, StoredMap, file_id, write_key_lists};

use crate::fixture::{Fixture, MAP, texts, url};

#[tokio::test]
async fn each_file_has_a_list_named_by_its_version() {
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("a\n"), None, Some(""), Some("ä"), Some("a\n"), Some("5")])).await;
    fixture.put("two", texts([None])).await;
    let folder = tempfile::tempdir().unwrap();
    let state = fixture.session.state();
    let written = write_key_lists(&state, &fixture.plain().await, "id", folder.path()).await.unwrap();
    assert_eq!(written, 2);
    let files = fixture.files().await;
    let list = |file| {
        let id = file_id(file, "id", &DataType::Utf8).unwrap();
        folder.path().join(format!("{:#018x}.keys", id.fingerprint()))
    };
    assert_eq!(std::fs::read_to_string(list(&files[0])).unwrap(), "610a\n\t\nc3a4\n610a\n35\n");
    assert_eq!(std::fs::read_to_string(list(&files[1])).unwrap(), "");
    fixture.put("three", texts([Some("b")])).await;
    let written = write_key_lists(&state, &fixture.plain().await, "id", folder.path()).await.unwrap();
    assert_eq!(written, 1, "only the new one");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_has_no_list() {
    let fixture = Fixture::new();
    let ids: Vec<_> = (0..5000).map(|number| number.to_string()).collect();
    fixture.put("one", texts(ids.iter().map(|id| Some(id.as_str())))).await;
    let files = fixture.files().await;
    let mut bytes = fixture.store.get(&files[0].location).await.unwrap().bytes().await.unwrap().to_vec();
    // A page in the middle: the first rows can be read.
    let middle = bytes.len() / 10;
    bytes[middle..middle + 400].fill(0xff);
    fixture.store.put(&files[0].location, bytes.into()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let table = fixture.plain().await;
    write_key_lists(&fixture.session.state(), &table, "id", folder.path()).await.unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = write_key_lists(&fixture.session.state(), &table, "amounts", folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("amounts"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_replaced_has_no_list() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    fixture.put("one", texts([Some("apple")])).await;
    let table = fixture.plain().await;
    // The new contents have the same size.
    fixture.put("one", texts([Some("lemon")])).await;
    let state = fixture.session.state();
    assert_eq!(write_key_lists(&state, &table, "id", folder.path()).await.unwrap(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn calls_at_once_write_complete_lists() {
    let fixture = Fixture::new();
    let ids: Vec<_> = (0..5_000).map(|number| number.to_string()).collect();
    fixture.put("one", texts(ids[..2_000].iter().map(|id| Some(id.as_str())))).await;
    fixture.put("two", texts(ids[2_000..].iter().map(|id| Some(id.as_str())))).await;
    let table = |file| MappedTable::new(fixture.schema.clone(), url(), vec![file]);
    let (state, folder) = (fixture.session.state(), tempfile::tempdir().unwrap());
    let tables: Vec<_> = fixture.files().await.into_iter().map(table).collect();
    let write = |table| write_key_lists(&state, table, "id", folder.path());
    let written = futures::future::join(write(&tables[0]), write(&tables[1])).await;
    assert_eq!((written.0.unwrap(), written.1.unwrap()), (1, 1));
    let lists = std::fs::read_dir(folder.path()).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()));
    let mut keys: Vec<_> = lists.map(|text| text.unwrap().lines().count()).collect();
    keys.sort_unstable();
    assert_eq!(keys, [2_000, 3_000]);
}

/// The whole way: lists, the command line, an object, a table. Runs if `SSTFILTER` names the program.
#[tokio::test]
async fn the_command_line_builds_the_map_of_the_lists() {
    let Some(program) = std::env::var_os("SSTFILTER") else {
        eprintln!("skipped: SSTFILTER does not name the command line");
        return;
    };
    let fixture = Fixture::new();
    fixture.put("one", texts([Some("a\n"), Some(""), Some("apple")])).await;
    fixture.put("two", texts([Some("beet"), None])).await;
    let folder = tempfile::tempdir().unwrap();
    let (lists, map) = (folder.path().join("lists"), folder.path().join("map"));
    std::fs::create_dir(&lists).unwrap();
    write_key_lists(&fixture.session.state(), &fixture.plain().await, "id", &lists).await.unwrap();
    let mut build = Command::new(program);
    build.args(["map", "build", "--keys-format", "hex", "--id", "0x0000000000000007", "--key-lists"]).arg(&lists);
    let output = build.arg("--out").arg(&map).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.store.put(&MAP.into(), std::fs::read(&map).unwrap().into()).await.unwrap();
    let id = FileId::from_fingerprint(7);
    let map = StoredMap::open(Arc::clone(&fixture.store) as _, MAP.into(), &fixture.filters, id).await.unwrap();
    assert_eq!(map.index().files().len(), 2);
    let table = Arc::new(fixture.plain().await.with_map("id", map).unwrap());
    for (number, (key, files)) in [("a\n", 1), ("", 1), ("apple", 1), ("beet", 1), ("kiwi", 0)].into_iter().enumerate()
    {
        let before = table.counts();
        let rows = fixture.session.read_table(table.clone()).unwrap().filter(col("id").eq(lit(key))).unwrap();
        assert_eq!(rows.count().await.unwrap() as u64, files, "{key:?}");
        let counts = table.counts();
        assert_eq!(counts.planned_files - before.planned_files, files, "{key:?}");
        assert_eq!(counts.map_answers, number as u64 + 1);
    }
}
