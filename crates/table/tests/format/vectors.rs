//! The table of the test vectors, `fixtures/vectors/files.json`.

use bytes::Bytes;
use sstfilter_table::{Lookup, Table, TableBuilder, TableOptions};

use crate::common::golden::hex;
use crate::common::vectors::vectors;

// promise: stays-readable
#[test]
fn three_entries_make_the_documented_table() {
    let own = &vectors("files")["table"];
    let id = <[u8; 16]>::try_from(own.text("table_id").as_bytes()).unwrap();
    let mut builder = TableBuilder::new(Vec::new(), &TableOptions::default().with_table_id(id)).unwrap();
    for entry in own.rows("entries") {
        let key = entry.text("key").as_bytes();
        match entry.text_or_null("value") {
            Some(value) => builder.add(key, value.as_bytes()).unwrap(),
            None => builder.delete(key).unwrap(),
        }
    }
    let (written, _) = builder.finish().unwrap();
    assert_eq!(hex(&written), hex(&own.whole()));

    let table = Table::open_source(Bytes::from(own.whole()), &TableOptions::default()).unwrap();
    table.verify().unwrap();
    for entry in own.rows("entries") {
        let value = entry.text_or_null("value").map(|value| Bytes::copy_from_slice(value.as_bytes()));
        let expected = value.map_or(Lookup::Deleted, Lookup::Found);
        assert_eq!(table.get(entry.text("key").as_bytes()).unwrap(), expected, "{entry}");
    }
}
